"""Train and score the small English parser that ships in ``data/parser``, from UD English EWT."""

from __future__ import annotations

import argparse
import gzip
import json
import platform
import re
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import spacy
from spacy.language import Language
from spacy.scorer import Scorer
from spacy.tokens import Doc, DocBin, Token
from spacy.training import Example
from spacy.training.initialize import init_nlp
from spacy.training.loop import train as run_training
from spacy.util import load_config
from thinc.api import NumpyOps, set_current_ops

HOME = Path(__file__).resolve().parents[2] / "data" / "parser"
SCORES = {"uas": "dep_uas", "las": "dep_las", "tag": "tag_acc", "pos": "pos_acc", "sents_f": "sents_f"}
COLUMNS = ("uas", "las", "uas_punct", "las_punct", "las_punct_universal", "tag", "pos", "sents_f", "token_f")


def find(treebank: Path, split: str) -> Path:
    """The file of one split, gzip or plain; says where to get the treebank if it is not there."""
    names = [treebank / f"en_ewt-ud-{split}.conllu{end}" for end in (".gz", "")]
    for name in filter(Path.is_file, names):
        return name
    raise FileNotFoundError(
        f"no {names[1].name}[.gz] in {treebank} (setting --treebank): get UD English EWT, CC BY-SA 4.0, from "
        "https://github.com/UniversalDependencies/UD_English-EWT and give the folder that holds its files"
    )


def read(nlp: Language, treebank: Path, spaces: bool = True, per_doc: int = 10) -> list[Doc]:
    """Gold documents of at most ``per_doc`` sentences, none crossing a text; ``user_data`` holds the genre.

    Without ``spaces`` a document says that it knows none, and spaCy then trains and scores on gold tokens.
    """
    raw = treebank.read_bytes()
    text = (gzip.decompress(raw) if treebank.suffix == ".gz" else raw).decode("utf-8")
    docs: list[Doc] = []
    rows: list[tuple[Any, ...]] = []
    genre, count = "", 0
    for block in [*filter(str.strip, text.split("\n\n")), ""]:
        if rows and (count == per_doc or not block or "# newdoc" in block):
            words, blanks, *gold = (list(column) for column in zip(*rows, strict=True))
            names = ("tags", "pos", "heads", "deps", "sent_starts")
            known: dict[str, Any] = dict(zip(names, gold, strict=True)) | ({"spaces": blanks} if spaces else {})
            docs.append(Doc(nlp.vocab, words=words, user_data={"genre": genre}, **known))
            rows, count = [], 0
        sent = re.search(r"^# sent_id = ([A-Za-z]+)", block, re.M)
        genre = sent.group(1) if sent else ""
        base, end, end_glued = len(rows), 0, False
        for cells in (line.split("\t") for line in block.split("\n") if line[:1].isdigit()):
            glued = "SpaceAfter=No" in cells[-1]
            if "-" in cells[0]:  # a multiword token: no space between its words
                end, end_glued = int(cells[0].split("-")[1]), glued
            elif "." not in cells[0]:
                here, head = int(cells[0]), int(cells[6])
                blank = here >= end and not (end_glued if here == end else glued)
                dep = cells[7] if head else "ROOT"
                rows.append((cells[1], blank, cells[4], cells[3], base + (head or here) - 1, dep, here == 1))
        count += 1
    return docs


def convert(treebank: Path, output: Path, spaces: bool = False) -> None:
    """Write a CoNLL-U file (gzip or plain) as a spaCy ``DocBin``."""
    output.parent.mkdir(parents=True, exist_ok=True)
    DocBin(docs=read(spacy.blank("en"), treebank, spaces), store_user_data=True).to_disk(output)


def _score(nlp: Language, gold: list[Doc], own: bool) -> dict[str, float]:
    made = [nlp.make_doc(d.text) if own else Doc(nlp.vocab, words=[t.text for t in d]) for d in gold]
    examples = [Example(doc, g) for doc, g in zip(nlp.pipe(made, batch_size=256), gold, strict=True)]
    out = Scorer(nlp).score(examples)
    scores = {name: out[key] for name, key in SCORES.items()} | ({"token_f": out["token_f"]} if own else {})
    for end, stop in (("", None), ("_universal", ":")):

        def label(token: Token, _: str, stop: str | None = stop) -> str:
            return str(token.dep_).lower().split(stop)[0]

        full = Scorer.score_deps(examples, "dep", getter=label, ignore_labels=())
        scores |= {f"las_punct{end}": full["dep_las"], "uas_punct": full["dep_uas"]}
    return {name: round(100 * float(value), 2) for name, value in scores.items()}


def evaluate(model: Path, treebank: Path) -> dict[str, Any]:
    """Scores in percent on gold tokens and on spaCy's own, size and speed: what ``scores.json`` holds.

    ``uas`` and ``las`` follow spaCy (no punctuation, full labels); ``*_punct`` count every token as UD does,
    and ``las_punct_universal`` also drops the subtypes of the labels as the CoNLL shared tasks did.
    """
    nlp = spacy.load(model)
    parts = {split: read(nlp, find(treebank, split)) for split in ("dev", "test")}
    texts = [doc.text for doc in parts["test"]] * 2
    for doc in parts["test"]:
        parts.setdefault(f"test {doc.user_data['genre']}", []).append(doc)
    kinds = {"gold": False, "spacy": True}
    scores = {name: {kind: _score(nlp, d, own) for kind, own in kinds.items()} for name, d in parts.items()}
    start, words = time.perf_counter(), sum(map(len, nlp.pipe(texts, batch_size=256)))
    speed = round(words / (time.perf_counter() - start))
    size = round(sum(file.stat().st_size for file in model.rglob("*") if file.is_file()) / 1e6, 2)
    machine = f"{platform.machine()}, one thread, spaCy {spacy.__version__}"
    return {"scores": scores, "size_mb": size, "words_per_second": speed, "machine": machine}


def prune(trained: Path, output: Path) -> None:
    """Copy a trained pipeline without the words of its training text: only the strings of its labels stay."""
    nlp = spacy.load(trained)
    nlp.meta.update(json.loads((HOME / "meta.json").read_text()), performance={})
    shutil.rmtree(output, ignore_errors=True)
    nlp.to_disk(output)
    labels = {label for names in nlp.pipe_labels.values() for label in names}
    labels |= {part for label in labels for part in re.split(r"\|\||[|=]", label)}
    (output / "vocab" / "strings.json").write_text(json.dumps(sorted(labels)))


def card_table(scores: dict[str, Any]) -> str:
    """The Markdown table of ``CARD.md`` for what ``evaluate`` gave."""
    lines = ["| part | tokens | " + " | ".join(COLUMNS) + " |", "|---|---|" + "---:|" * len(COLUMNS)]
    for (part, kinds), kind in ((item, kind) for item in scores["scores"].items() for kind in item[1]):
        lines.append(f"| {part} | {kind} | " + " | ".join(str(kinds[kind].get(c, "")) for c in COLUMNS) + " |")
    rest = f"{scores['words_per_second']} words/s ({scores['machine']}), {scores['size_mb']} MB on disk."
    return "\n".join([*lines, "", rest])


def train(treebank: Path, output: Path, extra: Path | None = None) -> None:
    """Convert, train as ``train.cfg`` says, prune, score; write the scores into ``scores.json`` and the card."""
    set_current_ops(NumpyOps(use_blis=False))  # numpy's matrix product was three times faster than blis
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        for split in ("train", "dev"):
            convert(find(treebank, split), work / split / "gold.spacy")
        if extra:
            shutil.copy(extra, work / "train" / "extra.spacy")
        paths = {"paths.train": str(work / "train"), "paths.dev": str(work / "dev")}
        run_training(init_nlp(load_config(HOME / "train.cfg", overrides=paths)), work / "out")
        prune(work / "out" / "model-best", output / "model")
    publish(treebank, output)
