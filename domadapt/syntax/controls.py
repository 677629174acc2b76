"""Parsers around parsers: a control, whose trees a gain from syntax must beat; one for each of two languages."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import groupby, tee
from pathlib import Path
from typing import Any

import numpy as np

from domadapt.config.compose import make
from domadapt.config.resolvers import SIDES
from domadapt.syntax.alignment import IntArray
from domadapt.syntax.cache import ParseCache
from domadapt.syntax.nouns import PLURALS, universal_tag
from domadapt.syntax.parser import PLURAL, Parse, Parser, SpacyParser, Text

PREVIOUS = "previous"  # the one relation of a linear tree's arcs
SELF = "self"  # and of a tree without arcs


class Control(ABC):
    """A parser that gives every text another tree over the same words.

    It stands around the cache, so that real parses are kept once; its ``name`` has the title first: the parses differ.
    """

    title: str

    def __init__(self, parser: Parser) -> None:
        self.parser = parser
        self.name = f"{self.title}/{parser.name}"

    @abstractmethod
    def other(self, parse: Parse, text: str) -> Parse:
        """The text's other tree, the same in every run: what is random in it is drawn from the text."""

    def parse(self, texts: Iterable[Text], processes: int = 1) -> Iterator[Parse]:
        texts, copy = tee(texts)  # parsers keep the order
        for text, parse in zip(copy, self.parser.parse(texts, processes)):
            yield self.other(parse, text.text)

    def tokenize(self, texts: Iterable[Text]) -> Iterator[IntArray]:
        return self.parser.tokenize(texts)


def controlled(parser: Parser, control: Mapping[str, Any] | None) -> Parser:
    """A parser with the control that ``control=`` names, its configuration by name, around it; else itself."""
    for config in (control or {}).values():
        parser = make(config, parser=parser)
    return parser


class Linear(Control):
    """Trees in which each word's head is the word before it; the first is the root, and all relations are one.

    The neutral control of methods that use trees: the same network learns as many arcs (and one between sentences),
    which are true of the text and say nothing of its syntax. A method that does not beat it needs no parser.

    >>> from types import SimpleNamespace
    >>> real = Parse(np.array([[0, 1], [2, 3], [4, 5]]), np.array([1, 1, 1]), ("det", "root", "obj"), ("", "", ""))
    >>> other = Linear(SimpleNamespace(name="parser")).other(real, "a b c")
    >>> other.heads.tolist(), other.relations
    ([0, 0, 1], ('previous', 'previous', 'previous'))
    """

    title = "linear"

    def other(self, parse: Parse, text: str) -> Parse:
        words = len(parse.heads)
        return parse._replace(heads=np.maximum(np.arange(words) - 1, 0), relations=(PREVIOUS,) * words)


class SelfLoops(Control):
    """Trees without arcs: the same network and the same losses, with nothing to read. Every word is a root."""

    title = "self_loops"

    def other(self, parse: Parse, text: str) -> Parse:
        words = len(parse.heads)
        return parse._replace(heads=np.arange(words), relations=(SELF,) * words)


class Shuffled(Control):
    """Trees that keep their shape and relations but are moved to random words of the text.

    A method that gains as much from them as from real trees gains from capacity or regularisation, not from syntax. But
    wrong trees may harm, so that what beats them need not be any good: see :class:`Linear`.
    """

    title = "shuffled"

    def __init__(self, parser: Parser, seed: int) -> None:
        super().__init__(parser)
        self.name, self.seed = f"{self.title}-{seed}/{parser.name}", seed

    def other(self, parse: Parse, text: str) -> Parse:
        return shuffle(parse, self.random(text).permutation(len(parse.heads)))

    def random(self, text: str) -> np.random.Generator:
        """Random numbers that are the same for the same text."""
        return np.random.default_rng(list(hashlib.sha256(f"{self.seed} {text}".encode()).digest()))


class RandomTree(Shuffled):
    """A tree with one root, drawn uniformly from all over the text's words, with its own relations: farther from syntax
    than :class:`Shuffled`, which keeps the shape that sentences' trees have."""

    title = "random"

    def other(self, parse: Parse, text: str) -> Parse:
        """Random heads; the root gets a real root's relation, the others are dealt out."""
        words = len(parse.heads)
        if not words:
            return parse
        random = self.random(text)
        heads = random_heads(words, random)
        first = int((parse.heads == np.arange(words)).argmax())
        rest = random.permutation(np.delete(np.arange(words), first))
        dealt = np.insert(rest, int((heads == np.arange(words)).argmax()), first)
        return parse._replace(heads=heads, relations=tuple(parse.relations[i] for i in dealt.tolist()))


def shuffle(parse: Parse, order: IntArray) -> Parse:
    """Give word ``order[i]`` the place that word ``i`` has in the tree; ``order`` is a permutation of the words."""
    heads = np.empty_like(parse.heads)
    heads[order] = order[parse.heads]
    relations = tuple(parse.relations[word] for word in np.argsort(order).tolist())
    return parse._replace(heads=heads, relations=relations)


def random_heads(words: int, random: np.random.Generator) -> IntArray:
    """Heads of a tree drawn uniformly from the ``words ** (words - 1)`` rooted trees over that many words, 1 or more.

    A walk over random words starts at the root; the head of a word is the one from which the walk first came to it
    (Aldous 1990, Broder 1989, on the complete graph). The root is its own head.
    """
    current = int(random.integers(words))
    heads = {current: current}
    while len(heads) < words:
        for word in random.integers(words, size=4 * words).tolist():
            heads.setdefault(word, current)
            current = word
    return np.array([heads[word] for word in range(words)], dtype=np.int64)


class TwoParsers:
    """The source's texts, by its domains, to one parser; the target's, and any that is labelled later, to another.

    Tags of both are universal ones, whatever the pipelines give, so that what is learnt of them carries over. The
    name is that of the target's parser: models are used on the target.
    """

    def __init__(self, source: Parser, target: Parser, domains: Collection[str]) -> None:
        self.source, self.target, self.domains = source, target, frozenset(domains)
        self.name = target.name
        self.takes_new_text = getattr(source, "takes_new_text", True)  # which is rewritten source text
        self.file_alone = getattr(target, "file_alone", False)

    def parse(self, texts: Iterable[Text], processes: int = 1) -> Iterator[Parse]:
        for parser, run in groupby(texts, self._parser):
            for parse in parser.parse(run, processes):
                yield parse._replace(tags=tuple(universal_tag(tag) + PLURAL * (tag in PLURALS) for tag in parse.tags))

    def tokenize(self, texts: Iterable[Text]) -> Iterator[IntArray]:
        for parser, run in groupby(texts, self._parser):
            yield from parser.tokenize(run)

    def _parser(self, text: Text) -> Parser:
        return self.source if getattr(text, "domain", None) in self.domains else self.target


SPACY = f"{SpacyParser.__module__}.{SpacyParser.__qualname__}"


def one_parser(config: Mapping[str, Any], side: str = "target") -> dict[str, Any]:
    """The settings of one side's parser: ``parser.source`` or ``parser.target`` where it is set, else the one.

    >>> one_parser({"_target_": SPACY, "name": "shipped", "source": None, "target": "fr_core_news_sm"})["name"]
    'fr_core_news_sm'
    """
    settings = {str(key): value for key, value in config.items() if key not in SIDES}
    if config.get(side) is None:
        return settings
    return (settings if settings.get("_target_") == SPACY else {"_target_": SPACY}) | {"name": config[side]}


def make_parser(config: Mapping[str, Any], domains: Any, folder: str | Path | None = None) -> Any:
    """The parser of a configuration, or both sides', with a cache in ``folder`` if there is one."""

    def make_side(side: str) -> Parser:
        parser: Parser = make(one_parser(config, side))
        return parser if folder is None else ParseCache(parser, folder)

    if one_parser(config, "source") == one_parser(config, "target"):
        return make_side("target")
    records = (*domains.source_train, *domains.source_dev, *domains.source_test)
    sources = {record.domain for record in records} - {domains.target}  # labelled ones stay the target's
    return TwoParsers(make_side("source"), make_side("target"), sources)
