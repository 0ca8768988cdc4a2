"""Layers are compiled where that works, one for all, and left as they are where it does not."""

from pathlib import Path

import pytest
import torch

from tests.training.makers import Heard, toy_config, toy_run
from training.compiling import compiled
from training.loop import Run

MODEL = {
    "dropout": 0.0,
    "layers": 3,
    "position": {"name": "sine_spe", "realisations": 4, "sines": 2, "time": "music"},
    "metre": {"bars": [1, 2], "remembers": [2, 8]},
}


def tried(run: Run) -> list[str]:
    return compiled(run.model, run.module, run.fabric, run.config, run.batches)


def by(backend, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let blocks be compiled by a backend."""
    plain = torch.compile
    torch.compiler.reset()
    monkeypatch.setattr(
        torch, "compile", lambda code, **given: plain(code, **given, backend=backend)
    )


def test_one_graph_serves_all_layers_and_learns_the_same(
    grooves: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    graphs, losses = [], []

    def counting(graph: torch.fx.GraphModule, _):
        graphs.append(graph)
        return graph.forward

    by(counting, monkeypatch)
    for compiles in (True, False):
        changes = {"model": MODEL, "device": {"compile": compiles}, "optimiser": {"steps": 4}}
        changes |= {"log_every": 1}
        run = toy_run(toy_config(tmp_path / str(compiles), grooves, **changes))
        assert tried(run) == []
        heard = Heard()
        run.fit(heard)
        losses.append([progress.loss for progress in heard.progresses])
    assert len(graphs) == 1
    assert len(losses[0]) == 4
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_a_compiler_that_fails_is_done_without(
    grooves: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def failing(*_):
        raise RuntimeError("no C compiler\nis here")

    by(failing, monkeypatch)
    run = toy_run(toy_config(tmp_path, grooves, device={"compile": True}))
    (said,) = tried(run)
    assert "The layers are not compiled: " in said
    assert "no C compiler" in said
    assert "\n" not in said
    run.fit(Heard())


def test_nothing_is_compiled_on_a_cpu_unasked(pianos: Path, tmp_path: Path):
    run = toy_run(toy_config(tmp_path, pianos))
    assert tried(run) == []
    assert not any("forward" in vars(block) for block in run.model.blocks)
