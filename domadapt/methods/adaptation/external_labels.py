r"""Labels of target texts that a large model, or anyone, wrote: learnt softly, for they may be wrong.

Each file is an annotator with a confusion matrix of its own, and a network that was trained on the source alone says
what else is likely. With :math:`p_{ik}` that network's probability of class k of word (or text) i, tempered by T, and
:math:`C^f_{kl} = P(\text{file } f \text{ says } l \mid k)`,

.. math:: q_{ik} \propto w_k \, p_{ik}^{1/T} \prod_f C^f_{k\,y_{if}}

is learnt, beside the source, where w corrects for classes that are commoner in the target than the network takes them
to be. Matrices and w are found by expectation-maximisation, as by Dawid & Skene (1979, Applied
Statistics 28) with the network in place of a prior (Raykar et al. 2010, JMLR 11); of some temperatures that is taken
under which the files are likeliest. So a file that drops or invents spans is believed less where the network is sure
of the contrary, and more where it is not. No target label is read: what the files hold is an estimate like any other.

Costs a pass of the source-only network over the target, and a step on ``batch_size`` texts beside each on the source.
Fails where network and files err alike.
"""

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from domadapt.data.batches import Example
from domadapt.data.readers import read
from domadapt.data.records import Record
from domadapt.methods.method import Method, Step, View, in_range
from domadapt.methods.units import logits_of

log = logging.getLogger(__name__)
TEMPERATURES = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0)  # that the network's probabilities may need
ROUNDS = 30  # of expectation and maximisation
RIGHT = 0.8  # share of a file's labels that are taken to be right at first
SHOWN = 30  # words, or texts, on which network and files disagree that a run tells


class ExternalLabels(Method):
    """Soft labels by files and network together.

    Args:
        path: a file, or a list of files of several annotators.
        batch_size: texts of the files a step.
        weight: of the loss.

    Attributes:
        examples: the texts that a file labels.
        soft: of each, (rows, classes) probabilities of its words with a piece, or (1, classes).
    """

    reads = frozenset({"target", "source_only"})

    def __init__(self, path: str | Sequence[str] | None, batch_size: int, weight: float) -> None:
        super().__init__({"external_labels": weight})
        in_range("external_labels.batch_size", batch_size, 1)
        if not path:
            raise ValueError(
                f"external_labels.path={path!r}: expected a file of labelled target texts, such as "
                f"adaptation.external_labels.path=llm.jsonl, or several: [one.jsonl,other.jsonl]"
            )
        self.paths = [path] if isinstance(path, str) else [str(one) for one in path]
        self.batch_size = batch_size
        self.examples: list[Example] = []
        self.soft: list[Tensor] = []

    def prepare(self) -> dict[str, Any]:
        """Read the files, ask the network, and estimate how often each is right.

        Raises:
            ValueError: a file labels none of the target's texts, or with labels that the source does not have.
        """
        session = self.session
        network = session.readings.source_only()
        by_text = {example.text.strip(): example for example in session.target if example.index in network}
        files = [self._read(path, by_text) for path in self.paths]
        numbers = sorted({number for labels in files for number in labels})
        by_number = {example.index: example for example in session.target}
        self.examples = [by_number[number] for number in numbers]
        rows = [network[number] for number in numbers]
        answers = torch.stack([
            torch.cat([
                labels[n][r.words] if n in labels else torch.full((len(r.words),), -1)
                for n, r in zip(numbers, rows, strict=True)
            ])
            for labels in files
        ])  # fmt: skip
        probabilities = torch.cat([text.rows for text in rows]).float().exp()
        soft, confusions, temperature = posterior(probabilities, answers)
        self.soft = list(soft.split([len(text.rows) for text in rows]))
        found: dict[str, Any] = {"external_labels/texts": len(numbers), "external_labels/temperature": temperature}
        for path, answer, confusion in zip(self.paths, answers, confusions, strict=True):
            right = soft[answer >= 0].gather(1, answer[answer >= 0].unsqueeze(1)).squeeze(1)
            something = answer[answer >= 0] > 0 if session.task.kind == "token" else answer[answer >= 0] >= 0
            share = float(right[something].mean()) if bool(something.any()) else 0.0
            found[f"external_labels/{path.rpartition('/')[2]}"] = round(share, 3)
            log.info("external_labels: %s: %.0f %% of its labels are taken to be right", path, 100 * share)
            log.debug("external_labels: %s: confusion %s", path, confusion.tolist())
        found["external_labels/disputed"] = self._disputed(probabilities.argmax(-1), answers[0], rows)
        return found

    def _read(self, path: str, by_text: dict[str, Example]) -> dict[int, Tensor]:
        """Class ids of each word, or the class id, of each target text that a file labels, by the text's number."""
        session = self.session
        corpus = read(path, domain=session.domains.target)
        annotated = [r for r in corpus.records if r.spans is not None or r.label is not None]
        known = [r for r in annotated if r.text.strip() in by_text]
        if not known:
            raise ValueError(
                f"{path}: none of its {len(annotated)} labelled texts is among the {len(by_text)} texts of the target "
                f"that are read; expected texts of the target's file, letter by letter"
            )
        if other := len(annotated) - len(known):
            log.warning("external_labels: %s: %d of %d texts are none of the target's", path, other, len(annotated))
        for message, count in sorted(corpus.warnings.items()):
            log.warning("%s: %s (%d times)", path, message, count)
        session.task.check(known)
        examples = [by_text[record.text.strip()] for record in known]
        placed = [moved(record, example.text) for record, example in zip(known, examples, strict=True)]
        targets = session.task.targets(placed, [example.words for example in examples], Counter())
        classes = targets["word_tags"] if session.task.kind == "token" else targets["labels"]
        return {example.index: torch.as_tensor(own).view(-1) for example, own in zip(examples, classes, strict=True)}

    def _disputed(self, network: Tensor, file: Tensor, rows: Sequence[Any]) -> list[str]:
        """What the first file and the network call differently, most frequent first."""
        labels, counted, place = self.session.task.labels, Counter[str](), 0
        for example, text in zip(self.examples, rows, strict=True):
            for row, word in enumerate(text.words, place):
                if file[row] >= 0 and file[row] != network[row]:
                    start, end = example.words[word] if self.session.task.kind == "token" else (0, 60)
                    written = example.text[start:end].lower()
                    counted[f"{written}: file {labels[file[row]]}, network {labels[network[row]]}"] += 1
            place += len(text.words)
        return [f"{what} ({count})" for what, count in counted.most_common(SHOWN)]

    def losses(self, step: Step) -> dict[str, Tensor]:
        """Cross entropy of some of the texts' soft labels."""
        if not self.examples:
            return {}
        chosen = torch.randperm(len(self.examples))[: self.batch_size].tolist()
        session, token = self.session, self.session.task.kind == "token"
        view = View(session.collator([self.examples[i] for i in chosen]).to(session.device), session)
        log_likelihoods = F.log_softmax(logits_of(view.output, view.batch, token).float(), -1)
        soft = torch.cat([self.soft[i] for i in chosen]).to(log_likelihoods.device)
        return {"external_labels": -(soft * log_likelihoods).sum(-1).mean()}


def moved(record: Record, text: str) -> Record:
    """A record whose spans are those of a text that differs from its own in spaces around it."""
    by = text.find(record.text.strip()) - record.text.find(record.text.strip())
    spans = record.spans and tuple(replace(span, start=span.start + by, end=span.end + by) for span in record.spans)
    return replace(record, text=text, spans=spans)


def posterior(probabilities: Tensor, answers: Tensor) -> tuple[Tensor, Tensor, float]:
    """What files and network together say, and how far each file is to be trusted.

    Args:
        probabilities: (rows, classes) of the network.
        answers: (files, rows) class ids, -1 where a file says nothing.

    Returns:
        (rows, classes) probabilities, (files, classes, classes) confusion matrices by truth, and the temperature.

    >>> network = torch.tensor([[0.6, 0.4], [0.4, 0.6]]).repeat(50, 1)
    >>> soft, confusions, _ = posterior(network, torch.tensor([[0, 1] * 50]))
    >>> bool((soft.argmax(-1) == torch.tensor([0, 1] * 50)).all()), bool(confusions[0, 0, 0] > 0.9)
    (True, True)
    """
    best: tuple[float, Tensor, Tensor, float] | None = None
    for temperature in TEMPERATURES:
        prior = (probabilities.clamp(min=1e-9).log() / temperature).log_softmax(-1)
        likelihood, soft, confusions = _maximised(prior, answers)
        if best is None or likelihood > best[0] + 1e-6:
            best = likelihood, soft, confusions, temperature
    assert best is not None
    return best[1:]


def _maximised(prior: Tensor, answers: Tensor) -> tuple[float, Tensor, Tensor]:
    """Log-likelihood of the answers, (rows, classes) posterior, and confusion matrices, after :data:`ROUNDS`."""
    classes = prior.shape[1]
    off = (1 - RIGHT) / max(1, classes - 1)
    start = torch.full((classes, classes), off).fill_diagonal_(RIGHT)
    confusions, given = start.repeat(len(answers), 1, 1), answers >= 0
    one_hot = F.one_hot(answers.clamp(min=0), classes).float() * given.unsqueeze(-1)
    shares = torch.zeros(classes)  # logarithms of what each class is commoner than the network takes it to be
    for _ in range(ROUNDS):
        believed = (prior + shares).log_softmax(-1)
        joint = believed + torch.einsum("frl,fkl->rk", one_hot, confusions.log())
        soft = joint.softmax(-1)
        counts = torch.einsum("rk,frl->fkl", soft, one_hot) + start  # a pseudo-count, so that nothing is impossible
        confusions = counts / counts.sum(-1, keepdim=True)
        shares = shares + soft.mean(0).log() - believed.exp().mean(0).log()
    return float(joint.logsumexp(-1).sum()), soft, confusions
