"""A request to a model, the order that makes it executable, and its rows while the engine works on it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from threading import Event
from typing import Any, Self

import numpy as np

from musicgen.generation.sampling import MUSICAL, Kinds, Sampling
from tokenization.grammar import Grammar
from tokenization.records import whole_number

DRAWN = 4  # by default, by commands, library and endpoints: on two processors in less than twice the time a token


@dataclass(frozen=True, kw_only=True)
class Request:
    """What to write; the length is `tokens` if given, else `bars`. `Playable.continue_` explains the fields.

    Commands, endpoints and library build it, with these defaults except for `draw`, which is DRAWN there. The engine
    receives it unchanged. The same request to the same model gives the same tokens.
    """

    bars: int = 16
    tokens: int | None = None
    variations: int = 1
    draw: int = 1  # takes drawn for each variation, of which the model's critic chooses one
    seed: int = 0
    sampling: Sampling = MUSICAL
    ends: bool = False  # the music ends with the last of these bars
    chords: list[list[str]] | None = None  # of each bar, repeated cyclically
    # Attributes of the new bars, by name, if the language has plans (tokenization/ensemble/plan.py).
    plan: dict[str, Any] | None = None
    # Whether metre, ranges, parts of one voice and endings are left to the model (tokenization/ensemble/promises.py).
    free: bool = False
    # Whether chords of the piece, except for guessed ones, stay where chords are written.
    keeps_chords: bool = False
    planned: bool = True  # each bar states its plan before its notes, if the language has plans

    def __post_init__(self) -> None:
        for name in ("bars", "tokens", "variations", "draw", "seed"):
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, whole_number(value, name))
        if self.tokens is not None and self.tokens < 1:
            raise ValueError(f"tokens is {self.tokens}; it must be 1 or more")
        for name in ("variations", "draw"):
            if (value := getattr(self, name)) < 1:
                raise ValueError(f"{name} is {value}; it must be 1 or more")
        if not 0 <= self.seed < 1 << 63:
            raise ValueError(f"seed is {self.seed}; it must be 0 or more, and less than 2**63")

    def length(self) -> dict[str, int | bool]:
        """Return the requested length as it is recorded in files."""
        if self.tokens is not None:
            return {"tokens": self.tokens}
        return {"bars": self.bars, **({"ends": True} if self.ends else {})}


@dataclass(frozen=True, kw_only=True)
class Choice:
    """How one of several rows of a take is chosen while they are written; then all go on from it."""

    each: int  # rows of a take
    together: int  # at most so many choose among themselves; a take of more has several groups
    every: int  # bars from one choice to the next
    # The number of the best of several rows of new tokens, after so many complete bars. It can be pickled.
    best: Callable[[Sequence[Sequence[int]], int], int]


@dataclass(frozen=True, kw_only=True)
class Order:
    """A request with its prompt and all else that is needed to execute it in any process that has the model.

    A variation ends with the request's number of tokens, with `end`, or before `before_bar`.
    """

    request: Request
    ids: np.ndarray  # of the prompt
    grammar: Grammar  # of one row, after the prompt
    end: int | None = None  # the token that ends a variation; it is part of the output
    # The variation ends before the token that begins this bar, counted from 0 at the first of the prompt.
    before_bar: int | None = None
    # For recall (musicgen/recall.py); bars are counted as in `before_bar`.
    elsewhere: tuple[int, ...] = ()  # tokens of the piece that the prompt leaves out
    unlike: tuple[int, ...] = ()  # tokens of bars that are not to be recalled
    # Bar → the bar that it returns to; the last one elsewhere is −1.
    sources: Mapping[int, int] = field(default_factory=dict)
    varies: bool = False  # whether such returns are varied, as those of songs are
    kinds: Kinds | None = None  # of tokens, for sampling by kind
    chords: tuple[int, ...] = ()  # tokens of chords, for which rules scale min-p
    guiding: tuple[int, ...] = ()  # tokens whose effect is scaled by `Sampling.guidance`
    choice: Choice | None = None  # None if each row is a take of its own

    @property
    def prompt_key(self) -> Hashable:
        """All that the state after the prompt depends on."""
        sources, recall = tuple(sorted(self.sources.items())), self.request.sampling.recall
        return self.ids.tobytes(), self.elsewhere, self.unlike, sources, self.varies, recall

    def after_prompt(self) -> Self:
        """Return the order with a copy of its grammar that has taken the prompt."""
        grammar = self.grammar.select(np.zeros(1, dtype=np.int64))
        grammar.take(self.ids)
        return replace(self, grammar=grammar)


class Progress:
    """The new tokens of each variation, in `rows`, which grow until `ended` is set."""

    def __init__(self, variations: int) -> None:
        self.rows: list[list[int]] = [[] for _ in range(variations)]
        self._bars = 0
        self.ended = Event()
        self.error: Exception | None = None
        self.bound: Exception | None = None  # why music ended early; what was written is kept

    @property
    def steps(self) -> int:
        """The number of tokens of the longest variation."""
        return max(map(len, self.rows), default=0)

    @property
    def written(self) -> int:
        """The number of tokens of all variations, some of which may begin when others have ended."""
        return sum(map(len, self.rows))

    @property
    def bars(self) -> int:
        """The least number of bars begun since the first token among the variations still being written."""
        return self._bars

    def check(self) -> None:
        """Raise the error that ended the work, if any, also if it only ended it early."""
        if (error := self.error or self.bound) is not None:
            raise error


class Job(Progress):
    """A request that the engine works on."""

    def __init__(
        self, wanted: Order, cancelled: Callable[[], bool] = lambda: False, owner: str = ""
    ) -> None:
        """Begin an order without tokens. The machine's time is shared equally among owners."""
        variations = wanted.request.variations
        super().__init__(variations)
        self.ids, self.order, self.request = wanted.ids, wanted, wanted.request
        self.cancelled, self.owner = cancelled, owner
        self.prompt_key = wanted.prompt_key
        self.writing = [Row(self, variation) for variation in range(variations)]
        self.settled: set[int] = set()  # takes of which the first row stays, by number
        self._seen = [0] * variations

    @property
    def bars(self) -> int:
        return min((row.bars for row in self.writing), default=0)

    def let_go(self) -> None:
        """Keep only the result; rows refer back to the job, so their states would wait for the garbage collector."""
        self.writing, self.cancelled = [], lambda: False

    def fresh(self) -> list[tuple[int, list[int]]]:
        """Return how many tokens of each variation stay since the last call, and the new ones after them."""
        new = [(seen, row[seen:]) for row, seen in zip(self.rows, self._seen, strict=True)]
        self._seen = [len(row) for row in self.rows]
        return new

    def group(self, row: Row) -> list[Row]:
        """Return the rows among which one is chosen while they are written, with this one."""
        return [other for other in self.writing if other.group == row.group]

    def choose(self, row: Row) -> None:
        """If all rows of a group wait for a choice, let them go on from the best; of a settled take, from the first."""
        rows, choice = self.group(row), self.order.choice
        if choice is None or any(other.stage is not Stage.HELD for other in rows):
            return
        stays = len(rows) == 1 or row.group[0] in self.settled
        best = 0 if stays else choice.best([other.tokens for other in rows], rows[0].bars - 1)
        for other in rows:
            other.go_on_from(rows[best])

    def write_again(self, variation: int, tokens: Sequence[int]) -> None:
        """Replace the tokens of a variation, from the first that differs."""
        row = self.rows[variation]
        pairs = enumerate(zip(row, tokens, strict=False))
        same = next((at for at, (a, b) in pairs if a != b), min(len(row), len(tokens)))
        row[same:] = tokens[same:]
        self._seen[variation] = min(self._seen[variation], same)


class Stage(Enum):
    """The stages of a row: it waits for room, then its prompt is read, then its tokens are drawn.

    At a choice, it is held until the other rows of its take are there.
    """

    WAITING = 0
    READING = 1
    PLAYING = 2
    HELD = 3


class Row:
    """A variation of a job that is being written."""

    def __init__(self, job: Job, variation: int) -> None:
        seed = job.request.seed
        self.job, self.tokens = job, job.rows[variation]
        # Its own grammar; a joint one replaces it while the row draws with others.
        self.grammar = job.order.grammar.select(np.zeros(1, np.int64))
        self.stage = Stage.WAITING
        # Its sequences: with guidance, a second one (the twin) is not given the guiding tokens.
        self.prefixes: list[Any] = []
        self.drawn = 0  # the latest token, which the batch takes next
        low, high = seed & 0xFFFFFFFF, seed >> 32  # numpy takes seeds as 32-bit words
        self.random = np.random.default_rng([low, variation, high])
        self._begun = self._first = int(self.grammar.bars[0])
        self._variation = variation
        self._chosen = 1  # bars begun at the last choice, or at the start

    @property
    def group(self) -> tuple[int, int]:
        """The number of its take, and of its group of rows among which one is chosen."""
        choice = self.job.order.choice
        if choice is None:
            return self._variation, 0
        take, place = divmod(self._variation, choice.each)
        return take, place // choice.together

    @property
    def comes_to_choice(self) -> bool:
        """Whether so many bars are complete that one of the rows of its take is chosen."""
        choice, bars = self.job.order.choice, self.bars
        return choice is not None and bars > self._chosen and (bars - 1) % choice.every == 0

    def go_on_from(self, other: Row) -> None:
        """Go on from where another row is, or this one."""
        if other is not self:
            self.prefixes = [prefix.copy() for prefix in other.prefixes]
            self.grammar = other.grammar.select(np.zeros(1, np.int64))
            self.job.write_again(self._variation, other.tokens)
            self.drawn, self._begun = other.drawn, other._begun
        self.stage, self._chosen = Stage.PLAYING, self.bars

    @property
    def size(self) -> int:
        """The number of rows of the batch that it takes."""
        return 2 if self.job.order.guiding else 1

    @property
    def bars(self) -> int:
        """The number of bars begun since its first token."""
        return self._begun - self._first

    def take(self, token: int, begun: int) -> bool:
        """Append a token, after which `begun` bars have begun, and return whether the row goes on."""
        order = self.job.order
        self.drawn, self._begun = token, begun
        if order.before_bar is not None and begun > order.before_bar:
            return False
        self.tokens.append(token)
        return token != order.end and len(self.tokens) != order.request.tokens

    @property
    def twin(self) -> Any:
        """The sequence without the guiding tokens, if there is one."""
        return self.prefixes[1] if len(self.prefixes) > 1 else None

    @property
    def twin_follows(self) -> bool:
        """Whether the twin is given the token that was drawn."""
        return self.twin is not None and self.drawn not in self.job.order.guiding
