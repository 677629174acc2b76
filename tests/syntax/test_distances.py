"""Distances in trees against a search that is obviously right, for words and for their pieces."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from domadapt.data.batches import Collator, encode
from domadapt.methods.injection.tree_bias import distance_kinds
from domadapt.syntax.parser import Parse
from domadapt.syntax.trees import ancestors, tree_distances
from tests.support import tiny_encoder

WORDS = ["the", "incomprehensible", "menus", "of", "this", "camera", "isn't", "fiddling", "about"]


@st.composite
def forests(draw: st.DrawFn) -> list[int]:
    """Heads of one or more trees: each word hangs on an earlier one in some order, or is a root, its own head."""
    size = draw(st.integers(0, len(WORDS)))
    order = draw(st.permutations(range(size)))
    heads = [*range(size)]
    for place, word in enumerate(order):
        heads[word] = order[draw(st.integers(0, place))]
    return heads


def searched(heads: list[int], start: int) -> dict[int, int]:
    """Arcs from a word to each that can be reached, breadth first."""
    found, front = {start: 0}, [start]
    while front:
        near = [w for w, head in enumerate(heads) for f in front if w != f and (head == f or heads[f] == w)]
        front = [*{*near} - found.keys()]
        found |= dict.fromkeys(front, max(found.values()) + 1)
    return found


@given(st.lists(forests(), min_size=1, max_size=3), st.integers(1, 5))
def test_distances_and_ancestors_are_those_of_a_search(texts: list[list[int]], first: int) -> None:
    most = max(1, *map(len, texts))
    heads = torch.tensor([[*own, *range(len(own), most)] for own in texts])
    apart, above = tree_distances(heads), ancestors(heads, most)
    for row, own in enumerate(heads.tolist()):
        for word in range(most):
            found = searched(own, word)
            assert apart[row, word].tolist() == [found.get(other, -1) for other in range(most)]
            way = [word]
            while own[way[-1]] != way[-1]:
                way.append(own[way[-1]])
            assert above[row, word].nonzero().flatten().tolist() == sorted(way)
    first = min(first, most)
    assert torch.equal(tree_distances(heads, first), apart[:, :first, :first])


def test_a_chain_of_a_thousand_words_is_counted_to_its_end() -> None:
    """Where half precision would have lost count."""
    heads = torch.arange(-1, 999).clamp(min=0).unsqueeze(0)
    with torch.autocast("cpu", torch.bfloat16):
        apart = tree_distances(heads)[0]
    places = torch.arange(1000)
    assert torch.equal(apart, (places.unsqueeze(1) - places).abs())


@given(st.lists(forests(), min_size=1, max_size=3), st.integers(1, 4), st.integers(4, 24))
def test_pieces_are_as_far_apart_as_their_words(texts: list[list[int]], most: int, longest: int) -> None:
    tokenizer = ENCODER.tokenizer
    words = [WORDS[: len(own)] for own in texts]
    ends = [np.cumsum([len(word) + 1 for word in own], dtype=np.int64) - 1 for own in words]
    ranges = [
        np.array([(end - len(word), end) for word, end in zip(own, stops, strict=True)], np.int64).reshape(-1, 2)
        for own, stops in zip(words, ends, strict=True)
    ]
    parses = [
        Parse(r, np.array(own, np.int64), ("obj",) * len(own), ("",) * len(own))
        for r, own in zip(ranges, texts, strict=True)
    ]
    examples, _ = encode([" ".join(own) for own in words], ranges, tokenizer, longest, parses)
    kinds = distance_kinds(Collator(tokenizer.pad_token_id, {"obj": 1})(examples), most)
    for row, (example, own) in enumerate(zip(examples, texts, strict=True)):
        of_piece = [*example.alignment.piece_words().tolist(), *[-1] * (kinds.shape[1] - len(example.input_ids))]
        for here, one in enumerate(of_piece):
            found = searched(own, one) if one >= 0 else {}
            expected = [
                most + 2 if -1 in (one, other) else min(found.get(other, most + 1), most + 1) for other in of_piece
            ]
            assert kinds[row, here].tolist() == expected


ENCODER = tiny_encoder()
