"""The models at hand: those in the package by name, any folder by its path, and untrained ones."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from musicgen.common.records import from_json, value_of
from musicgen.storage.library import folder_of, shipped
from tokenization.language import Language, language, language_from_spec

if TYPE_CHECKING:
    from musicgen.model.performer import Performer

UNTRAINED = "untrained"
DEFAULT = "pop-piano"
SMALL = 10_000_000  # parameters


@dataclass(frozen=True, kw_only=True)
class Model:
    """A loaded model and the language it speaks."""

    name: str
    performer: Performer
    language: Language
    trained_length: int
    sha256: str  # of its weights; empty for an untrained one
    longest_ticks: list[int] | None = None  # of notes in its training data, if it keeps to them


def load(name: str, device: str = "auto") -> Model:
    """Load a model by name, by path, or as `untrained:PRESET[:LANGUAGE]`."""
    from musicgen.storage.checkpoint import load as load_checkpoint

    if name.split(":")[0] == UNTRAINED:
        return _untrained(name, device)
    folder = folder_of(name)
    performer, card = load_checkpoint(folder, device_of(device))
    _spare_threads(performer)
    language = language_from_spec(card.language)
    where, said = f"{folder}: longest_ticks", card.training.get("longest_ticks")
    longest: tuple[int, ...] | None = value_of(tuple[int, ...] | None, said, where)
    if (size := performer.config.vocabulary_size) != len(language.vocabulary):
        raise ValueError(
            f"{folder} has {size} tokens, but its language has {len(language.vocabulary)}; save the model again"
        )
    return Model(
        name=card.name,
        performer=performer,
        language=language,
        trained_length=card.trained_length,
        sha256=card.sha256,
        longest_ticks=None if longest is None else [*longest],
    )


def language_of(name: str) -> Language:
    """Return the language of a model without its weights, and without importing torch."""
    if name.split(":")[0] == UNTRAINED:
        return language(name.split(":")[2] if name.count(":") > 1 else "remi")
    path = folder_of(name) / "config.json"
    try:
        spec = from_json(path.read_bytes(), str(path))["card"]["language"]
        return language_from_spec({**spec})
    except (KeyError, TypeError):
        raise ValueError(
            f"{path} does not describe a model; copy or save the model again"
        ) from None


def table() -> list[dict[str, Any]]:
    """Return what is known of each model in the package, without loading weights."""
    return [described(name, folder) for name, folder in shipped().items()]


def described(name: str, folder: Path) -> dict[str, Any]:
    """Return the columns of `musicgen models` for one model."""
    from musicgen.storage.checkpoint import read_card

    config, card = read_card(folder)
    return {
        "name": name,
        "data": card.training.get("data"),
        "language": card.language.get("language"),
        "encoding": config.position_name,
        "parameters": card.parameters,
        "trained_length": card.trained_length,
        "validation_loss": card.training.get("validation_loss"),
    }


def device_of(name: str) -> str:
    """Return a device of torch; `auto` takes a GPU where there is one."""
    import torch

    available = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if name == "auto":
        return next(device for device, here in available.items() if here)
    if name not in available:
        raise ValueError(f"there is no device {name!r}; there are auto, {', '.join(available)}")
    if not available[name]:
        raise ValueError(
            f"device {name} is not at hand on this machine; --device auto finds one that is"
        )
    return name


def _untrained(name: str, device: str) -> Model:
    """Return a preset with random weights: it writes valid music that makes no sense."""
    from musicgen.model.config import ModelConfig
    from musicgen.model.performer import Performer

    _, preset, spoken, *_ = [*name.split(":"), "", ""]
    speaks = language(spoken or "remi")
    config = ModelConfig.preset(
        preset or "tiny", vocabulary_size=len(speaks.vocabulary), position="sine_spe"
    )
    performer = Performer(config, seed=0).to(device_of(device)).eval()
    _spare_threads(performer)
    return Model(name=name, performer=performer, language=speaks, trained_length=0, sha256="")


def _spare_threads(performer: Performer) -> None:
    """Give a small model one thread: its matrices are too small to share.

    Threads that wait for each other on busy cores made a token some 40 times slower.
    """
    import torch

    from musicgen.model.performer import parameter_count

    if parameter_count(performer) < SMALL:
        torch.set_num_threads(1)
