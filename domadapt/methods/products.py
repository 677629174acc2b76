"""Whether the product itself is a term: what the source's annotation says of it, held against what a model finds.

Some annotate what a review is about as a whole ('this laptop', 'my MacBook'), others do not: the guidelines say. How
much less often than other nouns it is annotated can be counted in the source, and holds there for words that the target
has not. A model that has learnt terms by heart, or that was shown the target's words as terms, forgets it.
"""

from collections import Counter
from collections.abc import Sequence

from torch import Tensor

from domadapt.data.records import Record
from domadapt.methods.setting import Setting
from domadapt.methods.term_rates import ENOUGH_TERMS
from domadapt.methods.term_types import term_uses
from domadapt.syntax.noun_features import owned_nouns
from domadapt.syntax.nouns import is_noun
from domadapt.syntax.parser import Parse, Text

OWNED = 0.25  # share of uses with 'this, my, your, our' from which on a noun is what the texts are about
UNKNOWN = 5.0  # uses of products, as frequent in terms as is expected, that are counted beside those met
ARE_TERMS = "products are terms"  # in ``setting.counted``: the user says so


def products(setting: Setting, side: str) -> frozenset[str]:
    """Nouns, in lower case, that name what the texts of a side are about as a whole; counted once a run.

    Args:
        setting: of the run.
        side: ``source``, all its training records, or ``target``, its unlabelled texts.
    """
    name = f"{side} products"
    if name not in setting.counted:
        domains = setting.domains
        texts: Sequence[Text] = domains.source_train if side == "source" else domains.unlabeled.texts
        setting.counted[name] = owned_nouns(texts, setting.corpus_parses(side), OWNED)
    found: frozenset[str] = setting.counted[name]
    return found


def left_alone(setting: Setting) -> bool:
    """Whether products are as other nouns: enough terms are found as it is, or the user says that they are terms."""
    return bool(setting.counted.get(ENOUGH_TERMS) or setting.counted.get(ARE_TERMS))


def product_rate(
    records: Sequence[Record],
    parses: Sequence[Parse],
    kinds: frozenset[str],
    named: frozenset[str],
    expected: float = 1.0,
) -> float:
    """Share of the products' uses that stand in a term, as a multiple of other nouns'.

    Args:
        records: labelled.
        parses: of these.
        kinds: span types of terms.
        named: products.
        expected: the multiple where nothing tells.
    """
    uses, inside = noun_counts(records, parses), term_uses(records, parses, kinds)
    own, own_inside = (sum(counts[word] for word in named) for counts in (uses, inside))
    return _multiple(own_inside, own, inside.total() - own_inside, uses.total() - own, expected)


def found_rate(odds: Tensor, product: Tensor, expected: float) -> float:
    """The same of what a model finds.

    Args:
        odds: (uses,) log-odds of nouns to be in a term.
        product: (uses,) which of them name products.
        expected: the multiple where nothing tells.

    >>> import torch
    >>> odds, product = torch.tensor([3.0, -1.0, 2.0, -2.0]), torch.tensor([True, True, False, False])
    >>> found_rate(odds, product, 1.0), found_rate(-odds.abs(), product, 0.5)
    (1.0, 0.5)
    """
    own, other = odds[product] > 0, odds[~product] > 0
    return _multiple(int(own.sum()), len(own), int(other.sum()), len(other), expected)


def _multiple(own_inside: int, own: int, other_inside: int, other: int, expected: float) -> float:
    rate = other_inside / max(1, other)
    return (own_inside + UNKNOWN * expected * rate) / (own + UNKNOWN) / rate if rate else expected


def noun_counts(texts: Sequence[Text], parses: Sequence[Parse]) -> Counter[str]:
    """Uses of each noun, in lower case."""
    return Counter(
        text.text[start:end].lower()
        for text, parse in zip(texts, parses, strict=True)
        for word, (start, end) in enumerate(parse.words.tolist())
        if is_noun(parse, word, text.text)
    )


def held_back(odds: Tensor, product: Tensor, rate: float) -> float:
    """What is added to products' log-odds, so that they are terms no more often than so many times other nouns are.

    Args:
        odds: (uses,) log-odds of nouns to be in a term.
        product: (uses,) which of them name products.
        rate: the multiple.

    Returns:
        Zero where they are not found more often as it is; else below.

    >>> import torch
    >>> odds, product = torch.tensor([3.0, 1.0, 2.0, -2.0]), torch.tensor([True, True, False, False])
    >>> held_back(odds, product, 1.0), held_back(odds, product, 2.0)
    (-1.0, 0.0)
    """
    own, most = odds[product], rate * (odds[~product] > 0).float().mean().item()
    if not len(own) or len(own) == len(odds) or (own > 0).float().mean().item() <= most:
        return 0.0
    return -own.sort(descending=True).values[int(most * len(own))].item()
