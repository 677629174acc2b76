"""Where dependency parses come from: what a parser is, spaCy's pipelines, and parses that mean little."""

import hashlib
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache, cached_property, lru_cache
from importlib.metadata import PackageNotFoundError, version
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from domadapt.config.overrides import in_range
from domadapt.syntax.alignment import IntArray
from domadapt.utils.files import shipped
from domadapt.utils.pairs import parts
from domadapt.utils.work import in_order

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc

SHIPPED = "shipped"  # the name of the pipeline that travels with the package
ENGLISH = "en"
PUNCTUATION = "punct"  # arcs to punctuation teach nothing and clutter much: not drawn
NOUNS = frozenset({"NOUN", "PROPN"})  # universal tags
PLURAL = "|Plur"  # behind these, of a plural
WORTH_WORKERS = 500_000  # characters of text, 6 seconds of one process: with fewer, starting workers costs more


class Text(Protocol):
    """What can be parsed: characters, and the owner's tokens where the corpus came tokenised."""

    @property
    def text(self) -> str: ...

    @property
    def words(self) -> tuple[tuple[int, int], ...] | None: ...


class Parse(NamedTuple):
    """A dependency parse of one text; several sentences in it mean several roots. A warm cache makes tuples fast."""

    words: IntArray  #: (words, 2) character ranges, end exclusive
    heads: IntArray  #: (words,) index of each word's head; a root is its own head
    relations: tuple[str, ...]  #: (words,) name of the arc to the head
    tags: tuple[str, ...]  #: (words,) Penn's if English, else universal, :data:`PLURAL` behind plurals'; empty for none

    def within(self, start: int, end: int) -> tuple[int, int] | None:
        """First word and end of a range of characters; None where it covers no word.

        >>> parse = Parse(np.array([[0, 3], [4, 9]]), np.array([1, 1]), ("amod", "ROOT"), ("", ""))
        >>> parse.within(2, 5), parse.within(4, 9), parse.within(3, 4)
        ((0, 2), (1, 2), None)
        """
        inside = np.flatnonzero((self.words[:, 0] < end) & (self.words[:, 1] > start))
        return (int(inside[0]), int(inside[-1]) + 1) if len(inside) else None


class Parser(Protocol):
    """Turns texts into parses, in order. ``name`` identifies the parses: it is part of every cache key."""

    @property
    def name(self) -> str: ...

    def parse(self, texts: Iterable[Text], processes: int = 1) -> Iterator[Parse]: ...

    def tokenize(self, texts: Iterable[Text]) -> Iterator[IntArray]: ...


LONG_RUN = re.compile(r"\S{200}(?=\S)")  # of characters; longer words are addresses, or noise


class SpacyParser:
    """A spaCy pipeline with a dependency parser: ``shipped``, for English, or the name or folder of another."""

    def __init__(self, name: str = SHIPPED, batch_size: int = 256) -> None:
        in_range("parser.batch_size", batch_size, 1)  # of 0, spaCy would give no parses, and no error
        self.pipeline = name
        self.batch_size = batch_size
        if name != SHIPPED:
            self._nlp  # noqa: B018  it may not be installed

    @cached_property
    def name(self) -> str:
        if self.pipeline != SHIPPED:
            return pipeline_name(self._nlp.meta, self._nlp.path)
        return _shipped_name()

    @property
    def _nlp(self) -> "Language":
        return load_pipeline(self.pipeline)

    def parse(self, texts: Iterable[Text], processes: int = 1) -> Iterator[Parse]:
        """Parse a stream of texts in order, in flat memory; ``processes`` start from ``WORTH_WORKERS`` characters."""
        stream = iter(texts)
        if processes > 1:
            head, characters = list[Text](), 0
            while characters < WORTH_WORKERS and (text := next(stream, None)) is not None:
                head.append(text)
                characters += len(text.text)
            stream = chain(head, stream)
            if characters >= WORTH_WORKERS:
                batches = iter(lambda: [*islice(stream, self.batch_size)], [])
                for parses in in_order(self._parsed, batches, processes):
                    yield from parses
                return
        docs = ((doc, (start, last, text.words)) for text in stream for doc, start, last in self._docs(text))
        parsed: list[Parse] = []
        for doc, (start, last, words) in self._nlp.pipe(docs, as_tuples=True, batch_size=self.batch_size):
            parse = from_doc(doc)
            parsed.append(parse._replace(words=parse.words + start if words is None else word_ranges(words)))
            if last:
                yield join_parses(parsed)
                parsed = []

    def _parsed(self, texts: Sequence[Text]) -> list[Parse]:
        return list(self.parse(texts))

    def tokenize(self, texts: Iterable[Text]) -> Iterator[IntArray]:
        """Word ranges alone, without parsing: the owner's tokens, else the pipeline's."""
        for text in texts:
            if text.words is not None:
                yield word_ranges(text.words)
            else:
                yield np.concatenate([doc_words(doc) + start for doc, start, _ in self._docs(text)])

    def memory_zone(self) -> AbstractContextManager[Any]:
        """Within it, which may not be nested: words that spaCy meets for the first time are forgotten at its end."""
        zone: AbstractContextManager[Any] = self._nlp.memory_zone()
        return zone

    def _docs(self, text: Text) -> Iterator[tuple["Doc", int, bool]]:
        """The text as the pipeline takes it, a pair as two: each with where it begins and whether it is the last."""
        if text.words is not None:  # its tokens in place of spaCy's, whose offsets see every gap as one space
            from spacy.tokens import Doc

            spaces = [end < len(text.text) and text.text[end].isspace() for _, end in text.words]
            yield Doc(self._nlp.vocab, [text.text[start:end] for start, end in text.words], spaces), 0, True
            return
        for start, end in parts(text.text):
            yield make_doc(self._nlp, text.text[start:end]), start, end == len(text.text)


def make_doc(nlp: "Language", text: str) -> "Doc":
    """A text as tokens. The tokenizer takes quadratic time over a run without spaces: it is given long ones in parts.

    >>> import spacy
    >>> doc = make_doc(spacy.blank("en"), "So " + ":)" * 10_000 + " good")
    >>> doc.text == "So " + ":)" * 10_000 + " good", doc[-1].text
    (True, 'good')
    """
    cuts = [match.end() for match in LONG_RUN.finditer(text)]
    if not cuts:
        return nlp.make_doc(text)
    from spacy.tokens import Doc

    docs = [nlp.make_doc(text[start:end]) for start, end in pairwise([0, *cuts, len(text)])]
    return Doc.from_docs(docs, ensure_whitespace=False) or nlp.make_doc(text)


@lru_cache(maxsize=4)
def load_pipeline(name: str) -> "Language":
    """Load a spaCy pipeline once a process; only what parsing needs is kept."""
    import spacy
    import thinc.compat
    from thinc.api import NumpyOps, get_current_ops, set_current_ops

    if not thinc.compat.has_torch:  # kept from it by tokenizing_pipeline
        import torch

        for names in [vars(module) for home, module in sys.modules.items() if home.startswith("thinc.")]:
            names.update({name: value for name, value in {"torch": torch, "has_torch": True}.items() if name in names})
    if isinstance(get_current_ops(), NumpyOps):
        set_current_ops(NumpyOps(use_blis=False))  # NumPy's own matrix product is twice as fast here as blis
        one_thread_for_numpy()
    unneeded = ["ner", "lemmatizer", "entity_linker", "textcat"]
    try:
        nlp = spacy.load(shipped() / "parser" / "model" if name == SHIPPED else name, exclude=unneeded)
    except OSError as error:
        fix = "put its folder there" if "/" in name else f"install it with `python -m spacy download {name}`"
        why = str(error).splitlines()[0]
        message = f"parser: {name!r}: no such spaCy pipeline; {fix}, or train with parser=shipped"
        raise ValueError(f"{message}. ({why})") from error
    nlp.max_length = sys.maxsize  # its limit is of memory that entity recognition takes
    if nlp.lang == ENGLISH and "attribute_ruler" in nlp.pipe_names:  # it gives universal tags, elsewhere needed
        nlp.remove_pipe("attribute_ruler")
    if "parser" not in nlp.pipe_names:
        raise ValueError(f"parser: {name!r}: its components {nlp.pipe_names} include no dependency parser")
    return nlp


@lru_cache(maxsize=1)
def tokenizing_pipeline() -> "Language":
    """The shipped pipeline for words alone, without its networks and so without torch, which takes a second to load."""
    folder, torch_loaded = shipped() / "parser" / "model", "torch" in sys.modules
    if not torch_loaded:  # thinc, of spaCy, loads it wherever it is installed
        sys.modules["torch"] = None  # type: ignore[assignment]
    try:
        import spacy
    finally:
        if not torch_loaded:
            del sys.modules["torch"]
    return spacy.load(folder, exclude=json.loads((folder / "meta.json").read_text(encoding="utf-8"))["pipeline"])


def one_thread_for_numpy() -> None:
    """Hold numpy's BLAS to one thread, unless the user has asked for more (``OPENBLAS_NUM_THREADS``).

    The parser's matrices are small, and threads that multiply them wait for torch's: prediction that parses took more
    than twice as long. The variable alone does nothing where numpy was imported before this package.
    """
    from threadpoolctl import ThreadpoolController

    if os.environ.get("OPENBLAS_NUM_THREADS") == "1":  # as this package sets it
        pools = ThreadpoolController()
        paths = [pool["filepath"] for pool in pools.info() if pool["internal_api"] == "openblas"]
        pools.select(filepath=[path for path in paths if "torch" not in Path(path).parts]).limit(limits=1)


@cache
def _shipped_name() -> str:
    """Of what :func:`load_pipeline` loads; where the cache holds every text, a run never does."""
    folder = shipped() / "parser" / "model"
    return pipeline_name(json.loads((folder / "meta.json").read_text(encoding="utf-8")), folder)


def pipeline_name(meta: Mapping[str, Any], folder: Path | None) -> str:
    """Name, version and content of a pipeline: spaCy calls every self-trained one `pipeline-0.0.0`."""
    try:
        release = version("spacy")
    except PackageNotFoundError:
        raise ValueError("parser=shipped needs spaCy: pip install 'spacy>=3.8.18,<3.9'") from None
    digest = hashlib.sha256()
    if folder is not None:
        for path in sorted(p for p in folder.rglob("*") if p.is_file()):
            digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
    return f"spacy-{release}/{meta['lang']}_{meta['name']}-{meta['version']}/{digest.hexdigest()[:12]}"


def doc_words(doc: "Doc") -> IntArray:
    """(words, 2) character ranges of a Doc's tokens."""
    array: IntArray = doc.to_array(["IDX", "LENGTH"]).astype(np.int64)
    array[:, 1] += array[:, 0]
    return array


def word_ranges(words: Sequence[tuple[int, int]]) -> IntArray:
    """The owner's tokens as an array, (0, 2) for none."""
    return np.asarray(words, dtype=np.int64).reshape(-1, 2)


def from_doc(doc: "Doc") -> Parse:
    """Read a parsed Doc: HEAD is stored as a relative offset in unsigned integers, hence the cast."""
    heads = doc.to_array("HEAD").astype(np.int64) + np.arange(len(doc))
    if doc.lang_ == ENGLISH and doc.has_annotation("TAG"):
        tags = tuple(t.tag_ for t in doc)
    else:
        tags = tuple(t.pos_ + PLURAL * (t.pos_ in NOUNS and "Plur" in t.morph.get("Number")) for t in doc)
    return Parse(doc_words(doc), heads, tuple(t.dep_ for t in doc), tags)


def join_parses(parses: Sequence[Parse]) -> Parse:
    """One parse of those of a text's parts, whose words are counted on."""
    if len(parses) == 1:
        return parses[0]
    first = np.cumsum([0, *(len(parse.words) for parse in parses)]).tolist()
    heads = np.concatenate([parse.heads + offset for parse, offset in zip(parses, first)])
    relations = tuple(relation for parse in parses for relation in parse.relations)
    tags = tuple(tag for parse in parses for tag in parse.tags)
    return Parse(np.concatenate([parse.words for parse in parses]), heads, relations, tags)


# Of a dozen words of English one is hardly ever none of these, and few of them are words of another language.
COMMON = re.compile(
    r"\b(the|and|it|its|this|that|these|with|not|have|has|had|you|your|my|are|but|they|at|from|when|who|what|which|would"
    r"|there|about|very|on)\b"
)
COMMON_WITHIN = 12  # words in which one of them is expected
LONGEST_SENTENCE = 200  # words of a sentence; EWT's longest has 159


def parse_warning(text: str, parse: Parse, parser: str) -> str | None:
    """Why a parse by a parser of this name means little, if it does: a parser gives a tree to anything."""
    roots = int((parse.heads == np.arange(len(parse.heads))).sum())
    if len(parse.heads) > LONGEST_SENTENCE * max(1, roots):
        return f"more than {LONGEST_SENTENCE} words a sentence"
    if f"/{ENGLISH}_" not in parser:
        return None
    if not re.search("[A-Za-z]", text):
        return "no Latin letter in the text"
    lower = text.lower()
    if len(re.findall("[a-z]+", lower)) >= COMMON_WITHIN and not COMMON.search(lower):
        return "none of the common English words in the text"
    return None


ANY_WORD = re.compile(r"[^\W\d_]+")
# Of the running words of English corpora 15 to 25 % are COMMON: reviews, telephone talk, reports, news with tables of
# results, which are the leanest. Of Spanish, French, Dutch, Russian and Turkish reviews fewer than 1 % are.
LEAST_ENGLISH = 0.05
JUDGED, PER_TEXT = 100, 25  # words from which on the share says something; of one text that count, so that none decides


def foreign_warning(texts: Iterable[str], parser: str) -> str | None:
    """What to say of texts that are plainly not English, given to an English pipeline of this name, with the fix."""
    if f"/{ENGLISH}_" not in parser or not (share := not_english(texts)):
        return None
    return (
        f"an English pipeline parses text of which {share}: its trees mean nothing; take a spaCy pipeline of that "
        f"language: parser=spacy parser.name=NAME, or to train parser.source=NAME or parser.target=NAME"
    )


def not_english(texts: Iterable[str]) -> str | None:
    """The share of common English words, in words, in texts that are plainly of another language.

    >>> not_english(["La comida estuvo muy sabrosa."] * 20)
    '0.0 % are common English words (of English 15 to 25 %)'
    >>> not_english(["The food was good and it was not dear."] * 20)
    """
    words = [word for text in texts for word in ANY_WORD.findall(text.lower())[:PER_TEXT]]
    share = sum(COMMON.fullmatch(word) is not None for word in words) / max(1, len(words))
    if len(words) < JUDGED or share >= LEAST_ENGLISH:
        return None
    return f"{100 * share:.1f} % are common English words (of English 15 to 25 %)"


def warn_of_parses(texts: Iterable[str], parses: Iterable[Parse], parser: str, warnings: Counter[str]) -> None:
    """Count parses that may be wrong, by reason, among a run's warnings."""
    for text, parse in zip(texts, parses, strict=True):
        if reason := parse_warning(text, parse, parser):
            warnings[f"parse that may be wrong: {reason}"] += 1
