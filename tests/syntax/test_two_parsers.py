"""Two languages in one run, and what is said of an English pipeline that is given another language."""

import json
import logging
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import domadapt
from domadapt.config.compose import compose
from domadapt.data.domains import UnlabelledText
from domadapt.data.records import Record
from domadapt.inference.description import read_description
from domadapt.runs.key import cell_key
from domadapt.syntax.cache import ParseCache
from domadapt.syntax.parser import Parse, SpacyParser, Text, foreign
from domadapt.syntax.two_parsers import TwoParsers, make_parser
from domadapt.utils.files import shipped
from tests.support import corpora, write_jsonl

SPANISH = "La comida estuvo muy sabrosa y el camarero nos trató con mucha amabilidad en la mesa {}."


@pytest.fixture
def spanish(tmp_path: Path) -> Path:
    """The shipped pipeline under another language's name: what its trees are worth is not asked here."""
    folder = tmp_path / "es"
    shutil.copytree(shipped() / "parser" / "model", folder)
    meta = json.loads((folder / "meta.json").read_text("utf-8"))
    (folder / "meta.json").write_text(json.dumps({**meta, "lang": "es"}), "utf-8")
    config = (folder / "config.cfg").read_text("utf-8")
    (folder / "config.cfg").write_text(config.replace('lang = "en"', 'lang = "es"'), "utf-8")
    return folder


class Named:
    """Its parses have its name for a relation."""

    def __init__(self, name: str, tag: str) -> None:
        self.name, self.tag = name, tag

    def parse(self, texts: Iterable[Text], processes: int = 1) -> Iterator[Parse]:
        return (Parse(words, np.array([0]), (self.name,), (self.tag,)) for words in self.tokenize(texts))

    def tokenize(self, texts: Iterable[Text]) -> Iterator[Any]:
        return (np.array([[0, len(self.name) + int(text.text)]]) for text in texts)


def test_each_text_goes_to_its_sides_parser_in_order() -> None:
    both = TwoParsers(Named("english", "NNS"), Named("es", "NOUN|Plur"), {"hotel"})
    domains = ["hotel", "hotel", "spa", "hotel", "input"]  # what is labelled later is of no side
    texts = [UnlabelledText("", domain, str(i)) for i, domain in enumerate(domains)]
    parses = list(both.parse(iter(texts)))
    assert [parse.relations[0] for parse in parses] == ["english", "english", "es", "english", "es"]
    assert [parse.words[0, 1] for parse in parses] == [7, 8, 4, 10, 6]
    assert [words[0, 1] for words in both.tokenize(iter(texts))] == [7, 8, 4, 10, 6]
    assert {parse.tags[0] for parse in parses} == {"NOUN|Plur"}  # Penn's are turned into universal ones
    assert both.name == "es"


def test_labelled_target_text_is_parsed_as_the_target(spanish: Path) -> None:
    config = compose("train", [f"parser.target={spanish}"]).parser

    class Run:
        target, source_train = "spa", (Record("1", "hotel", "A"), Record("2", "spa", "B"))

    made = make_parser(config, Run)
    assert made.domains == {"hotel"} and made.source.name.split("/")[1].startswith("en_")
    assert made.name.split("/")[1].startswith("es_")
    assert isinstance(make_parser(compose("train").parser, Run), SpacyParser)  # one for both


@pytest.mark.parametrize(
    "text",
    [
        SPANISH,
        "Le service était rapide et les desserts sont très bons, mais un peu chers pour le quartier.",
        "Het eten was lekker en de bediening vriendelijk, alleen moesten wij lang op de kaart wachten.",
        "Die Kamera ist sehr gut, aber der Akku reicht leider nur einen Tag lang.",
        "Maden var god, men det tog lang tid at få regningen, og bordet stod tæt på døren, så der var koldt.",
        "Очень милый и уютный ресторан со скромными ценами за огромные порции.",
    ],
)
def test_another_language_is_told_from_english(text: str) -> None:
    name = SpacyParser().name
    assert "parser.target=NAME" in (foreign([text] * 20, name) or "")
    assert foreign([text], name) is None  # too few words to say
    assert foreign([text] * 20, name.replace("/en_", "/da_")) is None
    assert foreign([text, "The food was good and they have the best view of the city."] * 20, name) is None  # a mix


def test_the_cache_warns_once_whether_it_parses_or_not(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    texts = [UnlabelledText("", "", SPANISH.format(i)) for i in range(8)]
    for _ in range(2):
        cache = ParseCache(SpacyParser(), tmp_path)
        with caplog.at_level(logging.WARNING):
            list(cache.parse(texts))
            list(cache.parse(texts))
        assert sum("an English pipeline parses text" in message for message in caplog.messages) == 1
        caplog.clear()


def test_methods_that_read_foreign_trees_are_refused_and_run_with_a_pipeline(tmp_path: Path, spanish: Path) -> None:
    given = [o for o in corpora(tmp_path) if "test_path" not in o and "train_path" not in o]
    rows = [{"id": str(i), "text": SPANISH.format(i)} for i in range(12)]
    write_jsonl(tmp_path / "target.jsonl", rows)
    given += ["trainer.epochs=1", f"paths.runs={tmp_path}/runs", "trainer.device=cpu"]
    fix = r"reads trees of target, and an English pipeline .* parser.target=NAME"
    for method in ("injection=gnn", "injection=gnn_fusion", "adaptation=term_substitution"):
        with pytest.raises(ValueError, match=fix):
            domadapt.train([*given, "task=extraction", method])
    with pytest.raises(ValueError, match=fix):
        domadapt.train([*given, "task=extraction", "floor=path_rules"])
    domadapt.train([*given, "task=extraction", "adaptation=self_training"])  # which reads none
    run = [*given, "task=extraction", "injection=gnn_fusion", f"parser.target={spanish}", f"paths.run={tmp_path}/run"]
    domadapt.train(run)
    description = read_description(tmp_path / "run" / "model")
    assert description.parser["name"] == str(spanish) and "/es_" in description.parser_name
    assert domadapt.predict(tmp_path / "run", ["La comida."])  # parsed by the target's


def test_a_pipeline_counts_by_its_content(tmp_path: Path, spanish: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(spanish, copy)

    def both(target: Path) -> list[str]:
        return [f"parser.target={target}"]

    one, same, none = (cell_key(compose("train", o)) for o in (both(spanish), both(copy), []))
    assert one == same != none
    (copy / "added").write_text("x")
    assert cell_key(compose("train", [f"parser.target={copy}"])) != one
