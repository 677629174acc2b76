"""A few texts are labelled without torch: what a model says of them is what it says with it."""

import shutil
import string
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from domadapt.data.domains import UnlabelledText, unlabelled
from domadapt.inference.description import read_description
from domadapt.inference.few_texts import MANY, MOST, FewTexts, few_texts
from domadapt.inference.model import Model, load
from domadapt.tasks.task import Prediction
from tests.support import edit, finished, ran, without_checksums

ODD = st.text(st.sampled_from(string.printable + "äßÉ中文😀\u200b\u0301\x00\ufeffʼ’—İ"), min_size=1, max_size=60)
TEXTS = ["The lens is sharp.", "A heavy battery, sadly. " * 9, "I love this screen!", "Isn't it $5.99?", "x"]


def quick(folder: Path, texts: Sequence[UnlabelledText]) -> FewTexts | None:
    return few_texts(folder, read_description(folder), texts)


def agree(few: FewTexts, whole: Model, texts: Sequence[UnlabelledText]) -> None:
    """Labels, spans, what was cut and what is warned of are the same; confidences but for the order of sums."""
    few.warnings.clear()
    whole.warnings.clear()

    def parts(one: Prediction) -> tuple[Any, list[float]]:
        confidences = [span.confidence or 0.0 for span in one.spans] or [one.confidence if one.label else 0.0]
        return (one.label, one.spans, one.truncated), confidences

    for a, b in zip(few.predict_texts(texts), whole.predict_texts(texts), strict=True):
        (found, sure), (expected, surely) = parts(a), parts(b)
        assert found == expected and sure == pytest.approx(surely, abs=1e-3)
    assert (few.truncated, few.longest, few.warnings) == (whole.truncated, whole.longest, whole.warnings)


@pytest.mark.parametrize("lowercase", [False, True])
def test_it_says_the_same(tiny_run: Path, tmp_path: Path, lowercase: bool) -> None:
    model = without_checksums(Path(shutil.copytree(tiny_run / "model", tmp_path / "model")))
    edit(model / "domadapt.json", lambda content: content.update(lowercase=lowercase))
    texts, whole = list(unlabelled(TEXTS)), load(model, "cpu", "32")
    few = quick(model, texts)
    assert few is not None
    agree(few, whole, texts)

    @given(st.lists(ODD.filter(str.strip), min_size=1, max_size=3))
    def odd_ones(given: list[str]) -> None:
        texts = list(unlabelled(given))
        pieces = [example.alignment.word_first_pieces() for example in whole.examples(texts)]
        # Words of one piece have the same scores, and so have some sequences of their tags.
        assume(all(len({*first[first >= 0]}) == (first >= 0).sum() for first in pieces))
        agree(few, whole, texts)

    odd_ones()


def test_what_takes_torch(tiny_run: Path, tmp_path: Path) -> None:
    [text] = unlabelled(["Sharp."])
    run = tiny_run / "model"
    assert quick(run, [text]) and quick(run, [text] * (MANY - 1))
    owned, long = UnlabelledText("1", "", "Sharp.", ((0, 5), (5, 6))), UnlabelledText("1", "", "a" * (MOST + 1))
    blank = UnlabelledText("1", "", " ")
    assert not any(quick(run, texts) for texts in ([text] * MANY, [long], [owned], [blank]))
    model = without_checksums(Path(shutil.copytree(run, tmp_path / "model")))
    assert quick(model, [text])
    for name, value in {"methods": {"lisa": {}}, "parses_at_prediction": True, "control": {"other": {}}}.items():
        before = (model / "domadapt.json").read_bytes()
        edit(model / "domadapt.json", lambda content, name=name, value=value: content.update({name: value}))
        assert not quick(model, [text])
        (model / "domadapt.json").write_bytes(before)


def test_torch_is_not_loaded_and_a_parser_works_after_that() -> None:
    code = """if True:
        import sys
        sys.argv[1:] = ["predict", f"model={sys.argv[1]}", "text=The lens is sharp."]
        from domadapt.cli.main import main
        main()
        assert not {"torch", "transformers"} & {*sys.modules}
        from domadapt.data.domains import unlabelled
        from domadapt.syntax.parser import SpacyParser
        [parse] = SpacyParser().parse(unlabelled(["The lens is sharp."]))
        print(*parse.relations)
    """
    told = ran(code, str(finished("extraction"))).splitlines()
    assert '"spans": [' in told[0] and told[1] == "det nsubj cop ROOT punct"
