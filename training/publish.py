"""Publish the model of a finished run: the smallest weights of nearly equal quality, and a README of facts.

python -m training.publish RUN DEST
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from musicgen import checkpoint
from musicgen.checkpoint import Card
from musicgen.common.learning import generator_of
from musicgen.common.processes import machine
from musicgen.config import ModelConfig
from musicgen.performer import Performer
from tokenization.whole_file import write_text, write_whole
from tokenization.wording import markdown
from training import run_folder
from training.config import CONFIG, DeviceConfig, read
from training.data.batches import Batches
from training.devices import Devices
from training.loop import MODEL, VALIDATE
from training.run_folder import check_data
from training.validation import Measured, Validation


def model_readme(model: ModelConfig, card: Card, stored: Sequence[Stored]) -> str:
    """Return the README of a model: its card, its configuration, and the loss by storage type."""
    measured = next(one.measured for one in stored if one.dtype == card.dtype)
    facts = {
        "language": f"{card.language['language']}, {card.language['tokens']} tokens",
        "parameters": f"{card.parameters:,}",
        "trained length": f"{card.trained_length} tokens",
        "weights": f"{card.dtype}, {card.bytes / 1e6:.1f} MB, SHA-256 {card.sha256[:16]}…",
        **run_folder.flat(card.training),
        **run_folder.flat(model.plain(), "model."),
    }
    losses = [
        (one.dtype, f"{one.bytes / 1e6:.1f}", loss(one.measured.inside), loss(one.measured.beyond))
        for one in stored
    ]
    parts = [
        f"# {card.name}",
        "`python -m training.publish` prints all numbers.",
        markdown([("", ""), *facts.items()], numbers=False),
        "## Quality",
        f"Loss in nats per token on the {measured.sequences} validation pieces by which the checkpoint was chosen, "
        f"for each type of stored weights; this model is stored as {card.dtype}.",
        markdown([("weights", "MB", "trained length", "past it"), *losses]),
        "![Losses during training, and loss by position](curves.png)",
    ]
    return "\n\n".join(parts) + "\n"


def loss(value: float | None) -> str:
    """Format a loss for a table."""
    return "–" if value is None else f"{value:.4f}"


MOST_LOST = 0.01  # nats per token that smaller weights may cost


@dataclass(frozen=True, kw_only=True)
class Stored:
    """A model stored in one of checkpoint.DTYPES, and its loss when loaded from it."""

    dtype: str
    bytes: int
    measured: Measured


def publish(run: Path, destination: Path) -> list[Stored]:
    """Write the best model of a run; return the losses of all storage types, the chosen one first."""
    config = read(run / CONFIG)
    batches = Batches(config.data, config.seed)
    found = run_folder.newest(run)
    if found is None:
        raise ValueError(f"{run} holds no checkpoint; train it first")
    check_data(found, batches)
    model, card = checkpoint.load(run / MODEL)
    validation = Validation(config, batches, model)
    stored = [_measured(model, card, dtype, validation, config.seed) for dtype in checkpoint.DTYPES]
    chosen, state = choose(stored), run_folder.read_state(found)
    facts = {
        "validation_loss": chosen.measured.inside,
        "validation_loss_beyond": chosen.measured.beyond,
        # An interrupted run may have no checkpoint as late as its best model.
        "steps_of_the_run": max(state.step, int(card.training["steps"])),
        "seconds": round(state.seconds),
        "machine": machine(),
    }
    card = replace(card, name=destination.name, training={**card.training, **facts})
    card = checkpoint.save(destination, model, card, chosen.dtype)
    _copy_attachments(run, [one.folder for one in batches.shards.sets], destination)
    write_text(destination / "README.md", model_readme(model.config, card, stored))
    return [chosen, *(one for one in stored if one is not chosen)]


def choose(stored: Sequence[Stored]) -> Stored:
    """Return the smallest whose losses, inside and beyond, exceed those of the first by less than MOST_LOST."""
    exact = stored[0].measured

    def cost(one: Stored) -> float:
        beyond = (one.measured.beyond or 0.0) - (exact.beyond or 0.0)
        return max(one.measured.inside - exact.inside, beyond)

    return min((one for one in stored if cost(one) < MOST_LOST), key=lambda one: one.bytes)


def _measured(
    model: Performer, card: Card, dtype: str, validation: Validation, seed: int
) -> Stored:
    """Store a model with weights of a type, load it again and measure its loss."""
    with tempfile.TemporaryDirectory() as folder:
        size = checkpoint.save(folder, model, card, dtype).bytes
        loaded = checkpoint.load(folder)[0]
    devices = Devices(DeviceConfig(accelerator="cpu"))
    with torch.no_grad():
        code = loaded.begin(generator_of(seed, VALIDATE))
        measured = validation.measure(devices, devices.module_of(loaded), code)
    return Stored(dtype=dtype, bytes=size, measured=measured)


def _copy_attachments(run: Path, data: Sequence[Path], destination: Path) -> None:
    """Copy the licences of the data and the figure of the losses to the model's folder."""
    licences = [folder / "LICENSE" for folder in data if (folder / "LICENSE").is_file()]
    if licences:
        texts = dict.fromkeys(licence.read_bytes() for licence in licences)
        write_whole(destination / "DATA-LICENSE", b"\n\n".join(texts))
    if (run / "curves.png").is_file():
        write_whole(destination / "curves.png", (run / "curves.png").read_bytes())


def main() -> int:
    """Publish a model, and print the losses of all storage types."""
    parser = argparse.ArgumentParser(description="Publish the best model of a run.")
    parser.add_argument("run", type=Path, metavar="RUN")
    parser.add_argument("destination", type=Path, metavar="DEST")
    arguments = parser.parse_args()
    try:
        stored = publish(arguments.run, arguments.destination)
    except (ValueError, OSError) as error:
        print(f"publish: {error}", file=sys.stderr)
        return 2
    for one in stored:
        inside, beyond = loss(one.measured.inside), loss(one.measured.beyond)
        print(
            f"{one.dtype:9} {one.bytes / 1e6:6.1f} MB  loss {inside}  past the trained length {beyond}"
        )
    print(f"{arguments.destination}: stored as {stored[0].dtype}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
