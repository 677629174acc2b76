"""The packed multilingual backbone: a file of four-bit blocks becomes a stock folder, against a loop."""

import struct
from pathlib import Path

import numpy as np
import pytest
from transformers import AutoModel, AutoTokenizer

from domadapt.models import multilingual
from domadapt.models.pretrained import load_model, load_tokenizer

PIECES = ["<s>", "<pad>", "</s>", "<unk>", "▁", "▁the", "▁room", "s", "▁lit", "ait", "é", "<mask>"]
HIDDEN, WIDE, ROWS, POSITIONS = 32, 64, 13, 16  # one row more than there are pieces, as in the real file


def quantised(values: np.ndarray) -> bytes:
    packed = b""
    for block in values.reshape(-1, 32):
        scale = np.float16(np.abs(block).max() / 7)
        codes = np.clip(np.round(block / np.float32(scale)), -8, 7).astype(int) + 8
        packed += scale.tobytes() + bytes(int(codes[i] | codes[i + 16] << 4) for i in range(16))
    return packed


def looped(raw: bytes) -> list[float]:
    found = []
    for start in range(0, len(raw), 18):
        (scale,) = struct.unpack_from("<e", raw, start)
        codes = raw[start + 2 : start + 18]
        found += [((code & 15) - 8) * scale for code in codes] + [((code >> 4) - 8) * scale for code in codes]
    return found


@pytest.fixture
def packed(tmp_path: Path) -> tuple[Path, dict[str, bytes]]:
    random, tensors = np.random.default_rng(0), dict[str, bytes]()
    for theirs in multilingual.names(1).values():
        sizes = {"emb.word": (ROWS, HIDDEN), "emb.pos": (POSITIONS, HIDDEN), "emb.type": (2, HIDDEN)}
        sizes |= {"l0.fi.w": (WIDE, HIDDEN), "l0.fo.w": (HIDDEN, WIDE), "l0.fi.b": (WIDE,)}
        matrix = theirs.endswith(".w") and theirs[:2] == "l0" and "ln" not in theirs
        shape = sizes.get(theirs, (HIDDEN, HIDDEN) if matrix else (HIDDEN,))
        values = random.normal(0, 0.1, shape).astype(np.float32)
        tensors[theirs] = quantised(values) if matrix or theirs == "emb.word" else values.tobytes()
    blob = "".join(PIECES).encode()
    offsets = np.cumsum([0, *(len(piece.encode()) for piece in PIECES)])
    head = b"E5S1" + struct.pack("<I7ifi", 1, HIDDEN, 1, 2, WIDE, ROWS, POSITIONS, 2, 1e-12, 32)
    head += struct.pack("<5iQ", len(PIECES), 0, 2, 1, 3, len(blob)) + offsets.astype("<u4").tobytes()
    head += np.linspace(-1, -5, len(PIECES)).astype("<f4").tobytes() + blob + struct.pack("<iI", 2, 5) + b"skip."
    table = sum(2 + len(name) + 21 for name in tensors)
    start, listed = len(head) + 4 + table, b""
    for name, raw in tensors.items():
        four_bit = len(raw) % 18 == 0 and (name == "emb.word" or (name.endswith(".w") and "ln" not in name))
        count = len(raw) // 18 * 32 if four_bit else len(raw) // 4
        listed += struct.pack("<H", len(name)) + name.encode() + struct.pack("<BIQQ", four_bit, count, start, len(raw))
        start += len(raw)
    path = tmp_path / "packed.bin"
    path.write_bytes(head + struct.pack("<i", len(tensors)) + listed + b"".join(tensors.values()))
    return path, tensors


def test_a_packed_file_becomes_a_stock_folder(packed: tuple[Path, dict[str, bytes]], tmp_path: Path) -> None:
    path, tensors = packed
    multilingual.make(path, tmp_path / "folder")
    model = AutoModel.from_pretrained(tmp_path / "folder")
    state = model.state_dict()
    for name in ("emb.word", "l0.q.w", "l0.fo.w"):
        [ours] = [ours for ours, theirs in multilingual.names(1).items() if theirs == name]
        assert state[ours].flatten().tolist() == pytest.approx(looped(tensors[name]), abs=1e-3)
    assert state["embeddings.LayerNorm.bias"].numpy() == pytest.approx(
        np.frombuffer(tensors["emb.ln.b"], "<f4"), abs=1e-3
    )
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "folder")
    read = tokenizer("the  rooms", return_offsets_mapping=True)
    assert tokenizer.convert_ids_to_tokens(read["input_ids"]) == ["<s>", "▁the", "▁room", "s", "</s>"]
    assert (tokenizer.mask_token_id, tokenizer.pad_token_id) == (11, 1)
    assert load_tokenizer(str(tmp_path / "folder")).is_fast
    assert load_model(str(tmp_path / "folder"), "token", ["O", "B-x"])[1].unplaced == ()


def test_what_is_not_such_a_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.bin").write_bytes(b"GGUF\x01\x00\x00\x00")
    with pytest.raises(ValueError, match="expected E5S1"):
        multilingual.unpacked(tmp_path / "a.bin")
    monkeypatch.setattr(multilingual, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"is an extra: pip install 'domadapt\[multilingual\]'"):
        multilingual.packed_file()
