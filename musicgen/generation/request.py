"""What is asked of a model, all that it takes to draw it, and what has come of it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from threading import Event
from typing import Any

import numpy as np

from musicgen.generation.sampling import MUSICAL, Kinds, Sampling
from tokenization.grammar import Grammar
from tokenization.records import whole_number


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a person asks for; the length is `tokens` where given, else `bars`. Commands take their defaults from here.

    Command, page and library make it, and it comes as it is to the engine. The same request to the same model gives
    the same tokens.
    """

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
    planned: bool = True  # bars state a plan before their notes, where the language has one

    def __post_init__(self) -> None:
        for name in ("bars", "tokens", "variations", "seed"):
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, whole_number(value, name))
        if self.tokens is not None and self.tokens < 1:
            raise ValueError(f"tokens is {self.tokens}; to continue at all it is 1 or more")
        if self.variations < 1:
            raise ValueError(f"variations is {self.variations}; it must be 1 or more")
        if not 0 <= self.seed < 1 << 63:
            raise ValueError(f"seed is {self.seed}; it must be 0 or more, and less than 2**63")

    def length(self) -> dict[str, int | bool]:
        """Return how far the music was to go, as a file says it."""
        if self.tokens is not None:
            return {"tokens": self.tokens}
        end = {"ends": self.ends, "may_end": self.may_end}
        return {"bars": self.bars, **{name: True for name, asked in end.items() if asked}}


Options = Request  # what programs called it before


@dataclass(frozen=True, kw_only=True)
class Order:
    """A request after a prompt, whole: any process that has the model can do it.

    A variation ends with the request's number of tokens, or where this says; else when it is cancelled.
    """

    request: Request
    ids: np.ndarray  # of the prompt
    grammar: Grammar  # of one row, that has taken the prompt
    end: int | None = None  # the token that ends a variation, which is still given out
    # It ends before the token that begins this bar, from 0 at the first of the prompt.
    before_bar: int | None = None
    # What a model that recalls is given: what is known of the piece besides, bars that are not to be recalled, and the
    # bars that some bars return to.
    elsewhere: tuple[int, ...] = ()
    unlike: tuple[int, ...] = ()
    sources: Mapping[int, int] = field(default_factory=dict)
    kinds: Kinds | None = None  # of tokens, to draw within
    guiding: tuple[int, ...] = ()  # tokens to which the music keeps by `Sampling.guidance`

    def __post_init__(self) -> None:
        if self.request.sampling.by_kind and self.kinds is None:
            raise ValueError("to draw by kind takes the kinds of the language's tokens")

    @property
    def prompt(self) -> Hashable:
        """Return all that the state after the prompt depends on."""
        sources, recall = tuple(sorted(self.sources.items())), self.request.sampling.recall
        return self.ids.tobytes(), self.elsewhere, self.unlike, sources, recall


def order(
    request: Request, ids: np.ndarray, grammar: Grammar, *, valid: bool = False, **more: Any
) -> Order:
    """Return what is to be written after a prompt; a grammar that stands before the prompt is copied, and takes it.

    `valid`: it is known that the prompt's tokens may stand there, which takes a grammar long to find out.
    """
    grammar = grammar.select(np.zeros(1, dtype=np.int64))
    if valid:
        grammar.take(ids)
        return Order(request=request, ids=ids, grammar=grammar, **more)
    for place, token in enumerate(ids):
        if not grammar.allowed()[0, token]:
            raise ValueError(
                f"token {token} at place {place} of the prompt may not stand there in this language"
            )
        grammar.advance(ids[place : place + 1])
    return Order(request=request, ids=ids, grammar=grammar, **more)


class Progress:
    """The new tokens by variation grow in `rows`; `ended` is set once there are no more to come."""

    def __init__(self, variations: int) -> None:
        self.rows: list[list[int]] = [[] for _ in range(variations)]
        self._bars = 0
        self.ended = Event()
        self.error: Exception | None = None
        self.bound: Exception | None = None  # why music ends before it was to: what there is stands

    @property
    def steps(self) -> int:
        """How many tokens the longest variation has."""
        return max(map(len, self.rows), default=0)

    @property
    def bars(self) -> int:
        """How many bars have begun since the first token, in each variation that still is written."""
        return self._bars

    def check(self) -> None:
        """Raise what ended the work, or kept it from its length, if that was an error."""
        if (error := self.error or self.bound) is not None:
            raise error
