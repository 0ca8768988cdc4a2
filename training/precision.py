"""The fastest precision that a device trains in, chosen by what it can do and not by a stopwatch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from musicgen.common.machine import multiplies_bfloat16
from tokenization.records import yaml_of
from training.config import RunConfig
from training.run_folder import CONFIG


def with_precision(config: RunConfig, *, resume: bool) -> tuple[RunConfig, list[str]]:
    """Return a run with its precision decided where it is `auto`, and a remark on what was chosen and why.

    A run goes on in the precision that it began with, on whatever machine.
    """
    if config.device.precision != "auto":
        return config, []
    began = _stored(Path(config.run)) if resume else None
    if began is not None:
        precision, reason = began, "as this run began"
    else:
        precision, reason = fastest(config.device.accelerator)
    config = replace(config, device=replace(config.device, precision=precision))
    return config, [f"Precision {precision}: {reason}."]


def fastest(accelerator: str) -> tuple[str, str]:
    """Return bf16-mixed where a device multiplies bfloat16 faster than float32, else 32-true; and why."""
    if accelerator in ("auto", "cuda") and torch.cuda.is_available():
        if torch.cuda.is_bf16_supported(including_emulation=False):
            return "bf16-mixed", "this GPU multiplies bfloat16"
        return "32-true", "this GPU has no bfloat16"
    if accelerator == "mps" or (accelerator == "auto" and torch.backends.mps.is_available()):
        return "32-true", "on an Apple GPU bfloat16 is not tried"
    if instructions := multiplies_bfloat16():
        return "bf16-mixed", f"this processor multiplies bfloat16 ({instructions})"
    return "32-true", "this processor would have to imitate bfloat16"


def _stored(run: Path) -> str | None:
    """Return the precision that a run was begun with, if there is one."""
    try:
        return str(yaml_of(run / CONFIG)["device"]["precision"])
    except (OSError, ValueError, TypeError, KeyError):
        return None
