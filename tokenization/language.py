"""The interface of a token language, which converts scores to token ids and back, and the registry of languages.

A language represents scores on its own grid. `arrange` brings any score there (selected tracks, beats, chords) and adds
remarks on what it did. `encode` converts an arranged score to ids. decode(encode(x)) is x rounded to the grid, and
encode(decode(t)) = close(t) for every complete valid sequence t.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from itertools import pairwise
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from tokenization.grammar import Grammar
from tokenization.score import Score, Track
from tokenization.wording import counted, listed


@dataclass(frozen=True)
class Block:
    """A family of tokens with consecutive ids, one per name."""

    name: str
    start: int
    names: tuple[str, ...]

    @property
    def stop(self) -> int:
        """The id after the last one."""
        return self.start + len(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def holds(self, ids: np.ndarray) -> np.ndarray:
        """Return the mask of the ids that belong to this block."""
        return (ids >= self.start) & (ids < self.stop)


class Vocabulary:
    """Consecutive blocks of tokens, from id 0."""

    def __init__(self, families: Sequence[tuple[str, Sequence[str]]]) -> None:
        """Build the blocks from pairs of block name and token names, in this order."""
        self.blocks: dict[str, Block] = {}
        start = 0
        for name, names in families:
            self.blocks[name] = Block(name, start, tuple(names))
            start += len(names)
        self.names: tuple[str, ...] = tuple(
            n for block in self.blocks.values() for n in block.names
        )
        if len(set(self.names)) != len(self.names) or len(self.blocks) != len(families):
            raise ValueError("the names of the blocks and tokens of a vocabulary must be unique")

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, block: str) -> Block:
        return self.blocks[block]

    @cached_property
    def ids(self) -> dict[str, int]:
        """Token name → id."""
        return {name: index for index, name in enumerate(self.names)}

    def id(self, name: str) -> int:
        """Return the id of a token; raise ValueError for an unknown name."""
        try:
            return self.ids[name]
        except KeyError:
            raise ValueError(
                f"{name!r} is not a token of this language; its families are {', '.join(self.blocks)}"
            ) from None

    def table(self, block: str, values: ArrayLike) -> np.ndarray:
        """Return one number per token, (V,): the values for the tokens of a block, 0 for all others."""
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
    """Transpose the pitches, chords and keys of a sequence; return None if a pitch leaves the range."""
    moved = np.arange(len(vocabulary))  # (V,)
    pitch, chord = vocabulary["pitch"], vocabulary["chord"]
    pitches = moved[pitch.start : pitch.stop] + semitones
    moved[pitch.start : pitch.stop] = np.where(pitch.holds(pitches), pitches, -1)
    chords = moved[chord.start : chord.stop - 1].reshape(12, -1)  # by root, without "no chord"
    moved[chord.start : chord.stop - 1] = np.roll(chords, -semitones, axis=0).ravel()
    if key := vocabulary.blocks.get("key"):
        keys = moved[key.start : key.stop].reshape(2, 12)  # major, minor
        moved[key.start : key.stop] = np.roll(keys, -semitones, axis=1).ravel()
    result = moved[ids]
    return None if (result < 0).any() else result.astype(ids.dtype)


# Goals of a model: to end after a number of bars, to fill a gap, or to write some parts.
#
# A sequence without goal tokens is a plain piece. With them, the given notes come first, then the ones to write, and
# each bar to write counts down to the goal, right after its bar token:
#
#     an ending    … bar left_3 … bar left_2 … bar left_1 … end
#     a gap        begin after <bars after the gap> before <bars before it> bar seam_2 … bar seam_1 … end
#
# Only the last COUNTED bars have a countdown. The order of a gap is suffix, prefix, middle (Bavarian et al., "Efficient
# training of language models to fill in the middle", 2022).

COUNTED = 16  # bars with a countdown
PERIOD = 4  # bars; metric heads look back by 1, 2 and 4, so the bars of a prompt are kept in phase
LEFT, SEAM, MARKER = "left", "seam", "marker"  # the names of these families in a vocabulary
GOAL_FAMILIES: list[tuple[str, list[str]]] = [
    (LEFT, [f"left_{bars}" for bars in range(1, COUNTED + 1)]),  # bars left, this one included
    (SEAM, [f"seam_{bars}" for bars in range(1, COUNTED + 1)]),
    (MARKER, ["after", "before"]),
]


# A part to write: a track of the piece, a new track, or a name: an instrument or "chords".
Wanted: TypeAlias = int | Track | str
ANOTHER = (
    "+"  # in front of an instrument named by a user: a new part, even if the piece has such a one
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Goal:
    """A piece to complete: the prompt, the grammar of the rest, and how to assemble the result.

    The grammar allows the end token when the goal is reached, and only then.
    """

    prompt: np.ndarray  # ids
    grammar: Grammar  # at the start, before the prompt
    whole: Callable[[np.ndarray], np.ndarray]
    """Turns the prompt and its continuation, complete or not, into the plain ids of the whole piece."""
    elsewhere: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    """Ids of the bars of the piece that the prompt leaves out. A model with recall can copy from them."""
    sources: Mapping[int, int] = field(default_factory=dict)
    """The bar that a bar to write returns to, counted in the prompt; the last bar `elsewhere` is −1."""
    replaced: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    """Ids of the original bars of a gap. The new ones should differ from them."""
    setting: Callable[[Any], Any] = lambda setting: setting
    """Turns the setting of the piece into that of the whole one, which can have more tracks."""
    tracks: tuple[int, ...] | None = None
    """The tracks of the whole piece that are written; None if the goal is to write all in some bars."""
    writes_chords: bool = False  # whether the chords are one of the written parts


def suffix_stop(stop: int) -> int:
    """Return the end of the bars after a gap that a prompt includes; the gap ends before bar `stop`.

    There are PERIOD of them, plus the number that puts the bars before the gap, which follow, in phase with them.
    """
    return stop + PERIOD + -stop % PERIOD


def check_gap(start: int, stop: int, bars: int, most: int = COUNTED) -> None:
    """Raise ValueError if the bars start … stop − 1 of a piece with this number of bars cannot be filled.

    `most` is the number of bars that can be filled at once.
    """
    if not 0 <= start < stop <= bars:
        raise ValueError(
            f"bars {start + 1} to {stop} cannot be filled in a piece that has {counted(bars, 'bar')}"
        )
    if stop - start > most:
        raise ValueError(
            f"bars {start + 1} to {stop} are {stop - start} bars; at most {most} can be filled at once"
        )


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """A score as tokens, with the losses of the conversion."""

    ids: np.ndarray  # (T,) uint16
    bars: np.ndarray  # the offset of each bar in `ids`
    notes: int  # number of notes in the tokens
    losses: dict[str, int] = field(default_factory=dict)  # reason → notes left out or changed
    setting: Any = None  # details that the tokens do not carry, for `decode`


@dataclass(frozen=True)
class Fault:
    """Why a token sequence is invalid: the first wrong position, and an explanation."""

    position: int
    reason: str


class Language(ABC):
    """A token language."""

    name: str
    vocabulary: Vocabulary
    begin: int  # id
    end: int  # id
    onset_steps: int  # positions per beat at which notes can start
    details: ClassVar[Mapping[str, Any]]  # other parameters for `spec`, as plain data
    bar: int | None = None  # the id that begins every bar, if the language has one
    every_metre = False  # whether it has metres other than 4/4
    draws_by_kind = False  # whether to sample within kinds (musicgen/generation/sampling.py)
    parts: tuple[str, ...] = ()  # names of the parts that can be written or given
    abilities: tuple[str, ...] = ("continue",)  # of its models: names of commands and options

    @staticmethod
    @abstractmethod
    def arrange(score: Score, tracks: Any = None) -> Score:
        """Bring a score onto the grid of this language, with remarks on what was changed.

        `tracks` overrides the choice of tracks.
        """

    @abstractmethod
    def encode(self, score: Score) -> Encoded:
        """Convert an arranged score to tokens, from `begin` to `end`."""

    def encode_for_model(self, arranged: Score, score: Score) -> Encoded:
        """Convert an arranged score to tokens; the setting may keep what arranging changed in the file's score."""
        return self.encode(arranged)

    @abstractmethod
    def decode(self, ids: np.ndarray, setting: Any = None) -> Score:
        """Convert a valid sequence or prefix to a score; an incomplete note at the end is left out.

        `setting` comes from the piece that the ids encode or continue. Ids that come neither from `encode` nor from a
        grammar need `validate` first.
        """

    def setting_before(self, setting: Any, ticks: int) -> Any:
        """Return the setting of the music before a tick of the decoded score, to which other music is added."""
        return setting

    def finished(self, score: Score, new: np.ndarray) -> Score:
        """Return a piece with some new notes, (N,), made to keep what the language promises of their lengths."""
        return score

    def close(self, ids: np.ndarray, bars: int | None = None) -> np.ndarray:
        """Complete a valid prefix and cut it after a number of bars.

        A note that only lacks its end is ended, so that `decode` keeps it.
        """
        starts = self.bars(ids)
        return ids if bars is None or bars >= len(starts) else ids[: starts[bars]]

    def described(
        self, ids: np.ndarray, key_signature: tuple[int, bool] | None = None
    ) -> np.ndarray:
        """Return the beginning of a piece with the key and plan added, if the language has them.

        The key is that of the signature of its file, if there is one that its notes fit.
        """
        return ids

    def lacks(self, what: str) -> ValueError:
        """Return the error for an ability that this language does not have."""
        return ValueError(
            f"this model uses the language {self.name}, {what}; choose one that uses ensemble"
        )

    def plan(self, asked: Mapping[str, Any], bars: int, /) -> Mapping[str, np.ndarray]:
        """Return the plan of the bars that a user asks for; raise ValueError if it is not possible."""
        raise self.lacks("in which bars have no plan")

    def beginnings(self) -> dict[str, list[str]]:
        """Return the attributes that a new piece can have, each with its choices."""
        return {}

    def beginning(
        self, asked: Mapping[str, Any], plan: Mapping[str, Any] | None = None, /
    ) -> tuple[np.ndarray, Any]:
        """Return the prompt and the setting of a new piece with the given attributes and plan."""
        if asked:
            raise self.lacks("which begins without a style or key")
        return np.array([self.begin]), None

    def bars_back(self, asked: Mapping[str, Any], bars: int, /) -> list[int]:
        """Return how many bars back each bar of a requested form returns; 0 for new bars and without a form."""
        return [0] * bars

    def part_names(self, ids: np.ndarray) -> tuple[str, ...]:
        """Return the name of each track, as `accompanying` takes it."""
        return self.parts

    def parts_named(self, tracks: Sequence[Track], names: Collection[int | str]) -> list[Wanted]:
        """Return the parts of a piece with these tracks that a user names; raise ValueError for an unknown name."""
        return [*map(str, names)]

    def infilling(
        self,
        ids: np.ndarray,
        start: int,
        stop: int,
        *,
        write: Collection[Wanted] | None = None,
        plan: Mapping[str, np.ndarray] | None = None,
        free: bool = False,
        differs: bool = False,
    ) -> Goal:
        """Return the goal to rewrite the bars start … stop − 1 of a piece; all other notes stay.

        `write`: the parts to write there, as in `accompanying`; None for all. Unless they are to be other bars than
        before (`differs`), nothing depends on the notes that are replaced, except for `Goal.replaced`.
        """
        raise self.lacks("in which no gap can be filled")

    def accompanying(
        self,
        ids: np.ndarray,
        write: Collection[Wanted],
        *,
        plan: Mapping[str, np.ndarray] | None = None,
        free: bool = False,
    ) -> Goal:
        """Return the goal to write parts that go with the others of a piece, which stay unchanged.

        A part with a given name, as in `part_names`, is replaced, or else added.
        """
        raise self.lacks("in which no part can be written to others")

    @abstractmethod
    def grammar(
        self,
        prompt: Sequence[int] | np.ndarray = (),
        *,
        prompt_bars: int = 0,
        bars: int = 0,
        ends: bool = False,
        chords: Sequence[Sequence[str]] | None = None,
        plan: Mapping[str, np.ndarray] | None = None,
        free: bool = True,
        chooses_metre: bool = False,
    ) -> Grammar:
        """Return the grammar for continuing a prompt, before its first token.

        It may allow sequences that sound the same as a valid one, which `close` corrects. `prompt_bars` is the length
        of the prompt. The new `bars` follow the `plan` and, repeated as often as needed, the `chords` of each bar. With
        `ends`, the piece ends after them. Unless it is `free`, the music keeps its metre, the ranges of instruments,
        and one voice where a part is one, if the language has rules for that; with `chooses_metre`, the first bar of a
        new piece can still have any metre.
        """

    def bars(self, ids: np.ndarray) -> np.ndarray:
        """Return the offset of each bar."""
        assert self.bar is not None, "a language without a bar token overrides this method"
        return np.flatnonzero(np.asarray(ids) == self.bar)

    def spec(self) -> dict[str, Any]:
        """Return the full configuration as plain data, which is stored with data sets and models."""
        return {
            "language": self.name,
            "tokens": len(self.vocabulary),
            "blocks": {block.name: len(block) for block in self.vocabulary.blocks.values()},
            **self.details,
        }

    def earlier(self) -> Sequence[Language]:
        """Return the earlier versions: their vocabularies are the beginning of this one's."""
        return ()

    @abstractmethod
    def clock(self) -> dict[str, Any]:
        """Return how tokens move time, as plain data.

        `bar_ticks` and `step_ticks` are lengths. `moves` lists (token, steps, tick): the token moves forward by whole
        steps, then to this tick of the step.
        """

    def kinds(self) -> np.ndarray:
        """Return the kind of each token as a number, (V,); by default, one kind per block."""
        blocks = self.vocabulary.blocks.values()
        return np.repeat(np.arange(len(blocks)), [len(block) for block in blocks])

    def plan_tokens(self, asked: Collection[str] | None = None) -> list[int]:
        """Return the plan tokens, all or only those of the attributes in `asked`; always whole kinds."""
        return []

    def chord_tokens(self) -> Sequence[int]:
        """Return the tokens that name chords, if chords are written before their notes."""
        return ()

    def recalled(self) -> dict[str, Any] | None:
        """Return the roles of tokens for a model with recall (musicgen/recall.py), or None without returns."""
        return None

    def goal_tokens(self) -> list[int]:
        """Return the tokens for goals."""
        if "end" not in self.abilities:
            return []
        return [*range(self.vocabulary[LEFT].start, self.vocabulary[MARKER].stop)]

    def validate(self, ids: Iterable[int]) -> Fault | None:
        """Return the first fault of a sequence or prefix, or None if its grammar allows it as a prompt."""
        ids = [*ids]
        grammar, names, previous = self.grammar(ids), self.vocabulary.names, ""
        for position, token in enumerate(ids):
            if not 0 <= token < len(names):
                reason = f"{token} is not an id of this language, which has {len(names)} tokens"
                return Fault(position, reason)
            allowed = grammar.allowed()[0, : len(names)]
            if not allowed[token]:
                place = f"follow {previous} here" if previous else "begin a piece"
                others = self._named(np.flatnonzero(allowed)) or "nothing"
                return Fault(position, f"{names[token]} may not {place}; allowed: {others}")
            grammar.advance(np.array([token]))
            previous = names[token]
        return None

    def _named(self, ids: np.ndarray) -> str:
        """List tokens by name, with runs of them abbreviated, such as pitch_60 … pitch_71."""
        ends_run = (np.diff(ids) != 1) | (np.diff(self.kinds()[ids]) != 0)
        runs = np.split(ids, np.flatnonzero(ends_run) + 1) if len(ids) else []
        ends = [dict.fromkeys(run[[0, -1]].tolist()) for run in runs]
        return listed([" … ".join(self.vocabulary.names[token] for token in each) for each in ends])

    def text(self, ids: np.ndarray) -> str:
        """Return the token names, one line per bar."""
        starts = [0, *(int(b) for b in self.bars(ids) if b > 0), len(ids)]
        names = self.vocabulary.names
        return "\n".join(
            " ".join(names[int(i)] for i in ids[a:b]) for a, b in pairwise(starts) if b > a
        )


# Each language, with a short description.
LANGUAGES = {
    "remi": "one piano with chords, in 4/4",
    "groove": "bass, drums and one other part",
    "ensemble": "any parts, in every metre",
}


def language(name: str) -> Language:
    """Return a language by name. It is imported on demand, so that a command loads only the one of its model."""
    if name not in LANGUAGES:
        raise ValueError(f"there is no language {name!r}; available: {', '.join(LANGUAGES)}")
    return getattr(import_module(f"tokenization.{name}.language"), name.capitalize())()


def with_token_roles(model: Mapping[str, Any], language: Language) -> dict[str, Any]:
    """Add to a model's configuration what it needs to know about the tokens of its language.

    `goals: true` and `recall: true` are replaced by the roles of the tokens. A model that uses musical time gets the
    clock.
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
    """Return the language of a model or data set; raise ValueError if this program has no such version."""
    found = language(str(spec.get("language")))
    for version in (found, *found.earlier()):
        if version.spec() == spec:
            return version
    own = found.spec()
    different = [key for key in sorted({*own, *spec}) if own.get(key) != spec.get(key)]
    raise ValueError(
        f"the language {found.name} differs from that of this program in {', '.join(different)}"
    )
