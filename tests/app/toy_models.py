"""Untrained toy models that look like trained ones, for the tests of commands."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from musicgen.checkpoint import Card, save
from musicgen.performer import Performer
from tests.musicgen.toys import toy_config
from tokenization.language import language


def write_model(folder: Path, spoken: str, position: Any, **training: object) -> str:
    """Save an untrained toy model as if its trained length were 16 tokens."""
    speaker = language(spoken)
    config = replace(toy_config(position=position), vocabulary_size=len(speaker.vocabulary))
    card = Card(name=folder.name, language=speaker.spec(), trained_length=16, training=training)
    save(folder, Performer(config).eval(), card)
    return str(folder)
