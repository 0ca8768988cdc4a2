"""What a run begins with: weights drawn anew, or those of a trained model, which goes on learning from other pieces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from musicgen.metre.rows import MetreConfig
from musicgen.model.config import ModelConfig
from musicgen.model.performer import Performer
from musicgen.storage.checkpoint import load, read_card
from musicgen.storage.library import folder_of
from tokenization.language import language_from_spec
from tokenization.records import from_plain
from training.config import RunConfig, with_meanings
from training.growth import grown
from training.storage import saving
from training.storage.saving import FREE, newest

# What a model may have more of, or another (growth.py).
GROWS = ("layers", "position", "metre", "goals")


def model_config(config: RunConfig, language: dict[str, Any]) -> ModelConfig:
    """Return the configuration of a run's model, or say what of it cannot be."""
    if config.start is None:
        return config.model_config(int(language["tokens"]), language_from_spec(language))
    saved = newest(Path(config.run))
    source = saved or config.start  # which may be gone once the run has saved
    trained, card = saving.read_card(saved) if saved else read_card(folder_of(config.start))
    if card.language != language and not _related(language, card.language):
        raise ValueError(
            f"{source} speaks {_spoken(card.language)}, but the data are in {_spoken(language)}; "
            "start with a model of the data's language, or prepare the pieces anew"
        )
    changes = config.model or {}
    free = (*FREE, *GROWS)
    if fixed := [key for key in changes if key not in free]:
        raise ValueError(
            f"model.{fixed[0]} is that of {source}, which the run starts with; only {', '.join(free)} can be set"
        )
    named_layers = changes.get("layers", trained.layers)
    if not isinstance(named_layers, int) or named_layers < trained.layers:
        raise ValueError(
            f"model.layers is {named_layers!r}, but {source}, which the run starts with, has {trained.layers}; "
            "a model grows deeper, not shallower"
        )
    if named_layers > trained.layers and trained.norm == "post":
        raise ValueError(
            f"model.layers is {named_layers}, but {source}, which the run starts with, normalises after each branch, "
            f"so that further layers would change what it has learned; it has {trained.layers}"
        )
    if trained.metre is not None and changes.get("metre") is not None:
        _check_metre(changes["metre"], trained.metre, str(source))
    values = {**trained.plain(), **changes, "vocabulary_size": int(language["tokens"])}
    return ModelConfig.read(with_meanings(values, language_from_spec(language)))


def _related(language: dict[str, Any], trained: dict[str, Any]) -> bool:
    """Say whether two languages are versions of one: most of their tokens mean the same."""
    try:
        return language_from_spec(language).family == language_from_spec(trained).family
    except ValueError:
        return False


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
    trained, card = load(folder_of(config.start))
    names, before = (language_from_spec(one).vocabulary.names for one in (language, card.language))
    model.load_state_dict(grown(trained, model, names, before))
    return model


def origin(config: RunConfig) -> dict[str, Any] | None:
    """Return what a model's card says of the model that it began as: whose licence holds for it, too."""
    if saved := newest(Path(config.run)):  # as it was then: another model may have that name by now
        return saving.read_card(saved)[1].training.get("start")
    if config.start is None:
        return None
    card = read_card(folder_of(config.start))[1]
    known = {key: card.training.get(key) for key in ("data", "licence", "start")}
    return {"name": card.name, "sha256": card.sha256, **known}


def _spoken(language: dict[str, Any]) -> str:
    return f"{language.get('language')} ({language.get('tokens')} tokens)"
