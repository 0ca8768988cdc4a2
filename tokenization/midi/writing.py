"""Write a score as a MIDI file of type 1 that reads back as the same music.

Overlapping notes of one pitch and track are paired first-in first-out, as usual in MIDI: a note
that would end before an earlier one swaps ends with it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

import numpy as np

from tokenization.analysis.symbols import chord_texts
from tokenization.midi.reading import (
    CUE,
    DRUM_CHANNEL,
    END_OF_TRACK,
    HEADER,
    KEY_SIGNATURE,
    LYRIC,
    MARKER,
    METER,
    MICROSECONDS_PER_MINUTE,
    PITCHED_CHANNELS,
    TEMPO,
    TRACK_NAME,
    encode_vlq,
    event_bytes,
    text_events,
    track_chunk,
)
from tokenization.score import Score, Track, merged_spans

COARSE_TICKS_PER_BEAT = 96  # some players mishandle lower resolutions
USUAL_TICKS_PER_BEAT = 480
NOTE_OFF, NOTE_ON, CONTROL, PROGRAM = 0x80, 0x90, 0xB0, 0xC0
SUSTAIN = 64  # the number of the controller
USUAL_TEMPO, USUAL_METER = 120.0, (4, 4)  # written if the score states none for its beginning
METRONOME = (24, 8)  # clocks per click, and 32nd notes per quarter
# The order of events of one tick: names, tempos, metres, keys, markers, programs, pedals, the ends of notes, words, and
# notes.
ORDER = (
    *(TRACK_NAME, TEMPO, METER, KEY_SIGNATURE, MARKER, CUE, PROGRAM, CONTROL),
    *(NOTE_OFF, LYRIC, NOTE_ON),
)

Event = tuple[int, int, int, bytes]
"""The tick of an event, its place in ORDER, for a note its end, and the bytes of the event."""


def write_midi(score: Score, *, texts: Sequence[str] = ()) -> bytes:
    """Encode a score as a MIDI file, with `texts` as text events at the start.

    A low resolution is multiplied; tracks without notes are left out.
    """
    score = score.rescaled(written_ticks_per_beat(score.ticks_per_beat))
    if not len(score.notes):
        raise ValueError("there are no notes to write: a MIDI file needs at least one")
    _check(score)
    used = np.unique(score.notes.track).tolist()
    tracks = [_conductor_track(score, texts)]
    for index, channel in zip(used, _channels([score.tracks[i] for i in used]), strict=True):
        events = _events_of(score, index, PITCHED_CHANNELS[channel])
        tracks.append(_track_body(events))
    head = struct.pack(">IHHH", 6, 1, len(tracks), score.ticks_per_beat)
    return b"".join((HEADER, head, *map(track_chunk, tracks)))


def _check(score: Score) -> None:
    """Refuse values that a MIDI file cannot hold."""
    notes, tempos, meters = score.notes, score.tempos, score.meters
    if min(notes.duration_ticks.min(), notes.velocity.min()) < 1:
        raise ValueError(
            "notes of a MIDI file need a length of 1 tick and a velocity of 1 at least"
        )
    if np.any(meters.denominator < 1) or np.any(meters.denominator & (meters.denominator - 1)):
        raise ValueError("the lower number of a time signature must be a power of 2 in a MIDI file")
    for name, values, most in (
        ("pitch", notes.pitch, 127),
        ("velocity", notes.velocity, 127),
        ("program", np.array([track.program for track in score.tracks]), 127),
        ("upper number of a time signature", meters.numerator, 255),
        ("length of a beat in microseconds", MICROSECONDS_PER_MINUTE / tempos.beats_per_minute, 0xFFFFFF),
    ):  # fmt: skip
        wrong = values[(values < 0) | (np.round(values) > most)]
        if len(wrong):
            raise ValueError(
                f"the {name} in a MIDI file must be in 0..{most}, but one is {wrong[0]:g}"
            )


def written_ticks_per_beat(ticks_per_beat: int) -> int:
    """Return the resolution at which a score is written: its own, or a multiple if that is low."""
    coarse = ticks_per_beat < COARSE_TICKS_PER_BEAT
    return ticks_per_beat * (USUAL_TICKS_PER_BEAT // ticks_per_beat) if coarse else ticks_per_beat


def _conductor_track(score: Score, texts: Sequence[str]) -> bytes:
    """Encode the first track: tempos, time signatures, markers and texts."""
    tempos = [*_rows(score.tempos.onset_ticks, score.tempos.beats_per_minute)]
    if not tempos or tempos[0][0] > 0:
        tempos.insert(0, (0, USUAL_TEMPO))
    meters = [*_rows(*score.meters.columns)]
    if not meters or meters[0][0] > 0:
        meters.insert(0, (0, *USUAL_METER))
    title, composer = score.texts.title, score.texts.composer
    texts = [*texts, *([f"Composer: {composer}"] if composer else [])]
    events = [
        *[_event(0, TRACK_NAME, title.encode(errors="replace")) for _ in range(bool(title))],
        *[_event(tick, KEY_SIGNATURE, (sharps & 0xFF, minor)) for tick, sharps, minor in _keys(score)],
        *[_event(tick, TEMPO, round(MICROSECONDS_PER_MINUTE / tempo).to_bytes(3, "big"))
          for tick, tempo in tempos],
        *[_event(tick, METER, (numerator, denominator.bit_length() - 1, *METRONOME))
          for tick, numerator, denominator in meters],
        # Guessed chords are cue points, so that they are not read as given ones.
        *[_event(marker.onset_ticks, CUE if marker.is_guess else MARKER, text.encode(errors="replace"))
          for marker, text in chord_texts(score, score.markers)],
    ]  # fmt: skip
    return text_events(texts) + _track_body(events)


def _keys(score: Score) -> list[tuple[int, int, int]]:
    """Return the key signatures with their ticks."""
    if score.key_signature is None:
        return []
    sharps, minor = score.key_signature
    return [(0, sharps, int(minor)), *_rows(*score.key_changes.columns)]


def _events_of(score: Score, index: int, channel: int) -> list[Event]:
    """Return the events of a track."""
    track = score.tracks[index]
    if track.is_drum:
        channel = DRUM_CHANNEL
    name = track.name.encode(errors="replace")
    events = [_event(0, TRACK_NAME, name)] if name else []
    events.append(_event(0, PROGRAM, (track.program,), channel))
    pedals = score.pedals[score.pedals.track == index]
    for start, end in _rows(*merged_spans(pedals.onset_ticks, pedals.onset_ticks + pedals.duration_ticks)):  # fmt: skip
        events.append(_event(start, CONTROL, (SUSTAIN, 127), channel))
        events.append(_event(end, CONTROL, (SUSTAIN, 0), channel))
    sources = track.sources or (index,)
    for one in score.texts.lyrics:
        if one.source in sources:
            text = f"{one.text}-" if one.continues else f"{one.text} "
            events.append(_event(one.onset_ticks, LYRIC, text.encode(errors="replace")))
    notes = score.notes[score.notes.track == index]
    for velocity, pitch, start, end in _rows(
        notes.velocity, notes.pitch, notes.onset_ticks, notes.end_ticks
    ):
        # The shorter of two notes of a pitch goes first, since it is ended first.
        events.append(_event(start, NOTE_ON, (pitch, velocity), channel, end))
        events.append(_event(end, NOTE_OFF, (pitch, velocity), channel))
    return events


def _event(
    tick: int, kind: int, data: Sequence[int] | bytes, channel: int = 0, end: int = 0
) -> Event:
    return tick, ORDER.index(kind), end, event_bytes(kind + channel, data)


def _track_body(events: Iterable[Event]) -> bytes:
    """Encode events in order, each status byte once for a run of events that share it."""
    body, before, running = bytearray(), 0, None
    for tick, _, _, event in sorted(events, key=lambda event: event[:3]):
        body += encode_vlq(tick - before)
        body += event[1:] if event[0] == running else event
        before, running = tick, event[0] if event[0] < 0xF0 else None
    return bytes(body + encode_vlq(1) + END_OF_TRACK)


def _rows(*columns: np.ndarray) -> zip[tuple]:
    return zip(*(column.tolist() for column in columns), strict=True)


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
    return [
        0 if track.is_drum else sum(not other.is_drum for other in tracks[:index])
        for index, track in enumerate(tracks)
    ]
