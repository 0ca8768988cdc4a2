"""Musical time: where in the music each token stands, read from the tokens themselves.

A language moves its time by some of its tokens: a groove's time shift goes on by whole beats and then to a tick of that
beat, REMI's bar goes on by one bar and its sub-beat to a place in it. Both are moves (steps, tick): on by so many whole
steps, then to that tick of the step. Time is counted in ticks from the first token.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

MOST_STEPS = 1 << 20  # that a token goes on by


@dataclass(frozen=True, kw_only=True)
class Clock:
    """How the tokens of a language move its time."""

    bar_ticks: int
    step_ticks: int  # of the steps that moves count
    moves: tuple[tuple[int, ...], ...]  # (token, steps, tick) of each token that moves time

    def __post_init__(self) -> None:
        if min(self.bar_ticks, self.step_ticks) < 1:
            raise ValueError(
                f"a bar has {self.bar_ticks} ticks and a step {self.step_ticks}; both are at least 1"
            )
        for move in self.moves:
            if len(move) != 3 or min(move) < 0 or move[2] >= self.step_ticks:
                raise ValueError(
                    f"{list(move)} is not a move: a token, steps, and a tick below {self.step_ticks} are wanted"
                )
            if move[1] > MOST_STEPS:
                raise ValueError(f"{list(move)} goes on by more than {MOST_STEPS} steps")


class Times(NamedTuple):
    """How far each sequence is, in musical time and towards its goal."""

    ticks: Tensor  # after the last token: (B,)
    newest: Tensor  # what metric heads keep (heads.py): (B, R), R = 0 without any
    goal: Tensor  # which one stands (model/performer.py), 0 before the first: (B,)


class Timekeeper(nn.Module):
    """Reads the time off tokens, any number at once."""

    steps: Tensor
    tick: Tensor

    def __init__(self, clock: Clock, vocabulary_size: int) -> None:
        super().__init__()
        self.step_ticks = clock.step_ticks
        steps = torch.zeros(vocabulary_size, dtype=torch.long)
        tick = torch.full((vocabulary_size,), -1)
        for token, on, to in clock.moves:
            steps[token], tick[token] = on, to
        self.register_buffer("steps", steps, persistent=False)
        self.register_buffer("tick", tick, persistent=False)

    def after(self, tokens: Tensor, ticks: Tensor) -> Tensor:
        """Return the time after each token, (B, T), of sequences that stand at `ticks`, (B,).

        It may go back inside a step: the parts of a bar stand one after the other.
        """
        ticks = ticks.unsqueeze(1)
        steps = ticks // self.step_ticks + self.steps[tokens].cumsum(1)
        tick = self.tick[tokens]
        place = torch.arange(1, tokens.shape[1] + 1, device=tokens.device) * (tick >= 0)
        last = place.cummax(1).values  # the latest token that moved time, 0 before the first
        named = torch.cat([ticks, steps * self.step_ticks + tick], 1)
        return named.gather(1, last)

    def around(self, tokens: Tensor, ticks: Tensor) -> Tensor:
        """Return the times after and before each token, (2, B, T)."""
        after = self.after(tokens, ticks)
        return torch.stack([after, torch.cat([ticks.unsqueeze(1), after[:, :-1]], 1)])
