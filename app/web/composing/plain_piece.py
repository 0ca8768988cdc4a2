"""A piece of the page without a file, as JSON in place of one: written to MIDI, and from there read like any file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tokenization.changes import WIDTH, Controllers, Reading
from tokenization.limits import LONGEST_BEAT_MICROSECONDS
from tokenization.midi.reading import LAST_TICK, MICROSECONDS_PER_MINUTE
from tokenization.midi.writing import written_ticks_per_beat
from tokenization.records import from_json, from_plain
from tokenization.score import Marker, Meters, Notes, Score, Tempos, Track

WHERE = "the piece"


@dataclass(frozen=True, kw_only=True)
class PlainTrack:
    """A track of the page."""

    name: str
    program: int
    drum: bool


@dataclass(frozen=True, kw_only=True)
class PlainPiece:
    """A piece of the page (app/assets/music/piece.js), as far as a file has it."""

    ticks: int  # per beat
    notes: tuple[int, ...]  # of each: onset, duration, pitch, velocity, track
    tracks: tuple[PlainTrack, ...]
    tempos: tuple[tuple[float, ...], ...]
    meters: tuple[tuple[int, ...], ...]
    chords: tuple[tuple[Any, ...], ...]  # tick, chord, whether it is a guess, symbol
    key: tuple[int, ...] | None = None  # sharps, whether minor, whether it is a guess
    controls: tuple[tuple[float, ...], ...] = ()  # tick, controller or bend, value, track


def is_plain(data: bytes) -> bool:
    """Return whether data are a piece rather than a file."""
    return data[:1] == b"{"


def score_of(data: bytes) -> tuple[Score, list[Controllers]]:
    """Return a piece as a score, and what its file has besides; raises ValueError if it is wrong."""
    piece = from_plain(PlainPiece, from_json(data, WHERE), WHERE)
    if any(len(row) != 4 for row in piece.controls):
        raise ValueError(f"{WHERE} has controllers that are none")
    controls = [
        Controllers(track=int(track), events=tuple(row[:3] for row in piece.controls if row[3] == track))
        for track in sorted({row[3] for row in piece.controls} & {*piece.notes[4::WIDTH]})
    ]  # fmt: skip
    fifths, minor, guessed = piece.key or (0, 0, 1)
    notes = _columns(piece.notes, WIDTH)
    ticks, tempos = _columns([value for row in piece.tempos for value in row], 2)
    meters = _columns([value for row in piece.meters for value in row], 3)
    slowest = MICROSECONDS_PER_MINUTE / LONGEST_BEAT_MICROSECONDS
    if not all(isinstance(tick, int) and isinstance(text, str) for tick, text, *_ in piece.chords):
        raise ValueError(f"{WHERE} has chords that are none")
    score = Score(
        ticks_per_beat=piece.ticks,
        notes=Notes(*notes.astype(np.int64)).sorted(),
        tracks=tuple(Track(one.name, one.program, one.drum) for one in piece.tracks),
        tempos=Tempos(ticks, np.maximum(tempos, slowest)),
        meters=Meters(*meters.astype(np.int64)),
        markers=tuple(
            Marker(tick, text, bool(more[:1] and more[0]), str((more[1:] and more[1]) or ""))
            for tick, text, *more in piece.chords
        ),
        key_signature=None if guessed else (fifths, bool(minor)),
    )
    return score, controls


def _columns(values: Any, width: int) -> np.ndarray:
    """Return flat rows as columns."""
    found = np.array(values, dtype=np.float64)
    if len(found) % width or not ((found >= 0) & (found <= LAST_TICK)).all():
        raise ValueError(f"{WHERE} has numbers that no piece has")
    return found.reshape(-1, width).T


def reading_of_written(score: Score) -> Reading:
    """Return the reading of the MIDI file that holds a score alone, with its used tracks in order."""
    used = np.unique(score.notes.track).tolist()
    return Reading(
        ticks_per_beat=score.ticks_per_beat,
        sources=tuple(
            (used.index(track),) if track in used else () for track in range(len(score.tracks))
        ),
        file_ticks=(0.0, float(written_ticks_per_beat(score.ticks_per_beat))),
    )
