"""What figures show: names that can be told apart, a look for each method, and how much is left out."""

import re
from pathlib import Path
from typing import Any

from domadapt.reporting.plots import line_looks, palette, pooled_bins, wrap_name
from domadapt.reporting.sections import calibration
from domadapt.reporting.target_card import estimates
from domadapt.runs.metrics import Expected
from domadapt.runs.target_card import TargetCard, read_card, write_card
from tests.support import grouped, make_metrics


def test_long_names_stay_apart_in_figures() -> None:
    """Of names without a space nothing was left but an ellipsis, and of settings not what differs."""
    names = [f"recipe (adaptation.self_training.weight={n})" for n in (1, 2)] + ["m" * 31, "電影" * 20]
    shown = [wrap_name(name, 30, 1) for name in names]
    assert len({*shown}) == 4 and all(10 < len(name) <= 30 and "\n" not in name for name in shown)
    assert "".join(wrap_name("m" * 400, 20).split("\n")).count("m") == 58


def test_curves_of_one_colour_differ_in_stroke() -> None:
    """There are eight colours: methods beyond, and two controls of one, drew the same line."""
    controls = {"benchmark": {"controls": {"m0": ["permuted", "linear"]}}}
    names = ["source_only", *(f"m{i}" for i in range(12)), "permuted", "linear"]
    (pair,) = grouped([make_metrics(name, seed, 0.5, config=controls) for name in names for seed in (1, 2, 3)])
    looks = line_looks(pair.methods, palette([pair]))
    assert len({tuple(look.values()) for look in looks}) == len(names)


def test_estimates_show_every_method_and_count_models(tmp_path: Path) -> None:
    """With five seeds the figure had six rows, five of them of source_only."""
    about: dict[str, Any] = {"source": "camera", "target": "laptop", "task": "extraction", "headline": "span_f1"}
    about |= dict.fromkeys(("dev_texts", "source_texts", "steps", "epochs", "texts", "empty"), 50)
    about |= {"kinds": (), "samples": (), "backbone": "minilm", "source_dev": 0.7, "expected": Expected(0.5, 0.4, 0.6)}
    runs = []
    for method in ("source_only", "recipe"):
        for seed in range(1, 6):
            folder = tmp_path / f"{method}{seed}"
            folder.mkdir()
            write_card(TargetCard(key=folder.name, method=method, seed=seed, **about), folder)
            runs.append(make_metrics(method, seed, None, folder=str(folder)))
    (figure,) = estimates(grouped(runs))
    assert re.findall(r">laptop: (\w+)<", figure.svg) == ["source_only", "recipe"]
    assert figure.caption.endswith(" Shown: 2 of 10 models, one seed of each method.")
    (folder / "card.json").write_text("[]")  # another program's: no reason to have no report
    assert read_card(folder) is None


def test_seeds_bins_are_pooled_by_their_counts() -> None:
    def run(seed: int, *parts: tuple[float, float, int]) -> Any:
        bins = [{"confidence": c, "accuracy": a, "count": n} for c, a, n in parts]
        return make_metrics("lisa", seed, 0.5, calibration={"error": 0.25, "bins": bins})

    (pair,) = grouped([run(1, (0.5, 0.0, 0), (0.75, 0.5, 1), (1.0, 1.0, 4)), run(2, (0.75, 1.0, 3))])
    assert pooled_bins(pair.methods[0]) == [(0.75, 0.875, 4), (1.0, 1.0, 4)]
    _, table = calibration(pair, palette([pair]))
    assert table.rows == [["lisa", "25.0", "-", "-", "-", "-", "8"]]
