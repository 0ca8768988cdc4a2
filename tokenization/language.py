"""The contract of a token language, music to ids and back; and the languages by name.

A language speaks only of scores on its own grid. `arrange` brings any score there (a choice of
tracks, the beat grid, recognised chords) and explains in the score's remarks what it did; `encode`
spells, and has exactly one spelling for a score as tokens can say it: decode(encode(x)) is x on the grid to the
last tick, and encode(decode(t)) = t for every valid sequence t.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from tokenization.grammar import Grammar
from tokenization.score import Score
from tokenization.wording import counted, listed

# A vocabulary: named blocks of consecutive ids; nobody else computes an offset.


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

    def table(self, block: str, values: ArrayLike) -> np.ndarray:
        """Return a number for each token: its own for those of a block, 0 for all others. (V,)"""
        numbers = np.zeros(len(self), dtype=np.int64)
        numbers[self[block].start : self[block].stop] = values
        return numbers

    def to_json(self) -> list[dict[str, object]]:
        """Return the blocks as plain data."""
        return [
            {"name": b.name, "start": b.start, "stop": b.stop, "tokens": list(b.names)}
            for b in self.blocks.values()
        ]


def transposed(vocabulary: Vocabulary, ids: np.ndarray, semitones: int) -> np.ndarray | None:
    """Return ids with pitches, chords and keys moved by semitones, or None where a pitch would leave the range."""
    moved = np.arange(len(vocabulary))  # (V,)
    pitch, chord = vocabulary["pitch"], vocabulary["chord"]
    pitches = moved[pitch.start : pitch.stop] + semitones
    moved[pitch.start : pitch.stop] = np.where(pitch.holds(pitches), pitches, -1)
    chords = moved[chord.start : chord.stop - 1].reshape(12, -1)  # by root; the last is none
    moved[chord.start : chord.stop - 1] = np.roll(chords, -semitones, axis=0).ravel()
    if key := vocabulary.blocks.get("key"):
        keys = moved[key.start : key.stop].reshape(2, 12)  # major, minor
        moved[key.start : key.stop] = np.roll(keys, -semitones, axis=1).ravel()
    result = moved[ids]
    return None if (result < 0).any() else result.astype(ids.dtype)


# Goals a model can be given: to end in a certain bar, to fill a gap, to write some parts; and the tokens for them.
#
# A language that has goals has these tokens. A sequence without them is a plain piece. With them, the given notes come
# first, the written ones follow, and each written bar counts down to the goal, right after the token that begins it:
#
#     an ending    … bar left_3 … bar left_2 … bar left_1 … end
#     a gap        begin after <bars after the gap> before <bars before it> bar seam_2 … bar seam_1 … end
#
# A countdown starts at COUNTED at most: bars further away say nothing. The bars after a gap are given first, closed
# by `before` (suffix, prefix, middle: Bavarian et al., "Efficient training of language models to fill in the middle",
# 2022).

COUNTED = 16  # the bars before a goal that say how far it is
PERIOD = 4  # bars: as metric heads look back by 1, 2 and 4, what is given stands in phase with what is written
LEFT, SEAM, MARKER = "left", "seam", "marker"  # the names of these families in a vocabulary
GOAL_FAMILIES: list[tuple[str, list[str]]] = [
    (LEFT, [f"left_{bars}" for bars in range(1, COUNTED + 1)]),  # bars left, this one included
    (SEAM, [f"seam_{bars}" for bars in range(1, COUNTED + 1)]),
    (MARKER, ["after", "before"]),
]


@dataclass(frozen=True, kw_only=True, eq=False)
class Goal:
    """A piece to be completed: what a model is given first, and by which rules it writes the rest.

    Writing goes on until the end token, which the grammar allows where the goal is reached and nowhere else.
    """

    prompt: np.ndarray  # ids before the first one that is drawn
    grammar: Grammar  # stands before the prompt's first token
    whole: Callable[[np.ndarray], np.ndarray]
    """Reads prompt and what was written, also where it is broken off: the plain ids of the whole piece, closed."""
    elsewhere: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    """What else of the piece is known, ids that the prompt leaves out; music may recall it."""
    replaced: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    """The bars that stood where writing begins: they are to be others."""
    tracks: tuple[int, ...] = ()
    """The tracks of the whole piece that are written, where some parts are written to others."""
    writes_chords: bool = False  # as one of these parts


def given_until(stop: int, bars_before: int) -> int:
    """Return the first bar after a gap that a prompt does not give, of a gap that ends before the bar `stop`.

    As many bars are given as bring what stands before the gap, so many bars, to the same place of the period.
    """
    return stop + PERIOD + -bars_before % PERIOD


def check_gap(start: int, stop: int, bars: int) -> None:
    """Refuse the bars start … stop − 1 of a piece of so many where they cannot be filled."""
    if not 0 <= start < stop <= bars:
        raise ValueError(
            f"bars {start + 1} to {stop} cannot be filled in a piece that has {counted(bars, 'bar')}"
        )
    if stop - start > COUNTED:
        raise ValueError(
            f"bars {start + 1} to {stop} are {stop - start}; {COUNTED} at most can be filled at once"
        )


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """A spelled piece, and what spelling it cost."""

    ids: np.ndarray  # (T,) uint16
    bars: np.ndarray  # the offset in ids at which each bar starts
    notes: int  # in the tokens
    losses: dict[str, int] = field(default_factory=dict)  # reason → notes left out or changed
    setting: Any = None  # what a language keeps apart from its tokens, for `decode` to put back


@dataclass(frozen=True)
class Fault:
    """Why a token sequence is not valid: the first offending position, and a sentence."""

    position: int
    reason: str


class Language(ABC):
    """One token language."""

    name: str
    vocabulary: Vocabulary
    begin: int  # ids that every language has
    end: int
    onset_steps: int  # of a beat: notes begin on them
    rules: Callable[[], Grammar]  # makes the grammar of all pieces, each in its one spelling
    details: ClassVar[Mapping[str, Any]]  # what else of it could differ, as plain data
    bar: int | None = None  # a token that begins every bar, where the language has one
    every_metre = False  # whether its bars are of other metres than 4/4 too
    draws_by_kind = False  # within kinds of tokens (musicgen/generation/sampling.py)
    parts: tuple[str, ...] = ()  # that can be given to have others written to them
    # What models of it can be asked for, by the names of commands and of what they take.
    abilities: tuple[str, ...] = ("continue",)

    @staticmethod
    @abstractmethod
    def arrange(score: Score, tracks: Any = None) -> Score:
        """Bring any score onto this grid and these tracks, explained in its remarks.

        `tracks` overrides the choice of tracks.
        """

    @abstractmethod
    def encode(self, score: Score) -> Encoded:
        """Spell an arranged score, from the begin token to the end token."""

    def encode_for_model(self, arranged: Score, score: Score) -> Encoded:
        """Spell an arranged score, which was `score`, for a model to go on with."""
        return self.encode(arranged)

    @abstractmethod
    def decode(self, ids: np.ndarray, setting: Any = None) -> Score:
        """Read a valid sequence or a prefix of one; a note broken off at its end is left out.

        `setting` is that of the piece these ids spell or continue. Ids from elsewhere than `encode` and a grammar are
        checked by `validate` before.
        """

    def close(self, ids: np.ndarray, bars: int | None = None) -> np.ndarray:
        """Bring a valid prefix to a good end, after so many bars at the latest.

        Where a note has begun and only lacks its end, it ends there, so that `decode` keeps it.
        """
        starts = self.bars(ids)
        return ids if bars is None or bars >= len(starts) else ids[: starts[bars]]

    def described(self, ids: np.ndarray) -> np.ndarray:
        """Return the beginning of a piece with what the language says about music besides its notes, if anything."""
        return ids

    def lacks(self, what: str) -> ValueError:
        """Return the error that says what a model of this language cannot do."""
        return ValueError(
            f"this model uses the language {self.name}, {what}; choose one that uses ensemble"
        )

    def plan(self, asked: Mapping[str, Any], bars: int, /) -> Mapping[str, np.ndarray]:
        """Return the plan of so many bars by what is asked of them, or say what cannot be."""
        raise self.lacks("in which bars have no plan")

    def beginnings(self) -> dict[str, list[str]]:
        """Return what may be asked of a piece from nothing, each with the names to choose from."""
        return {}

    def beginning(
        self, asked: Mapping[str, Any], plan: Mapping[str, Any] | None = None, /
    ) -> tuple[np.ndarray, Any]:
        """Return the beginning of a piece from nothing, with its setting, by what is asked of it and its bars."""
        if asked:
            raise self.lacks("which begins without a style or key")
        return np.array([self.begin]), None

    def bars_back(self, asked: Mapping[str, Any], bars: int, /) -> list[int]:
        """Return how many bars back each of so many bars is asked to return; 0 for what is new or left open."""
        return [0] * bars

    def part_names(self, ids: np.ndarray) -> tuple[str, ...]:
        """Return the name of each track of a piece, by which `accompanying` knows it."""
        return self.parts

    def infilling(
        self,
        ids: np.ndarray,
        start: int,
        stop: int,
        *,
        plan: Mapping[str, np.ndarray] | None = None,
    ) -> Goal:
        """Return the goal to rewrite the bars start … stop − 1 of a piece; every note outside stays."""
        raise self.lacks("in which no gap can be filled")

    def accompanying(
        self,
        ids: np.ndarray,
        write: Collection[str],
        *,
        plan: Mapping[str, np.ndarray] | None = None,
    ) -> Goal:
        """Return the goal to write some parts of a piece to the others, which stay note for note."""
        raise self.lacks("in which no part can be written to others")

    def grammar(
        self,
        prompt: Sequence[int] | np.ndarray = (),
        *,
        prompt_bars: int = 0,
        bars: int = 0,
        ends: bool = False,
        chords: Sequence[Sequence[str]] | None = None,
        plan: Mapping[str, np.ndarray] | None = None,
        longest_ticks: Sequence[int] | None = None,
    ) -> Grammar:
        """Return the grammar by which a prompt goes on, before the begin token; by default that of all pieces.

        It may leave to `close` what music does not hear. The prompt fills so many bars; with the last of so many new
        ones the music `ends`. They keep to the `chords` of each bar, over and over, and to a `plan`, if the language
        can. `longest_ticks` is what `longest` found in the data that the model learned from.
        """
        return self.rules()

    def longest(self, pieces: Iterable[np.ndarray]) -> list[int] | None:
        """Return how many ticks notes last at most in pieces, for `grammar`; None where it has no use for that."""
        return None

    def bars(self, ids: np.ndarray) -> np.ndarray:
        """Return the token offset at which each bar starts."""
        assert self.bar is not None, "a language without a token for bars finds them otherwise"
        return np.flatnonzero(np.asarray(ids) == self.bar)

    def spec(self) -> dict[str, Any]:
        """Return name and full configuration as plain data, to go with data sets and models."""
        return {
            "language": self.name,
            "tokens": len(self.vocabulary),
            "blocks": {block.name: len(block) for block in self.vocabulary.blocks.values()},
            **self.details,
        }

    @abstractmethod
    def clock(self) -> dict[str, Any]:
        """Return how tokens move time, as plain data.

        `bar_ticks`; `step_ticks`; and `moves`, (token, steps, tick) of each token that goes on by so many whole steps,
        then to that tick of the step.
        """

    def kinds(self) -> np.ndarray:
        """Return the kind of each token, as a number: pitches, bar lines and so on, each block by default. (V,)"""
        blocks = self.vocabulary.blocks.values()
        return np.repeat(np.arange(len(blocks)), [len(block) for block in blocks])

    def plan_tokens(self, asked: Collection[str] | None = None) -> list[int]:
        """Return the tokens of whole kinds that say what bars are to be like: all, or those of what is asked for."""
        return []

    def recalled(self) -> dict[str, Any] | None:
        """Return what tokens mean to a model that recalls (musicgen/recall.py), or None without returns."""
        return None

    def goal_tokens(self) -> list[int]:
        """Return the tokens that tell a model what to arrive at, and where (`Goal`): the last ones of a language."""
        return (
            [*range(self.vocabulary[LEFT].start, len(self.vocabulary))]
            if "end" in self.abilities
            else []
        )

    def validate(self, ids: Iterable[int]) -> Fault | None:
        """Return the first fault of a sequence (complete, or a prefix), or None where `encode` spells so."""
        grammar, names, previous = self.rules(), self.vocabulary.names, ""
        for position, token in enumerate(ids):
            if not 0 <= token < len(names):
                reason = f"{token} is not an id of this language, which has {len(names)}"
                return Fault(position, reason)
            allowed = grammar.allowed()[0]
            if not allowed[token]:
                place = f"follow {previous} here" if previous else "begin a piece"
                others = self._named(np.flatnonzero(allowed)) or "nothing"
                return Fault(position, f"{names[token]} may not {place}; allowed: {others}")
            grammar.advance(np.array([token]))
            previous = names[token]
        return None

    def _named(self, ids: np.ndarray) -> str:
        """Return tokens by name: of each run of them, such as pitch_60 … pitch_71, the first and the last."""
        ends_run = (np.diff(ids) != 1) | (np.diff(self.kinds()[ids]) != 0)
        runs = np.split(ids, np.flatnonzero(ends_run) + 1) if len(ids) else []
        ends = [dict.fromkeys(run[[0, -1]].tolist()) for run in runs]
        return listed([" … ".join(self.vocabulary.names[token] for token in each) for each in ends])

    def text(self, ids: np.ndarray) -> str:
        """Return the tokens by name, a line a bar."""
        starts = [0, *(int(b) for b in self.bars(ids) if b > 0), len(ids)]
        names = self.vocabulary.names
        return "\n".join(
            " ".join(names[int(i)] for i in ids[a:b]) for a, b in pairwise(starts) if b > a
        )


# What music of each is made of, in words.
LANGUAGES = {
    "remi": "one piano with chords, in 4/4",
    "groove": "bass, drums and one more",
    "ensemble": "any parts, in every metre",
}


def language(name: str) -> Language:
    """Return a language by name, imported on demand, so that a command loads that of its model alone."""
    if name not in LANGUAGES:
        raise ValueError(f"there is no language {name!r}; there are {' and '.join(LANGUAGES)}")
    return getattr(import_module(f"tokenization.{name}.language"), name.capitalize())()


def with_meanings(model: Mapping[str, Any], language: Language) -> dict[str, Any]:
    """Return a model, as plain data, with what it needs to know of its language's tokens.

    One that counts musical time is given the clock, and one that says `goals: true` or `recall: true` those tokens.
    """
    known, position = dict(model), model.get("position")
    meanings = {
        "goals": (language.goal_tokens(), "has no tokens for goals"),
        "recall": (language.recalled(), "does not plan returns"),
    }
    for name, (meaning, lacks) in meanings.items():
        if known.get(name) is True and not meaning:
            raise ValueError(f"model.{name} is true, but {language.name} {lacks}")
        if known.get(name) is True:
            known[name] = meaning
        elif known.get(name) is False:
            del known[name]
    musical = isinstance(position, Mapping) and position.get("time") == "music"
    if musical or known.get("goals") or model.get("metre") is not None:
        known["clock"] = language.clock()
    return known


def language_from_spec(spec: dict[str, Any]) -> Language:
    """Return the language of a model or data set, or say how it differs from the one at hand."""
    found = language(str(spec.get("language")))
    if found.spec() != spec:
        raise ValueError(
            f"this {spec.get('language')} differs from the one at hand in "
            + ", ".join(
                sorted(k for k in {*found.spec(), *spec} if found.spec().get(k) != spec.get(k))
            )
        )
    return found
