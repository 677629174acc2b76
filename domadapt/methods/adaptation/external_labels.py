r"""Labels of target texts that a large model, or anyone, wrote are learnt softly, for they may be wrong.

A network is one teacher, and each file is another: in the first epoch a network that was trained on the source alone,
then the one that learns, as it is after each epoch (soft bootstrapping, Reed et al. 2015). With :math:`p_{ik}` the
network's probability of class k of word (or text) i, F files that hold the text, :math:`y_{fik}` 1 where file f says
k, and :math:`c_{fi}` its confidence (1 where the file says none),

.. math:: q_{ik} = \frac{1}{1 + F} \Big(p_{ik} + \sum_f c_{fi}\, y_{fik} + (1 - c_{fi})\, p_{ik}\Big)

is sharpened and learnt beside the source, with a cross entropy. No target label is read: files hold estimates.

Costs a pass of the source-only network over the target, one over the files' texts after each epoch, and a step on
``batch_size`` texts beside each on the source.
Fails where network and files err alike.
"""

import logging
from collections import Counter
from collections.abc import Container, Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from domadapt.data.batches import Example
from domadapt.data.domains import Domains
from domadapt.data.readers import read
from domadapt.data.records import NO_PROBABILITY, Record
from domadapt.methods.method import Method, Step, View, in_range
from domadapt.methods.units import logits_of
from domadapt.tasks.task import Task, labels_of
from domadapt.utils.text import warning_lines

log = logging.getLogger(__name__)
TEMPERATURE = 0.5  # as the recipe's self_training has it
NO_ANSWER = torch.tensor([[-1.0], [1.0]])  # what a file says of a text that it does not hold
SHOWN_DISAGREEMENTS = 30  # words, or texts, on which network and files disagree that a run tells


class ExternalLabels(Method):
    """Soft labels by files and network together."""

    reads = frozenset({"target", "source_only"})

    def __init__(self, path: str | Sequence[str] | None, batch_size: int, weight: float, bootstrap: bool) -> None:
        super().__init__({"external_labels": weight})
        in_range("external_labels.batch_size", batch_size, 1)
        if not path:
            raise ValueError(
                f"external_labels.path={path!r}: expected a file of labelled target texts, such as "
                f"adaptation.external_labels.path=llm.jsonl, or several: [one.jsonl,other.jsonl]"
            )
        self.paths = [path] if isinstance(path, str) else [str(file) for file in path]
        self.batch_size, self.bootstrap = batch_size, bootstrap
        self.examples: list[Example] = []  #: that a file labels
        self.soft_labels: list[Tensor] = []  #: of each, (rows, classes) log-probabilities: its words' or its own
        self.file_answers = NO_ANSWER, NO_ANSWER  #: (files, rows) class ids, and confidences

    def refuse(self, domains: Domains, task: Task) -> None:
        """Refuse what :meth:`prepare` could not use, and tell what is odd in the files."""
        texts = {text.text.strip() for text in domains.unlabelled.texts}
        for path in self.paths:
            _warn(path, read_labelled(path, domains.target, texts, task)[1])

    def prepare(self) -> dict[str, Any]:
        """Read the files, and ask the network."""
        session = self.session
        by_text = {example.text.strip(): example for example in session.target}
        files = [self._read(path, by_text) for path in self.paths]
        numbers = sorted({number for labels in files for number in labels})
        self.examples = [session.target[number] for number in numbers]
        network = session.readings.source_only(self.examples)
        rows = [network[number] for number in numbers]

        def file_rows(labels: dict[int, Tensor], number: int) -> Tensor:
            words = network[number].words
            return labels[number][:, words] if number in labels else NO_ANSWER.expand(2, len(words))

        given = torch.stack([torch.cat([file_rows(labels, number) for number in numbers], dim=1) for labels in files])
        answers, sure = given[:, 0].long(), given[:, 1]
        probabilities = torch.cat([text.rows for text in rows]).float().exp()
        self.file_answers, self.soft_labels = (answers, sure), [text.rows for text in rows]
        self._teach(probabilities)
        result: dict[str, Any] = {"external_labels/texts": len(numbers)}
        for path, answer in zip(self.paths, answers, strict=True):
            something = answer > 0 if session.task.kind == "token" else answer >= 0
            agree = (probabilities.argmax(-1) == answer)[something].float()
            share = float(agree.mean()) if len(agree) else 0.0
            result[f"external_labels/{path.rpartition('/')[2]}"] = round(share, 3)
            log.info("external_labels: %s: the network agrees with %.0f %% of its labels", path, 100 * share)
        result["external_labels/disputed"] = self._disagreements(probabilities.argmax(-1), answers[0], rows)
        return result

    def _teach(self, probabilities: Tensor) -> None:
        """Soft labels by the files and a network's (rows, classes) probabilities."""
        soft = average_answers(probabilities, *self.file_answers).clamp(min=1e-9).log()
        self.soft_labels = list(soft.split([len(rows) for rows in self.soft_labels]))

    def after_epoch(self, epoch: int) -> None:
        """The network takes the source-only one's place."""
        if self.bootstrap and self.examples and epoch + 1 < self.session.epochs:
            texts = self.session.read(self.examples, "read labelled texts")
            self._teach(torch.cat([text.rows for text in texts]).float().exp())

    def memory(self) -> dict[str, Any]:
        return {"soft": torch.cat(self.soft_labels)} if self.soft_labels else {}

    def recall(self, memory: dict[str, Any]) -> None:
        if self.soft_labels:
            self.soft_labels = list(memory["soft"].split([len(rows) for rows in self.soft_labels]))

    def _read(self, path: str, by_text: dict[str, Example]) -> dict[int, Tensor]:
        """Of each text that a file labels, by its number: (2, words) class ids and confidences, or (2, 1)."""
        session = self.session
        known, warnings = read_labelled(path, session.domains.target, by_text, session.task)[0], Counter[str]()
        examples = [by_text[record.text.strip()] for record in known]
        placed = [shift_spans(record, example.text) for record, example in zip(known, examples, strict=True)]
        targets = session.task.targets(placed, [example.words for example in examples], warnings)
        _warn(path, warnings)
        spans = session.task.kind == "token"
        classes = targets["word_tags"] if spans else targets["labels"]
        sure = [confidences(r, e.words if spans else None) for r, e in zip(placed, examples, strict=True)]
        stacked = [torch.stack([torch.as_tensor(ids).view(-1), how]) for ids, how in zip(classes, sure, strict=True)]
        return {example.index: rows for example, rows in zip(examples, stacked, strict=True)}

    def _disagreements(self, network: Tensor, file: Tensor, rows: Sequence[Any]) -> list[str]:
        """What the first file and the network call differently, most frequent first."""
        labels, counted, place = self.session.task.labels, Counter[str](), 0
        for example, text in zip(self.examples, rows, strict=True):
            for row, word in enumerate(text.words, place):
                if file[row] >= 0 and file[row] != network[row]:
                    start, end = example.words[word] if self.session.task.kind == "token" else (0, 60)
                    written = example.text[start:end].lower()
                    counted[f"{written}: file {labels[file[row]]}, network {labels[network[row]]}"] += 1
            place += len(text.words)
        return [f"{what} ({count})" for what, count in counted.most_common(SHOWN_DISAGREEMENTS)]

    def losses(self, step: Step) -> dict[str, Tensor]:
        """Cross entropy of some of the texts' soft labels."""
        if not self.examples:
            return {}
        chosen = torch.randperm(len(self.examples))[: self.batch_size].tolist()
        session = self.session
        view = View(session.collator([self.examples[i] for i in chosen]).to(session.device), session)
        logits = logits_of(view)
        wanted = (torch.cat([self.soft_labels[i] for i in chosen]).to(logits.device) / TEMPERATURE).softmax(-1)
        return {"external_labels": -(wanted * F.log_softmax(logits, -1)).sum(-1).mean()}


def read_labelled(path: str, domain: str, texts: Container[str], task: Task) -> tuple[list[Record], Counter[str]]:
    """A file's labelled records of texts that are among the target's, and what was mended or is to be told."""
    corpus = read(path, domain=domain)
    annotated = tuple(r for r in corpus.records if r.spans is not None or r.label is not None)
    annotated = task.usable(annotated, Counter())  # doccano writes an empty list of spans for a text without a label
    known = [record for record in annotated if record.text.strip() in texts]
    if not annotated:
        fix = "label some; spans are JSON Lines, or rows of a table with columns start, end and type"
        raise ValueError(f"{path}: none of its {len(corpus.records)} records has a label or spans; {fix}")
    if not known:
        raise ValueError(
            f"{path}: none of its {len(annotated)} labelled texts is among the texts of the target that are read; "
            f"expected texts of the target's file, letter by letter; with data.lowercase or data.detokenise, so changed"
        )
    if bad := [line for line in warning_lines(corpus.warnings) if line.startswith(NO_PROBABILITY)]:
        raise ValueError(f"{path}: {bad[0].replace(', ignored', '')}; write a probability, or leave it out")
    task.check(known)
    if pairs := contradictory(known, task.kind):
        lines = " and ".join(str(record.where and record.where.line) for record in pairs[0])
        corpus.warnings[f"different labels of one text, the last counts; first on lines {lines}"] = len(pairs)
    if blank := len(corpus.records) - len(annotated):
        corpus.warnings["text without labels, left out"] = blank
    if other := len(annotated) - len(known):
        corpus.warnings["text that is none of the target's, left out"] = other
    return known, corpus.warnings


def _warn(path: str, warnings: Counter[str]) -> None:
    for line in warning_lines(warnings):
        log.warning("%s: %s", path, line)


def contradictory(records: Iterable[Record], kind: str) -> list[tuple[Record, Record]]:
    """Records that label a text differently from the first one with it, each behind that one."""
    first = dict[str, Record]()
    pairs = [(first.setdefault(r.text, r), r) for r in (shift_spans(record, record.text.strip()) for record in records)]
    return [(one, other) for one, other in pairs if labels_of(one, kind) != labels_of(other, kind)]


def shift_spans(record: Record, text: str) -> Record:
    """A record whose spans are those of a text that differs from its own in spaces around it."""
    by = text.find(record.text.strip()) - record.text.find(record.text.strip())
    spans = record.spans and tuple(replace(span, start=span.start + by, end=span.end + by) for span in record.spans)
    return replace(record, text=text, spans=spans)


def confidences(record: Record, words: Iterable[Sequence[int]] | None) -> Tensor:
    """How sure a file is of each word's tag or, without ``words``, of the text's label; 1 where it does not say.

    >>> from domadapt.data.records import Span
    >>> confidences(Record("1", "laptop", "The fan", spans=(Span(4, 7, "aspect", 0.25),)), [(0, 3), (4, 7)]).tolist()
    [1.0, 0.25]
    """
    if words is None:
        return torch.tensor([1.0 if record.confidence is None else record.confidence])
    sure = [span for span in record.spans or () if span.confidence is not None]
    return torch.tensor([
        next((span.confidence for span in sure if start < span.end and span.start < end), 1.0) for start, end in words
    ])  # fmt: skip


def average_answers(probabilities: Tensor, answers: Tensor, confidences: Tensor) -> Tensor:
    """Mean of the network's (rows, classes) probabilities and what files say.

    ``answers``: (files, rows) class ids, -1 for nothing; ``confidences``: theirs, for the rest the network decides.

    >>> network, answers = torch.tensor([[0.6, 0.4], [0.4, 0.6]]), torch.tensor([[0, -1], [1, -1]])
    >>> average_answers(network, answers, torch.tensor([[1.0, 1.0], [0.5, 1.0]])).tolist()
    [[0.6333333253860474, 0.36666667461395264], [0.4000000059604645, 0.6000000238418579]]
    """
    given = (answers >= 0).unsqueeze(-1)
    labels = F.one_hot(answers.clamp(min=0), probabilities.shape[1]).float()
    votes = torch.lerp(probabilities.expand_as(labels), labels, confidences.unsqueeze(-1)) * given
    return (probabilities + votes.sum(0)) / (1 + given.sum(0))
