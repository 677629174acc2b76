"""Parses as CoNLL-U files: written from any parser, read as a parser."""

import hashlib
import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from domadapt.syntax.alignment import IntArray
from domadapt.syntax.nouns import PENN, PLURALS, universal_tag
from domadapt.syntax.parser import NOUNS, PLURAL, Parse, Text, word_ranges
from domadapt.utils.pairs import BETWEEN

log = logging.getLogger(__name__)
ID = re.compile(r"[0-9]+([-.][0-9]+)?")


def conllu(name: str, text: str, parse: Parse) -> str:
    r"""One text as a CoNLL-U block that ``parser=conllu`` finds again; several sentences in it are several roots.

    >>> words, heads = np.array([[0, 2], [4, 9], [9, 10]]), np.array([1, 1, 1])
    >>> parse = Parse(words, heads, ("nsubj", "ROOT", "punct"), ("", "", "."))
    >>> print(conllu("a:1", "It  works.", parse).expandtabs(1).rstrip())
    # sent_id = a:1
    # text = It works.
    1 It _ _ _ _ 2 nsubj _ _
    2 works _ _ _ _ 0 root _ SpaceAfter=No
    3 . _ PUNCT . _ 2 punct _ _
    """
    forms = [" ".join(text[start:end].split()) for start, end in parse.words]
    # spaCy makes words of whitespace runs, CoNLL-U can't: theirs go to the next head above that is written.
    written = [i for i, form in enumerate(forms) if form]
    number = {word: n for n, word in enumerate(written, 1)}
    lines = [f"# sent_id = {' '.join(name.split())}", f"# text = {' '.join(text.split())}"]
    for i in written:
        head = parse.heads[i]
        while head not in number and parse.heads[head] != head:
            head = parse.heads[head]
        place = 0 if head == i else number.get(head, 0)
        end = parse.words[i][1]
        misc = "_" if end == len(text) or text[end].isspace() else "SpaceAfter=No"
        relation = parse.relations[i] if place else "root"
        tag = parse.tags[i]
        tags = universal_tag(tag) or "_", tag if tag in PENN else "_", "Number=Plur" if tag in PLURALS else "_"
        row = (number[i], forms[i], "_", *tags, place, relation or "dep", "_", misc)
        lines.append("\t".join(map(str, row)))
    return "\n".join([*lines, "", ""])


class ConlluParser:
    """Parses read from CoNLL-U files, looked up by their ``# text`` line (whitespace runs count as one space).

    A text that is not there, words of a corpus that are others than the file's, and malformed rows are refused.
    """

    takes_new_text = False
    file_alone = True  # a model that reads parses when it predicts labels no text but the file's

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not self.path.is_file():
            raise ValueError(f"{path}: no such CoNLL-U file; set parser.path to a file of parses of your texts")
        content = self.path.read_bytes()
        if content.startswith((b"\x1f\x8b", b"PK\x03\x04")):
            raise ValueError(f"{path}: is compressed; unpack it with gunzip or unzip")
        self.name = f"conllu/{hashlib.sha256(content).hexdigest()[:16]}"
        try:
            sentences = read_conllu(content.decode("utf-8-sig"), str(path))
        except UnicodeDecodeError as error:
            raise ValueError(f"{path}: byte {error.start} is not UTF-8; re-encode the file with iconv") from None
        self._parses: dict[str, Parse] = {}
        others = 0
        for text, parse in sentences:
            first = self._parses.setdefault(text, parse)
            others += first.relations != parse.relations or not np.array_equal(first.heads, parse.heads)
        if others:
            log.warning("%s: %d texts come again with another tree; the first of each is taken", path, others)

    def parse(self, texts: Iterable[Text], processes: int = 1) -> Iterator[Parse]:
        """The stored parse of each text, its words placed in the text as it is written there."""
        for text in texts:
            known = self._parses.get(" ".join(text.text.split()))
            if known is None:
                why = f"no parse with '# text = {text.text[:80]}'; a run needs its texts' parses in the file"
                fix = "and so does a model that reads them when it predicts; parser=shipped parses any text"
                raise ValueError(f"{self.path}: {why}, {fix}")
            placed = place_words(text.text, known)
            if text.words is not None:
                _refuse_other_words(text.text, text.words, placed.words, str(self.path))
            yield placed

    def tokenize(self, texts: Iterable[Text]) -> Iterator[IntArray]:
        return (parse.words for parse in self.parse(texts))


def _refuse_other_words(text: str, corpus_words: Sequence[tuple[int, int]], words: IntArray, where: str) -> None:
    """Words are looked up by number, so that a tree over other words would be a wrong one."""
    theirs, corpus_words = [(a, b) for a, b in words.tolist()], [(a, b) for a, b in corpus_words]
    if theirs != corpus_words:
        first = next((a for a, b in zip(corpus_words, theirs) if a != b), None)
        problem = f"the corpus has {len(corpus_words)} words of it, and the file {len(theirs)}"
        if first:
            problem = f"{text[slice(*first)]!r} is a word of the corpus and none of the file's"
        fix = "write the corpus' own words into the file, or use parser=shipped, which parses them as they are"
        raise ValueError(f"{where}: '# text = {text[:80]}': {problem}; {fix}")


def read_conllu(content: str, source: str) -> Iterator[tuple[str, Parse]]:
    """Sentences of a CoNLL-U file as (text, parse); word ranges are counted in the single-spaced text."""
    text, rows, lines = "", list[list[str]](), list[int]()  # rows of words, and the numbers of their lines
    for number, line in enumerate([*content.replace("\r\n", "\n").split("\n"), ""], start=1):
        if line.startswith("# text ="):
            if rows:
                raise ValueError(f"{source}:{number}: '# text' within a sentence; a blank line ends the one before")
            text = " ".join(line.removeprefix("# text =").split())
        elif line.startswith("#"):
            continue
        elif line.strip():
            columns = line.split("\t")
            if len(columns) != 10:
                raise ValueError(f"{source}:{number}: {len(columns)} tab-separated columns, CoNLL-U has 10")
            if not ID.fullmatch(columns[0]):
                raise ValueError(f"{source}:{number}: ID {columns[0]!r}, expected such as 1, 1-2 or 1.1")
            if "-" not in columns[0] and "." not in columns[0]:  # a written contraction, an unwritten word: no nodes
                rows.append(columns)
                lines.append(number)
        elif rows:
            yield text, _sentence(text, rows, [f"{source}:{at}" for at in lines])
            text, rows, lines = "", [], []


def _sentence(text: str, rows: list[list[str]], places: list[str]) -> Parse:
    where = places[0]
    if not text:
        raise ValueError(f"{where}: the sentence has no '# text =' line, so it can't be matched to a text")
    ranges, position = [], 0
    for place, (where, row) in enumerate(zip(places, rows, strict=True), start=1):
        if row[0] != str(place):  # heads are counted by it
            expected = f"expected {place}: words are 1, 2, ..., and a blank line ends a sentence"
            raise ValueError(f"{where}: word {row[1]!r} has ID {row[0]}, {expected}")
        start = text.find(row[1], position) if row[1] else -1
        if start < 0:
            raise ValueError(f"{where}: word {row[0]} {row[1]!r} is not in '# text = {text[:80]}' after {position}")
        if left := text[position:start].replace(BETWEEN, "").strip():
            raise ValueError(f"{where}: {left[:80]!r} before word {row[0]} {row[1]!r} is in '# text' and in no word")
        position = start + len(row[1])
        ranges.append((start, position))
    if left := text[position:].strip():
        raise ValueError(f"{where}: {left[:80]!r} after the last word is in '# text' and in no word")
    heads = np.empty(len(rows), dtype=np.int64)
    for index, (where, row) in enumerate(zip(places, rows, strict=True)):
        if not (row[6].isascii() and row[6].isdigit()) or int(row[6]) > len(rows):
            raise ValueError(f"{where}: word {row[0]} has HEAD {row[6]!r}, expected 0 to {len(rows)}")
        if row[6] == row[0]:
            raise ValueError(f"{where}: word {row[0]} {row[1]!r} is its own HEAD; a root's is 0")
        heads[index] = int(row[6]) - 1 if int(row[6]) else index
    _check_trees(heads, places)
    return Parse(word_ranges(ranges), heads, tuple(r[7] for r in rows), _tags(rows))


def _tags(rows: list[list[str]]) -> tuple[str, ...]:
    """Penn's tags where the fifth column has these, else the universal ones of the fourth, plurals marked."""
    xpos_tags = {row[4] for row in rows} - {"_"}
    if xpos_tags and xpos_tags <= PENN.keys():
        return tuple(row[4].removeprefix("_") for row in rows)
    plural = (row[3] in NOUNS and "Number=Plur" in row[5].split("|") for row in rows)
    return tuple(row[3].removeprefix("_") + PLURAL * many for row, many in zip(rows, plural, strict=True))


def _check_trees(heads: IntArray, places: Sequence[str]) -> None:
    """One root is a sentence, several are sentences that follow one another."""
    roots = heads
    for _ in range(len(heads).bit_length()):  # after each round, twice as far up
        roots = roots[roots]
    if circle := (np.flatnonzero(heads[roots] != roots) + 1).tolist():
        words = str(circle[:8])[1:-1]
        raise ValueError(f"{places[circle[0] - 1]}: words {words} lead to no root: their HEADs go in a circle")
    changes = roots[np.flatnonzero(np.diff(roots)) + 1].tolist()
    if len({int(roots[0]), *changes}) < 1 + len(changes):
        two = (np.unique(roots)[:2] + 1).tolist()
        expected = "expected one root a sentence, or sentences that follow one another"
        mixed = f"words {two[0]} and {two[1]} have HEAD 0, and the words under them are mixed"
        raise ValueError(f"{places[two[0] - 1]}: {mixed}: {expected}")


def place_words(text: str, parse: Parse) -> Parse:
    """Move word ranges from the single-spaced text to the text as written, whitespace runs and all."""
    single = " ".join(text.split())
    if single == text:
        return parse
    solid = [i for i, c in enumerate(text) if not c.isspace()]
    # The nth visible character is the same one in both texts.
    counts = np.cumsum([0, *(not c.isspace() for c in single)])
    return parse._replace(words=word_ranges([(solid[counts[s]], solid[counts[e] - 1] + 1) for s, e in parse.words]))
