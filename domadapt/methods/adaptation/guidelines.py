"""What the user knows of how the target would be annotated: switches at decoding, stated and not learnt.

Guidelines are part of the shift between corpora, and no unlabelled text tells them: does a term count on which no
opinion is given? Is the product itself a term, or 'they'? Is the opinion 'very light' or 'light'? The card of a run
asks. Unset, predictions stay as they are; set, the method's name says so, and what other methods read off the target in
training, such as ``self_training`` its labels, follows them. Rules that guess the answers from text gained on two
corpora and lost 6 to 13 points of F1 on three others. Ours.
"""

import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any
from unicodedata import normalize

import torch
from torch import Tensor

from domadapt.data.batches import Batch, Example
from domadapt.data.domains import Domains
from domadapt.methods.method import Method
from domadapt.methods.terms import term_kinds
from domadapt.methods.units import with_word_logits
from domadapt.models.contracts import Output
from domadapt.tasks.extraction import Extraction
from domadapt.tasks.task import Task

APOSTROPHES = str.maketrans(dict.fromkeys("‘’‛`´", "'"))
TERM_PROBABILITY = 0.9  # probability that a word of ``terms`` is in a term; from .8 to .95 spans hardly differ
# The commonest adverbs of degree: intensifiers in Quirk et al. 1985, A Comprehensive Grammar of the English Language.
ENGLISH = (
    "very,too,so,really,quite,rather,pretty,fairly,extremely,absolutely,completely,totally,highly,super,incredibly,"
    "slightly,somewhat,a little,a bit,more,most,much"
)


def words_of(name: str, given: Sequence[str] | str | None) -> frozenset[str]:
    """Words and phrases in lower case of a list, or of a file with one a line.

    >>> sorted(words_of("terms", ["They", "battery life "])), words_of("terms", None)
    (['battery life', 'they'], frozenset())
    """
    if isinstance(given, str):
        try:
            path, given = given, Path(given).read_text(encoding="utf-8-sig").split("\n")
        except UnicodeDecodeError as error:
            raise ValueError(f"guidelines.{name}={given}: not UTF-8 ({error.reason}); save it as UTF-8") from None
        table = Path(path).suffix in (".csv", ".tsv", ".json", ".jsonl")
        if bad := [line for line in given if line.strip() and (table or re.search(r"[,;\t{]", line))]:
            raise ValueError(f"guidelines.{name}={path}: {bad[0]!r}: expected a text file, one word or phrase per line")
    each = [given] if given is not None and not isinstance(given, Sequence) else given or []
    if wrong := [item for item in each if not isinstance(item, str) or item.strip(" .…") != item.strip()]:
        raise ValueError(f"guidelines.{name}: {wrong[0]!r}: expected words; one such as true goes into quotes")
    words = frozenset(word.strip().lower() for word in each if word.strip())
    if each and not words:
        raise ValueError(f"guidelines.{name}: no word in it; leave it out, or give some")
    return words


class Guidelines(Method):
    """Switches at decoding."""

    used_at_prediction = True
    reads = frozenset({"corpus_parses"})
    tasks = frozenset({"token"})

    def __init__(
        self,
        terms_need_opinion: bool | None,
        terms: Sequence[str] | str | None,
        not_terms: Sequence[str] | str | None,
        degree_words: Sequence[str] | str | None,
        degree_words_in_opinion: bool = True,
    ) -> None:
        super().__init__()
        self.terms_need_opinion = terms_need_opinion
        self.degree_rule = with_degree if degree_words_in_opinion else without_degree
        english = ENGLISH.split(",") if degree_words == "english" else degree_words
        self.word_lists = {"terms": terms, "not_terms": not_terms, "degree_words": english}
        self.words = {n: words_of(n, None if isinstance(given, str) else given) for n, given in self.word_lists.items()}
        self.terms: list[int] = []  # tags

    def refuse(self, domains: Domains | None = None, task: Task | None = None) -> None:
        """Read files, and refuse what is wrong with them; a saved model has their words and reads none."""
        asked = self.terms_need_opinion or any(self.word_lists.values())
        if asked and task is not None and task.kind not in self.tasks:
            raise ValueError("adaptation=guidelines: they are of spans, and here texts are classified; leave it out")
        for name, given in self.word_lists.items():
            if isinstance(given, str) and not Path(given).is_file():
                raise ValueError(f"guidelines.{name}={given}: no such file; give one, or a list of words")
            self.words[name] = words_of(name, given)
        if shared := self.words["terms"] & self.words["not_terms"]:
            raise ValueError(f"guidelines.terms and guidelines.not_terms both have {', '.join(sorted(shared))}")

    def prepare(self) -> dict[str, Any]:
        """Find out which labels are terms."""
        self.refuse(task=self.session.task)
        self.set_terms(self.session.task.labels, term_kinds(self.session))
        return {f"guidelines/{name}": sorted(words)[:50] for name, words in self.words.items()}

    def set_terms(self, labels: Sequence[str], kinds: Collection[str]) -> None:
        """Say which span types are terms; refuse what these make no sense of."""
        self.terms = [place for place, label in enumerate(labels) if label[2:] in kinds]
        asks = "terms_need_opinion=true" if self.terms_need_opinion else self.words["degree_words"] and "degree_words"
        if asks and len(self.terms) + 1 == len(labels):
            expected = f"expected a span type of opinions beside the terms ({', '.join(sorted(kinds))})"
            raise ValueError(f"guidelines.{asks}: {expected}, which the source has not; leave it null")
        if (self.words["terms"] or self.words["not_terms"] or self.terms_need_opinion) and not self.terms:
            expected = "expected a span type whose words are mostly nouns, as terms are"
            settings = "guidelines.terms, guidelines.not_terms, guidelines.terms_need_opinion"
            raise ValueError(f"{settings}: {expected}, which the source has not")

    def collate(self, examples: Sequence[Example]) -> dict[str, Tensor]:
        """By list of words: (nodes,) True for words that are in one of its phrases."""
        texts = [[normalise(e.word(place)) for place in range(len(e.words))] for e in examples]
        known = {name: frozenset(map(normalise, phrases)) for name, phrases in self.words.items()}
        inside = {n: [hit for words in texts for hit in words_in_phrases(words, known[n])] for n in known}
        return {name: torch.tensor(places, dtype=torch.bool) for name, places in inside.items()}

    def transform(self, output: Output, batch: Batch) -> Output:
        """In scoring and prediction: what the guidelines rule out is no term; opinions have their adverbs, or not."""
        if self.training or not (self.terms or self.words["degree_words"]):
            return output
        read = batch.node_first_piece >= 0
        texts = batch.node_places()[0][read]

        def apply_words(logits: Tensor) -> Tensor:
            always, never = (self.own_tensor(batch, name)[read] for name in ("terms", "not_terms"))
            if always.any() or never.any():
                logits = with_terms(logits, always, never, self.terms)
            if self.words["degree_words"]:
                opens = self.own_tensor(batch, "degree_words")[read][:-1] & (texts[:-1] == texts[1:])
                logits = self.degree_rule(logits, opens.nonzero().flatten().tolist(), self.terms)
            return logits

        output = with_word_logits(output, batch, apply_words)
        if not self.terms_need_opinion:
            return output
        assert isinstance(self.session.task, Extraction)
        tags = self.session.task.best_tags(output, batch)
        opinion = (tags > 0) & ~torch.isin(tags, torch.tensor(self.terms, device=tags.device))
        never = ~torch.isin(texts, texts[opinion])
        always = torch.zeros_like(never)
        return with_word_logits(output, batch, lambda logits: with_terms(logits, always, never, self.terms))

    def memory(self) -> dict[str, Any]:
        return {"terms": self.terms, "words": {name: sorted(words) for name, words in self.words.items()}}

    def recall(self, memory: dict[str, Any]) -> None:
        self.terms = list(memory["terms"])
        self.words = {name: frozenset(map(str, memory["words"][name])) for name in self.words}


def normalise(text: str) -> str:
    """Without what makes no other word: case, whitespace, the kind of apostrophe, how accents are coded."""
    return "".join(normalize("NFKC", text.translate(APOSTROPHES)).casefold().split())


def words_in_phrases(words: Sequence[str], phrases: Collection[str]) -> list[bool]:
    """Which words are in one of these phrases, into whatever words a parser has cut these; both normalised.

    >>> words_in_phrases(["wi", "-", "fi", "too", "wi"], {"wi-fi", "too"})
    [True, True, True, True, False]
    """
    longest, result = max(map(len, phrases), default=0), [False] * len(words)
    for start in range(len(words)):
        joined, end = "", start
        while end < len(words) and len(joined := joined + words[end]) <= longest:
            end += 1
            if joined in phrases:
                result[start:end] = [True] * (end - start)
    return result


def with_terms(logits: Tensor, always: Tensor, never: Tensor, terms: Sequence[int]) -> Tensor:
    """(words, tags) log-probabilities in which words of ``always`` (words,) are likely in a term, of ``never`` in none.

    >>> logits = torch.tensor([[0.9, 0.08, 0.02], [0.1, 0.9, 0.0]]).log()  # O, B, I
    >>> with_terms(logits, torch.tensor([True, False]), torch.tensor([False, True]), [1, 2]).exp().numpy().round(2)
    array([[0.1 , 0.72, 0.18],
           [1.  , 0.  , 0.  ]], dtype=float32)
    """
    shares = logits.softmax(-1).clamp(min=1e-12)
    inside = torch.isin(torch.arange(logits.shape[1], device=logits.device), torch.tensor(terms, device=logits.device))
    now = shares[:, inside].sum(-1, keepdim=True)
    raised = torch.where(inside, TERM_PROBABILITY / now, (1 - TERM_PROBABILITY) / (1 - now))
    shares = torch.where(always.unsqueeze(1) & (now < TERM_PROBABILITY), shares * raised, shares)
    shares[:, 0] += now[:, 0] * never  # what is no term is nothing, not an opinion
    return torch.where(never.unsqueeze(1) & inside, 1e-12, shares).log()


def with_degree(logits: Tensor, words: Sequence[int], terms: Sequence[int]) -> Tensor:
    """(words, tags) log-probabilities in which each of these adverbs is in the opinion whose first word follows it.

    What the next word has of a first word, it has of a later word, and the adverb has that much of its O as a first
    word. Tags are as :func:`domadapt.tasks.extraction.tag_names` names them; those of ``terms`` stay.

    >>> logits = torch.tensor([[0.9, 0.1, 0.0], [0.1, 0.8, 0.1]]).log()  # O, B, I of 'very' and 'light'
    >>> with_degree(logits, [0], []).exp().double().numpy().round(2).tolist()
    [[0.18, 0.82, 0.0], [0.1, 0.0, 0.9]]
    """
    shares = logits.softmax(-1)
    firsts = [tag for tag in range(1, logits.shape[1], 2) if tag not in terms]
    laters = [tag + 1 for tag in firsts]
    for word in sorted(words, reverse=True):
        opens = shares[word + 1, firsts].clone()
        shares[word + 1, laters] += opens
        shares[word + 1, firsts] = 0.0
        shares[word, firsts] += shares[word, 0] * opens
        shares[word, 0] *= 1 - opens.sum()
    return shares.clamp(min=1e-12).log()


def without_degree(logits: Tensor, words: Sequence[int], terms: Sequence[int]) -> Tensor:
    """The reverse: an opinion that begins with one of these adverbs, and goes on, begins with its next word.

    >>> logits = torch.tensor([[0.1, 0.9, 0.0], [0.1, 0.0, 0.9]]).log()  # O, B, I of 'very' and 'light'
    >>> without_degree(logits, [0], []).exp().double().numpy().round(2).tolist()
    [[0.91, 0.09, 0.0], [0.1, 0.81, 0.09]]
    """
    shares = logits.softmax(-1)
    firsts = [tag for tag in range(1, logits.shape[1], 2) if tag not in terms]
    laters = [tag + 1 for tag in firsts]
    for word in sorted(words):
        joint = shares[word, firsts] * shares[word + 1, laters]
        shares[word, firsts] -= joint
        shares[word, 0] += joint.sum()
        shares[word + 1, laters] -= joint
        shares[word + 1, firsts] += joint
    return shares.clamp(min=1e-12).log()


_PHRASE = rf"\b(?:{ENGLISH.replace(',', '|')})\s+"
_INSIDE, _BEFORE = re.compile(rf"{_PHRASE}(?=\S)", re.IGNORECASE), re.compile(rf"{_PHRASE}$", re.IGNORECASE)


def with_adverb(text: str, start: int, end: int) -> tuple[int, int] | None:
    """Where a span of a text begins with and without an English adverb of degree; None where it has none and follows
    none. In characters; one of the two is ``start``.

    >>> [with_adverb("A very light, so quiet fan", *span) for span in [(2, 12), (17, 22), (23, 26)]]
    [(2, 7), (14, 17), None]
    """
    if inside := _INSIDE.match(text, start, end):
        return start, inside.end()
    adverb = _BEFORE.search(text, max(0, start - 20), start)
    return adverb and (adverb.start(), start)
