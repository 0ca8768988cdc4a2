"""The models under evaluation: each once, numbered, under names that differ; and what results say of one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Any

from musicgen.playable import Playable, find

UNTRAINED_LENGTH = 512  # as which an untrained model is probed


def models_of(names: Sequence[str], device: str = "auto") -> list[Playable]:
    """Return the models of these names, each once, numbered, with names that differ; no weights are read yet."""
    found = [find(name, device) for name in dict.fromkeys(names)]
    # What a model is called by itself, else its folder, else the whole path.
    choices = [(model.name, PurePath(model.given).name, model.given) for model in found]
    taken = [Counter(column) for column in zip(*choices, strict=True)]
    return [
        replace(
            model,
            number=number,
            name=next(
                (name for name, seen in zip(of_model, taken, strict=True) if seen[name] == 1),
                model.given,
            ),
        )
        for number, (model, of_model) in enumerate(zip(found, choices, strict=True))
    ]


def of_one_language(models: Sequence[Playable]) -> tuple[list[Playable], list[str]]:
    """Return those of the first one's language, and sentences on the others."""
    first = models[0]
    able = [model for model in models if model.language.spec() == first.language.spec()]
    left_out = [
        f"{model.name} uses the language {model.language.name}, but {first.name} {first.language.name}: "
        "one table compares models of one language, so it is left out"
        for model in models
        if model not in able
    ]
    return able, left_out


def probed_length(model: Playable) -> int:
    """Return the trained length, or one in its stead."""
    return model.trained_length or UNTRAINED_LENGTH


def identity_of(model: Playable) -> dict[str, Any]:
    """Return what results depend on besides settings."""
    return {"weights": model.sha256 or model.given, "config": model.config}


def facts_of(model: Playable) -> dict[str, Any]:
    """Return what is known of a model as plain data."""
    return {
        "given": model.given,
        "label": model.name,
        "language": model.language.name,
        "encoding": model.encoding,
        "trained_length": model.trained_length,
        "parameters": model.parameters,
        "sha256": model.sha256,
        "config": model.config,
        "training": model.training,
        "number": model.number,
    }
