"""Parsers: owner's tokens, CoNLL-U, and what happens to bad input."""

from pathlib import Path

import pytest
from threadpoolctl import ThreadpoolController

from domadapt.data.domains import UnlabelledText
from domadapt.syntax.conllu import ConlluParser
from domadapt.syntax.parser import SpacyParser, load_pipeline

ROWS = """# text = The lens is  sharp.
1\tThe\t_\tDET\tDT\t_\t2\tdet\t_\t_
2\tlens\t_\tNOUN\tNN\t_\t4\tnsubj\t_\t_
3\tis\t_\tAUX\tVBZ\t_\t4\tcop\t_\t_
4\tsharp\t_\tADJ\tJJ\t_\t0\troot\t_\tSpaceAfter=No
5\t.\t_\tPUNCT\t.\t_\t4\tpunct\t_\t_

"""


def test_the_shipped_parser_finds_a_plain_tree() -> None:
    (parse,) = SpacyParser().parse([UnlabelledText("1", "camera", "The lens is sharp.")])
    words = ["The", "lens", "is", "sharp", "."]
    assert [parse.words[i].tolist() for i in range(5)] == [[0, 3], [4, 8], [9, 11], [12, 17], [17, 18]]
    heads = {w: words[h] for w, h in zip(words, parse.heads, strict=True)}
    assert (heads["The"], heads["lens"], heads["sharp"]) == ("lens", "sharp", "sharp")
    assert parse.relations[1].startswith("nsubj")


@pytest.mark.parametrize("asked", ["1", "2"])
def test_numpys_threads_do_not_wait_for_torchs_whoever_was_imported_first(
    asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", asked)
    blas = ThreadpoolController().select(internal_api="openblas")
    if not blas.info():
        pytest.skip("numpy has another BLAS here")
    with blas.limit(limits=2):
        load_pipeline.__wrapped__("shipped")  # not the one that is loaded already
        assert {pool["num_threads"] for pool in blas.info()} == {int(asked)}


def test_owner_tokens_are_kept_with_their_own_offsets() -> None:
    text = "battery  life isn't great"
    words = ((0, 7), (9, 13), (14, 19), (20, 25))
    (parse,) = SpacyParser().parse([UnlabelledText("1", "laptop", text, words)])
    assert tuple(map(tuple, parse.words.tolist())) == words
    (tokens,) = SpacyParser().tokenize([UnlabelledText("1", "laptop", text, words)])
    assert tuple(map(tuple, tokens.tolist())) == words


def test_two_sentences_have_two_roots() -> None:
    (parse,) = SpacyParser().parse([UnlabelledText("1", "camera", "The lens is sharp. The battery died quickly.")])
    assert sum(int(h) == i for i, h in enumerate(parse.heads)) == 2


def test_a_text_longer_than_spacys_limit_is_parsed() -> None:
    texts = [
        UnlabelledText(str(i), "camera", text)
        for i, text in enumerate(["Fast.", f"Sharp{' ' * 1_100_000}lens.", "Slow."])
    ]
    parses = list(SpacyParser().parse(texts))
    assert [len(parse.words) for parse in parses] == [2, 4, 2]


def test_conllu_is_placed_in_the_text_as_written(tmp_path: Path) -> None:
    path = tmp_path / "parses.conllu"
    path.write_text(ROWS, encoding="utf-8")
    text = "The lens\nis   sharp."
    (parse,) = ConlluParser(path).parse([UnlabelledText("1", "camera", text)])
    assert [text[s:e] for s, e in parse.words] == ["The", "lens", "is", "sharp", "."]
    assert parse.heads.tolist() == [1, 3, 3, 3, 3]


def test_a_text_without_parse_is_named(tmp_path: Path) -> None:
    path = tmp_path / "parses.conllu"
    path.write_text(ROWS, encoding="utf-8")
    with pytest.raises(ValueError, match="no parse with '# text = Never seen'"):
        list(ConlluParser(path).parse([UnlabelledText("1", "camera", "Never seen")]))


def test_a_missing_pipeline_prints_its_install_line() -> None:
    with pytest.raises(ValueError, match="python -m spacy download en_core_web_trf"):
        SpacyParser("en_core_web_trf")


def test_a_missing_file_is_named() -> None:
    with pytest.raises(ValueError, match=r"nowhere.conllu: no such CoNLL-U file; set parser.path"):
        ConlluParser("nowhere.conllu")
