"""A piece that a model completes towards a goal: some bars written anew, or some parts written to the others."""

from __future__ import annotations

from typing import Any

import numpy as np

from app.models import Model
from app.service import Generation, Piece, Take, Wish, made_by
from tokenization.goal import Goal
from tokenization.score import Score


class Completion(Generation):
    """A piece on its way to a goal."""

    def __init__(
        self, model: Model, piece: Piece, goal: Goal, wish: Wish, written: dict[str, Any]
    ) -> None:
        """Take a goal of the piece in the model's language; `written` says in a file what was asked for."""
        super().__init__(model, goal.prompt, goal.grammar, wish)
        self.piece, self.goal, self._written = piece, goal, written

    def _take(self, number: int, ids: np.ndarray, tokens: int) -> Take:
        whole = self.model.language.decode(self.goal.whole(ids), self.piece.encoded.setting)
        facts = made_by(self.model, self.wish, number)
        return Take(
            number=number,
            ids=ids,
            tokens=tokens,
            whole=whole,
            continuation=_new(whole, self.piece.score),
            provenance={**facts, "piece": self.piece.name, **self._written},
        )


def _new(whole: Score, before: Score) -> Score:
    """Return the notes that were not there before."""
    old = set(zip(*(column.tolist() for column in before.notes.columns), strict=True))
    rows = zip(*(column.tolist() for column in whole.notes.columns), strict=True)
    return whole.replace(notes=whole.notes[np.array([row not in old for row in rows], dtype=bool)])
