"""What a run works with: handed to methods, evaluation and training alike."""

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from domadapt.data.batches import Batch, Collator, Example, encode, in_order
from domadapt.data.domains import Domains, UnlabelledText
from domadapt.data.records import Record
from domadapt.data.texts import sampled
from domadapt.models.contracts import Output, UnreachableAttention
from domadapt.runs.metrics import Truncation
from domadapt.syntax.alignment import UNREAD, IntArray, unread_words
from domadapt.syntax.parser import Parse, Parser, Text, warn_of_parses, word_ranges
from domadapt.tasks.rows import Predicted, joined
from domadapt.tasks.task import Prediction, Task
from domadapt.utils.runtime import preserve_random_state
from domadapt.utils.work import progress

log = logging.getLogger(__name__)
MOST_READ = {"token": 1500, "sequence": 5000}  # target texts that are read, at most: of words each has many


def _labels(record: Record) -> tuple[str | None, list[str]]:
    """A record's label, and the types of its spans."""
    return record.label, [span.type for span in record.spans or ()]


def without_labels(examples: Sequence[Example], task: Task) -> list[UnlabelledText]:
    """Texts as another model is asked for them: with their words, where words are classified."""
    words = [tuple(map(tuple, e.words.tolist())) if task.kind == "token" else None for e in examples]
    return [UnlabelledText("", e.domain, e.text, ranges) for e, ranges in zip(examples, words, strict=True)]


class ReadText(NamedTuple):
    """What the model makes of one text."""

    words: list[int]  #: numbers of the words that have a piece; [0] where texts are classified
    rows: torch.Tensor  #: (words, classes) or (1, classes) log-probabilities, as decoding has them


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One pass over examples."""

    predictions: list[Prediction]  #: one a text, in the order of the examples
    rows: Predicted  #: what is classified, texts or words


class Corpora:
    """Real trees of whole corpora, parsed once for ``corpus_parses``, whatever control the batches' trees are under."""

    def __init__(self, domains: Domains, parser: Parser) -> None:
        self.parser = parser
        self._texts: dict[str, Sequence[Text]] = {
            "source": domains.source_train,
            "target": domains.unlabelled.texts,
            "labelled target": domains.target_records,
        }
        self._parses: dict[str, list[Parse]] = {}

    def parses(self, side: str) -> list[Parse]:
        """Of all ``source`` training records, all unlabelled ``target`` texts, or the few ``labelled target`` ones."""
        if side not in self._parses:
            texts = self._texts[side]
            self._parses[side] = list(progress(self.parser.parse(texts), f"parse {side}", len(texts), "text"))
        return self._parses[side]


class TargetReadings:
    """What two networks make of unlabelled target texts, :data:`MOST_READ` at most, by number: read once for all."""

    def __init__(self, session: "Session") -> None:
        self._session = session
        self._read: dict[str, dict[int, ReadText]] = {}

    def now(self) -> dict[int, ReadText]:
        """By the weights as they are; for a method that reads ``target``."""
        return self._read_once("now", lambda examples: self._session.read(examples, "read target"))

    def source_only(self, others: Sequence[Example] = ()) -> dict[int, ReadText]:
        """By a network that was trained on the source alone, of ``others`` as well; for what reads ``source_only``."""
        session = self._session

        def read(examples: Sequence[Example]) -> list[ReadText]:
            texts, where = without_labels(examples, session.task), (session.device.type, session.precision)
            with preserve_random_state():  # a model that is loaded draws random numbers
                result: list[ReadText] = session.saved_runs.read(session.source_only, texts, *where)
            return result

        known = self._read_once("source only", read)
        if more := [example for example in others if example.index not in known]:
            known = known | dict(zip((e.index for e in more), read(more), strict=True))
        return known

    def sample(self) -> list[Example]:
        """The target texts that are read."""
        return sampled(self._session.target, MOST_READ[self._session.task.kind], seed=1)

    def forget(self) -> None:
        """The weights have changed: the target is read anew."""
        self._read.pop("now", None)

    def _read_once(self, network: str, read: Callable[[list[Example]], list[ReadText]]) -> dict[int, ReadText]:
        if network not in self._read:
            examples = self.sample()
            self._read[network] = dict(zip((e.index for e in examples), read(examples), strict=True))
        return self._read[network]


@dataclass(slots=True)
class Session:
    """What a run works with."""

    domains: Domains  #: without sealed test and ceiling: nothing that training can reach leads to a target label
    task: Task
    encoder: Any
    methods: dict[str, Any]  #: injections and adaptations, by the name that the configuration gives them
    parser: Parser
    uncached: Parser  #: the same without the cache, for text that is made anew each epoch
    collator: Collator
    max_length: int
    seed: int
    device: torch.device
    precision: str
    cache: Path  #: folder of what runs share: parses, post-trained encoders
    source: list[Example] = field(default_factory=list)  #: labelled, for training
    dev: list[Example] = field(default_factory=list)  #: labelled, to choose the epoch
    target: list[Example] = field(default_factory=list)  #: unlabelled; empty if no method reads target text
    validation: list[Example] = field(default_factory=list)  #: a sample of the target for validators, always there
    relations: dict[str, int] = field(default_factory=dict)  #: ids of relation names met in source and target
    truncation: dict[str, Truncation] = field(default_factory=dict)  #: what ``max_length`` cut off, by part
    task_config: dict[str, Any] = field(default_factory=dict)  #: for whoever loads the model
    saved_runs: Any = None  #: :class:`domadapt.inference.model.SavedRuns`; None where nothing is trained
    source_only: Path | None = None  #: folder of the run on the source alone, where a method reads it
    epochs: int = 0  #: of training; 0 where nothing is trained
    corpora: Corpora = None  # type: ignore[assignment]
    readings: TargetReadings = field(init=False)

    def __post_init__(self) -> None:
        self.corpora = self.corpora or Corpora(self.domains, self.parser)
        self.readings = TargetReadings(self)

    def autocast(self) -> AbstractContextManager[Any]:
        """The run's precision for code outside Lightning."""
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.precision == "bf16-mixed")

    def attach(self) -> None:
        """Tell the methods their names, let them hook in, and let batches carry their tensors."""
        for name, method in self.methods.items():
            method.name, hooks = name, self._hooks_on_states()
            try:
                method.attach(self)
                if "session" not in vars(method):
                    raise ValueError(f"{name}: {type(method).__name__}.attach() does not call super().attach(session)")
            except UnreachableAttention as error:
                raise ValueError(f"{name}: needs attention that it can reach, and {error}") from error
            if self._hooks_on_states() > hooks and not method.used_at_prediction:
                lost = "what it changes beyond training is scored, and the saved model lacks it"
                log.warning("%s hooks into the states; unless used_at_prediction = True in its class, %s", name, lost)
            self.collator.extras[name] = method.collate

    def _hooks_on_states(self) -> int:
        return sum(len(getattr(self.encoder, hooks, ())) for hooks in ("states_hooks", "output_hooks"))

    def reads(self, what: str) -> bool:
        """Whether a method reads something (:attr:`~domadapt.methods.method.Method.reads`) for this task."""
        return any(what in m.reads and self.task.kind in m.tasks for m in self.methods.values())

    @property
    def parses_at_prediction(self) -> bool:
        """Whether texts come to scoring and prediction with their parses."""
        return self.reads("parses_at_prediction")

    def examples(self, texts: Sequence[Text], part: str, parses: bool, labelled: bool) -> list[Example]:
        """Tokenise texts; parse them if asked, and tag them if labelled. Truncation is counted by ``part``."""
        examples, self.truncation[part], warnings = self._encoded(texts, part, parses, labelled, self.parser)
        self.domains.warnings.update(warnings)
        return examples

    def _encoded(
        self, texts: Sequence[Text], part: str, parses: bool, labelled: bool, parser: Parser
    ) -> tuple[list[Example], Truncation, Counter[str]]:
        warnings = Counter[str]()
        words: list[IntArray] = [np.empty((0, 2), dtype=np.int64)] * len(texts)
        trees = None
        if parses:
            trees = list(progress(parser.parse(texts), f"parse {part}", len(texts), "text"))
            words = [tree.words for tree in trees]
            warn_of_parses([t.text for t in texts], trees, parser.name, warnings)
        elif self.task.kind == "token":  # else nothing reads words
            given = all(text.words is not None for text in texts)  # by their owner, whoever the parser is
            words = [word_ranges(t.words or ()) for t in texts] if given else list(parser.tokenize(texts))
        targets: dict[str, Any] = {}
        if labelled:
            records = [t for t in texts if isinstance(t, Record)]
            self.task.check(records)
            targets = self.task.targets(records, words, warnings)
        strings, domains = [t.text for t in texts], [getattr(t, "domain", "") for t in texts]
        tokenizer = self.encoder.tokenizer
        examples, cut = encode(strings, words, tokenizer, self.max_length, trees, **targets, domains=domains)
        # Texts that may have been cut are counted as such.
        whole = [e for e in examples if len(e.input_ids) < self.max_length]
        if bare := sum(unread_words(e.text, e.words, e.alignment) for e in whole):
            warnings[UNREAD] += bare
        return examples, cut, warnings

    def read(self, examples: Sequence[Example], title: str) -> list[ReadText]:
        """What the model makes of examples, one after the other."""
        ordered = [replace(example, index=place) for place, example in enumerate(examples)]
        result: dict[int, ReadText] = {}
        for batch, output in self.outputs(ordered, 64, title):
            rows = self.task.log_probabilities(output, batch).cpu()
            counts, words = [1] * len(batch.index), np.zeros(len(rows), np.int64)
            if self.task.kind == "token":
                read = batch.node_first_piece >= 0
                texts, places = (part[read].cpu() for part in batch.node_places())
                counts, words = torch.bincount(texts, minlength=len(batch.index)).tolist(), places.numpy()
            numbers = np.split(words, np.cumsum(counts)[:-1])
            for place, row, word_numbers in zip(batch.index.tolist(), rows.split(counts), numbers, strict=True):
                result[place] = ReadText(word_numbers.tolist(), row)
        return [result[place] for place in range(len(examples))]

    def evaluate(self, examples: Sequence[Example], batch_size: int, title: str) -> Evaluation:
        """Predict texts in length order, and return predictions in the order of ``examples``, indexed from 0."""
        results: list[Prediction | None] = [None] * len(examples)
        rows: list[Predicted] = []
        for batch, output in self.outputs(examples, batch_size, title):
            places = batch.index.tolist()
            decoded = self.task.decode(output, batch, [examples[i].words for i in places])
            for place, prediction in zip(places, decoded, strict=True):
                results[place] = replace(prediction, truncated=True) if examples[place].cut else prediction
            rows.append(self.task.rows(output, batch))
            if not np.isfinite(rows[-1].probabilities).all():  # a NaN would be the largest of them, and a label
                why = "its weights are damaged, or its training diverged"
                fix = "copy its folder again, or train with a lower trainer.learning_rate"
                raise ValueError(f"{title}: the model's outputs are NaN: {why}; {fix}")
        return Evaluation([r for r in results if r is not None], joined(rows, len(self.task.labels)))

    def real_relations(self) -> set[str]:
        """Relations in all texts that are read, whatever control the batches' trees are under: one may hide some."""
        parser = self.corpora.parser
        if parser is self.parser:
            return {*self.relations}
        target = self.domains.unlabelled.texts if self.reads("target") else ()
        return {name for parse in parser.parse([*self.domains.source_train, *target]) for name in parse.relations}

    @property
    def augments(self) -> bool:
        """Whether a method changes the source's text from epoch to epoch, for this task."""
        return any(method.augments and self.task.kind in method.tasks for method in self.methods.values())

    def augmented(self, epoch: int) -> list[Example]:
        """The source examples of an epoch, counted from 0; only what a method has changed is tokenised again."""
        random = np.random.default_rng([self.seed, epoch])
        originals = self.domains.source_train
        records: Sequence[Record] = originals
        for name, method in self.methods.items():
            records = method.augment(records, epoch, random)
            if len(records) != len(originals) or not all(isinstance(record, Record) for record in records):
                what = f"{len(records)} items, the first {next(iter(records), None)!r:.60}"
                raise ValueError(f"{name}.augment() returned {what}; expected {len(originals)} source records")
            for old, new in zip(originals, records, strict=True):
                if old is not new and (was := _labels(old)) != (now := _labels(new)):
                    raise ValueError(f"{name}.augment() labels record {old.id} as {now}; expected, as before, {was}")
        changed = [i for i, (old, new) in enumerate(zip(originals, records, strict=True)) if old is not new]
        texts = [records[i] for i in changed]
        with preserve_random_state():  # a parser that is loaded only now draws random numbers
            # Counted as first read.
            made, *_ = self._encoded(texts, "source train", self.reads("parses"), True, self.uncached)
        result = list(self.source)
        for place, example in zip(changed, made, strict=True):
            result[place] = replace(example, index=place)
        return result

    def transformed(self, output: Output, batch: Batch) -> Output:
        """What the methods make of an encoder's output before the task reads it."""
        for method in self.methods.values():
            output = method.transform(output, batch)
        return output

    @torch.no_grad()
    def outputs(
        self, examples: Sequence[Example], batch_size: int, title: str, alone: bool = False
    ) -> Iterator[tuple[Batch, Output]]:
        """What the model, as it predicts, says of examples: batch by batch, longest first; ``batch.index`` tells which.

        Encoder and methods are in evaluation mode meanwhile; ``alone``, without what methods make of the output.
        """
        modules = [self.encoder, *self.methods.values()]
        training = [module.training for module in modules]
        for module in modules:
            module.eval()
        try:
            loader: Any = in_order(examples, self.collator, batch_size) if examples else []
            for batch in progress(loader, title, len(loader), "batch"):
                batch = batch.to(self.device)
                with self.autocast():
                    output = self.encoder(batch)
                    output = output if alone else self.transformed(output, batch)
                yield batch, output
        finally:
            for module, was in zip(modules, training, strict=True):
                module.train(was)
