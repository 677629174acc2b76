"""The contract that injections and adaptations share."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property, wraps
from typing import Any

import numpy as np
from torch import Tensor, nn

from domadapt.config.compose import make

# By these a method refuses settings of its own, in our files and in others.
from domadapt.config.overrides import in_range as in_range
from domadapt.config.overrides import one_of as one_of
from domadapt.data.batches import Batch, Example
from domadapt.data.domains import Domains
from domadapt.data.records import Record
from domadapt.methods.session import Session
from domadapt.models.contracts import Output
from domadapt.tasks.task import Task

log = logging.getLogger(__name__)
READABLE = ("parses", "target", "parses_at_prediction", "corpus_parses", "source_only")
KINDS = ("token", "sequence")
# Of what a method reads (:attr:`Method.reads`), what takes a parser's trees of the texts of batches.
TREES = frozenset({"parses", "parses_at_prediction"})


class View:
    """One side of a step: a batch, and what the model says of it, computed when somebody first asks.

    ``weight`` is what losses on it count for, beside those of other processes that train along; 1 with one.
    """

    def __init__(self, batch: Batch, session: Session, weight: float = 1.0) -> None:
        self.batch, self.session, self.weight = batch, session, weight

    @cached_property
    def encoded(self) -> Output:
        """The encoder's output, before any method changes it: the very states that the task is trained on."""
        output: Output = self.session.encoder(self.batch)
        return output

    @cached_property
    def output(self) -> Output:
        """The encoder's output as the methods change it."""
        return self.session.transformed(self.encoded, self.batch)


@dataclass(frozen=True, slots=True)
class Step:
    """One training step, as methods see it."""

    source: View  #: labelled
    target: View | None  #: unlabelled; None where no method reads target text
    epoch: int  #: counted from 0
    progress: float  #: share of training that is done, from 0 to 1: for ramps

    @property
    def views(self) -> tuple[View, ...]:
        """Both sides, or the one that there is."""
        return (self.source,) if self.target is None else (self.source, self.target)


RETURNED: dict[str, tuple[type, str]] = {  # by hook
    "prepare": (dict, "a dict of what to record"),
    "augment": (Sequence, "a sequence of records"),
    "collate": (dict, "a dict of tensors by key"),
    "transform": (Output, "an Output"),
    "losses": (dict, "a dict of scalars by name"),
    "side_losses": (dict, "a dict of scalars by name"),
    "parameter_groups": (list, "a list of dicts with params and lr"),
    "final_weights": (dict, "a dict of the encoder's tensors by name"),
    "memory": (dict, "a dict"),
}


def checked(hook: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A method's hook that refuses to return what nobody expects, or to need what it has not, and says whose it is."""
    kind, words = RETURNED[hook]

    @wraps(function)
    def call(self: "Method", *args: Any, **kwargs: Any) -> Any:
        whose = f"{self.name or type(self).__name__}.{hook}()"
        try:
            result = function(self, *args, **kwargs)
        except AttributeError as error:
            of_view = error.obj is None and error.name in ("batch", "encoded", "output", "session")
            if hook == "losses" and of_view and args[0].target is None:
                fix = "to have it at each step, say in the class: reads = frozenset({'target'})"
                raise ValueError(f"{whose}: {error}: step.target is None; {fix}") from error
            own = str(error).startswith(f"'{type(self).__name__}'")
            if hook in ("collate", "transform") and own and self.unprepared and not self.training:
                fix = "what prepare() finds is not there when a saved model is loaded; keep it by memory() and recall()"
                raise ValueError(f"{whose}: {error}; {fix}") from error
            raise
        if not isinstance(result, kind):
            raise ValueError(f"{whose} returned {result!r:.60}; expected {words}")
        if hook == "prepare":
            self.unprepared = False
        if hook == "transform" and not (self.training or self.used_at_prediction or result is args[0]):
            fix = "set used_at_prediction = True in the class, or change the output only while self.training"
            raise ValueError(f"{whose} changes what is scored, and the saved model would lack it; {fix}")
        return result

    return call


class Method(nn.Module):
    """Something that adds to training: an injection of syntax, or an adaptation to target text.

    A new method is a subclass in its own file, and one yaml with its ``_target_``, which says what its settings are.
    Every hook is optional. What a method must remember to go on after a kill are its parameters, its buffers, and what
    :meth:`memory` gives. ``weights`` are of its named losses; training multiplies and logs, nobody else.
    """

    #: What it needs: ``parses`` (in training's batches), ``target`` (text in every step), ``parses_at_prediction`` (of
    #: every text), ``corpus_parses`` (of whole corpora), ``source_only`` (what a network that was trained on the source
    #: alone, as a run of its own, makes of the target). Where no method reads ``target`` or ``corpus_parses``, runs
    #: with other targets take the network that one of them has trained.
    reads: frozenset[str] = frozenset()
    tasks: frozenset[str] = frozenset({"token", "sequence"})  #: that it does something for; else nothing is read for it
    first_epoch: int = 0  #: in which it begins, counted from 0
    labels_target: bool = False  #: it learns from labels of target texts that were read: a step has no others
    augments: bool = False  #: it changes the source's text from epoch to epoch (:meth:`augment`)
    used_at_prediction: bool = False  #: it is part of the model that is saved; otherwise a stock one is left behind
    whole_vocabulary: bool = False  #: it trains embeddings of pieces that training need not meet
    rate_factor: float = 1.0  #: learning rate of its own parameters, times the run's
    name: str = ""  #: what the configuration calls it
    session: Session  #: what the run works with, from :meth:`attach` on

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Check what a subclass's own hooks return; warn of what nobody knows, if its name is much like a hook's."""
        super().__init_subclass__(**kwargs)
        known = [name for name in vars(Method) if not name.startswith("_")]
        for name in () if cls.__module__.startswith("domadapt.") else vars(cls).keys() - {*dir(Method)}:
            if near := get_close_matches(name, known, n=1, cutoff=0.8):
                log.warning("%s.%s: did you mean %s? Nobody else uses this name", cls.__name__, name, near[0])
        for hook in RETURNED.keys() & vars(cls).keys():
            setattr(cls, hook, checked(hook, vars(cls)[hook]))

    def __init__(self, weights: dict[str, float] | None = None) -> None:
        super().__init__()
        for name, weight in (weights or {}).items():
            in_range(f"weight of {name}", weight, 0.0, 1e6)
        self.weights = dict(weights or {})
        self.unprepared = type(self).prepare is not Method.prepare  # it has a prepare(), which has not been called here

    def attach(self, session: Session) -> None:
        """Called once, before training and after loading: keep the session, hook into the encoder, make parameters."""
        self.session = session

    def idle(self, epochs: int) -> str:
        """Why it does, or did, nothing in so many epochs; empty if it did something."""
        together = "trainer.epochs and trainer.extra_epochs together"
        late = f"it begins after epoch {self.first_epoch}, and there are {epochs} ({together})"
        return late if self.first_epoch >= epochs else ""

    def refuse(self, domains: Domains, task: Task) -> None:
        """Refuse files of the method's own that it could not use, before a network that it learns from is trained."""

    def prepare(self) -> dict[str, Any]:
        """A stage before training: post-train, count the corpus, label it. Returns what to record of it."""
        return {}

    def augment(self, records: Sequence[Record], epoch: int, random: np.random.Generator) -> Sequence[Record]:
        """Other labelled source records for an epoch: as many, in the same order, their labels kept.

        The methods before this one may have changed them. One that is given back as it is costs nothing; another is
        tokenised, and parsed where parses are read. ``epoch`` is the pass over the source, counted from 0; small data
        take several an epoch. ``random`` is seeded by run and pass: a resumed run sees what it would have seen.
        """
        return records

    def collate(self, examples: Sequence[Example]) -> dict[str, Tensor]:
        """Tensors of its own for a batch; they travel in ``batch.extra`` as ``<method's name>/<key>``."""
        return {}

    def own_tensor(self, batch: Batch, key: str) -> Tensor:
        """A tensor that :meth:`collate` has put into a batch."""
        return batch.extra[f"{self.name}/{key}"]

    def transform(self, output: Output, batch: Batch) -> Output:
        """Between model and task: in training, scoring and prediction alike (``self.training`` tells)."""
        return output

    def losses(self, step: Step) -> dict[str, Tensor]:
        """Named losses of a step: unless overridden, those of each side added up.

        The target's forward pass is made only where ``step.target.output`` is asked for.
        """
        total: dict[str, Tensor] = {}
        for view in step.views:
            for name, value in self.side_losses(view).items():
                total[name] = total.get(name, 0.0) + view.weight * value
        return total

    def side_losses(self, view: View) -> dict[str, Tensor]:
        """Named losses of one side of a step, of a method that treats both alike."""
        return {}

    def after_step(self, step: Step) -> None:
        """After the optimiser's step: a teacher's moving average, say."""

    def after_epoch(self, epoch: int) -> None:
        """Before an epoch (from 0) is scored, under the weights that will be: new pseudo-labels, new counts."""

    def parameter_groups(self, rate: float) -> list[dict[str, Any]]:
        """Its parameters with their peak learning rates, as torch's optimisers take them."""
        return [{"params": list(self.parameters()), "lr": self.rate_factor * rate}]

    def final_weights(self, weights: dict[str, Tensor]) -> dict[str, Tensor]:
        """Which weights of the encoder are scored and saved: averaged, folded, the teacher's.

        Of the encoder's state, or what the methods before this one made of it; not to be changed in place.
        """
        return weights

    def memory(self) -> dict[str, Any]:
        """What it knows beside its weights: numbers, strings, tensors, lists and dicts of them."""
        return {}

    def recall(self, memory: dict[str, Any]) -> None:
        """Take back what :meth:`memory` gave: when a run is resumed, an epoch put back, a model loaded."""


def check_declarations(name: str, method: Method) -> None:
    """Refuse a method that reads, or is made for, what there is not, or whose hook is never called.

    >>> class Mine(Method):
    ...     reads = frozenset({"targets"})
    >>> check_declarations("mine", Mine())  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: mine: reads=['targets']: expected a set of some of ('parses', 'target', ...
    """
    for setting, known in (("reads", READABLE), ("tasks", KINDS)):
        given = getattr(method, setting)
        if not isinstance(given, set | frozenset) or not given <= {*known}:
            shown = given if isinstance(given, str) else [*given]
            raise ValueError(f"{name}: {setting}={shown}: expected a set of some of {known}")
    kind = type(method)
    if kind.augment is not Method.augment and not method.augments:
        raise ValueError(f"{name}: has augment(), which is not called: set augments = True in {kind.__name__}")


def make_methods(cfg: Mapping[str, Any]) -> dict[str, Method]:
    """Injections and adaptations by name; no two share a name, or the name of a loss."""
    methods: dict[str, Method] = {}
    losses = {"task"}
    for group in ("injection", "adaptation"):
        for name, config in (cfg[group] or {}).items():
            made = make(config) if isinstance(config, Mapping) and "_target_" in config else None
            if not isinstance(made, Method):
                expected = "expected a method's settings, its class as _target_, a subclass of Method"
                raise ValueError(f"{group}.{name}={config}: {expected}; choose {group}=NAME")
            method = made
            if "weights" not in vars(method):
                raise ValueError(f"{group}.{name}: {type(method).__name__}.__init__() does not call super().__init__()")
            check_declarations(str(name), method)
            if name in methods or losses & method.weights.keys():
                raise ValueError(f"{group}.{name}: another has this name, or one of the losses {[*method.weights]}")
            methods[str(name)] = method
            losses |= method.weights.keys()
    return methods
