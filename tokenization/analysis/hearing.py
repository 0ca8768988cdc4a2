"""Hears the chords of a score by harmonic rhythm.

A piece is cut into spans of up to two bars of 4/4, each with one chord, so that the total score is the highest (a
semi-Markov model). What counts in a span is which pitch classes are present at all, which last over both of its halves,
their share of each beat, how often each is the bass, and which bass the span starts with. So a chord of a bar can have
its seventh in one beat and its root in another, while passing notes, suspensions and the approaching notes of a walking
bass are outweighed, or would need a span of their own. Starting a span has a cost, which is lowest at a bar line. Where
hardly more than one voice sounds, as in a melody alone, the key counts, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tokenization.analysis import chord_weights as weights
from tokenization.analysis.chords import (
    CHORDS,
    NO_CHORD,
    NONE,
    PITCH_CLASSES,
    QUALITIES,
    TONES,
    named,
)
from tokenization.analysis.chords import key as estimated_key
from tokenization.analysis.metres import Pulse, pulse_of
from tokenization.score import Marker, Notes, Score

# In a beat, notes are weighted by duration, loudness and age.
LONGEST_BEATS = 3.5  # a note has no influence after this time
DECAY_PER_BEAT = 0.27
LENGTH_POWER, VELOCITY_POWER = 0.83, 0.11
ON_BEAT_BONUS = 0.86  # for a note that starts on the beat, within:
EARLIEST_BEATS, LATEST_BEATS = 0.2, 0.05
LOUDNESS = 80  # velocity of all notes of music without dynamics
PASSING = 0.7  # factor for a note that is reached and left by step
MELODY = 0.1  # factor for a note of a melody, if another part plays chords
# Shares of onsets with one note: at most, in such a part; at least, in a melody.
CHORDAL, SINGLE = 0.7, 0.95
STEPS = (-2, -1, 1, 2)  # semitones
TICKS = 12  # of a beat, to which onsets are rounded when steps are sought
# The bass of a beat is its lowest note, and its first bass the lowest that sounds near its start. Both count less the
# higher they are: at 76 and above, as in a melody alone, hardly.
SHORTEST_BASS_BEATS = 0.14
LATEST_BASS_BEATS, SHORTEST_FIRST_BASS_BEATS = 0.25, 0.1
HIGH_BASS, BASS_RANGE, LEAST_BASS = 76, 28, 0.2
NO_NOTE = 128

LONGEST_SPAN = len(weights.LENGTH)  # beats
FAINT = 0.07  # added to the total weight, so that nearly silent beats have little influence
PRESENT = 0.08  # the share of the weight at which a pitch class is half present
LONGEST_SILENCE_BEATS = 8  # longer ones count the same
BLOCK_BEATS = 1024  # limits the memory for a long piece

# What a chord loses in a beat of a single voice for each of its tones that is outside the scale and does not sound, and
# below, what chords gain. Chosen on melodies of 25 lead sheets and 40 songs of POP909. On 25 and 40 others, the root is
# right for .60 of the time rather than .52 and .27 rather than .26, root and third for .56 rather than .49 and .22
# rather than .18, and chords are within the scale for .84 rather than .78 and .91 rather than .78.
FOREIGN = 1.0
# In C major and C minor, whose scale is the natural one; but the dominant and what stands for it may have its B.
SCALES = (0, 2, 4, 5, 7, 9, 11), (0, 2, 3, 5, 7, 8, 10)
GAINS = (
    {"C_M": 1.5, "F_M": 1, "G_M": 1, "G_7": 1},
    {"C_m": 1.5, "F_m": 1, "G_m": 1, "G_M": 1, "G_7": 1},
)
LEADING_CHORDS = (), ("G_M", "G_7", "B_o", "B_o7")
FULL = 2  # pitch classes at once, from which on the key does not count
KEY_BEATS, AROUND_BEATS = 32, 16  # that have one key, and before and after them that tell it, too
# Key signatures in order: the tick, the sharps, and whether it says minor.
Signatures = Sequence[tuple[int, int, int]]


def recognise(score: Score) -> tuple[Marker, ...]:
    """Recognise the chords of a score on the beat grid, with a marker at each change.

    Short rests are bridged; a bar of silence is `N_N`.
    """
    notes = score.pitched
    if not len(notes):
        return (Marker(0, NO_CHORD, is_guess=True),)
    pulse = pulse_of(score)
    beats, chords = chord_changes(notes, pulse, _signatures(score))
    ticks = pulse.to_ticks(beats)
    return tuple(
        Marker(int(tick), CHORDS[chord], is_guess=True)
        for tick, chord in zip(ticks, chords, strict=True)
    )


def with_chords(score: Score) -> Score:
    """Replace the markers of a score on the beat grid by its own chords, or by recognised ones if it has none."""
    if chords := named(score):
        return score.replace(markers=chords)
    return score.replace(markers=recognise(score)).remark(
        "The file has no chord symbols; chords were recognised from the notes."
    )


def _signatures(score: Score) -> Signatures:
    """Return the key signatures of a score."""
    first = [] if score.key_signature is None else [(0, *score.key_signature)]
    return [*first, *zip(*(column.tolist() for column in score.key_changes.columns), strict=True)]


def chord_changes_in_four_four(notes: Notes, ticks_per_beat: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the tick and the index of each new chord of notes in 4/4, all with the same velocity."""
    pulse = Pulse(ticks_per_beat, np.zeros(0), np.zeros(0))
    beats, chords = chord_changes(notes.replace(velocity=np.full(len(notes), LOUDNESS)), pulse)
    return beats * ticks_per_beat, chords


def chord_changes(
    notes: Notes, pulse: Pulse, signatures: Signatures = ()
) -> tuple[np.ndarray, np.ndarray]:
    """Return the beat and the index of each new chord of some pitched notes: (C,) each."""
    heard = _heard(notes, *pulse.spans(notes), signatures)
    path = _best_path(heard, np.array(weights.PLACE)[pulse.place(heard.beats)])
    new = np.append(True, np.diff(path) != 0)
    return heard.beats[new], path[new]


# What is heard in K beats; only the first of consecutive silent beats is kept. L is a length of spans.


@dataclass(frozen=True, kw_only=True, eq=False)
class Heard:
    """What is heard in each beat."""

    beats: np.ndarray  # (K,) their numbers
    tones: np.ndarray  # (K, 12) the weight of each pitch class
    bass: np.ndarray  # (K, 12) the weight of the pitch class of the lowest note
    first_bass: np.ndarray  # (K, 12) the same for the lowest note near the start of the beat
    sounding: np.ndarray  # (K,) 1, or 0 for a silent beat
    silence: np.ndarray  # (K,) the beats of silence from a silent beat on
    thin: np.ndarray  # (K,) how much the key counts, 0 … 1
    key: np.ndarray  # (K,) as of `chords.key`, where it counts

    def padded(self, start: int, stop: int) -> Heard:
        """Return beats `start` to `stop` and the LONGEST_SPAN after them, with zeros after the end."""

        def cut(values: np.ndarray) -> np.ndarray:
            part = values[start : stop + LONGEST_SPAN]
            missing = stop + LONGEST_SPAN - start - len(part)
            return np.concatenate([part, np.zeros((missing, *values.shape[1:]), values.dtype)])

        return Heard(**{name: cut(values) for name, values in vars(self).items()})


def _heard(
    notes: Notes, onset: np.ndarray, length: np.ndarray, signatures: Signatures = ()
) -> Heard:
    """Return what is heard of notes whose onsets and lengths are in beats."""
    end = onset + np.minimum(length, LONGEST_BEATS)
    first = np.floor(onset).astype(np.int64)
    spans = np.maximum(np.ceil(end).astype(np.int64) - first, 1)
    # One row per note and beat in which it sounds.
    note = np.repeat(np.arange(len(notes)), spans)
    beat = first[note] + np.arange(len(note)) - np.repeat(np.cumsum(spans) - spans, spans)
    overlap = np.minimum(end[note], beat + 1) - np.maximum(onset[note], beat)
    late = onset[note] - beat
    weight = overlap**LENGTH_POWER * notes.velocity[note] ** VELOCITY_POWER
    weight *= np.exp(-DECAY_PER_BEAT * np.maximum(-late, 0))
    weight[(late > -EARLIEST_BEATS) & (late <= LATEST_BEATS)] *= 1 + ON_BEAT_BONUS
    weight[_passing(notes, onset)[note]] *= PASSING
    weight[_in_melody(notes)[note]] *= MELODY
    sounding = np.unique(beat)
    silent = sounding[:-1][np.diff(sounding) > 1] + 1
    beats = np.union1d(np.append(sounding, 0), silent)
    row = np.searchsorted(beats, beat)
    pitch = notes.pitch[note]
    cells = row * PITCH_CLASSES + pitch % PITCH_CLASSES
    tones = np.bincount(cells, weight, len(beats) * PITCH_CLASSES).reshape(-1, PITCH_CLASSES)

    def bass(counted: np.ndarray) -> np.ndarray:
        lowest = np.full(len(beats), NO_NOTE)
        np.minimum.at(lowest, row[counted], pitch[counted])
        strength = np.clip((HIGH_BASS - lowest) / BASS_RANGE, LEAST_BASS, 1)
        is_class = lowest[:, None] % PITCH_CLASSES == np.arange(PITCH_CLASSES)
        return np.where(is_class & (lowest[:, None] < NO_NOTE), strength[:, None], 0)

    near = (late <= LATEST_BASS_BEATS) & (overlap > SHORTEST_FIRST_BASS_BEATS)
    is_silent = ~tones.any(axis=1)
    thin = _thinness(notes)
    silence = np.minimum(np.diff(beats, append=beats[-1] + 1), LONGEST_SILENCE_BEATS)
    return Heard(
        beats=beats,
        tones=tones,
        bass=bass(overlap > SHORTEST_BASS_BEATS),
        first_bass=bass(near),
        sounding=np.where(is_silent, 0.0, 1.0),
        silence=np.where(is_silent, silence, 0),
        thin=np.full(len(beats), thin),
        key=_keys(notes, onset, beats, signatures) if thin else np.zeros(len(beats), dtype=int),
    )


def _thinness(notes: Notes) -> float:
    """Return 1 for a single voice, down to 0 where FULL pitch classes sound in the middle of the average note."""
    middle = notes.onset_ticks + notes.duration_ticks / 2
    together = np.zeros(len(notes))
    for number in range(PITCH_CLASSES):
        own = notes[notes.pitch % PITCH_CLASSES == number]
        begun = np.searchsorted(np.sort(own.onset_ticks), middle, "right")
        together += begun > np.searchsorted(np.sort(own.end_ticks), middle, "right")
    return float(np.clip((FULL - together.mean()) / (FULL - 1), 0, 1))


def _keys(notes: Notes, onset: np.ndarray, beats: np.ndarray, signatures: Signatures) -> np.ndarray:
    """Return the key of each beat, which stays unless the notes around it clearly have another one."""
    found, before = np.zeros(len(beats), dtype=int), -1
    section = beats // KEY_BEATS
    for number in np.unique(section):
        start = number * KEY_BEATS
        near = (onset >= start - AROUND_BEATS) & (onset < start + KEY_BEATS + AROUND_BEATS)
        if near.any():
            last = notes.onset_ticks[onset < start + KEY_BEATS].max(initial=0)
            stated = [(sharps, bool(minor)) for at, sharps, minor in signatures if at <= last]
            pitch, length = notes.pitch[near], notes.duration_ticks[near]
            before = estimated_key(pitch, length, None, [None, *stated][-1], before=before)
        found[section == number] = max(before, 0)
    return found


def _in_melody(notes: Notes) -> np.ndarray:
    """Return whether each note is of a track in one voice that lies above one with chords."""
    tracks = np.unique(notes.track)
    single, mean = np.zeros(len(tracks)), np.zeros(len(tracks))
    for number, track in enumerate(tracks):
        own = notes.track == track
        _, many = np.unique(notes.onset_ticks[own], return_counts=True)
        single[number], mean[number] = (many == 1).mean(), notes.pitch[own].mean()
    full = mean[single <= CHORDAL]
    melodies = tracks[(single >= SINGLE) & (mean > full.min())] if len(full) else tracks[:0]
    return np.isin(notes.track, melodies)


def _passing(notes: Notes, onset: np.ndarray) -> np.ndarray:
    """Return whether each note is reached and left by step within a beat, and is not struck with a note a step away."""
    beat = np.floor(onset)
    beats = np.unique(beat)
    # Beats without onsets count as two at most, so that the keys below stay small.
    number = np.append(0, np.cumsum(np.minimum(np.diff(beats), 3)))[np.searchsorted(beats, beat)]
    tick = np.rint((number + onset - beat) * TICKS).astype(np.int64) + TICKS + 1
    ticks = int(tick.max()) + TICKS + 2
    key = (notes.track * NO_NOTE * 2 + notes.pitch + max(STEPS)) * ticks + tick
    struck = np.sort(key)

    def is_step_away(first: int, last: int) -> np.ndarray:
        """Return whether a note a step from each note, on its track, starts between two ticks after it."""
        found = np.zeros(len(key), dtype=bool)
        for step in STEPS:
            near = key + step * ticks
            found |= np.searchsorted(struck, near + last, "right") > np.searchsorted(
                struck, near + first, "left"
            )
        return found

    return is_step_away(-TICKS - 1, -1) & is_step_away(1, TICKS + 1) & ~is_step_away(0, 0)


def _best_path(heard: Heard, place: np.ndarray) -> np.ndarray:
    """Return the index of the chord in each beat of the best spans; `place` is the bonus of a span from there: (K,)."""
    beats = len(heard.beats)
    chord = np.empty((beats, LONGEST_SPAN), dtype=np.int64)  # the best of each span, by its start
    score = np.empty((beats, LONGEST_SPAN))
    for start in range(0, beats, BLOCK_BEATS):
        stop = min(start + BLOCK_BEATS, beats)
        scores = _scores(heard.padded(start, stop), stop - start)
        chord[start:stop] = scores.argmax(axis=2)
        score[start:stop] = scores.max(axis=2)
    score += place[:, None] + np.array(weights.LENGTH)
    total = np.zeros(beats + 1)  # of the best spans before each beat
    chosen = np.zeros(beats + 1, dtype=np.int64)  # the last of them
    lengths = np.arange(1, LONGEST_SPAN + 1)
    for end in range(1, beats + 1):
        span = lengths[:end]
        ways = total[end - span] + score[end - span, span - 1]
        chosen[end] = best = ways.argmax()
        total[end] = ways[best]
    path = np.empty(beats, dtype=np.int64)
    end = beats
    while end:
        start = end - 1 - int(chosen[end])
        path[start:end] = chord[start, chosen[end]]
        end = start
    return path


def _scores(heard: Heard, beats: int) -> np.ndarray:
    """Return the score of each chord in each span from the first beats on: (beats, L, 133)."""

    def sums(values: np.ndarray) -> np.ndarray:
        """Sum values over the spans from every beat: (beats + LONGEST_SPAN, L, ...)."""
        after = np.concatenate([values, np.zeros((LONGEST_SPAN, *values.shape[1:]))])
        parts = [after[shift : shift + len(values)] for shift in range(LONGEST_SPAN)]
        return np.cumsum(np.stack(parts, axis=1), axis=1)

    sounding = sums(heard.sounding)[:beats, :, None]
    every = sums(heard.tones)
    whole = _share(every[:beats], FAINT * np.maximum(sounding, 1))
    half = _share(every, FAINT)
    starts = np.arange(beats)[:, None]
    lengths = np.arange(1, LONGEST_SPAN + 1)
    first, second = lengths // 2, lengths - lengths // 2
    in_both = np.minimum(half[starts, np.maximum(first, 1) - 1], half[starts + first, second - 1])
    in_both = np.where(sounding > 1, in_both, whole)
    features = np.concatenate(
        [
            whole / (whole + PRESENT) * sounding,
            in_both * sounding,
            sums(heard.bass)[:beats],
            np.broadcast_to(heard.first_bass[:beats, None], whole.shape),
            sums(_share(heard.tones, FAINT))[:beats],
        ],
        axis=2,
    )
    scores = np.empty((beats, LONGEST_SPAN, len(CHORDS)))
    scores[:, :, :NONE] = features @ BY_FEATURE + sounding * PER_BEAT + PER_SPAN
    if heard.thin.any():
        absent, key = PRESENT / (whole + PRESENT), heard.key[:beats]
        gain = GAIN[key][:, None] - FOREIGN * (absent @ OUTSIDE[key])
        scores[:, :, :NONE] += heard.thin[:beats, None, None] * sounding * gain
    scores[:, :, NONE] = (
        weights.NONE_PER_BEAT * sounding[:, :, 0]
        + weights.NONE_PER_SILENT_BEAT * sums(heard.silence)[:beats]
    )
    return scores.round(
        9
    )  # the last bits of powers and products depend on the processor, and would decide ties


def _share(weight: np.ndarray, more: np.ndarray | float) -> np.ndarray:
    """Divide the weights of the pitch classes by their total and `more`."""
    return weight / (weight.sum(axis=-1, keepdims=True) + more)


def _by_root(table: dict[str, tuple[int, ...]]) -> np.ndarray:
    """Return the weights of each pitch class for each chord, from those of intervals by quality: (12, 132)."""
    intervals = np.array([table[quality] for quality in QUALITIES]).T / 100
    return np.concatenate([np.roll(intervals, root, axis=0) for root in range(PITCH_CLASSES)], 1)


def _by_quality(table: dict[str, int]) -> np.ndarray:
    """Return the weight of each chord, from those of qualities: (132,)."""
    return np.tile([table[quality] / 100 for quality in QUALITIES], PITCH_CLASSES)


def _by_key() -> tuple[np.ndarray, np.ndarray]:
    """Return what each chord gains in each key, (24, 132), and which of its tones are outside: (24, 12, 132)."""
    gain, outside = [], []
    for scale, gains, exempt in zip(SCALES, GAINS, LEADING_CHORDS, strict=True):
        strange = TONES[:NONE].T & ~np.isin(range(PITCH_CLASSES), scale)[:, None]
        strange &= ~np.isin(CHORDS[:NONE], exempt)
        for tonic in range(PITCH_CLASSES):
            shift = tonic * len(QUALITIES)
            gain.append(np.roll([gains.get(chord, 0) for chord in CHORDS[:NONE]], shift))
            outside.append(np.roll(strange, (tonic, shift), (0, 1)))
    return np.array(gain), np.array(outside, dtype=float)


GAIN, OUTSIDE = _by_key()
BY_FEATURE = np.concatenate(
    [
        _by_root(table)
        for table in (
            weights.PRESENT,
            weights.IN_BOTH_HALVES,
            weights.BASS,
            weights.FIRST_BASS,
            weights.SHARE,
        )
    ]
)
PER_BEAT, PER_SPAN = _by_quality(weights.PER_BEAT), _by_quality(weights.PER_SPAN)
