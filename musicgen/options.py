"""How music is to go on: how far, how often, how freely. Commands take their defaults from here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from musicgen.generation.sampling import MUSICAL, Sampling
from tokenization.records import whole_number


@dataclass(frozen=True, kw_only=True)
class Options:
    """How to go on; the length is `tokens` where given, else `bars`."""

    bars: int = 16
    tokens: int | None = None
    variations: int = 1
    seed: int = 0
    sampling: Sampling = MUSICAL
    may_end: bool = False  # let the music end by itself before that length
    ends: bool = False  # with the last of these bars the music comes to its end
    chords: list[list[str]] | None = None  # of each bar, over and over
    # What is asked of the new bars, by name, where the language has a plan (tokenization/ensemble/plans.py).
    plan: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        for name in ("bars", "tokens", "variations", "seed"):
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, whole_number(value, name))

    def length(self) -> dict[str, int | bool]:
        """Return how far the music was to go, as a file says it."""
        if self.tokens is not None:
            return {"tokens": self.tokens}
        end = {"ends": self.ends, "may_end": self.may_end}
        return {"bars": self.bars, **{name: True for name, asked in end.items() if asked}}
