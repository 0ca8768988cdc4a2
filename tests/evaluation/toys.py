"""Small untrained models of any language."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from musicgen.checkpoint import Card, styles_folder
from musicgen.config import ModelConfig
from musicgen.performer import Performer
from musicgen.playable import Playable
from musicgen.weights import load, save
from tests.musicgen.toys import toy_config
from tokenization.language import Language, language


def toy_playable(language: Language) -> Playable:
    sizes = {"layers": 1, "width": 16, "heads": 2, "feedforward": 16, "dropout": 0.0}
    config = ModelConfig.preset("tiny", vocabulary_size=len(language.vocabulary), **sizes)
    return Playable(
        name="toy", language=language, read_performer=lambda: Performer(config, 0).eval()
    )


def sure_playable(language: Language) -> Playable:
    """Return an untrained model that always writes what it recalls, if it recalls anything."""

    def weights() -> Performer:
        sizes = {"layers": 1, "width": 64, "heads": 2, "feedforward": 16, "tie_embeddings": True}
        tokens = {"vocabulary_size": len(language.vocabulary), "recall": language.recalled()}
        config = ModelConfig.preset("tiny", **tokens, **sizes)
        model = Performer(config, 0).eval()
        with torch.no_grad():
            for guess in (model.recall.planned, model.recall.matched):
                guess.weight.copy_(100 * model.embedding.weight)
        return model

    return Playable(name="sure", language=language, read_performer=weights)


def write_model(folder: Path, spoken: str, position: Any, **training: object) -> str:
    """Save an untrained toy model as if its trained length were 16 tokens."""
    speaker = language(spoken)
    config = replace(toy_config(position=position), vocabulary_size=len(speaker.vocabulary))
    card = Card(name=folder.name, language=speaker.spec(), trained_length=16, training=training)
    save(folder, Performer(config).eval(), card)
    return str(folder)


def write_style(name: str, base: str | Path) -> Path:
    """Save a style that changes all matrices in the layers of its base."""
    trained, card = load(base)
    model = Performer(replace(trained.config, rank=2))
    model.load_state_dict({**model.state_dict(), **trained.state_dict()})
    changes = {name: part for name, part in model.named_parameters() if part.requires_grad}
    with torch.no_grad():
        for part in changes.values():
            part.normal_(0, 0.3, generator=torch.Generator().manual_seed(len(part)))
    model.config = trained.config
    told = replace(card, name=name, base={"name": str(base), "sha256": card.sha256})
    save(styles_folder() / name, model, told, only=changes)
    return styles_folder() / name
