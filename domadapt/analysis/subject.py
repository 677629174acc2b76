"""What is analysed: a model before and after fine-tuning, its states and attention on two domains.

Predictions of a pass over texts as what precision, recall and F1 are summed from, with labels and without.

Classification and span extraction are the same sums, by class or by span type: what was predicted, how much of that is
right, how much there is to find. Without labels a prediction counts with the probability that it is right, and what
there is to find is the probability mass, that of untagged words too: the misses lie below the threshold. Such
expectations are as good as the probabilities are calibrated.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from domadapt.config.compose import make
from domadapt.data.batches import Batch, Collator, Example
from domadapt.data.domains import Domains
from domadapt.data.records import Record
from domadapt.data.texts import lower_in_place, lowercased
from domadapt.inference.description import NAME, model_folder, read_description
from domadapt.inference.model import load
from domadapt.methods.session import Session
from domadapt.models.attention import UnreachableAttention
from domadapt.models.pretrained import UnreadableLayer, refuse_turned
from domadapt.syntax.alignment import pool_words
from domadapt.syntax.parser import SILENT, Parse, Parser, Text
from domadapt.tasks.extraction import tagged
from domadapt.tasks.task import Rows, Scores

if TYPE_CHECKING:
    from domadapt.inference.model import Model


Array = NDArray[np.float64]
Places = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Items:
    """Predictions, or places where something might be that is not predicted.

    Attributes:
        sure: (n,) probability that there is something: exactly the predicted, if there is a prediction.
        texts: (n,) which text it is in, counted from 0.
    """

    sure: Array
    texts: Places


@dataclass(frozen=True, slots=True)
class Counts:
    """One kind, which is a class or a span type, in every text.

    Attributes:
        predicted, right, there: (texts,) how many are predicted, are right, are there to find; the latter two are
            expected where no labels are known.
        found: the predictions.
        passed: what was passed over, and might be a miss.
    """

    predicted: Array
    right: Array
    there: Array
    found: Items
    passed: Items

    def sums(self, weights: Array) -> Array:
        """(3,) predicted, right and there over all texts, each as often as its weight says."""
        return np.array([weights @ self.predicted, weights @ self.right, weights @ self.there])


def counts(rows: Rows, labels: Sequence[str], labelled: bool) -> dict[str, Counts]:
    """Counts of a model's rows, by kind.

    Args:
        rows: of all texts; of words with BIO tags where ``rows.outside`` is 0, else of texts.
        labels: names of the classes, in the order of the probabilities.
        labelled: what is right is counted, by ``rows.classes``; else expected.

    >>> sure, none = np.array([[0.75, 0.25], [0.5, 0.5]], np.float32), np.zeros(2, np.int64)
    >>> found = counts(Rows(sure, none, np.array([0, 1]), none, none - 1), ["bad", "good"], labelled=False)
    >>> {kind: own.sums(np.ones(2)).tolist() for kind, own in found.items()}
    {'bad': [2.0, 1.25, 1.25], 'good': [0.0, 0.0, 0.75]}
    """
    order = np.lexsort((rows.words, rows.texts))
    _, texts = np.unique(rows.texts[order], return_inverse=True)
    sure = rows.probabilities[order].astype(float)
    truth = rows.classes[order] if labelled else None
    return (_of_classes if rows.outside < 0 else _of_spans)(sure, texts, labels, truth)


def scores(sums: Mapping[str, Array], headline: str, average: str) -> Scores:
    """F1 of every kind, and the headline.

    Args:
        sums: kind → (3,) predicted, right and there.
        headline: of the task; ``accuracy`` is the share of predictions that are right.
        average: ``macro``, the mean of the kinds' F1, or ``micro``, the F1 of all together.

    >>> scores({"aspect": np.array([4.0, 2.0, 4.0]), "opinion": np.array([1.0, 1.0, 1.0])}, "span_f1", "macro")
    {'span_f1': 0.75, 'aspect_f1': 0.5, 'opinion_f1': 1.0}
    """
    each = {f"{kind}_f1": _f1(own) for kind, own in sums.items()}
    total = np.sum([*sums.values()], axis=0)
    if headline == "accuracy":
        whole = float(total[1] / total[0]) if total[0] else 0.0
    else:
        whole = _f1(total) if average == "micro" else float(np.mean([*each.values()]))
    return {headline: whole, **each}


def _f1(sums: Array) -> float:
    both = float(sums[0] + sums[2])
    return float(2 * sums[1] / both) if both else 0.0


def _of_classes(sure: Array, texts: Places, labels: Sequence[str], truth: Places | None) -> dict[str, Counts]:
    best = sure.argmax(1)
    result = {}
    for place, label in enumerate(labels):
        chosen = best == place
        there = sure[:, place] if truth is None else (truth == place).astype(float)
        found, passed = (Items(sure[mask, place], texts[mask]) for mask in (chosen, ~chosen))
        result[label] = Counts(chosen.astype(float), chosen * there, there, found, passed)
    return result


def _of_spans(sure: Array, texts: Places, labels: Sequence[str], truth: Places | None) -> dict[str, Counts]:
    """Of tags as :func:`domadapt.tasks.extraction.tag_names` names them."""
    begins = np.r_[True, texts[1:] != texts[:-1]][: len(texts)]
    tags, size = sure.argmax(1), int(texts.max(initial=-1)) + 1
    predicted = tagged(tags, begins)
    wanted = None if truth is None else set(tagged(truth, begins))
    result = {}
    for kind, label in enumerate(labels[1::2]):
        own = [span for span in predicted if span[2] == kind]
        places = texts[np.array([span[0] for span in own], dtype=np.int64)]
        exact = np.array([_exactly(sure, begins, span) for span in own])
        passed = tags != 1 + 2 * kind
        if wanted is None:
            right, there = exact, np.bincount(texts, sure[:, 1 + 2 * kind], size).astype(float)
        else:
            right = np.array([float(span in wanted) for span in own])
            there = np.bincount(texts[[first for first, _, k in wanted if k == kind]], minlength=size).astype(float)
        result[label.removeprefix("B-")] = Counts(
            np.bincount(places, minlength=size).astype(float),
            np.bincount(places, right, size).astype(float),
            there,
            Items(exact, places),
            Items(sure[passed, 1 + 2 * kind], texts[passed]),
        )
    return result


def _exactly(sure: Array, begins: NDArray[np.bool_], span: tuple[int, int, int]) -> float:
    """Probability of this span and no longer or shorter one, as if words were independent."""
    first, last, kind = span
    begin, inside = 1 + 2 * kind, 2 + 2 * kind
    before = 0.0 if begins[first] else float(sure[first - 1, begin] + sure[first - 1, inside])
    result = float(sure[first, begin]) + float(sure[first, inside]) * (1 - before)
    for _, place in pairwise(range(first, last + 1)):
        result *= float(sure[place, inside])
    ends = last + 1 == len(sure) or begins[last + 1]
    return result if ends else result * (1 - float(sure[last + 1, inside]))


def why_unreadable(encoder: Any) -> str:
    """Why :func:`every_layer` can't read a model; empty if it can.

    Args:
        encoder: an :class:`~domadapt.models.encoder.Encoder`.
    """
    try:
        for layer in range(len(encoder.layers())):
            refuse_turned(encoder.base, encoder.tokenizer, encoder.name, layer)
    except UnreadableLayer as error:
        return error.why
    return ""


def every_layer(
    session: Session, examples: Sequence[Example], batch_size: int, title: str
) -> Iterator[tuple[Batch, list[Tensor]]]:
    """States of a model as it predicts, batch by batch, longest first; hooks see them, whatever the architecture.

    Args:
        session: whose encoder has layers that can be read (:func:`why_unreadable`).

    Returns:
        The batch, and of the embeddings and every layer (batch, pieces, width), in float32.
    """
    layers = session.encoder.layers()
    found: dict[int, Tensor] = {}

    def before(module: Any, args: Any, kwargs: Any) -> None:
        found[0] = (args[0] if args else kwargs["hidden_states"]).float()

    def after(place: int) -> Any:
        def keep(module: Any, args: Any, output: Any) -> None:
            found[place] = (output[0] if isinstance(output, tuple) else output).float()

        return keep

    with ExitStack() as stack:
        stack.callback(layers[0].register_forward_pre_hook(before, with_kwargs=True).remove)
        for place, layer in enumerate(layers, start=1):
            stack.callback(layer.register_forward_hook(after(place)).remove)
        for batch, _ in session.outputs(examples, batch_size, title):
            yield batch, [found[place] for place in range(len(layers) + 1)]


def layer_names(count: int) -> tuple[str, ...]:
    """Names of what :func:`every_layer` gives; layers are counted from 0.

    >>> layer_names(3)
    ('embeddings', 'layer 0', 'layer 1')
    """
    return ("embeddings", *(f"layer {layer}" for layer in range(count - 1)))


def of_words(batch: Batch, states: Tensor) -> list[Tensor]:
    """Per text of a batch (words, width), the mean of each word's pieces; not a number for words that were cut off.

    Args:
        states: (batch, pieces, width).
    """
    nodes = pool_words(states, batch.pair_pieces, batch.pair_nodes, int(batch.words.sum()))
    nodes[batch.node_first_piece < 0] = torch.nan
    return list(nodes.split(batch.words.tolist()))


def of_texts(batch: Batch, states: Tensor) -> Tensor:
    """(batch, width) mean of each text's pieces, special ones included and padding left out."""
    mask = batch.attention_mask.unsqueeze(-1).to(states.dtype)
    return (states * mask).sum(1) / mask.sum(1).clamp(min=1)


Weights = NDArray[np.float32]
LEAST = 0.1  # share of a word's attention that is drawn


@dataclass(frozen=True, slots=True)
class Attention:
    """One head's attention over texts.

    Attributes:
        layer: counted from 0: the last one that syntax was put into, else the last.
        head: counted from 0: the one of that layer that puts most attention on the words' syntactic heads.
        heads: how many the layer has.
        weights: per text (words, words), attending word in rows; what a row lacks to 1 goes to special pieces.
    """

    layer: int
    head: int
    heads: int
    weights: tuple[Weights, ...]


def attention(model: Path, texts: Sequence[str], parses: Sequence[Parse]) -> Attention | str:
    """Load a model folder and read its attention.

    Args:
        model: a run's ``model/`` folder.

    Returns:
        The attention, or why there is none.
    """
    if not (model / "domadapt.json").is_file():
        return f"no model in {model}"
    from safetensors import SafetensorError

    from domadapt.inference.model import load

    try:
        loaded = load(model, "cpu", "32")
        if not loaded.session.encoder.takes_methods:
            return "this model has no attention"
        return look(loaded, syntax_layer(model), texts, parses)
    except (ValueError, OSError, RuntimeError, KeyError, TypeError, SafetensorError) as error:
        # A damaged or foreign model spoils its own drawings, not the report.
        return f"{model}: {str(error).splitlines()[0] if str(error) else type(error).__name__}"


def look(loaded: "Model", layer: int | None, texts: Sequence[str], parses: Sequence[Parse]) -> Attention:
    """Read a loaded model's attention.

    Args:
        loaded: on the CPU, in float32.
        layer: see :func:`recorded`.
    """
    import torch

    from domadapt.data.batches import encode

    session = loaded.session
    words = [parse.words for parse in parses]
    trees = parses if loaded.parses else None
    examples, _ = encode(texts, words, session.encoder.tokenizer, session.max_pieces, trees)
    with torch.no_grad(), recorded(session.encoder, layer) as (at, found):
        session.encoder(session.collator(examples))
    pieces = found[0].numpy()
    every = [by_words(pieces[i], e.alignment.piece_words(), len(words[i])) for i, e in enumerate(examples)]
    head = most_syntactic(every, parses)
    return Attention(at, head, pieces.shape[1], tuple(weights[head] for weights in every))


def syntax_layer(model: Path) -> int | None:
    """The last layer that an injection trained and left behind in stock weights; None where none says its layer."""
    description = json.loads((model / "domadapt.json").read_text(encoding="utf-8"))
    trained: list[Any] = []
    for config in description.get("left_behind", {}).values():
        heads = config.get("heads")
        trained += heads if isinstance(heads, list) else [config]
    layers = [one.get("layer") for one in trained if isinstance(one, dict)]
    return max((layer for layer in layers if isinstance(layer, int) and layer >= 0), default=None)


@contextmanager
def recorded(encoder: Any, layer: int | None = None) -> Iterator[tuple[int, list[Any]]]:
    """Within it, one layer's weights are kept: (batch, heads, pieces, pieces) a forward pass.

    Args:
        encoder: an :class:`~domadapt.models.encoder.Encoder`.
        layer: counted from 0; None for the last one with a hook, else the last.
    """
    layer = max(encoder.attention_hooks, default=len(encoder.attention_layers()) - 1) if layer is None else layer
    found: list[Any] = []
    with encoder.hooked(layer, keeper(found)):
        yield layer, found


@contextmanager
def all_weights(encoder: Any) -> Iterator[list[Any]]:
    """Within it, the weights of all layers are kept, in their order; whoever reads them clears the list."""
    found: list[Any] = []
    with ExitStack() as stack:
        for layer in range(len(encoder.attention_layers())):
            stack.enter_context(encoder.hooked(layer, keeper(found)))
        yield found


def keeper(found: list[Any]) -> Callable[[Any], Any]:
    """A hook that appends a layer's weights.

    Attention is linear in its values, whatever computes it. With the identity for values, what comes out are the
    weights: of stock attention and of any injection's hook alike.

    Args:
        found: (batch, heads, pieces, pieces) is appended a call.
    """
    import torch

    def keep(call: Any) -> Any:
        identity = torch.eye(call.key.shape[2], dtype=call.value.dtype, device=call.value.device)
        weights = call.inner(value=identity.expand(*call.key.shape[:3], -1), dropout=0.0)
        found.append(weights.transpose(1, 2))
        return call.inner()

    return keep


def by_words(pieces: Weights, piece_words: NDArray[np.int64], words: int) -> Weights:
    """(heads, words, words) from (heads, pieces, pieces): the mean of a word's pieces attends, the sum is attended.

    >>> weights = np.array([[[0.5, 0.25, 0.25], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]], dtype=np.float32)
    >>> by_words(weights, np.array([0, 0, 1]), 2).tolist()
    [[[0.375, 0.625], [1.0, 0.0]]]
    """
    count = len(piece_words)  # the rest is padding
    membership = (piece_words[:, None] == np.arange(words)).astype(np.float32)
    rows = membership / np.maximum(membership.sum(0), 1)
    return np.asarray(rows.T @ pieces[:, :count, :count] @ membership)


def most_syntactic(weights: Sequence[Weights], parses: Sequence[Parse]) -> int:
    """The head with the highest mean attention from words to their syntactic heads."""
    total, count = np.zeros(len(weights[0])), 0
    for one, parse in zip(weights, parses, strict=True):
        own = np.arange(len(parse.heads))
        inner = own[(parse.heads != own) & (np.array(parse.relations) != SILENT)]
        total += one[:, inner, parse.heads[inner]].sum(1)
        count += len(inner)
    return int((total / max(count, 1)).argmax())


def as_parse(weights: Weights, parse: Parse) -> tuple[Parse, int, int]:
    """Each word's most attended word drawn like its head, the weight in percent like the relation.

    Args:
        weights: (words, words) of one text.

    Returns:
        The drawing's arcs, how many words look most at their syntactic head, and of how many that have one.
    """
    best = weights.argmax(1) if len(weights) else np.zeros(0, dtype=np.int64)
    share = weights.max(1, initial=0.0)
    names, heads = [], best.astype(np.int64)
    agree = of = 0
    for word, (head, relation) in enumerate(zip(parse.heads.tolist(), parse.relations, strict=True)):
        names.append(SILENT if relation == SILENT or share[word] < LEAST else f"{100 * share[word]:.0f}")
        if relation != SILENT and head != word:
            of += 1
            agree += int(best[word] == head)
    return Parse(parse.words, heads, tuple(names), parse.tags), agree, of


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

    before: Session
    after: Session
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

    def models(self) -> dict[str, Session]:
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
        texts: of each side at most, drawn by ``seed``.
        scored_texts: labelled texts of each side at most; 0 scores nothing.
        device: ``auto``, ``cpu`` or ``cuda``.
        trust_code: as :func:`domadapt.inference.model.load` takes it.

    Raises:
        ValueError: the model can't be loaded or has no attention at all, it reads other trees than the parser's, the
            data are labelled for another task, or no text has a tree.
    """
    refuse_without_attention(model)
    folder = model_folder(model)
    description = read_description(folder)
    loaded = load(folder, device, "32", trust_code)
    after, task = loaded.session, loaded.session.task
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
