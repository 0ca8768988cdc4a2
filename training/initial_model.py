"""What a run begins with: fresh weights, or those of a trained model, which goes on learning from other pieces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from musicgen.checkpoint import load, read_card
from musicgen.config import ModelConfig
from musicgen.metre import MetreConfig
from musicgen.performer import Performer
from musicgen.playable import folder_of
from tokenization.language import language_from_spec, with_meanings
from tokenization.records import from_plain
from training import run_folder
from training.config import RunConfig
from training.run_folder import FREE, newest

# Weights of a trained model for one that has more parts: at first it computes what was learned.
#
# - Metric heads in addition to those that there are: what they find counts 0 times at first.
# - What tells each position of goals (performer.py) begins as zeros.
# - Another encoding of position begins as it does untrained. That one changes what is computed.


def grown(trained: Performer, model: Performer) -> dict[str, Tensor]:
    """Return the state of `model`, made of that of `trained`."""
    learned, fresh = trained.state_dict(), model.state_dict()
    moved = trained.config.position_name == model.config.position_name
    moved = moved and trained.config.position == model.config.position
    state = {}
    for name, start in fresh.items():
        weight = learned.get(name)
        if name.startswith("position."):
            weight = weight if moved else None
        elif weight is None:
            pass
        elif name.endswith("attention.output.weight"):
            weight = torch.nn.functional.pad(weight, (0, start.shape[-1] - weight.shape[-1]))
        elif ".metre.qkv." in name:
            weight = torch.cat([weight, start[len(weight) :]])
        state[name] = start if weight is None or weight.shape != start.shape else weight
    return state


# What a model may have more of, or another (see `grown`).
GROWS = ("position", "metre", "goals", "recall")


def model_config(config: RunConfig, language: dict[str, Any]) -> ModelConfig:
    """Return the configuration of a run's model, or say what of it cannot be."""
    if config.start is None:
        return config.model_config(int(language["tokens"]), language_from_spec(language))
    saved = newest(Path(config.run))
    source = saved or config.start  # which may be gone once the run has saved
    trained, card = run_folder.read_card(saved) if saved else read_card(folder_of(config.start))
    if card.language != language:
        raise ValueError(
            f"{source} uses the language {_spoken(card.language)}, but the data are in {_spoken(language)}; "
            "start with a model of the data's language, or prepare the pieces again"
        )
    changes = config.model or {}
    free = (*FREE, *GROWS)
    if fixed := [key for key in changes if key not in free]:
        raise ValueError(
            f"model.{fixed[0]} is that of {source}, which the run starts with; only {', '.join(free)} can be set"
        )
    if trained.metre is not None and changes.get("metre") is not None:
        _check_metre(changes["metre"], trained.metre, str(source))
    values = {**trained.plain(), **changes, "vocabulary_size": int(language["tokens"])}
    return ModelConfig.read(with_meanings(values, language_from_spec(language)))


def _check_metre(asked: Any, trained: MetreConfig, start: str) -> None:
    """Refuse metric heads that are not those of what a run starts with, alone or first among more."""
    metre = from_plain(MetreConfig, asked, "model.metre")
    same = metre.bars[: len(trained.bars)] == trained.bars
    same &= metre.remembers[: len(trained.bars)] == trained.remembers
    if not same or metre.features != trained.features:
        raise ValueError(
            f"model.metre is that of {start}, which the run starts with; heads can be added after its own, "
            f"bars {list(trained.bars)} and remembers {list(trained.remembers)}"
        )


def first_model(config: RunConfig, language: dict[str, Any]) -> Performer:
    """Return the model at step 0; of a run that has saved, one to be filled with what it saved."""
    model = Performer(model_config(config, language), seed=config.seed)
    if config.start is None or newest(Path(config.run)):
        return model
    trained, _ = load(folder_of(config.start))
    model.load_state_dict(grown(trained, model))
    return model


def origin(config: RunConfig) -> dict[str, Any] | None:
    """Return what a model's card says of the model that it began as: whose licence holds for it, too."""
    if saved := newest(Path(config.run)):  # as it was then: another model may have that name by now
        return run_folder.read_card(saved)[1].training.get("start")
    if config.start is None:
        return None
    card = read_card(folder_of(config.start))[1]
    known = {key: card.training.get(key) for key in ("data", "licence", "start")}
    return {"name": card.name, "sha256": card.sha256, **known}


def _spoken(language: dict[str, Any]) -> str:
    return f"{language.get('language')} ({language.get('tokens')} tokens)"
