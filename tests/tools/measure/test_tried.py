"""What is tried begins where the plain model does, and does what it is called."""

import torch

from musicgen.model.config import ModelConfig
from musicgen.model.performer import Performer
from tests.tools.measure.tried import (
    Averages,
    blocks_of,
    gate_heads,
    mix_values,
    zero_branches,
)

TOKENS = torch.arange(20).view(2, 10)


def model(**changes: object) -> Performer:
    values = {"layers": 3, "width": 16, "heads": 2, "feedforward": 24, "dropout": 0.0, **changes}
    return Performer(ModelConfig.read({"vocabulary_size": 20, "features": "relu", **values}))


def test_zero_branches_add_nothing():
    tried = model()
    zero_branches(tried)
    passage, _ = tried.passage(TOKENS, tried.start(torch.Generator()))
    embedded = tried.embed(TOKENS, passage)
    assert tried(TOKENS).equal(tried._logits(tried.norm(embedded)))


def test_a_share_of_nothing_leaves_values_as_they_were_and_of_one_makes_them_the_first_layers():
    plain, tried = model(), model()
    mix_values(tried)
    shares = [block.attention.qkv.share for block in blocks_of(tried)[1:]]
    assert [share.item() for share in shares] == [0.5, 0.5]
    with torch.no_grad():
        for share in shares:
            share.fill_(0)
    assert tried(TOKENS).allclose(plain(TOKENS), atol=1e-6)
    with torch.no_grad():
        shares[1].fill_(1)
        blocks_of(tried)[2].attention.qkv.inner.weight[32:] += 1  # of its own values
    assert tried(TOKENS).allclose(_with_first_values(plain), atol=1e-6)


def _with_first_values(plain: Performer) -> torch.Tensor:
    blocks, kept = blocks_of(plain), []
    blocks[0].attention.qkv.register_forward_hook(lambda m, x, qkv: kept.append(qkv[..., 32:]))
    blocks[2].attention.qkv.register_forward_hook(
        lambda m, x, qkv: torch.cat([qkv[..., :32], kept[-1]], -1)
    )
    return plain(TOKENS)


def test_gates_begin_open_and_close_a_head():
    plain, tried = model(), model()
    gate_heads(tried)
    assert tried(TOKENS).allclose(plain(TOKENS), atol=1e-6)
    with torch.no_grad():
        for with_gate, without in zip(blocks_of(tried), blocks_of(plain), strict=True):
            with_gate.attention.output.gate.bias[0] = -100
            without.attention.output.weight[:, :8] = 0  # what the first head found
    assert tried(TOKENS).allclose(plain(TOKENS), atol=1e-6)


def test_averages_follow_the_weights_and_can_be_put_back():
    tried = model()
    averages, first = Averages(tried), tried.embedding.weight.detach().clone()
    with torch.no_grad():
        tried.embedding.weight.add_(1)
    averages.stepped(91, 100)  # by then the shorter one has its decay, and the longer one has not
    for decay, share in ((0.9, 0.9), (0.98, 0.91)):
        averages.put_back(averages.averages[decay])
        assert tried.embedding.weight.allclose(first + 1 - share, atol=1e-6)
