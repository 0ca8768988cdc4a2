"""A run learns the same with few packages, on one device, compiled or not; `auto` is the fastest precision."""

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.training.makers import Heard, outcome, toy_config, toy_run
from training import devices
from training.config import DeviceConfig
from training.devices import OneDevice, fastest

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
            monkeypatch.setattr("training.devices._measured", lambda model: given)  # noqa: B023
            (tmp_path / "musicgen" / "precision.json").unlink(missing_ok=True)
            assert fastest(on_cpu)[0] == expected
        monkeypatch.setattr("training.devices._measured", lambda model: 1 / 0)
        assert fastest(anywhere)[0] == expected, "what was measured is stored"
    monkeypatch.delattr(torch.cpu, "_is_amx_tile_supported")  # as of an older torch
    monkeypatch.delattr(torch.cpu, "_is_avx512_bf16_supported")
    assert fastest(on_cpu)[0] == "32-true"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    for has, expected in ((True, "bf16-mixed"), (False, "32-true")):
        monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: has)  # noqa: B023
        assert fastest(anywhere)[0] == expected


# Layers that are compiled
