"""What each injection costs in training and in prediction, over none: `python -m benchmarks.costs`.

A step is one of the optimizer's on 32 labelled sentences, and on as many of the target where the method reads them; a
prediction begins at raw text, parses included where the method reads them. Both in alternation with a plain model's.
"""

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch

from benchmarks.speed import paired, stepper
from domadapt.config.compose import compose
from domadapt.data.batches import StepBatches
from domadapt.data.domains import UnlabelledText
from domadapt.methods.session import Session
from domadapt.runs.key import processor
from domadapt.training.build import build, run_config
from domadapt.training.cell import train
from domadapt.utils.work import progress

INJECTIONS = Path(__file__).parents[1] / "conf" / "injection"
ROUNDS, STEPS, BATCH, TEXTS = 5, 6, 32, 400


def cost(injection: str, encoder: Path, cache: Path) -> dict[str, float]:
    """Medians of ratios; ``encoder`` is the folder of a trained one, so that spans are found where there are some."""
    ours, plain = made(encoder, cache, f"injection={injection}"), made(encoder, cache)
    own, other = stepper(ours, ours.methods, steps(ours)), stepper(plain, {}, steps(plain))
    predicted = paired(predicting(ours), predicting(plain), ROUNDS)
    return {"step": paired(own, other, ROUNDS)["median"], "prediction": predicted["median"]}


def made(encoder: Path, cache: Path, *overrides: str) -> Session:
    """What a run on hotel → laptop works with, its methods prepared."""
    given = ["experiment=hotel_laptop", f"backbone.name={encoder}", f"paths.cache={cache}", *overrides]
    session, _ = build(compose("train", given))
    for method in session.methods.values():
        method.prepare()
    return session


def steps(session: Session) -> list[StepBatches]:
    """Batches of a few steps, the same sentences for all."""
    found = []
    for start in range(0, BATCH * STEPS, BATCH):
        part = slice(start, start + BATCH)
        target = session.collator(session.target[part]) if session.reads("target") else None
        found.append(StepBatches(session.collator(session.source[part]), target))
    return found


def predicting(session: Session) -> Callable[[], None]:
    """A function that labels raw texts, none of which has been parsed before."""
    texts = [UnlabelledText(str(i), "", text.text) for i, text in enumerate(session.domains.unlabelled.texts[:TEXTS])]
    session.parser = session.uncached

    def run() -> None:
        examples = session.examples(texts, "prediction", session.parses_at_prediction, labelled=False)
        session.evaluate(examples, 64, "predict")

    return run


def main() -> None:
    """Measure all injections, or those that are named, and print each as a JSON object."""
    names = sys.argv[1:] or sorted(path.stem for path in INJECTIONS.glob("*.yaml") if path.stem != "none")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        short = ["experiment=hotel_laptop", "trainer.epochs=4", f"paths.cache={folder}/cache"]
        train(run_config(compose("train", [*short, f"paths.run={folder}/run"])))
        print(f"on {processor()}, {torch.get_num_threads()} threads", flush=True)
        for injection in progress(names, "costs", len(names), "injection"):
            found = cost(injection, folder / "run" / "model" / "encoder", folder / "cache")
            print(json.dumps({injection: {name: round(ratio, 2) for name, ratio in found.items()}}), flush=True)


if __name__ == "__main__":
    main()
