"""Alignment and batches against slow references, over random Unicode and every tokenizer family."""

from copy import deepcopy

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from domadapt.data.batches import BucketSampler, Collator, StepLoader, encode, in_order
from domadapt.data.domains import unlabelled
from domadapt.models.pretrained import load_tokenizer
from domadapt.syntax.alignment import IGNORED, align, pool_words
from domadapt.utils.pairs import BOUNDARY
from tests.parsers import word_ranges
from tests.support import TEXTS, parsed_batch, tiny_encoder

TOKENIZER = load_tokenizer("tiny_random")
characters = st.characters(categories="LNPS", exclude_characters=BOUNDARY)  # a text with it is a pair: test_pairs.py
sentence = st.lists(st.text(characters, min_size=1, max_size=12), min_size=1, max_size=9)


@given(st.lists(sentence, min_size=1, max_size=5), st.integers(3, 40))
def test_nodes_point_to_the_first_piece_of_their_word(sentences: list[list[str]], max_length: int) -> None:
    texts = [" ".join(s) for s in sentences]
    ranges = [word_ranges(t) for t in texts]
    tags = [np.arange(len(r)) for r in ranges]
    examples, cut = encode(texts, ranges, TOKENIZER, max_length, word_tags=tags)
    batch = Collator(0)(examples)
    assert batch.words.tolist() == [len(s) for s in sentences]
    assert batch.input_ids.shape[1] % 4 == 0
    node, lost = 0, 0
    for row, (text, own) in enumerate(zip(texts, ranges, strict=True)):
        offsets = TOKENIZER(text, truncation=True, max_length=max_length, return_offsets_mapping=True)["offset_mapping"]
        for word, (start, end) in enumerate(own):
            pieces = [i for i, (s, e) in enumerate(offsets) if s < end and start < e]
            first = batch.node_first_piece[node].item()
            if pieces:
                assert divmod(first, batch.input_ids.shape[1]) == (row, pieces[0])
                assert batch.word_tags[node] == word
            else:
                assert (first, batch.word_tags[node].item()) == (-1, IGNORED)
            node += 1
        lost += len(TOKENIZER(text)["input_ids"]) > max_length
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
    sampler.epoch = epoch
    batches = list(sampler)
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    assert len(batches) == len(sampler) and max(map(len, batches)) <= batch_size and batches == list(sampler)


def test_the_target_stream_goes_on_over_epochs_and_evaluation_sees_all_once() -> None:
    texts = [f"text {i}" for i in range(10)]
    examples, _ = encode(texts, [word_ranges(t) for t in texts], TOKENIZER, 16)
    loader = StepLoader(examples[:4], examples, Collator(0), batch_size=2, target_batch_size=5, seed=0)
    seen = []
    for _ in range(2):  # two epochs of two steps: two passes over the target
        for step in loader:
            seen += step.target.index.tolist()
    assert sorted(seen[:10]) == sorted(seen[10:]) == list(range(10))
    assert all(step.target is None for step in StepLoader(examples, None, Collator(0), 2, 2, 0))
    texts = ["a b c d", "a", "a b"]
    examples, _ = encode(texts, [word_ranges(t) for t in texts], TOKENIZER, 16)
    assert [i for batch in in_order(examples, Collator(0), 2) for i in batch.index.tolist()] == [0, 2, 1]


def test_what_is_no_text_is_refused_with_its_place() -> None:
    for wrong in (None, ("one", "two", "three"), ("one", 2)):
        with pytest.raises(ValueError, match=r"text 2 is .*; expected a text, or the two of a pair"):
            list(unlabelled(["fine", wrong]))  # type: ignore[list-item]
    with pytest.raises(ValueError, match=r"text 2: character 2 is '\\ud800', half a surrogate pair"):
        list(unlabelled(["fine", "no\ud800"]))


Case = tuple[str, list[tuple[int, int]]]
TEXT = ["the cameras' lens isn't sharp, naïve façade — 24-70mm 😀 日本語", "laptops overheat; fans whirr"] * 20


def byte_level() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(TEXT, trainers.BpeTrainer(vocab_size=320, initial_alphabet=alphabet))
    return tokenizer


def unigram() -> Tokenizer:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    unknown = {"unk_token": "<unk>", "special_tokens": ["<unk>"]}
    tokenizer.train_from_iterator(TEXT, trainers.UnigramTrainer(vocab_size=110, **unknown))
    return tokenizer


TOKENIZERS = {"WordPiece": deepcopy(TOKENIZER.backend_tokenizer), "byte-level BPE": byte_level(), "Unigram": unigram()}


def slow_pairs(pieces: list[tuple[int, int]], words: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Every piece and word that share a character."""
    return [
        (p, w)
        for p, (piece_start, piece_end) in enumerate(pieces)
        for w, (word_start, word_end) in enumerate(words)
        if set(range(piece_start, piece_end)) & set(range(word_start, word_end))
    ]


@st.composite
def texts_with_words(draw: st.DrawFn) -> Case:
    """Random text, and sorted, disjoint words anywhere in it: across spaces, inside emoji sequences, empty ones."""
    text = draw(st.text(st.characters(exclude_categories=("Cs",)), max_size=30))
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=16)))
    return text, list(zip(cuts[::2], cuts[1::2], strict=False))


@pytest.mark.parametrize("family", TOKENIZERS)
@given(case=texts_with_words())
def test_alignment_is_the_overlap_of_characters(family: str, case: Case) -> None:
    text, words = case
    pieces = TOKENIZERS[family].encode(text).offsets
    alignment = align(pieces, words)
    pairs = list(zip(alignment.pair_pieces.tolist(), alignment.pair_words.tolist(), strict=True))
    assert pairs == slow_pairs(pieces, words)
    first = alignment.word_first_pieces().tolist()
    assert first == [min((p for p, w in pairs if w == word), default=-1) for word in range(len(words))]
    owner = alignment.piece_words().tolist()
    assert owner == [min((w for p, w in pairs if p == piece), default=-1) for piece in range(len(pieces))]


@given(case=texts_with_words(), data=st.data())
def test_piece_heads_point_to_the_first_piece_of_the_head(case: Case, data: st.DataObject) -> None:
    text, words = case
    heads = [data.draw(st.integers(0, len(words) - 1)) for _ in words]
    pieces = TOKENIZERS["byte-level BPE"].encode(text).offsets
    kept = data.draw(st.integers(0, len(pieces)))  # truncation
    pairs = slow_pairs(pieces[:kept], words)
    expected = []
    for piece in range(kept):
        mine = [w for p, w in pairs if p == piece]
        of_head = [p for p, w in pairs if mine and w == heads[mine[0]]]
        expected.append(min(of_head) if of_head else IGNORED)
    assert align(pieces[:kept], words).piece_heads(np.array(heads, dtype=np.int64)).tolist() == expected


@given(case=texts_with_words(), data=st.data())
def test_links_of_words_are_links_of_their_pieces(case: Case, data: st.DataObject) -> None:
    text, words = case
    a_word = st.integers(0, len(words) - 1)
    links = data.draw(st.lists(st.tuples(a_word, a_word), max_size=12)) if words else []
    pieces = TOKENIZERS[data.draw(st.sampled_from([*TOKENIZERS]))].encode(text).offsets
    kept = data.draw(st.integers(0, len(pieces)))  # truncation
    pairs = slow_pairs(pieces[:kept], words)
    first = {word: min(p for p, w in pairs if w == word) for _, word in pairs}
    expected = {(first[word], first[other]) for word, other in links if word in first and other in first}
    found = align(pieces[:kept], words).link_pieces(np.array(links, dtype=np.int64).reshape(-1, 2))
    assert found.tolist() == sorted(map(list, expected))


def test_unsorted_words_are_refused() -> None:
    with pytest.raises(ValueError, match="sorted"):
        align([(0, 1)], [(3, 4), (0, 1)])


@given(case=texts_with_words())
def test_pooled_words_are_means_of_their_pieces(case: Case) -> None:
    text, words = case
    pieces = TOKENIZERS["Unigram"].encode(text).offsets
    alignment = align(pieces, words)
    states = torch.arange(len(pieces) * 2, dtype=torch.float64).reshape(1, len(pieces), 2)
    pooled = pool_words(states, *map(torch.from_numpy, (alignment.pair_pieces, alignment.pair_words)), len(words))
    for word in range(len(words)):
        mine = [p for p, w in slow_pairs(pieces, words) if w == word]
        expected = states[0, mine].mean(0) if mine else torch.zeros(2, dtype=torch.float64)
        torch.testing.assert_close(pooled[word], expected)
