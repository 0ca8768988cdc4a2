"""From a finished run to a model that ships: the smallest weights that cost next to nothing, and a README of facts.

python -m training.results.publish RUN DEST
python -m training.results.publish RUN DEST --blend build/models/before-model --share 0.4 --louder 1.5
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch

from musicgen.common.learning import seed_of
from musicgen.common.machine import machine
from musicgen.model.performer import Performer
from musicgen.storage import checkpoint
from musicgen.storage.library import folder_of
from tokenization.whole_file import write_text, write_whole
from training.config import DeviceConfig, RunConfig, read
from training.data.batches import Batches
from training.devices import start_fabric
from training.fabric_model import FabricModel, Sealed
from training.loop import MODEL, VALIDATE
from training.results.blending import blended
from training.results.model_readme import loss, model_readme
from training.results.recall_fit import counted_contrast, fitted, held_out_of
from training.storage import saving
from training.storage.model_card import card_of, learned_from
from training.validation import Measured, Validation

MOST_LOST = 0.01  # nats a token that smaller weights may cost


@dataclass(frozen=True, kw_only=True)
class Stored:
    """A model as stored in one of the ways, and its loss then."""

    dtype: str
    bytes: int
    measured: Measured


@dataclass(frozen=True, kw_only=True)
class Blend:
    """What a run's model is blended with (blending.py)."""

    model: str  # by name or folder: what the run began as
    share: float = 0.0
    louder: float = 1.0


def publish(run: Path, destination: Path, blend: Blend | None = None) -> list[Stored]:
    """Write the best model of a run; return what each way to store it costs, the chosen one first."""
    learned = config = read(run / "config.yaml")
    batches = Batches(config.data, config.seed)
    found = saving.newest(run)
    if found is None:
        raise ValueError(f"{run} holds no checkpoint; train it first")
    state = saving.read_state(found)
    if not learned_from(found, batches):
        raise ValueError(
            f"{run} was trained on other data than {config.data.folder} holds now, or with other pieces held out; "
            "prepare the same data again"
        )
    model, saved = checkpoint.load(run / MODEL)
    mixed = {}
    if blend is not None:
        before, known = checkpoint.load(folder_of(blend.model))
        model = blended(model, before, blend.share, blend.louder)
        mixed = {"blend": {**asdict(blend), "model": known.name, "sha256": known.sha256}}
        longest = model.config.longest or known.trained_length
        config = _as_long(config, min(known.trained_length, longest))
    validation = Validation(config, batches, model)
    # A run may have ended before a checkpoint told of its best.
    steps = int(saved.training["steps"])
    best = replace(state, step=steps)
    card = card_of(config, batches, best, saved.training.get("start"))
    seed = seed_of(config.seed, VALIDATE)
    with tempfile.TemporaryDirectory() as folder:
        ways = [
            _store(model, card, dtype, Path(folder), validation, seed)
            for dtype in checkpoint.DTYPES
        ]
    chosen = choose(ways)
    recalled = fitted(held_out_of(model, batches), counted_contrast(batches))
    facts = {
        **mixed,
        **recalled.habits.facts(),
        "validation_loss": chosen.measured.inside,
        "validation_loss_beyond": chosen.measured.beyond,
        "steps_of_the_run": max(state.step, steps),
        "seconds": round(state.seconds),
        "machine": machine(),
    }
    card = replace(card, name=destination.name, training={**card.training, **facts})
    card = checkpoint.save(destination, model, card, chosen.dtype)
    _copy_beside(run, [one.folder for one in batches.shards.sets], destination)
    losses = {way.dtype: (way.bytes, way.measured) for way in ways}
    text = model_readme(model.config, card, learned, losses, recalled, _encodings(destination))
    write_text(destination / "README.md", text)
    return [chosen, *(way for way in ways if way is not chosen)]


def _as_long(config: RunConfig, length: int) -> RunConfig:
    """Return the configuration by which to measure what is partly a model that was trained at another length."""
    if length <= config.data.trained_length:
        return config
    data = replace(config.data, length=length, windows=1)
    validation = replace(config.validation, length=None, batch=2)  # as far as the model reads
    return replace(config, data=data, validation=validation)


def choose(ways: Sequence[Stored]) -> Stored:
    """Return the smallest of those that cost less than MOST_LOST nats against the first, inside and beyond."""
    whole = ways[0].measured

    def cost(way: Stored) -> float:
        beyond = (way.measured.beyond or 0.0) - (whole.beyond or 0.0)
        return max(way.measured.inside - whole.inside, beyond)

    return min((way for way in ways if cost(way) < MOST_LOST), key=lambda way: way.bytes)


def _store(
    model: Performer,
    card: checkpoint.Card,
    dtype: str,
    folder: Path,
    validation: Validation,
    seed: int,
) -> Stored:
    """Store a model in a way, and measure it as loaded again."""
    size = checkpoint.save(folder / dtype, model, card, dtype).bytes
    loaded = checkpoint.load(folder / dtype)[0]
    fabric = start_fabric(DeviceConfig(accelerator="cpu"))
    with torch.no_grad():
        code = Sealed(loaded.begin(torch.Generator().manual_seed(seed)))
        measured = validation.measure(fabric, FabricModel(loaded), code)
    return Stored(dtype=dtype, bytes=size, measured=measured)


def _copy_beside(run: Path, data: Sequence[Path], destination: Path) -> None:
    """Keep the licences of the data and the picture of the training beside the model."""
    licences = [folder / "LICENSE" for folder in data if (folder / "LICENSE").is_file()]
    if licences:
        texts = dict.fromkeys(licence.read_bytes() for licence in licences)
        write_whole(destination / "DATA-LICENSE", b"\n\n".join(texts))
    if (run / "curves.png").is_file():
        write_whole(destination / "curves.png", (run / "curves.png").read_bytes())


def _encodings(destination: Path) -> str:
    """Return the comparison of encodings that lies beside a model, if one does."""
    path = destination / "encodings.md"
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def main() -> int:
    """Publish, and print what each way to store the model costs."""
    parser = argparse.ArgumentParser(description="Write the best model of a run for shipping.")
    parser.add_argument("run", type=Path, metavar="RUN")
    parser.add_argument("destination", type=Path, metavar="DEST")
    parser.add_argument("--blend", metavar="MODEL", help="mix its weights with those of this one")
    parser.add_argument("--share", type=float, default=0.5, help="of the weights, MODEL's")
    parser.add_argument("--louder", type=float, default=1.0, help="scale of the goal embeddings")
    arguments = parser.parse_args()
    blend = None
    if arguments.blend:
        blend = Blend(model=arguments.blend, share=arguments.share, louder=arguments.louder)
    try:
        ways = publish(arguments.run, arguments.destination, blend)
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
