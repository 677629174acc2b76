"""Where dependency parses come from: a spaCy pipeline, or a CoNLL-U file."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from domadapt.syntax.alignment import IntArray

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc

SHIPPED = "shipped"  # the name of the pipeline that travels with the package


class Text(Protocol):
    """What can be parsed: characters, and the owner's tokens where the corpus came tokenised."""

    @property
    def text(self) -> str: ...

    @property
    def words(self) -> tuple[tuple[int, int], ...] | None: ...


class Parse(NamedTuple):
    """A dependency parse of one text; several sentences in it mean several roots.

    A tuple, because a warm cache makes a hundred thousand of them a second.

    Attributes:
        words: (words, 2) character ranges, end exclusive.
        heads: (words,) index of each word's head; a root is its own head.
        relations: (words,) name of the arc to the head.
        tags: (words,) part-of-speech tag, empty where the parser gives none.
    """

    words: IntArray
    heads: IntArray
    relations: tuple[str, ...]
    tags: tuple[str, ...]


class Parser(Protocol):
    """Turns texts into parses, in order. ``name`` identifies the parses: it is part of every cache key."""

    name: str

    def parse(self, texts: Iterable[Text], processes: int = 1) -> Iterator[Parse]: ...

    def tokenize(self, texts: Iterable[Text]) -> Iterator[IntArray]: ...


class SpacyParser:
    """A spaCy pipeline with a dependency parser.

    Args:
        name: ``shipped`` for the small English pipeline that travels with the package, else the name of an installed
            pipeline (``en_core_web_trf``) or a folder.
        batch_size: texts a batch of ``nlp.pipe``.

    Raises:
        ValueError: the pipeline is not installed, or has no dependency parser.
    """

    def __init__(self, name: str = SHIPPED, batch_size: int = 256) -> None:
        if type(batch_size) is not int or batch_size < 1:  # spaCy would give no parses, and no error
            raise ValueError(f"parser.batch_size={batch_size!r}: expected a whole number from 1")
        self.pipeline = name
        self.batch_size = batch_size
        # Where the cache holds every text, a run never loads spaCy: the shipped pipeline's name is told by its files.
        self.name = shipped_name() if name == SHIPPED else pipeline_name(self._nlp)

    @property
    def _nlp(self) -> "Language":
        return load_pipeline(self.pipeline)

    def parse(self, texts: Iterable[Text], processes: int = 1) -> Iterator[Parse]:
        """Parse a stream of texts in order; memory does not grow with its length."""
        import torch

        docs = ((self._doc(text), text.words) for text in texts)
        threads = torch.get_num_threads()
        if processes > 1:
            torch.set_num_threads(1)  # a forked worker hangs on the threads that its parent had
        try:
            for doc, words in self._nlp.pipe(docs, as_tuples=True, batch_size=self.batch_size, n_process=processes):
                parse = from_doc(doc)
                yield parse if words is None else parse._replace(words=word_ranges(words))
        finally:
            torch.set_num_threads(threads)

    def tokenize(self, texts: Iterable[Text]) -> Iterator[IntArray]:
        """Word ranges alone, without parsing: the owner's tokens, else the pipeline's."""
        for text in texts:
            yield word_ranges(text.words) if text.words is not None else doc_words(self._nlp.make_doc(text.text))

    def _doc(self, text: Text) -> "Doc":
        if text.words is None:
            return self._nlp.make_doc(text.text)
        return owner_doc(self._nlp, text.text, text.words)


@lru_cache(maxsize=4)
def load_pipeline(name: str) -> "Language":
    """Load a spaCy pipeline once a process; only what parsing needs is kept."""
    import spacy
    from thinc.api import NumpyOps, get_current_ops, set_current_ops

    if isinstance(get_current_ops(), NumpyOps):
        set_current_ops(NumpyOps(use_blis=False))  # NumPy's own matrix product is twice as fast here as blis
    unneeded = ["ner", "lemmatizer", "attribute_ruler", "entity_linker", "textcat"]
    try:
        if name == SHIPPED:
            return spacy.load(shipped_folder())
        nlp = spacy.load(name, exclude=unneeded)
    except OSError as error:
        raise ValueError(
            f"parser.name={name!r}: no such spaCy pipeline is installed; install it with "
            f"`python -m spacy download {name}`, or use parser=shipped. ({str(error).splitlines()[0]})"
        ) from error
    if "parser" not in nlp.pipe_names:
        raise ValueError(f"parser.name={name!r}: its components {nlp.pipe_names} include no dependency parser")
    return nlp


def shipped_folder() -> Path:
    """Where the pipeline is that travels with the package."""
    return Path(str(files("domadapt.shipped") / "parser" / "model"))


def shipped_name() -> str:
    """What :func:`pipeline_name` says of the shipped pipeline, without loading it.

    Raises:
        ValueError: spaCy, whose version is part of the name, is not installed.
    """
    try:
        release = version("spacy")
    except PackageNotFoundError:
        raise ValueError(
            "parser=shipped needs spaCy, which is not installed: pip install 'spacy>=3.8.18,<3.9', "
            "or make a bundle where it is (domadapt bundle) and run that here"
        ) from None
    folder = shipped_folder()
    return _name(release, json.loads((folder / "meta.json").read_text(encoding="utf-8")), folder)


def pipeline_name(nlp: "Language") -> str:
    """Name, version and content of a pipeline: spaCy calls every self-trained one `pipeline-0.0.0`."""
    import spacy

    return _name(spacy.__version__, nlp.meta, nlp.path)


def _name(release: str, meta: dict[str, Any], folder: Path | None) -> str:
    digest = hashlib.sha256()
    if folder is not None:
        for path in sorted(p for p in folder.rglob("*") if p.is_file()):
            digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
    return f"spacy-{release}/{meta['lang']}_{meta['name']}-{meta['version']}/{digest.hexdigest()[:12]}"


def owner_doc(nlp: "Language", text: str, words: Sequence[tuple[int, int]]) -> "Doc":
    """A Doc with the corpus owner's tokens in place of spaCy's; its own offsets see every gap as one space."""
    from spacy.tokens import Doc

    spaces = [end < len(text) and text[end].isspace() for _, end in words]
    return Doc(nlp.vocab, words=[text[start:end] for start, end in words], spaces=spaces)


def doc_words(doc: "Doc") -> IntArray:
    """(words, 2) character ranges of a Doc's tokens.

    >>> import spacy
    >>> doc_words(spacy.blank("en")("Don't go")).tolist()
    [[0, 2], [2, 5], [6, 8]]
    """
    array: IntArray = doc.to_array(["IDX", "LENGTH"]).astype(np.int64)
    array[:, 1] += array[:, 0]
    return array


def word_ranges(words: Sequence[tuple[int, int]]) -> IntArray:
    """The owner's tokens as an array, (0, 2) for none."""
    return np.asarray(words, dtype=np.int64).reshape(-1, 2)


def from_doc(doc: "Doc") -> Parse:
    """Read a parsed Doc: HEAD is stored as a relative offset in unsigned integers, hence the cast."""
    heads = doc.to_array("HEAD").astype(np.int64) + np.arange(len(doc))
    return Parse(doc_words(doc), heads, tuple(t.dep_ for t in doc), tuple(t.tag_ for t in doc))


SILENT = "punct"  # arcs to punctuation teach nothing and clutter much: not drawn
