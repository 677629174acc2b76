"""What is analysed: a model before and after fine-tuning, and the states of its layers, on two domains."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from domadapt.config.compose import make
from domadapt.config.resolvers import SIDES
from domadapt.data.batches import Batch, Collator, Example
from domadapt.data.domains import Domains
from domadapt.data.records import Record, learnt
from domadapt.data.texts import lower_in_place, lowercased, sampled
from domadapt.inference.description import NAME, model_folder, read_description
from domadapt.inference.model import load
from domadapt.methods.session import Session
from domadapt.models.contracts import UnreachableAttention
from domadapt.models.pretrained import UnreadableLayer, layer_states, refuse_turned
from domadapt.syntax.parser import PUNCTUATION, Parse, Parser

MODELS = ("before", "after")


@dataclass(frozen=True, slots=True)
class Side:
    """One domain, by its name."""

    domain: str
    examples: list[Example]  #: what is read, without labels: a sample of its texts, each with its tree
    labelled: tuple[Record, ...] = ()  #: every labelled record; of the target, its test
    scored: tuple[Example, ...] = ()  #: labelled, unseen in training: of source dev and test, or the target's test
    records: tuple[Record, ...] = ()  #: the same, as they are in the data


@dataclass(frozen=True, slots=True)
class Subject:
    """What every part of an analysis is given."""

    before: Session  #: the backbone as it was pretrained, without methods; its task head knows nothing
    after: Session  #: the fine-tuned model as it predicts
    source: Side  #: both models have one tokenizer, so examples serve both
    target: Side
    parser: Parser  #: of real trees
    batch_size: int = 16
    seed: int = 1  #: of samples
    name: str = ""  #: of the model's folder
    backbone: str = ""  #: name of its pretrained weights
    trainable: str = "all"  #: which of them training changed
    unreachable: str = ""  #: why the models' attention can't be replaced; empty if it can
    unreadable: str = ""  #: why the states of their layers can't be read; empty if they can

    def models(self) -> dict[str, Session]:
        """By the names of :data:`MODELS`."""
        return dict(zip(MODELS, (self.before, self.after), strict=True))

    def sides(self) -> dict[str, Side]:
        """By the names of :data:`~domadapt.config.resolvers.SIDES`."""
        return dict(zip(SIDES, (self.source, self.target), strict=True))


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
    """Load both models, read and parse at most ``texts`` of both sides, and ``scored_texts`` labelled ones.

    The target's test is opened: nothing is trained or chosen by what is found here.
    """
    folder = model_folder(model)
    backbone = read_description(folder).backbone
    loaded = load(folder, device, "32", trust_code)
    after, task = loaded.session, loaded.session.task
    torch.manual_seed(seed)  # of weights that no file holds: the head's
    # A post-trained or frozen encoder began as this one, too.
    encoder = make({**backbone, "trainable": "all"}, kind=task.kind, labels=task.labels)
    if encoder.tokenizer.get_vocab() != after.encoder.tokenizer.get_vocab():
        what = "has another tokenizer than the model that was made of it; put back the weights that it was trained from"
        raise ValueError(f"{folder / NAME}: backbone.name={backbone['name']} {what}")
    if after.parses_at_prediction and after.parser.name != parser.name:  # of one text one tree is given to both
        fix = "give the same parser, or a model without a control"
        both = f"the trees of {after.parser.name} when it predicts, and would be looked at with those of {parser.name}"
        raise ValueError(f"model={model}: it reads {both}; {fix}")
    collator = Collator(after.collator.pad_id, after.relations)
    before = replace(after, encoder=encoder.to(after.device).eval(), methods={}, collator=collator)
    opened = domains.test.open() if domains.test is not None else ()
    unseen, seen = (*domains.source_test, *domains.source_dev), domains.source_train

    def make_side(domain: str, raw: Sequence[Any], fresh: tuple[Record, ...], rest: tuple[Record, ...]) -> Side:
        read, known, others = sampled(raw, texts, seed), _annotated(task.kind, fresh), _annotated(task.kind, rest)
        if loaded.lowercase:
            read = [lowercased(t) if isinstance(t, Record) else replace(t, text=lower_in_place(t.text)) for t in read]
            known, others = ([*map(lowercased, part)] for part in (known, others))
        if (fresh or rest) and not (known or others):
            wanted, name = ("spans", "extraction") if task.kind == "token" else ("labels", "classification")
            fix = f"and the model was trained with task={name}; give data of that task, or a model of the data's"
            count = len(fresh) + len(rest)
            raise ValueError(f"data: none of the {count} labelled records of {domain} has {wanted}, {fix}")
        examples = replace(after, parser=parser).examples(read, f"{domain} analysed", True, labelled=False)
        chosen = tuple(sampled(task.usable(tuple(known), Counter()), scored_texts, seed))
        scored = after.examples(chosen, f"{domain} scored", after.parses_at_prediction, True) if chosen else []
        return Side(domain, examples, (*known, *others), tuple(scored), chosen)

    source = make_side(domains.source, (*unseen, *seen), unseen, seen)
    target = make_side(domains.target, domains.unlabelled.texts or opened, opened, ())
    if not any(len(arcs(e.parse)[0]) for e in (*source.examples, *target.examples) if e.parse is not None):
        why = "so there is no syntax to compare attention with; give another parser, or other data"
        both = f"{domains.source} or {domains.target}"
        raise ValueError(f"{parser.name}: found no word that depends on another in {both}, {why}")
    names = str(model), str(backbone["name"]), str(backbone.get("trainable", "all"))
    return Subject(before, after, source, target, parser, batch_size, seed, *names, *_why_unavailable(encoder))


def _annotated(kind: str, records: Sequence[Record]) -> list[Record]:
    return [learnt(r, kind) for r in records if (r.spans if kind == "token" else r.label) is not None]


def _why_unavailable(encoder: Any) -> tuple[str, str]:
    """Why an encoder's attention can't be replaced, and why :func:`every_layer` can't read it; empty if they can."""
    unreachable = unreadable = ""
    try:
        encoder.attention_layers()
    except UnreachableAttention as error:
        unreachable = str(error)
    try:
        for layer in range(len(encoder.layers())):
            refuse_turned(encoder.base, encoder.tokenizer, encoder.name, layer)
    except UnreadableLayer as error:
        unreadable = str(error.args[0])
    return unreachable, unreadable


def arcs(parse: Parse, read: NDArray[np.bool_] | None = None) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Words that hang on another word, punctuation aside, and their heads; of those (words,) that a model reads.

    >>> parse = Parse(np.zeros((3, 2)), np.array([1, 1, 1]), ("det", "root", "punct"), ("", "", ""))
    >>> [found.tolist() for found in arcs(parse)]
    [[0], [1]]
    """
    words = np.arange(len(parse.heads))
    inner = (parse.heads != words) & (np.array(parse.relations, dtype=object) != PUNCTUATION)
    if read is not None and len(words):
        inner &= read & read[parse.heads]
    return words[inner], parse.heads[inner]


def every_layer(
    session: Session, examples: Sequence[Example], batch_size: int, title: str
) -> Iterator[tuple[Batch, list[Tensor]]]:
    """Batches, longest first, and (batch, pieces, width) states of embeddings and layers, in float32, by hooks."""
    layers = session.encoder.layers()
    states: dict[int, Tensor] = {}

    def before(module: Any, args: Any, kwargs: Any) -> None:
        states[0] = (args[0] if args else kwargs["hidden_states"]).float()

    def after(module: Any, args: Any, output: Any, place: int) -> None:
        states[place] = layer_states(output).float()

    with ExitStack() as stack:
        stack.callback(layers[0].register_forward_pre_hook(before, with_kwargs=True).remove)
        for place, layer in enumerate(layers, start=1):
            stack.callback(layer.register_forward_hook(partial(after, place=place)).remove)
        for batch, _ in session.outputs(examples, batch_size, title):
            yield batch, [states[place] for place in range(len(layers) + 1)]


def layer_names(count: int) -> tuple[str, ...]:
    """Names of what :func:`every_layer` gives; layers are counted from 0."""
    return ("embeddings", *(f"layer {layer}" for layer in range(count - 1)))
