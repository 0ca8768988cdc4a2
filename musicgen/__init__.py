"""Music that goes on: models of symbolic music as a library.

    import musicgen

    model = musicgen.load("ensemble")
    takes = model.continue_("song.mid", prompt_bars=8, bars=16, variations=2, seed=7)
    takes[0].save("out.mid")

What to read: `playable.py` is a model with its language; `continuation.py` is how music is generated with it;
`model/performer.py` is the network, ids to logits, which sees music as tokens alone. Everything is imported when it is
used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from musicgen.continuation import Take
    from musicgen.generation.request import Options
    from musicgen.generation.sampling import Sampling
    from musicgen.loading import find, load, models
    from musicgen.model.config import ModelConfig
    from musicgen.model.performer import Performer
    from musicgen.pieces import Piece
    from musicgen.playable import Playable
    from tokenization.language import language
    from tokenization.score import Score

__all__ = [
    "ModelConfig", "Options", "Performer", "Piece", "Playable", "Sampling", "Score", "Take", "find", "language", "load",
    "models",
]  # fmt: skip

_PLACES = {
    "musicgen.continuation": ("Take",),
    "musicgen.generation.sampling": ("Sampling",),
    "musicgen.loading": ("find", "load", "models"),
    "musicgen.model.config": ("ModelConfig",),
    "musicgen.model.performer": ("Performer",),
    "musicgen.generation.request": ("Options",),
    "musicgen.pieces": ("Piece",),
    "musicgen.playable": ("Playable",),
    "tokenization.language": ("language",),
    "tokenization.score": ("Score",),
}


def __getattr__(name: str) -> Any:
    for place, names in _PLACES.items():
        if name in names:
            return getattr(import_module(place), name)
    raise AttributeError(f"module 'musicgen' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]
