"""Networks for which torch computes sequence after sequence: those with parts that the kernel does not know."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from musicgen.attention import map_state
from musicgen.checkpoint import check_finite
from musicgen.common.learning import generator_from
from musicgen.kernel.host import Span, tools
from musicgen.kernel.network import KernelNetwork
from musicgen.kernel.packing import lacking
from musicgen.performer import Performer, State


def network_of(performer: Performer) -> KernelNetwork | EagerNetwork:
    """Return the network that continues sequences with a model's weights: the kernel's if it can."""
    if lacking(performer.config):
        return EagerNetwork(performer)
    path, arrays = Path("the model"), {}
    for name, x in performer.state_dict().items():
        arrays[name] = x.detach().cpu().float().numpy()
        check_finite(path, name, bool(np.isfinite(arrays[name]).all()))
    return KernelNetwork(performer.config, arrays, path)


class EagerState:
    """The state of a sequence in torch, with its logits in the kernel's memory."""

    def __init__(self, state: State, logits: Span) -> None:
        self.state, self.logits_span = state, logits

    @property
    def logits_at(self) -> int:
        """The address of the logits of the next token."""
        return self.logits_span.address

    @property
    def bytes(self) -> int:
        """The size of the state, which grows with the sequence only for softmax attention."""
        layers = [layer for layer in self.state.layers if layer is not None]
        return sum(x.numel() * x.element_size() for layer in layers for x in layer if x is not None)

    def copy(self) -> EagerState:
        """Return a state that continues independently."""
        layers = tuple(map_state(x, Tensor.clone) for x in self.state.layers)  # changed in place
        return EagerState(replace(self.state, layers=layers), self.logits_span.copy())


class EagerNetwork:
    """A model in torch, one sequence after the other."""

    def __init__(self, performer: Performer) -> None:
        self.config, self.kernel, self._performer = performer.config, tools(), performer
        self.lacks = lacking(performer.config)  # what the kernel does not know of it

    def begin(self, seed: int) -> EagerState:
        """Return the state before a sequence's first token; the seed draws the noise of its encoding."""
        state = self._performer.start(generator_from(seed))
        return EagerState(state, self.kernel.take(4 * self.config.vocabulary_size))

    def advance(
        self,
        states: Sequence[EagerState],
        tokens: np.ndarray,
        guesses: np.ndarray | None = None,
        strengths: np.ndarray | float = 1.0,
    ) -> None:
        """Append tokens to states, in order; those of one state that come together are read at once."""
        device = self._performer.embedding.weight.device
        strengths = np.broadcast_to(np.asarray(strengths, np.float32), len(tokens))
        with one_thread():
            for _, group in groupby(range(len(tokens)), lambda place: id(states[place])):
                places = [*group]
                state, ids = states[places[0]], torch.from_numpy(np.asarray(tokens)[places])
                recalled = strength = None
                if guesses is not None:
                    recalled = torch.from_numpy(guesses[places])[None].to(device)
                    strength = torch.from_numpy(strengths[places[:1]]).to(device)
                logits, state.state = self._performer.prefill(
                    ids.long()[None].to(device), state.state, recalled, strength
                )
                state.logits_span.write(logits[0].float().cpu().numpy())


@contextmanager
def one_thread() -> Iterator[None]:
    """Run torch on one thread.

    On two idle cores, a second thread gains less than a third; if another process takes one of them, a token takes
    forty times as long.
    """
    before = torch.get_num_threads()
    if before == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
