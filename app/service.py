"""What both faces of the program call: read a prompt, continue it, and keep the result."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from app.models import Model
from musicgen.generation.sampling import MUSICAL, Sampling
from tokenization.analysis.metres import bar_lines
from tokenization.any_file import read_file
from tokenization.continuing import continuing
from tokenization.excerpt import excerpt
from tokenization.grammar import Grammar
from tokenization.language import Encoded, Language
from tokenization.midi.reading import Limits, write_midi
from tokenization.score import Score

DEFAULT_BARS = 16


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """The first bars of a piece, which are continued; no bars at all to start from nothing."""

    name: str
    ids: np.ndarray
    bars: int
    piece_bars: int  # of the whole piece
    setting: Any  # what the language keeps beside the tokens
    score: Score  # these bars as the model hears them
    remarks: tuple[str, ...] = ()

    @property
    def ticks(self) -> int:
        """The tick at which the continuation begins."""
        return int(bar_lines(self.score, self.bars)[-1])


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A whole piece in a model's language; any first bars of it can be the prompt."""

    name: str
    language: Language
    encoded: Encoded
    score: Score  # all of it as a model hears it
    remarks: tuple[str, ...] = ()

    @property
    def bars(self) -> int:
        """How many bars it has."""
        return len(self.encoded.bars)

    def prompt(self, bars: int | None = None) -> Prompt:
        """Return the first bars, or all, as a prompt."""
        if bars is not None and not 1 <= bars <= self.bars:
            raise ValueError(
                f"{self.name} has {self.bars} bars, so the prompt cannot be its first {bars}"
            )
        bars = bars or self.bars
        whole = bars == self.bars
        ids = self.encoded.ids[:-1] if whole else self.encoded.ids[: self.encoded.bars[bars]]
        heard = decode_begun(self.language, ids, bars, self.encoded.setting)
        if self.language.bar is not None:  # begun, so that nothing is added to the last bar
            ids = np.append(ids, np.array([self.language.bar], dtype=ids.dtype))
        return Prompt(
            name=self.name,
            ids=ids,
            bars=bars,
            piece_bars=self.bars,
            setting=self.encoded.setting,
            score=heard,
            remarks=self.remarks,
        )


@dataclass(frozen=True, kw_only=True)
class Wish:
    """How to go on; the length is `tokens` where given, else `bars`."""

    bars: int = DEFAULT_BARS
    tokens: int | None = None
    variations: int = 1
    seed: int = 0
    sampling: Sampling = MUSICAL
    may_end: bool = False  # let the music end by itself before that length
    ends: bool = False  # with the last of these bars the music comes to its end
    chords: list[list[str]] | None = None  # of each bar, over and over


@dataclass(frozen=True, kw_only=True)
class Take:
    """One variation: the whole piece and, by itself, what is new."""

    number: int
    ids: np.ndarray  # of prompt and continuation
    tokens: int  # of the continuation
    whole: Score
    continuation: Score
    provenance: dict[str, Any]


def read_piece(
    language: Language,
    source: bytes | str | Path,
    *,
    name: str,
    tracks: Any = None,
    limits: Limits | None = None,
) -> Piece:
    """Read a file of music as a model of this language hears it."""
    score = read_file(source, limits=limits or Limits(), name=name)
    arranged = language.arrange(score, tracks)
    encoded = language.encode(arranged)
    return Piece(
        name=name,
        language=language,
        encoded=encoded,
        score=language.decode(encoded.ids, encoded.setting),
        remarks=tuple(dict.fromkeys((*score.remarks, *arranged.remarks))),
    )


def read_prompt(
    model: Model,
    source: bytes | str | Path,
    *,
    name: str,
    bars: int | None = None,
    tracks: Any = None,
    limits: Limits | None = None,
) -> Prompt:
    """Read a MIDI file as a prompt of its first bars, or of all of them."""
    return read_piece(model.language, source, name=name, tracks=tracks, limits=limits).prompt(bars)


def no_prompt(model: Model) -> Prompt:
    """Return the beginning of a piece."""
    ids = np.array([model.language.begin])
    score = model.language.decode(ids)
    return Prompt(name="", ids=ids, bars=0, piece_bars=0, setting=None, score=score)


class Generation:
    """Music being drawn for one request: iterate to do the work; `takes` gives what there is at any time."""

    def __init__(
        self, model: Model, ids: np.ndarray, grammar: Grammar, wish: Wish, **stop: int | None
    ) -> None:
        """Go on from ids by a grammar, until the end token or what else is to stop it."""
        self.model, self.wish = model, wish
        self._ids, self._grammar, self._stop = ids, grammar, stop
        self._steps: list[np.ndarray] = []

    def __iter__(self) -> Iterator[int]:
        """Generate; yields the number of steps so far. To stop early, stop iterating."""
        return self.run(lambda: False)

    def run(self, cancelled: Callable[[], bool]) -> Iterator[int]:
        """Generate until done or cancelled."""
        from musicgen.generation.generate import (  # torch, which the page opens without
            Request,
            Stop,
            generate,
        )

        request = Request(
            variations=self.wish.variations,
            seed=self.wish.seed,
            sampling=self.wish.sampling,
            stop=Stop(end=self.model.language.end, **self._stop),
        )
        stream = generate(
            self.model.performer, self._ids, request, grammar=self._grammar, cancelled=cancelled
        )
        for tokens in stream:
            self._steps.append(tokens)
            yield len(self._steps)

    def takes(self) -> list[Take]:
        """Return the variations as far as they have come."""
        steps = np.array(self._steps).reshape(len(self._steps), self.wish.variations)
        takes = []
        for number in range(self.wish.variations):
            new = steps[steps[:, number] >= 0, number]  # generate.ENDED stands for no token
            ids = np.concatenate([self._ids, new]).astype(np.uint16)
            takes.append(self._take(number, ids, len(new)))
        return takes

    def _take(self, number: int, ids: np.ndarray, tokens: int) -> Take:
        """Return a variation, whose last `tokens` ids are new."""
        raise NotImplementedError


class Continuation(Generation):
    """A prompt that goes on."""

    def __init__(self, model: Model, prompt: Prompt, wish: Wish) -> None:
        """Refuse at once a wish that the model's language has no words for."""
        self.prompt = prompt
        by_bars = wish.tokens is None
        grammar = continuing(
            model.language,
            prompt.ids,
            prompt_bars=prompt.bars,
            may_end=wish.may_end,
            end_in=wish.bars if wish.ends else None,
            chords=wish.chords,
            longest_ticks=longest_ticks(model, prompt.ids, prompt.score),
        )
        before_bar = prompt.bars + wish.bars if by_bars and not wish.ends else None
        super().__init__(
            model, prompt.ids, grammar, wish, tokens=wish.tokens, before_bar=before_bar
        )

    def _take(self, number: int, ids: np.ndarray, tokens: int) -> Take:
        bars = None if self.wish.tokens else self.prompt.bars + self.wish.bars
        whole = decode_begun(self.model.language, ids, bars, self.prompt.setting)
        return Take(
            number=number,
            ids=ids,
            tokens=tokens,
            whole=whole,
            continuation=excerpt(whole, self.prompt.ticks),
            provenance=self._provenance(number),
        )

    def _provenance(self, number: int) -> dict[str, Any]:
        return {
            **made_by(self.model, self.wish, number),
            "prompt": self.prompt.name or None,
            "prompt_bars": [1, self.prompt.bars] if self.prompt.bars else None,
            **({"chords": self.wish.chords} if self.wish.chords else {}),
        }


def longest_ticks(model: Model, ids: np.ndarray, score: Score) -> list[int] | None:
    """Return how long notes of each track may last: as in the training data, and behind a prompt as in that.

    Behind staccato a model that forgets one note-off would hold the note for bars. A beat is always free.
    """
    known = model.longest_ticks
    if known is None or not len(score.notes):
        return known
    heard = model.language.longest([ids])
    assert heard is not None, "a language that bounds notes measures them"
    beat = score.ticks_per_beat
    return [min(most, max(here, beat)) for most, here in zip(known, heard, strict=True)]


def made_by(model: Model, wish: Wish, number: int) -> dict[str, Any]:
    """Return what a variation's file says of how it was made."""
    return {
        "model": model.name,
        "weights_sha256": model.sha256,
        "seed": wish.seed,
        "variation": number,
        "sampling": asdict(wish.sampling),
    }


def decode_begun(language: Language, ids: np.ndarray, bars: int | None, setting: Any) -> Score:
    """Return the music of a piece that may be broken off, up to so many bars."""
    closed = language.close(ids, bars)
    return language.decode(closed if len(closed) > 2 else closed[:1], setting)  # begin, end: none


def midi_of(score: Score, provenance: dict[str, Any]) -> bytes:
    """Return a MIDI file that says how it was made."""
    return write_midi(score, texts=(f"musicgen {json.dumps(provenance, ensure_ascii=True)}",))
