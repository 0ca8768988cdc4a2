"""The machine that something ran on: in words for people, and in full for what depends on every detail of it."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import torch

from musicgen.common.processes import processors


def machine() -> str:
    """Return the device, or the processor with the cores at hand, and the version of torch."""
    if torch.cuda.is_available():
        device = torch.cuda.get_device_name()
    else:
        device = f"{processors()} cores of {_processor()}"
    return f"{device}, torch {torch.__version__}"


def _processor() -> str:
    described = Path("/proc/cpuinfo")
    if described.exists():
        for line in described.read_text().splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()


# By what processors multiply bfloat16, and how torch is asked for it. All others imitate it: matrices take ten times as
# long as in float32.
_BFLOAT16 = {"AMX": "_is_amx_tile_supported", "AVX-512 BF16": "_is_avx512_bf16_supported"}


def multiplies_bfloat16() -> str | None:
    """Return the instructions by which the processor multiplies bfloat16, or None where it has none."""
    for name, question in _BFLOAT16.items():
        if getattr(torch.cpu, question, lambda: False)():
            return name
    return None


def cache_folder() -> Path:
    """Return the user's folder for what this machine has found out; of who has no home it is no absolute path."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    root = Path(base) if os.path.isabs(base) else Path(os.path.expanduser("~/.cache"))
    return root / "musicgen"
