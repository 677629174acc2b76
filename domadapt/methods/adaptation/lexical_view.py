r"""A second reader of the target's texts, which knows nothing but their words, taught by the network.

A network that was trained on books says of a kitchen review what it makes of words that both domains share; 'rusts' and
'dishwasher' tell it little. A linear classifier over words and pairs of words that learns the network's labels of the
unlabelled target finds out which of *its* words go with which class, and reads texts to their end, where the network
reads ``max_pieces``. The two err on different texts, so what it finds is added when the model predicts,

.. math:: \log p(c \mid x) + w \, (\theta_c^\top \phi(x) + b_c - \log \pi_c) \quad \text{(up to a constant)},

with :math:`\phi` the tf-idf of what the unlabelled target has at least three times, :math:`\theta` and b by logistic
regression on the network's labels, each weighted by how sure the network is, and :math:`\pi_c` class c's share of
those weights: how frequent a class is, the network has said already. Akin to co-training (Blum & Mitchell 1998;
across domains, Chen et al. 2011); ``self_training`` beside it teaches the network what both say.

Unlabelled text is often of other classes than the source: most reviews are kind ones, and a classifier that learns so
calls everything kind. So classes are weighted to the source's shares: what is learnt is which words tell, not how often
the target is of a class. A text never is read by a classifier that has learnt from it: there are ``FOLDS`` of them,
each taught by the others' texts, and a checksum of the text tells which one reads it. What they say so of all texts is
calibrated by one more regression (Platt 1999): of a class that teaches by few texts, new texts look too little.

Nothing where words are classified. Costs a pass over target text after each epoch from ``start`` on, and seconds for
the regressions; prediction looks words up in a table. Fails where words are not parted by spaces or punctuation, and
where the network's labels are no better than chance.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from zlib import crc32

import numpy as np
import torch
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from domadapt.data.batches import Batch, Example
from domadapt.methods.class_shares import to_source_shares
from domadapt.methods.method import Method, in_range
from domadapt.models.output import Output

log = logging.getLogger(__name__)
FOLDS = 5
LEAST = 3  # texts that a word must be met in
COUNTED = (
    10  # times as many texts as it learns from tell which words there are: pairs of words of all would fill memory
)


class LexicalView(Method):
    """Words of the target's texts as a second opinion at decoding.

    Args:
        weight: of its evidence beside the network's log-odds.
        words: longest run of words that is looked up as one.
        features: how many of these runs are kept, the commonest first.
        inverse_penalty: of the regression, scikit-learn's C.
        start: epochs before the first is taught.
        texts: target texts that it learns from; a fixed sample.
        batch_size: of the network's pass over them.
    """

    reads = frozenset({"target"})
    used_at_prediction = True

    def __init__(
        self,
        weight: float,
        words: int,
        features: int,
        inverse_penalty: float,
        start: int,
        texts: int,
        batch_size: int,
    ) -> None:
        super().__init__()
        in_range("lexical_view.weight", weight, 0.0, 100.0)
        in_range("lexical_view.words", words, 1)
        in_range("lexical_view.features", features, 1)
        in_range("lexical_view.inverse_penalty", inverse_penalty, 1e-6, 1e6)
        in_range("lexical_view.start", start, 0)
        in_range("lexical_view.texts", texts, 1)
        in_range("lexical_view.batch_size", batch_size, 1)
        self.weight, self.words, self.features, self.inverse_penalty = weight, words, features, inverse_penalty
        self.first_epoch = start
        self.texts, self.batch_size = texts, batch_size
        self.vectorizer: TfidfVectorizer | None = None
        self.coefficients, self.constants = torch.zeros(0), torch.zeros(0)  # (folds, classes, features), less the last

    def prepare(self) -> dict[str, Any]:
        """Find the target's words."""
        self.used_at_prediction = self.setting.task.kind == "sequence"
        if not self.used_at_prediction:
            return {"lexical_view/features": 0}
        vectorizer = self._vectorizer(max_features=self.features, min_df=LEAST)
        try:
            vectorizer.fit(example.text for example in self.setting.target_sample(COUNTED * self.texts, seed=1))
        except ValueError:  # nothing is met so often
            self.used_at_prediction = False
            log.warning("lexical_view: no word is met in %d texts of the unlabelled target: it stays silent", LEAST)
            return {"lexical_view/features": 0}
        self._take(vectorizer.get_feature_names_out().tolist(), vectorizer.idf_)
        return {"lexical_view/features": len(vectorizer.idf_)}

    def _vectorizer(self, **settings: Any) -> TfidfVectorizer:
        return TfidfVectorizer(ngram_range=(1, self.words), sublinear_tf=True, dtype=np.float32, **settings)

    def _take(self, words: list[str], rarity: Any) -> None:
        self.vectorizer = self._vectorizer(vocabulary=words)
        self.vectorizer.idf_ = np.asarray(rarity, dtype=np.float32)

    def after_epoch(self, epoch: int) -> None:
        """Teach it what the network alone says now."""
        if self.vectorizer is None or epoch + 1 < self.first_epoch:
            return
        examples = self.setting.target_sample(self.texts, seed=1)  # those that self_training labels
        said = torch.zeros(len(examples), len(self.setting.task.labels))
        for batch, output in self.setting.outputs(examples, self.batch_size, "teach words", alone=True):
            said[batch.index.cpu()] = output.logits.float().softmax(-1).cpu()
        self.teach([example.text for example in examples], said)

    def teach(self, texts: Sequence[str], said: Tensor) -> None:
        """Learn from labels.

        Args:
            texts: of the target.
            said: (texts, classes) probabilities.
        """
        assert self.vectorizer is not None
        count = said.shape[1]
        self.coefficients = torch.zeros(FOLDS, count, len(self.vectorizer.idf_))
        self.constants = torch.zeros(FOLDS, count)
        found, sure = said.argmax(-1), (count * said.amax(-1) - 1) / max(1, count - 1)
        weight = (sure * to_source_shares(found, self.setting)[found]).numpy()
        rows, folds, classes = self.vectorizer.transform(texts), folds_of(texts), found.numpy()
        for fold in range(FOLDS):
            own = self._regression(rows, classes, weight * (folds != fold), self.inverse_penalty)
            self.coefficients[fold], self.constants[fold] = own
        self.calibrate(texts, classes, weight)

    def calibrate(self, texts: Sequence[str], classes: Any, weight: Any) -> None:
        """Fit what all folds say, each of the texts that it has not learnt from, to their labels; take shares away."""
        matrix, constants = self._regression(self.opinion(texts).numpy(), classes, weight, 1.0)
        shares = torch.from_numpy(np.bincount(classes, weight, self.constants.shape[1])).float()
        prior = shares.log().where(shares > 0, 0.0)  # of classes that are found
        prior = (prior - prior.sum() / max(1, int((shares > 0).sum()))).where(shares > 0, 0.0)
        self.constants = self.constants @ matrix.T + constants - prior
        self.coefficients = torch.einsum("cd,fdw->fcw", matrix, self.coefficients)

    def _regression(self, rows: Any, classes: Any, weight: Any, inverse_penalty: float) -> tuple[Tensor, Tensor]:
        """(classes, columns) and (classes,) of the log-odds; zeros where there is nothing to tell apart."""
        count, taken = len(self.setting.task.labels), weight > 0
        known = np.unique(classes[taken])
        coefficients, constants = torch.zeros(count, rows.shape[1]), torch.zeros(count)
        if len(known) > 1:
            fitted = LogisticRegression(C=inverse_penalty, max_iter=1000)
            fitted.fit(rows[taken], classes[taken], sample_weight=weight[taken])
            own, constant = torch.from_numpy(fitted.coef_).float(), torch.from_numpy(fitted.intercept_).float()
            if len(known) == 2:  # of the second, against the first
                own, constant = torch.cat([-own / 2, own / 2]), torch.cat([-constant / 2, constant / 2])
            coefficients[known], constants[known] = own, constant
        return coefficients, constants

    def opinion(self, texts: Sequence[str]) -> Tensor:
        """(texts, classes) evidence, in log-odds, each by the fold that has not learnt from the text."""
        assert self.vectorizer is not None
        rows, folds = self.vectorizer.transform(texts), folds_of(texts)
        said = torch.zeros(len(texts), self.constants.shape[1])
        for fold in np.unique(folds):
            own = np.flatnonzero(folds == fold)
            said[own] = torch.from_numpy(rows[own] @ self.coefficients[fold].numpy().T) + self.constants[fold]
        return said

    def collate(self, examples: Sequence[Example]) -> dict[str, Tensor]:
        """``opinion``: (texts, classes), where it is read."""
        if self.training or self.vectorizer is None or not len(self.constants):
            return {}
        return {"opinion": self.opinion([example.text for example in examples])}

    def transform(self, output: Output, batch: Batch) -> Output:
        """What both readers find, in scoring and prediction."""
        if self.training or f"{self.name}/opinion" not in batch.extra:
            return output
        return replace(output, logits=output.logits.float() + self.weight * self.own(batch, "opinion"))

    def memory(self) -> dict[str, Any]:
        """The words and what they tell."""
        if self.vectorizer is None:
            return {"words": []}
        words, rarity = self.vectorizer.get_feature_names_out().tolist(), torch.from_numpy(self.vectorizer.idf_).float()
        return {"words": words, "rarity": rarity, "coefficients": self.coefficients, "constants": self.constants}

    def recall(self, memory: dict[str, Any]) -> None:
        """Take them back."""
        self.vectorizer = None
        if memory["words"]:
            self._take(list(memory["words"]), memory["rarity"].numpy())
            self.coefficients, self.constants = memory["coefficients"], memory["constants"]


def folds_of(texts: Sequence[str]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """(texts,) which classifier reads each: the same for the same text, everywhere.

    >>> folds_of(["Sharp.", "Sharp.", "Dull."]).tolist()
    [1, 1, 3]
    """
    return np.array([crc32(text.encode("utf-8", "surrogatepass")) % FOLDS for text in texts], dtype=np.int64)
