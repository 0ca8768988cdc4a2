"""The contract of a grammar: which tokens may come next, and what happens when one does.

And a bias on logits, by which a goal makes some tokens likelier than others of their group. The tokens of a group, such
as the notes of one part, exchange their chances by what the goal g weighs their kinds, such as pitch classes:

    p(t) = p_model(t) · exp(w[g, kind of t]) · Σ_u p_model(u) / Σ_u p_model(u) · exp(w[g, kind of u]),  u of t's group
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np
from typing_extensions import Self


class Grammar(ABC):
    """What may follow: a state machine over a batch of B prefixes, array look-ups only."""

    @property
    @abstractmethod
    def bars(self) -> np.ndarray:
        """How many bars each row has begun, to stop by: (B,)."""

    @abstractmethod
    def allowed(self) -> np.ndarray:
        """Return which tokens may come next: (B, V) bool, not to be written into."""

    @abstractmethod
    def advance(self, tokens: np.ndarray) -> None:
        """Take one more token a row: (B,) ids that `allowed` allowed."""

    def instead(self, tokens: np.ndarray) -> np.ndarray:
        """Return what a row takes in place of an allowed token that was drawn: as a rule, the token."""
        return tokens

    def select(self, rows: np.ndarray) -> Self:
        """Return a grammar of copies of the given rows: to drop some, or to vary one prefix."""
        chosen = copy(self)
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray):  # with a row for each prefix: (B, …)
                setattr(chosen, name, value[rows])
            elif isinstance(value, Grammar):
                setattr(chosen, name, value.select(rows))
        return chosen

    @property
    def shared(self) -> Hashable:
        """What grammars must have in common that can be `joined`: all but the rows."""
        return type(self), *((name, _shared(value)) for name, value in vars(self).items())

    def joined(self, others: Sequence[Self]) -> Self:
        """Return one grammar of the rows of several, one after the other."""
        together = copy(self)
        for name, value in vars(self).items():
            theirs = [vars(other)[name] for other in others]
            if isinstance(value, np.ndarray):
                setattr(together, name, np.concatenate([value, *theirs]))
            elif isinstance(value, Grammar):
                setattr(together, name, value.joined(theirs))
        return together


def _shared(value: object) -> object:
    if isinstance(value, np.ndarray):
        return value.shape[1:], value.dtype
    return value.shared if isinstance(value, Grammar) else value


# A model that writes a bass to chords is told them, and still follows its own last bars more than what it is told,
# since in the music that it learned from these are right. In drawing they are not: a note off the chord comes back in
# every bar, as a pedal. So the chances are exchanged as the docstring says. How likely any of the group is stays what
# the model says: when a note comes is its own. The weights are a language's.


@dataclass(frozen=True, kw_only=True, eq=False)
class LogitBias:
    """Weights by goal and kind; G goals, K kinds, V tokens."""

    goal: np.ndarray  # (V,) which goal a token says, 0 of what says none
    kind: np.ndarray  # (V,) the kind of a token, 0 of what has no bias
    group: np.ndarray  # (K + 1,) the group of each kind
    weights: np.ndarray  # (G + 1, K + 1)

    def standing(self, ids: np.ndarray) -> int:
        """Return the goal that stands after a sequence, (T,)."""
        goals = self.goal[ids]
        return int(goals[np.flatnonzero(goals)[-1]]) if goals.any() else 0

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


def exchange(scores: np.ndarray, tokens: np.ndarray, bias: np.ndarray) -> None:
    """Make tokens likelier beside each other by a bias each, and any of them as likely as before: scores (V,).

    `tokens` are their ids, of which there is one at least.
    """
    before = np.logaddexp.reduce(scores[tokens])
    scores[tokens] += bias
    scores[tokens] += before - np.logaddexp.reduce(scores[tokens])
