"""Batches: what collation promises, against loops."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from domadapt.data.batches import Collator, encode
from domadapt.data.domains import unlabelled
from domadapt.data.loaders import BucketSampler, StepLoader, in_order
from domadapt.models.pretrained import load_tokenizer
from domadapt.syntax.alignment import IGNORED
from tests.support import TEXTS, parsed_batch, tiny_encoder, word_ranges

TOKENIZER = load_tokenizer("tiny_random")


words = st.lists(st.text(st.characters(categories="LNPS"), min_size=1, max_size=12), min_size=1, max_size=9)


@given(st.lists(words, min_size=1, max_size=5), st.integers(3, 40))
def test_nodes_point_to_the_first_piece_of_their_word(sentences: list[list[str]], max_pieces: int) -> None:
    texts = [" ".join(s) for s in sentences]
    ranges = [word_ranges(t) for t in texts]
    tags = [np.arange(len(r)) for r in ranges]
    examples, cut = encode(texts, ranges, TOKENIZER, max_pieces, word_tags=tags)
    batch = Collator(0)(examples)
    assert batch.words.tolist() == [len(s) for s in sentences]
    assert batch.input_ids.shape[1] % 8 == 0
    node, lost = 0, 0
    for row, (text, own) in enumerate(zip(texts, ranges, strict=True)):
        offsets = TOKENIZER(text, truncation=True, max_length=max_pieces, return_offsets_mapping=True)["offset_mapping"]
        for word, (start, end) in enumerate(own):
            pieces = [i for i, (s, e) in enumerate(offsets) if s < end and start < e]
            first = batch.node_first_piece[node].item()
            if pieces:
                assert divmod(first, batch.input_ids.shape[1]) == (row, pieces[0])
                assert batch.word_tags[node] == word
            else:
                assert (first, batch.word_tags[node].item()) == (-1, IGNORED)
            node += 1
        whole = len(TOKENIZER(text)["input_ids"]) > max_pieces
        lost += whole
    assert cut.texts == lost


def test_trees_stay_within_their_text() -> None:
    batch, relations = parsed_batch(tiny_encoder())
    text = np.repeat(np.arange(len(TEXTS)), batch.words.numpy())
    assert (text[batch.word_heads.numpy()] == text).all()
    assert (text[batch.edge_index[0].numpy()] == text[batch.edge_index[1].numpy()]).all()
    assert int(batch.edge_type.max()) == 2 * (len(relations) + 1)


@given(st.lists(st.integers(1, 60), min_size=1, max_size=200), st.integers(1, 9), st.integers(0, 3), st.integers(0, 3))
def test_every_text_comes_once_an_epoch(lengths: list[int], batch_size: int, seed: int, epoch: int) -> None:
    sampler = BucketSampler(lengths, batch_size, seed)
    sampler.set_epoch(epoch)
    batches = list(sampler)
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    assert len(batches) == len(sampler)
    assert max(map(len, batches)) <= batch_size
    assert batches == list(sampler)


def test_the_target_stream_goes_on_over_epochs() -> None:
    texts = [f"text {i}" for i in range(10)]
    examples, _ = encode(texts, [word_ranges(t) for t in texts], TOKENIZER, 16)
    loader = StepLoader(examples[:4], examples, Collator(0), batch_size=2, target_batch_size=5, seed=0)
    seen = []
    for _ in range(2):  # two epochs of two steps: two passes over the target
        for step in loader:
            seen += step.target.index.tolist()
    assert sorted(seen[:10]) == sorted(seen[10:]) == list(range(10))
    assert all(step.target is None for step in StepLoader(examples, None, Collator(0), 2, 2, 0))


def test_evaluation_sees_everything_once_longest_first() -> None:
    texts = ["a b c d", "a", "a b"]
    examples, _ = encode(texts, [word_ranges(t) for t in texts], TOKENIZER, 16)
    order = torch.cat([batch.index for batch in in_order(examples, Collator(0), 2)])
    assert order.tolist() == [0, 2, 1]


def test_half_a_surrogate_pair_is_refused_with_its_place() -> None:
    with pytest.raises(ValueError, match=r"text 1: character 2 is '\\ud800', half a surrogate pair"):
        list(unlabelled(["fine", "no\ud800"]))
