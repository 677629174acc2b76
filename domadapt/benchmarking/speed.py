"""Speed as ratios, measured in alternation in one process: `make bench`.

Every pair of things to compare runs in turns, so that a noisy machine disturbs both alike; what is printed is the
median of the paired ratios, with the smallest and the largest.
"""

import json
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from domadapt.api import compose
from domadapt.data.batches import BucketSampler, Step
from domadapt.data.domains import UnlabelledText
from domadapt.method import Method
from domadapt.module import Adapter
from domadapt.prediction import load
from domadapt.progress import progress
from domadapt.setup import Setting, build
from domadapt.syntax.cache import ParseCache
from domadapt.syntax.parser import SpacyParser, load_pipeline
from domadapt.training import train

ROUNDS = 5


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
    ratios = [seconds(slow) / seconds(fast) for _ in range(rounds)]
    return {"median": statistics.median(ratios), "min": min(ratios), "max": max(ratios)}


def training_against_trainer(folder: Path) -> dict[str, Any]:
    """Sentences per second of our loop over those of transformers' Trainer with its defaults, and both F1 scores."""
    ours, theirs = [], []
    scores: dict[str, float] = {}
    for round_number in range(3):
        cfg = compose(
            "train", ["experiment=camera_laptop", f"paths.run={folder}/run{round_number}", "trainer.epochs=8"]
        )
        metrics = train(cfg)
        count = metrics["counts"]["source_train"] * 8
        ours.append(count / metrics["seconds"]["fit"])
        scores["ours"] = metrics["source_dev"]["span_f1"]
        rate, scores["trainer"] = trainer_run(cfg, folder / f"trainer{round_number}")
        theirs.append(rate)
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    return {
        "median": statistics.median(ratios),
        "min": min(ratios),
        "max": max(ratios),
        "sentences_per_second": {"ours": statistics.median(ours), "trainer": statistics.median(theirs)},
        "source_dev_span_f1": scores,
    }


def trainer_run(cfg: Any, folder: Path) -> tuple[float, float]:
    """Train the same model on the same examples with transformers' Trainer; its rate and source dev F1.

    Its defaults stand (batches of 8, learning rate 5e-5), but for the number of epochs, which is ours, and an
    evaluation after each epoch, which our time holds, too.
    """
    import transformers

    setting, _ = build(cfg)
    label_of = [_piece_labels(e) for e in [*setting.source, *setting.dev]]
    rows = [
        {"input_ids": e.input_ids, "attention_mask": [1] * len(e.input_ids), "labels": labels}
        for e, labels in zip([*setting.source, *setting.dev], label_of, strict=True)
    ]
    training, dev = rows[: len(setting.source)], rows[len(setting.source) :]
    trainer = transformers.Trainer(
        model=setting.encoder.model,
        args=transformers.TrainingArguments(
            output_dir=str(folder),
            num_train_epochs=cfg.trainer.epochs,
            eval_strategy="epoch",
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            seed=cfg.seed,
        ),
        train_dataset=training,
        eval_dataset=dev,
        data_collator=transformers.DataCollatorForTokenClassification(setting.encoder.tokenizer),
    )
    elapsed = seconds(trainer.train)
    from domadapt.training import source_dev_scores

    setting.encoder.to(setting.device)
    score = source_dev_scores(setting, 64)["span_f1"]
    return len(training) * cfg.trainer.epochs / elapsed, score


def _piece_labels(example: Any) -> list[int]:
    labels = [-100] * len(example.input_ids)
    for word, piece in enumerate(example.alignment.word_first_pieces().tolist()):
        if piece >= 0:
            labels[piece] = int(example.word_tags[word])
    return labels


def injection_cost(folder: Path, injection: str) -> dict[str, float]:
    """Time of a training step with an injection over one without, on the same labelled batches."""
    overrides = ["experiment=camera_laptop", f"paths.cache={folder}/cache", f"injection={injection}"]
    setting, _ = build(compose("train", overrides))
    steps = step_batches(setting)
    with_injection = stepper(setting, setting.methods, steps)
    plain, _ = build(compose("train", overrides))
    for module in plain.encoder.attention_layers():
        object.__setattr__(module, "domadapt_hook", None)
    return paired(with_injection, stepper(plain, {}, steps))


def step_batches(setting: Setting) -> list[Step]:
    """Ten labelled batches of 32, with parses."""
    sampler = BucketSampler([len(e.input_ids) for e in setting.source], 32, 0)
    return [Step(setting.collator([setting.source[i] for i in indices])) for indices in sampler][:10]


def stepper(setting: Setting, methods: dict[str, Method], steps: Sequence[Step]) -> Callable[[], None]:
    """A function that takes one optimizer step on each batch."""
    setting.methods = methods
    module = Adapter(setting, 2e-4, 0.01, 0.1, 1.0, 1000).train()
    optimizer = module.configure_optimizers()["optimizer"]

    def run() -> None:
        for step in steps:
            with setting.autocast():
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


def prediction(folder: Path, texts: Sequence[UnlabelledText]) -> dict[str, Any]:
    """`Model.predict` against the transformers pipeline on the stock folder it leaves behind."""
    import transformers

    metrics_folder = folder / "run0"
    model = load(metrics_folder / "model")
    stock = transformers.pipeline(
        "token-classification", model=str(metrics_folder / "model" / "encoder"), aggregation_strategy="first"
    )
    contents = [t.text for t in texts]
    ours = model.predict(contents)
    theirs = stock(contents)
    same = sum(
        {(s.start, s.end, s.type) for s in mine.spans} == {(*_range(g), str(g["entity_group"])) for g in groups}
        for mine, groups in zip(ours, theirs, strict=True)
    )
    return {
        **paired(lambda: stock(contents), lambda: model.predict(contents), 3),
        "same spans": same / len(contents),
    }


def _range(group: Any) -> tuple[int, int]:
    return int(group["start"]), int(group["end"])


def main() -> None:
    """Measure everything and print one JSON object."""
    cfg = compose("train", ["experiment=camera_laptop"])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        setting, _ = build(cfg)
        contents = [r.text for r in setting.domains.source_train] + [t.text for t in setting.domains.unlabeled.texts]
        texts = [UnlabelledText(str(i), "", content) for i, content in enumerate(contents)]
        parts: dict[str, Callable[[], Any]] = {
            "training over transformers.Trainer (at least 1.5)": lambda: training_against_trainer(folder),
            "lisa step over plain step (at most 1.15)": lambda: injection_cost(folder, "lisa"),
            "gnn step over plain step (at most 1.30)": lambda: injection_cost(folder, "gnn"),
            "parsing (cold at least 0.95, warm at least 100)": lambda: parsing(folder, texts),
            "prediction over transformers.pipeline (at least 2)": lambda: prediction(folder, texts[:300]),
        }
        for title, measure in progress(parts.items(), "bench", len(parts), "part"):
            print(json.dumps({title: measure()}, indent=1), flush=True)


if __name__ == "__main__":
    main()
