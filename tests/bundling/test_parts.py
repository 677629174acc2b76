"""What goes into a bundle, part by part."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from domadapt.bundling.backbone import bundled_backbone
from domadapt.bundling.corpora import Files, read_all
from domadapt.bundling.libraries import carried, copy_foreign
from domadapt.bundling.run import Run
from domadapt.config.instantiate import make
from domadapt.data.domains import UnlabelledText
from domadapt.models.encoder import Encoder
from domadapt.syntax.cache import ParseCache
from domadapt.syntax.deferred import DeferredParser
from domadapt.syntax.parser import SpacyParser
from tests.support import records, tiny_encoder, write_jsonl


def my_files(folder: Path, **paths: str) -> dict[str, Any]:
    source = {"name": "camera", "path": str(write_jsonl(folder / "a.jsonl", records("camera", 10)))}
    target = {"name": "laptop", "path": str(write_jsonl(folder / "b.jsonl", records("laptop", 10, 3))), **paths}
    return {"_target_": "domadapt.data.sources.my_files", "source": source, "target": target, "dev_share": 0.2}


def test_only_what_is_read_is_taken(tmp_path: Path) -> None:
    test = write_jsonl(tmp_path / "data" / "test.jsonl", records("laptop", 4, 5))
    write_jsonl(tmp_path / "data" / "other.jsonl", records("laptop", 4))
    data = my_files(tmp_path / "data", test_path=str(test), train_path=str(test))
    texts, read = read_all(data)
    assert len(texts) == 10 + 10 + 4 + 4  # source, unlabelled, test, ceiling
    files = Files(tmp_path / "bundle")
    files.take(data, read)
    copied = {path.name for path in (tmp_path / "bundle").rglob("*.jsonl")}
    assert copied == {"a.jsonl", "b.jsonl", "test.jsonl"}
    moved = files.moved(data)
    assert moved["source"]["path"] == "corpora/data/a.jsonl"
    again, _ = read_all(files.moved(data, base=tmp_path / "bundle"))
    assert again == texts


def test_folders_of_one_name_stay_apart(tmp_path: Path) -> None:
    files = Files(tmp_path / "bundle")
    one, other = my_files(tmp_path / "one" / "data"), my_files(tmp_path / "other" / "data")
    assert files.moved(one)["source"]["path"] == "corpora/data/a.jsonl"
    assert files.moved(other)["source"]["path"] == "corpora/data-2/a.jsonl"
    assert files.moved(one)["target"]["path"] == "corpora/data/b.jsonl"


def test_a_root_folder_is_not_taken_whole(tmp_path: Path) -> None:
    for domain in ("camera", "laptop", "phone"):
        for part in ("train", "dev", "test", "unlabeled"):
            write_jsonl(tmp_path / "all" / domain / f"{part}.jsonl", records(domain, 3))
    data = {"_target_": "domadapt.data.sources.shipped", "source": "camera", "target": "laptop"}
    data["root"] = str(tmp_path / "all")
    files = Files(tmp_path / "bundle")
    files.take(data, read_all(data)[1])
    place = tmp_path / "bundle" / files.moved(data)["root"]
    assert {path.name for path in place.iterdir()} == {"camera", "laptop"}


@pytest.fixture
def backbone(tmp_path: Path) -> Path:
    tiny_encoder().save(tmp_path / "small")
    return tmp_path / "small"


def test_weights_are_halved_and_read_as_float32(backbone: Path, tmp_path: Path) -> None:
    place = bundled_backbone(str(backbone), tmp_path / "bundle")
    assert place == "backbones/small-float16"
    half = tmp_path / "bundle" / place
    assert {v.dtype for v in load_file(half / "model.safetensors").values()} == {torch.float16}
    original, restored = (Encoder(str(path), "token", list("01234")) for path in (backbone, half))
    for (name, a), b in zip(original.base.named_parameters(), restored.base.parameters(), strict=True):
        assert b.dtype == torch.float32, name
        assert torch.equal(a.half().float(), b)


def test_weights_beyond_half_precision_are_refused(backbone: Path, tmp_path: Path) -> None:
    save_file({"a": torch.tensor([1e6])}, backbone / "model.safetensors")
    with pytest.raises(ValueError, match="a has values beyond float16's 65504"):
        bundled_backbone(str(backbone), tmp_path / "bundle")


def test_a_backbone_without_weights_is_refused(backbone: Path, tmp_path: Path) -> None:
    (backbone / "model.safetensors").unlink()
    with pytest.raises(ValueError, match="holds no .safetensors file"):
        bundled_backbone(str(backbone), tmp_path / "bundle")


def test_carried_libraries_are_pure_and_few() -> None:
    names = {library.name for library in carried()}
    assert {"hydra-core", "omegaconf", "pytorch-lightning", "torch-geometric", "torchmetrics"} <= names
    assert not names & {"torch", "transformers", "numpy", "spacy", "wandb", "psutil", "aiohttp"}
    assert len(names) < 25


def test_packages_and_modules_from_outside_are_carried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "__init__.py").write_text("")
    (tmp_path / "mine" / "method.py").write_text("class M: ...")
    (tmp_path / "single.py").write_text("import numpy, helper\nclass S: ...")
    (tmp_path / "helper.py").write_text("def f():\n    import plain.deep")
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "deep.py").write_text("")
    (tmp_path / "other.py").write_text("nobody imports it")
    monkeypatch.syspath_prepend(tmp_path)
    copy_foreign({"a": {"_target_": "mine.method.M"}, "b": [{"_target_": "single.S"}]}, tmp_path / "site")
    found = sorted(path.relative_to(tmp_path / "site").as_posix() for path in (tmp_path / "site").rglob("*.py"))
    assert found == ["helper.py", "mine/__init__.py", "mine/method.py", "plain/deep.py", "single.py"]
    with pytest.raises(ValueError, match=r"_target_: nowhere\.M: there is no file of this module"):
        copy_foreign({"_target_": "nowhere.M"}, tmp_path / "site")


def deferred(name: str, parser: dict[str, Any]) -> DeferredParser:
    target = "domadapt.syntax.deferred.DeferredParser"
    result: DeferredParser = make({"_target_": target, "_recursive_": False, "name": name, "parser": parser})
    return result


SHIPPED = {"_target_": "domadapt.syntax.parser.SpacyParser", "name": "shipped"}
TEXT = UnlabelledText("1", "", "The lens isn't sharp.")


def test_a_deferred_parser_reads_the_cache_of_the_real_one(tmp_path: Path) -> None:
    real = SpacyParser()
    [parse] = ParseCache(real, tmp_path).parse([TEXT])
    stand_in = ParseCache(deferred(real.name, {"_target_": "nowhere.Parser"}), tmp_path)
    [found] = stand_in.parse([TEXT])
    assert found.relations == parse.relations
    [words] = stand_in.tokenize([TEXT])
    assert words.tolist() == parse.words.tolist()


def test_a_deferred_parser_is_made_on_a_miss(tmp_path: Path) -> None:
    real = SpacyParser()
    [parse] = ParseCache(deferred(real.name, SHIPPED), tmp_path).parse([TEXT])
    assert parse.relations == next(real.parse([TEXT])).relations
    with pytest.raises(ValueError, match=r"parses of other were asked for, and here is spacy-"):
        list(ParseCache(deferred("other", SHIPPED), tmp_path).parse([TEXT]))


def test_a_missing_parser_names_the_text() -> None:
    gone = deferred("spacy-9/x", {**SHIPPED, "name": "nowhere"})
    with pytest.raises(
        ValueError, match=r"1 texts have no cached parse, and spacy-9/x can't be loaded here.*lens isn't"
    ):
        list(gone.tokenize([TEXT]))


def test_a_run_that_could_not_start_or_pack_is_no_success(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    cells = [
        {"name": n, "config": {"pair": "p", "method": n, "seed": 1, "paths": {"run": str(tmp_path / n), "runs": ""}}}
        for n in "ab"
    ]
    (tmp_path / "cells.json").write_text(json.dumps({"format": 1, "cells": cells}))
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "logs").touch()  # where a folder should be
    assert Run(tmp_path, tmp_path / "runs", 1)() == 1
    assert "failed: b: no process could be started for it: " in capsys.readouterr().out
    sound = next((Path(__file__).parents[2] / "results" / "hotel_laptop").rglob("metrics.json"))
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / "metrics.json").write_bytes(sound.read_bytes())
    (tmp_path / "file").touch()
    assert Run(tmp_path, tmp_path / "file", 1)() == 1
    told = capsys.readouterr()
    assert told.out.endswith("2 of 2 cells finished, 0 failed\n")
    assert told.err.startswith("bundle: ") and told.err.count("\n") == 1


def test_configurations_survive_json(tmp_path: Path) -> None:
    data = my_files(tmp_path)
    assert json.loads(json.dumps(Files(tmp_path / "bundle").moved(data)))["dev_share"] == 0.2
