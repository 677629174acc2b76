"""What a model loses when it is made smaller: ``python -m benchmarks.small RUN results/small.csv``.

RUN is a finished run of spans, whose corpora are at hand: smaller models learn from the target's unlabelled texts.
Each row is a model as ``domadapt export format=onnx`` writes it, of 32 bits and of 8: F1 on the target's test,
agreement with the whole model there, size, and speed beside transformers' pipeline on the whole model, text by text on
one core. Rows of the same run in the CSV are replaced.
"""

import json
import statistics
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.collect import commit, read, write
from domadapt.config.compose import make
from domadapt.data.domains import Domains
from domadapt.inference.description import model_folder
from domadapt.inference.export import Predict, pipeline_like, quietly, speed, write_onnx, write_stock
from domadapt.inference.light import prediction
from domadapt.inference.model import load
from domadapt.inference.onnx_model import OnnxModel
from domadapt.inference.smaller import cut_folder, shrink, stock_model
from domadapt.runs.key import processor

TIMED, EPOCHS = 100, 10
FORMS: dict[str, tuple[bool, int | None]] = {  # vocabulary cut, layers
    "whole": (False, None),
    "4 layers": (False, 4),
    "3 layers": (False, 3),
    "vocabulary cut": (True, None),
    "vocabulary cut, 4 layers": (True, 4),
}
COLUMNS = ("model", "form", "bits", "span_f1", "agreement", "megabytes", "texts_per_second", "times_pipeline")


def rows(run: Path, domains: Domains, folder: Path) -> Iterator[dict[str, Any]]:
    """One row a form and precision, as they are done."""
    source = model_folder(run)
    original = load(source, "cpu", "32")
    task = original.session.task
    assert domains.test is not None
    texts, records = [one.text for one in domains.unlabelled.texts], domains.test.open()
    contents = [record.text for record in records]
    own = original.predict(contents)
    yield {"form": "in domadapt", "bits": 32, "span_f1": 100 * task.score(records, own)["span_f1"]}
    for form, (cut, layers) in FORMS.items():
        stock = folder / form.replace(" ", "_")
        write_stock(source / "encoder", stock, original.session)
        pipeline = pipeline_like(task.kind, model=str(stock))
        if cut:
            cut_folder(stock, texts)
        network = shrink(stock, texts, layers, EPOCHS)[0] if layers else stock_model(stock)
        for bits in (32, 8):
            part = folder / f"{stock.name}-{bits}"
            part.mkdir()
            write_onnx(stock, network, original.session, part, bits == 8)
            predict = OnnxModel(part, threads=1)
            found = [prediction(one) for one in predict(contents)]
            as_gold = [replace(record, spans=one.spans) for record, one in zip(records, own, strict=True)]
            scores = task.score(records, found), task.score(as_gold, found)
            mine, other = timed(predict, pipeline, contents)
            yield {
                "form": form, "bits": bits, "span_f1": 100 * scores[0]["span_f1"],
                "agreement": 100 * scores[1]["span_f1"], "megabytes": (part / "model.onnx").stat().st_size / 1e6,
                "texts_per_second": 1 / mine, "times_pipeline": other / mine,
            }  # fmt: skip


def timed(first: Predict, second: Predict, texts: list[str]) -> tuple[float, float]:
    """Seconds a text of both, medians of three measurements in alternation."""
    found = [speed(first, second, texts[:TIMED]) for _ in range(3)]
    return statistics.median(one for one, _ in found), statistics.median(one for _, one in found)


def main() -> None:
    run, output = map(Path, sys.argv[1:])
    torch.set_num_threads(1)
    metrics = json.loads((run / "metrics.json").read_text(encoding="utf-8"))
    name = f"{metrics['source']} → {metrics['target']}"
    made = {"model": name, "processor": processor(), "commit": commit()}
    kept: list[dict[str, Any]] = [row for row in read(output) if row["model"] != name]
    with tempfile.TemporaryDirectory() as folder, quietly():
        for row in rows(run, make(metrics["config"]["data"]), Path(folder)):
            shown = {key: round(value, 1) if isinstance(value, float) else value for key, value in row.items()}
            print(json.dumps(shown), flush=True)
            kept.append({**made, **shown})
            write(output, kept, (*COLUMNS, "processor", "commit"))  # as they come: a row takes minutes


if __name__ == "__main__":
    main()
