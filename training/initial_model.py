"""What a run begins with: weights drawn anew, or those of a trained model, which goes on learning from other pieces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from musicgen.common.records import from_plain
from musicgen.metre.rows import MetreConfig
from musicgen.model.config import ModelConfig
from musicgen.model.performer import Performer
from musicgen.storage.checkpoint import load, read_card
from musicgen.storage.library import folder_of
from tokenization.language import language as named
from tokenization.language import language_from_spec
from training.config import RunConfig

FREE = ("dropout", "checkpoint_activations", "backend", "chunk")  # what weights do not depend on
PER_TOKEN = ("embedding.weight", "head.weight")
ADDED = "metre"  # what a model may be given that began without: heads that at first say nothing


def model_config(config: RunConfig, language: dict[str, Any]) -> ModelConfig:
    """Return the configuration of a run's model, or say what of it cannot be."""
    if config.start is None:
        spoken = named(language["language"])
        return config.model_config(int(language["tokens"]), spoken.clock)
    trained, card = read_card(folder_of(config.start))
    if card.language != language and not _says_more(language, card.language):
        raise ValueError(
            f"{config.start} speaks {_spoken(card.language)}, but the data are in {_spoken(language)}; "
            "start with a model of the data's language, or prepare the pieces anew"
        )
    changes = config.model or {}
    metre = _metre(changes)
    free = (*FREE, ADDED) if trained.metre in (None, metre) else FREE
    if fixed := [key for key in changes if key not in free]:
        raise ValueError(
            f"model.{fixed[0]} is that of {config.start}, which the run starts with; only {', '.join(free)} can be set"
        )
    values = {**trained.plain(), **changes, "vocabulary_size": int(language["tokens"])}
    if metre is not None or trained.clock is not None:
        values["clock"] = named(language["language"]).clock()
    return ModelConfig.read(values)


def _says_more(language: dict[str, Any], trained: dict[str, Any]) -> bool:
    """Say whether a language is another, in the same ids, with more beside them."""
    try:
        names, before = (language_from_spec(one).vocabulary.names for one in (language, trained))
    except ValueError:
        return False
    return names[: len(before)] == before


def _metre(changes: Mapping[str, Any]) -> MetreConfig | None:
    asked = changes.get(ADDED)
    return None if asked is None else from_plain(MetreConfig, asked, f"model.{ADDED}")


def first_model(config: RunConfig, language: dict[str, Any]) -> Performer:
    """Return the model at step 0."""
    wanted = model_config(config, language)
    if config.start is None:
        return Performer(wanted, seed=config.seed)
    model = Performer(wanted, seed=config.seed)
    model.load_state_dict(_widened(load(folder_of(config.start))[0].state_dict(), model))
    return model


def _widened(learned: dict[str, Tensor], model: Performer) -> dict[str, Tensor]:
    """Return learned weights and those that the model has beside them; what new heads find counts 0 times at first.

    New tokens are as likely at first as the old ones are on average, by their logits.
    """
    state = model.state_dict()
    for name, weight in learned.items():
        if name.endswith("attention.output.weight"):
            weight = F.pad(weight, (0, state[name].shape[-1] - weight.shape[-1]))
        elif name in PER_TOKEN and (new := len(state[name]) - len(weight)):
            weight = torch.cat(
                [weight, weight.mean(0, keepdim=True).expand(new, *weight.shape[1:])]
            )
        state[name] = weight
    return state


def origin(config: RunConfig) -> dict[str, Any] | None:
    """Return what a model's card says of the model that it began as: whose licence holds for it, too."""
    if config.start is None:
        return None
    card = read_card(folder_of(config.start))[1]
    known = {key: card.training.get(key) for key in ("data", "licence", "start")}
    return {"name": card.name, "sha256": card.sha256, **known}


def _spoken(language: dict[str, Any]) -> str:
    return f"{language.get('language')} ({language.get('tokens')} tokens)"
