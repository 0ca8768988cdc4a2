"""What a run begins with: weights drawn anew, or those of a trained model, which goes on learning from other pieces."""

from __future__ import annotations

from typing import Any

from musicgen.checkpoint import load, read_card
from musicgen.config import ModelConfig
from musicgen.library import folder_of
from musicgen.model import Performer
from training.config import RunConfig

FREE = ("dropout", "checkpoint_activations", "backend", "chunk")  # what weights do not depend on


def model_config(config: RunConfig, language: dict[str, Any]) -> ModelConfig:
    """Return the configuration of a run's model, or say what of it cannot be."""
    if config.start is None:
        return config.model_config(int(language["tokens"]))
    trained, card = read_card(folder_of(config.start))
    if card.language != language:
        raise ValueError(
            f"{config.start} speaks {_spoken(card.language)}, but the data are in {_spoken(language)}; "
            "start with a model of the data's language, or prepare the pieces anew"
        )
    changes = config.model or {}
    if fixed := [key for key in changes if key not in FREE]:
        raise ValueError(
            f"model.{fixed[0]} is that of {config.start}, which the run starts with; only {', '.join(FREE)} can be set"
        )
    return ModelConfig.read({**trained.plain(), **changes})


def first_model(config: RunConfig, language: dict[str, Any]) -> Performer:
    """Return the model at step 0."""
    wanted = model_config(config, language)
    if config.start is None:
        return Performer(wanted, seed=config.seed)
    model = Performer(wanted, seed=None)
    model.load_state_dict(load(folder_of(config.start))[0].state_dict())
    return model


def origin(config: RunConfig) -> dict[str, Any] | None:
    """Return what a model's card says of the model that it began as: whose licence holds for it, too."""
    if config.start is None:
        return None
    card = read_card(folder_of(config.start))[1]
    known = {key: card.training.get(key) for key in ("data", "licence", "start")}
    return {"name": card.name, "sha256": card.sha256, **known}


def _spoken(language: dict[str, Any]) -> str:
    return f"{language.get('language')} ({language.get('tokens')} tokens)"
