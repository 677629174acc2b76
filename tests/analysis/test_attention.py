"""Attention that is read is the model's; heads as parsers, heads switched off, on maps of known answers."""

from typing import Any

import numpy as np
import pytest
import torch

from domadapt.analysis.ablation import resampled, skipped, switched, without
from domadapt.analysis.attention import ALL, FEWEST, LEAST, OFFSETS, Tally, as_parse, heads_of, most_syntactic, recorded
from domadapt.analysis.expected import counts, scores
from domadapt.models.attention import AttentionCall
from domadapt.syntax.parser import Parse
from tests.support import parsed_batch, setting_of, tiny_encoder


def test_weights_are_those_of_softmax_and_every_layer_is_read_as_one_is() -> None:
    encoder = tiny_encoder()
    batch, _ = parsed_batch(encoder)
    seen: list[Any] = []

    def spy(call: AttentionCall) -> torch.Tensor:
        scores = call.query @ call.key.transpose(-1, -2) * call.scaling
        seen.append(scores.masked_fill(~call.mask, float("-inf")).softmax(-1))
        return call.inner()

    with torch.no_grad():
        plain = encoder(batch).logits
        with recorded(encoder, [0, 1]) as every:
            logits = encoder(batch).logits
        for layer in range(2):
            with recorded(encoder, [layer]) as one:
                encoder(batch)
            torch.testing.assert_close(every[layer], one[0])
        encoder.hook_attention(1, spy)
        encoder(batch)
    assert encoder.attention_hooks == {1: [spy]}  # reading has left no hook behind
    torch.testing.assert_close(logits, plain)  # to read changes nothing
    torch.testing.assert_close(every[1], seen[0])


def test_a_hooked_layer_is_read_through_its_hook() -> None:
    encoder = tiny_encoder()
    batch, _ = parsed_batch(encoder)

    def uniform(call: AttentionCall) -> torch.Tensor:
        return call.value.mean(2, keepdim=True).expand_as(call.value).transpose(1, 2)

    encoder.hook_attention(0, uniform)
    with torch.no_grad(), recorded(encoder, [0]) as found:
        encoder(batch)
    torch.testing.assert_close(found[0], torch.full_like(found[0], 1 / batch.input_ids.shape[1]))


def parse_of(heads: list[int], relations: list[str]) -> Parse:
    words = np.array([[2 * i, 2 * i + 1] for i in range(len(heads))])
    return Parse(words, np.array(heads), tuple(relations), ("",) * len(heads))


def test_head_and_drawing_by_hand() -> None:
    parse = parse_of([1, 1, 1], ["nsubj", "root", "punct"])
    away = np.eye(3, dtype=np.float32)
    onto = np.array([[0.3, 0.7, 0], [0.01, 0.02, 0], [0.5, 0.5, 0]], dtype=np.float32)
    assert most_syntactic([np.stack([away, onto])], [parse]) == 1
    drawn, agree, of = as_parse(onto, parse)
    assert (agree, of) == (1, 1)
    assert drawn.heads.tolist() == [1, 1, 0]
    assert drawn.relations == ("70", "punct", "punct")  # the second word's attention is below LEAST
    assert onto[1].max() < LEAST


def test_accuracy_and_offsets_by_hand() -> None:
    """Determiners find the noun two words on; a head that always looks one word back finds none, nor reversed."""
    parse = parse_of([2, 2, 2, 2], ["det", "amod", "root", "punct"])
    knows, reverse, back = np.zeros((3, 4, 4), np.float32)
    knows[:, 2] = 1  # every word looks at the noun
    reverse[2] = [0.4, 0.5, 0.6, 0.1]  # the noun looks at its words, and most at itself
    back[np.arange(4), [0, 0, 1, 2]] = 1
    tally = Tally()
    tally.add(np.stack([knows, reverse, back]), parse, np.ones(4, dtype=bool))
    assert tally.words == {"det": 1, "amod": 1, ALL: 2}  # neither the root nor punctuation
    assert tally.hits["det"].tolist() == [[1, 0, 0], [0, 1, 0]]
    assert tally.hits[ALL].tolist() == [[2, 0, 0], [0, 2, 1]]  # read backwards, 'one back' is 'one on': amod
    assert OFFSETS[int(tally.offsets["det"].argmax())] == 2
    lost = Tally()
    lost.add(np.stack([knows]), parse, np.array([True, True, False, True]))  # the noun was cut off
    assert lost.words == {ALL: 0}


def test_the_best_head_is_chosen_on_the_source() -> None:
    parse = parse_of([1, 1], ["det", "root"])
    good, bad = np.array([[0.0, 1], [0, 1]], np.float32), np.array([[0.0, 1], [1, 0]], np.float32)
    bad[0] = [1, 0]
    tallies: dict[str, dict[str, Tally]] = {"before": {}, "after": {}}
    wrong = np.zeros((2, 3, 3), np.float32)
    wrong[:, :, 2] = 1
    for sides in tallies.values():
        sides["source"], sides["target"] = Tally(), Tally()
        for _ in range(FEWEST):
            sides["source"].add(np.stack([good, bad]), parse, np.ones(2, dtype=bool))
            sides["target"].add(wrong, parse_of([1, 1, 2], ["det", "root", "root"]), np.ones(3, dtype=bool))
    found = heads_of(tallies, layers=2)
    [whole, det] = found
    assert (whole.name, det.name, det.words, det.offset) == (ALL, "det", {"source": FEWEST, "target": FEWEST}, 1)
    best = det.best["before"]
    assert (best.layer, best.head, best.accuracy["source"], best.accuracy["target"]) == (0, 0, 1.0, 0.0)
    assert det.offset_accuracy == {"source": 1.0, "target": 1.0}


def test_switched_off_one_at_a_time_and_nothing_is_left_behind() -> None:
    """With what lies below taken from before, the outputs are those of a whole pass."""
    session = setting_of(tiny_encoder())
    encoder, batch = session.encoder, session.collator(session.dev)
    with torch.no_grad():
        plain = session.task.rows(encoder(batch), batch).probabilities
        found = dict(switched(session, batch, 2))
        assert list(found) == [None, *((layer, head) for layer in range(2) for head in (0, 1, 2, 3, None))]
        np.testing.assert_array_equal(found[None].probabilities, plain)
        for (layer, head), rows in [(at, rows) for at, rows in found.items() if at is not None]:
            with encoder.hooked(layer, lambda call, off=head: without(call.inner(), off)):
                whole = session.task.rows(encoder(batch), batch).probabilities
            np.testing.assert_allclose(rows.probabilities, whole, atol=1e-6)
            assert np.abs(whole - plain).max() > 1e-6
        np.testing.assert_array_equal(session.task.rows(encoder(batch), batch).probabilities, plain)
    assert encoder.attention_hooks == {}
    with skipped(encoder.layers(), [None]):
        assert "forward" in encoder.layers()[0].__dict__
    assert "forward" not in encoder.layers()[0].__dict__


@pytest.mark.parametrize("average", ["macro", "micro"])
def test_the_score_is_the_one_of_counts(average: str) -> None:
    session = setting_of(tiny_encoder())
    batch = session.collator(session.dev)
    with torch.no_grad():
        rows = session.task.rows(session.encoder(batch), batch)
    kinds = counts(rows, session.task.labels, labelled=True)
    drawn = resampled(kinds, "span_f1", average, 0)
    exact = scores({kind: own.sums(np.ones(3)) for kind, own in kinds.items()}, "span_f1", average)
    assert drawn[0] == pytest.approx(exact["span_f1"])
    np.testing.assert_array_equal(drawn, resampled(kinds, "span_f1", average, 0))  # the same texts each time
