"""Augmentation of bands with new styles, so that a model learns to follow the style of its prompt.

A band set has a few hundred styles, which a model soon memorises; it then predicts unseen styles badly. A new style has
the drums of another piece. The rhythm of each other part is shifted, thinned or lengthened with a period of one, two or
four bars. The chords stay.

N notes of the score, in bars of B ticks.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tokenization.score import Notes, Score

# Probabilities of the drums of another piece, and of each change to a part.
OTHER_DRUMS = 0.7
SWAPPED, WITHOUT_HITS = 0.5, 0.3  # drums
SHIFTED, THINNED, RESCALED, REPLACED, RAISED, UNEVEN = 0.4, 0.4, 0.3, 0.3, 0.2, 0.3
PERIODS = (1, 1, 2, 4)  # bars after which a change repeats
# Drums that are exchanged for one another: cymbals, toms, percussion, snares.
GROUPS = (
    (42, 44, 46, 51, 53, 54, 59, 69, 70, 82),
    (41, 43, 45, 47, 48, 50),
    (56, *range(60, 69), 73, 74, 75, 76, 77, 78, 79),
    (37, 38, 39, 40),
)
BASSES = range(32, 40)  # programs that are not replaced
FAMILY = 8  # programs of a family of General MIDI
FAMILIES = (0, 8, 16, 24, 40, 48, 56, 64, 72, 80, 88)  # their first programs
VELOCITY_CHANGE = 20  # at most


def one_metre(score: Score) -> tuple[int, int] | None:
    """Return the metre of a score, or None if it changes."""
    metres = {*zip(score.meters.numerator.tolist(), score.meters.denominator.tolist(), strict=True)}
    return next(iter(metres or {(4, 4)})) if len(metres) < 2 else None


def in_new_style(score: Score, drummer: Score | None, random: np.random.Generator) -> Score:
    """Return a band's score in a new style, or unchanged without drums or a single metre.

    `drummer` is another score of the same metre and resolution, whose drums can replace those of the band.
    """
    metre = one_metre(score)
    if metre is None or not score.on_drums.any():
        return score
    bar = score.ticks_per_beat * 4 * metre[0] // metre[1]
    if drummer is not None and random.random() < OTHER_DRUMS:
        score = _with_drums(score, drummer, bar)
    parts, tracks = [], list(score.tracks)
    for number, track in enumerate(score.tracks):
        notes = score.notes[score.notes.track == number]
        if len(notes):
            vary = _vary_drums if track.is_drum else _vary_part
            notes = vary(notes, bar, score.ticks_per_beat, random)
            parts.append(_vary_loudness(notes, random))
        if not track.is_drum and track.program not in BASSES and random.random() < REPLACED:
            program = int(random.choice(FAMILIES) + random.integers(FAMILY))
            tracks[number] = replace(track, program=program)
    return score.replace(notes=Notes.concatenate(parts).merged(), tracks=tuple(tracks))


def _with_drums(score: Score, drummer: Score, bar: int) -> Score:
    """Replace the drums of a score by those of another one, repeated to its end."""
    hits = drummer.notes[drummer.on_drums]
    if not len(hits):
        return score
    span, end = (int(hits.onset_ticks.max()) // bar + 1) * bar, score.end_ticks
    drums = int(score.notes.track[score.on_drums][0])
    rounds = [
        hits.replace(onset_ticks=hits.onset_ticks + start, track=np.full(len(hits), drums))
        for start in range(0, end, span)
    ]
    played = Notes.concatenate(rounds)
    played = played[played.onset_ticks < end]
    return score.replace(notes=Notes.concatenate([score.pitched, played]).sorted())


def _vary_drums(notes: Notes, bar: int, beat: int, random: np.random.Generator) -> Notes:
    """Exchange similar drums, and remove the hits of one drum at some places in the bar."""
    pitch = notes.pitch.copy()
    if random.random() < SWAPPED:
        for group in GROUPS:
            if random.random() < SWAPPED:
                new = np.arange(128)
                new[list(group)] = random.permutation(group)
                pitch = new[pitch]
    kept = np.full(len(notes), True)
    if random.random() < WITHOUT_HITS:
        places = _places(notes, bar, beat // 2, 0.2, random)
        kept = ~((pitch == random.choice(np.unique(pitch))) & places)
        if not kept.any():
            kept[:] = True
    return notes.replace(pitch=pitch)[kept]


def _vary_part(notes: Notes, bar: int, beat: int, random: np.random.Generator) -> Notes:
    """Shift a part's rhythm within the bar, thin it, and change its durations and octave."""
    onset, duration, pitch = notes.onset_ticks, notes.duration_ticks, notes.pitch
    if random.random() < SHIFTED:
        period = int(random.choice(PERIODS))
        shifts = random.integers(0, max(1, 2 * bar // beat), period) * (beat // 2)
        if random.random() < 0.5:
            shifts[:] = shifts[0]
        onset = onset // bar * bar + (onset + shifts[onset // bar % period]) % bar
    notes = notes.replace(onset_ticks=onset)
    kept = np.full(len(notes), True)
    if random.random() < THINNED:
        unit = beat // 2 if random.random() < 0.7 else beat // 4
        kept = ~_places(notes, bar, unit, 0.3, random)
        if kept.mean() < 0.3:
            kept[:] = True
    if random.random() < RESCALED:
        scaled = (duration * random.choice([0.5, 0.7, 1.5])).astype(np.int64)
        duration = np.maximum(beat // 12, scaled)
    if random.random() < RAISED:
        raised = pitch + random.choice([-12, 12])
        pitch = raised if raised.min() >= 24 and raised.max() <= 100 else pitch
    return notes.replace(duration_ticks=duration, pitch=pitch)[kept]


def _places(
    notes: Notes, bar: int, unit: int, chance: float, random: np.random.Generator
) -> np.ndarray:
    """Draw places in the bar, with a period in bars, and return which notes start there: (N,) bool."""
    period = int(random.choice(PERIODS))
    chosen = random.random((period, bar // unit + 1)) < chance
    onset = notes.onset_ticks
    return chosen[onset // bar % period, onset % bar // unit]


def _vary_loudness(notes: Notes, random: np.random.Generator) -> Notes:
    """Change the velocities of a part by a common amount, sometimes with noise."""
    velocity = notes.velocity + random.integers(-VELOCITY_CHANGE, VELOCITY_CHANGE + 1)
    if random.random() < UNEVEN:
        noise = random.normal(0, VELOCITY_CHANGE / 3, len(notes))
        velocity = velocity + np.rint(noise).astype(np.int64)
    return notes.replace(velocity=np.clip(velocity, 1, 127))
