"""``parser=biaffine``: trained, saved, found again by its weights, and the same whatever stands beside a text."""

import json
import logging
from pathlib import Path

import numpy as np
import pytest
import torch

from domadapt.config.compose import compose
from domadapt.config.instantiate import make
from domadapt.data.domains import UnlabelledText, unlabelled
from domadapt.models.biaffine import LABELS, WEIGHTS, BiaffineNetwork, load_biaffine
from domadapt.models.biaffine_batches import MOST_PIECES, MOST_WORDS, windows
from domadapt.models.biaffine_parser import BiaffineParser
from domadapt.models.pretrained import MINILM, load_tokenizer
from domadapt.models.train_biaffine import SCORES, main
from domadapt.runs.key import cell_key
from domadapt.syntax.parser import SpacyParser
from tests.syntax.test_treebank import TREES, trees


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the command makes of a treebank of three sentences."""
    folder, treebank = tmp_path_factory.mktemp("trained") / "biaffine", tmp_path_factory.mktemp("treebank")
    for split in ("train", "dev", "test"):
        trees(treebank, f"en_ewt-ud-{split}.conllu")
    main(["--treebank", str(treebank), "--output", str(folder), "--epochs", "25", "--device", "cpu"])
    return folder


def parser_of(folder: Path) -> BiaffineParser:
    return BiaffineParser(folder, SpacyParser(), "cpu")


def test_the_command_learns_and_scores(trained: Path) -> None:
    """Of what it was trained on it knows every tag; its file holds no encoder but what changed of it."""
    scores = json.loads((trained / SCORES).read_text())
    assert scores["scores"]["dev"]["gold"]["tag"] > 60
    assert scores["scores"]["dev"]["gold"]["uas"] > 50
    assert scores["size_mb"] < 10
    assert {path.name for path in trained.iterdir()} == {WEIGHTS, LABELS, SCORES}
    assert "lens" not in (trained / LABELS).read_text()
    assert "lens" in TREES


def test_what_is_saved_is_what_is_read(trained: Path, tmp_path: Path) -> None:
    state = torch.random.get_rng_state()
    network = load_biaffine(trained)
    assert torch.equal(torch.random.get_rng_state(), state)  # a warm cache never loads it: draws nothing
    network.save(tmp_path / "again")
    again = load_biaffine(tmp_path / "again")
    for name, value in network.state_dict().items():
        assert torch.allclose(value, again.state_dict()[name], atol=2e-3), name
    texts = ["The lens isn't sharp. I returned it."]
    first, second = (next(parser_of(f).parse(unlabelled(texts))) for f in (trained, tmp_path / "again"))
    assert (first.heads.tolist(), first.relations, first.tags) == (second.heads.tolist(), second.relations, second.tags)


def test_a_text_has_the_same_tree_alone_and_among_others(trained: Path) -> None:
    texts = ["The lens isn't sharp.", "Thanks", "I returned it. " * 20, "", "It  works !"]
    parser = parser_of(trained)
    for text, among in zip(texts, parser.parse(unlabelled(texts)), strict=True):
        [alone] = parser.parse(unlabelled([text]))
        assert (alone.heads.tolist(), alone.relations, alone.tags) == (
            among.heads.tolist(),
            among.relations,
            among.tags,
        )


def test_owner_tokens_are_kept(trained: Path) -> None:
    words = ((0, 3), (4, 8), (9, 14))
    [parse] = parser_of(trained).parse([UnlabelledText("1", "", "The lens isn't", words)])
    assert tuple(map(tuple, parse.words.tolist())) == words
    assert len(parse.heads) == 3


def test_windows_hold_every_word_once_and_cut_after_punctuation() -> None:
    tokenizer = load_tokenizer(MINILM)
    words = [*(["good"] * 100), ".", *(["good"] * 100), " ", *(["incomprehensiblenesses"] * 200), "\ufe0f"]
    found = list(windows(words, tokenizer))
    assert [i for window in found for i in window.words] == [i for i, word in enumerate(words) if word.strip()]
    assert len(found[0].words) == 101
    for window in found:
        assert len(window.words) <= MOST_WORDS
        assert len(window.ids) <= MOST_PIECES + 2
        assert np.all(np.diff(window.first) > 0)


def test_where_there_is_none_the_command_is_said(tmp_path: Path) -> None:
    config = compose("parse", ["input=x", "parser=biaffine", f"parser.path={tmp_path}/none"]).parser
    with pytest.raises(ValueError, match=r"parser.path=.*none: no model.safetensors .*make biaffine TREEBANK=FOLDER"):
        make(config)


def test_other_weights_are_other_parses_and_other_cells(trained: Path, tmp_path: Path) -> None:
    network = load_biaffine(trained)
    network.save(tmp_path / "weights")
    keys, names = set(), set()
    for value in (0.0, 1.0):
        with torch.no_grad():
            network.arc.fill_(value)
        network.save(tmp_path / "weights")
        names.add(parser_of(tmp_path / "weights").name)
        keys.add(cell_key(compose("train", ["parser=biaffine", f"parser.path={tmp_path}/weights"])))
    assert len(names) == len(keys) == 2


@pytest.mark.parametrize("damage", ["cut", "nan", "label"])
def test_damage_is_told_in_one_line(
    damage: str, trained: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    network, folder = load_biaffine(trained), tmp_path / "weights"
    if damage == "nan":
        with torch.no_grad():
            network.arc.fill_(torch.nan)
    network.save(folder)
    if damage == "cut":
        (folder / WEIGHTS).write_bytes((folder / WEIGHTS).read_bytes()[:-100])
    if damage == "label":
        labels = json.loads((folder / LABELS).read_text())
        (folder / LABELS).write_text(json.dumps(labels | {"relations": labels["relations"][1:]}))
    with pytest.raises(
        ValueError, match="weights: no sound biaffine parser .*train it again with make biaffine"
    ) as error:
        list(parser_of(folder).parse(unlabelled(["It works."])))
    assert "\n" not in str(error.value)


def test_an_untrained_network_is_its_encoder_as_installed(tmp_path: Path) -> None:
    """Nothing of MiniLM is written that has not changed."""
    BiaffineNetwork(["NN"], ["ROOT", "det"]).save(tmp_path)
    assert (tmp_path / WEIGHTS).stat().st_size < 2e6
