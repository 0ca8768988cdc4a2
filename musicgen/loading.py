"""Models by name: those in the package, any folder by its path, and untrained ones as `untrained:PRESET[:LANGUAGE]`."""

from __future__ import annotations

from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from musicgen.playable import Playable
from tokenization.language import Language, language, language_from_spec
from tokenization.records import json_of, suggestion, value_of

if TYPE_CHECKING:
    from musicgen.model.config import ModelConfig
    from musicgen.model.performer import Performer

UNTRAINED = "untrained"
DEFAULT = "ensemble"


def shipped() -> dict[str, Path]:
    """Return the models inside the package, name → folder."""
    root = Path(str(files("musicgen") / "pretrained"))
    found = sorted(p for p in root.glob("*") if (p / "config.json").is_file())
    return {path.name: path for path in found}


def folder_of(name: str) -> Path:
    """Return the folder of a model given by name or path."""
    by_name = shipped()
    if name in by_name:
        return by_name[name]
    path = Path(name)
    if (path / "config.json").is_file():
        return path
    if (path / "model" / "config.json").is_file():  # the folder of a training run
        return path / "model"
    raise FileNotFoundError(
        f"there is no model {name!r}: it is neither the name of one in the package nor a folder with a config.json"
        f"{suggestion(name, by_name)}"
    )


def load(name: str | Path = DEFAULT, device: str = "auto") -> Playable:
    """Return a model by name or path, its weights read."""
    model = find(name, device)
    model.performer  # noqa: B018  what is wrong with its weights is to be known now
    return model


def find(name: str | Path, device: str = "auto") -> Playable:
    """Return a model by name or path; its weights are read when they are first needed."""
    name = str(name)
    if name.split(":")[0] == UNTRAINED:
        return _untrained(name, device)
    from musicgen.storage.checkpoint import read_card

    folder = folder_of(name)
    config, card = read_card(folder)
    where, stored = f"{folder}: longest_ticks", card.training.get("longest_ticks")
    speaks = language_from_spec(card.language)
    longest = speaks.checked_longest(value_of(tuple[int, ...] | None, stored, where))
    if (size := config.vocabulary_size) != len(speaks.vocabulary):
        raise ValueError(
            f"{folder} has {size} tokens, but its language has {len(speaks.vocabulary)}; save the model again"
        )
    return Playable(
        name=card.name,
        language=speaks,
        weights=partial(_read_weights, folder, device, card.sha256),
        trained_length=card.trained_length,
        sha256=card.sha256,
        longest_ticks=None if longest is None else [*longest],
        given=name,
        encoding=encoding_of(config),
        parameters=card.parameters,
        config=config.plain(),
        training=card.training,
    )


def language_of(name: str) -> Language:
    """Return the language of a model without its weights, and without importing torch."""
    if name.split(":")[0] == UNTRAINED:
        return language(name.split(":")[2] if name.count(":") > 1 else "remi")
    path = folder_of(name) / "config.json"
    try:
        spec = json_of(path)["card"]["language"]
        return language_from_spec({**spec})
    except (KeyError, TypeError):
        raise ValueError(
            f"{path} does not describe a model; copy or save the model again"
        ) from None


def models() -> list[dict[str, Any]]:
    """Return what is known of each model in the package, without reading weights."""
    return [described(name, folder) for name, folder in shipped().items()]


def described(name: str, folder: Path) -> dict[str, Any]:
    """Return what `musicgen models` says of one model."""
    from musicgen.storage.checkpoint import read_card

    config, card = read_card(folder)
    spoken = language_from_spec(card.language)
    return {
        "name": name,
        "plays": spoken.plays,
        "can": spoken.abilities(),
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


def encoding_of(config: ModelConfig) -> str:
    """Return the encoding's name, with the choices that the papers tell variants by."""
    position = config.position
    ungated = getattr(position, "gated", True) is False
    variant = getattr(position, "type", None) or getattr(position, "mask", None)
    name = config.position_name + (" ungated" if ungated else "")
    if getattr(position, "time", "tokens") == "music":
        name += " in musical time"
    return f"{name} ({variant})" if variant else name


def _read_weights(folder: Path, device: str, sha256: str) -> Performer:
    """Return the weights with this hash: what is said to come of a model does not come of one saved since."""
    from musicgen.storage.checkpoint import load as load_checkpoint

    performer, card = load_checkpoint(folder, device_of(device))
    if card.sha256 != sha256:
        raise ValueError("this model was saved again since it was found; start again")
    return performer


def _untrained(name: str, device: str) -> Playable:
    """Return a preset with random weights: it writes valid music that makes no sense."""
    from musicgen.model.config import ModelConfig
    from musicgen.model.performer import Performer, parameter_count

    speaks = language_of(name)
    preset = name.split(":")[1] if ":" in name else ""
    config = ModelConfig.preset(
        preset or "tiny", vocabulary_size=len(speaks.vocabulary), position="sine_spe"
    )
    return Playable(
        name=name,
        language=speaks,
        weights=partial(_random_weights, config, device),
        given=name,
        encoding=encoding_of(config),
        parameters=parameter_count(Performer(config, seed=None)),
        config=config.plain(),
    )


def _random_weights(config: ModelConfig, device: str) -> Performer:
    from musicgen.model.performer import Performer

    return Performer(config, seed=0).to(device_of(device)).eval()
