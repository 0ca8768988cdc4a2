"""Our factored encodings compute what the authors' materialised ones compute."""

import pytest
import torch
import torch.nn.functional as F

from evaluation.speed import workloads as authors_way
from evaluation.speed.workloads import PublishedSpe
from musicgen.model.config import ModelConfig
from musicgen.model.performer import Performer
from musicgen.position import POSITIONS, Shape
from musicgen.position.spe.convolutional import WhiteNoise

SHAPE = Shape(layers=2, heads=2, head_width=4, width=8, features=16)
LENGTH = 11


def encoding(name: str, **changes):
    config, cls = POSITIONS[name]
    torch.manual_seed(0)
    return cls(config(realisations=6, **changes), SHAPE).double()


def test_sine_code_times_gates_is_ours():
    ours = encoding("sine_spe", sines=3)
    q, k = torch.randn(2, 3, LENGTH, 2, 4, dtype=torch.float64).unbind()
    code = ours.begin(torch.Generator().manual_seed(1))
    expected = ours.qk(q, k, ours.cover(code, 0, LENGTH), 0, 1)
    sides = authors_way.sine_code(ours, code.noise[0], 0, LENGTH)
    theirs = authors_way.Materialised(code.noise[0], code.gate_noise[0], sides)
    for a, b in zip(PublishedSpe(ours).qk(q, k, theirs, 0, 1), expected, strict=True):
        torch.testing.assert_close(a, b, atol=1e-9, rtol=1e-9)


def test_conv_code_times_gates_is_ours():
    ours = encoding("conv_spe", taps=5)
    q, k = torch.randn(2, 3, LENGTH, 2, 4, dtype=torch.float64).unbind()
    code = ours.begin(torch.Generator().manual_seed(1))
    expected = ours.qk(q, k, ours.cover(code, 0, LENGTH), 0, 1)
    white = code.noise[0]
    assert isinstance(white, WhiteNoise)
    noise = white.window(0, LENGTH + 4)  # (H, D, T + P − 1, R)
    around = F.pad(noise.flatten(0, 1).permute(2, 0, 1), (5, 11))  # theirs: P before, to 4P more
    sides = authors_way.conv_code(ours, around, LENGTH)
    theirs = authors_way.Materialised(noise, code.gate_noise[0], sides)
    for a, b in zip(PublishedSpe(ours).qk(q, k, theirs, 0, 1), expected, strict=True):
        torch.testing.assert_close(a, b, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("name", ["sine_spe", "conv_spe"])
def test_a_model_trains_the_authors_way(name: str):
    config = ModelConfig.preset(
        "tiny", vocabulary_size=9, layers=1, width=8, heads=2, position=name
    )
    model = Performer(config)
    model.position = PublishedSpe(model.position)  # type: ignore[arg-type]
    logits = model(torch.zeros(1, LENGTH, dtype=torch.long), model.begin(torch.Generator()))
    F.cross_entropy(logits[0], torch.ones(LENGTH, dtype=torch.long)).backward()
    for parameter in model.position.parameters():
        assert parameter.grad is not None
        assert parameter.grad.abs().sum() > 0


def test_ungated_encodings_are_refused():
    with pytest.raises(ValueError, match="gated encodings"):
        PublishedSpe(encoding("sine_spe", gated=False))
