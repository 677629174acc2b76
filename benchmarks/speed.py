"""Speed as ratios, measured in alternation in one process: `make bench`.

Every pair of things to compare runs in turns, so that a noisy machine disturbs both alike; what is printed is the
median of the paired ratios, with the smallest and the largest.
"""

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.collect import commit, read, write
from domadapt.config.compose import compose
from domadapt.data.batches import BucketSampler, StepBatches
from domadapt.data.domains import UnlabelledText
from domadapt.inference.model import load
from domadapt.methods.method import Method
from domadapt.methods.session import Session
from domadapt.models.attention import ByteDropout
from domadapt.runs.key import processor
from domadapt.syntax.cache import ParseCache
from domadapt.syntax.parser import SpacyParser, load_pipeline
from domadapt.training.build import build, run_config
from domadapt.training.cell import train
from domadapt.training.module import AdaptationModule
from domadapt.training.options import read_options
from domadapt.utils.work import progress

ROUNDS = 5
RESULTS = Path(__file__).parents[1] / "results" / "speed.csv"
LOOP = ("fit", "score", "checkpoint")  # stages of a cell that its loop over epochs is made of


def seconds(action: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def paired(slow: Callable[[], object], fast: Callable[[], object], rounds: int = ROUNDS) -> dict[str, float]:
    """Ratios slow / fast of calls in alternation, after one warm-up of each.

    >>> result = paired(lambda: sum(range(200_000)), lambda: sum(range(100)), rounds=3)
    >>> result["median"] > 1
    True
    """
    slow(), fast()
    return spread([seconds(slow) / seconds(fast) for _ in range(rounds)])


def spread(ratios: Sequence[float]) -> dict[str, float]:
    return {"median": statistics.median(ratios), "min": min(ratios), "max": max(ratios)}


def training_against_trainer(folder: Path, batch_size: int) -> dict[str, Any]:
    """Sentences per second of our loop over those of transformers' Trainer, scoring and checkpoints included.

    Both train the same model on the same examples in the same precision (3 epochs, rate 5e-5 without warm-up), so
    that they reach the same F1: what differs is how, not what, they compute.
    """
    ours, theirs, stages = [], [], list[dict[str, float]]()
    scores: dict[str, list[float]] = {"ours": [], "trainer": []}
    same = ["trainer.epochs=3", f"trainer.batch_size={batch_size}", "trainer.learning_rate=5e-5", "trainer.warmup=0.0"]
    for seed in range(ROUNDS):
        run = folder / f"batch{batch_size}-run{seed}"
        cfg = compose("train", ["experiment=hotel_laptop", *same, f"seed={seed}", f"paths.run={run}"])
        metrics = train(run_config(cfg))
        took = sum(metrics["seconds"].get(stage, 0.0) for stage in LOOP)
        ours.append(metrics["counts"]["source_train"] * cfg.trainer.epochs / took)
        stages.append(metrics["seconds"])
        scores["ours"].append(metrics["source_dev"]["span_f1"])
        rate, score = trainer_run(cfg, folder / f"trainer{batch_size}-{seed}")
        theirs.append(rate)
        scores["trainer"].append(score)
    return {
        **spread([a / b for a, b in zip(ours, theirs, strict=True)]),
        "sentences per second": {"ours": statistics.median(ours), "trainer": statistics.median(theirs)},
        "where a cell's seconds go": {
            name: round(statistics.median(found.get(name, 0.0) for found in stages), 1) for name in stages[0]
        },
        "mean source dev span F1": {name: statistics.mean(values) for name, values in scores.items()},
    }


def float32_over_bfloat16(folder: Path) -> dict[str, float]:
    """Time of a training step in float32, over that of the same step in bfloat16."""

    def steps(precision: str) -> Callable[[], None]:
        given = ["experiment=hotel_laptop", f"paths.cache={folder}/cache", f"trainer.precision={precision}"]
        session, _ = build(compose("train", given))
        return stepper(session, {}, step_batches(session))

    return paired(steps("32"), steps("bf16-mixed"))


def trainer_run(cfg: Any, folder: Path) -> tuple[float, float]:
    """Train with transformers' Trainer; its sentences per second and source dev F1."""
    import transformers

    torch.manual_seed(cfg.seed)
    session, _ = build(cfg)
    stock_dropout(session.encoder.model)
    rows = [
        {"input_ids": e.input_ids, "attention_mask": [1] * len(e.input_ids), "labels": _piece_labels(e)}
        for e in [*session.source, *session.dev]
    ]
    training, dev = rows[: len(session.source)], rows[len(session.source) :]
    trainer = transformers.Trainer(
        model=session.encoder.model,
        args=transformers.TrainingArguments(
            output_dir=str(folder),
            per_device_train_batch_size=cfg.trainer.batch_size,
            per_device_eval_batch_size=cfg.trainer.evaluation_batch_size,
            num_train_epochs=cfg.trainer.epochs,
            bf16=session.precision == "bf16-mixed",
            use_cpu=session.device.type == "cpu",
            eval_strategy="epoch",
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            log_level="error",
            logging_strategy="no",
            seed=cfg.seed,
        ),
        train_dataset=training,
        eval_dataset=dev,
        data_collator=transformers.DataCollatorForTokenClassification(session.encoder.tokenizer),
    )
    trainer.pop_callback(transformers.PrinterCallback)
    elapsed = seconds(trainer.train)
    predictions = session.evaluate(session.dev, 64, "source dev").predictions
    score = session.task.score(session.domains.source_dev, predictions)["span_f1"]
    return len(training) * trainer.args.num_train_epochs / elapsed, score


def stock_dropout(model: torch.nn.Module) -> None:
    """Dropout and attention as transformers has them, for a comparison with it."""
    for module in model.modules():
        if type(module) is ByteDropout:
            module.__class__ = torch.nn.Dropout
    model.set_attn_implementation("sdpa")  # type: ignore[operator]


def write_row(title: str, found: dict[str, Any], made: dict[str, str]) -> None:
    """The row of one measurement on this processor in results/speed.csv, in place of an earlier one."""
    same = ("measured", "processor", "threads", "precision")
    new = {"measured": title, **{k: f"{found[k]:.2f}" for k in ("median", "min", "max")}, "rounds": str(ROUNDS), **made}
    write(RESULTS, [*(row for row in read(RESULTS) if any(row[name] != new[name] for name in same)), new], new)


def _piece_labels(example: Any) -> list[int]:
    labels = [-100] * len(example.input_ids)
    for word, piece in enumerate(example.alignment.word_first_pieces().tolist()):
        if piece >= 0:
            labels[piece] = int(example.word_tags[word])
    return labels


def injection_cost(folder: Path, injection: str) -> dict[str, float]:
    """Time of a training step with an injection over one without, on the same labelled batches."""
    overrides = ["experiment=hotel_laptop", f"paths.cache={folder}/cache", f"injection={injection}"]
    session, _ = build(compose("train", overrides))
    steps = step_batches(session)
    with_injection = stepper(session, session.methods, steps)
    plain, _ = build(compose("train", overrides[:2]))
    return paired(with_injection, stepper(plain, {}, steps))


def step_batches(session: Session) -> list[StepBatches]:
    """Ten labelled batches of 32, with parses."""
    sampler = BucketSampler([len(e.input_ids) for e in session.source], 32, 0)
    return [StepBatches(session.collator([session.source[i] for i in indices])) for indices in sampler][:10]


def stepper(session: Session, methods: dict[str, Method], steps: Sequence[StepBatches]) -> Callable[[], None]:
    """A function that takes one optimizer step on each batch."""
    session.methods = methods
    module = AdaptationModule(session, read_options(compose("train")), 1000).train()
    optimizer = module.configure_optimizers()["optimizer"]

    def run() -> None:
        for step in steps:
            with session.autocast():
                loss = module.training_step(step, 0)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
            optimizer.step()

    return run


def parsing(folder: Path, texts: Sequence[UnlabelledText]) -> dict[str, Any]:
    """Cold cached parsing against raw `nlp.pipe`, and a warm cache against parsing."""
    nlp = load_pipeline("shipped")
    parser = SpacyParser()
    caches = iter(range(1000))

    def raw() -> None:
        for _ in nlp.pipe((t.text for t in texts), batch_size=256):
            pass

    def cold() -> None:
        list(ParseCache(parser, folder / f"cold{next(caches)}").parse(texts))

    warm_cache = ParseCache(parser, folder / "warm")
    list(warm_cache.parse(texts))
    return {
        "cold speed over nlp.pipe": paired(raw, cold),
        "warm cache over parsing": paired(cold, lambda: list(warm_cache.parse(texts))),
    }


def finished_run(folder: Path) -> Path:
    """A run on hotel → laptop, so that spans are found."""
    train(run_config(compose("train", ["experiment=hotel_laptop", f"paths.run={folder}/run"])))
    return folder / "run"


def prediction(run: Path, texts: Sequence[UnlabelledText]) -> dict[str, Any]:
    """`Model.predict` against the transformers pipeline on the stock folder it leaves behind."""
    import transformers

    model = load(run / "model")
    stock = transformers.pipeline(
        "token-classification", model=str(run / "model" / "encoder"), aggregation_strategy="first"
    )
    contents = [t.text for t in texts]
    ours = model.predict(contents)
    theirs = stock(contents)
    same = sum(
        {(s.start, s.end, s.type) for s in mine.spans} == {(g["start"], g["end"], g["entity_group"]) for g in groups}
        for mine, groups in zip(ours, theirs, strict=True)
    )
    return {
        **paired(lambda: stock(contents), lambda: model.predict(contents), 3),
        "same spans": same / len(contents),
    }


def report_of_cells(folder: Path) -> dict[str, float]:
    """Seconds and megabytes of a report of 1,000 cells: many pairs, and many methods."""
    from benchmarks.synthetic import synthetic_runs
    from domadapt.reporting.report import FORMATS, report

    found = {}
    for pairs, methods in ((37, 9), (6, 56)):
        runs = folder / f"runs{pairs}"
        cells = synthetic_runs(runs, pairs, methods, 3)
        output = folder / f"report{pairs}.html"
        title = f"{cells} cells, {pairs} pairs, {methods} methods"
        found[f"{title}: seconds"] = seconds(lambda runs=runs, output=output: report(runs, output, FORMATS))  # type: ignore[misc]
        found[f"{title}: megabytes"] = output.stat().st_size / 1e6
    return found


def main() -> None:
    """Measure everything, or the parts whose first word is given, and print each as a JSON object."""
    cfg = compose("train", ["experiment=hotel_laptop"])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        session, _ = build(cfg)
        contents = [r.text for r in session.domains.source_train] + [t.text for t in session.domains.unlabelled.texts]
        texts = [UnlabelledText(str(i), "", content) for i, content in enumerate(contents)]
        parts: dict[str, Callable[[], Any]] = {
            "training, batches of 8, over transformers.Trainer": lambda: training_against_trainer(folder, 8),
            "training, batches of 32, over transformers.Trainer": lambda: training_against_trainer(folder, 32),
            "seconds of a training step in float32, over bfloat16": lambda: float32_over_bfloat16(folder),
            "lisa step over plain step (at most 1.15)": lambda: injection_cost(folder, "lisa"),
            "gnn step over plain step (at most 1.30)": lambda: injection_cost(folder, "gnn"),
            "parsing (cold at least 0.95, warm at least 100)": lambda: parsing(folder, texts),
            "prediction over transformers.pipeline (at least 2)": lambda: prediction(finished_run(folder), texts[:300]),
            "report of 1,000 cells (at most 60 s, 3 MB)": lambda: report_of_cells(folder),
        }
        threads = str(torch.get_num_threads())
        made = {"processor": processor(), "threads": threads, "precision": session.precision, "commit": commit()}
        print(f"on {processor()}, {threads} threads, {session.precision}", flush=True)
        given = sys.argv[1:] or [title.split()[0].strip(",") for title in parts]
        wanted = {title: part for title, part in parts.items() if title.split()[0].strip(",") in given}
        if not wanted:
            sys.exit(f"none of {given} begins a title; the titles are:\n" + "\n".join(parts))
        for title, measure in progress(wanted.items(), "bench", len(wanted), "part"):
            found = measure()
            print(json.dumps({title: found}, indent=1), flush=True)
            if "median" in found:
                write_row(title.partition(" (")[0], found, made)


if __name__ == "__main__":
    main()
