"""The fastest precision that a device trains in: by what a GPU can do, and on a CPU by a stopwatch."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from musicgen.common.processes import cache_folder, machine, multiplies_bfloat16
from musicgen.model.performer import Performer
from musicgen.playable import folder_of
from musicgen.storage.checkpoint import read_card
from tokenization.records import json_of, yaml_of
from tokenization.whole_file import write_json
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
        precision, reason = fastest(config)
    config = replace(config, device=replace(config.device, precision=precision))
    return config, [f"Precision {precision}: {reason}."]


def fastest(config: RunConfig) -> tuple[str, str]:
    """Return bf16-mixed where the run's device is faster in it than in float32, else 32-true; and why."""
    accelerator = config.device.accelerator
    if accelerator in ("auto", "cuda") and torch.cuda.is_available():
        if torch.cuda.is_bf16_supported(including_emulation=False):
            return "bf16-mixed", "this GPU multiplies bfloat16"
        return "32-true", "this GPU has no bfloat16"
    if accelerator == "mps" or (accelerator == "auto" and torch.backends.mps.is_available()):
        return "32-true", "on an Apple GPU bfloat16 is not tried"
    if not multiplies_bfloat16():
        return "32-true", "this processor would have to imitate bfloat16"
    times = _times(_trial(config))
    precision = "bf16-mixed" if times["bf16-mixed"] < times["32-true"] else "32-true"
    ratio = times["bf16-mixed"] / times["32-true"]
    return precision, f"here bfloat16 takes {ratio:.2f} times as long as float32"


# Two layers of the run's shape, without what needs to know a language, on so many tokens.
TOKENS = 512
SHAPE = ("preset", "width", "heads", "feedforward", "features", "norm", "activation")
SECONDS = 1.0


def _trial(config: RunConfig) -> RunConfig:
    given = config.model
    if config.start is not None:
        given = read_card(folder_of(config.start))[0].plain()
    assert isinstance(given, Mapping), "a run without a start has a model"
    shape = {name: given[name] for name in SHAPE if name in given}
    plain: dict[str, Any] = {"layers": 2, "position": {"name": "none"}, "dropout": 0.0}
    return replace(config, start=None, model={**shape, **plain})


def _times(trial: RunConfig) -> dict[str, float]:
    """Return the seconds of a step in each precision, as they were measured on this machine when first asked for."""
    model = trial.model_config(512)
    shape = f"{machine()}, {torch.get_num_threads()} threads, {model.plain()}"
    file, known = cache_folder() / "precision.json", dict[str, dict[str, float]]()
    with suppress(OSError, ValueError):
        known = json_of(file)
    if shape not in known:
        known[shape] = _measured(Performer(model))
        with suppress(OSError):  # there is no place to store it
            file.parent.mkdir(parents=True, exist_ok=True)
            write_json(file, known)
    return known[shape]


def _measured(model: Performer) -> dict[str, float]:
    """Return the seconds of the fastest of some steps in each precision, which take turns."""
    tokens = torch.arange(TOKENS).remainder(512).view(1, TOKENS)
    best = {"32-true": float("inf"), "bf16-mixed": float("inf")}
    in_bfloat16 = partial(torch.autocast, "cpu", torch.bfloat16)
    since, rounds = time.perf_counter(), 0
    while rounds < 2 or time.perf_counter() < since + SECONDS:  # the first is slower
        rounds += 1
        for name in best:
            begun = time.perf_counter()
            with in_bfloat16(enabled=name == "bf16-mixed"):
                model(tokens).float().sum().backward()
            best[name] = min(best[name], time.perf_counter() - begun)
    return best


def _stored(run: Path) -> str | None:
    """Return the precision that a run was begun with, if there is one."""
    try:
        return str(yaml_of(run / CONFIG)["device"]["precision"])
    except (OSError, ValueError, TypeError, KeyError):
        return None
