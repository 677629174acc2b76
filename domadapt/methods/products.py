"""Whether the product itself is a term: what the source's annotation says of it, held against what a model finds.

Some annotate what a review is about as a whole ('this laptop', 'my MacBook'), others do not: the guidelines say. How
much less often than other nouns it is annotated can be counted in the source, and holds there for words that the target
has not. A model that has learnt terms by heart, or that was shown the target's words as terms, forgets it.
"""

from collections.abc import Sequence

from torch import Tensor

from domadapt.data.records import Record
from domadapt.syntax.noun_features import owned_nouns
from domadapt.syntax.nouns import is_noun
from domadapt.syntax.parser import Parse, Text

OWNED = 0.25  # share of uses with 'this, my, your, our' from which on a noun is what the texts are about
UNKNOWN = 5.0  # uses of products as frequent in terms as other nouns that are counted beside those met
ARE_TERMS = "products are terms"  # in ``setting.counted``: the user says so


def products(texts: Sequence[Text], parses: Sequence[Parse]) -> frozenset[str]:
    """Nouns, in lower case, that name what the texts are about as a whole."""
    return owned_nouns(texts, parses, OWNED)


def product_rate(records: Sequence[Record], parses: Sequence[Parse], kinds: frozenset[str]) -> float:
    """Share of the products' uses that stand in a term, as a multiple of other nouns'; 1 where nothing tells.

    Args:
        records: labelled.
        parses: of these.
        kinds: span types of terms.
    """
    named = products(records, parses)
    uses, inside = [0, 0], [0, 0]
    for record, parse in zip(records, parses, strict=True):
        terms = [(span.start, span.end) for span in record.spans or () if span.type in kinds]
        for word, (start, end) in enumerate(parse.words.tolist()):
            if is_noun(parse, word, record.text):
                product = record.text[start:end].lower() in named
                uses[product] += 1
                inside[product] += any(first < end and start < last for first, last in terms)
    other = inside[False] / max(1, uses[False])
    return (inside[True] + UNKNOWN * other) / (uses[True] + UNKNOWN) / other if other else 1.0


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
