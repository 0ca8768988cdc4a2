"""What travels of a model: its description as text, and its weights in pieces of a bounded size.

The weights are a safetensors file, cut: `cat model.safetensors.*` is that file. Of the optimiser nothing travels; a
checkpoint that is made of what came has averages of zero, and says that warm-up begins again there.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch

from musicgen.model.performer import Performer
from musicgen.storage import checkpoint
from training import run_folder
from training.config import OptimiserConfig
from training.optimiser import kept_of, optimiser_of


def write_parts(folder: Path, name: str, model: Performer, card: Any, dtype: str, size: int) -> str:
    """Write a model's weights as NAME.safetensors.1, 2, …; return the text that describes the model."""
    with tempfile.TemporaryDirectory() as place:
        checkpoint.save(place, model, card, dtype)
        text = (Path(place) / checkpoint.CONFIG).read_text(encoding="utf-8")
        data = (Path(place) / checkpoint.WEIGHTS).read_bytes()
    pieces = [data[start : start + size] for start in range(0, len(data), size)]
    for number, piece in enumerate(pieces, 1):
        fresh = folder / f".{name}.{number}.new"
        fresh.write_bytes(piece)
        os.replace(fresh, _part(folder, name, number))
    number = len(pieces) + 1
    while _part(folder, name, number).exists():  # of something larger that stood here
        _part(folder, name, number).unlink()
        number += 1
    return text


def join_parts(folder: Path, name: str, text: str, model: Path) -> None:
    """Put a model's folder together from its parts and the text that describes it; damage raises ValueError."""
    shutil.rmtree(model, ignore_errors=True)
    model.mkdir(parents=True)
    (model / checkpoint.CONFIG).write_text(text, encoding="utf-8")
    number = 1
    with (model / checkpoint.WEIGHTS).open("wb") as file:
        while _part(folder, name, number).is_file():
            file.write(_part(folder, name, number).read_bytes())
            number += 1
    checkpoint.load(model)


def write_checkpoint(
    run: Path, model: Path, settings: OptimiserConfig, state: run_folder.RunState
) -> Path:
    """Write a checkpoint of a run from a model and what is known of the run, without averages."""
    found, card = checkpoint.load(model)
    optimiser = optimiser_of(settings, found)
    averages = {
        f"{name}/{key}": torch.zeros(() if key == "step" else parameter.shape)
        for name, parameter in found.named_parameters()
        for key in kept_of(optimiser, parameter)
    }
    state.began, state.window = state.step, ()
    return run_folder.save(run, found, card, averages, state)


def _part(folder: Path, name: str, number: int) -> Path:
    return folder / f"{name}.safetensors.{number}"
