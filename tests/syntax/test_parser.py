"""Parsers: owner's tokens, CoNLL-U, odd texts, trees that are none, two languages: never a wrong edge."""

import gzip
import logging
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController

import domadapt
from domadapt.config.compose import compose
from domadapt.data.domains import UnlabelledText, unlabelled
from domadapt.data.records import Record
from domadapt.inference.description import read_description
from domadapt.syntax.cache import ParseCache
from domadapt.syntax.conllu import ConlluParser, conllu, read_conllu
from domadapt.syntax.controls import TwoParsers, make_parser
from domadapt.syntax.parser import (
    Parse,
    SpacyParser,
    Text,
    foreign_warning,
    load_pipeline,
    parse_warning,
    warn_of_parses,
)
from domadapt.training.build import build
from domadapt.utils.files import shipped
from tests.parsers import MadeParser
from tests.support import corpora, edit, records, setting_of, tiny_encoder, write_jsonl

ROWS = """# text = The lens is  sharp.
1\tThe\t_\tDET\tDT\t_\t2\tdet\t_\t_
2\tlens\t_\tNOUN\tNN\t_\t4\tnsubj\t_\t_
3\tis\t_\tAUX\tVBZ\t_\t4\tcop\t_\t_
4\tsharp\t_\tADJ\tJJ\t_\t0\troot\t_\tSpaceAfter=No
5\t.\t_\tPUNCT\t.\t_\t4\tpunct\t_\t_

"""


@pytest.mark.parametrize("asked", ["1", "2"])
def test_numpys_threads_do_not_wait_for_torchs(asked: str, monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert "name" not in vars(SpacyParser())  # its files are read for it, and a model of whole texts never asks
    (parse,) = SpacyParser().parse([UnlabelledText("1", "laptop", text, words)])
    assert tuple(map(tuple, parse.words.tolist())) == words
    (tokens,) = SpacyParser().tokenize([UnlabelledText("1", "laptop", text, words)])
    assert tuple(map(tuple, tokens.tolist())) == words


def test_a_text_longer_than_spacys_limit_is_parsed() -> None:
    parses = list(SpacyParser().parse(unlabelled(["Fast.", f"Sharp{' ' * 1_100_000}lens.", "Slow."])))
    assert [len(parse.words) for parse in parses] == [2, 4, 2]


def test_conllu_is_placed_in_the_text_as_written_and_other_texts_are_named(tmp_path: Path) -> None:
    path = tmp_path / "parses.conllu"
    path.write_text(ROWS, encoding="utf-8")
    text = "The lens\nis   sharp."
    (parse,) = ConlluParser(path).parse([UnlabelledText("1", "camera", text)])
    assert [text[s:e] for s, e in parse.words] == ["The", "lens", "is", "sharp", "."]
    assert parse.heads.tolist() == [1, 3, 3, 3, 3]
    with pytest.raises(ValueError, match="no parse with '# text = Never seen'"):
        list(ConlluParser(path).parse([UnlabelledText("1", "camera", "Never seen")]))


def test_a_missing_pipeline_and_a_missing_file_are_named() -> None:
    with pytest.raises(ValueError, match="python -m spacy download en_core_web_trf"):
        SpacyParser("en_core_web_trf")
    with pytest.raises(ValueError, match="pipeline; put its folder there, or train with parser=shipped"):
        SpacyParser("nowhere/pipeline")
    with pytest.raises(ValueError, match=r"nowhere.conllu: no such CoNLL-U file; set parser.path"):
        ConlluParser("nowhere.conllu")


GERMAN = "Die Kamera ist sehr gut, aber der Akku reicht leider nur einen Tag lang."
ODD = {  # by what they are: the text, and what is counted of it
    "emoji": ("😀😀 👍🏽", "no Latin letter in the text"),
    "one token": ("Wow", None),
    "punctuation": ("?!", "no Latin letter in the text"),
    "Chinese": ("你好，这个相机很好。", "no Latin letter in the text"),
    "Arabic": ("هذه الكاميرا جيدة جدا", "no Latin letter in the text"),
    "German": (GERMAN, "none of the common English words in the text"),
    "zero width": ("\u200b\u200d \ufe0f", "no Latin letter in the text"),
    "white space": (" \t ", "no Latin letter in the text"),
    "white space around words": ("  Don't\u00a0 stop \n\n now. It's  fun \u2028 ok", None),
    "accents alone": ("a" + "\u0301" * 200, None),
    "a long token": ("x" * 20_000, None),
    "5,000 tokens": (" ".join(["good"] * 5_000), "more than 200 words a sentence"),
    "nothing": ("", "no Latin letter in the text"),
}


def test_odd_texts_get_trees_over_their_own_words_that_are_read_back_and_counted(tmp_path: Path) -> None:
    path, texts = tmp_path / "own.conllu", [text for text, _ in ODD.values()]
    parser, warnings = SpacyParser(), Counter[str]()
    parses = list(parser.parse(unlabelled(texts)))
    for text, words, parse in zip(texts, parser.tokenize(unlabelled(texts)), parses, strict=True):
        size = len(words)
        assert parse.words.tolist() == words.tolist()  # the tokeniser is the same
        assert len(parse.heads) == len(parse.relations) == len(parse.tags) == size
        assert ((parse.heads >= 0) & (parse.heads < size)).all()
        place = parse.heads
        for _ in range(size.bit_length()):
            place = place[place]
        assert (parse.heads[place] == place).all()  # all lead to a root
        roots = [relation == "ROOT" for relation in parse.relations]
        assert roots == (parse.heads == np.arange(size)).tolist()
        if text.strip():  # what is written is read back, without its words of white space
            path.write_text(conllu("1", text, parse), encoding="utf-8")
            [again] = ConlluParser(path).parse([UnlabelledText("1", "", text)])
            visible = [i for i, (start, end) in enumerate(words) if text[start:end].strip()]
            assert again.words.tolist() == words[visible].tolist()
            # What hung on a word of white space that was a root is a root now.
            pairs = zip(again.relations, (parse.relations[i].lower() for i in visible), strict=True)
            assert all(found in (given, "root") for found, given in pairs)
    sense = {name: parse_warning(text, parse, parser.name) for (name, (text, _)), parse in zip(ODD.items(), parses)}
    # How many sentences the shipped parser sees in five thousand equal words is its own affair: told below.
    assert [n for n, (_, reason) in ODD.items() if n != "5,000 tokens" and sense[n] != reason] == []
    one = Parse(np.zeros((5_000, 2), np.int64), np.zeros(5_000, np.int64), ("dep",) * 5_000, ("",) * 5_000)
    assert parse_warning(ODD["5,000 tokens"][0], one, parser.name) == ODD["5,000 tokens"][1]
    assert parse_warning(GERMAN, parses[5], "spacy-3.8.18/de_core_news_sm-3.8.0/x") is None  # not an English parser's
    warn_of_parses(texts, parses, parser.name, warnings)
    assert warnings["parse that may be wrong: no Latin letter in the text"] == 7


def test_a_run_with_odd_texts_counts_them_and_stays_finite(tmp_path: Path) -> None:
    overrides = corpora(tmp_path)
    odd = [text for text, _ in ODD.values() if text.strip()]
    rows = [{"id": f"odd-{i}", "domain": "laptop", "text": text} for i, text in enumerate(odd)]
    write_jsonl(tmp_path / "target.jsonl", [*records("laptop", 6), *rows])
    metrics = domadapt.train([*overrides, "injection=gnn", "trainer.epochs=1", f"paths.run={tmp_path}/run"])
    losses = [value for point in metrics["curve"] for value in point["losses"].values()]
    assert losses and np.isfinite(losses).all()
    assert metrics["counts"]["warnings"]["parse that may be wrong: no Latin letter in the text"] >= 5


def test_words_that_no_piece_covers_are_counted() -> None:
    session = setting_of(tiny_encoder(), max_length=16)
    words = ((0, 3), (4, 5), (6, 10), (10, 11))
    texts = [UnlabelledText(str(i), "d", text, words) for i, text in enumerate(("The \u200b lens.", "The a lens."))]
    cut = UnlabelledText("2", "d", "long " * 40)
    session.examples([*texts, cut], "target", parses=False, labelled=False)
    left_out = "word left out: the backbone has no subword of it (a control character, say)"
    assert dict(session.domains.warnings) == {left_out: 1}


BAD_TREES = {  # by what is wrong: what is replaced in the good file, and the line that is said
    "circle": (("\t4\tcop", "\t5\tcop"), ("\t4\tpunct", "\t3\tpunct"), "4: words 3, 5 lead to no root: their HEADs"),
    "no root": (("\t0\troot", "\t2\tdep"), "2: words 1, 2, 3, 4, 5 lead to no root"),
    "its own head": (("\t2\tdet", "\t1\tdet"), "word 1 'The' is its own HEAD; a root's is 0"),
    "two roots": (("\t4\tnsubj", "\t0\tnsubj"), ("\t4\tcop", "\t2\tcop"), ("\t2\tdet", "\t4\tdet"), "3: words 2 and 4"),
    "head out of range": (("\t4\tcop", "\t6\tcop"), "gold.conllu:4: word 3 has HEAD '6', expected 0 to 5"),
    "negative head": (("\t4\tcop", "\t-1\tcop"), "word 3 has HEAD '-1', expected 0 to 5"),
    "no head": (("\t4\tcop", "\t_\tcop"), "word 3 has HEAD '_', expected 0 to 5"),
    "digit of another kind": (("\t4\tcop", "\t²\tcop"), "word 3 has HEAD '²', expected 0 to 5"),
    "numbers with a gap": (("\n5\t.", "\n6\t."), "gold.conllu:6: word '.' has ID 6, expected 5: words are 1, 2"),
    "no blank line": (
        ("\n5\t.", "\n1\t."),
        "expected 5: words are 1, 2, ..., and a blank line ends a sentence",
    ),
    "text within": (("\n5\t.", "\n# text = .\n5\t."), "gold.conllu:6: '# text' within a sentence"),
    "no number": (("\n5\t.", "\n²\t."), "ID '²', expected such as 1, 1-2 or 1.1"),
    "a word left out": (("3\tis\t_\tAUX\tVBZ\t_\t4\tcop\t_\t_\n", ""), "word 'sharp' has ID 4, expected 3"),
    "text in no word": (("text = The", "text = All The"), "'All' before word 1 'The' is in '# text' and in no word"),
    "text after the words": (("lens is  sharp.", "lens is  sharp. All"), "'All' after the last word is in '# text'"),
    "another word": (("2\tlens", "2\tlenz"), "word 2 'lenz' is not in '# text = The lens is sharp.'"),
    "no text": (("# text =", "# txt ="), "gold.conllu:2: the sentence has no '# text =' line"),
    "columns": (("\tdet\t_\t_", "\tdet"), "gold.conllu:2: 8 tab-separated columns, CoNLL-U has 10"),
    "no form": (("5\t.\t", "5\t\t"), "word 5 '' is not in '# text"),
}


@pytest.mark.parametrize("name", BAD_TREES)
def test_trees_that_are_none_are_refused_in_one_line(name: str, tmp_path: Path) -> None:
    *changes, message = BAD_TREES[name]
    rows = ROWS
    for old, new in changes:
        assert old in rows
        rows = rows.replace(old, new, 1)
    path = tmp_path / "gold.conllu"
    path.write_text(rows, encoding="utf-8")
    with pytest.raises(ValueError, match=r"gold.conllu:[2-6]: ") as error:
        ConlluParser(path)
    assert str(message) in str(error.value) and "\n" not in str(error.value)
    path.write_bytes(gzip.compress(rows.encode()))
    with pytest.raises(ValueError, match="is compressed; unpack it with gunzip"):
        ConlluParser(path)


def test_trees_of_other_words_than_the_corpus_has_are_refused(tmp_path: Path) -> None:
    """Words are looked up by number: the third is another one here and there."""
    path = tmp_path / "gold.conllu"
    path.write_text(ROWS, encoding="utf-8-sig")  # as Windows marks it
    parser = ConlluParser(path)
    text, own = "The lens is sharp.", ((0, 3), (4, 8), (9, 11), (12, 17), (17, 18))
    [parse] = parser.parse([UnlabelledText("1", "d", text, own)])
    assert parse.words.tolist() == [list(word) for word in own]
    message = "gold.conllu: '# text = The lens is sharp.': "
    with pytest.raises(ValueError, match=f"{message}'sharp.' is a word of the corpus and none of the file's; write"):
        list(parser.parse([UnlabelledText("1", "d", text, (*own[:3], (12, 18)))]))
    with pytest.raises(ValueError, match=f"{message}the corpus has 4 words of it, and the file 5; write"):
        list(parser.parse([UnlabelledText("1", "d", text, own[:4])]))


def test_texts_that_come_again_are_told_and_sentences_may_share_a_block(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "gold.conllu"
    path.write_text(ROWS * 2 + ROWS.replace("\t2\tdet", "\t4\tdet"), encoding="utf-8")
    [parse] = ConlluParser(path).parse(unlabelled(["The lens is sharp."]))
    assert parse.heads.tolist() == [1, 3, 3, 3, 3]
    assert caplog.messages == [f"{path}: 1 texts come again with another tree; the first of each is taken"]
    rows = ROWS.replace("\t4\tnsubj", "\t0\troot")  # The lens | is sharp.
    [(_, parse)] = read_conllu(rows, "x")
    assert parse.heads.tolist() == [1, 1, 3, 3, 3]


def test_a_run_on_gold_trees(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """parser=conllu end to end: what training reads are the file's trees."""
    path = tmp_path / "gold.conllu"
    overrides = [*corpora(tmp_path), "injection=gnn", "trainer.epochs=1", "parser=conllu", f"parser.path={path}"]
    rows = [*records("camera", 24), *records("laptop", 20, 5), *records("laptop", 12, 6), *records("laptop", 16, 7)]
    texts = [UnlabelledText(row["id"], row["domain"], row["text"]) for row in rows]
    chains = [p._replace(heads=np.maximum(np.arange(len(p.heads)) - 1, 0)) for p in SpacyParser().parse(texts)]
    path.write_text("".join(conllu(t.id, t.text, c) for t, c in zip(texts, chains, strict=True)), encoding="utf-8")
    metrics = domadapt.train([*overrides, f"paths.run={tmp_path}/run"])
    assert np.isfinite([value for point in metrics["curve"] for value in point["losses"].values()]).all()
    session, _ = build(compose("train", overrides))
    for example in (*session.source, *session.target):
        assert example.parse.heads.tolist() == [0, *range(len(example.words) - 1)]
    assert not any("labels no text" in record.getMessage() for record in caplog.records)
    build(compose("train", [*overrides, "injection=tree_bias"]))
    assert f"{path}: this model reads parses when it predicts, and so labels no text that is not" in caplog.text
    path.unlink()  # the network needs words alone, of any text
    model = domadapt.load(f"{tmp_path}/run")
    [example] = model.examples(list(unlabelled(["Something new here."])))
    assert example.words.tolist() == [[0, 9], [10, 13], [14, 18], [18, 19]] and len(model.predict([example.text])) == 1


SPANISH = "La comida estuvo muy sabrosa y el camarero nos trató con mucha amabilidad en la mesa {}."


@pytest.fixture
def spanish(tmp_path: Path) -> Path:
    """The shipped pipeline under another language's name: what its trees are worth is not asked here."""
    folder = tmp_path / "es"
    shutil.copytree(shipped() / "parser" / "model", folder)
    edit(folder / "meta.json", lambda meta: meta.update(lang="es"))
    config = (folder / "config.cfg").read_text("utf-8")
    (folder / "config.cfg").write_text(config.replace('lang = "en"', 'lang = "es"'), "utf-8")
    return folder


def named(name: str, tag: str) -> MadeParser:
    """Its parses have its name for a relation."""

    def parse_of(text: Text) -> Parse:
        return Parse(np.array([[0, len(name) + int(text.text)]]), np.array([0]), (name,), (tag,))

    return MadeParser(parse_of, name)


def test_each_text_goes_to_its_sides_parser_in_order() -> None:
    both = TwoParsers(named("english", "NNS"), named("es", "NOUN|Plur"), {"hotel"})
    domains = ["hotel", "hotel", "spa", "hotel", "input"]  # what is labelled later is of no side
    texts = [UnlabelledText("", domain, str(i)) for i, domain in enumerate(domains)]
    parses = list(both.parse(iter(texts)))
    assert [parse.relations[0] for parse in parses] == ["english", "english", "es", "english", "es"]
    assert [parse.words[0, 1] for parse in parses] == [7, 8, 4, 10, 6]
    assert [words[0, 1] for words in both.tokenize(iter(texts))] == [7, 8, 4, 10, 6]
    assert {parse.tags[0] for parse in parses} == {"NOUN|Plur"}  # Penn's are turned into universal ones
    assert both.name == "es"


def test_labelled_target_text_is_parsed_as_the_target_and_dev_as_the_source(spanish: Path) -> None:
    config = compose("train", [f"parser.target={spanish}"]).parser

    class Run:
        target, source_train = "spa", (Record("1", "hotel", "A"), Record("2", "spa", "B"))
        source_dev, source_test = (Record("3", "hotel+bar", "C"),), ()  # a file of its own, of several sources

    made = make_parser(config, Run)
    assert made.domains == {"hotel", "hotel+bar"} and made.source.name.split("/")[1].startswith("en_")
    assert made.name.split("/")[1].startswith("es_")
    assert isinstance(make_parser(compose("train").parser, Run), SpacyParser)  # one for both


@pytest.mark.parametrize(
    "text",
    [
        SPANISH,
        "Le service était rapide et les desserts sont très bons, mais un peu chers pour le quartier.",
        "Het eten was lekker en de bediening vriendelijk, alleen moesten wij lang op de kaart wachten.",
        GERMAN,
        "Maden var god, men det tog lang tid at få regningen, og bordet stod tæt på døren, så der var koldt.",
        "Очень милый и уютный ресторан со скромными ценами за огромные порции.",
    ],
)
def test_another_language_is_told_from_english(text: str) -> None:
    name = SpacyParser().name
    assert "parser.target=NAME" in (foreign_warning([text] * 20, name) or "")
    assert foreign_warning([text], name) is None  # too few words to say
    assert foreign_warning([text] * 20, name.replace("/en_", "/da_")) is None
    mix = [text, "The food was good and they have the best view of the city."]
    assert foreign_warning(mix * 20, name) is None


def test_the_cache_warns_once_whether_it_parses_or_not(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    texts = [UnlabelledText("", "", SPANISH.format(i)) for i in range(8)]
    for _ in range(2):
        cache = ParseCache(SpacyParser(), tmp_path)
        with caplog.at_level(logging.WARNING):
            list(cache.parse(texts))
            list(cache.parse(texts))
        assert sum("an English pipeline parses text" in message for message in caplog.messages) == 1
        caplog.clear()


def test_methods_that_read_foreign_trees_are_refused_and_run_with_a_pipeline(tmp_path: Path, spanish: Path) -> None:
    given = [o for o in corpora(tmp_path) if "test_path" not in o and "train_path" not in o]
    rows = [{"id": str(i), "text": SPANISH.format(i)} for i in range(12)]
    write_jsonl(tmp_path / "target.jsonl", rows)
    given += ["trainer.epochs=1", f"paths.runs={tmp_path}/runs", "trainer.device=cpu"]
    fix = r"reads trees of target, and an English pipeline .* parser.target=NAME.* backbone=multilingual"
    for method in ("injection=gnn", "injection=gnn_fusion", "adaptation=term_substitution", "adaptation=recipe"):
        with pytest.raises(ValueError, match=fix):
            domadapt.train([*given, "task=extraction", method])
    with pytest.raises(ValueError, match=fix):
        domadapt.train([*given, "task=extraction", "rule_baseline=path_rules"])
    assert not (tmp_path / "runs").exists()  # refused before anything is trained
    domadapt.train([*given, "task=extraction", "adaptation=self_training"])  # which reads none
    run = [*given, "task=extraction", "injection=gnn_fusion", f"parser.target={spanish}", f"paths.run={tmp_path}/run"]
    domadapt.train(run)
    description = read_description(tmp_path / "run" / "model")
    assert description.parser["name"] == str(spanish) and "/es_" in description.parser_name
    assert domadapt.predict(tmp_path / "run", ["La comida."])  # parsed by the target's
