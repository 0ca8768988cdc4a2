"""A run learns the same with few packages, on one device; what precision `auto` is."""

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


def test_auto_is_bfloat16_where_the_device_multiplies_it(processor: Any, monkeypatch):
    processor()
    assert fastest("cpu") == ("32-true", "this processor would have to imitate bfloat16")
    for abilities in ({"amx": True}, {"avx512": True}):
        processor(**abilities)
        assert fastest("cpu")[0] == fastest("auto")[0] == "bf16-mixed"
    monkeypatch.delattr(torch.cpu, "_is_amx_tile_supported")  # as of an older torch
    monkeypatch.delattr(torch.cpu, "_is_avx512_bf16_supported")
    assert fastest("cpu")[0] == "32-true"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    for has, expected in ((True, "bf16-mixed"), (False, "32-true")):
        monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: has)  # noqa: B023
        assert fastest("auto")[0] == expected
