"""What several test files make: tiny encoders, batches, settings and steps, corpora."""

import csv
import json
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
import transformers
from omegaconf import OmegaConf

import domadapt
from domadapt.config.compose import make
from domadapt.data.batches import Batch, Collator, Example, encode
from domadapt.data.domains import Domains, TargetUnlabelled, UnlabelledText, unlabelled
from domadapt.data.records import Record
from domadapt.methods.method import Method, Step, View
from domadapt.methods.session import Session
from domadapt.models.encoder import Encoder
from domadapt.models.pretrained import load_tokenizer
from domadapt.runs.groups import Pair, group, typed
from domadapt.runs.status import Status
from domadapt.syntax.parser import SpacyParser
from domadapt.syntax.trees import relation_vocabulary
from domadapt.tasks.extraction import Extraction
from domadapt.training.build import build

CONF = Path(__file__).parents[1] / "conf"
METHODS = [
    f"{group}={path.stem}"
    for group in ("injection", "adaptation")
    for path in sorted((CONF / group).glob("*.yaml"))
    if path.stem != "none" and "defaults:" not in path.read_text(encoding="utf-8")  # a recipe is several of them
]
VALIDATORS = {path.stem: make(OmegaConf.load(path)) for path in sorted((CONF / "selection").glob("*.yaml"))}
INJECTIONS = [method for method in METHODS if method.startswith("injection=")]
SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2}
FAMILIES: dict[str, dict[str, Any]] = {
    "bert": SMALL,
    "roberta": SMALL | {"max_position_embeddings": 130, "pad_token_id": 1},
    "xlm-roberta": SMALL | {"max_position_embeddings": 130, "pad_token_id": 1},
    "electra": SMALL | {"embedding_size": 16},
    "distilbert": {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48},
    "modernbert": SMALL | SPECIAL,
    "mobilebert": SMALL | {"embedding_size": 16, "true_hidden_size": 16, "intra_bottleneck_size": 16},
}
UNREACHABLE: dict[str, dict[str, Any]] = {  # whose attention can't be replaced
    "deberta-v2": SMALL | {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "position_buckets": 8},
    "albert": SMALL | {"embedding_size": 16},
    "mpnet": SMALL | {"max_position_embeddings": 130, "pad_token_id": 1},
    "xlnet": {"d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 48},
}
ODD: dict[str, dict[str, Any]] = {
    "convbert": SMALL | {"embedding_size": 32},  # of its heads, half are convolutions
    "eurobert": SMALL | SPECIAL | {"num_key_value_heads": 2, "max_position_embeddings": 128, "mask_token_id": 4},
    "fnet": {"hidden_size": 32, "num_hidden_layers": 2, "intermediate_size": 48},  # no attention
    "xlm": {"emb_dim": 32, "n_layers": 2, "n_heads": 4},  # no layers, but lists of their parts
}
BARS = ("rnn_from_scratch", "source_only", "in_domain")
Spans = list[tuple[int, int]]
Row = Callable[[str, str, int], dict[str, Any]]  # of a domain, a part and a place in it
Command = Callable[..., tuple[str, str]]  # what the fixture `command` gives
SHARED = TemporaryDirectory()  # of what several tests read; it goes when the process ends
TEXTS = ["The lens isn't sharp.", "Battery life is great, though the incomprehensible menus annoy me!", "Nope."]


def of_yaml(choice: str, task: str = "extraction") -> list[str]:
    """Overrides that choose a method's yaml, ``injection=gnn``, and fit it to the tiny encoder's two layers.

    A method that learns from finished runs is given one, of the task; one that learns from a file, a file.
    """
    group, _, name = choice.partition("=")
    config = OmegaConf.load(CONF / group / f"{name}.yaml")
    layered = [label for label, settings in config.items() if isinstance(settings.get("layer"), int)]
    taught = [label for label, settings in config.items() if settings.get("teachers") == []]
    fitted = [f"{group}.{label}.teachers=[{finished(task)}]" for label in taught]
    if name == "external_labels":  # of texts of the target of corpora()
        labels = write_jsonl(Path(SHARED.name) / "llm.jsonl", records("laptop", 20, 5)[:12])
        fitted.append(f"{group}.{name}.path={labels}")
    return [choice, *(f"{group}.{label}.layer=1" for label in layered), *fitted]


def made_of(choice: str) -> dict[str, Method]:
    """The methods of an injection's yaml, ``injection=gnn``, fitted to the tiny encoder's two layers."""
    group, _, name = choice.partition("=")
    config = OmegaConf.load(CONF / group / f"{name}.yaml")
    fitted = {label: {**s, "layer": 1} if isinstance(s.get("layer"), int) else s for label, s in config.items()}
    return {str(label): make(settings) for label, settings in fitted.items()}


@cache
def finished(task: str) -> Path:
    """The folder of a finished run of :func:`corpora`, in a folder of its own."""
    folder = Path(SHARED.name) / task
    trained(folder, "run", f"task={task}", "trainer.epochs=1", "trainer.precision=32", "trainer.threads=1")
    return folder / "run"


EVERY_INJECTION = [f"injection=[{','.join(choice.partition('=')[2] for choice in INJECTIONS)}]"]
EVERY_INJECTION += [setting for choice in INJECTIONS for setting in of_yaml(choice)[1:]]


def make_metrics(method: str, seed: int, score: float | None, **changes: Any) -> dict[str, Any]:
    """The content of a metrics.json; ``score=None`` for a target test without labels."""
    headline = changes.get("headline", "span_f1")
    test = None if score is None else {headline: score, "aspect_f1": score - 0.1, "opinion_f1": score + 0.1}
    curve = {"epoch": 1, "step": 9, "losses": {"task": 0.5, "total": 0.5}, "source_dev": {headline: 0.7}}
    return {
        "format": 1,
        "key": f"{method}{seed}",
        "source": "camera",
        "target": "laptop",
        "task": "extraction",
        "headline": headline,
        "method": method,
        "role": method if method in BARS else "adapted",
        "seed": seed,
        "source_dev": {headline: 0.7},
        "source_test": {headline: 0.6},
        "target_test": test,
        "target_test_clean": test,
        "target_test_sizes": {"all": 4, "clean": 4},
        "curve": [curve, {**curve, "epoch": 2}],
        "counts": {"truncated": {"target test": {"texts": 1, "words": 12}}, "warnings": {"a mended tag": 2}},
        "seconds": {"build": 1.0, "fit": 2.0},
        "config": {"seed": seed, "method": method, "trainer": {"epochs": 2}, "data": {"source": "camera"}},
        "versions": {"python": "3.11"},
        "hardware": {"device": "cpu"},
        "command": f"domadapt train seed={seed}",
        **changes,
    }


def predicted_row(text: str, gold: Spans | str, predicted: Spans | str, **changes: Any) -> dict[str, Any]:
    """A line of predictions.jsonl from a text and (start, end) aspects, or a label."""

    def side(told: Spans | str) -> dict[str, Any]:
        if isinstance(told, str):
            return {"label": told, "spans": []}
        return {"label": None, "spans": [{"start": s, "end": e, "type": "aspect"} for s, e in told]}

    made = {"id": text[:8], "text": text, "words": None, "gold": side(gold), "predicted": side(predicted)}
    return {**made, "confidence": 0.5, **changes}


def grouped(contents: Iterable[dict[str, Any]]) -> list[Pair]:
    """What a report is made of, from contents of ``metrics.json``."""
    return group([typed(content) for content in contents])


def tiny_encoder(kind: str = "token", labels: int = 5) -> Encoder:
    torch.manual_seed(0)
    return Encoder("tiny_random", kind, [str(i) for i in range(labels)]).eval()


def small_encoder(folder: Path, kind: str, **more: int) -> Encoder:
    """A random model of some architecture, without dropout and with weights large enough that attention matters."""
    torch.manual_seed(0)
    tokenizer = load_tokenizer("tiny_random")
    settings = (FAMILIES | UNREACHABLE | ODD).get(kind, SMALL) | {"vocab_size": len(tokenizer)} | more
    config = transformers.AutoConfig.for_model(kind, **settings, initializer_range=0.2)
    transformers.AutoModel.from_config(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    encoder = Encoder(str(folder), "token", [str(i) for i in range(5)])
    without_dropout(encoder)
    return encoder


def of_family(folder: Path, kind: str) -> list[str]:
    """Overrides that choose a random model of some architecture, made in a folder."""
    return ["backbone=hugging_face", f"backbone.name={small_encoder(folder, kind).name}"]


def without_dropout(encoder: Any) -> None:
    """Training that draws no random numbers; attention keeps its share as a number, not as a module."""
    for module in encoder.modules():
        for name in ("dropout_prob", "attention_dropout"):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 0.0)
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0


def without_checksums(model: Path) -> Path:
    """A model folder whose owner has changed it, and deleted from its checksums what a model is made of."""
    path, own = model / "SHA256SUMS", ("domadapt.json", "config.json", "tokenizer.json", ".safetensors")
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.endswith(own)]
    path.write_text("\n".join(lines), encoding="utf-8")
    return model


def parsed_examples(encoder: Any, texts: list[str], max_length: int) -> tuple[list[Example], dict[str, int]]:
    """Examples with parses and word tags, and their relation vocabulary."""
    parses = list(SpacyParser().parse(unlabelled(texts)))
    words = [parse.words for parse in parses]
    tags = [np.arange(len(w)) % 5 for w in words]
    domains = ["camera"] * len(texts)
    examples, _ = encode(texts, words, encoder.tokenizer, max_length, parses, word_tags=tags, domains=domains)
    return examples, relation_vocabulary(name for parse in parses for name in parse.relations)


def parsed_batch(encoder: Any, texts: list[str] | None = None, max_length: int = 64) -> tuple[Batch, dict[str, int]]:
    """A batch with parses and word tags, and its relation vocabulary."""
    examples, relations = parsed_examples(encoder, texts or TEXTS, max_length)
    return Collator(encoder.tokenizer.pad_token_id, relations)(examples), relations


def setting_of(encoder: Any, *methods: Method, texts: list[str] | None = None, max_length: int = 64) -> Session:
    """What a run of aspects and opinions would work with: the texts as source, the same unlabelled as target."""
    texts = texts or TEXTS
    source, relations = parsed_examples(encoder, texts, max_length)
    target = [replace(e, domain="laptop", word_tags=None) for e in source]
    train = tuple(Record(str(i), "camera", text, spans=()) for i, text in enumerate(texts))
    raw = TargetUnlabelled("laptop", tuple(UnlabelledText(str(i), "laptop", text) for i, text in enumerate(texts)))
    session = Session(
        domains=Domains("camera", "laptop", train, train, (), raw, None),
        task=Extraction(["aspect", "opinion"]),
        encoder=encoder,
        methods={type(method).__name__: method for method in methods},
        parser=SpacyParser(),
        uncached=SpacyParser(),
        collator=Collator(encoder.tokenizer.pad_token_id, relations),
        max_length=max_length,
        seed=0,
        device=torch.device("cpu"),
        precision="32",
        cache=Path("no-cache-in-this-test"),
        source=source,
        dev=source,
        target=target,
        validation=target,
        relations=relations,
    )
    session.attach()
    return session


def alone_and_padded(session: Session) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits of the shortest source text's pieces, by itself and in a batch with the others."""
    shortest = min(session.source, key=lambda e: len(e.input_ids))
    short, every = session.collator([shortest]), session.collator(session.source)
    row, pieces = int(short.index[0]), int(short.attention_mask.sum())
    assert pieces < every.input_ids.shape[1]
    with torch.no_grad():
        return session.encoder(short).logits[0, :pieces], session.encoder(every).logits[row, :pieces]


def view_of(session: Session, examples: list[Example]) -> View:
    """All of some examples in one batch."""
    return View(session.collator(examples).to(session.device), session)


def tiny_step(session: Session, target: bool = True) -> Step:
    """A step in the middle of training, of up to eight source and eight target texts."""
    source = view_of(session, session.source[:8])
    return Step(source, view_of(session, session.target[:8]) if target and session.target else None, 0, 0.5)


def losses_while_training(method: Method, session: Session, *modules: torch.nn.Module, steps: int) -> list[float]:
    """A method's losses of the same batches, summed, while they train modules."""
    optimizer = torch.optim.Adam([p for module in modules for p in module.parameters()], 2e-3)
    found = []
    for _ in range(steps):
        torch.manual_seed(0)  # the same words and pieces are masked
        loss = torch.stack([*method.losses(tiny_step(session)).values()]).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(float(loss.detach()))
    return found


def write_jsonl(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def ran(code: str, *arguments: str, **given: Any) -> str:
    """What a program prints in a process of its own."""
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, **given).stdout


def client_of(app: Any) -> Any:
    """Asks an application that answers to 127.0.0.1."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # starlette prefers httpx's successor
        from starlette.testclient import TestClient

        return TestClient(app, base_url="http://127.0.0.1")


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def edit(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Changes what a JSON file holds."""
    content = json.loads(path.read_text(encoding="utf-8"))
    change(content)
    path.write_text(json.dumps(content), encoding="utf-8")


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write_csv(path: Path, rows: Iterable[dict[str, Any]], header: str = "text,label") -> Path:
    """Texts and labels, without the rest of the rows."""
    lines = (f'"{row["text"]}",{row["label"]}\n' for row in rows)
    path.write_text(f"{header}\n{''.join(lines)}", encoding="utf-8")
    return path


def write_texts(path: Path, rows: Iterable[dict[str, Any]]) -> Path:
    """Texts alone, a line each."""
    path.write_text("".join(f"{row['text']}\n" for row in rows), encoding="utf-8")
    return path


class StoppedAt(Status):
    """Ends its run, not the source-only one before it, in the middle of the second epoch."""

    def note(self, every: float = 0.0, **fields: object) -> None:
        if fields.get("epoch") == 2 and self.path.parent.name != "source_only":
            raise ValueError("pulled the plug")
        super().note(every, **fields)


PARTS = ["lens", "battery", "screen", "menu", "strap", "sound", "keyboard", "zoom", "price", "flash"]
OPINIONS = ["great", "dull", "superb", "weak", "lovely"]


def records(domain: str, count: int, shift: int = 0) -> list[dict[str, Any]]:
    """Labelled sentences with one aspect and one opinion each."""
    rows = []
    for i in range(count):
        part, opinion = PARTS[(i * 3 + shift) % len(PARTS)], OPINIONS[(i + shift) % len(OPINIONS)]
        text = f"The {part} of number {i} is {opinion}."
        spans = [
            {"start": text.index(word), "end": text.index(word) + len(word), "type": kind}
            for word, kind in ((part, "aspect"), (opinion, "opinion"))
        ]
        label = "negative" if opinion in ("dull", "weak") else "positive"
        rows.append({"id": f"{domain}-{i}", "domain": domain, "text": text, "label": label, "spans": spans})
    return rows


def corpora(folder: Path, target_shift: int = 5) -> list[str]:
    """Files of a small problem, and the overrides that point to them."""
    write_jsonl(folder / "source.jsonl", records("camera", 24))
    write_jsonl(folder / "target.jsonl", records("laptop", 20, target_shift))
    write_jsonl(folder / "test.jsonl", records("laptop", 12, target_shift + 1))
    write_jsonl(folder / "labelled.jsonl", records("laptop", 16, target_shift + 2))
    return [
        *("data=my_files", f"data.source.path={folder}/source.jsonl", f"data.target.path={folder}/target.jsonl"),
        *(f"data.target.test_path={folder}/test.jsonl", f"data.target.train_path={folder}/labelled.jsonl"),
        *("backbone=tiny_random", "trainer.epochs=2", "trainer.batch_size=8", "trainer.target_batch_size=4"),
        *("trainer.min_steps=0", "trainer.checkpoint_seconds=0"),  # tests need no good model, nor a clock
        f"paths.runs={folder}/runs",
    ]


def trained(folder: Path, name: str, *more: str) -> dict[str, Any]:
    """Metrics of a run of :func:`corpora`, ``name`` in the folder of its files and its cache."""
    own = [f"paths.run={folder}/{name}", f"paths.cache={folder}/cache"]
    return domadapt.train([*corpora(folder), *own, *more])


def built(folder: Path, *more: str) -> Session:
    """What such a run works with."""
    return build(domadapt.compose("train", [*corpora(folder), f"paths.cache={folder}/cache", *more]))[0]


def aspect_corpus(root: Path) -> Path:
    """A benchmark folder with a small ``aspect_opinion/``: 12 sentences a domain, a quarter of them without a term."""
    for domain in ("device", "laptops", "restaurants"):
        rows = []
        for i in range(12):
            tokens = ["İts", domain.title(), PARTS[i % len(PARTS)], f"No{i}", "is", OPINIONS[i % len(OPINIONS)]]
            tags = ["O", "B-aspect", "I-aspect", "O", "O", "B-opinion"] if i % 4 else ["O"] * 6
            rows.append({"id": f"{domain}-{i}", "domain": domain, "tokens": tokens, "tags": tags})
        write_jsonl(root / "aspect_opinion" / f"{domain}.jsonl", rows)
    ids = {
        "source_train": [f"device-{i}" for i in range(12)],
        "target_unlabeled": [f"laptops-{i}" for i in range(8)],
        "target_test": [f"laptops-{i}" for i in range(8, 12)],
        "target_unlabeled_text_also_in_test": [],
    }
    (root / "aspect_opinion" / "splits.json").write_text(json.dumps({"device_to_laptops_1": ids}), encoding="utf-8")
    return root


def in_parts(root: Path, folder: str, domains: Iterable[str], parts: dict[str, int], row: Row) -> Path:
    """A benchmark folder with a small corpus: so many rows a domain and part, of what a row holds beside its id."""
    for domain in domains:
        for name, count in parts.items():
            rows = [{"id": f"{domain}-{name}-{i}", "domain": domain} | row(domain, name, i) for i in range(count)]
            write_jsonl(root / folder / f"{domain}.{name}.jsonl", rows)
    return root


def joint_corpus(root: Path, repeated: int = 0) -> Path:
    """A small ``joint_absa/``; so many of its test sentences have the words of a training sentence."""
    kinds = {"rest": ["POS", "NEG", "NEU"], "device": ["POS", "NEG"], "laptop": ["POS"]}

    def row(domain: str, name: str, i: int) -> dict[str, Any]:
        number, kind = f"{i}" if name == "train" or i < repeated else f"{i}th", kinds[domain][i % len(kinds[domain])]
        tokens = ["The", domain, PARTS[i % len(PARTS)], "of", "number", number, "."]
        return {"tokens": tokens, "tags": ["O", f"B-{kind}", f"I-{kind}", *"OOOO"]}

    return in_parts(root, "joint_absa", kinds, {"train": 12, "test": 6}, row)


def parted_corpus(root: Path, folder: str, domains: Sequence[str]) -> Path:
    """A small corpus such as ``memd/``."""

    def row(domain: str, name: str, i: int) -> dict[str, Any]:
        tokens = ["The", domain, PARTS[i % len(PARTS)], f"{name}{i}", "is", OPINIONS[i % len(OPINIONS)], "."]
        return {"tokens": tokens, "tags": ["O", "B-aspect", "I-aspect", "O", "O", "B-opinion", "O"]}

    return in_parts(root, folder, domains, {"train": 12, "dev": 4, "test": 6}, row)


def amazon_corpus(root: Path) -> Path:
    """A small ``amazon_reviews/``."""
    labelled = [{"text": row["text"], "label": row["label"]} for row in records("", 20)]

    def row(domain: str, name: str, i: int) -> dict[str, Any]:
        return labelled[i] if name == "labeled" else {"text": f"A {domain} of {i} pages."}

    domains = ("books", "dvd", "electronics", "kitchen")
    return in_parts(root, "amazon_reviews", domains, {"labeled": 20, "unlabeled_substitute": 10}, row)


def fdu_corpus(root: Path) -> Path:
    """A small ``amazon_reviews_fdu/``."""

    def row(domain: str, name: str, i: int) -> dict[str, Any]:
        if name == "unlabeled":
            return {"text": f"The {i} Shots, or None."}
        text, label = f"{PARTS[i % len(PARTS)]} number {i} is n't bad .", "positive" if i % 2 else "negative"
        return {"text": text, "label": label, "text_detok": text.replace(" n't", "n't").replace(" .", ".")}

    domains = ("camera_photo", "electronics", "software")
    return in_parts(root, "amazon_reviews_fdu", domains, {"train": 10, "test": 4, "unlabeled": 5}, row)
