"""What was written to a piece that came from a file, so that the rest of the file can be kept."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tokenization.score import Score


class NotKept(ValueError):
    """Why a file cannot be kept where music is written to it: words that follow a colon."""


@dataclass(frozen=True, kw_only=True)
class Edit:
    """Music that was written to a piece: it goes on, bars are rewritten, or parts are added.

    Ticks are those of `heard` and of the new score, in which the model wrote.
    """

    original: bytes  # the file
    heard: Score  # the piece as the model heard it, with its times and tracks in the file
    onset_steps: int  # of a beat, on which notes began when the model heard the piece
    start: int = 0  # the tick from which on music is new
    stop: int | None = (
        None  # where it ends; None where the piece goes on: what followed in the file is dropped
    )
    tracks: tuple[int, ...] | None = None  # that were written to the others, over all of the piece

    def new_in(self, score: Score) -> Score:
        """Return the whole new piece with its new notes alone."""
        notes = score.notes
        if self.tracks is not None:
            return score.replace(notes=notes[np.isin(notes.track, self.tracks)])
        stop = score.end_ticks + 1 if self.stop is None else self.stop
        return score.replace(
            notes=notes[(notes.onset_ticks >= self.start) & (notes.onset_ticks < stop)]
        )
