"""Alignment against a slow reference that is obviously right, over random Unicode and every tokenizer family."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from domadapt.syntax.alignment import IGNORED, align, pool_words

Case = tuple[str, list[tuple[int, int]]]
TEXT = ["the cameras' lens isn't sharp, naïve façade — 24-70mm 😀 日本語", "laptops overheat; fans whirr"] * 20


def word_piece() -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[UNK]", "[CLS]", "[SEP]"]
    tokenizer.train_from_iterator(TEXT, trainers.WordPieceTrainer(vocab_size=120, special_tokens=special))
    around = [("[CLS]", 1), ("[SEP]", 2)]
    tokenizer.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", special_tokens=around)
    return tokenizer


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


TOKENIZERS = {"WordPiece": word_piece(), "byte-level BPE": byte_level(), "Unigram": unigram()}


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
    found = align(pieces[:kept], words).piece_heads(np.array(heads, dtype=np.int64))
    assert found.tolist() == expected


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


def test_one_emoji_of_many_bytes_belongs_to_its_word() -> None:
    encoded = TOKENIZERS["byte-level BPE"].encode("a 😀!")
    alignment = align(encoded.offsets, [(0, 1), (2, 3), (3, 4)])
    assert (alignment.pair_words == 1).sum() > 1
    assert (alignment.word_first_pieces() >= 0).all()


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
