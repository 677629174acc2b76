"""A few texts are labelled without torch: what a model says of them is what it says with it."""

import shutil
import string
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import domadapt
from domadapt.data.domains import UnlabelledText, unlabelled
from domadapt.inference.description import read_description
from domadapt.inference.light import MANY_LETTERS, MANY_TEXTS, TASKS, FewTexts, _is_plain, light_model
from domadapt.inference.model import Model, load
from domadapt.inference.thresholds import apply_limits
from domadapt.tasks.task import Prediction
from tests.support import edit, finished, ran, without_checksums

ODD = st.text(st.sampled_from(string.printable + "äßÉ中文😀\u200b\u0301\x00\ufeffʼ’—İ"), min_size=1, max_size=60)
TEXTS = ["The lens is sharp.", "A heavy battery, sadly. " * 9, "I love this screen!", "Isn't it $5.99?", "x"]


def quick(folder: Path, texts: Sequence[UnlabelledText]) -> FewTexts | None:
    return light_model(folder, read_description(folder), texts)


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
    assert quick(run, [text]) and quick(run, [text] * (MANY_TEXTS - 1))
    owned, long = UnlabelledText("1", "", "Sharp.", ((0, 5), (5, 6))), UnlabelledText("1", "", "a" * (MANY_LETTERS + 1))
    blank = UnlabelledText("1", "", " ")
    assert not any(quick(run, texts) for texts in ([text] * MANY_TEXTS, [long], [owned], [blank]))
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


@pytest.mark.parametrize(
    ("file", "changes"),
    [
        ("tokenizer_config.json", {"model_input_names": ["input_ids", "attention_mask"]}),  # pairs are read otherwise
        ("tokenizer_config.json", {"split_special_tokens": True}),  # and so is a text with [SEP] in it
        ("tokenizer_config.json", {"truncation_side": "left"}),
        ("tokenizer_config.json", {"tokenizer_class": "RobertaTokenizer"}),
        ("config.json", {"max_position_embeddings": 400}),
        ("config.json", {"intermediate_size": 60}),
    ],
)
def test_a_tokenizer_or_weights_unlike_what_they_are_said_to_be_take_torch(
    tiny_run: Path, tmp_path: Path, file: str, changes: dict[str, Any]
) -> None:
    model = without_checksums(Path(shutil.copytree(tiny_run / "model", tmp_path / "model")))
    edit(model / "encoder" / file, lambda content: content.update(changes))
    assert not quick(model, list(unlabelled(["Sharp."])))


def test_a_damaged_tokenizer_configuration_takes_torch(tiny_run: Path, tmp_path: Path) -> None:
    model = without_checksums(Path(shutil.copytree(tiny_run / "model", tmp_path / "model")))
    (model / "encoder" / "tokenizer_config.json").write_text("[]")
    assert not quick(model, list(unlabelled(["Sharp."])))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_weights_of_a_training_that_diverged_take_torch(tiny_run: Path, tmp_path: Path) -> None:
    from safetensors.numpy import load_file, save_file

    model = without_checksums(Path(shutil.copytree(tiny_run / "model", tmp_path / "model")))
    weights = load_file(model / "encoder" / "model.safetensors")
    weights["bert.embeddings.LayerNorm.weight"] *= np.float32(1e25)  # finite, but sums of it are not
    save_file(weights, model / "encoder" / "model.safetensors", metadata={"format": "pt"})
    assert not quick(model, list(unlabelled(["Sharp."])))
    with pytest.raises(ValueError, match="outputs are NaN"):
        load(model, "cpu", "32").predict(["Sharp."])


def test_a_parser_of_somebody_else_takes_torch_which_refuses_it(tiny_run: Path, tmp_path: Path) -> None:
    """Whole texts are read without a parser; but it must not depend on their number whether a folder is trusted."""
    about = read_description(tiny_run / "model")
    classes = replace(about, task={"_target_": TASKS[1], "labels": ["a", "b"]})
    assert _is_plain(classes)
    assert not _is_plain(replace(classes, parser={"_target_": "somebody.Parser"}))
    assert not _is_plain(replace(classes, backbone={**about.backbone, "more": {"_target_": "somebody.Code"}}))


def test_errors_quote_texts_as_they_were_given(tiny_run: Path, tmp_path: Path) -> None:
    model = without_checksums(Path(shutil.copytree(tiny_run / "model", tmp_path / "model")))
    edit(model / "domadapt.json", lambda content: content.update(lowercase=True))
    few = quick(model, list(unlabelled(["Sharp."])))
    assert few is not None
    with pytest.raises(ValueError, match="'Sharp LENS ␞ Dull' is a pair"):
        few.predict_texts(list(unlabelled([("Sharp LENS", "Dull")])))


def test_a_threshold_takes_confidences_as_they_are_shown(tiny_run: Path) -> None:
    """Who copies one from the output keeps that span, on the quick way and on the whole one."""
    texts, whole = list(unlabelled(TEXTS)), load(tiny_run / "model", "cpu", "32")
    few = quick(tiny_run / "model", texts)
    assert few is not None
    for model in (few, whole):
        for found in model.predict_texts(texts):
            shown = [found.confidence] if found.label else [span.confidence or 0.0 for span in found.spans]
            for least in (round(sure, 4) for sure in shown):
                kept = apply_limits(found, dict.fromkeys(model.task.names, least))
                assert kept.label if found.label else least in {round(s.confidence or 0.0, 4) for s in kept.spans}


def test_threads_may_share_a_model(tiny_run: Path) -> None:
    model, texts = domadapt.load(tiny_run, "cpu", "32"), [f"The lens{' and the strap' * n} is dull." for n in range(8)]
    alone = [model.predict([text]) for text in texts]
    with ThreadPoolExecutor(4) as threads:
        for _ in range(5):
            assert [*threads.map(lambda text: model.predict([text]), texts)] == alone
