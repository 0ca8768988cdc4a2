"""A run learns the same with few packages, on one device, compiled or not; `auto` is the fastest precision."""

import os
import subprocess
import sys
from importlib.metadata import packages_distributions, requires
from pathlib import Path
from typing import Any

import pytest
import torch
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from app.cli import main
from musicgen.model.config import ModelConfig
from musicgen.model.performer import Performer
from musicgen.storage import checkpoint
from tests.training.makers import Heard, outcome, toy_config, toy_file, toy_run
from training import devices
from training.config import DeviceConfig
from training.devices import OneDevice, compiled
from training.loop import Run
from training.precision import _measured, fastest, with_precision

NEEDED = ("torch", "numpy", "safetensors", "lightning-fabric", "numba", "pyyaml", "rich")
NEEDED_BY_THEM = ("jinja2", "typing-extensions")
CHILD = """
import sys
hidden = sys.argv[1].split(",")
sys.modules.update(dict.fromkeys(hidden))  # importing one of them fails
from app.cli import main
code = main(sys.argv[2:])
assert not [name for name in hidden if sys.modules.get(name)]
sys.exit(code)
"""


@pytest.mark.long
def test_run_from_prepared_data_needs_seven_packages(pianos: Path, tmp_path: Path):
    plain = [
        Requirement(line) for line in requires("symbolic-musicgen") or [] if "extra ==" not in line
    ]
    others = {canonicalize_name(one.name) for one in plain} - {*NEEDED} - {*NEEDED_BY_THEM}
    others.add("tensorboard")
    hidden = sorted(
        module
        for module, names in packages_distributions().items()
        if {canonicalize_name(name) for name in names} & others
    )
    assert {"symusic", "miditoolkit", "matplotlib", "gradio", "tensorboard"} <= {*hidden}
    changes = {"optimiser": {"steps": 2}, "validation": {"samples": 1, "sample_tokens": 40}}
    path = toy_file(tmp_path, pianos, **changes)
    child = subprocess.run(
        [sys.executable, "-W", "error", "-c", CHILD, ",".join(hidden), "train", str(path)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        cwd=Path(__file__).parents[2],
    )
    assert child.returncode == 0, child.stderr
    assert "validation loss" in child.stdout
    assert child.stderr.count("No samples of music are written: ") == 1
    assert "No curves are drawn: matplotlib is not installed here." in child.stderr
    assert (tmp_path / "run" / "model" / "model.safetensors").exists()


# One device without Lightning Fabric


@pytest.mark.parametrize(("precision", "windows"), [("32-true", 1), ("bf16-mixed", 2)])
def test_run_is_the_same_without_fabric(
    pianos: Path, tmp_path: Path, precision: str, windows: int, monkeypatch: pytest.MonkeyPatch
):
    changes = {
        "data": {"windows": windows},
        "device": {"precision": precision},
        "optimiser": {"steps": 6, "accumulate": 2},
    }
    files = []
    for folder in ("with", "without"):
        run = toy_run(toy_config(tmp_path / folder, pianos, **changes))
        assert isinstance(run.fabric, OneDevice) == (folder == "without")
        run.fit(Heard())
        files.append(outcome(run.folder))
        monkeypatch.setattr(devices, "find_spec", lambda _: None)
    assert files[0] == files[1]


@pytest.mark.parametrize("given", [{"devices": 2}, {"strategy": "ddp"}, {"precision": "64-true"}])
def test_what_one_device_cannot_do_needs_fabric(given: dict):
    with pytest.raises(ValueError, match=r"need(s)? the package lightning-fabric"):
        OneDevice(DeviceConfig(**given))


# The precision that `auto` stands for


@pytest.fixture
def processor(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that makes this machine one with the given abilities and no GPU."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)

    def become(*, amx: bool = False, avx512: bool = False) -> None:
        monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: amx, raising=False)
        monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: avx512, raising=False)

    return become


def test_processor_trains_in_the_precision_that_is_faster_here(
    processor: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    on_cpu = toy_config(tmp_path, tmp_path, device={"accelerator": "cpu"})
    anywhere = toy_config(tmp_path, tmp_path, device={"accelerator": "auto"})
    processor()
    assert fastest(on_cpu) == ("32-true", "this processor would have to imitate bfloat16")
    for abilities in ({"amx": True}, {"avx512": True}):
        processor(**abilities)
        for times, expected in (((1.0, 1.5), "32-true"), ((1.0, 0.5), "bf16-mixed")):
            given = dict(zip(("32-true", "bf16-mixed"), times, strict=True))
            monkeypatch.setattr("training.precision._measured", lambda model: given)  # noqa: B023
            (tmp_path / "musicgen" / "precision.json").unlink(missing_ok=True)
            assert fastest(on_cpu)[0] == expected
        monkeypatch.setattr("training.precision._measured", lambda model: 1 / 0)
        assert fastest(anywhere)[0] == expected, "what was measured is stored"
    monkeypatch.delattr(torch.cpu, "_is_amx_tile_supported")  # as of an older torch
    monkeypatch.delattr(torch.cpu, "_is_avx512_bf16_supported")
    assert fastest(on_cpu)[0] == "32-true"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    for has, expected in ((True, "bf16-mixed"), (False, "32-true")):
        monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: has)  # noqa: B023
        assert fastest(anywhere)[0] == expected


def test_a_stopwatch_measures_both_precisions(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("training.precision.SECONDS", 0)
    model = Performer(ModelConfig.preset("tiny", vocabulary_size=512, layers=1, width=16, heads=2))
    times = _measured(model)
    assert set(times) == {"32-true", "bf16-mixed"}
    assert all(0 < seconds < 60 for seconds in times.values())


def test_run_says_its_precision_and_goes_on_in_it_on_another_processor(
    pianos: Path,
    tmp_path: Path,
    processor: Any,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    config = toy_config(tmp_path, pianos, device={"precision": "64-true"})
    assert with_precision(config, resume=False) == (config, [])
    changes = {"optimiser": {"steps": 2}, "device": {"precision": "auto"}}
    file = str(toy_file(tmp_path, pianos, **changes))
    processor(avx512=True)
    monkeypatch.setattr(
        "training.precision._times", lambda trial: {"32-true": 2.0, "bf16-mixed": 1.0}
    )
    assert main(["train", file]) == 0
    said = capsys.readouterr().err
    assert "Precision bf16-mixed: here bfloat16 takes 0.50 times as long as float32." in said
    assert checkpoint.read_card(tmp_path / "run" / "model")[1].training["precision"] == "bf16-mixed"
    processor()
    assert main(["train", file, "--resume", "--set", "optimiser.steps=4"]) == 0
    said = capsys.readouterr().err
    assert "Precision bf16-mixed: as this run began." in said
    assert "device.precision was" not in said


# Layers that are compiled


def tried(run: Run) -> list[str]:
    return compiled(run.model, run.module, run.fabric, run.config, run.batches)


def compile_by(backend, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let blocks be compiled by a backend."""
    plain = torch.compile
    torch.compiler.reset()
    monkeypatch.setattr(
        torch, "compile", lambda code, **given: plain(code, **given, backend=backend)
    )


@pytest.mark.long
def test_one_graph_serves_all_layers_and_learns_the_same(
    grooves: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    graphs, losses = [], []

    def counting(graph: torch.fx.GraphModule, _):
        graphs.append(graph)
        return graph.forward

    compile_by(counting, monkeypatch)
    model = {
        **{"dropout": 0.0, "layers": 3, "metre": {"bars": [1, 2], "remembers": [2, 8]}},
        "position": {"name": "sine_spe", "realisations": 4, "sines": 2, "time": "music"},
    }
    for compiles in (True, False):
        changes = {"device": {"compile": compiles}, "optimiser": {"steps": 4}, "log_every": 1}
        run = toy_run(toy_config(tmp_path / str(compiles), grooves, model=model, **changes))
        assert tried(run) == []
        heard = Heard()
        run.fit(heard)
        losses.append([progress.loss for progress in heard.progresses])
    assert len(graphs) == 1
    assert len(losses[0]) == 4
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_compiler_that_fails_is_done_without(pianos: Path, tmp_path: Path, monkeypatch):
    def failing(*_):
        raise RuntimeError("no C compiler\nis here")

    run = toy_run(toy_config(tmp_path, pianos))
    assert tried(run) == []  # on a CPU, unasked
    assert not any("forward" in vars(block) for block in run.model.blocks)
    compile_by(failing, monkeypatch)
    changes = {"device": {"compile": True}, "optimiser": {"steps": 2}}
    run = toy_run(toy_config(tmp_path, pianos, **changes))
    (said,) = tried(run)
    assert "The layers are not compiled: " in said
    assert "no C compiler" in said
    assert "\n" not in said
    run.fit(Heard())
