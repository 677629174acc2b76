r"""Masked language modelling on target (and source) text: first alone, then together with the task.

Post-training follows Gururangan et al. 2020 (https://aclanthology.org/2020.acl-main.740), the joint stage UDALM
(Karouzos et al. 2021, https://aclanthology.org/2021.naacl-main.203):

.. math:: L = L_{task}(source) + \lambda L_{MLM}(target).

Costs ``epochs`` passes over both domains' text (kept in the cache), and a pass over a target batch a step. Fails where
there is little text, and on the default backbone, a contrastive encoder without a prediction head: a point of F1.
"""

import hashlib
import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytorch_lightning as pl
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import DataCollatorForLanguageModeling, get_linear_schedule_with_warmup

from domadapt.data.batches import Batch, BucketSampler, Example
from domadapt.methods.method import Method, Step, in_range
from domadapt.methods.session import Session
from domadapt.runs.key import NUMERICS
from domadapt.utils import checkpoint
from domadapt.utils.files import one_at_a_time
from domadapt.utils.work import progress

log = logging.getLogger(__name__)


class MaskedLanguageModel(Method):
    """Post-training and joint masked language modelling."""

    reads = frozenset({"target"})

    def __init__(
        self,
        epochs: int,
        learning_rate: float,
        head_learning_rate: float,
        batch_size: int,
        masked: float,
        use_source: bool,
        weight: float,
    ) -> None:
        super().__init__({"masked_lm": weight})
        in_range("masked_lm.epochs", epochs, 0)
        in_range("masked_lm.batch_size", batch_size, 1)
        in_range("masked_lm.masked", masked, 1e-6, 1.0)
        in_range("masked_lm.learning_rate", learning_rate, 0.0, 1.0)
        in_range("masked_lm.head_learning_rate", head_learning_rate, 0.0, 1.0)
        self.epochs, self.batch_size = epochs, batch_size
        self.learning_rate, self.head_learning_rate = learning_rate, head_learning_rate
        self.masked, self.use_source = masked, use_source
        self.whole_vocabulary = weight > 0  # its output matrix is the whole table

    def attach(self, session: Session) -> None:
        """Make the prediction head; its output matrix is the encoder's own embedding."""
        super().attach(session)
        encoder = session.encoder
        embedding = encoder.base.get_input_embeddings().weight
        self.dense = nn.Linear(encoder.width, embedding.shape[1])
        self.norm = nn.LayerNorm(embedding.shape[1])
        self.bias = nn.Parameter(torch.zeros(embedding.shape[0]))
        nn.init.eye_(self.dense.weight)  # a state starts as its own prediction
        nn.init.zeros_(self.dense.bias)
        if encoder.tokenizer.mask_token_id is None:
            raise ValueError(f"backbone {encoder.name!r} has no mask token; adaptation=masked_lm needs one")
        self.masking = DataCollatorForLanguageModeling(encoder.tokenizer, mlm_probability=self.masked)
        special = torch.zeros(embedding.shape[0], dtype=torch.bool)
        special[encoder.tokenizer.all_special_ids] = True
        self.register_buffer("special", special, persistent=False)

    def prepare(self) -> dict[str, Any]:
        """Post-train encoder and head on both domains' text, or take the result of an equal run from the cache."""
        session = self.session
        if not self.epochs:
            return {}
        examples = [*session.target, *(session.source if self.use_source else [])]
        path = session.cache / f"masked-lm-{self._key(examples)}.safetensors"
        modules: dict[str, nn.Module] = {"encoder": session.encoder.base, "head": self}
        with one_at_a_time(path):  # of several runs that need it
            try:
                saved = checkpoint.load(path)
            except ValueError:
                if path.exists():
                    log.warning("%s: damaged; it is made again", path)
                saved = {"curve": self._post_train(examples)}
                saved |= {name: module.state_dict() for name, module in modules.items()}
                checkpoint.save(saved, path)
        for name, module in modules.items():
            module.load_state_dict(saved[name], strict=name == "head")
        return {"masked_lm/post_training_loss": saved["curve"], "masked_lm/post_training_texts": len(examples)}

    def _key(self, examples: Sequence[Example]) -> str:
        """Everything that could change the post-trained weights."""
        session = self.session
        settings = (self.epochs, self.learning_rate, self.head_learning_rate, self.batch_size, self.masked)
        digest = hashlib.sha256(repr(settings).encode())
        digest.update(f"{session.seed} {session.precision} {session.device.type} {torch.__version__}".encode())
        digest.update(f"{torch.get_num_threads()} {NUMERICS}".encode())
        digest.update(repr([m.p for m in session.encoder.modules() if isinstance(m, nn.Dropout)]).encode())
        for name, parameter in session.encoder.base.named_parameters():
            digest.update(f"{name} {parameter.requires_grad}".encode())
            digest.update(parameter.detach().cpu().numpy().tobytes())
        for example in examples:
            digest.update(repr(example.input_ids).encode())
        return digest.hexdigest()[:24]

    def _post_train(self, examples: Sequence[Example]) -> list[float]:
        """Train with linear warm-up and decay; returns the mean loss of each epoch."""
        session, encoder = self.session, self.session.encoder
        pl.seed_everything(session.seed, verbose=False)  # the same result whatever else the run has made before
        sampler = BucketSampler([len(e.input_ids) for e in examples], self.batch_size, session.seed)
        steps = self.epochs * len(sampler)
        groups: list[dict[str, Any]] = [
            {"params": [p for p in module.parameters() if p.requires_grad], "lr": rate}
            for module, rate in ((encoder.base, self.learning_rate), (self, self.head_learning_rate))
        ]
        parameters = [p for group in groups for p in group["params"]]
        optimizer = torch.optim.AdamW([g for g in groups if g["params"]], weight_decay=0.01, fused=True)
        schedule = get_linear_schedule_with_warmup(optimizer, round(0.06 * steps), steps)
        encoder.train()
        losses: list[float] = []

        def batches() -> Iterator[list[int]]:
            for epoch in range(self.epochs):
                sampler.epoch = epoch
                yield from sampler

        for indices in progress(batches(), "masked language model", steps, "step"):
            batch = session.collator([examples[i] for i in indices]).to(session.device)
            with session.autocast():
                loss = self._loss(batch, hooked=False)  # cached for runs with other injections, too
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
            schedule.step()
            losses.append(float(loss.detach()))
        return [sum(losses[i : i + len(sampler)]) / len(sampler) for i in range(0, steps, len(sampler))]

    def losses(self, step: Step) -> dict[str, Tensor]:
        """Joint stage: predict masked pieces of the target batch."""
        if step.target is None or not self.weights["masked_lm"]:
            return {}
        return {"masked_lm": step.target.weight * self._loss(step.target.batch, hooked=True)}

    def _loss(self, batch: Batch, hooked: bool) -> Tensor:
        encoder, (corrupted, chosen) = self.session.encoder, self.mask(batch.input_ids)
        states = encoder.states(replace(batch, input_ids=corrupted), hooked)[chosen]  # few: the vocabulary is wide
        states = self.norm(F.gelu(self.dense(states)))
        logits = F.linear(states, encoder.base.get_input_embeddings().weight, self.bias)
        return F.cross_entropy(logits.float(), batch.input_ids[chosen], reduction="sum") / chosen.sum().clamp(min=1)

    def mask(self, input_ids: Tensor) -> tuple[Tensor, Tensor]:
        """(batch, pieces) ids of which some are hidden, and (batch, pieces) True for these; never special pieces."""
        special: Tensor = self.special  # type: ignore[assignment]
        # 80 % become the mask, 10 % a random piece, 10 % stay (Devlin et al. 2019); drawn on the CPU, in place.
        given = input_ids.to("cpu", copy=True), special[input_ids].cpu()
        corrupted, labels = (tensor.to(input_ids.device) for tensor in self.masking.torch_mask_tokens(*given))
        return corrupted, labels != -100
