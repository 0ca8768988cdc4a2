"""Read any MIDI file: bytes or a path to a score, with remarks on what was repaired or assumed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import TypeVar

import numpy as np

from tokenization.analysis.metres import bar_count, bar_lines
from tokenization.midi.chunks import split_chunks
from tokenization.midi.conventions import complete, finished, without_far_events
from tokenization.midi.limits import GENEROUS, Limits, MidiError
from tokenization.midi.parsing import parse_tracks
from tokenization.score import Columns, Meters, Notes, Pedals, Score, Tempos

Rows = TypeVar("Rows", bound=Columns)

ASSUMED_TICKS_PER_BEAT = 480
SMPTE_FRAMES = {24: 24.0, 25: 25.0, 29: 30 / 1.001, 30: 30.0}  # name of the rate → frames a second
LONGEST_NAME = 80


def read_midi(
    source: bytes | str | Path, *, limits: Limits = GENEROUS, name: str | None = None
) -> Score:
    """Read a file, or a file's bytes, which errors call by `name`; a MidiError says what is wrong.

    The score has notes in canonical order, each at least a tick long, in tracks by channel and
    program, and a tempo and a meter from tick 0 on.
    """
    name = printable(name or ("this file" if isinstance(source, bytes) else Path(source).name))
    data = source if isinstance(source, bytes) else bytes_of(Path(source), limits, name)
    limits.check_bytes(name, len(data))
    chunks = split_chunks(data, name)
    ticks_per_beat, beats_per_minute, remarks = _resolution(chunks.division)
    if chunks.kind == 2 and len(chunks.bodies) > 1:
        limits.check(name, "tracks", len(chunks.bodies))
        remarks = (*remarks, f"The {len(chunks.bodies)} pieces of a type-2 file were joined.")
        pieces = [
            complete(parse_tracks([body], ticks_per_beat, limits, name)) for body in chunks.bodies
        ]
        beats = sum(piece.end_ticks for piece in pieces) / ticks_per_beat
        limits.check(name, "beats", beats)  # before their bars are laid
        score = _end_to_end(pieces)
    else:
        score = parse_tracks(chunks.bodies, ticks_per_beat, limits, name)
    if not len(score.notes):
        damage = "; ".join(chunks.remarks + score.remarks).replace(".", "")
        advice = f"get it again ({damage})" if damage else "choose a file with music in it"
        raise MidiError(f"{name} holds no notes that can be read: {advice}")
    if beats_per_minute is not None:
        score = score.replace(tempos=Tempos(np.zeros(1), np.array([beats_per_minute])))
    score = finished(score, limits, name)
    return score.replace(remarks=tuple(dict.fromkeys((*chunks.remarks, *remarks, *score.remarks))))


def printable(name: str) -> str:
    """Return a file's name as it goes into a sentence."""
    return "".join(letter if letter.isprintable() else "?" for letter in name[:LONGEST_NAME])


def bytes_of(path: Path, limits: Limits, name: str) -> bytes:
    """Return a file's bytes, one more than allowed at most."""
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}: check its name and folder")
    if not path.is_file():
        raise MidiError(f"{name} is a folder or a device: give a MIDI file")
    try:
        with path.open("rb") as file:
            return file.read(limits.bytes + 1)
    except OSError as error:
        raise MidiError(f"{name} cannot be read: {error.strerror}") from error


def _resolution(division: int) -> tuple[int, float | None, tuple[str, ...]]:
    """Return ticks a beat, a tempo where the ticks are parts of a second, and remarks."""
    if 0 < division < 0x8000:
        return division, None, ()
    name, frame_ticks = 256 - (division >> 8), division & 0xFF
    if name not in SMPTE_FRAMES or not frame_ticks:
        assumed = f"The time division {division} makes no sense"
        return (
            ASSUMED_TICKS_PER_BEAT,
            None,
            (f"{assumed}: {ASSUMED_TICKS_PER_BEAT} ticks a beat were assumed.",),
        )
    second_ticks = round(SMPTE_FRAMES[name]) * frame_ticks
    ticks_per_beat = second_ticks // 2 if second_ticks % 2 == 0 else second_ticks
    beats_per_minute = 60 * SMPTE_FRAMES[name] * frame_ticks / ticks_per_beat
    return (
        ticks_per_beat,
        beats_per_minute,
        (
            f"Time is counted in SMPTE frames, not beats: beats were laid at {beats_per_minute:.0f} "
            "a minute.",
        ),
    )


def _end_to_end(pieces: Sequence[Score]) -> Score:
    """Return pieces of one resolution as one, each from the first bar after the one before."""
    lengths = [
        int(bar_lines(piece, bar_count(piece))[-1]) if len(piece.notes) else 0 for piece in pieces
    ]
    starts = [0, *accumulate(lengths)][:-1]
    # What a piece says after its last bar would be said amid the next one.
    pieces = [
        without_far_events(piece, length / piece.ticks_per_beat)
        for piece, length in zip(pieces, lengths, strict=True)
    ]
    tracks = [0, *accumulate(len(piece.tracks) for piece in pieces)]

    pieces = [
        piece.timed(lambda old, start=start: old + start)
        for piece, start in zip(pieces, starts, strict=True)
    ]

    def joined(columns: type[Rows], name: str) -> Rows:
        parts = []
        for piece, track in zip(pieces, tracks, strict=False):
            rows = getattr(piece, name)
            parts.append(rows.replace(track=rows.track + track) if hasattr(rows, "track") else rows)
        return columns.concatenate(parts)

    return Score(
        ticks_per_beat=pieces[0].ticks_per_beat,
        notes=joined(Notes, "notes"),
        tracks=tuple(track for piece in pieces for track in piece.tracks),
        tempos=joined(Tempos, "tempos"),
        meters=joined(Meters, "meters"),
        pedals=joined(Pedals, "pedals"),
        markers=tuple(marker for piece in pieces for marker in piece.markers),
        remarks=tuple(remark for piece in pieces for remark in piece.remarks),
    )
