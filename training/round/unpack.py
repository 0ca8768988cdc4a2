"""Unpack what a round gave: a run that goes on from its held rate, and its model, as if it had been trained here."""

from __future__ import annotations

import json
import math
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from musicgen.storage import checkpoint
from tokenization.records import from_plain
from training import run_folder
from training.config import RunConfig
from training.loop import MODEL
from training.round.pack import ROUND
from training.round.parts import join_parts, write_checkpoint
from training.run_folder import write_config


def unpack(folder: Path, run: Path) -> dict[str, Any]:
    """Put what a round gave into the folder of a run; return what is known of it."""
    content = json.loads((folder / ROUND).read_text(encoding="utf-8"))
    config = replace(from_plain(RunConfig, content["config"], str(folder / ROUND)), run=str(run))
    held = "hold" if content.get("hold") else "model"
    state = from_plain(run_folder.RunState, content["state"], "state")
    before = run_folder.newest(run)
    if before is not None and int(before.name) >= state.step:
        raise ValueError(f"{run} stands at step {int(before.name)}, past {state.step} of the round")
    if before is None and run.is_dir() and any(run.iterdir()):
        raise ValueError(f"{run} holds something that is no run; name another folder")
    # Batches of another size: the music goes on where the round left it.
    seen = (state.step if state.batches is None else state.batches) * content["batch"]
    state.batches = math.ceil(seen / config.data.batch)
    with tempfile.TemporaryDirectory() as place:
        join_parts(folder, held, content[held], Path(place) / "held")
        write_checkpoint(run, Path(place) / "held", config.optimiser, state)
    join_parts(folder, "model", content["model"], run / MODEL)
    write_config(config)
    for name, text in content["tables"].items():
        (run / name).write_text(text, encoding="utf-8")
    card = checkpoint.read_card(run / MODEL)[1]
    known = ("device", "batch", "tokens_per_second", "tokens", "seconds", "ending")
    return {
        **{key: content[key] for key in known},
        "held": state.step,
        "step": card.training["steps"],
        "validation_loss": card.training["validation_loss"],
    }
