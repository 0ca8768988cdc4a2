"""The model that a run starts from: a fresh one, or a trained one to be fine-tuned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from musicgen.checkpoint import folder_of, read_card
from musicgen.config import ModelConfig
from musicgen.performer import Performer
from musicgen.weights import load
from tokenization.language import language_from_spec, with_token_roles
from training.config import RunConfig
from training.data.shards import Shards
from training.run_folder import CHANGEABLE, newest


def language_of(config: RunConfig, shards: Shards) -> dict[str, Any]:
    """Return the spec of the language of a run's model: the data's, or the start's if that is enough for the data.

    A model may speak an earlier version, whose vocabulary is the beginning of the data's.
    """
    latest = shards.language
    if config.start is None:
        return latest
    spoken = read_card(newest(Path(config.run)) or folder_of(config.start))[1].language
    is_earlier = spoken in [one.spec() for one in language_from_spec(latest).earlier()]
    return spoken if is_earlier and shards.highest < spoken["tokens"] else latest


def model_config(config: RunConfig, language: dict[str, Any]) -> ModelConfig:
    """Return the configuration of a run's model; raises ValueError if it does not suit the start or the data."""
    if config.start is None:
        return config.model_config(int(language["tokens"]), language_from_spec(language))
    saved = newest(Path(config.run))
    source = saved or config.start  # the start may be gone once the run has saved
    trained, card = read_card(saved or folder_of(config.start))
    if card.language != language:
        raise ValueError(
            f"{source} uses the language {_name_of(card.language)}, but the data are in {_name_of(language)}; "
            "start from a model of the data's language, or prepare the pieces again"
        )
    changes = config.model or {}
    if fixed := [key for key in changes if key not in (*CHANGEABLE, "rank")]:
        raise ValueError(
            f"model.{fixed[0]} is fixed by {source}, which the run starts from; only {', '.join(CHANGEABLE)} can be set"
        )
    values = {**trained.plain(), **changes, "vocabulary_size": int(language["tokens"])}
    return ModelConfig.read(with_token_roles(values, language_from_spec(language)))


def first_model(config: RunConfig, language: dict[str, Any]) -> Performer:
    """Return the model at step 0; for a run with a checkpoint, an untrained one to load the checkpoint into."""
    model = Performer(model_config(config, language), seed=config.seed)
    if config.start is None or newest(Path(config.run)):
        return model
    trained, _ = load(folder_of(config.start))
    model.load_state_dict({**model.state_dict(), **trained.state_dict()})  # with changes of rank
    return model


def origin(config: RunConfig) -> dict[str, Any] | None:
    """Return the card's entry on the model that a run started from, whose licence also applies; None if fresh."""
    if saved := newest(Path(config.run)):  # by now another model may have that name
        return read_card(saved)[1].training.get("start")
    if config.start is None:
        return None
    card = read_card(folder_of(config.start))[1]
    known = {key: card.training.get(key) for key in ("data", "licence", "start")}
    return {"name": card.name, "sha256": card.sha256, **known}


def _name_of(language: dict[str, Any]) -> str:
    return f"{language.get('language')} ({language.get('tokens')} tokens)"
