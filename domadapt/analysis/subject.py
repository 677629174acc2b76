"""What an analysis looks at: one model before and after fine-tuning, on source and on target text."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import torch

from domadapt.analysis.states import why_unreadable
from domadapt.config.compose import make
from domadapt.data.batches import Collator, Example
from domadapt.data.domains import Domains
from domadapt.data.lowercase import lower_in_place, lowercased
from domadapt.data.records import Record
from domadapt.inference.description import NAME, read_description
from domadapt.inference.folder import model_folder
from domadapt.inference.model import load
from domadapt.methods.setting import Setting
from domadapt.models.attention import UnreachableAttention
from domadapt.syntax.parser import SILENT, Parser, Text

T = TypeVar("T")
MODELS, SIDES = ("before", "after"), ("source", "target")


@dataclass(frozen=True, slots=True)
class Side:
    """One domain.

    Attributes:
        domain: its name.
        examples: what is read, without labels: a sample of its texts, each with its tree.
        labelled: every labelled record; none where there are no labels. Of the target, its test.
        scored: labelled examples that training has not seen: of source dev and test, or the target's test.
    """

    domain: str
    examples: list[Example]
    labelled: tuple[Record, ...] = ()
    scored: tuple[Example, ...] = ()


@dataclass(frozen=True, slots=True)
class Subject:
    """What every part of an analysis is given.

    Attributes:
        before: the backbone as it was pretrained, without methods; its task head knows nothing.
        after: the fine-tuned model as it predicts.
        source, target: the text. Both models have one tokenizer, so examples serve both.
        parser: of real trees.
        batch_size: texts a batch.
        seed: of samples.
        name: of the model's folder.
        backbone: name of its pretrained weights.
        trainable: which of them training changed.
        unreachable: why the models' attention can't be replaced, so that no part of an analysis may ask for it; empty
            if it can.
        unreadable: why the states of their layers can't be read, likewise.
    """

    before: Setting
    after: Setting
    source: Side
    target: Side
    parser: Parser
    batch_size: int = 16
    seed: int = 1
    name: str = ""
    backbone: str = ""
    trainable: str = "all"
    unreachable: str = ""
    unreadable: str = ""

    def models(self) -> dict[str, Setting]:
        """By the names of :data:`MODELS`."""
        return dict(zip(MODELS, (self.before, self.after), strict=True))

    def sides(self) -> dict[str, Side]:
        """By the names of :data:`SIDES`."""
        return dict(zip(SIDES, (self.source, self.target), strict=True))


def refuse_without_attention(model: str) -> None:
    """Before anything large is loaded.

    Raises:
        ValueError: no model folder, or a model that has no attention at all.
    """
    description = read_description(model_folder(model))
    if str(description.backbone.get("_target_", "")).endswith("BiLSTM"):
        raise ValueError(f"model={model}: a BiLSTM, which has no attention to look at; give a model of backbone=minilm")


def subject(
    model: str,
    domains: Domains,
    parser: Parser,
    texts: int,
    scored_texts: int,
    batch_size: int = 16,
    device: str = "auto",
    seed: int = 1,
    trust_code: bool = False,
) -> Subject:
    """Load both models, read and parse both sides.

    The target's test is opened: nothing is trained or chosen by what is found here.

    Args:
        model: a run's folder, or the ``model/`` in it.
        domains: the texts.
        parser: of real trees.
        texts: of each side at most, drawn by ``seed``.
        scored_texts: labelled texts of each side at most; 0 scores nothing.
        batch_size: texts a batch.
        device: ``auto``, ``cpu`` or ``cuda``.
        seed: of the samples.
        trust_code: as :func:`domadapt.inference.model.load` takes it.

    Raises:
        ValueError: the model can't be loaded or has no attention at all, it reads other trees than the parser's, the
            data are labelled for another task, or no text has a tree.
    """
    refuse_without_attention(model)
    folder = model_folder(model)
    description = read_description(folder)
    loaded = load(folder, device, "32", trust_code)
    after, task = loaded.setting, loaded.setting.task
    torch.manual_seed(seed)  # of weights that no file holds: the head's
    # A post-trained or frozen encoder began as this one, too.
    encoder = make({**description.backbone, "trainable": "all"}, kind=task.kind, labels=task.labels)
    if encoder.tokenizer.get_vocab() != after.encoder.tokenizer.get_vocab():
        raise ValueError(
            f"{folder / NAME}: backbone.name={description.backbone['name']} has another tokenizer than the model that "
            "was made of it; put back the weights that it was trained from"
        )
    if after.parses_at_prediction and after.parser.name != parser.name:  # of one text one tree is given to both
        raise ValueError(
            f"model={model}: it reads the trees of {after.parser.name} when it predicts, and would be looked at with "
            f"those of {parser.name}; give the same parser, or a model without a control"
        )
    collator = Collator(after.collator.pad_id, after.relations)
    before = replace(after, encoder=encoder.to(after.device).eval(), methods={}, collator=collator)
    opened = domains.test.open() if domains.test is not None else ()
    unseen, seen = (*domains.source_test, *domains.source_dev), domains.source_train
    target: tuple[Text, ...] = domains.unlabeled.texts or opened
    sides = []
    for domain, raw, fresh, rest in (
        (domains.source, (*unseen, *seen), unseen, seen),
        (domains.target, target, opened, ()),
    ):
        read, known, others = drawn(raw, texts, seed), _annotated(task.kind, fresh), _annotated(task.kind, rest)
        if loaded.lowercase:
            read, known, others = ([_lower(text) for text in part] for part in (read, known, others))
        _refuse_other_task(task.kind, (*fresh, *rest), (*known, *others), domain)
        examples = replace(after, parser=parser).examples(read, f"{domain} analysed", True, labelled=False)
        some = drawn(after.task.usable(tuple(known), Counter()), scored_texts, seed)
        scored = after.examples(some, f"{domain} scored", after.parses_at_prediction, True) if some else []
        sides.append(Side(domain, examples, (*known, *others), tuple(scored)))
    trainable = str(description.backbone.get("trainable", "all"))
    source, other = sides
    backbone = str(description.backbone["name"])
    found = Subject(
        *(before, after, source, other, parser, batch_size, seed, str(model), backbone, trainable),
        *(_why_unreachable(encoder), why_unreadable(encoder)),
    )
    if not any(has_tree(example) for side in sides for example in side.examples):
        raise ValueError(
            f"{parser.name}: found no word that depends on another in {domains.source} or {domains.target}, so there "
            "is no syntax to compare attention with; give another parser, or other data"
        )
    return found


def drawn(items: Sequence[T], most: int, seed: int) -> list[T]:
    """At most so many, in their order, the same for the same seed.

    >>> drawn("abc", 5, 1), len(drawn("abc", 2, 1))
    (['a', 'b', 'c'], 2)
    """
    chosen = np.random.default_rng(seed).permutation(len(items))[: min(most, len(items))]
    return [items[i] for i in sorted(chosen.tolist())]


def has_tree(example: Example) -> bool:
    """Whether a word of it hangs on another.

    >>> from domadapt.syntax.alignment import align
    >>> has_tree(Example(0, "So", "", [], np.array([[0, 2]]), align([], [])))
    False
    """
    parse = example.parse
    return parse is not None and any(
        int(head) != word and relation != SILENT
        for word, (head, relation) in enumerate(zip(parse.heads, parse.relations, strict=True))
    )


def _why_unreachable(encoder: Any) -> str:
    try:
        encoder.attention_layers()
    except UnreachableAttention as error:
        return str(error)
    return ""


def _annotated(kind: str, records: Sequence[Record]) -> list[Record]:
    return [r for r in records if (r.spans if kind == "token" else r.label) is not None]


def _refuse_other_task(kind: str, records: Sequence[Record], annotated: Sequence[Record], domain: str) -> None:
    if records and not annotated:
        wanted, task = ("spans", "extraction") if kind == "token" else ("labels", "classification")
        raise ValueError(
            f"data: none of the {len(records)} labelled records of {domain} has {wanted}, and the model was trained "
            f"with task={task}; give data of that task, or a model of the data's"
        )


def _lower(text: Any) -> Any:
    return lowercased(text) if isinstance(text, Record) else replace(text, text=lower_in_place(text.text))
