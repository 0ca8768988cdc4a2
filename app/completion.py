"""A piece that a model completes towards a goal: some bars written anew, or some parts written to the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from app.models import Model
from app.service import Piece, Take, Wish, made_by
from tokenization.goal import Goal
from tokenization.score import Score


class Completion:
    """One request: iterate to do the work; `takes` gives what there is at any time."""

    def __init__(
        self, model: Model, piece: Piece, goal: Goal, wish: Wish, written: dict[str, Any]
    ) -> None:
        """Take a goal of the piece in the model's language; `written` says in a file what was asked for."""
        self.model, self.piece, self.goal, self.wish = model, piece, goal, wish
        self._written = written
        self._steps: list[np.ndarray] = []

    def __iter__(self) -> Iterator[int]:
        """Generate; yields the number of steps so far. To stop early, stop iterating."""
        return self.run(lambda: False)

    def run(self, cancelled: Callable[[], bool]) -> Iterator[int]:
        """Generate until the goal is reached, or until cancelled."""
        from musicgen.generate import Request, Stop, generate  # torch, which the page opens without

        wish, goal = self.wish, self.goal
        request = Request(
            variations=wish.variations,
            seed=wish.seed,
            sampling=wish.sampling,
            stop=Stop(end=self.model.language.end),
        )
        stream = generate(
            self.model.performer, goal.prompt, request, grammar=goal.grammar, cancelled=cancelled
        )
        for tokens in stream:
            self._steps.append(tokens)
            yield len(self._steps)

    def takes(self) -> list[Take]:
        """Return the variations as far as they have come."""
        steps = np.array(self._steps).reshape(len(self._steps), self.wish.variations)
        return [self._take(number, steps[:, number]) for number in range(self.wish.variations)]

    def _take(self, number: int, steps: np.ndarray) -> Take:
        new = steps[steps >= 0]  # generate.ENDED stands for no token
        ids = np.concatenate([self.goal.prompt, new]).astype(np.uint16)
        whole = self.model.language.decode(self.goal.whole(ids), self.piece.encoded.setting)
        facts = made_by(self.model, self.wish, number)
        return Take(
            number=number,
            ids=ids,
            tokens=len(new),
            whole=whole,
            continuation=_new(whole, self.piece.score),
            provenance={**facts, "piece": self.piece.name, **self._written},
        )


def _new(whole: Score, before: Score) -> Score:
    """Return the notes that were not there before."""
    old = set(zip(*(column.tolist() for column in before.notes.columns), strict=True))
    rows = zip(*(column.tolist() for column in whole.notes.columns), strict=True)
    return whole.replace(notes=whole.notes[np.array([row not in old for row in rows], dtype=bool)])
