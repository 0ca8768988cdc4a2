"""A model in the kernel, and the sequences that it continues."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from musicgen.config import ModelConfig
from musicgen.kernel.host import Kernel, KernelError, Span
from musicgen.kernel.packing import ITEMS, Packing, Tensors, lacking

# The structures of kernel.c.
STATE = np.dtype([
    *((name, "<u4") for name in ("sums", "blocks", "newest", "logits", "noise", "ring")),
    ("seed", "<u8"), ("position", "<i4"), ("tick", "<i4"), ("goal", "<i4"), ("drawn", "<i4"),
])  # fmt: skip
STATE_AT = {name: place for name, (_, place, *_) in (STATE.fields or {}).items()}
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
        self._fields_at = self.kernel.model_at
        self.kernel.machine.write(self._fields_at, packing.words().view(np.uint8))
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
        self.block_bytes = 4 * f["layers"] * f["metric_features"] * (f["head_width"] + 1)
        self._stack = self.kernel.take(4)  # of the addresses of free blocks
        self._blocks: list[Span] = []
        self.blocks_taken = 0
        # Given back, at any time and by any thread: the kernel sees them before its next step.
        self._returned: deque[np.ndarray] = deque()

    @property
    def most_bytes(self) -> int:
        """The size of a state whose metric memory is full."""
        return self.state_bytes + self.block_bytes * int(self.fields["metric_rows"])

    def begin(self, seed: int) -> State:
        """Return the state before a sequence's first token; the seed draws the noise of its encoding."""
        span, noise = self.kernel.take(self.state_bytes), None
        self.kernel.call("clear", span.address, span.size)
        sines, gates = self._noise
        if sines + gates:
            noise = self.kernel.take(4 * (sines + gates))
            at, scale = noise.address, float(self.fields["noise_scale"])
            self.kernel.call("normals", signed(seed), 0, at, sines, 1.0)
            self.kernel.call("normals", signed(seed), sines, at + 4 * sines, gates, scale)
        span.write(np.array(seed, "<u8"), STATE_AT["seed"])
        return State(self, span, noise)

    def advance(
        self, states: Sequence[State], tokens: np.ndarray, guesses: np.ndarray | None = None,
        strengths: np.ndarray | float = 1.0,
    ) -> None:  # fmt: skip
        """Append tokens to states, in order; `guesses`, (count, 4), are those of recall."""
        size = int(self.fields["vocabulary"])
        if len(tokens) and not 0 <= tokens.min() <= tokens.max() < size:
            raise IndexError(f"tokens are {tokens.min()} to {tokens.max()}, of {size}")
        addresses = np.array([state.span.address for state in states], np.uint32)
        items = np.zeros(len(tokens), ITEM)
        items["state"], items["token"], items["strength"] = addresses, tokens, strengths
        if guesses is not None:
            items["guesses"] = guesses
        for start in range(0, len(items), ITEMS):
            some = items[start : start + ITEMS]
            self._reserve(len(some) * int(self.fields["metric_heads"]))
            self._items.write(some)
            self.kernel.call("advance", len(some), self._items.address)

    def _reserve(self, count: int) -> None:
        """Let the kernel see what was given back, and take more blocks if fewer than these are free."""
        while self._returned:
            self._push(self._returned.popleft())
        free = self._count()
        if free >= count:
            return
        more = max(count - free, BLOCKS)
        span = self.kernel.take(more * self.block_bytes)
        self._blocks.append(span)
        self.blocks_taken += span.size // self.block_bytes
        if 4 * self.blocks_taken > self._stack.size:
            stack = self.kernel.take(8 * self.blocks_taken)
            stack.write(self._stack.read(np.uint32, free))
            self._stack = stack
            self._write("free_blocks", stack.address)
        self._push(
            span.address
            + self.block_bytes * np.arange(span.size // self.block_bytes, dtype=np.uint32)
        )

    def take_blocks(self, count: int) -> np.ndarray:
        """Take free blocks of metric memory: return their addresses."""
        self._reserve(count)
        free = self._count() - count
        self._write("free_count", free)
        return self._stack.read(np.uint32, count, free)

    def _push(self, blocks: np.ndarray) -> None:
        """Add blocks to the stack of free ones."""
        free = self._count()
        self._stack.write(blocks, 4 * free)
        self._write("free_count", free + len(blocks))

    def _count(self) -> int:
        at = self._fields_at + 4 * self._at["free_count"]
        return int(self.kernel.machine.read(at, 4).view(np.int32)[0])

    @property
    def free_blocks(self) -> int:
        """The number of free blocks of metric memory."""
        return self._count() + sum(map(len, self._returned))

    def free(self, blocks: np.ndarray) -> None:
        """Take back blocks of metric memory."""
        if len(blocks):
            self._returned.append(blocks)

    def _write(self, field: str, value: int) -> None:
        at = self._fields_at + 4 * self._at[field]
        self.kernel.machine.write(at, np.array([value], np.uint32).view(np.uint8))


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

    def __init__(
        self, network: KernelNetwork, span: Span, noise: Span | None, shared: tuple[Shared, ...] = ()
    ) -> None:  # fmt: skip
        """Take a span with the content of a state, and write the addresses of its parts there."""
        self.network, self.span, self.noise, self._shared = network, span, noise, shared
        starts = [span.address + part.start for part in network.layout.values()]
        noise_at = 0 if noise is None else noise.address
        span.write(np.array([*starts[:-1], noise_at, starts[-1]], np.uint32))

    @property
    def bytes(self) -> int:
        """The size of the state when its metric memory is full."""
        return self.network.most_bytes

    @property
    def logits_at(self) -> int:
        """The address of the logits of the next token."""
        return self.span.address + self.network.layout["logits"].start

    def copy(self) -> State:
        """Return a state that continues independently; both read the blocks of metric memory so far."""
        blocks, own = self._blocks()
        if own.any():
            self._shared += (Shared(self.network, blocks[own]),)
            # To the kernel, an odd address is one of a shared block.
            self.span.write(blocks + own, self.network.layout["blocks"].start)
        return State(self.network, self.span.copy(), self.noise, self._shared)

    def copy_in(self, network: KernelNetwork) -> State:
        """Return a state with the same content in another instance of the same model."""
        here, there = self.network.kernel.machine, network.kernel
        span, noise = there.take(network.state_bytes), None
        span.write(self.span.read(np.uint8, network.state_bytes))
        if self.noise is not None:
            noise = there.place(self.noise.read(np.uint8, self.noise.size))
        addresses = self._blocks()[0]
        moved = np.zeros_like(addresses)
        full = np.flatnonzero(addresses)
        for row, address in zip(full, network.take_blocks(len(full)), strict=True):
            moved[row] = address
            there.machine.write(
                int(address), here.read(int(addresses[row]) & ~1, network.block_bytes)
            )
        span.write(moved, network.layout["blocks"].start)
        return State(network, span, noise)

    def logits(self) -> np.ndarray:
        """Return the logits of the next token: (V,) float32."""
        start = self.network.layout["logits"].start // 4
        return self.span.read(np.float32, self.network.config.vocabulary_size, start)

    def _blocks(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the addresses of the rows' blocks, and which of them belong to this state alone."""
        place = self.network.layout["blocks"]
        found = self.span.read(np.uint32, (place.stop - place.start) // 4, place.start // 4)
        return found, (found != 0) & (found % 2 == 0)

    def __del__(self) -> None:
        if self.network.kernel.machine.size:  # else the kernel is being freed too
            blocks, own = self._blocks()
            self.network.free(blocks[own])
