r"""The model learns its own labels of the target, beside the source.

After a share ``start_after`` of training, and after each epoch that follows, the model labels the unlabelled target
with the probabilities that decoding has. Sharpened, :math:`q_c \propto p_c^{1/T}`, they are learnt:

.. math:: L = L_{task}(source) + w \cdot \frac{-\sum_i v_i \sum_c q_{ic} \log p_{ic}}{\sum_i v_i},

with weight :math:`v_i = 1` where the model is sure, :math:`\max_c p_{ic} > \tau`, and a tenth elsewhere (as in BOND,
Liang et al. 2020, https://arxiv.org/abs/2006.15509, softly). With ``average``, p is the mean of two unlike teachers,
this network and one that was trained on the source alone, as a run of its own: beside ``term_substitution``, which
finds much and some of it wrongly, it misses much and errs seldom. Beside ``averaging``, the labels are those of the
weights' moving average: a mean teacher (Tarvainen & Valpola 2017, https://arxiv.org/abs/1703.01780). Where texts are
classified, labels are weighted to be of the source's classes all together, lest the commonest grow each round; the
tenth is on top of that.

With ``bag_of_words``, a linear classifier of words is one more teacher of whole texts (co-training, Blum & Mitchell
1998). It learns the source's labels and the other teachers' of the target, and labels texts that it has not learnt
from. So it knows which words of the target go with which class over the whole corpus, which a network that reads text
by text does not; and it errs in other places.

Costs a pass over the target after each epoch, and a step on target text beside each on the source. It drives towards
what it already believes, right or wrong. So labels that have collapsed are not learnt from, and the log says so:
where the share of words that are something is less than a quarter or more than four times the source's, or a class
that is common in the source is found less than a quarter as often.
"""

import logging
import math
import re
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from domadapt.data.batches import Example
from domadapt.data.records import marks_as_letters
from domadapt.methods.method import Method, Step, in_range
from domadapt.methods.session import Session
from domadapt.methods.units import logits_of, rows_by_key
from domadapt.utils.text import listed

log = logging.getLogger(__name__)
FloatArray = NDArray[np.float64]
UNSURE = 0.1  # weight of words that the model is not sure of
FACTOR = 4.0  # by which the labels' rate may be off the source's, and the most that a label may count for
TOKEN = re.compile(r"\w+|[^\w\s]")  # a word or a sign: of any text that is not empty
TERMS = 20_000  # words and pairs of words, at most: the most frequent
FOLDS = 5  # of target texts, each labelled by a bag of words that has learnt from the others
RARE = 0.05  # share of the source that a class may have and yet be missed


class SelfTraining(Method):
    """Pseudo-labels on the target."""

    labels_target = True

    def __init__(
        self,
        start_after: float,
        temperature: float,
        confidence: float,
        weight: float,
        average: bool,
        bag_of_words: bool,
    ) -> None:
        super().__init__({"self_training": weight})
        in_range("self_training.start_after", start_after, 0.0, 1.0)
        in_range("self_training.temperature", temperature, 0.01, 10.0)
        in_range("self_training.confidence", confidence, 0.0, 1.0)
        self.start_after, self.average, self.bag_of_words = start_after, average, bag_of_words
        self.temperature, self.confidence = temperature, confidence
        self.reads = frozenset({"target", *(["source_only"] if average else [])})
        self.labels: dict[int, Tensor] = {}  # by number of the text: (rows, classes) log-probabilities
        self.counts = torch.ones(0)  # (classes,) what a label of each counts for
        self.refusals = 0

    def attach(self, session: Session) -> None:
        super().attach(session)
        self.token = session.task.kind == "token"
        self.first_epoch = max(1, round(self.start_after * session.epochs))

    def idle(self, epochs: int) -> str:
        refused = "its labels of the target had collapsed and were not learnt from" if self.refusals else ""
        return super().idle(epochs) or (refused if not self.labels else "")

    def after_epoch(self, epoch: int) -> None:
        """Label the target, unless the labels have collapsed."""
        if epoch + 1 < self.first_epoch or epoch + 1 == self.session.epochs:  # nothing is learnt after the last
            return
        labels = {number: text.rows for number, text in self.session.readings.now().items()}
        if not labels:
            return
        if self.average:
            others = self.session.readings.source_only()
            labels = {number: mean(rows, others[number].rows) for number, rows in labels.items()}
        if self.bag_of_words and not self.token and not self.session.task.pairs:
            labels = self.add_bag_of_words(labels)
        classes = torch.cat([*labels.values()]).argmax(-1)
        count = len(self.session.task.labels)
        shares = classes.bincount(minlength=count) / len(classes)
        wanted = source_shares(self.session)
        if collapsed := self.collapse_reason(shares, wanted):
            self.refusals += 1
            self.labels = {}
            log.warning("self_training: after epoch %d, %s: the labels are not learnt from", epoch + 1, collapsed)
            return
        self.counts = torch.ones(count) if self.token else (wanted / shares.clamp(min=1e-8)).clamp(max=FACTOR)
        self.labels = labels

    def add_bag_of_words(self, labels: dict[int, Tensor]) -> dict[int, Tensor]:
        """The mean of (1, classes) log-probabilities of texts and a bag of words', which counts as one teacher."""
        texts = {example.index: example.text for example in self.session.target}
        source = [(example.text, example.label) for example in self.session.source if example.label is not None]
        rows = torch.cat([*labels.values()])
        words = by_bag_of_words(source, [texts[number] for number in labels], rows.exp().double().numpy())
        teachers = 1 + self.average
        mixed = torch.log((teachers * rows.exp() + torch.from_numpy(words).to(rows)) / (teachers + 1))
        return dict(zip(labels, mixed.split(1), strict=True))

    def collapse_reason(self, shares: Tensor, wanted: Tensor) -> str:
        """What is wrong with labels of these (classes,) shares, where the source has the wanted ones; or empty."""
        if self.token:
            given, expected = float(1 - shares[0]), float(1 - wanted[0])
            if expected / FACTOR <= given <= expected * FACTOR:
                return ""
            words = f"{100 * given:.1f} % of the target's words are labelled as something"
            return f"{words}, {100 * expected:.1f} % of the source's are"
        labels = self.session.task.labels
        common = wanted >= min(RARE, 0.5 / len(labels))
        lost = listed([repr(labels[i]) for i in (common & (shares < wanted / FACTOR)).nonzero().flatten().tolist()])
        return lost and f"hardly any of the target's texts are labelled {lost}, and many of the source's are"

    def collate(self, examples: Sequence[Example]) -> dict[str, Tensor]:
        """``labels``: (rows, classes) log-probabilities of words with a piece, or of texts; zeros for unlabelled."""
        if not self.labels:
            return {}
        counts = [int((e.alignment.word_first_pieces() >= 0).sum()) if self.token else 1 for e in examples]
        return {"labels": rows_by_key(self.labels, (e.index for e in examples), counts, len(self.session.task.labels))}

    def losses(self, step: Step) -> dict[str, Tensor]:
        if step.target is None or not self.labels:
            return {}
        labels, logits = self.own_tensor(step.target.batch, "labels"), logits_of(step.target)
        labelled = labels.exp().sum(-1) < 1.5  # zeros are no log-probabilities
        counts = self.counts.to(logits.device)
        loss = soft_cross_entropy(logits[labelled], labels[labelled], self.temperature, self.confidence, counts)
        return {"self_training": step.target.weight * loss}

    def memory(self) -> dict[str, Any]:
        if not self.labels:
            return {"refused": self.refusals}
        return {
            "refused": self.refusals,
            "counts": self.counts,
            "numbers": torch.tensor([*self.labels]),
            "lengths": torch.tensor([len(rows) for rows in self.labels.values()]),
            "rows": torch.cat([*self.labels.values()]),
        }

    def recall(self, memory: dict[str, Any]) -> None:
        self.refusals, self.labels = int(memory["refused"]), {}
        if "rows" in memory:
            rows = memory["rows"].split(memory["lengths"].tolist())
            self.labels = dict(zip(memory["numbers"].tolist(), rows, strict=True))
            self.counts = memory["counts"]


def mean(one: Tensor, other: Tensor) -> Tensor:
    """Log-probabilities of the mean of two teachers.

    >>> mean(torch.tensor([[0.9, 0.1]]).log(), torch.tensor([[0.5, 0.5]]).log()).exp()
    tensor([[0.7000, 0.3000]])
    """
    return torch.logaddexp(one, other) - math.log(2)


def by_bag_of_words(source: Sequence[tuple[str, int]], texts: Sequence[str], labels: FloatArray) -> FloatArray:
    """(texts, classes) probabilities of texts by logistic regression over TF-IDF of words and pairs of words.

    ``source``: labelled texts. ``labels``: (texts, classes) probabilities by other teachers. The likeliest class of a
    text is learnt from, weighted by its probability; each fifth of the texts is classified by what the others show.

    >>> source = [("great", 1), ("great fun", 1), ("awful", 0), ("awful noise", 0)]
    >>> texts = ["great, crisp"] * 5 + ["awful, blurred"] * 5 + ["crisp"]
    >>> labels = np.array([[0.1, 0.9]] * 5 + [[0.9, 0.1]] * 5 + [[0.6, 0.4]])
    >>> by_bag_of_words(source, texts, labels)[-1].round(1).tolist()
    [0.3, 0.7]
    """
    from scipy.sparse import vstack
    from sklearn.dummy import DummyClassifier
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    known, classes = zip(*source, strict=True)
    takes = {"token_pattern": None, "tokenizer": tokens, "ngram_range": (1, 2), "max_features": TERMS}
    vectorizer = TfidfVectorizer(**takes, sublinear_tf=True)
    vectorizer.fit([*known, *texts])
    of_source, of_target = vectorizer.transform(known), vectorizer.transform(texts)
    answers, sure = labels.argmax(1), labels.max(1)
    fold = np.random.default_rng(0).permutation(len(texts)) % FOLDS
    result = np.full_like(labels, 1e-9)
    for number in range(min(FOLDS, len(texts))):
        held_out = fold == number
        shown = np.concatenate([classes, answers[~held_out]])
        single_class = len(np.unique(shown)) == 1  # which a regression refuses
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)  # many, of few texts
            model = (DummyClassifier() if single_class else LogisticRegression(C=10.0, max_iter=1000)).fit(
                vstack([of_source, of_target[~held_out]]),
                shown,
                sample_weight=np.concatenate([np.ones(len(known)), sure[~held_out]]),
            )
        result[np.ix_(held_out, model.classes_)] = model.predict_proba(of_target[held_out])
    return result


def tokens(text: str) -> list[str]:
    """Words and signs; a combining mark, such as a vowel of Hindi, is a part of its word.

    >>> tokens("अच्छी है, ok!")
    ['अच्छी', 'है', ',', 'ok', '!']
    """
    return [text[found.start() : found.end()] for found in TOKEN.finditer(marks_as_letters(text))]


def source_shares(session: Session) -> Tensor:
    """(classes,) how often each class is annotated in the source's training data, labelled target texts left out."""
    examples = [example for example in session.source if example.domain != session.domains.target] or session.source
    tags = [example.word_tags for example in examples if example.word_tags is not None]
    classes = np.concatenate(tags) if tags else np.array([e.label for e in examples if e.label is not None])
    return torch.from_numpy(np.bincount(classes, minlength=len(session.task.labels)) / max(1, len(classes))).float()


def soft_cross_entropy(logits: Tensor, labels: Tensor, temperature: float, confidence: float, counts: Tensor) -> Tensor:
    """Of sharpened labels, (rows, classes) log-probabilities, weighted by how sure they are; zero without any.

    ``counts``: (classes,) what a row counts for, by its likeliest class.

    >>> labels, even = torch.tensor([[0.9, 0.1]]).log(), torch.ones(2)
    >>> right, wrong = torch.tensor([[2.0, 0.0]]), torch.tensor([[0.0, 2.0]])
    >>> bool(soft_cross_entropy(right, labels, 0.5, 0.7, even) < soft_cross_entropy(wrong, labels, 0.5, 0.7, even))
    True
    """
    if not len(logits):
        return logits.sum()
    weight = torch.where(labels.exp().amax(-1) > confidence, 1.0, UNSURE) * counts[labels.argmax(-1)]
    losses = -((labels / temperature).softmax(-1) * F.log_softmax(logits, -1)).sum(-1)
    return (weight * losses).sum() / weight.sum().clamp(min=1e-8)  # a class that training's source has not counts for 0
