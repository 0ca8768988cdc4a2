"""The tasks of the bench, and the published algorithm for SPE."""

import pytest
import torch

from evaluation import bench as published
from evaluation.bench import WORKLOADS, PublishedSpe, bench, names
from musicgen.config import ModelConfig
from musicgen.performer import Performer
from musicgen.position import Shape
from musicgen.position.spe.sine import SineSpe, SineSpeConfig

LENGTH = 11


def test_every_comparison_is_with_another_task():
    assert {work.against for work in WORKLOADS.values() if work.against} <= set(WORKLOADS)
    with pytest.raises(ValueError, match=r"no such task.*token-far"):
        names(["tokne"])
    row = bench(["attention"], 1, lambda done, total: None)[0]
    assert row["n"] == 3
    assert row["seconds"] > 0


def test_the_published_algorithm_equals_ours_and_learns():
    torch.manual_seed(0)
    shape = Shape(layers=2, heads=2, head_width=4, width=8, features=16)
    ours = SineSpe(SineSpeConfig(realisations=6, sines=3), shape).double()
    q, k = torch.randn(2, 3, LENGTH, 2, 4, dtype=torch.float64).unbind()
    code = ours.begin(torch.Generator().manual_seed(1))
    expected = ours.qk(q, k, ours.cover(code, 0, LENGTH), 1)
    noise = code.noise[0]
    sides = published.sine_code(ours, noise, 0, LENGTH)
    theirs = published.Materialised(code.gate_noise[0], sides)
    for a, b in zip(PublishedSpe(ours).qk(q, k, theirs, 1), expected, strict=True):
        torch.testing.assert_close(a, b, atol=1e-9, rtol=1e-9)
    model = Performer(ModelConfig.preset("tiny", vocabulary_size=9, layers=1, width=8, heads=2,
                                         position="sine_spe"))  # fmt: skip
    model.position = PublishedSpe(model.position)  # type: ignore[arg-type]
    model(torch.zeros(1, LENGTH).long(), model.begin(torch.Generator())).square().sum().backward()
    for parameter in model.position.parameters():
        assert parameter.grad.abs().sum() > 0
