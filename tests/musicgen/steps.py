"""Rows of a state."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from musicgen.metre.clock import Times
from musicgen.model.performer import State


def selected(state: State, rows: Tensor) -> State:
    """Return the state of the given rows of the batch: to drop some, or to vary one."""
    layers = tuple(layer.map(lambda x: x.index_select(0, rows)) for layer in state.layers)
    times = state.times and Times(*(x.index_select(0, rows) for x in state.times))
    return replace(state, layers=layers, times=times)
