"""Several processes: two train what one would have trained; workers give results in order."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, count
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from domadapt import api
from domadapt.data.batches import Collator, Example, StepLoader, encode, share_of
from domadapt.models.pretrained import load_tokenizer
from domadapt.runs.status import Status
from domadapt.training.build import build, make_validators
from domadapt.training.epochs import Epochs, fit
from domadapt.training.options import read_options
from domadapt.utils.work import in_order
from tests.support import corpora

# 22 training texts: batches of 7, 7, 7 and 1, which is one text less than there are processes.
SMALL = ["trainer.batch_size=7", "trainer.precision=32", "trainer.device=cpu", "data.dev_share=0.1"]
LISA = ["injection=lisa", "injection.lisa.layer=1"]
TOKENIZER = load_tokenizer("tiny_random")


def fitted(
    problem: list[str], folder: Path, *overrides: str, dropout: bool = False, status: type[Status] = Status
) -> tuple[Epochs, dict[str, torch.Tensor]]:
    """The epochs, and the weights after the last."""
    cfg = api.compose("train", [*problem, *SMALL, "trainer.regret=true", *overrides])
    torch.manual_seed(1)
    session, _ = build(cfg)
    for module in session.encoder.modules():
        if isinstance(module, torch.nn.Dropout) and not dropout:
            module.p = 0.0
    validators = list(make_validators(cfg))
    options = read_options(cfg)
    epochs = Epochs(folder / "checkpoint", "key", session, validators, options, status(folder, "key"))
    fit(options, session, epochs, None)
    epochs.restore(len(epochs.curve))
    modules = {"encoder": session.encoder, **session.methods}
    return epochs, {f"{name}.{key}": x for name, m in modules.items() for key, x in m.state_dict().items()}


@pytest.fixture(scope="module")
def problem(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return corpora(tmp_path_factory.mktemp("problem"))


def losses(epochs: Epochs, name: str) -> list[float]:
    return [line["losses"][name] for line in epochs.curve]


def test_two_processes_have_the_loss_curve_and_the_weights_of_one(problem: list[str], tmp_path: Path) -> None:
    one, two = as_one(problem, tmp_path, "ddp_fork")  # tests/stress does it with processes that are started anew
    assert one == two


def as_one(problem: list[str], tmp_path: Path, strategy: str) -> list[set[str]]:
    """The files that one process and two have written, once they are found to have learnt the same."""
    one, alone = fitted(problem, tmp_path / "one")
    two, shared = fitted(problem, tmp_path / "two", "trainer.devices=2", f"trainer.strategy={strategy}")
    assert losses(two, "task") == pytest.approx(losses(one, "task"), rel=1e-5)
    assert [line["step"] for line in two.curve] == [line["step"] for line in one.curve]
    for name, weights in alone.items():
        torch.testing.assert_close(shared[name], weights, rtol=1e-4, atol=1e-5, msg=name)
    for line, expected in zip(two.curve, one.curve, strict=True):
        assert line["validators"] == pytest.approx(expected["validators"], rel=1e-4, nan_ok=True)
    return [{path.name for path in (tmp_path / run / "checkpoint").iterdir()} for run in ("one", "two")]


def test_losses_of_methods_agree_within_a_hundredth(problem: list[str], tmp_path: Path) -> None:
    # Their means are over other things than words: a share's part of them is as good as its part of the pieces.
    one, _ = fitted(problem, tmp_path / "one", *LISA)
    two, _ = fitted(problem, tmp_path / "two", *LISA, "trainer.devices=2", "trainer.strategy=ddp_fork")
    for name in ("task", "lisa/head", "total"):
        assert losses(two, name) == pytest.approx(losses(one, name), rel=0.01)


def examples(lengths: list[int], labelled: bool) -> list[Example]:
    texts = [" ".join(["word"] * length) for length in lengths]
    words = [torch.tensor([[5 * i, 5 * i + 4] for i in range(length)]).numpy() for length in lengths]
    tags = [torch.zeros(length, dtype=torch.int64).numpy() for length in lengths] if labelled else None
    return encode(texts, words, TOKENIZER, 64, word_tags=tags)[0]


@given(st.lists(st.integers(1, 9), min_size=1, max_size=9), st.integers(1, 5), st.booleans())
def test_shares_are_the_whole_batch_and_their_weights_its_mean(lengths: list[int], world: int, whole: bool) -> None:
    batch = examples(lengths, False)
    shares = [share_of(batch, rank, world, whole) for rank in range(world)]
    assert all(share for share, _ in shares)  # or a process would wait for ever for one that has nothing to do
    assert sorted(e.index for share, weight in shares if weight for e in share) == [e.index for e in batch]
    rows = [[float(e.index + 1)] * (1 if whole else len(e.words)) for e in batch]  # a loss of each row
    parts = [list(chain.from_iterable(rows[e.index] for e in share)) for share, _ in shares]
    means = [weight * sum(part) / len(part) for part, (_, weight) in zip(parts, shares, strict=True)]
    everything = list(chain.from_iterable(rows))
    assert sum(means) / world == pytest.approx(sum(everything) / len(everything))


def test_every_process_takes_its_share_of_the_same_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = examples([3, 5, 2, 7, 4], True), examples([2, 2, 6, 1], False)

    def steps(rank: int, world: int) -> Iterator[tuple[set[int], set[int]]]:
        monkeypatch.setattr(torch.distributed, "is_initialized", lambda: world > 1)
        monkeypatch.setattr(torch.distributed, "get_rank", lambda: rank)
        monkeypatch.setattr(torch.distributed, "get_world_size", lambda: world)
        loader = StepLoader(source, target, Collator(0), batch_size=2, target_batch_size=3, seed=0)
        for loader.epoch in range(3):
            for step in loader:
                yield set(step.source.index.tolist()), set(step.target.index.tolist())

    whole = list(steps(0, 1))
    shares = [list(steps(rank, 2)) for rank in range(2)]
    for (sources, targets), *parts in zip(whole, *shares, strict=True):
        assert set.union(*(part[0] for part in parts)) == sources
        assert set.union(*(part[1] for part in parts)) == targets


@pytest.mark.parametrize("whole", [True, False])
def test_a_share_of_unlabelled_texts_weighs_what_its_losses_are_means_over(
    whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = examples([3, 5], not whole), examples([1, 9], False)
    source = [replace(example, label=0) for example in source] if whole else source
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    weights = []
    for rank in range(2):
        monkeypatch.setattr(torch.distributed, "get_rank", lambda rank=rank: rank)
        [step] = StepLoader(source, target, Collator(0), batch_size=2, target_batch_size=2, seed=0)
        weights.append(step.target_weight)
    assert sorted(weights) == pytest.approx([1.0, 1.0] if whole else [0.2, 1.8])


def test_results_come_in_the_order_of_the_items_and_few_are_drawn_ahead() -> None:
    assert list(in_order(abs, range(-50, 50), 2)) == [abs(number) for number in range(-50, 50)]
    assert list(in_order(abs, (), 2)) == []
    numbers = count()
    results = in_order(abs, numbers, 2)
    assert [next(results) for _ in range(10)] == [*range(10)]
    assert next(numbers) < 20
    results.close()  # type: ignore[attr-defined]


def test_ctrl_c_does_not_wait_for_what_workers_are_at() -> None:
    code = """if True:
        import os, signal, threading, time
        from domadapt.utils.work import in_order
        signal.signal(signal.SIGINT, signal.default_int_handler)
        threading.Timer(3, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            list(in_order(time.sleep, [100] * 4, 2))
        except KeyboardInterrupt:
            print("stopped")
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "stopped\n"), done.stderr


def test_an_error_of_the_work_or_of_the_items_is_the_callers() -> None:
    def broken() -> Iterator[int]:
        yield 1
        raise OSError("the file ends here")

    with pytest.raises(ValueError, match="invalid literal"):
        list(in_order(int, ["1", "x"], 2))
    with pytest.raises(OSError, match="the file ends here"):
        list(in_order(abs, broken(), 2))
