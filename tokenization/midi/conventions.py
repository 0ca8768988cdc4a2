"""Add what the MIDI standard lets a file omit, and repair or drop impossible values, with remarks."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TypeVar

import numpy as np

from tokenization.analysis.beats import DEFAULT_BEATS_PER_MINUTE, tempo_map
from tokenization.midi.limits import Limits
from tokenization.score import Columns, Meters, Score, Tempos
from tokenization.wording import Remark, counted

Changes = TypeVar("Changes", bound=Columns)

LONGEST_BEAT_MICROSECONDS = 0xFFFFFF  # the largest value of a MIDI tempo event
SLOWEST_BEATS_PER_MINUTE, FASTEST_BEATS_PER_MINUTE = 60e6 / LONGEST_BEAT_MICROSECONDS, 2000
DENOMINATORS = (1, 2, 4, 8, 16, 32, 64)
DRUM_NAME = re.compile(
    r"\b(drums?|drum ?(kit|set)|perc(ussion)?|batterie|bater[ií]a|batteria|schlagzeug)\b|ドラム",
    re.IGNORECASE,
)
NOT_DRUM_NAME = re.compile(r"steel|bass(?! drum)|synth|melodic|taiko|tuned|pad|loop", re.IGNORECASE)
LOWEST_DRUM, HIGHEST_DRUM = 27, 87  # the percussion key map of General MIDI 2


def complete_within(score: Score, limits: Limits, name: str) -> Score:
    """Complete a score and check it against the limits; errors call the file `name`."""
    limits.check(name, "notes", len(score.notes))
    limits.check(name, "tracks", len(score.tracks))
    limits.check(name, "beats", score.end_ticks / score.ticks_per_beat)
    score = complete(without_far_events(score, limits.beats))
    seconds = tempo_map(score).to_seconds(np.array(score.end_ticks / score.ticks_per_beat))
    limits.check(name, "seconds", float(seconds))
    return score


def complete(score: Score) -> Score:
    """Add a tempo and a meter at tick 0 if they are missing, make every note last a tick, and recognise drums."""
    return _with_drums(_with_meters(_with_tempos(_with_durations(score))))


def without_far_events(score: Score, beats: float) -> Score:
    """Drop events other than notes after a beat, and release pedals there."""
    last = int(beats * score.ticks_per_beat)
    tempos, meters, pedals = score.tempos, score.meters, score.pedals
    pedals = pedals[pedals.onset_ticks < last]
    return score.replace(
        tempos=tempos[tempos.onset_ticks <= last],
        meters=meters[meters.onset_ticks <= last],
        pedals=pedals.replace(
            duration_ticks=np.minimum(pedals.duration_ticks, last - pedals.onset_ticks)
        ),
        markers=tuple(marker for marker in score.markers if marker.onset_ticks <= last),
    )


def _with_durations(score: Score) -> Score:
    """Make every note last at least a tick: drum machines end hits where they start."""
    notes = score.notes
    empty = int((notes.duration_ticks < 1).sum())
    if empty:
        notes = notes.replace(duration_ticks=np.maximum(notes.duration_ticks, 1))
        score = score.remark(f"Extended {counted(empty, 'note')} of length 0 to one tick.")
    return score.replace(notes=notes.sorted())


def _with_tempos(score: Score) -> Score:
    slowest, fastest = SLOWEST_BEATS_PER_MINUTE, FASTEST_BEATS_PER_MINUTE
    bpm = score.tempos.beats_per_minute
    why = f" below {slowest:.2f} or above {fastest} beats per minute"
    score, tempos = _usable(score, score.tempos, (bpm >= slowest) & (bpm <= fastest), "tempo", why)
    if not len(tempos) or tempos.onset_ticks[0] > 0:
        start = "Before the first tempo" if len(tempos) else "No tempo is given:"
        default = DEFAULT_BEATS_PER_MINUTE
        score = score.remark(f"{start} {default:.0f} beats per minute were assumed.")
        tempos = Tempos.concatenate((Tempos(np.zeros(1), np.array([default])), tempos))
    return score.replace(tempos=tempos)


def _with_meters(score: Score) -> Score:
    known = (score.meters.numerator > 0) & np.isin(score.meters.denominator, DENOMINATORS)
    score, meters = _usable(score, score.meters, known, "impossible time signature")
    if len(meters) and meters.onset_ticks[0] == 0:
        return score.replace(meters=meters)
    bar_ticks = 4 * score.ticks_per_beat * meters.numerator / meters.denominator
    if len(meters) and meters.onset_ticks[0] < bar_ticks[0]:
        score = score.remark("The time signature comes late; it was moved to the start.")
        first = np.append(0, meters.onset_ticks[1:])
        return score.replace(meters=meters.replace(onset_ticks=first))
    message = "No time signature is given: 4/4 was assumed."
    if len(meters):
        message = "The first time signature comes late: 4/4 was assumed before it."
    return score.remark(Remark(message, "metre")).replace(
        meters=Meters.concatenate((Meters(np.zeros(1), np.array([4]), np.array([4])), meters))
    )


def _usable(
    score: Score, changes: Changes, possible: np.ndarray, noun: str, why: str = ""
) -> tuple[Score, Changes]:
    """Drop impossible changes, with a remark, and all but the last change on each tick, which takes effect."""
    possible &= changes.columns[0] >= 0
    if not possible.all():
        score = score.remark(f"Left out {counted(int((~possible).sum()), noun)}{why}.")
    changes = changes[possible]
    return score, changes[np.diff(changes.columns[0], append=np.inf) > 0]


def _with_drums(score: Score) -> Score:
    """Mark tracks outside channel 10 as drums if they have a drum name, drum pitches and no program."""
    tracks = list(score.tracks)
    for index, track in enumerate(tracks):
        if track.is_drum or track.program:
            continue
        if not DRUM_NAME.search(track.name) or NOT_DRUM_NAME.search(track.name):
            continue
        pitch = score.notes.pitch[score.notes.track == index]
        if pitch.min() >= LOWEST_DRUM and pitch.max() <= HIGHEST_DRUM:
            tracks[index] = replace(track, is_drum=True)
            score = score.remark(
                f"The track {track.name!r} is not on channel 10, but was read as drums because of its name and "
                "pitches."
            )
    return score.replace(tracks=tuple(tracks))
