"""Music that goes on: models of symbolic music as a library.

    import musicgen

    model = musicgen.load("ensemble")
    takes = model.continue_("song.mid", prompt_bars=8, bars=16, variations=2, seed=7)
    takes[0].save("out.mid")

What to read: `playable.py` is a model with its language; `continuation.py` is how music is generated with it;
`performer.py` is the network, ids to logits, which sees music as tokens alone. Everything is imported when it is
used.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from musicgen.config import ModelConfig
    from musicgen.continuation import Take
    from musicgen.generation.request import Options, Request
    from musicgen.generation.sampling import Sampling
    from musicgen.performer import Performer
    from musicgen.pieces import Piece
    from musicgen.playable import Playable, find, load, models
    from tokenization.language import language
    from tokenization.score import Score

__all__ = [
    "ModelConfig", "Options", "Performer", "Piece", "Playable", "Request", "Sampling", "Score", "Take", "find",
    "language", "load", "models",
]  # fmt: skip

_PLACES = {
    "musicgen.continuation": ("Take",),
    "musicgen.generation.sampling": ("Sampling",),
    "musicgen.playable": ("Playable", "find", "load", "models"),
    "musicgen.config": ("ModelConfig",),
    "musicgen.performer": ("Performer",),
    "musicgen.generation.request": ("Options", "Request"),
    "musicgen.pieces": ("Piece",),
    "tokenization.language": ("language",),
    "tokenization.score": ("Score",),
}


def _check_own_package() -> None:
    """Refuse another package in the place of ours: Python looks first where the script lies that runs."""
    ours, found = Path(__file__).parents[1] / "tokenization", find_spec("tokenization")
    places = [*(found.submodule_search_locations or [found.origin])] if found else []
    if [Path(str(place)).resolve() for place in places] != [ours.resolve()]:
        raise ImportError(
            f"musicgen needs its own package in {ours}, but Python finds {', '.join(map(str, places)) or 'none'}: "
            "give what lies there another name than tokenization"
        )


_check_own_package()


def __getattr__(name: str) -> Any:
    for place, names in _PLACES.items():
        if name in names:
            return getattr(import_module(place), name)
    raise AttributeError(f"module 'musicgen' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]
