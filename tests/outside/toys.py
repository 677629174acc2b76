"""Small methods as a stranger would write them: each stands on the contract alone, and none touches another file."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from domadapt.data.batches import Batch, Example
from domadapt.methods.method import Method, Step
from domadapt.methods.session import Session
from domadapt.models.contracts import Output


class Teacher(Method):
    """An EMA of the encoder labels the target (Tarvainen & Valpola 2017); it is what is scored and saved."""

    reads = frozenset({"target"})

    def __init__(self, decay: float, weight: float) -> None:
        super().__init__({"teacher": weight})
        self.decay = decay

    def attach(self, session: Session) -> None:
        super().attach(session)
        own = session.encoder
        self.teacher = type(own)(own.name, own.kind, own.labels).requires_grad_(False)
        self.teacher.load_state_dict(own.state_dict())

    def parameter_groups(self, rate: float) -> list[dict[str, Any]]:
        return []

    def losses(self, step: Step) -> dict[str, Tensor]:
        with torch.no_grad():
            labels = self.teacher(step.target.batch).logits.softmax(-1)
        return {"teacher": F.cross_entropy(step.target.output.logits.flatten(0, -2), labels.flatten(0, -2))}

    def after_step(self, step: Step) -> None:
        own = self.session.encoder.state_dict()
        for name, weight in self.teacher.state_dict().items():
            if weight.is_floating_point():
                weight.lerp_(own[name], 1 - self.decay)

    def final_weights(self, weights: dict[str, Tensor]) -> dict[str, Tensor]:
        return {name: weight.clone() for name, weight in self.teacher.state_dict().items()}


class WordBias(Method):
    """A shift of one word's logits at decoding, in training, scoring and prediction alike; remembered in the model."""

    used_at_prediction = True

    def __init__(self, word: str, shift: float) -> None:
        super().__init__()
        self.word, self.shift = word, shift

    def prepare(self) -> dict[str, Any]:
        self.shifts = {self.word: self.shift}
        return {}

    def memory(self) -> dict[str, Any]:
        return {"shifts": self.shifts}

    def recall(self, memory: dict[str, Any]) -> None:
        self.shifts = memory["shifts"]

    def collate(self, examples: Sequence[Example]) -> dict[str, Tensor]:
        words = [self.shifts.get(e.word(i).lower(), 0.0) for e in examples for i in range(len(e.words))]
        return {"shift": torch.tensor(words)}

    def transform(self, output: Output, batch: Batch) -> Output:
        logits, read = output.logits.clone(), batch.node_first_piece >= 0
        flat = logits.view(-1, logits.shape[-1])
        flat[batch.node_first_piece[read], 1] += self.own_tensor(batch, "shift")[read].to(flat.dtype)
        return replace(output, logits=logits)


class Gate(Method):
    """A gated layer between the last states and the task head; the gate starts closed."""

    used_at_prediction = True

    def attach(self, session: Session) -> None:
        super().attach(session)
        self.layer = nn.Linear(session.encoder.width, session.encoder.width)
        self.gate = nn.Parameter(torch.zeros(()))
        session.encoder.hook_states(lambda states, batch, kept: states + torch.tanh(self.gate) * self.layer(states))
