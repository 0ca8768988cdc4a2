"""From a finished run to a model that ships: the smallest weights that cost next to nothing, and a README of facts.

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
from training.devices import FabricModel, start_fabric
from training.loop import MODEL, VALIDATE
from training.run_folder import check_data
from training.validation import Measured, Validation

# The README of a model that ships: facts from its card, its configuration and the measurement of its weights.


def model_readme(model: ModelConfig, card: Card, ways: Sequence[Stored]) -> str:
    """Return the text: what the card says of the training, the configuration, and what the weights cost."""
    measured = next(way.measured for way in ways if way.dtype == card.dtype)
    facts = {
        "language": f"{card.language['language']}, {card.language['tokens']} tokens",
        "parameters": f"{card.parameters:,}",
        "trained length": f"{card.trained_length} tokens",
        "weights": f"{card.dtype}, {card.bytes / 1e6:.1f} MB, SHA-256 {card.sha256[:16]}…",
        **run_folder.flat(card.training),
        **run_folder.flat(model.plain(), "model."),
    }
    costs = [
        (way.dtype, f"{way.bytes / 1e6:.1f}", loss(way.measured.inside), loss(way.measured.beyond))
        for way in ways
    ]
    parts = [
        f"# {card.name}",
        "`python -m training.publish` prints all numbers.",
        markdown([("", ""), *facts.items()], numbers=False),
        "## Quality",
        f"Loss in nats a token on {measured.sequences} validation pieces, which chose the "
        "checkpoint, by the way the weights are stored; "
        f"the model here is stored as {card.dtype}.",
        markdown([("weights", "MB", "trained length", "past it"), *costs]),
        "![Losses of the training, and loss by position](curves.png)",
    ]
    return "\n\n".join(parts) + "\n"


def loss(value: float | None) -> str:
    """Return a loss as tables have it."""
    return "–" if value is None else f"{value:.4f}"


MOST_LOST = 0.01  # nats a token that smaller weights may cost


@dataclass(frozen=True, kw_only=True)
class Stored:
    """A model as stored in one of the ways, and its loss then."""

    dtype: str
    bytes: int
    measured: Measured


def publish(run: Path, destination: Path) -> list[Stored]:
    """Write the best model of a run; return what each way to store it costs, the chosen one first."""
    config = read(run / CONFIG)
    batches = Batches(config.data, config.seed)
    found = run_folder.newest(run)
    if found is None:
        raise ValueError(f"{run} holds no checkpoint; train it first")
    check_data(found, batches)
    model, card = checkpoint.load(run / MODEL)
    validation = Validation(config, batches, model)
    ways = [_measured(model, card, dtype, validation, config.seed) for dtype in checkpoint.DTYPES]
    chosen, state = choose(ways), run_folder.read_state(found)
    facts = {
        "validation_loss": chosen.measured.inside,
        "validation_loss_beyond": chosen.measured.beyond,
        # A run may have ended before a checkpoint told of its best.
        "steps_of_the_run": max(state.step, int(card.training["steps"])),
        "seconds": round(state.seconds),
        "machine": machine(),
    }
    card = replace(card, name=destination.name, training={**card.training, **facts})
    card = checkpoint.save(destination, model, card, chosen.dtype)
    _copy_beside(run, [one.folder for one in batches.shards.sets], destination)
    write_text(destination / "README.md", model_readme(model.config, card, ways))
    return [chosen, *(way for way in ways if way is not chosen)]


def choose(ways: Sequence[Stored]) -> Stored:
    """Return the smallest of those that cost less than MOST_LOST nats against the first, inside and beyond."""
    whole = ways[0].measured

    def cost(way: Stored) -> float:
        beyond = (way.measured.beyond or 0.0) - (whole.beyond or 0.0)
        return max(way.measured.inside - whole.inside, beyond)

    return min((way for way in ways if cost(way) < MOST_LOST), key=lambda way: way.bytes)


def _measured(
    model: Performer, card: Card, dtype: str, validation: Validation, seed: int
) -> Stored:
    """Store a model in a way, and measure it as loaded again."""
    with tempfile.TemporaryDirectory() as folder:
        size = checkpoint.save(folder, model, card, dtype).bytes
        loaded = checkpoint.load(folder)[0]
    fabric = start_fabric(DeviceConfig(accelerator="cpu"))
    with torch.no_grad():
        code = loaded.begin(generator_of(seed, VALIDATE))
        measured = validation.measure(fabric, FabricModel(loaded), code)
    return Stored(dtype=dtype, bytes=size, measured=measured)


def _copy_beside(run: Path, data: Sequence[Path], destination: Path) -> None:
    """Copy the licences of the data and the picture of the training to the model's folder."""
    licences = [folder / "LICENSE" for folder in data if (folder / "LICENSE").is_file()]
    if licences:
        texts = dict.fromkeys(licence.read_bytes() for licence in licences)
        write_whole(destination / "DATA-LICENSE", b"\n\n".join(texts))
    if (run / "curves.png").is_file():
        write_whole(destination / "curves.png", (run / "curves.png").read_bytes())


def main() -> int:
    """Publish, and print what each way to store the model costs."""
    parser = argparse.ArgumentParser(description="Write the best model of a run for shipping.")
    parser.add_argument("run", type=Path, metavar="RUN")
    parser.add_argument("destination", type=Path, metavar="DEST")
    arguments = parser.parse_args()
    try:
        ways = publish(arguments.run, arguments.destination)
    except (ValueError, OSError) as error:
        print(f"publish: {error}", file=sys.stderr)
        return 2
    for way in ways:
        inside, beyond = loss(way.measured.inside), loss(way.measured.beyond)
        print(
            f"{way.dtype:9} {way.bytes / 1e6:6.1f} MB  loss {inside}  past the trained length {beyond}"
        )
    print(f"{arguments.destination}: stored as {ways[0].dtype}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
