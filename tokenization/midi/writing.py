"""Write a score as a MIDI file of type 1 that reads back as the same music.

Overlapping notes of one pitch and track are paired first-in first-out, as usual in MIDI: a note
that would end before an earlier one swaps ends with it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from io import BytesIO

import miditoolkit
import numpy as np
from miditoolkit.midi import containers

from tokenization.analysis.chords import text_of
from tokenization.midi.reading import (
    HEADER,
    PITCHED_CHANNELS,
    split_chunks,
    text_events,
    track_chunk,
)
from tokenization.score import Score, Track, merged_spans

COARSE_TICKS_PER_BEAT = 96  # some players mishandle lower resolutions
USUAL_TICKS_PER_BEAT = 480


def write_midi(score: Score, *, texts: Sequence[str] = ()) -> bytes:
    """Encode a score as a MIDI file, with `texts` as text events at the start.

    A low resolution is multiplied; tracks without notes are left out.
    """
    score = score.rescaled(written_ticks_per_beat(score.ticks_per_beat))
    if not len(score.notes):
        raise ValueError("there are no notes to write: a MIDI file needs at least one")
    if min(score.notes.duration_ticks.min(), score.notes.velocity.min()) < 1:
        raise ValueError(
            "notes of a MIDI file need a length of 1 tick and a velocity of 1 at least"
        )
    used = np.unique(score.notes.track).tolist()
    tracks = [_conductor_track(score, texts)]
    for index, channel in zip(used, _channels([score.tracks[i] for i in used]), strict=True):
        # miditoolkit derives the channel from the position among the instruments.
        fillers = [containers.Instrument(0) for _ in range(channel)]
        midi = miditoolkit.MidiFile()
        midi.instruments = [*fillers, _instrument(score, index)]
        tracks.append(_dumped(midi, channel))
    head = struct.pack(">IHHH", 6, 1, len(tracks), score.ticks_per_beat)
    return b"".join((HEADER, head, *map(track_chunk, tracks)))


def written_ticks_per_beat(ticks_per_beat: int) -> int:
    """Return the resolution at which a score is written: its own, or a multiple if that is low."""
    coarse = ticks_per_beat < COARSE_TICKS_PER_BEAT
    return ticks_per_beat * (USUAL_TICKS_PER_BEAT // ticks_per_beat) if coarse else ticks_per_beat


def _conductor_track(score: Score, texts: Sequence[str]) -> bytes:
    """Encode the first track: tempos, time signatures, markers and texts."""
    midi = miditoolkit.MidiFile()
    midi.tempo_changes = [
        containers.TempoChange(tempo, time)
        for time, tempo in _rows(score.tempos.onset_ticks, score.tempos.beats_per_minute)
    ]
    midi.time_signature_changes = [
        containers.TimeSignature(numerator, denominator, time)
        for time, numerator, denominator in _rows(*score.meters.columns)
    ]
    midi.markers = [containers.Marker(_latin_1(text_of(m)), m.onset_ticks) for m in score.markers]
    return text_events(texts) + _dumped(midi)  # miditoolkit does not write text events


def _dumped(midi: miditoolkit.MidiFile, index: int | None = None) -> bytes:
    """Encode the events of the instrument at an index, or of the first track if it is None."""
    midi.dump(file=(file := BytesIO()), instrument_idx=index)
    return split_chunks(file.getvalue(), "the file").bodies[-1]


def _rows(*columns: np.ndarray) -> zip[tuple]:
    return zip(*(column.tolist() for column in columns), strict=True)


def _latin_1(text: str) -> str:
    """Disguise UTF-8 bytes as Latin-1, because miditoolkit encodes text as Latin-1."""
    return text.encode("utf-8", errors="replace").decode("latin-1")


def _instrument(score: Score, index: int) -> containers.Instrument:
    track = score.tracks[index]
    instrument = containers.Instrument(track.program, track.is_drum, _latin_1(track.name))
    notes = score.notes[score.notes.track == index]
    instrument.notes = [
        containers.Note(velocity, pitch, start, end)
        for velocity, pitch, start, end in _rows(
            notes.velocity, notes.pitch, notes.onset_ticks, notes.end_ticks
        )
    ]
    pedals = score.pedals[score.pedals.track == index]
    spans = merged_spans(pedals.onset_ticks, pedals.onset_ticks + pedals.duration_ticks)
    instrument.pedals = [containers.Pedal(start, end) for start, end in _rows(*spans)]
    return instrument


def _channels(tracks: Sequence[Track]) -> list[int]:
    """Return a channel for each track, 0 … 14, not counting the drum channel.

    If there are more tracks than channels, tracks of the same program share one.
    """
    pitched = [track.program for track in tracks if not track.is_drum]
    kits = {track.program for track in tracks if track.is_drum}
    programs = sorted(set(pitched))
    if len(programs) > len(PITCHED_CHANNELS) or len(kits) > 1:
        raise ValueError(
            f"a MIDI file has channels for {len(PITCHED_CHANNELS)} programs and one drum kit, but the "
            f"score has {len(programs)} and {len(kits)}: remove or merge some tracks"
        )
    if len(pitched) > len(PITCHED_CHANNELS):
        return [0 if track.is_drum else programs.index(track.program) for track in tracks]
    return [sum(not other.is_drum for other in tracks[:index]) for index in range(len(tracks))]
