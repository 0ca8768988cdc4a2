"""A run on one device is the same without Fabric; the choice of the precision `auto`."""

import pytest
import torch

from musicgen.common import processes
from tests.training.makers import RecordingListener, outcome, toy_config, toy_run
from training import devices
from training.config import DeviceConfig
from training.devices import OneDevice, fastest


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_run_is_the_same_without_fabric(pianos, tmp_path, precision, monkeypatch):
    changes = {"device": {"precision": precision}, "optimiser": {"steps": 6, "accumulate": 2}}
    files = []
    for folder in ("with", "without"):
        run = toy_run(toy_config(tmp_path / folder, pianos, **changes))
        assert isinstance(run.fabric, OneDevice) == (folder == "without")
        run.fit(RecordingListener())
        files.append(outcome(run.folder))
        monkeypatch.setattr(devices, "find_spec", lambda _: None)
    assert files[0] == files[1]


@pytest.mark.parametrize("given", [{"devices": 2}, {"strategy": "ddp"}, {"precision": "64-true"}])
def test_settings_beyond_one_device_need_fabric(given: dict):
    with pytest.raises(ValueError, match=r"need(s)? the package lightning-fabric"):
        OneDevice(DeviceConfig(**given))


def test_auto_precision_is_bfloat16_if_the_device_multiplies_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    for flags in ("", "sse2 amx_bf16 avx2", "sse2 avx512_bf16"):
        monkeypatch.setattr(processes, "_cpu_info", lambda key: flags)  # noqa: B023
        found = "bf16-mixed" if flags else "32-true"
        assert fastest("cpu")[0] == fastest("auto")[0] == found
    monkeypatch.setattr(processes, "_cpu_info", lambda key: "")
    assert fastest("cpu") == ("32-true", "this processor would have to emulate bfloat16")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    for has, expected in ((True, "bf16-mixed"), (False, "32-true")):
        monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: has)  # noqa: B023
        assert fastest("auto")[0] == expected
