"""One sequence, or rows that began as one, token by token through the calls that the engine makes ready."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from musicgen.generation.fast_steps import ReadyCalls
from musicgen.metre.clock import Times
from musicgen.model.performer import Performer, State


class FastSteps:
    """What `Performer.step` computes, by calls that are made ready once for a state's tensors."""

    def __init__(self, model: Performer) -> None:
        self._model = model
        self._layers: tuple = ()
        self.ready: ReadyCalls | None = None

    @torch.inference_mode()
    def __call__(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """Absorb one token a row, (B,) → (B, V), as `Performer.step` does; the state may be overwritten."""
        if self._model.config.attention == "softmax" or state.layers[0] is None:
            return self._model.step(tokens, state)
        if self.ready is None or self._layers is not state.layers:
            self._layers, self.ready = state.layers, ReadyCalls(self._model, state.layers)
        rows = len(tokens)
        logits, codes, times = self.ready(
            tokens, [state.code] * rows, [state.position] * rows, state.times
        )
        position = state.position + 1
        return logits, State(layers=state.layers, code=codes[0], position=position, times=times)


def selected(state: State, rows: Tensor) -> State:
    """Return the state of the given rows of the batch: to drop some, or to vary one."""
    layers = tuple(layer.map(lambda x: x.index_select(0, rows)) for layer in state.layers)
    times = state.times and Times(*(x.index_select(0, rows) for x in state.times))
    return replace(state, layers=layers, times=times)
