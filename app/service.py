"""Reading and continuing, under the names by which the page calls them; all else is in musicgen/continuation.py."""

from __future__ import annotations

from typing import Any

from musicgen import continuation, pieces
from musicgen.continuation import Take, midi_of
from musicgen.options import Options as Wish
from musicgen.pieces import Piece, Prompt, read_piece
from musicgen.playable import Playable

__all__ = ["Continuation", "Piece", "Prompt", "Take", "Wish", "midi_of", "no_prompt", "read_piece"]


class Continuation(continuation.Continuation):
    """A prompt that goes on."""

    model: Playable

    @property
    def wish(self) -> Wish:
        """How to go on."""
        return self.options


def no_prompt(model: Any) -> Prompt:
    """Return the beginning of a piece."""
    return pieces.no_prompt(model.language)
