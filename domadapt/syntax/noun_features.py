"""How a domain uses its nouns, in features that mean the same in every domain: shares of uses, centred by the domain.

Whether a noun is spoken of as a thing one owns ('this laptop'), as a part ('the lens of it', 'with a strap'), as judged
('the menu is slow'), says more of it in a domain that nobody has annotated than its letters do (Hu & Liu 2004; Zhang &
Liu 2010 on parts and wholes).
"""

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from domadapt.syntax.nouns import PLURALS, is_noun
from domadapt.syntax.parser import Parse, Text

SHRINKAGE = 4.0  # uses of an average noun that every noun is given beside its own
OWNED = frozenset({"this", "my", "these", "your", "our"})
INDEFINITE = frozenset({"a", "an", "any", "another", "one"})
BE = frozenset({"is", "are", "was", "were"})
HAVE = frozenset({"have", "has", "had"})
GET = HAVE | {"buy", "bought", "purchased", "own", "owned", "use", "used", "got", "get"}
PLACES = frozenset({"for", "in", "at", "on", "to", "from"})
PARTS = frozenset({"with", "of"})
JUDGING = frozenset({"great", "good", "excellent", "nice", "best", "amazing", "awesome"})
JUDGING |= {"bad", "poor", "terrible", "horrible"}
SHORT = 12  # words of a short text
FEATURES = 22


class NounTypes:
    """The nouns of some texts.

    Args:
        texts: of one domain.
        parses: of these texts.

    Attributes:
        words: each noun once, in lower case.
        counts: (nouns,) uses of each.
        features: (nouns, 23) log shares of uses, less those of the domain's average noun; the last is its log count.
    """

    def __init__(self, texts: Sequence[Text], parses: Sequence[Parse]) -> None:
        uses: dict[str, NDArray[np.float64]] = {}
        counts = Counter[str]()
        for text, parse in zip(texts, parses, strict=True):
            for noun, features in noun_uses(text.text, parse):
                uses[noun] = uses[noun] + features if noun in uses else features
                counts[noun] += 1
        self.words = sorted(counts)
        self.counts = np.array([counts[word] for word in self.words], dtype=np.float64)
        if not self.words:
            self.features = np.empty((0, FEATURES + 1))
            return
        sums = np.stack([uses[word] for word in self.words])
        mean = sums.sum(0) / self.counts.sum()
        shares = (sums + SHRINKAGE * mean) / (self.counts[:, None] + SHRINKAGE)
        logs = np.log(self.counts)
        often = logs - np.average(logs, weights=self.counts)
        self.features = np.column_stack([np.log(shares + 0.01) - np.log(mean + 0.01), often])


def noun_uses(text: str, parse: Parse) -> Iterator[tuple[str, NDArray[np.float64]]]:
    """Every noun of a text, in lower case, and its (22,) features there, each 0 or 1."""
    words = [text[start:end].lower() for start, end in parse.words.tolist()]
    heads, relations, tags = parse.heads.tolist(), parse.relations, parse.tags
    children: list[list[int]] = [[] for _ in words]
    for child, head in enumerate(heads):
        if head != child:
            children[head].append(child)
    modified = any(tag.startswith(("JJ", "RB")) for tag in tags)
    for i, word in enumerate(words):
        if not is_noun(parse, i, text):
            continue
        below, head, relation = children[i], heads[i], relations[i]
        names = {words[k] for k in below}
        before, after = words[i - 1] if i else "", words[i + 1] if i + 1 < len(words) else ""
        subject = "nsubj" in relation
        near = words[max(0, i - 3) : i + 5]
        yield (
            word,
            np.array(
                [
                    bool(names & OWNED),
                    "the" in names,
                    bool(names & INDEFINITE),
                    not any(tags[k] in ("DT", "PRP$") for k in below),
                    tags[i] in ("NNP", "NNPS"),
                    tags[i] in PLURALS,
                    relation == "compound",
                    any(relations[k] == "compound" for k in below),
                    subject,
                    relation in ("obj", "dobj"),
                    relation in ("obl", "nmod", "pobj"),
                    relation == "conj" or any(relations[k] == "conj" for k in below),
                    any(tags[k].startswith("JJ") for k in below),
                    subject and tags[head].startswith("JJ"),
                    after in BE,
                    head != i and words[head] in GET,
                    subject and words[head] in HAVE,
                    modified,
                    before in PLACES,
                    before in PARTS,
                    len(words) < SHORT,
                    bool(JUDGING & set(near)),
                ],
                dtype=np.float64,
            ),
        )


def owned_nouns(texts: Sequence[Text], parses: Sequence[Parse], share: float) -> frozenset[str]:
    """Nouns, in lower case, that name what one owns in more than a share of their uses, and plurals of these.

    What goes with 'this, my, these, your, our' is owned; in 'my laptop bag' the bag, and what it is called by with it:
    of 'my MacBook Pro', every word. What names an owned noun is a name of what is owned, whosever it is: 'a Dell
    laptop', so that 'the Dell' is one. Shares are shrunk towards the domain's own, as if every noun had been met three
    times more.
    """
    uses: list[tuple[str, bool, str]] = []  # of each noun: itself, whether with an owner, what it names if not itself
    counts, plurals = Counter[str](), Counter[str]()
    for text, parse in zip(texts, parses, strict=True):
        words = [text.text[start:end].lower() for start, end in parse.words.tolist()]
        heads = parse.heads.tolist()
        with_owner = {heads[i] for i, word in enumerate(words) if word in OWNED}
        for i, word in enumerate(words):
            if is_noun(parse, i, text.text):
                root = i
                while parse.relations[root] == "compound" and heads[root] > root:
                    root = heads[root]
                uses.append((word, root in with_owner, words[root] if root != i else ""))
                counts[word] += 1
                plurals[word] += parse.tags[i] in PLURALS
    mean = sum(owned for _, owned, _ in uses) / max(1, len(uses))
    found = frozenset[str]()
    while True:
        owned = Counter(word for word, own, named in uses if own or named in found)
        more = found | {noun for noun in counts if (owned[noun] + 3 * mean) / (counts[noun] + 3) > share}
        more |= {f"{noun}s" for noun in more if plurals[f"{noun}s"] > counts[f"{noun}s"] / 2}
        if more == found:
            return found
        found = more
