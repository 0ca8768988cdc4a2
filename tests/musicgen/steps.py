"""One sequence, or rows that began as one, token by token."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from musicgen.metre.clock import Times
from musicgen.model.performer import Performer, State


class FastSteps:
    """`Performer.step`; the state may be overwritten."""

    def __init__(self, model: Performer) -> None:
        self._model = model

    def __call__(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """Absorb one token a row, (B,) → (B, V)."""
        return self._model.step(tokens, state)


def selected(state: State, rows: Tensor) -> State:
    """Return the state of the given rows of the batch: to drop some, or to vary one."""
    layers = tuple(layer.map(lambda x: x.index_select(0, rows)) for layer in state.layers)
    times = state.times and Times(*(x.index_select(0, rows) for x in state.times))
    return replace(state, layers=layers, times=times)
