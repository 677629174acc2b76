"""Two languages in one run: the source's texts parsed by one pipeline, the target's by another."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

from domadapt.config.compose import make
from domadapt.config.resolvers import SIDES
from domadapt.syntax.alignment import IntArray
from domadapt.syntax.cache import ParseCache
from domadapt.syntax.nouns import PLURALS, universal
from domadapt.syntax.parser import PLURAL, Parse, Parser, SpacyParser, Text


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
                yield parse._replace(tags=tuple(universal(tag) + PLURAL * (tag in PLURALS) for tag in parse.tags))

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
    plain = {str(key): value for key, value in config.items() if key not in SIDES}
    if config.get(side) is None:
        return plain
    return (plain if plain.get("_target_") == SPACY else {"_target_": SPACY}) | {"name": config[side]}


def make_parser(config: Mapping[str, Any], domains: Any, folder: str | Path | None = None) -> Any:
    """The parser of a configuration, or both sides', with a cache in ``folder`` if there is one."""

    def made(side: str) -> Parser:
        parser: Parser = make(one_parser(config, side))
        return parser if folder is None else ParseCache(parser, folder)

    if one_parser(config, "source") == one_parser(config, "target"):
        return made("target")
    sources = {record.domain for record in domains.source_train} - {domains.target}  # labelled ones stay the target's
    return TwoParsers(made("source"), made("target"), sources)
