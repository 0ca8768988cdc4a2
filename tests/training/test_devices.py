"""The choice of the precision `auto`."""

import pytest
import torch

from musicgen.common import machine
from training.devices import fastest


def test_auto_precision_is_bfloat16_if_the_device_multiplies_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    for flags in ("", "sse2 amx_bf16 avx2", "sse2 avx512_bf16"):
        monkeypatch.setattr(machine, "_cpu_info", lambda key: flags)  # noqa: B023
        found = "bf16-mixed" if flags else "32-true"
        assert fastest("cpu") == fastest("auto") == found
    monkeypatch.setattr(machine, "_cpu_info", lambda key: "")
    assert fastest("cpu") == "32-true"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    for has, expected in ((True, "bf16-mixed"), (False, "32-true")):
        monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: has)  # noqa: B023
        assert fastest("auto") == expected
