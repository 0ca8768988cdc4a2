"""Rows of many sequences that take their steps together, whatever their positions, codes and musical times.

A row is what goes on with one sequence. Rows join and leave between steps, and some may stand still while the others
go on. What a step computes of a row does not depend, to the last bit, on which others there are (few_rows.py).

In the arrays the rows lie one after the other, those that take part in a step first: so a step works on whole arrays.
The memory of metric heads is most of a row's state (megabytes) and stays where it was first written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from musicgen.attention.linear_attention import AttentionState
from musicgen.generation.fast_steps import ReadyCalls
from musicgen.metre.clock import Times
from musicgen.model.performer import Performer, State

LEAST = 8  # rows that there is room for at first
KEPT = 8  # numbers of rows, the last ones, for which calls are kept ready: half a megabyte to one each, made in 3 ms


class Batch:
    """The rows; each is known by a number of its own for as long as it is here."""

    def __init__(self, model: Performer) -> None:
        self._model = model
        self._rows: list[int] = []  # numbers, in the order of the arrays
        self._free: list[int] = []  # numbers that nobody has, the lowest last
        self._codes: list[Any] = []
        self._positions: list[int] = []
        self._layers: tuple[AttentionState, ...] = ()
        self._times: Times | None = None
        self._ready: dict[int, ReadyCalls] = {}

    def __len__(self) -> int:
        return len(self._rows)

    @torch.inference_mode()
    def join(self, state: State, copies: int) -> list[int]:
        """Take in so many rows that go on from the state of one sequence, and return their numbers."""
        if len(self._free) < copies:
            self._grow(state, len(self._rows) + copies)
        numbers = [self._free.pop() for _ in range(copies)]
        first = len(self._rows)
        here = slice(first, first + copies)
        for mine, theirs in zip(self._layers, state.layers, strict=True):
            for to, of in zip(mine[:2], theirs[:2], strict=True):
                if to is not None:
                    to[here] = of
            if mine.metre is not None:
                mine.metre[numbers] = theirs.metre
        if self._times is not None:
            assert state.times is not None, "all sequences of a model have times, or none"
            for to, of in zip(self._times, state.times, strict=True):
                to[here] = of
        self._rows += numbers
        self._codes += [state.code] * copies
        self._positions += [state.position] * copies
        return numbers

    @torch.inference_mode()
    def leave(self, numbers: Sequence[int]) -> None:
        """Drop rows; they cost no more."""
        if not numbers:
            return
        for number in numbers:
            self._swap(self._rows.index(number), len(self._rows) - 1)
            for column in (self._rows, self._codes, self._positions):
                column.pop()
            self._free.append(number)
        self._free.sort(reverse=True)
        if not self._rows:  # nothing is held while nobody is here
            self._layers, self._times, self._free, self._ready = (), None, [], {}

    @torch.inference_mode()
    def step(self, numbers: Sequence[int], tokens: Tensor) -> Tensor:
        """Absorb one token in each of these rows, (B,) → (B, V), while the others stand still."""
        count = len(numbers)
        self._bring_forward(set(numbers))
        places = None
        if self._rows[:count] != list(numbers):
            order = {number: place for place, number in enumerate(self._rows[:count])}
            places = torch.tensor([order[number] for number in numbers], device=tokens.device)
            tokens = torch.empty_like(tokens).index_copy_(0, places, tokens)
        times = None if self._times is None else Times(*(x[:count] for x in self._times))
        memories = torch.tensor(self._rows[:count], device=tokens.device)
        logits, codes, after = self._calls(count)(
            tokens, self._codes[:count], self._positions[:count], times, memories
        )
        self._codes[:count] = codes
        self._positions[:count] = [position + 1 for position in self._positions[:count]]
        if after is not None:
            assert self._times is not None, "times come of times"
            for mine, new in zip(self._times, after, strict=True):
                mine[:count] = new
        return logits if places is None else logits[places]

    def _calls(self, count: int) -> ReadyCalls:
        """Return the calls for the first rows, made ready."""
        ready = self._ready.pop(count, None)
        if ready is None:
            while len(self._ready) >= KEPT:
                del self._ready[next(iter(self._ready))]
            states = tuple(
                AttentionState(
                    layer.sums[:count],
                    None if layer.normaliser is None else layer.normaliser[:count],
                    layer.metre,
                )
                for layer in self._layers
            )
            ready = ReadyCalls(self._model, states)
        self._ready[count] = ready  # the latest stands last
        return ready

    def _bring_forward(self, wanted: set[int]) -> None:
        """Let these rows be the first ones."""
        outside = (
            place for place in range(len(wanted), len(self._rows)) if self._rows[place] in wanted
        )
        for place in range(len(wanted)):
            if self._rows[place] not in wanted:
                self._swap(place, next(outside))

    def _swap(self, a: int, b: int) -> None:
        if a == b:
            return
        arrays = [x for layer in self._layers for x in layer[:2] if x is not None]
        for x in (*arrays, *(self._times or ())):
            x[[a, b]] = x[[b, a]]
        for column in (self._rows, self._codes, self._positions):
            column[a], column[b] = column[b], column[a]

    def _grow(self, like: State, wanted: int) -> None:
        """Make room: twice as much as there was, or as is wanted."""
        had = len(self._rows) + len(self._free)
        room = max(LEAST if wanted <= LEAST else 2 * had, wanted)

        def larger(x: Tensor | None, of: Tensor | None) -> Tensor | None:
            if of is None:
                return None
            grown = of.new_empty(room, *of.shape[1:])
            if x is not None:
                grown[:had] = x
            return grown

        before = self._layers or (AttentionState(None, None, None),) * len(like.layers)  # type: ignore[arg-type]
        self._layers = tuple(
            AttentionState(*(larger(x, of) for x, of in zip(mine, theirs, strict=True)))  # type: ignore[arg-type]
            for mine, theirs in zip(before, like.layers, strict=True)
        )
        if like.times is not None:
            mine = self._times or (None,) * len(like.times)
            self._times = Times(*(larger(x, of) for x, of in zip(mine, like.times, strict=True)))  # type: ignore[arg-type]
        self._free = [*range(room - 1, had - 1, -1), *self._free]
        self._ready = {}


class SoftmaxBatch:
    """The same for models whose state grows with the sequence, those with softmax: each row takes its step alone."""

    def __init__(self, model: Performer) -> None:
        self._model = model
        self._states: dict[int, State] = {}
        self._next = 0

    def __len__(self) -> int:
        return len(self._states)

    @torch.inference_mode()
    def join(self, state: State, copies: int) -> list[int]:
        """Take in so many rows that go on from the state of one sequence, and return their numbers."""
        numbers = [*range(self._next, self._next + copies)]
        self._next += copies
        self._states.update(dict.fromkeys(numbers, state))
        return numbers

    def leave(self, numbers: Sequence[int]) -> None:
        """Drop rows."""
        for number in numbers:
            del self._states[number]

    def step(self, numbers: Sequence[int], tokens: Tensor) -> Tensor:
        """Absorb one token in each of these rows, (B,) → (B, V)."""
        logits = []
        for number, token in zip(numbers, tokens.split(1), strict=True):
            found, self._states[number] = self._model.step(token, self._states[number])
            logits.append(found)
        return torch.cat(logits)


def bytes_of_a_row(state: State) -> int:
    """Return how much memory a row's state takes."""
    tensors = [x for layer in state.layers for x in layer if isinstance(x, Tensor)]
    return sum(x.numel() * x.element_size() for x in tensors) // len(tensors[0])
