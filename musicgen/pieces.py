"""Pieces in a model's language, and prompts made of their first bars."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from tokenization.analysis.beats import interpolate
from tokenization.analysis.chords import like_given
from tokenization.analysis.metres import bar_lines
from tokenization.analysis.playing import Playing, playing_of
from tokenization.edit import Edit
from tokenization.formats import WithMidi, file_of, kind_of, read_file
from tokenization.language import Encoded, Language
from tokenization.limits import GENEROUS, read_source
from tokenization.records import whole_number
from tokenization.score import Score


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """The first bars of a piece, to be continued; without bars, a piece begins from nothing."""

    name: str
    ids: np.ndarray
    bars: int
    setting: Any  # what the language keeps besides the tokens
    score: Score  # these bars as encoded
    playing: Playing | None = None  # how these bars are played; None without any
    tracks: Any = None
    original: bytes | None = None  # the file that the piece was read from
    idea: Mapping[str, Any] = field(default_factory=dict)  # requested of a piece from nothing

    @property
    def ticks(self) -> int:
        """The tick at which the continuation begins."""
        return int(bar_lines(self.score, self.bars)[-1])


@dataclass(frozen=True, kw_only=True)
class Piece(WithMidi):
    """A whole piece in a model's language; its first bars can be a prompt."""

    name: str
    language: Language
    encoded: Encoded
    score: Score  # the piece as encoded, which can differ from the file
    playing: Playing  # what encoding rounds
    remarks: tuple[str, ...] = ()
    tracks: Any = None  # the tracks of the file that were chosen; None if the language chose
    original: bytes | None = None  # the file that it was read from, into which new music is written

    @property
    def bars(self) -> int:
        """The number of bars."""
        return len(self.encoded.bars)

    @property
    def extent(self) -> tuple[float, float]:
        """Where the file of the piece starts and ends, in ticks: after the rest that completes a pickup."""
        if self.score.extent is not None:
            return self.score.extent
        beats, ticks = self.score.file_times.columns
        if len(beats) < 2:
            return 0, inf
        start = interpolate(np.array(0.0), ticks, beats) * self.score.ticks_per_beat
        return float(np.floor(start)), inf

    def prompt(self, bars: int | None = None) -> Prompt:
        """Return the first bars, or the whole piece, as a prompt."""
        bars = None if bars is None else whole_number(bars, "prompt_bars")
        if bars is not None and not 1 <= bars <= self.bars:
            raise ValueError(
                f"{self.name or 'the piece'} has {self.bars} bars, so the prompt cannot be its first {bars}"
            )
        bars = bars or self.bars
        whole = bars == self.bars
        ids = self.encoded.ids[:-1] if whole else self.encoded.ids[: self.encoded.bars[bars]]
        decoded = decode_partial(self.language, ids, bars, self.encoded.setting)
        if self.language.bar is not None:  # begin the next bar: the last one is complete
            ids = np.append(ids, np.array([self.language.bar], dtype=ids.dtype))
        heard = in_file(decoded, self.score)
        stop = int(bar_lines(heard, bars)[-1])
        return Prompt(
            name=self.name,
            ids=self.language.described(ids, self.score.key_signature),
            bars=bars,
            setting=self.language.setting_before(self.encoded.setting, stop),
            score=heard,
            playing=self.playing.before(stop),
            tracks=self.tracks,
            original=self.original,
        )

    @property
    def midi(self) -> bytes:
        """The piece, as encoded, as a MIDI file."""
        return file_of(".mid", self.score)[0]


def read_piece(
    language: Language, source: bytes | str | Path, *, name: str, tracks: Any = None
) -> Piece:
    """Read a file of music as a piece in a language."""
    data = read_source(source, GENEROUS, name)[1]
    suffix = None if isinstance(source, bytes) else Path(source).suffix
    score = read_file(data, name=name, suffix=suffix)
    return piece_of(language, score, name, tracks, data)


def piece_of(
    language: Language, score: Score, name: str, tracks: Any = None, original: bytes | None = None
) -> Piece:
    """Return a score as a piece in a language; `original` is the file that it was read from, if any."""
    arranged = language.arrange(score, tracks)
    encoded = language.encode_for_model(arranged, score)
    heard = in_file(language.decode(encoded.ids, encoded.setting), arranged)
    return Piece(
        name=name,
        language=language,
        encoded=encoded,
        score=heard,
        playing=playing_of(arranged, heard, language.onset_steps),
        remarks=tuple(dict.fromkeys((*score.remarks, *arranged.remarks))),
        tracks=tracks,
        original=original,
    )


def piece_of_ids(language: Language, ids: np.ndarray, name: str) -> Piece:
    """Return the tokens of a whole piece as a piece."""
    score = language.decode(ids)
    return Piece(
        name=name,
        language=language,
        encoded=Encoded(ids=ids, bars=language.bars(ids), notes=len(score.notes)),
        score=score,
        playing=playing_of(score, score, language.onset_steps),
    )


def in_file(score: Score, arranged: Score) -> Score:
    """Give a decoded score the file's times and tracks, and its chords their symbols; mark those that are guesses."""
    tracks = [
        replace(track, sources=before.sources)
        for track, before in zip(score.tracks, arranged.tracks, strict=False)
    ]
    given = arranged.rescaled(score.ticks_per_beat)
    return score.replace(
        markers=like_given(score.markers, given.markers),
        tracks=(*tracks, *score.tracks[len(tracks) :]),
        file_times=arranged.file_times,
        key_signature=arranged.key_signature,
        key_changes=given.key_changes,
        texts=given.texts,
        extent=given.extent,
    )


def in_keys_of(score: Score, before: Score, seam: float = inf) -> Score:
    """Return a score with the keys that the piece before it states, up to a tick."""
    keys = before.key_changes
    return score.replace(
        key_signature=before.key_signature, key_changes=keys[keys.onset_ticks < seam]
    )


def edit_of(original: bytes | None, heard: Score, language: Language, **where: Any) -> Edit | None:
    """Return new music as an edit of the original file, or None for a piece that was not read from a file."""
    if original is None:
        return None
    kind, steps = kind_of(original), language.onset_steps
    return Edit(original=original, kind=kind, heard=heard, onset_steps=steps, **where)


def input_facts(ids: np.ndarray, tracks: Any) -> dict[str, Any]:
    """Return the provenance of the model's input: a digest of its tokens, and the tracks if they were chosen."""
    digest = hashlib.sha256(ids.astype("<u2").tobytes()).hexdigest()
    return {"heard_sha256": digest, **({} if tracks is None else {"tracks": tracks})}


@cache
def program() -> str:
    """Return the program's name and version."""
    try:
        return f"musicgen {version('symbolic-musicgen')}"
    except PackageNotFoundError:
        return "musicgen from source"  # not installed


def empty_prompt(
    language: Language,
    asked: Mapping[str, Any] | None = None,
    plan: Mapping[str, Any] | None = None,
) -> Prompt:
    """Return the prompt of a piece from nothing, with the requested style, key, tempo, metre and parts.

    Where it states attributes of the first bar, they are those of `plan`.
    """
    idea = dict(asked or {})
    ids, setting = language.beginning(idea, plan)
    score = language.decode(ids, setting)
    return Prompt(name="", ids=ids, bars=0, setting=setting, score=score, idea=idea)


def decode_partial(language: Language, ids: np.ndarray, bars: int | None, setting: Any) -> Score:
    """Decode the first bars of a piece that may be unfinished."""
    closed = language.close(ids, bars)
    heard = closed if len(closed) > 2 else closed[:1]  # begin and end alone: no music
    return language.decode(heard, setting)
