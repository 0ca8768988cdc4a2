"""Symbolic music generation with Transformers: continue, rewrite and accompany music in MIDI, MusicXML and ABC.

    import musicgen

    model = musicgen.load("ensemble")
    takes = model.continue_("song.mid", prompt_bars=8, bars=16, variations=2, seed=7)
    takes[0].save("out.mid")

`load` returns a `Playable`: `continue_` continues a piece or writes one from nothing, `infill` rewrites bars,
`accompany` adds parts, and each returns a list of `Take`. `read` returns the `Piece` that the model receives. `edit`
changes a file.

Where to read on in the source: `playable.py` has the models, `continuation.py` generation, and `performer.py` the
network, from ids to logits. Names are imported when they are first used, so `import musicgen` is fast.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from musicgen.config import ModelConfig
    from musicgen.continuation import Take
    from musicgen.generation.request import Request
    from musicgen.generation.sampling import Sampling
    from musicgen.performer import Performer
    from musicgen.pieces import Piece
    from musicgen.playable import Playable, find, load, models
    from tokenization.formats import edit
    from tokenization.language import language
    from tokenization.score import Score

__all__ = [
    "ModelConfig", "Performer", "Piece", "Playable", "Request", "Sampling", "Score", "Take", "edit", "find",
    "language", "load", "models",
]  # fmt: skip

_MODULES = {
    "musicgen.continuation": ("Take",),
    "musicgen.generation.sampling": ("Sampling",),
    "musicgen.playable": ("Playable", "find", "load", "models"),
    "musicgen.config": ("ModelConfig",),
    "musicgen.performer": ("Performer",),
    "musicgen.generation.request": ("Request",),
    "musicgen.pieces": ("Piece",),
    "tokenization.formats": ("edit",),
    "tokenization.language": ("language",),
    "tokenization.score": ("Score",),
}


def _check_own_package() -> None:
    """Refuse another module named tokenization: Python finds one in the folder of the running script first."""
    ours, found = Path(__file__).parents[1] / "tokenization", find_spec("tokenization")
    places = [*(found.submodule_search_locations or [found.origin])] if found else []
    if [Path(str(place)).resolve() for place in places] != [ours.resolve()]:
        raise ImportError(
            f"musicgen needs its own package in {ours}, but Python finds {', '.join(map(str, places)) or 'none'}: "
            "rename that module, which is not part of musicgen"
        )


_check_own_package()


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module 'musicgen' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]
