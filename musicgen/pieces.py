"""A piece in a model's language, and its first bars as a prompt."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tokenization.analysis.metres import bar_lines
from tokenization.language import Encoded, Language
from tokenization.records import whole_number
from tokenization.score import Score


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """The first bars of a piece, which are continued; no bars at all to start from nothing."""

    name: str
    ids: np.ndarray
    bars: int
    setting: Any  # what the language keeps beside the tokens
    score: Score  # these bars as the model hears them
    remarks: tuple[str, ...] = ()
    tracks: Any = None

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
    tracks: Any = None  # the file's that were chosen, as the language takes them; None where it chose by itself

    @property
    def bars(self) -> int:
        """How many bars it has."""
        return len(self.encoded.bars)

    def prompt(self, bars: int | None = None) -> Prompt:
        """Return the first bars, or all, as a prompt."""
        bars = None if bars is None else whole_number(bars, "prompt_bars")
        if bars is not None and not 1 <= bars <= self.bars:
            raise ValueError(
                f"{self.name or 'the piece'} has {self.bars} bars, so the prompt cannot be its first {bars}"
            )
        bars = bars or self.bars
        whole = bars == self.bars
        ids = self.encoded.ids[:-1] if whole else self.encoded.ids[: self.encoded.bars[bars]]
        decoded = decode_begun(self.language, ids, bars, self.encoded.setting)
        if self.language.bar is not None:  # begun, so that nothing is added to the last bar
            ids = np.append(ids, np.array([self.language.bar], dtype=ids.dtype))
        return Prompt(
            name=self.name,
            ids=ids,
            bars=bars,
            setting=self.encoded.setting,
            score=decoded,
            remarks=self.remarks,
            tracks=self.tracks,
        )


def read_piece(
    language: Language,
    source: bytes | str | Path,
    *,
    name: str,
    tracks: Any = None,
) -> Piece:
    """Read a file of music as a piece in a language."""
    from tokenization.any_file import read_file  # its libraries are not where models train

    score = read_file(source, name=name)
    return piece_of(language, score, name, tracks)


def piece_of(language: Language, score: Score, name: str, tracks: Any = None) -> Piece:
    """Return a score as a piece in a language."""
    tracks = _plain(tracks)
    arranged = language.arrange(score, tracks)
    encoded = language.encode(arranged)
    return Piece(
        name=name,
        language=language,
        encoded=encoded,
        score=language.decode(encoded.ids, encoded.setting),
        remarks=tuple(dict.fromkeys((*score.remarks, *arranged.remarks))),
        tracks=tracks,
    )


def _plain(tracks: Any) -> Any:
    """Return chosen tracks as what a file can say of itself: sets, arrays and iterators are lists."""
    if isinstance(tracks, np.ndarray | np.generic):
        return tracks.tolist()
    if tracks is None or isinstance(tracks, str | int):
        return tracks
    if isinstance(tracks, Mapping):
        return {role: _plain(choice) for role, choice in tracks.items()}
    return [_plain(choice) for choice in tracks]


def heard_facts(ids: np.ndarray, tracks: Any) -> dict[str, Any]:
    """Return what a file says of the music that a model heard: its tokens as a digest, and the tracks if chosen."""
    digest = hashlib.sha256(ids.astype("<u2").tobytes()).hexdigest()
    return {"heard_sha256": digest, **({} if tracks is None else {"tracks": tracks})}


def no_prompt(language: Language) -> Prompt:
    """Return the beginning of a piece."""
    ids = np.array([language.begin])
    score = language.decode(ids)
    return Prompt(name="", ids=ids, bars=0, setting=None, score=score)


def decode_begun(language: Language, ids: np.ndarray, bars: int | None, setting: Any) -> Score:
    """Return the music of a piece that may be broken off, up to so many bars."""
    closed = language.close(ids, bars)
    return language.decode(closed if len(closed) > 2 else closed[:1], setting)  # begin, end: none
