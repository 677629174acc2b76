"""What a run promises besides its numbers: the same again, kept models, one line of what will not do."""

import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

import domadapt
from domadapt.models.bilstm import BiLSTM
from domadapt.runs.metrics import objective
from domadapt.syntax.conllu import conllu
from domadapt.syntax.parser import SpacyParser, one_thread_for_numpy
from domadapt.training.distributed import settings_of_torch
from tests.support import built, corpora, finished, read_jsonl, records, trained, write_jsonl


def test_a_finished_run_is_not_repeated_and_not_overwritten(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    first = trained(tmp_path, "run")
    (tmp_path / "run" / "predictions.jsonl").unlink()
    with caplog.at_level("INFO"):
        assert trained(tmp_path, "run") == first
    assert "to force it, move this folder, which may hold labels of yours" in caplog.text
    assert not (tmp_path / "run" / "predictions.jsonl").exists()
    with pytest.raises(ValueError, match="holds the results of another run"):
        trained(tmp_path, "run", "seed=2")
    with pytest.raises(ValueError, match="nowhere.csv: no such file"):  # whose name is likely to be mistyped
        domadapt.train([f"paths.run={tmp_path}/run"], source="nowhere.csv", target=tmp_path / "target.jsonl")


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_run_on_shipped_texts_leaves_a_model(tmp_path: Path, side: str) -> None:
    """Published corpora name a side by a word; own files, which other tests have, by settings of it."""
    small = ["backbone=tiny_random", "trainer.epochs=1", "trainer.min_steps=0", f"train_on={side}"]
    domadapt.train(["data=laptop_hotel", *small, f"paths.run={tmp_path}/run", f"paths.cache={tmp_path}/cache"])
    assert len(domadapt.load(tmp_path / "run", "cpu").predict(["The fan whines."])) == 1


def test_post_training_from_the_cache_changes_no_number(tmp_path: Path) -> None:
    """Cold with LISA, and warm from a run without it: one result."""
    methods = ["adaptation=masked_lm", "injection=lisa", "injection.lisa.layer=1"]
    cold = trained(tmp_path, "cold", *methods)
    for cached in (tmp_path / "cache").glob("masked-lm-*"):
        cached.unlink()
    trained(tmp_path, "plain", "adaptation=masked_lm")
    from_plain = trained(tmp_path, "from_plain", *methods)
    assert all(from_plain[name] == cold[name] for name in ("curve", "stages", "target_test"))


def test_the_test_may_be_the_unlabelled_text(tmp_path: Path) -> None:
    metrics = trained(tmp_path, "run", f"data.target.test_path={tmp_path}/target.jsonl", "task=classification")
    assert metrics["target_test_sizes"] == {"all": 20, "clean": 0}
    assert metrics["target_test_clean"] is None


def test_an_epoch_that_test_texts_have_chosen_has_no_clean_score(tmp_path: Path) -> None:
    metrics = trained(tmp_path, "run", f"data.source.dev_path={tmp_path}/test.jsonl", "task=classification")
    assert metrics["target_test_sizes"] == {"all": 12, "clean": 0}


def test_a_method_that_begins_after_the_last_epoch_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Labels are first made after an epoch, so that a run of one learns from none."""
    late = "adaptation.self_training.start_after=1.0"
    trained(tmp_path, "late", "adaptation=self_training", late, "trainer.epochs=1")
    told = "it begins after epoch 1, and there are 1 (trainer.epochs and trainer.extra_epochs together)"
    assert f"self_training: {told}, so it does nothing" in caplog.text
    caplog.clear()
    trained(tmp_path, "in_time", "adaptation=self_training", "trainer.epochs=2")
    assert "it begins after" not in caplog.text


def test_a_log_says_after_a_minute_how_long_training_takes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("domadapt.training.epochs.FIRST_LINE", 0.0)
    with caplog.at_level("INFO"):
        trained(tmp_path, "run", "trainer.epochs=2")
    told = [record.getMessage() for record in caplog.records if record.name == "domadapt.epochs"]
    steps = r"step 1 of \d+, about \d+:\d\d left"
    for line, expected in zip(told, (steps, "epoch 1 of 2: loss .* left", "epoch 2 of 2: .*, done"), strict=True):
        assert re.fullmatch(expected, line)


def test_records_without_a_label_are_counted(tmp_path: Path) -> None:
    overrides, rows = corpora(tmp_path), records("camera", 24)
    for row in rows[::4]:
        row.pop("label")
    write_jsonl(tmp_path / "source.jsonl", rows)
    warnings = domadapt.train([*overrides, "task=classification", f"paths.run={tmp_path}/run"])["counts"]["warnings"]
    assert [n for message, n in warnings.items() if message.startswith("record without a label, left out")] == [6]


RULES, TWO = "rule_baseline=path_rules", "trainer.devices=2 trainer.device=cpu"


class Mine(BiLSTM):
    """A stranger's backbone that takes no methods."""


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("trainer.epochs=abc", "trainer.epochs='abc': expected a whole number from 1"),
        ("trainer.gradient_clip=0", "trainer.gradient_clip=0: expected a number from"),
        ("trainer.warmup=2", "trainer.warmup=2: expected a number from 0 to 1"),
        ("trainer.threads=-1", "trainer.threads=-1: expected a whole number from 0 to 1024"),
        ("trainer.threads=100000", "trainer.threads=100000: expected a whole number from 0 to 1024"),
        ("parser.batch_size=abc", "parser.batch_size='abc': expected a whole number from 1"),
        ("paths.cache=null", "paths.cache=null: expected a folder"),
        ("trainer.device=foo", "device='foo': expected auto or cpu"),
        ("trainer.precision=16", "precision='16': expected auto, 32 or bf16-mixed"),
        ("max_length=600", "max_length=600: expected 3 to 512"),
        ("max_length=2", "max_length=2: expected a whole number from 3"),
        ("seed=-1", "seed=-1: expected a whole number"),
        ("train_on=both", "train_on='both': expected source, or target"),
        ("task=extraction task.types=aspect", "task.types='aspect': expected a list"),
        ("data.source.text=[a,b]", r"text=\['a', 'b'\]: expected one column; .* source.text_pair="),
        ("data.dev_share=x", "data.dev_share='x': expected a share between 0 and 1"),
        ("data.dev_share=2", "data.dev_share=2: expected a share between 0 and 1"),
        ("injection=gnn injection.gnn.width=10", "gnn.width=10: expected a whole multiple of 4"),
        ("injection=gnn injection.gnn.temperature=0", "gnn.temperature=0"),
        ("injection=lisa injection.lisa.layer=a", "lisa.layer='a': expected a whole number from 0"),
        ("injection=lisa injection.lisa.weight=x", "weight of lisa/head='x'"),
        ("adaptation=masked_lm adaptation.masked_lm.batch_size=0", "masked_lm.batch_size=0"),
        ("adaptation=masked_lm adaptation.masked_lm.learning_rate=-1", "masked_lm.learning_rate=-1: expected a number"),
        ("adaptation=masked_lm adaptation.masked_lm.use_source=x", "use_source='x': expected true or false"),
        ("adaptation=masked_lm adaptation.masked_lm.masked=0", "masked_lm.masked=0"),
        ("trainer.devices=0", "trainer.devices=0: expected a whole number from 1"),
        ("trainer.devices=1.5", "trainer.devices=1.5: expected a whole number from 1"),
        (f"{TWO} trainer.strategy=ddp", "trainer.strategy=ddp: starts the command line again in every process"),
        ("target_labels=15", "target_labels=15: there are 14 labelled training records of 'target'; expected"),
        ("target_labels=-1", "target_labels=-1: expected a whole number from 0, or all"),
        ("target_labels=few", "target_labels='few': expected a whole number from 0, or all"),
        ("target_labels=1 target_label_share=1.0", "target_label_share=1.0: expected a number"),
        ("target_labels=1 data.target.train_path=null", "there is no labelled training data for 'target'; give"),
        ("target_labels=1 train_on=target", "train_on=target trains on all of them; leave one out"),
        (
            "control=linear adaptation=masked_lm",
            "control=linear: no method of this run reads parses, so there is nothing",
        ),
        ("selection=oracle data.target.test_path=null", "selection=oracle: there are no target labels to choose by"),
        ("backbone=rnn_from_scratch injection=gnn", "rnn_from_scratch takes no injection and no adaptation"),
        ("backbone=rnn_from_scratch adaptation=recipe", "rnn_from_scratch takes no injection and no adaptation"),
        (
            "backbone._target_=tests.test_training.Mine backbone=rnn_from_scratch injection=gnn",
            "Mine: takes no injection",
        ),
        (f"{RULES} injection=gnn", rf"^{RULES}: rules in place of a network[^\n]*leave out injection=gnn$"),
        (f"{RULES} train_on=target", r"leave out train_on=target$"),
        (f"{RULES} task=classification", rf"^{RULES}: extracts spans, and here texts are classified; leave it out$"),
        (f"{RULES} rule_baseline.path_rules.rules=0", r"path_rules.rules=0: expected a whole number from 1$"),
        (f"{RULES} +rule_baseline.second={{}}", r"^rule_baseline=\['path_rules', 'second'\]: expected one; run them"),
    ],
)
def test_settings_out_of_range_are_told_in_one_line(tmp_path: Path, setting: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        trained(tmp_path, "run", *setting.split())
    assert "\n" not in str(caught.value)
    assert not [*(tmp_path / "run").rglob("checkpoint")]  # told before training


@pytest.mark.parametrize(
    ("texts", "told"), [("The lens", "expected a list of texts"), (["The lens", " \n"], "text 2 is blank; expected a")]
)
def test_what_is_no_list_of_texts_is_refused(texts: str | list[str], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        domadapt.predict(finished("classification") / "model", texts)
    for call in (domadapt.train, domadapt.benchmark, domadapt.audit):
        with pytest.raises(ValueError, match=r"expected a list of settings, such as \['seed=1'\]"):
            call("seed=1")


def test_a_batch_has_a_text_or_more() -> None:
    with pytest.raises(ValueError, match="batch_size=0: expected a whole number from 1"):
        domadapt.load(finished("classification")).predict(["The lens"], batch_size=0)
    assert len(domadapt.load(finished("classification")).predict(["The lens"], np.int64(1), np.float64(0.5))) == 1


def test_an_audit_takes_paths_and_tells_which_is_missing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="labelled.csv: no such file"):
        domadapt.audit([tmp_path / "labelled.csv", tmp_path / "new.txt"])


def test_the_oracle_is_a_bound_and_nothing_to_search_by(tmp_path: Path) -> None:
    metrics = trained(tmp_path, "oracle", "selection=oracle")
    assert metrics["method"] == "source_only+oracle_selection"
    assert metrics["selection"]["validator"] == "oracle" and metrics["selection"]["gap"] == 0.0
    best = max(metrics["selection"]["choices"].values(), key=lambda choice: choice["target_test"]["span_f1"])
    assert metrics["target_test"]["span_f1"] == best["target_test"]["span_f1"]
    assert objective(metrics) is None
    written = read_jsonl(tmp_path / "oracle" / "predictions.jsonl")  # as sure as the saved model, whichever epoch it is
    said = domadapt.load(tmp_path / "oracle", "cpu", "32").predict([row["text"] for row in written])
    assert [row["confidence"] for row in written] == pytest.approx([one.confidence for one in said], abs=2e-4)


def test_new_text_every_epoch_needs_a_parser_that_takes_it(tmp_path: Path) -> None:
    (tmp_path / "parses.conllu").write_text("", encoding="utf-8")
    parser = ["parser=conllu", f"parser.path={tmp_path}/parses.conllu", "adaptation=term_substitution"]
    with pytest.raises(ValueError, match="term_substitution: writes new text every epoch, and conllu/.* knows only"):
        domadapt.train([*corpora(tmp_path), *parser, f"paths.cache={tmp_path}/cache"])
    session = built(tmp_path, "task=classification")
    texts = [*session.domains.source_train, *session.domains.source_dev, *session.domains.unlabelled.texts]
    parses = zip(texts, SpacyParser().parse(texts), strict=True)
    (tmp_path / "parses.conllu").write_text("".join(conllu(t.id, t.text, p) for t, p in parses), encoding="utf-8")
    nothing = ["adaptation.term_substitution.whole_texts=false", "injection=gnn", "task=classification"]
    assert not built(tmp_path, *parser, *nothing).augments


def test_two_threads_that_train_at_once_draw_no_random_numbers_of_each_other(tmp_path: Path) -> None:
    def run(name: str) -> bytes:
        trained(tmp_path, name, "trainer.threads=1")
        return (tmp_path / name / "model" / "encoder" / "model.safetensors").read_bytes()

    with ThreadPoolExecutor(2) as both:
        assert len({*both.map(run, ["one", "other"]), run("alone")}) == 1


def test_a_run_leaves_torch_and_the_threads_of_blas_as_they_were(tmp_path: Path) -> None:
    def now() -> list[object]:
        threads = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
        random = torch.get_rng_state().sum().item(), {"CUBLAS_WORKSPACE_CONFIG", "PL_GLOBAL_SEED"} & {*os.environ}
        return [random, torch.get_num_threads(), torch.are_deterministic_algorithms_enabled(), *threads]

    with threadpool_limits(2, "blas"):
        before = now()
        with settings_of_torch():
            one_thread_for_numpy()
        assert now() == before
    before = now()
    trained(tmp_path, "run", "trainer.epochs=1", "trainer.threads=1")
    assert now()[:3] == before[:3]
