"""Completing a piece towards a goal: rewriting some of its bars, or writing some parts to the others."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from musicgen.continuation import Generation, MusicGeneration, Player, Take
from musicgen.generation.request import Request
from musicgen.pieces import Piece, edit_of, input_facts
from tokenization.analysis.chords import first_known_tick, with_guesses_before
from tokenization.analysis.metres import bar_lines
from tokenization.edit import NewMusic
from tokenization.language import Goal
from tokenization.records import whole_number


class Completion(MusicGeneration):
    """The generation that completes a piece."""

    def __init__(
        self,
        model: Player,
        piece: Piece,
        goal: Goal,
        request: Request,
        written: dict[str, Any],
        where: NewMusic,
    ) -> None:
        """Take a goal for the piece in the model's language.

        `written` records in files what was requested; `where` says which notes of the whole piece count as new, even if
        they equal those that were replaced.
        """
        elsewhere, unlike = tuple(goal.elsewhere.tolist()), tuple(goal.replaced.tolist())
        recalled = {"elsewhere": elsewhere, "unlike": unlike}
        super().__init__(model, goal.prompt, goal.grammar, request, **recalled)
        self.piece, self.goal, self._written, self._where = piece, goal, written, where
        self._edit = edit_of(piece.original, piece.score, model.language, **vars(where))

    def _take(self, number: int, ids: np.ndarray) -> Take:
        score = self.model.language.decode(self.goal.whole(ids), self.piece.encoded.setting)
        # Chords are those of the piece, unless they are a part to write.
        known = 0 if self.goal.writes_chords else first_known_tick(self.piece.score.markers)
        score = with_guesses_before(score, known)
        return Take(
            number=number,
            ids=ids,
            tokens=len(ids) - len(self.goal.prompt),
            score=score,
            continuation=self._where.new_in(score),
            edit=self._edit,
            provenance={
                **self._provenance(number),
                "piece": self.piece.name,
                **input_facts(self.piece.encoded.ids, self.piece.tracks),
                **self._written,
                **({"plan": self.request.plan} if self.request.plan else {}),
            },
        )


class TokenCompletion(Generation):
    """The completion of a piece given as tokens alone."""

    def __init__(self, model: Player, goal: Goal, request: Request) -> None:
        """Take a goal for the piece in the model's language."""
        elsewhere = tuple(goal.elsewhere.tolist())
        super().__init__(model, goal.prompt, goal.grammar, request, elsewhere=elsewhere)
        self.goal = goal

    def whole(self) -> np.ndarray:
        """Return the tokens of the whole piece; raises the error that ended the work, if any."""
        self.check()
        return self.goal.whole(self.sequences()[0])


def infilling(model: Player, piece: Piece, bars: tuple[int, int], request: Request) -> Completion:
    """Return the generation that rewrites the bars from the first to the last, counted from 1."""
    try:
        first, last = bars
    except (TypeError, ValueError):
        raise ValueError(
            f"bars is {bars!r}; give the first and the last bar, such as (5, 8)"
        ) from None
    first, last = (whole_number(bar, "a bar to rewrite") for bar in (first, last))
    plan = _plan(model, request, piece.bars, first - 1, last)
    goal = model.language.infilling(piece.encoded.ids, first - 1, last, plan=plan)
    line, seam = bar_lines(piece.score, last)[[first - 1, last]]
    where = NewMusic(start=int(line), stop=int(seam))
    return Completion(model, piece, goal, request, {"written_bars": [first, last]}, where)


def _plan(
    model: Player, request: Request, bars: int, first: int, stop: int
) -> dict[str, np.ndarray] | None:
    """Return the plan of a piece, with the request's levels in the bars first … stop − 1 and free bars elsewhere."""
    if not request.plan:
        return None
    plan = {}
    for name, level in model.language.plan(request.plan, stop - first).items():
        plan[name] = np.full(bars, -1)
        plan[name][first:stop] = level
    return plan


def accompaniment(
    model: Player, piece: Piece, write: Collection[str], request: Request
) -> Completion:
    """Return the generation that writes some parts to the others."""
    plan = _plan(model, request, piece.bars, 0, piece.bars)
    goal = model.language.accompanying(piece.encoded.ids, write, plan=plan)
    where = NewMusic(tracks=goal.tracks)
    return Completion(model, piece, goal, request, {"written_parts": list(write)}, where)
