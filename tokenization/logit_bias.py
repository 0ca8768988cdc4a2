"""A bias on logits for what is asked for: a goal that stands makes some tokens likelier than others of their group.

A model that writes a bass to chords is told them, and still follows its own last bars more than what it is told, since
in the music that it learned from these are right. In drawing they are not: a note off the chord comes back in every
bar, as a pedal. So the tokens of a group, such as the notes of one part, exchange their chances by what the goal g
weighs their kinds, such as pitch classes:

    p(t) = p_model(t) · exp(w[g, kind of t]) · Σ_u p_model(u) / Σ_u p_model(u) · exp(w[g, kind of u]),   u of t's group

How likely any of the group is stays what the model says: when a note comes is its own. The weights are a language's
(tokenization/groove_2/harmony.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, kw_only=True, eq=False)
class LogitBias:
    """Weights by goal and kind; G goals, K kinds, V tokens."""

    goal: np.ndarray  # (V,) which goal a token says, 0 of what says none
    kind: np.ndarray  # (V,) the kind of a token, 0 of what has no bias
    group: np.ndarray  # (K + 1,) the group of each kind
    weights: np.ndarray  # (G + 1, K + 1)
    anew: Callable[[np.ndarray], LogitBias | None] | None = None
    """Makes it, of a sequence in which a goal has just been said, for what is heard by then."""

    def standing(self, ids: np.ndarray) -> int:
        """Return the goal that stands after a sequence, (T,)."""
        goals = self.goal[ids]
        return int(goals[np.flatnonzero(goals)[-1]]) if goals.any() else 0

    def after(self, ids: np.ndarray) -> LogitBias:
        """Return the bias after a sequence that has just said a goal, (T,)."""
        return (self.anew and self.anew(ids)) or self

    def apply(self, scores: np.ndarray, goal: int, allowed: np.ndarray | None = None) -> None:
        """Change the scores of what comes next, (V,), by the goal that stands; as far as it may come: (V,) bool."""
        may = self.kind > 0 if allowed is None else (self.kind > 0) & allowed
        tokens = np.flatnonzero(may)
        if not goal or not len(tokens):
            return
        kinds = self.kind[tokens]
        weights, groups = self.weights[goal, kinds], self.group[kinds]
        chances = np.exp(scores[tokens] - scores[tokens].max())
        before = np.bincount(groups, chances)
        after = np.bincount(groups, chances * np.exp(weights))
        kept = np.log(np.divide(before, after, out=np.ones_like(after), where=after > 0))
        scores[tokens] += weights + kept[groups]


@dataclass(frozen=True, kw_only=True, eq=False)
class NoteTokens:
    """What tokens say about notes, to lead music by (musicgen/generation/recall/leaning.py); V tokens.

    Of languages in which pitches follow the time at which notes begin.
    """

    pitch: np.ndarray  # (V,) semitones, -1 of what names no pitch
    moves: np.ndarray  # (V,) bool: whether what follows begins at another time than what was before


def exchange(scores: np.ndarray, tokens: np.ndarray, bias: np.ndarray) -> None:
    """Make tokens likelier beside each other by a bias each, and any of them as likely as before: scores (V,).

    `tokens` are their ids, of which there is one at least.
    """
    before = np.logaddexp.reduce(scores[tokens])
    scores[tokens] += bias
    scores[tokens] += before - np.logaddexp.reduce(scores[tokens])
