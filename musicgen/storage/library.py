"""Where models are found: those in the package by name, others by their folder or that of the run they come from."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from tokenization.records import suggestion


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
