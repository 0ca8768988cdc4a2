"""One device without Lightning Fabric learns what it learns with it, bit for bit."""

from pathlib import Path

import pytest

from tests.training.makers import Heard, outcome, toy_config, toy_run
from training import devices
from training.config import DeviceConfig
from training.devices import OneDevice


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
@pytest.mark.parametrize("windows", [1, 2])
def test_a_run_is_the_same_without_fabric(
    pianos: Path, tmp_path: Path, precision: str, windows: int, monkeypatch: pytest.MonkeyPatch
):
    changes = {
        "data": {"windows": windows},
        "device": {"accelerator": "cpu", "precision": precision},
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
def test_what_it_cannot_do_needs_fabric(given: dict, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(ValueError, match=r"need(s)? the package lightning-fabric"):
        OneDevice(DeviceConfig(**given))
