"""Finished runs as two tidy files: ``python -m benchmarks.collect RUNS_FOLDER ... results/NAME.csv [--commit HASH]``.

NAME.csv has a row a run: pair, method, seed, scores, costs, and what made them. NAME.gains.csv has a row a comparison:
each method against source_only and against its controls, on each pair and over all pairs, by each score, with 95 %
intervals and p-values. Scores and gains are in percent. Nothing in them names a folder.

CSVs of earlier runs may stand among the folders: their rows are of other seeds, whose folders are gone. Gains are then
known by scores alone, and their intervals are over seeds.
"""

import argparse
import csv
import io
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from domadapt.analysis.expected import ESTIMATE, KNOWN
from domadapt.analysis.expected import interval as expected_interval
from domadapt.runs.groups import MethodRuns, Pair, group, read_runs, reference
from domadapt.runs.key import is_adapted
from domadapt.runs.metrics import Metrics
from domadapt.statistics.compare import ScoredPair, compare, gain_and_gap, read_scores, score_names, share
from domadapt.statistics.resampling import Interval, Mean, Significance, interval, mean_over_pairs, plus

Row = dict[str, Any]
ALL = "all pairs"  # in the column `pair` of what is over pairs
ABOUT = ("pair", "method", "role", "seed")
COSTS = ("epochs", "target_labels", "train_seconds", "seconds")
CHOSEN = ("validator", "epoch", "regret", "source_test", "expected", "expected_low", "expected_high")
MADE = ("decoding", "backbone", "precision", "threads", "processor", "network", "commit")
GAINS = ("score", "pair", "method", "other", "pairs", "seeds", "before", "after", "gain", "low", "high", "over",
         "p_some_pair", "p_other_pairs", "gap_closed", "gap_low", "gap_high")  # fmt: skip


def gain_rows(pairs: Sequence[Pair], names: Iterable[str]) -> list[Row]:
    """One row a comparison and score; p-values only of the headline over pairs, after Holm's correction."""
    known = [read_scores(pair, all(run.folder for run in pair.runs))[0] for pair in pairs]
    names, tests = list(names), _tests(pairs)
    rows = []
    for method, other in _compared(pairs):
        for name in names:
            found = [each for one in known if (each := _gain(one, method, other, name))]
            rows += [row for row, _ in found]
            if len(found) > 1:
                headline = all(pair.headline == name for pair in pairs)
                rows.append(_over_pairs(known, method, other, name, found, tests if headline else {}))
    return rows


def read(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV; none where there is no such file."""
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    return list(csv.DictReader(io.StringIO(text)))


def write(path: Path, rows: Iterable[Row], columns: Iterable[str]) -> None:
    """A CSV with these columns; what a row lacks is left empty."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(columns), lineterminator="\n", extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)


def pairs_of(rows: Sequence[Row], names: Sequence[str]) -> list[Pair]:
    """Pairs as rows of CSVs have them, by these scores, of which the first is the headline."""
    pairs = []
    for pair in sorted({row["pair"] for row in rows}):
        runs: dict[tuple[str, str], list[Metrics]] = {}
        for row in sorted((row for row in rows if row["pair"] == pair), key=lambda row: int(row["seed"])):
            scores = {name: float(row[name]) / 100 for name in names if row.get(name)}
            about = {"method": row["method"], "role": row["role"], "seed": int(row["seed"]), "headline": names[0]}
            run = Metrics(**about, target_test=scores, training=row["network"])
            runs.setdefault((run.method, run.role), []).append(run)
        pairs.append(Pair(pair, names[0], "", tuple(MethodRuns(*one, tuple(same)) for one, same in runs.items())))
    return pairs


def _run(pair: str, method: MethodRuns, run: Metrics, commit: str) -> Row:
    """Its row, with scores on the target test, other than supports."""
    config, hardware, expected = run.config, run.hardware, _expected(run)
    scores = {name: value for name, value in (run.target_test or {}).items() if not name.endswith("_support")}
    task = config.get("task") or {}
    weight = task.get("transition_weight")
    taken = ("epochs", "extra_epochs") if is_adapted(config) else ("epochs",)
    epochs = sum((config.get("trainer") or {}).get(name) or 0 for name in taken)
    decoding = f"Viterbi {weight}" if weight else "word by word"
    training = sum(run.seconds.get(stage, 0.0) for stage in ("build", "prepare", "fit"))
    return {
        "pair": pair, "method": method.name, "role": method.role, "seed": run.seed,
        **{name: _percent(value) for name, value in scores.items()},
        "epochs": epochs, "target_labels": config.get("target_labels") or "",
        "train_seconds": round(training), "seconds": round(sum(run.seconds.values())),
        "validator": run.selection.validator, "epoch": run.selection.epoch, "regret": _percent(run.selection.gap),
        "source_test": _percent((run.source_test or {}).get(run.headline)),
        **expected,
        "decoding": decoding if run.task == "extraction" else "",
        "backbone": Path(str((config.get("backbone") or {}).get("name", ""))).name,
        "precision": hardware.get("precision"), "threads": hardware.get("threads"),
        "processor": hardware.get("name"), "network": (run.training or run.ceiling or run.key or "")[:8],
        "commit": commit,
    }  # fmt: skip


def _expected(run: Metrics) -> Row:
    """The score to expect as today's constants have it: runs may be older than these."""
    known = KNOWN["token" if run.task == "extraction" else "sequence"]
    if run.expected is None or ESTIMATE not in run.expected.estimates:
        return {}
    found = run.expected.estimates[ESTIMATE][run.headline] - known.bias
    low, high = expected_interval(found, [found, found], known.spread)
    return {"expected": _percent(found), "expected_low": _percent(low), "expected_high": _percent(high)}


def _compared(pairs: Sequence[Pair]) -> Iterator[tuple[str, str]]:
    """Every method with source_only, and with each of its controls."""
    methods = {method.name: method for pair in pairs for method in pair.methods}
    for method in methods.values():
        if method.name != "source_only":
            yield method.name, "source_only"
        yield from ((method.name, control) for control in method.controls if control in methods)


def _gain(one: ScoredPair, method: str, other: str, name: str) -> tuple[Row, Mean] | None:
    """One comparison on one pair; None where the pair has not both with that score."""
    own = next((m for m in one.pair.methods if m.name == method), None)
    if own is None:
        return None
    named = next((m for m in one.pair.methods if m.name == other), None)
    base = named or (reference(one.pair, own, other) if other == "source_only" else None)
    seeds = one.seeds(own, base, name=name) if base else []
    if base is None or not seeds:
        return None
    after, before = (one.mean_over(m, seeds, name, (own, base)) for m in (own, base))
    mean = plus(after, before, -1.0)
    row = {"score": name, "pair": one.pair.name, "method": method, "other": other, "pairs": 1, "seeds": len(seeds)}
    row |= {"before": _percent(before.value), "after": _percent(after.value), **_ends(interval(mean))}
    if other == "source_only":
        row |= _closed(share(name, [gain_and_gap(one, own, name)]).value)
    return row, mean


def _over_pairs(
    known: Sequence[ScoredPair],
    method: str,
    other: str,
    name: str,
    found: Sequence[tuple[Row, Mean]],
    tests: Mapping[tuple[str, str], tuple[Significance, Significance]],
) -> Row:
    rows, means = zip(*found, strict=True)
    seeds = [row["seeds"] for row in rows]
    row: Row = {"score": name, "method": method, "other": other, "pair": ALL, "pairs": len(rows)}
    row["seeds"] = "-".join(map(str, dict.fromkeys((min(seeds), max(seeds)))))
    row |= {end: round(sum(one[end] for one in rows) / len(rows), 2) for end in ("before", "after")}
    row |= _ends(interval(mean_over_pairs(means)))
    if (method, other) in tests:
        some, others = tests[method, other]
        row |= {"p_some_pair": _p(some), "p_other_pairs": _p(others)}
    if other == "source_only":
        own = [(one, m) for one in known for m in one.pair.methods if m.name == method]
        row |= _closed(share(name, [gain_and_gap(one, m, name) for one, m in own]).value)
    return row


def _tests(pairs: Sequence[Pair]) -> dict[tuple[str, str], tuple[Significance, Significance]]:
    """Permutation tests over runs and over pairs, of the headline score."""
    overall = compare(pairs, predictions=False).overall
    sides = [(one.method, side) for one in overall for side in one.differences]
    return {(name, side.other): (side.retraining, side.new_data) for name, side in sides}


def _ends(value: Interval) -> Row:
    ends = {"gain": value.mean, "low": value.low, "high": value.high}
    return {**{name: _percent(end) for name, end in ends.items()}, "over": value.units}


def _closed(value: Interval | None) -> Row:
    if value is None:
        return {}
    return {"gap_closed": _percent(value.mean), "gap_low": _percent(value.low), "gap_high": _percent(value.high)}


def _p(test: Significance) -> float | None:
    return None if test.p_holm is None else round(test.p_holm, 4)


def _percent(value: float | None) -> float | None:
    return None if value is None else round(100 * value, 2)


def commit() -> str:
    """Of the checkout; empty outside one, with a plus where files have changed since."""
    git = ["git", "-C", str(Path(__file__).parents[1])]
    found = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    if found.returncode:
        return ""
    changed = subprocess.run([*git, "diff", "--quiet", "HEAD", "--", "domadapt", "conf"], check=False).returncode
    return found.stdout.strip() + "+" * bool(changed)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.collect", description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path, help="folders of finished runs, and CSVs of earlier ones")
    parser.add_argument("output", type=Path, help="CSV to write; its gains stand beside it")
    parser.add_argument("--scores", nargs="+", default=["span_f1"], help="that CSVs of earlier runs are compared by")
    parser.add_argument("--commit", default=None, help="of the code that made the runs; by default the checkout's")
    given = parser.parse_args(arguments)
    if given.output.suffix != ".csv":
        parser.error(f"{given.output}: expected a name that ends in .csv")
    tables = [path for path in given.runs if path.suffix == ".csv"]
    earlier = [row for path in tables for row in read(path)]
    folders = [path for path in given.runs if path not in tables]
    pairs = group(read_runs(folders).runs) if folders else []
    made_by = commit() if given.commit is None else given.commit
    runs = [_run(pair.name, method, run, made_by) for pair in pairs for method in pair.methods for run in method.runs]
    rows = [*earlier, *runs]
    scores = [name for row in rows for name in row if name not in (*ABOUT, *COSTS, *CHOSEN, *MADE)]
    used = [name for name in (*COSTS, *CHOSEN, *MADE) if any(row.get(name) not in (None, "") for row in rows)]
    write(given.output, rows, (*ABOUT, *dict.fromkeys(scores), *used))
    gains = given.output.with_suffix(".gains.csv")
    names = given.scores if earlier else dict.fromkeys(name for pair in pairs for name in score_names(pair))
    write(gains, gain_rows(pairs_of(rows, given.scores) if earlier else pairs, names), GAINS)
    print(
        f"{given.output} has {len(rows)} runs of {len({row['pair'] for row in rows})} pairs; {gains} compares them",
        file=sys.stderr,
    )


if __name__ == "__main__":
    main()
