"""Publish the model of a finished run, with smaller weights and a README of facts.

python -m training.publish RUN DEST [--weights int8] [--force]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from musicgen import weights
from musicgen.checkpoint import CONFIG as MODEL_CONFIG
from musicgen.checkpoint import Card
from musicgen.common.learning import generator_of
from musicgen.common.machine import machine
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

ROLES = "model.clock", "model.goals", "model.recall"  # long lists that follow from the language


def model_readme(model: ModelConfig, card: Card, measured: Measured, exact: Measured) -> str:
    """Return the README of a model: its card, its configuration, and its losses as stored and in float32."""
    facts = {
        "language": f"{card.language['language']}, {card.language['tokens']} tokens",
        "parameters": f"{card.parameters:,}",
        "trained length": f"{card.trained_length} tokens",
        "weights": f"{card.dtype}, {card.bytes / 1e6:.1f} MB, SHA-256 {card.sha256[:16]}…",
        **run_folder.flat(card.training),
        **{
            name: value
            for name, value in run_folder.flat(model.plain(), "model.").items()
            if not name.startswith(ROLES)
        },
        "recall": "no" if model.recall is None else "yes",
    }
    pieces = f" nats per token, {measured.sequences} pieces"
    for name in ("validation_loss", "validation_loss_beyond"):
        facts[name] = written(facts[name]) + (pieces if facts[name] is not None else "")
    losses = [
        (name, written(one.inside), written(one.beyond))
        for name, one in ((card.dtype, measured), ("float32", exact))
    ]
    parts = [
        f"# {card.name}",
        "`python -m training.publish` prints all numbers.",
        markdown([("", ""), *facts.items()], numbers=False),
        "## Quality",
        f"Loss in nats per token on the {measured.sequences} validation pieces by which the checkpoint was chosen, "
        "with the weights as stored and in float32.",
        markdown([("weights", "trained length", "past it"), *losses]),
        "![Losses during training, and loss by position](curves.png)",
    ]
    return "\n\n".join(parts) + "\n"


def written(value: float | None) -> str:
    """Format a loss for a table."""
    return "–" if value is None else f"{value:.4f}"


def check_destination(destination: Path, *, replace: bool) -> None:
    """Raise ValueError if the destination holds anything other than a model that may be replaced."""
    if destination.exists() and not destination.is_dir():
        raise ValueError(f"{destination} is a file; choose a folder for the model")
    if not destination.exists() or not any(destination.iterdir()):
        return
    if not (destination / MODEL_CONFIG).is_file():
        raise ValueError(f"{destination} is not empty and has no model; choose another folder")
    if not replace:
        raise ValueError(
            f"{destination} already holds a model; choose another folder, or replace it with --force"
        )


def publish(run: Path, destination: Path, dtype: str) -> str:
    """Write the best model of a run with weights of a type; return its README."""
    config = read(run / CONFIG)
    batches = Batches(config.data, config.seed)
    found = run_folder.newest(run)
    if found is None:
        raise ValueError(f"{run} has no checkpoint; train it first")
    check_data(found, batches)
    model, card = weights.load(run / MODEL)
    validation = Validation(config, batches, model)
    weights.save(destination, model, card, dtype)
    measured, exact = (
        _measured(weights.load(folder)[0], validation, config.seed)
        for folder in (destination, run / MODEL)
    )
    state = run_folder.read_state(found)
    facts = {
        "validation_loss": measured.inside,
        "validation_loss_beyond": measured.beyond,
        # An interrupted run may have no checkpoint as late as its best model.
        "steps_of_the_run": max(state.step, int(card.training["steps"])),
        "seconds": round(state.seconds),
        "machine": machine(),
    }
    card = replace(card, name=destination.name, training={**card.training, **facts})
    card = weights.save(destination, model, card, dtype)
    _copy_attachments(run, [one.folder for one in batches.shards.sets], destination)
    text = model_readme(model.config, card, measured, exact)
    write_text(destination / "README.md", text)
    return text


def _measured(model: Performer, validation: Validation, seed: int) -> Measured:
    devices = Devices(DeviceConfig(accelerator="cpu"))
    with torch.no_grad():
        code = model.begin(generator_of(seed, VALIDATE))
        return validation.measure(devices, devices.module_of(model), code)


def _copy_attachments(run: Path, data: Sequence[Path], destination: Path) -> None:
    """Copy the licences of the data and the figure of the losses to the model's folder."""
    licences = [folder / "LICENSE" for folder in data if (folder / "LICENSE").is_file()]
    if licences:
        texts = dict.fromkeys(licence.read_bytes() for licence in licences)
        write_whole(destination / "DATA-LICENSE", b"\n\n".join(texts))
    if (run / "curves.png").is_file():
        write_whole(destination / "curves.png", (run / "curves.png").read_bytes())


def main() -> int:
    """Publish a model, and print its README."""
    parser = argparse.ArgumentParser(description="Publish the best model of a run.")
    parser.add_argument("run", type=Path, metavar="RUN")
    parser.add_argument("destination", type=Path, metavar="DEST")
    parser.add_argument("--weights", choices=weights.DTYPES, default="int8", help="their type")
    parser.add_argument("--force", action="store_true", help="replace the model in DEST")
    arguments = parser.parse_args()
    try:
        check_destination(arguments.destination, replace=arguments.force)
        print(publish(arguments.run, arguments.destination, arguments.weights))
    except (ValueError, OSError) as error:
        print(f"publish: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
