"""Train and score a small parser from a treebank of Universal Dependencies, such as that in ``data/parser``.

That one is English, from UD English EWT. Other languages' words are tagged as UD does, with the number of nouns, and
contractions that are written as one word ('du', of 'de' and 'le') are one word, as spaCy's tokenisers leave them.
"""

import argparse
import gzip
import json
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

import spacy
from spacy.language import Language
from spacy.tokens import Doc, DocBin
from spacy.training import Example
from spacy.training.initialize import init_nlp
from spacy.training.loop import train as run_training
from thinc.api import NumpyOps, set_current_ops

from domadapt.syntax.parser import ENGLISH
from domadapt.utils.files import shipped

PARSER_FOLDER = shipped() / "parser"
SOURCE = "get UD English EWT from https://github.com/UniversalDependencies/UD_English-EWT (CC BY-SA 4.0), or another"
FIELDS = ("words", "spaces", "tags", "pos", "morphs", "heads", "deps", "sent_starts")
# Of spaCy's scores, what is told, by its column: punctuation is not counted, labels are compared in full.
SCORES = ("dep_uas", "dep_las", "tag_acc", "pos_acc", "sents_f", "token_f")
COLUMNS = {name: name.removeprefix("dep_").removesuffix("_acc") for name in SCORES}


def find(treebank: Path, split: str) -> Path:
    """The file of one split, gzip or plain; says where to get the treebank if it is not there."""
    for path in sorted([*treebank.glob(f"*-ud-{split}.conllu*"), *treebank.glob(f"{split}.conllu*")]):
        return path
    raise FileNotFoundError(f"--treebank {treebank}: no *-ud-{split}.conllu[.gz] there; {SOURCE}")


def read(nlp: Language, treebank: Path, spaces: bool = True, per_doc: int = 10) -> list[Doc]:
    """Gold documents of sentences of one text; without ``spaces``, spaCy trains and scores on gold tokens."""
    raw = treebank.read_bytes()
    text = (gzip.decompress(raw) if treebank.suffix == ".gz" else raw).decode("utf-8")
    docs, rows, genre, count = list[Doc](), list[tuple[Any, ...]](), "", 0
    for block in [*filter(str.strip, text.split("\n\n")), ""]:
        if rows and (count == per_doc or not block or "# newdoc" in block):
            columns: dict[str, Any] = dict(zip(FIELDS, map(list, zip(*rows, strict=True)), strict=True))
            unknown = [*["spaces"] * (not spaces), *["morphs"] * (nlp.lang == ENGLISH)]
            docs.append(Doc(nlp.vocab, user_data={"genre": genre}, **columns | dict.fromkeys(unknown)))
            rows, count = [], 0
        genre = (re.findall(r"^# sent_id = ([A-Za-z]+)", block, re.M) or [""])[0]
        rows += sentence([line.split("\t") for line in block.split("\n") if line[:1].isdigit()], len(rows), nlp.lang)
        count += 1
    return docs


def sentence(lines: list[list[str]], base: int, language: str) -> list[tuple[Any, ...]]:
    """Rows of ``FIELDS`` of a sentence whose first word is the ``base``-th of its document."""
    ranges = {int((ends := cells[0].split("-"))[0]): (int(ends[1]), cells) for cells in lines if "-" in cells[0]}
    words = {int(cells[0]): cells for cells in lines if cells[0].isdigit()}
    joined: dict[int, int] = {}  # words of a contraction, to the one that stands for them
    last: dict[int, list[str]] = {}  # the token that a word ends, with what is said of the space behind it
    for first, (end, cells) in ranges.items():
        inside = range(first, end + 1)
        last[end] = cells
        if language != ENGLISH and cells[1] != "".join(words[i][1] for i in inside):
            top = next(i for i in inside if int(words[i][6]) not in inside)
            joined |= dict.fromkeys(inside, top)
            words[top] = [words[top][0], cells[1], *words[top][2:]]
            last[top] = cells
        else:
            last |= {i: ["", "", "glued"] for i in inside[:-1]}
    tokens = [i for i in words if joined.get(i, i) == i]
    place = {i: base + tokens.index(joined.get(i, i)) for i in words}
    rows = []
    for i in tokens:
        cells = words[i]
        tag = cells[4] if cells[4] != "_" else cells[3]
        number = [feature for feature in cells[5].split("|") if feature.startswith("Number=")]
        glued = "glued" in last.get(i, cells) or "SpaceAfter=No" in last.get(i, cells)[-1]
        head = place[int(cells[6]) or i]
        relation = cells[7].replace("root", "ROOT")
        rows.append((cells[1], not glued, tag, cells[3], "|".join(number), head, relation, i == tokens[0]))
    return rows


def convert(treebank: Path, output: Path, spaces: bool = False, language: str = ENGLISH) -> None:
    """Write a CoNLL-U file (gzip or plain) as a spaCy ``DocBin``."""
    output.parent.mkdir(parents=True, exist_ok=True)
    DocBin(docs=read(spacy.blank(language), treebank, spaces), store_user_data=True).to_disk(output)


def evaluate(model: Path, treebank: Path) -> dict[str, Any]:
    """What ``scores.json`` holds: percentages on gold tokens and on spaCy's own, size and speed."""
    nlp = spacy.load(model)
    scores: dict[str, dict[str, Any]] = {}
    for part in ("dev", "test"):
        gold = read(nlp, find(treebank, part))
        words = [Doc(nlp.vocab, [t.text for t in doc], [bool(t.whitespace_) for t in doc]) for doc in gold]
        for kind, docs in (("gold", words), ("spacy", [nlp.make_doc(doc.text) for doc in gold])):
            result = nlp.evaluate([Example(doc, truth) for doc, truth in zip(docs, gold, strict=True)])
            percent = {column: round(100.0 * (result.get(name) or 0.0), 2) for name, column in COLUMNS.items()}
            scores.setdefault(part, {})[kind] = percent
    size = round(sum(file.stat().st_size for file in model.rglob("*") if file.is_file()) / 1e6, 2)
    return {"scores": scores, "size_mb": size, "words_per_second": round(result["speed"])}


def prune(trained: Path, output: Path, treebank: str) -> None:
    """Copy a trained pipeline without the words of its training text: only the strings of its labels stay."""
    nlp = spacy.load(trained, config={"paths.train": None, "paths.dev": None})
    nlp.meta.update(name="domadapt", description=f"Trained by domadapt on {treebank}, whose licence holds for it.")
    if nlp.lang == ENGLISH:
        nlp.meta.update(json.loads((PARSER_FOLDER / "model" / "meta.json").read_text()))
    nlp.meta["performance"] = {}
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    nlp.to_disk(output)
    labels = {p for names in nlp.pipe_labels.values() for x in names for p in (x, *re.split("[|=]+", x))}
    (output / "vocab" / "strings.json").write_text(json.dumps(sorted(labels)))


def train(
    treebank: Path, output: Path, extra: Path | None = None, language: str = ENGLISH, steps: int | None = None
) -> None:
    """Convert, train as ``train.cfg`` says, prune and score; write ``scores.json`` and a card with its table."""
    set_current_ops(NumpyOps(use_blis=False))  # numpy's matrix product was three times faster than blis
    with tempfile.TemporaryDirectory() as folder:
        gold, dev = Path(folder, "train", "0.spacy"), Path(folder, "dev.spacy")
        convert(find(treebank, "train"), gold, language=language)
        convert(find(treebank, "dev"), dev, language=language)
        settings: dict[str, Any] = {"paths.train": str(gold), "paths.dev": str(dev), "nlp.lang": language}
        if steps:
            settings |= {"training.max_steps": steps, "training.optimizer.learn_rate.total_steps": steps}
            settings |= {"training.eval_frequency": min(500, steps)}
        nlp = init_nlp(spacy.util.load_config(PARSER_FOLDER / "train.cfg", settings))
        if extra:  # the labels come from the gold trees, which then count three times
            for number, source in enumerate((gold, gold, extra), 1):
                shutil.copy(source, gold.with_name(f"{number}.spacy"))
            nlp.config["paths"]["train"] = str(gold.parent)
        run_training(nlp, Path(folder))
        prune(Path(folder, "model-best"), output / "model", treebank.resolve().name)
    scores = evaluate(output / "model", treebank)
    (output / "scores.json").write_text(json.dumps(scores, indent=1) + "\n")
    lines = [["part", "tokens", *COLUMNS.values()], ["---"] * (len(COLUMNS) + 2)]
    lines += [[part, kind, *map(str, s.values())] for part, of in scores["scores"].items() for kind, s in of.items()]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    card = f"# {language}\n\nTrained on {treebank.resolve().name}; its licence holds for this model.\n\n{table}\n"
    (output / "CARD.md").write_text(card)


def main(argv: list[str] | None = None) -> None:
    """``python -m domadapt.syntax.treebank train --treebank DIR --output DIR [--language fr]``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=["train"])
    parser.add_argument("--treebank", type=Path, required=True, help="folder of a UD treebank: train, dev, test")
    parser.add_argument("--output", type=Path, required=True, help="gets model/, scores.json and CARD.md")
    parser.add_argument("--extra", type=Path, help="more parses to train on, a .spacy file")
    parser.add_argument("--language", default=ENGLISH, help="two letters, as spaCy names it; its tokeniser is used")
    parser.add_argument("--steps", type=int, help="of training; as in train.cfg if not given")
    args = parser.parse_args(argv)
    train(args.treebank, args.output, args.extra, args.language, args.steps)


if __name__ == "__main__":
    main()
