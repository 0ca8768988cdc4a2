"""Rows of many sequences that take their steps together, whatever their positions, codes and musical times.

A row is what goes on with one sequence. Rows join and leave between steps, and some may stand still while the others
go on. What a step computes of a row does not depend, to the last bit, on which others there are: the compiled loops
take each row by itself (step.py), and where a model has something that the loops lack, each row takes its step alone.

A row's state stays at its slot, and the number of its slot is the row's number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

import torch
from torch import Tensor

from musicgen.generation.step import CompiledStep, supports
from musicgen.layers.precision import quantise, restore
from musicgen.metre.clock import Times
from musicgen.model.config import ModelConfig
from musicgen.model.performer import Performer, State
from musicgen.model.recall import Recollection

LEAST = 8  # rows that there is room for at first
WORN = 30.0  # nats by which a return to a bar that was said too often is less likely


class Batch(Protocol):
    """The rows; each is known by a number of its own for as long as it is here."""

    def __len__(self) -> int:
        """Return how many rows are here."""
        ...

    def join(self, state: State, copies: int) -> list[int]:
        """Take in so many rows that go on from the state of one sequence, and return their numbers."""
        ...

    def leave(self, numbers: Sequence[int]) -> None:
        """Drop rows; they cost no more."""
        ...

    def step(self, numbers: Sequence[int], tokens: Tensor) -> Tensor:
        """Absorb one token in each of these rows, (B,) → (B, V), while the others stand still."""
        ...


def batch_of(model: Performer) -> Batch:
    """Return a batch without rows."""
    return RowsTogether(model) if supports(model) else RowsAlone(model)


class RowsTogether:
    """Rows whose states lie in common arrays: sums (L, slots, H, M, D + 1), metric memory (L, slots, R, N, D + 1)."""

    def __init__(self, model: Performer) -> None:
        self._model = model
        self._step: CompiledStep | None = None
        self._free: list[int] = []  # slots that nobody has, the lowest last
        self._codes: dict[int, Any] = {}
        self._positions: dict[int, int] = {}
        self._recalls: dict[int, Recollection] = {}
        self._sums = self._memory = torch.empty(0)
        self._times: Times | None = None

    def __len__(self) -> int:
        return len(self._codes)

    @torch.inference_mode()
    def join(self, state: State, copies: int) -> list[int]:
        """Take in so many rows that go on from the state of one sequence, and return their numbers."""
        if self._step is None:
            self._step = CompiledStep(self._model)
        if len(self._free) < copies:
            self._grow(state, len(self) + copies)
        numbers = [self._free.pop() for _ in range(copies)]
        for layer, own in enumerate(state.layers):
            self._sums[layer, numbers] = own.sums
            if own.metre is not None:
                self._memory[layer, numbers] = own.metre
        if self._times is not None:
            assert state.times is not None, "all sequences of a model have times, or none"
            for to, of in zip(self._times, state.times, strict=True):
                to[numbers] = of
        self._codes |= dict.fromkeys(numbers, state.code)
        self._positions |= dict.fromkeys(numbers, state.position)
        if state.recalls:
            self._recalls |= {number: state.recalls[0].copy() for number in numbers}
        return numbers

    def leave(self, numbers: Sequence[int]) -> None:
        """Drop rows; they cost no more."""
        for number in numbers:
            del self._codes[number], self._positions[number]
            self._recalls.pop(number, None)
        self._free = sorted([*self._free, *numbers], reverse=True)
        if not self._codes:  # nothing is held while nobody is here
            self._free, self._times = [], None
            self._sums = self._memory = torch.empty(0)

    @torch.inference_mode()
    def step(self, numbers: Sequence[int], tokens: Tensor) -> Tensor:
        """Absorb one token in each of these rows, (B,) → (B, V), while the others stand still."""
        assert self._step is not None, "rows join before they take a step"
        slots = torch.tensor(numbers)
        times = None if self._times is None else Times(*(x[slots] for x in self._times))
        codes = [self._codes[number] for number in numbers]
        positions = [self._positions[number] for number in numbers]
        recalls = [self._recalls[number] for number in numbers if self._recalls]
        logits, codes, after = self._step(
            tokens, codes, positions, times, slots, self._sums, self._memory, recalls
        )
        self._codes |= dict(zip(numbers, codes, strict=True))
        self._positions |= {number: self._positions[number] + 1 for number in numbers}
        if after is not None:
            assert self._times is not None, "times come of times"
            for mine, new in zip(self._times, after, strict=True):
                mine[slots] = new
        return _as_free(logits, recalls) if recalls else logits

    def _grow(self, like: State, wanted: int) -> None:
        """Make room: twice as much as there was, or as is wanted."""
        had = len(self) + len(self._free)
        room = max(LEAST if wanted <= LEAST else 2 * had, wanted)
        layers, first = len(like.layers), like.layers[0]

        def grown(x: Tensor, of: Tensor | None) -> Tensor:
            shape = (0, 0, 0) if of is None else of.shape[1:]
            larger = torch.zeros(layers, room, *shape)
            if had:
                larger[:, :had] = x
            return larger

        self._sums = grown(self._sums, first.sums)
        self._memory = grown(self._memory, first.metre)
        if like.times is not None:
            mine = self._times or like.times
            self._times = Times(*(x.new_zeros(room, *x.shape[1:]) for x in mine))
            if had:
                for to, of in zip(self._times, mine, strict=True):
                    to[:had] = of
        self._free = [*range(room - 1, had - 1, -1), *self._free]


def _as_free(logits: Tensor, recalls: Sequence[Recollection]) -> Tensor:
    """Return logits of rows, (B, V), by which what returns is drawn less freely, and no bar returns too often."""
    logits = logits / logits.new_tensor([one.freedom for one in recalls]).unsqueeze(1)
    for row, one in enumerate(recalls):
        if one.strength:
            logits[row, one.worn()] -= WORN  # still drawn where nothing else may come
    return logits


def compile_ahead() -> None:
    """Compile the loops for 8-bit weights, or load what was compiled, before somebody waits for a note."""
    config = ModelConfig.preset("tiny", vocabulary_size=2, layers=1, position="none")
    model, token = Performer(config, 0).eval(), torch.zeros(1, dtype=torch.long)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim == 2:
                weight.copy_(restore(*quantise(weight)))
    batch = RowsTogether(model)
    batch.step(batch.join(model.step(token, model.start(torch.Generator()))[1], 1), token)


class RowsAlone:
    """Rows of a model that the loops do not take: each takes its step by itself."""

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
        for number in numbers:  # a step changes the state in place
            layers = tuple(layer.map(Tensor.clone) for layer in state.layers)
            self._states[number] = replace(state, layers=layers)
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
            recalls = self._states[number].recalls
            logits.append(_as_free(found, recalls) if recalls else found)
        return torch.cat(logits)


def bytes_of_a_row(state: State) -> int:
    """Return how much memory a row's state takes."""
    tensors = [x for layer in state.layers for x in layer if isinstance(x, Tensor)]
    return sum(x.numel() * x.element_size() for x in tensors) // len(tensors[0])
