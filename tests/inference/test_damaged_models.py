"""Damaged, partial and foreign model folders: one line with the file and the way out, never a wrong prediction."""

import json
import os
import random
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import domadapt
from domadapt.analysis.attention import syntax_layer
from domadapt.inference.description import labels_read, model_as_backbone
from domadapt.models.encoder import Encoder
from domadapt.utils.files import CHECKSUMS
from tests.support import Command, corpora, edit, of_yaml, without_checksums

Damage = Callable[[Path], object]
READING = "injection.lisa.at_prediction=parser"
WEIGHTS, METHODS, TOKENIZER = "encoder/model.safetensors", "methods.safetensors", "encoder/tokenizer.json"
CONFIGS = ("encoder/config.json", "encoder/tokenizer_config.json")
FILES = (CHECKSUMS, "domadapt.json", METHODS, *CONFIGS, TOKENIZER, WEIGHTS)
TEXT = "The lens is sharp."


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders of models: ``tree``, with every file that a model may have, ``plain``, without methods, ``recurrent``."""
    folder = tmp_path_factory.mktemp("models")
    kinds = {"tree": [*of_yaml("injection=lisa"), READING], "plain": [], "recurrent": ["backbone=rnn_from_scratch"]}
    for name, overrides in kinds.items():
        run = f"paths.run={folder}/{name}"
        domadapt.train([*corpora(folder), *overrides, run, "trainer.epochs=1", f"paths.cache={folder}/cache"])
    return folder


def copied(models: Path, to: Path, kind: str = "tree", checksums: bool = True) -> Path:
    model = Path(shutil.copytree(models / kind / "model", to / "model"))
    return model if checksums else without_checksums(model)


def refused(model: Path, command: Command) -> str:
    """By `domadapt.load` and by `domadapt predict`, in the same one line."""
    with pytest.raises(ValueError, match="copy the folder again|trust_code=True") as error:
        domadapt.load(model)
    told = str(error.value)
    assert str(model) in told and ("\n" not in told)
    output, errors = command("predict", f"model={model}", f"text={TEXT}", code=2)
    assert output == ""
    # predict looks at domadapt.json before seconds of imports, and tells in its own words what is wrong with that.
    expected = f"domadapt predict: {model}" if f"{model}/domadapt.json: " in told else f"domadapt predict: {told}"
    assert any(line.startswith(expected) for line in errors.splitlines())
    return told


def flip(path: Path) -> None:
    content, drawn = bytearray(path.read_bytes()), random.Random(path.name)
    content[drawn.randrange(len(content))] ^= 1 << drawn.randrange(7)
    path.write_bytes(content)


def test_a_whole_model_loads_in_any_place_and_other_files_may_lie_beside(models: Path, tmp_path: Path) -> None:
    model = copied(models, tmp_path)
    for place in (model / "README.md", model / "encoder" / "notes.md"):
        place.write_text("mine")
    assert domadapt.predict(model, [TEXT]) == domadapt.predict(models / "tree" / "model", [TEXT])
    mask = os.umask(0)
    os.umask(mask)
    modes = {file.stat().st_mode & 0o777 for file in (models / "tree" / "model").rglob("*") if file.is_file()}
    assert modes == {0o666 & ~mask}  # others read it as they read all of the user's files
    (model / "encoder" / "added_tokens.json").write_text('{"lens": 5}', encoding="utf-8")
    with pytest.raises(ValueError, match=r"added_tokens.json: not a file of this model .* move it away"):
        domadapt.load(model)


HURT: dict[str, Damage] = {
    "deleted": Path.unlink,
    "a bit": flip,
    "half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "empty": lambda path: path.write_bytes(b""),
}


@pytest.mark.parametrize("hurt", HURT)
@pytest.mark.parametrize("file", FILES)
def test_each_file_is_checked(models: Path, tmp_path: Path, command: Command, file: str, hurt: str) -> None:
    model = copied(models, tmp_path)
    HURT[hurt](model / file)
    told = refused(model, command)
    assert str(model / file) in told or (file == CHECKSUMS and CHECKSUMS in told)
    with pytest.raises(ValueError, match=re.escape(told)):  # nor is training gone on with
        model_as_backbone([f"model={model}"])


def test_a_file_that_was_changed_on_purpose(models: Path, tmp_path: Path, command: Command) -> None:
    model = copied(models, tmp_path)
    (model / TOKENIZER).write_text((model / TOKENIZER).read_text() + "\n")
    assert f"if you changed it on purpose, delete its line from {CHECKSUMS}" in refused(model, command)
    lines = (model / CHECKSUMS).read_text().splitlines(keepends=True)
    (model / CHECKSUMS).write_text("".join(line for line in lines if TOKENIZER not in line))
    assert domadapt.predict(model, [TEXT])


def test_a_method_whose_file_is_not_found_is_no_damage(models: Path, tmp_path: Path) -> None:
    model = copied(models, tmp_path, checksums=False)
    edit(model / "domadapt.json", lambda said: said["methods"].update(mine={"_target_": "elsewhere.Mine"}))
    with pytest.raises(ValueError, match=r"No module named 'elsewhere'; its file is looked for .* on PYTHONPATH$"):
        domadapt.load(model, trust_code=True)


def renamed(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {f"x.{name}": tensor for name, tensor in tensors.items()}


def without(part: str) -> Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]:
    return lambda tensors: {name: tensor for name, tensor in tensors.items() if part not in name}


def spoiled(value: float, *parts: str) -> Callable[[dict[str, torch.Tensor]], None]:
    def change(tensors: dict[str, torch.Tensor]) -> None:
        next(tensor for name, tensor in tensors.items() if any(part in name for part in parts)).view(-1)[0] = value

    return change


def weights(change: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor] | None]) -> Damage:
    def damage(model: Path) -> None:
        tensors = load_file(model / WEIGHTS)
        save_file(change(tensors) or tensors, model / WEIGHTS, metadata={"format": "pt"})

    return damage


def config(**fields: object) -> Damage:
    return lambda model: edit(model / "encoder" / "config.json", lambda content: content.update(fields))


def description(change: Callable[[dict[str, Any]], object]) -> Damage:
    return lambda model: edit(model / "domadapt.json", change)


def tokenizer(change: Callable[[dict[str, Any]], object]) -> Damage:
    return lambda model: edit(model / TOKENIZER, lambda content: change(content["model"]))


LABELS = {"0": "O", "1": "B-opinion", "2": "I-opinion", "3": "B-aspect", "4": "I-aspect"}
WITHOUT_SUMS: dict[str, tuple[Damage, str]] = {  # what checksums would tell; who has none is told as far as it shows
    **{f"no {file}": (lambda model, file=file: (model / file).unlink(), "") for file in FILES[2:]},
    **{f"half of {f}": (lambda model, f=f: HURT["half"](model / f), f) for f in (METHODS, "encoder/config.json")},
    "half the weights": (lambda model: HURT["half"](model / WEIGHTS), "could not be loaded"),
    "half the tokenizer": (lambda model: HURT["half"](model / TOKENIZER), "could not be loaded"),
    "every key renamed": (weights(renamed), "weights are missing"),
    "no head": (weights(without("classifier")), "classifier.bias"),
    "a layer missing": (weights(without("layer.1.")), "layer.1."),
    "a weight too many": (weights(lambda tensors: tensors.update(own=torch.ones(1))), "no place in the model"),
    "another shape": (weights(lambda t: t.update({"classifier.bias": torch.ones(7)})), "classifier.bias"),
    "NaN": (weights(spoiled(float("nan"), "layer.0", "lstm")), "NaN or infinite"),
    "infinity in the head": (weights(spoiled(float("inf"), "classifier")), "NaN or infinite"),
    "another model type": (config(model_type="roberta"), "weights are missing"),
    "no model type": (config(model_type="x"), "could not be loaded"),
    "fewer layers": (config(num_hidden_layers=1), "no place in the model"),
    "more layers": (config(num_hidden_layers=3), "weights are missing"),
    "wider": (config(hidden_size=64), "of another shape"),
    "a config of wrong types": (config(hidden_size="x"), "could not be loaded"),
    "other labels": (config(id2label=LABELS), "labels ['O', 'B-opinion'"),
    "other types": (description(lambda d: d["task"].update(types=["opinion", "aspect"])), "labels ['O', 'B-aspect'"),
    "a tokenizer without pieces": (tokenizer(lambda model: model.update(vocab={"[PAD]": 0})), "encoder"),
    "a piece beyond the encoder": (
        tokenizer(lambda model: model["vocab"].update(lens=10**6)),
        "'lens' has the id 1000000",
    ),
    "no description": (lambda model: (model / "domadapt.json").write_text("[]"), "domadapt.json"),
    "not even JSON": (lambda model: (model / "domadapt.json").write_text("{"), "domadapt.json: damaged"),
    "deep JSON": (lambda model: (model / "domadapt.json").write_text("[" * 100_000), "domadapt.json: damaged"),
    "another format": (description(lambda d: d.update(format=1)), "format 1, this version reads 4; copy the"),
    "a method forgotten": (description(lambda d: d.update(methods={})), METHODS),
    "relations in disorder": (description(lambda d: d["relations"].update(det=99)), "numbered from 1"),
    "more pieces than it reads": (description(lambda d: d.update(max_length=9999)), "max_length=9999"),
    "another layer": (description(lambda d: d["methods"]["lisa"].update(layer=7)), "layers 0 to 1"),
    "pickled settings": (description(lambda d: d["task"].update(_partial_=True)), "domadapt.json: task"),
}
RECURRENT = ("every key renamed", "NaN", "half the weights", f"no {WEIGHTS}", f"no {TOKENIZER}")
WITH_TREES = (f"no {METHODS}", f"half of {METHODS}", "a method forgotten", "relations in disorder", "another layer")
CASES = [("tree", case) for case in WITHOUT_SUMS] + [("recurrent", case) for case in RECURRENT]
CASES += [("plain", case) for case in WITHOUT_SUMS if case not in WITH_TREES]  # of which predict may need no torch


@pytest.mark.parametrize(("kind", "case"), CASES)
def test_what_shows_without_checksums(models: Path, tmp_path: Path, command: Command, kind: str, case: str) -> None:
    model = copied(models, tmp_path, kind, checksums=False)
    damage, told = WITHOUT_SUMS[case]
    damage(model)
    assert ("encoder" if kind == "recurrent" else told) in refused(model, command)


def places(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, inside in value.items():
        yield (*path, name)
        if isinstance(inside, dict) and name != "relations":
            yield from places(inside, (*path, name))


@pytest.mark.parametrize("entry", [{"source": 5}, {"source": "a", "target_labels": "many"}, {"role": "adapted"}, [1]])
def test_what_is_said_of_labels_is_checked(tmp_path: Path, entry: object) -> None:
    entry = {"role": "adapted", **entry} if isinstance(entry, dict) else entry
    (tmp_path / "labels_read.json").write_text(json.dumps([entry]), encoding="utf-8")
    with pytest.raises(ValueError, match=r"labels_read.json: expected what a finished run says .* read \(.*train the"):
        labels_read(tmp_path)


def test_every_field_of_every_wrong_type_or_missing(models: Path, tmp_path: Path) -> None:
    """Each gives the same predictions or one line; nothing else comes out."""
    model = copied(models, tmp_path, checksums=False)
    path = model / "domadapt.json"
    whole = json.loads(path.read_text(encoding="utf-8"))
    expected, refusals, tried = domadapt.predict(model, [TEXT]), 0, 0
    for place in places(whole):
        for wrong in (None, True, 5, "x", ["x"], {"x": 1}):
            content = json.loads(json.dumps(whole))
            inside = content
            for name in place[:-1]:
                inside = inside[name]
            if type(inside[place[-1]]) is type(wrong):
                continue
            inside[place[-1]] = wrong
            path.write_text(json.dumps(content), encoding="utf-8")
            tried += 1
            try:
                found = domadapt.predict(model, [TEXT])
            except ValueError as error:
                told = str(error)
                assert str(path) in told or str(model / "encoder") in told or METHODS in told, (place, wrong, told)
                assert "\n" not in told, (place, wrong, told)
                refusals += 1
            else:
                # Any number up to ten is a weight of transitions, or a temperature, and says otherwise.
                assert found == expected or place[-1] in ("transition_weight", "temperature"), (place, wrong)
    assert tried > 120 and refusals > 0.8 * tried
    for name in whole.keys() - {"left_behind", "lowercase"}:
        path.write_text(json.dumps({key: value for key, value in whole.items() if key != name}), encoding="utf-8")
        with pytest.raises(ValueError, match=rf"domadapt.json: .*{name}.*copy the folder again"):
            domadapt.load(model)


FOREIGN = [
    lambda d, mark: d["task"].update(_target_="os.system"),
    lambda d, mark: d["task"].update(_target_="domadapt.training.distributed.os.makedirs", name=mark),
    lambda d, mark: d["task"].update(_target_="domadapt.inference.model.Path.touch", self=mark),
    lambda d, mark: d["task"].update(types={"_target_": "os.makedirs", "name": mark}),
    lambda d, mark: d["parser"].update(name=[{"_target_": "domadapt.inference.model.Path", "_args_": [mark]}]),
    lambda d, mark: d["task"].update(types=f"${{oc.create:{{_target_:os.makedirs,name:'{mark}'}}}}"),
    lambda d, mark: d["task"].update({"${oc.env:HOME}": 1}),
    lambda d, mark: d["parser"].update(name=["${oc.env:HOME}"]),
    # Ours, and no part of a model: it would make a folder wherever it is told to.
    lambda d, mark: d.update(parser={"_target_": CACHE, "parser": d["parser"], "folder": mark}),
    lambda d, mark: d.update(control={"own": {"_target_": CACHE, "folder": mark}}),
    lambda d, mark: d["methods"].update(own={"_target_": CACHE, "parser": d["parser"], "folder": mark}),
    lambda d, mark: d["backbone"].update(_target_="domadapt.training.epochs.Epochs"),
    lambda d, mark: d["backbone"].update(_target_="domadapt.models.attention.AttentionCall"),
    lambda d, mark: d["task"].update(_target_="domadapt.tracking.tracker.LightningTracker", folder=mark),
]
CACHE = "domadapt.syntax.cache.ParseCache"


@pytest.mark.parametrize("kind", ["tree", "plain"])
@pytest.mark.parametrize("change", FOREIGN)
def test_a_folder_names_classes_of_a_model_alone(
    models: Path, tmp_path: Path, command: Command, kind: str, change: Any
) -> None:
    model, mark = copied(models, tmp_path, kind, checksums=False), tmp_path / "mark"
    edit(model / "domadapt.json", lambda content: change(content, str(mark)))
    told = refused(model, command)
    assert "domadapt.json" in told and "a model folder can name any code" in told
    assert not mark.exists()


def test_what_is_left_behind_needs_no_trust_as_it_is_never_imported(models: Path, tmp_path: Path) -> None:
    model = copied(models, tmp_path, checksums=False)
    (tmp_path / "left_behind_here.py").write_text(f"open({str(tmp_path / 'mark')!r}, 'w')\nclass Own: ...\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(tmp_path)
        for own in ({"_target_": "left_behind_here.Own"}, {"_target_": "os.makedirs", "name": str(tmp_path / "mark")}):
            edit(model / "domadapt.json", lambda content, own=own: content["left_behind"].update(own=own))
            assert domadapt.predict(model, [TEXT]) == domadapt.predict(models / "tree" / "model", [TEXT])
            assert syntax_layer(model) is None
    assert not (tmp_path / "mark").exists()


def test_a_model_that_gives_nan_predicts_nothing(models: Path, command: Command) -> None:
    model = domadapt.load(models / "recurrent" / "model")
    with torch.no_grad():
        model.session.encoder.classifier.bias.fill_(float("nan"))
    with pytest.raises(ValueError, match="^predict: the model's outputs are NaN: .* copy its folder again, or train"):
        model.predict([TEXT])


BACKBONE = ["every key renamed", "a layer missing", "NaN", "another model type", "fewer layers", "more layers", "wider"]
BACKBONE += ["half the weights", "half the tokenizer", f"no {TOKENIZER}", "no encoder/config.json"]


@pytest.mark.parametrize("case", BACKBONE)
def test_a_damaged_backbone_is_not_trained(models: Path, tmp_path: Path, command: Command, case: str) -> None:
    model = copied(models, tmp_path, checksums=False)
    damage, told = WITHOUT_SUMS[case]
    damage(model)
    with pytest.raises(ValueError, match=rf"^{model}/encoder: [^\n]*{told}[^\n]*download the backbone again[^\n]*$"):
        Encoder(f"{model}/encoder", "token", ["O", "B-aspect"])
    if case != "every key renamed":
        return
    chosen = ["backbone=hugging_face", f"backbone.name={model}/encoder", f"paths.run={tmp_path}/run"]
    output, errors = command("train", *corpora(tmp_path), *chosen, code=2)
    assert output == ""
    line = next(line for line in errors.splitlines() if line.startswith("domadapt train: "))
    assert f"{model}/encoder" in line and told in line and "download the backbone again" in line


@pytest.mark.parametrize("kind", ["token", "sequence"])
@pytest.mark.parametrize("head", ["", "MaskedLM", "TokenClassification", "SequenceClassification", "PreTraining"])
def test_a_backbone_may_have_any_head(models: Path, tmp_path: Path, kind: str, head: str) -> None:
    """Its own is made anew: pooler, head of another task, head of as many classes as it likes."""
    import transformers

    source = models / "tree" / "model" / "encoder"
    config = transformers.AutoConfig.from_pretrained(source, num_labels=9)
    made = getattr(transformers, f"AutoModel{f'For{head}' if head else ''}").from_config(config)
    made.save_pretrained(tmp_path)
    for path in source.glob("tokenizer*"):
        shutil.copy(path, tmp_path)
    encoder = Encoder(str(tmp_path), kind, ["a", "b", "c"])
    assert "classifier.bias" in encoder.report.fresh
    base = dict(made.base_model.named_parameters())
    for name, weight in encoder.base.named_parameters():
        if "pooler" not in name:
            torch.testing.assert_close(weight, base[name])
