"""The checkpoints of a run: a folder each, complete or absent, from which a run goes on bit for bit.

All randomness of a run is a function of its seed and the step (training/loop.py), so what must be kept is little: the
model, Adam's averages, the step and the record of the best loss.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch.optim import Optimizer

from musicgen import checkpoint
from musicgen.model import Performer
from musicgen.plain import from_plain

CHECKPOINTS, OPTIMISER, STATE = "checkpoints", "optimiser.safetensors", "state.json"


@dataclass(kw_only=True)
class RunState:
    """Where a run stands."""

    step: int = 0  # steps done
    best_loss: float | None = None  # on the validation data, within the trained length
    best_step: int = 0
    stale: int = 0  # validations since the best
    seconds: float = 0.0  # of computing, over all its sessions
    data: str = ""  # checksum of the data set


def save(
    run: Path, model: Performer, card: checkpoint.Card, optimiser: Optimizer, state: RunState
) -> Path:
    """Write a checkpoint under its step's name; it appears whole or not at all."""
    target = run / CHECKPOINTS / f"{state.step:08d}"
    fresh = target.with_name(f".{target.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    checkpoint.save(fresh, model, card)
    save_file(_averages(model, optimiser), fresh / OPTIMISER)
    (fresh / STATE).write_text(json.dumps(asdict(state), indent=2) + "\n")
    for path in fresh.iterdir():
        _sync(path)
    if target.exists():
        shutil.rmtree(target)
    os.replace(fresh, target)
    _sync(target.parent)
    return target


def newest(run: Path) -> Path | None:
    """Return the latest checkpoint of a run, if it has one."""
    folders = sorted((run / CHECKPOINTS).glob("[0-9]*"))
    return folders[-1] if folders else None


def prune(run: Path, keep: int) -> None:
    """Delete all but the latest `keep` checkpoints, and what an interrupted save left."""
    for folder in sorted((run / CHECKPOINTS).glob("[0-9]*"))[:-keep]:
        shutil.rmtree(folder)
    for folder in (run / CHECKPOINTS).glob(".*.new"):
        shutil.rmtree(folder)


def restore(folder: Path, model: Performer, optimiser: Optimizer) -> RunState:
    """Put model and optimiser where a checkpoint left them."""
    stored, _ = checkpoint.load(folder)
    model.load_state_dict(stored.state_dict())
    averages = load_file(folder / OPTIMISER)
    for name, parameter in model.named_parameters():
        prefix = f"{name}/"
        found = {k.removeprefix(prefix): v for k, v in averages.items() if k.startswith(prefix)}
        on_cpu = () if optimiser.defaults.get("fused") else ("step",)
        optimiser.state[parameter] = {
            # Copied, since a view into the file may lie at odd addresses and round differently.
            key: value.clone() if key in on_cpu else value.clone().to(parameter.device)
            for key, value in found.items()
        }
    return from_plain(RunState, json.loads((folder / STATE).read_text()), str(folder / STATE))


def _averages(model: Performer, optimiser: Optimizer) -> dict[str, torch.Tensor]:
    return {
        f"{name}/{key}": value.detach().cpu().contiguous()
        for name, parameter in model.named_parameters()
        for key, value in optimiser.state[parameter].items()
    }


def _sync(path: Path) -> None:
    if os.name == "posix":
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
