"""The machine: its processor or GPU, and what it can do."""

from __future__ import annotations

import platform
from pathlib import Path

from tokenization.processes import processors


def machine() -> str:
    """Describe the machine: the GPU, or the processor and its available cores, and the version of torch."""
    import torch  # imported here, since processes that only wait start faster without it

    if torch.cuda.is_available():
        device = torch.cuda.get_device_name()
    else:
        processor = _cpu_info("model name") or platform.processor() or platform.machine()
        device = f"{processors()} cores of {processor}"
    return f"{device}, torch {torch.__version__}"


def _cpu_info(key: str) -> str:
    """Return a value of Linux's description of the first processor; empty on other systems."""
    info = Path("/proc/cpuinfo")
    for line in info.read_text().splitlines() if info.exists() else ():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return ""


# With Linux's names. Other processors emulate bfloat16, and multiply matrices ten times more slowly than in float32.
_BFLOAT16 = {"AMX": "amx_bf16", "AVX-512 BF16": "avx512_bf16"}


def multiplies_bfloat16() -> str | None:
    """Return the name of the processor's instructions for bfloat16, or None if it has none or they are unknown."""
    flags = _cpu_info("flags").split()
    return next((name for name, flag in _BFLOAT16.items() if flag in flags), None)
