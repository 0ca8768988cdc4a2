"""A vocabulary: named blocks of consecutive ids; nobody else computes an offset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np


@dataclass(frozen=True)
class Block:
    """A family of tokens with the ids start … stop − 1, one a name."""

    name: str
    start: int
    names: tuple[str, ...]

    @property
    def stop(self) -> int:
        """The first id after the block."""
        return self.start + len(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def holds(self, ids: np.ndarray) -> np.ndarray:
        """Say of each id whether it belongs to this block."""
        return (ids >= self.start) & (ids < self.stop)


class Vocabulary:
    """Blocks laid end to end from id 0."""

    def __init__(self, families: Sequence[tuple[str, Sequence[str]]]) -> None:
        """Lay out (block name, token names) pairs in the order given."""
        self.blocks: dict[str, Block] = {}
        start = 0
        for name, names in families:
            self.blocks[name] = Block(name, start, tuple(names))
            start += len(names)
        self.names: tuple[str, ...] = tuple(
            n for block in self.blocks.values() for n in block.names
        )
        if len(set(self.names)) != len(self.names) or len(self.blocks) != len(families):
            raise ValueError("every block and every token of a vocabulary needs a name of its own")

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, block: str) -> Block:
        return self.blocks[block]

    @cached_property
    def ids(self) -> dict[str, int]:
        """Token name → id."""
        return {name: index for index, name in enumerate(self.names)}

    def id(self, name: str) -> int:
        """Return the id of a token name; an unknown name raises ValueError."""
        try:
            return self.ids[name]
        except KeyError:
            raise ValueError(
                f"{name!r} is not a token of this language; its families are {', '.join(self.blocks)}"
            ) from None

    def to_json(self) -> list[dict[str, object]]:
        """Return the blocks as plain data."""
        return [
            {"name": b.name, "start": b.start, "stop": b.stop, "tokens": list(b.names)}
            for b in self.blocks.values()
        ]
