"""`domadapt bundle`: the cells of a benchmark with everything that they need, as one file that runs itself."""

import json
import logging
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from omegaconf import DictConfig

from domadapt.benchmarking.plan import cells
from domadapt.bundling.backbone import bundled_backbone
from domadapt.bundling.corpora import Files, read_all
from domadapt.bundling.libraries import copy_foreign, copy_libraries, copy_package
from domadapt.bundling.run import FORMAT
from domadapt.config.instantiate import make, plain
from domadapt.methods.method import TREES
from domadapt.runs.content import files_named
from domadapt.runs.key import folder_of
from domadapt.syntax.cache import ParseCache
from domadapt.syntax.parser import Parser, Text
from domadapt.training.build import make_methods
from domadapt.utils.files import refuse_overwriting, replace_atomic
from domadapt.utils.opened import files_read
from domadapt.utils.progress import progress
from domadapt.utils.redact import command_line, redacted

log = logging.getLogger(__name__)
LARGEST = 60e6  # bytes, without a warning
DEFERRED = "domadapt.syntax.deferred.DeferredParser"


def bundle(cfg: DictConfig, overrides: Sequence[str] = ()) -> Path:
    """Pack every cell of an experiment; prints the size of each part.

    Args:
        cfg: a composed ``bundle.yaml``.
        overrides: the user's own; they hold for every cell.

    Returns:
        The file. ``python FILE`` runs the cells on a machine with torch and transformers alone.

    Raises:
        ValueError: a setting, a corpus or a backbone that can't be packed; says why.
    """
    if cfg.output is None or Path(str(cfg.output)).is_dir():
        raise ValueError(f"output={cfg.output or 'null'}: expected a file's name, such as output=bundle.pyz")
    own = [o for o in overrides if not o.lstrip("+").startswith("output=")]
    todo = cells(cfg, [*own, "tracking=none"])
    refuse_overwriting(Path(cfg.output), [path for cell in todo for path in files_named(plain(cell.config.data))])
    with tempfile.TemporaryDirectory(prefix="domadapt-bundle-") as name:
        folder = Path(name)
        copy_package(folder / "site")
        copy_libraries(folder / "site")
        packing = Packing(folder, folder_of(cfg, "cache"))
        with files_read() as read:
            packed = [
                {"name": c.name, "config": packing.cell(c.config)} for c in progress(todo, "pack", len(todo), "cell")
            ]
        refuse_overwriting(Path(cfg.output), read)
        packing.parse()
        content = {"format": FORMAT, "command": command_line(["domadapt", *sys.argv[1:]]), "cells": packed}
        (folder / "cells.json").write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
        (folder / "__main__.py").write_bytes(Path(__file__).with_name("unpack.py").read_bytes())
        replace_atomic(Path(cfg.output), lambda part: _zip(folder, part))
    tell(Path(cfg.output), len(packed))
    return Path(cfg.output)


class Packing:
    """Cells on their way into a bundle.

    Args:
        folder: where its content is put together.
        cache: the user's parse cache, from which known parses are taken.
    """

    def __init__(self, folder: Path, cache: Path) -> None:
        self.folder, self.cache = folder, cache
        self.files = Files(folder)
        self.texts: dict[str, list[Text]] = {}  # by the configuration of their corpora
        self.parsers: dict[str, Parser] = {}  # by configuration
        self.work: dict[tuple[str, str], bool] = {}  # (parser, corpora): parse, or only find words?

    def cell(self, cell: DictConfig) -> dict[str, Any]:
        """Pack what one cell names, and return its configuration as it is in the bundle."""
        config = plain(cell)
        if secret := [name for name, value in config.items() if redacted({name: value}) != {name: value}]:
            raise ValueError(
                f"{secret[0]}: a setting holds a secret, which a bundle would carry in clear; leave it out"
            )
        data, parser = (json.dumps(config[group], sort_keys=True) for group in ("data", "parser"))
        if data not in self.texts:
            self.texts[data], read = read_all(config["data"])
            self.files.take(config["data"], read)
            self._check(config["data"], self.texts[data])
        if parser not in self.parsers:
            self.parsers[parser] = make(config["parser"])
        parses = bool(cell.floor) or any({*TREES, "corpus_parses"} & m.reads for m in make_methods(cell).values())
        self.work[parser, data] = self.work.get((parser, data), False) or parses
        copy_foreign(config, self.folder / "own")  # apart from libraries, which are no neighbours of it
        rest = {k: v for k, v in config.items() if k not in ("data", "parser", "backbone", "paths", "benchmark")}
        self.files.take(rest)
        packed = {**config, **self.files.moved(rest), "data": self.files.moved(config["data"])}
        packed["paths"] = {**config["paths"], "runs": "runs", "run": None, "cache": "cache"}
        # The parser itself stays here: its name is enough where every text's parse is at hand.
        name = self.parsers[parser].name
        packed["parser"] = {"_target_": DEFERRED, "_recursive_": False, "name": name, "parser": config["parser"]}
        if config["backbone"].get("name"):
            place = bundled_backbone(str(config["backbone"]["name"]), self.folder)
            packed["backbone"] = {**config["backbone"], "name": place}
        return packed

    def parse(self) -> None:
        """Fill the bundle's parse cache, as far as possible from the user's."""
        for (parser, data), parses in self.work.items():
            source, texts = self.parsers[parser], self.texts[data]
            known = ParseCache(source, self.cache)
            kept = ParseCache(known, self.folder / "cache")
            found = kept.parse(texts) if parses else kept.tokenize(texts)
            for _ in progress(found, f"parse with {source.name.partition('/')[0]}", len(texts), "text"):
                pass
            kept.close()
            known.close()

    def _check(self, data: dict[str, Any], texts: list[Text]) -> None:
        """The bundle's corpora must read as the originals do."""
        again, _ = read_all(self.files.moved(data, base=self.folder))
        if [(t.text, t.words) for t in again] != [(t.text, t.words) for t in texts]:
            raise ValueError(f"data={data}: from the bundle these corpora read differently; they can't be bundled")


def _zip(folder: Path, part: Path) -> None:
    """Everything in a folder as a zip file with fixed times, so that the same content makes the same file."""
    with ZipFile(part, "w", ZIP_DEFLATED) as archive:
        for path in sorted(p for p in folder.rglob("*") if p.is_file()):
            entry = ZipInfo(path.relative_to(folder).as_posix())
            entry.compress_type, entry.external_attr = ZIP_DEFLATED, 0o644 << 16
            archive.writestr(entry, path.read_bytes())


def sizes(path: Path) -> Counter[str]:
    """Packed bytes of each part of a bundle."""
    parts: Counter[str] = Counter()
    with ZipFile(path) as archive:
        for entry in archive.infolist():
            first, *rest = entry.filename.split("/")
            ours = first == "site" and rest[0].startswith("domadapt")
            parts["package" if ours else "libraries" if first == "site" else first] += entry.compress_size
    return parts


def tell(path: Path, count: int) -> None:
    """Print what is in a bundle, and how to run it."""
    names = {"own": "your own code", "cache": "parses and words", "cells.json": "cells", "__main__.py": "unpacker"}
    for part, size in sizes(path).most_common():
        print(f"{names.get(part, part):<18} {size / 1e6:6.1f} MB")
    total = path.stat().st_size
    print(f"{path}: {count} cells, {total / 1e6:.1f} MB; there: python {path.name} runs=runs")
    if total > LARGEST:
        log.warning(
            "%s is larger than %.0f MB; a smaller backbone or fewer corpora make it smaller", path, LARGEST / 1e6
        )
