"""The shipped parser, its scores and its card, and the treebank's conversion."""

import json
from pathlib import Path

import pytest
import spacy
from spacy.tokens import DocBin

from domadapt.data.domains import unlabelled
from domadapt.syntax.nouns import NounPhrase, noun_phrases
from domadapt.syntax.parser import SpacyParser, from_doc
from domadapt.syntax.treebank import HOME, convert, evaluate, find, train

TREES = """# newdoc id = reviews-1
# sent_id = reviews-1-0001
# text = The lens isn't sharp.
1	The	the	DET	DT	_	2	det	_	_
2	lens	lens	NOUN	NN	_	5	nsubj	_	_
3-4	isn't	_	_	_	_	_	_	_	_
3	is	be	AUX	VBZ	_	5	cop	_	_
4	n't	not	PART	RB	_	5	advmod	_	_
5	sharp	sharp	ADJ	JJ	_	0	root	_	SpaceAfter=No
6	.	.	PUNCT	.	_	5	punct	_	_

# sent_id = reviews-1-0002
# text = I returned it.
1	I	I	PRON	PRP	_	2	nsubj	_	_
2	returned	return	VERB	VBD	_	0	root	_	_
2.1	today	today	ADV	RB	_	_	_	2:advmod	_
3	it	it	PRON	PRP	_	2	obj	_	SpaceAfter=No
4	.	.	PUNCT	.	_	2	punct	_	_

# newdoc id = email-2
# sent_id = email-2-0001
# text = Thanks
1	Thanks	thanks	NOUN	NN	_	0	root	_	_

"""


def trees(folder: Path, name: str = "en_ewt-ud-dev.conllu") -> Path:
    path = folder / name
    path.write_text(TREES, encoding="utf-8")
    return path


def test_convert_keeps_words_trees_and_texts(tmp_path: Path) -> None:
    convert(trees(tmp_path), tmp_path / "new" / "dev.spacy", spaces=True)
    nlp = spacy.blank("en")
    first, second = DocBin().from_disk(tmp_path / "new" / "dev.spacy").get_docs(nlp.vocab)
    assert first.text == "The lens isn't sharp. I returned it. "
    assert [sent.text for sent in first.sents] == ["The lens isn't sharp.", "I returned it."]
    assert [(t.text, t.tag_, t.pos_, t.dep_, t.head.text) for t in first][2:5] == [
        ("is", "VBZ", "AUX", "cop", "sharp"),
        ("n't", "RB", "PART", "advmod", "sharp"),
        ("sharp", "JJ", "ADJ", "ROOT", "sharp"),
    ]
    assert first[7].head.i == first[7].i == 7  # the second sentence's root is counted from its own start
    assert (second.text, second.user_data["genre"]) == ("Thanks ", "email")


def test_gold_tokens_are_kept_for_training(tmp_path: Path) -> None:
    convert(trees(tmp_path), tmp_path / "dev.spacy")
    docs = list(DocBin().from_disk(tmp_path / "dev.spacy").get_docs(spacy.blank("en").vocab))
    assert all(doc.has_unknown_spaces for doc in docs)


FRENCH = """# text = Les prix du vin.
1	Les	le	DET	_	Number=Plur	2	det	_	_
2	prix	prix	NOUN	_	Gender=Masc|Number=Plur	0	root	_	_
3-4	du	_	_	_	_	_	_	_	_
3	de	de	ADP	_	_	5	case	_	_
4	le	le	DET	_	Number=Sing	5	det	_	_
5	vin	vin	NOUN	_	Number=Sing	2	nmod	_	SpaceAfter=No
6	.	.	PUNCT	_	_	2	punct	_	_

"""


def test_another_language_has_universal_tags_and_whole_contractions(tmp_path: Path) -> None:
    (tmp_path / "train.conllu").write_text(FRENCH, encoding="utf-8")
    convert(find(tmp_path, "train"), tmp_path / "train.spacy", spaces=True, language="fr")
    [doc] = DocBin().from_disk(tmp_path / "train.spacy").get_docs(spacy.blank("fr").vocab)
    assert [token.text for token in spacy.blank("fr")(doc.text)] == [token.text for token in doc]  # as it will be read
    assert [(t.text, t.tag_, t.dep_, t.head.text) for t in doc][2:4] == [
        ("du", "ADP", "case", "vin"),
        ("vin", "NOUN", "nmod", "prix"),
    ]
    parse = from_doc(doc)
    assert parse.tags == ("DET", "NOUN|Plur", "ADP", "NOUN", "PUNCT")
    assert list(noun_phrases(parse, doc.text)) == [NounPhrase(1, 2, True), NounPhrase(3, 4, False)]


def test_a_pipeline_of_another_language_is_trained_and_taken(tmp_path: Path) -> None:
    for split in ("train", "dev", "test"):
        (tmp_path / f"{split}.conllu").write_text(FRENCH * 10, encoding="utf-8")
    train(tmp_path, tmp_path / "out", language="fr", steps=2)
    parser = SpacyParser(str(tmp_path / "out" / "model"))
    assert "/fr_domadapt-" in parser.name
    [parse] = parser.parse(unlabelled(["Les prix du vin."]))
    assert len(parse.tags) == 5 and {tag.partition("|")[0] for tag in parse.tags} <= {"DET", "NOUN", "ADP", "PUNCT"}
    assert f"Trained on {tmp_path.name}; its licence holds" in (tmp_path / "out" / "CARD.md").read_text()


def test_missing_treebank_names_the_setting_and_the_source(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"--treebank .*ud-train.*github.com/UniversalDependencies"):
        find(tmp_path, "train")


def test_shipped_model_parses_several_sentences() -> None:
    nlp = spacy.load(HOME / "model")
    assert nlp.meta["name"] == "domadapt_ewt"
    assert nlp.meta["license"] == "CC BY-SA 4.0"
    doc = nlp("The battery lasts two days. I would buy it again.")
    assert [sent.root.text for sent in doc.sents] == ["lasts", "buy"]
    subject = doc[1]
    assert (subject.dep_, subject.head.text, subject.tag_, subject.pos_) == ("nsubj", "lasts", "NN", "NOUN")


def test_model_is_small_and_holds_no_words_of_the_treebank() -> None:
    files = [path for path in (HOME / "model").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= 12e6
    assert len(json.loads((HOME / "model" / "vocab" / "strings.json").read_text())) < 300


def test_card_says_what_scores_say() -> None:
    scores = json.loads((HOME / "scores.json").read_text())
    card = (HOME / "CARD.md").read_text()
    for part, kinds in scores["scores"].items():
        for kind, values in kinds.items():
            assert f"| {part} | {kind} | {values['uas']} | {values['las']} |" in card
    assert f"{scores['size_mb']} MB" in card
    assert scores["scores"]["test"]["gold"]["las"] > 80


def test_evaluate_scores_both_tokenisations(tmp_path: Path) -> None:
    for split in ("dev", "test"):
        trees(tmp_path, f"en_ewt-ud-{split}.conllu")
    scores = evaluate(HOME / "model", tmp_path)["scores"]
    assert set(scores) == {"dev", "test"}
    gold = scores["test"]["gold"]
    assert gold["uas"] >= gold["las"] > 50
    assert gold["token_f"] == 100
