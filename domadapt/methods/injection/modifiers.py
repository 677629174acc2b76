r"""Where a span begins, by the parse: words that the source's annotation takes in with their head.

A network in a new domain finds 'drive' where 'dvd drive' is the term, having met neither word; that one is a compound
of the other the parser sees in any domain. On the source it is counted, for each span type k and relation r, how often
a word that stands before its head, which is in a span of the type, is in the span as well:

.. math:: \text{share}_{k,r} = \frac{\#\{\text{inside}\}}{\#\{\text{inside}\} + \#\{\text{directly before the span}\}}.

Where this is at least ``share``, a predicted span is extended to the left as long as the word before it hangs by such a
relation on a word in it, and is in no other span. In reviews of restaurants, laptops and devices this is so of
compounds (.92, .95 and .94 are in the term) and of next to nothing else (adjectives: .2 to .3).

No weight is learnt: the network is as it was without. Copies the logits of the span's first word to those before it,
after all that other methods add; so what learns from the model's own labels (``self_training``) learns from these.
Parses at prediction, and only texts where there is something to ask: where the word before a span is in no other and
not one that source and target have often, and hardly ever as a noun or in such a relation ('the', 'great'): one text in
nine to seventeen. Nothing for tasks without spans. Fails where source and target differ in what they take in, and where
the parser fails. A tagger would do: under ``control=word_classes`` the nouns before a term are taken in, and as much is
gained. Ours.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from domadapt.data.batches import Batch
from domadapt.data.records import Record
from domadapt.methods.method import Method, in_range
from domadapt.methods.units import joined_kinds, read_words_of, with_word_logits
from domadapt.models.output import Output
from domadapt.syntax.parser import Parse, Text
from domadapt.tasks.tagged import tagged

USES = 5  # a word that is met so often is known
HARDLY = 0.02  # at most this share of them


class Modifiers(Method):
    """Predicted spans with the modifiers that the source takes in.

    Args:
        share: of a relation's words inside the source's spans, from which on they are taken in.
        least: of such words, inside or directly before, for a relation to count.
    """

    reads = frozenset({"parser_at_prediction", "corpus_parses"})
    tasks = frozenset({"token"})
    used_at_prediction = True
    transforms_last = True

    def __init__(self, share: float, least: int) -> None:
        super().__init__()
        in_range("modifiers.share", share, 0.0, 1.0)
        in_range("modifiers.least", least, 1)
        self.share, self.least = share, least
        self.taken: dict[str, list[str]] = {}  # relations by span type
        self.never: set[str] = set()  # words, in lower case, that are not asked for

    def prepare(self) -> dict[str, Any]:
        """Count the source's modifiers, and which words need not be asked for."""
        setting, records = self.setting, self.setting.domains.source_train
        if setting.task.kind != "token":
            self.used_at_prediction = False
            return {}
        parses = list(setting.parser.parse(records))
        inside, before = modifier_counts(records, parses)
        shares = {key: inside[key] / (inside[key] + before[key]) for key in inside | before}
        often = {key: inside[key] + before[key] >= self.least for key in shares}
        for kind, relation in sorted(key for key, share in shares.items() if often[key] and share >= self.share):
            self.taken.setdefault(kind, []).append(relation)
        relations = {relation for names in self.taken.values() for relation in names}
        unlabelled = setting.domains.unlabeled.texts
        both = chain(parses, setting.parser.parse(unlabelled))
        self.never = words_without(relations, chain(records, unlabelled), both) if relations else set()
        return {f"modifiers/{kind} {name}": shares[kind, name] for kind, names in self.taken.items() for name in names}

    @property
    def kinds(self) -> list[str]:
        """Span types, in the order of their tags."""
        return [label[2:] for label in self.setting.task.labels if label.startswith("B-")]

    def transform(self, output: Output, batch: Batch) -> Output:
        """Spans extended, in scoring and prediction."""
        if self.training or not self.taken:
            return output
        texts, numbers, begins = read_words_of(batch)
        kinds, joined = self.kinds, joined_kinds(self.setting.task)

        def asked(first: int, kind: int, tags: NDArray[np.int64]) -> bool:
            if kinds[kind] not in self.taken or begins[first] or tags[first - 1]:
                return False
            return batch.examples[texts[first]].word(numbers[first - 1]).lower() not in self.never

        def extended(rows: Tensor) -> Tensor:
            tags = rows.argmax(-1).cpu().numpy()
            spans = [span for span in tagged(tags, begins, joined) if asked(span[0], span[2], tags)]
            some = sorted({int(texts[first]) for first, _, _ in spans})
            parses = dict(zip(some, self.setting.parsed([batch.examples[i] for i in some]), strict=True))
            for first, last, kind in spans:
                start = extent(first, last, parses[texts[first]], self.taken[kinds[kind]], tags == 0, texts, numbers)
                if start < first:
                    own = rows[first].clone()
                    inner = own.clone()
                    begin, inside = 2 * kind + 1, 2 * kind + 2
                    if tags[first] == begin:
                        inner[[begin, inside]] = own[[inside, begin]]
                    rows[start] = own
                    rows[start + 1 : first + 1] = inner
                    tags[start:first] = inside  # in no other span
            return rows

        return with_word_logits(output, batch, extended)

    def memory(self) -> dict[str, Any]:
        """The relations, and the words that are not asked for."""
        return {"taken": {kind: list(names) for kind, names in self.taken.items()}, "never": sorted(self.never)}

    def recall(self, memory: dict[str, Any]) -> None:
        """Take them back."""
        self.taken = {str(kind): [*map(str, names)] for kind, names in memory["taken"].items()}
        self.never = {*map(str, memory.get("never", ()))}


def extent(
    first: int,
    last: int,
    parse: Parse,
    taken: Collection[str],
    free: NDArray[np.bool_],
    texts: NDArray[np.int64],
    numbers: NDArray[np.int64],
) -> int:
    """The first word of a span with the modifiers before it.

    Args:
        first, last: its words, among those of all texts.
        parse: of its text.
        taken: relations that are taken in.
        free: (words,) in no span.
        texts, numbers: (words,) each word's text, and its number there.

    >>> words = np.array([(0, 2), (3, 6), (7, 10), (11, 16), (17, 21)])  # "my old dvd drive died"
    >>> relations = ("nmod:poss", "amod", "compound", "nsubj", "ROOT")
    >>> parse = Parse(words, np.array([3, 3, 3, 4, 4]), relations, ("",) * 5)
    >>> extent(3, 3, parse, ["compound"], np.array([True] * 3 + [False, True]), np.zeros(5), np.arange(5))
    2
    """
    own, low, high = texts[first], numbers[first], numbers[last]
    while first and texts[first - 1] == own and free[first - 1]:
        word = numbers[first - 1]
        if parse.relations[word] not in taken or not low <= parse.heads[word] <= high:
            break
        first, low = first - 1, word
    return first


def words_without(relations: Collection[str], texts: Iterable[Text], parses: Iterable[Parse]) -> set[str]:
    """Words, in lower case, met often, and hardly ever in one of these relations to their heads or as nouns.

    >>> parse = Parse(np.array([(0, 3), (4, 7)]), np.array([1, 1]), ("compound", "ROOT"), ("DT", "VB"))
    >>> words_without(["compound"], [Record("1", "a", "The end")] * USES, [parse] * USES)
    {'end'}
    >>> words_without(["compound"], [Record("1", "a", "The end")], [parse])
    set()
    """
    met, so = Counter[str](), Counter[str]()
    for text, parse in zip(texts, parses, strict=True):
        words = [text.text[start:end].lower() for start, end in parse.words.tolist()]
        met.update(words)
        told = zip(words, parse.relations, parse.tags, strict=True)
        so.update(word for word, relation, tag in told if relation in relations or tag.startswith("NN"))
    return {word for word, count in met.items() if count >= USES and so[word] <= HARDLY * count}


def modifier_counts(
    records: Sequence[Record], parses: Sequence[Parse]
) -> tuple[Counter[tuple[str, str]], Counter[tuple[str, str]]]:
    """By span type and relation, words before their head in a span: those in the span, and those directly before it.

    Spans that begin or end within a word are left out.
    """
    inside, before = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for record, parse in zip(records, parses, strict=True):
        starts, ends = ({int(place): word for word, place in enumerate(parse.words[:, side])} for side in (0, 1))
        spans = {(starts.get(s.start), ends.get(s.end), s.type) for s in record.spans or ()}
        for first, last, kind in spans:
            if first is None or last is None:
                continue
            heads, names = parse.heads, parse.relations
            inside.update((kind, names[word]) for word in range(first, last) if word < heads[word] <= last)
            if first and first <= heads[first - 1] <= last:
                before[kind, names[first - 1]] += 1
    return inside, before
