"""Graph supervision: its losses against slow references, and that nothing of it is left at prediction."""

import pytest
import torch
import torch.nn.functional as F

from domadapt.methods.injection.gnn import GraphSupervision, agreement_loss
from domadapt.methods.units import word_head_loss
from domadapt.models.graph_network import CONVOLUTIONS, GraphNetwork
from tests.support import setting_of, tiny_encoder, tiny_step


def supervision(convolution: str = "gatv2") -> GraphSupervision:
    return GraphSupervision(convolution, 16, 2, 0.5, 0.1, 1.0, 1.0, 1.0)


def test_head_loss_against_a_loop() -> None:
    torch.manual_seed(0)
    words, heads = torch.tensor([3, 0, 2]), torch.tensor([1, 1, 0, 3, 3])
    known = torch.tensor([True, True, False, True, True])
    dependent, governor, bilinear = torch.randn(5, 4), torch.randn(5, 4), torch.randn(4, 4)
    slow = []
    for start, size in ((0, 3), (3, 2)):
        for word in range(start, start + size):
            if known[word]:
                scores = torch.stack([dependent[word] @ bilinear @ governor[j] for j in range(start, start + size)])
                slow.append(-F.log_softmax(scores, 0)[heads[word] - start])
    fast = word_head_loss(dependent, governor, bilinear, heads, words, known)
    torch.testing.assert_close(fast, torch.stack(slow).mean())


def test_agreement_against_a_loop() -> None:
    torch.manual_seed(0)
    words, graph = torch.randn(4, 3), torch.randn(4, 3)
    slow = []
    for i in range(4):
        similarities = torch.stack([F.cosine_similarity(words[i], graph[j], dim=0) / 0.1 for j in range(4)])
        slow.append(-F.log_softmax(similarities, 0)[i])
    torch.testing.assert_close(agreement_loss(words, graph, 0.1), torch.stack(slow).mean())
    assert agreement_loss(words[:1], graph[:1], 0.1) == 0


@pytest.mark.parametrize("convolution", CONVOLUTIONS)
def test_a_masked_word_is_hidden_from_its_own_graph_state(convolution: str) -> None:
    torch.manual_seed(0)
    network = GraphNetwork(convolution, inputs=6, width=8, depth=2, relations={"obj": 1}, hides=True)
    edges, kinds = torch.tensor([[0, 1, 0, 1, 2], [1, 0, 0, 1, 2]]), torch.tensor([0, 2, 4, 4, 4])
    words, masked = torch.randn(3, 6), torch.tensor([True, False, False])
    before = network(words, edges, kinds, masked)
    words[0] += 1  # hidden: must change nothing anywhere
    torch.testing.assert_close(network(words, edges, kinds, masked), before)
    words[1] += 1  # its neighbour: must be felt
    assert not torch.allclose(network(words, edges, kinds, masked)[0], before[0])


@pytest.mark.parametrize("convolution", CONVOLUTIONS)
def test_losses_are_finite_and_reach_the_encoder(convolution: str) -> None:
    method = supervision(convolution)
    session = setting_of(tiny_encoder(), method)
    source = tiny_step(session, target=False).source
    losses = method.batch_losses(source.encoded, source.batch)
    assert set(losses) == set(method.weights)
    for loss in losses.values():
        session.encoder.zero_grad()
        loss.backward(retain_graph=True)
        gradient = session.encoder.base.get_input_embeddings().weight.grad
        assert torch.isfinite(loss)
        assert gradient.abs().sum() > 0


def test_relations_of_a_group_are_one_to_a_relational_network() -> None:
    torch.manual_seed(0)
    relations = {"det": 1, "nsubj": 2, "nsubj:pass": 3}
    network = GraphNetwork("relational", inputs=6, width=8, depth=1, relations=relations)
    words, edges = torch.randn(2, 6), torch.tensor([[0, 1, 0, 1], [1, 0, 0, 1]])
    down, up, loop = 0, 4, 8
    found = {name: network(words, edges, torch.tensor([down + i, up + i, loop, loop])) for name, i in relations.items()}
    torch.testing.assert_close(found["nsubj"], found["nsubj:pass"], rtol=0, atol=0)
    assert not torch.allclose(found["nsubj"], found["det"])
    turned = network(words, edges, torch.tensor([up + 2, down + 2, loop, loop]))
    assert not torch.allclose(turned, found["nsubj"])  # a head is not a dependent


def test_losses_of_a_step_are_those_of_both_sides() -> None:
    method = supervision()
    session = setting_of(tiny_encoder(), method)
    step = tiny_step(session)
    assert step.target is not None
    step.target.weight = 0.5
    torch.manual_seed(0)
    both = method.losses(step)
    torch.manual_seed(0)
    source, target = (method.batch_losses(view.encoded, view.batch) for view in step.views)
    assert set(both) == set(method.weights)
    for name, value in both.items():
        torch.testing.assert_close(value, source[name] + 0.5 * target[name])
