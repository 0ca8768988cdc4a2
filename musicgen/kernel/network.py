"""A model in the kernel, and the sequences that it continues."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from musicgen.config import ModelConfig
from musicgen.kernel.host import Kernel, KernelError, Span
from musicgen.kernel.packing import ITEMS, Packing, Tensors, lacking

# The structures of kernel.c.
STATE = np.dtype([
    *((name, "<u4") for name in ("sums", "blocks", "newest", "logits", "noise", "ring")),
    ("seed", "<u8"), ("position", "<i4"), ("tick", "<i4"), ("goal", "<i4"), ("drawn", "<i4"),
])  # fmt: skip
ITEM = np.dtype([("state", "<u4"), ("token", "<i4"), ("guesses", "<i2", 4), ("strength", "<f4")])
BLOCKS = 64  # of metric memory that are taken together


class KernelNetwork:
    """A model in the kernel.

    A state is continued by items, one token each, and each gives the same bits whatever other items come with it.
    """

    def __init__(self, config: ModelConfig, tensors: Tensors, path: Path) -> None:
        """Place a model's tensors in the memory of a kernel of its own; `path` is their file, for errors."""
        if lack := lacking(config):
            raise KernelError(f"the kernel does not know {lack}")
        self.config, self.kernel = config, Kernel()
        packing = Packing(self.kernel, config, tensors, path)
        self.fields, self._spans = packing.fields, packing.spans
        self._at = {name: place for place, name in enumerate(packing.fields)}
        self._words()[:] = packing.words()
        self._items = self.kernel.take(ITEMS * ITEM.itemsize)
        f = {name: int(value) for name, value in packing.fields.items()}
        channels = f["slots"] * f["heads"] * f["head_width"] * f["encoded"]
        self._noise = channels * 2 * f["waves"], channels * f["gated"]  # of sines, and of gates
        sizes = {
            "sums": 4 * f["layers"] * f["heads"] * f["features"] * (f["head_width"] + 1),
            "blocks": 4 * f["metric_rows"],
            "newest": 4 * f["metric_rows"],
            "logits": 4 * f["vocabulary"],
            "ring": 4 * channels * f["ring"] if f["taps"] else 0,
        }
        self.layout, end = {}, STATE.itemsize
        for name, size in sizes.items():
            self.layout[name] = slice(end, end + size)
            end += -(-size // 16) * 16
        self.state_bytes = end  # without blocks
        self._block = 4 * f["layers"] * f["metric_features"] * (f["head_width"] + 1)
        self._stack = self.kernel.take(4)  # of the addresses of free blocks
        self._blocks: list[Span] = []
        # Given back, at any time and by any thread: the kernel sees them before its next step.
        self._returned: deque[np.ndarray] = deque()

    @property
    def most_bytes(self) -> int:
        """The size of a state whose metric memory is full."""
        return self.state_bytes + self._block * int(self.fields["metric_rows"])

    def _words(self) -> np.ndarray:
        start = self.kernel.model_at
        return self.kernel.memory[start : start + 4 * len(self.fields)].view(np.int32)

    def begin(self, seed: int) -> State:
        """Return the state before a sequence's first token; the seed draws the noise of its encoding."""
        state = State(self)
        state.span.view()[:] = 0
        sines, gates = self._noise
        if sines + gates:
            state.noise = self.kernel.take(4 * (sines + gates))
            at, scale = state.noise.address, float(self.fields["noise_scale"])
            self.kernel.call("normals", signed(seed), 0, at, sines, 1.0)
            self.kernel.call("normals", signed(seed), sines, at + 4 * sines, gates, scale)
        state.point()
        state.head["seed"] = seed
        return state

    def advance(
        self, states: Sequence[State], tokens: np.ndarray, guesses: np.ndarray | None = None,
        strengths: np.ndarray | float = 1.0,
    ) -> np.ndarray:  # fmt: skip
        """Append tokens to states, in order, and return the logits after each: (count,) → (count, V).

        `guesses`, (count, 4), are those of recall.
        """
        vocabulary = int(self.fields["vocabulary"])
        if len(tokens) and not 0 <= tokens.min() <= tokens.max() < vocabulary:
            raise IndexError(f"tokens are {tokens.min()} to {tokens.max()}, of {vocabulary}")
        addresses = np.array([state.span.address for state in states], np.uint32)
        items = np.zeros(len(tokens), ITEM)
        items["state"], items["token"], items["strength"] = addresses, tokens, strengths
        if guesses is not None:
            items["guesses"] = guesses
        logits = np.empty((len(tokens), vocabulary), np.float32)
        for start in range(0, len(items), ITEMS):
            some = items[start : start + ITEMS]
            self._reserve(len(some) * int(self.fields["metric_heads"]))
            self._items.view()[: some.nbytes] = some.view(np.uint8)
            self.kernel.call("advance", len(some), self._items.address)
            logits[start : start + ITEMS] = self._logits(len(some))
        return logits

    def _logits(self, count: int) -> np.ndarray:
        width, start = int(self.fields["head_outputs"]), int(self.fields["logits"])
        found = self.kernel.memory[start : start + 4 * count * width].view(np.float32)
        return found.reshape(count, width)[:, : int(self.fields["vocabulary"])]

    @property
    def free_blocks(self) -> int:
        """The number of free blocks of metric memory."""
        return int(self._words()[self._at["free_count"]]) + sum(map(len, self._returned))

    def _reserve(self, count: int) -> None:
        """Let the kernel see what was given back, and take more blocks if fewer than these are free."""
        while self._returned:
            self._push(self._returned.popleft())
        free = int(self._words()[self._at["free_count"]])
        if free >= count:
            return
        more = max(count - free, BLOCKS)
        span = self.kernel.take(more * self._block)
        self._blocks.append(span)
        total = sum(span.bytes // self._block for span in self._blocks)
        if 4 * total > self._stack.bytes:
            stack = self.kernel.take(8 * total)
            stack.view(np.uint32)[:free] = self._stack.view(np.uint32)[:free]
            self._stack = stack
            self._words()[self._at["free_blocks"]] = stack.address
        self._push(
            span.address + self._block * np.arange(span.bytes // self._block, dtype=np.uint32)
        )

    def _push(self, blocks: np.ndarray) -> None:
        """Add blocks to the stack of free ones."""
        words, at = self._words(), self._at["free_count"]
        free = int(words[at])
        self._stack.view(np.uint32)[free : free + len(blocks)] = blocks
        words[at] = free + len(blocks)

    def free(self, blocks: np.ndarray) -> None:
        """Take back blocks of metric memory."""
        if len(blocks):
            self._returned.append(blocks)


def signed(seed: int) -> int:
    """Return the signed number with the same 64 bits."""
    return seed - (1 << 64) if seed >= 1 << 63 else seed


class Shared:
    """Blocks of metric memory that a state and its copies read, and none writes to."""

    def __init__(self, network: KernelNetwork, blocks: np.ndarray) -> None:
        self._network, self._blocks = network, blocks

    def __del__(self) -> None:
        self._network.free(self._blocks)


class State:
    """The state of a sequence: what the network remembers of its tokens, and the logits of the next one."""

    def __init__(self, network: KernelNetwork) -> None:
        self.network = network
        self.span = network.kernel.take(network.state_bytes)
        self.noise: Span | None = None  # its copies have the same
        self._shared: tuple[Shared, ...] = ()

    @property
    def head(self) -> np.ndarray:
        """The structure `Sequence` of kernel.c."""
        return self.span.view()[: STATE.itemsize].view(STATE)[0]

    def array(self, name: str, dtype: Any = np.float32) -> np.ndarray:
        """Return a view of a part of the state, valid until the memory grows."""
        return self.span.view()[self.network.layout[name]].view(dtype)

    @property
    def bytes(self) -> int:
        """The size of the state when its metric memory is full."""
        return self.network.most_bytes

    @property
    def logits_at(self) -> int:
        """The address of the logits of the next token."""
        return self.span.address + self.network.layout["logits"].start

    @property
    def logits(self) -> np.ndarray:
        """The logits of the next token, (V,)."""
        return self.array("logits").copy()

    def point(self) -> None:
        """Write the addresses of the parts into the structure."""
        head = self.span.view()[: STATE.itemsize].view(STATE)
        for name, place in self.network.layout.items():
            head[name] = self.span.address + place.start
        head["noise"] = 0 if self.noise is None else self.noise.address

    def copy(self) -> State:
        """Return a state that continues independently; both read the blocks of metric memory so far."""
        own = self._own()
        if own.any():
            blocks = self.array("blocks", np.uint32)
            self._shared += (Shared(self.network, blocks[own]),)
            blocks[own] |= 1
        other = State(self.network)
        other.span.view()[:] = self.span.view()
        other.noise, other._shared = self.noise, self._shared
        other.point()
        return other

    def _own(self) -> np.ndarray:
        blocks = self.array("blocks", np.uint32)
        return (blocks != 0) & (blocks % 2 == 0)

    def __del__(self) -> None:
        if len(self.network.kernel.memory):  # else the kernel is being freed too
            self.network.free(self.array("blocks", np.uint32)[self._own()])
