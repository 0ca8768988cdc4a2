"""Augmentation of bands with new styles, and of songs and bands with more parts.

A band set has a few hundred styles, which a model soon memorises; it then predicts unseen styles badly. A new style has
parts of another piece, which play the chords of the first one. The rhythm of each part is shifted, thinned or
lengthened with a period of one, two or four bars. The chords stay.

No set has songs with a band, and few pieces have more than six parts, as many files of musicians do. So parts of bands
join a piece, again on its chords, and a part may be doubled on another instrument.

N notes of the score.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tokenization.analysis.chords import NONE, QUALITIES, in_steps
from tokenization.analysis.parts import role
from tokenization.ensemble.language import MOST_TRACKS
from tokenization.ensemble.spelling import instrument_of
from tokenization.ensemble.tokens import MOST_VOICES
from tokenization.score import Meters, Notes, Score, Track

# Probabilities of the parts of another piece, and of each change to a part.
OTHER_DRUMS, OTHER_PART = 0.7, 0.5
ADDED_BASS, SECOND_BASS, ADDED_PART = 0.9, 0.1, 0.6  # of a band that joins a piece
WITHOUT_LAST = 0.4  # a song's last part leaves if a band joins
DOUBLED = 0.12
RESTING, RESTS = 0.4, 0.35  # a part that joins rests in some sections; in each of them
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
FAMILY = 8  # programs of a family of General MIDI
FAMILIES = (
    0,
    0,
    0,
    8,
    16,
    24,
    40,
    48,
    56,
    64,
    72,
    80,
    88,
)  # their first programs; several pianos are common
VELOCITY_CHANGE = 20  # at most
SECTIONS = (2, 4, 4, 8)  # bars


def one_metre(score: Score) -> tuple[int, int] | None:
    """Return the metre of a score, or None if it changes."""
    metres = {*zip(score.meters.numerator.tolist(), score.meters.denominator.tolist(), strict=True)}
    return next(iter(metres or {(4, 4)})) if len(metres) < 2 else None


def in_new_style(score: Score, other: Score | None, random: np.random.Generator) -> Score:
    """Return a band's score in a new style, or unchanged without drums or a single metre.

    `other` is another band of the same metre and resolution, whose parts can replace those of the score.
    """
    metre = one_metre(score)
    if metre is None or not score.on_drums.any():
        return score
    bar, tracks, parts = _bar_ticks(score, metre), list(score.tracks), []
    for number, track in enumerate(score.tracks):
        band, chosen = score, number
        if other is not None and random.random() < (OTHER_DRUMS if track.is_drum else OTHER_PART):
            alike = [n for n, theirs in enumerate(other.tracks) if role(theirs) == role(track)]
            if alike:
                band, chosen = other, int(random.choice(alike))
        tracks[number], notes = _varied(band, chosen, score, bar, random)
        parts.append(notes.replace(track=np.full(len(notes), number)))
    return score.replace(notes=Notes.concatenate(parts).merged(), tracks=tuple(tracks))


def with_bands(score: Score, bands: list[Score], random: np.random.Generator) -> Score:
    """Add parts of bands of the same metre and resolution to a score of one metre.

    Drums join a score without drums. Some of its own parts may be doubled on another instrument.
    """
    metre = one_metre(score)
    assert metre is not None
    bar, tracks, parts = _bar_ticks(score, metre), list(score.tracks), [score.notes]

    def join(track: Track, notes: Notes) -> None:
        voices = sum(instrument_of(one) == instrument_of(track) for one in tracks)
        if len(tracks) < MOST_TRACKS and voices < MOST_VOICES and len(notes):
            parts.append(notes.replace(track=np.full(len(notes), len(tracks))))
            tracks.append(track)

    for number, track in enumerate(score.tracks):
        if not track.is_drum and random.random() < DOUBLED:
            notes = score.notes[score.notes.track == number]
            octave = int(random.choice([-12, 0, 0, 12]))
            notes = notes[(notes.pitch + octave >= 0) & (notes.pitch + octave < 128)]
            doubling = _vary_loudness(notes.replace(pitch=notes.pitch + octave), random)
            join(_on_another(track, random), _with_rests(doubling, bar, random))
    for band in bands:
        roles = {role(track) for track in tracks}
        bass = SECOND_BASS if "bass" in roles else ADDED_BASS
        chances = {"drums": float("drums" not in roles), "bass": bass, "other": ADDED_PART}
        for number, track in enumerate(band.tracks):
            if random.random() < chances[role(track)]:
                track, notes = _varied(band, number, score, bar, random)
                if role(track) == "other":
                    notes = _with_rests(notes, bar, random)
                join(track, notes)
    last = len(score.tracks) - 1
    leaves = last and len(parts) > 3 and not score.on_drums.any()
    if leaves and random.random() < WITHOUT_LAST:
        parts[0] = score.notes[score.notes.track != last]
    return score.replace(notes=Notes.concatenate(parts).merged(), tracks=tuple(tracks))


def in_shorter_bars(score: Score, metre: tuple[int, int]) -> Score | None:
    """Return a piece of one metre without the last beats of its bars, or None if they are shorter already."""
    now = one_metre(score)
    if now is None or now == metre:
        return None if now is None else score
    old, new = _bar_ticks(score, now), _bar_ticks(score, metre)
    if new > old or now[1] != metre[1]:
        return None
    notes = score.notes[score.notes.onset_ticks % old < new]
    onset = notes.onset_ticks % old
    # A note that lasts over the bar line ends as far after it as before.
    bars, rest = np.divmod(onset + notes.duration_ticks, old)
    duration = np.maximum(1, bars * new + np.minimum(rest, new) - onset)
    notes = notes.replace(
        onset_ticks=notes.onset_ticks // old * new + onset, duration_ticks=duration
    )
    markers = {m.onset_ticks // old * new + min(m.onset_ticks % old, new): m for m in score.markers}
    return score.replace(
        notes=notes,
        meters=Meters(*np.array([[0, *metre]]).T),
        markers=tuple(replace(marker, onset_ticks=tick) for tick, marker in markers.items()),
    )


def _bar_ticks(score: Score, metre: tuple[int, int]) -> int:
    return score.ticks_per_beat * 4 * metre[0] // metre[1]


def _varied(
    band: Score, number: int, score: Score, bar: int, random: np.random.Generator
) -> tuple[Track, Notes]:
    """Return a part of a band, varied, repeated to the end of a score and moved onto its chords."""
    track, beat = band.tracks[number], band.ticks_per_beat
    notes = band.notes[band.notes.track == number]
    if not len(notes):
        return track, notes
    if track.is_drum:
        varied = _vary_drums(notes, bar, beat, random)
    else:
        varied, kept = _vary_part(notes, bar, beat, random)
        notes = notes[kept]
    row = np.arange(len(varied))
    onset = varied.onset_ticks
    if band is not score:
        span = (int(band.notes.onset_ticks.max()) // bar + 1) * bar
        rounds = -(-score.end_ticks // span)
        row, onset = np.tile(row, rounds), (onset + span * np.arange(rounds)[:, None]).ravel()
    played = varied[row].replace(onset_ticks=onset)
    played = _vary_loudness(played[onset < score.end_ticks], random)
    if not track.is_drum and (band is not score or (varied.onset_ticks != notes.onset_ticks).any()):
        chord = _chord_at(band, notes.onset_ticks)[row][onset < score.end_ticks]
        played = _onto_chords(played, chord, score)
    if role(track) == "other" and random.random() < REPLACED:
        track = _on_another(track, random)
    return track, played


def _on_another(track: Track, random: np.random.Generator) -> Track:
    """Return a track with another instrument."""
    return replace(track, program=int(random.choice(FAMILIES) + random.integers(FAMILY)))


def _with_rests(notes: Notes, bar: int, random: np.random.Generator) -> Notes:
    """Return a part that may rest in some sections."""
    if random.random() >= RESTING:
        return notes
    section = notes.onset_ticks // (bar * int(random.choice(SECTIONS)))
    return notes[(random.random(section.max(initial=0) + 1) >= RESTS)[section]]


def _onto_chords(notes: Notes, chord: np.ndarray, score: Score) -> Notes:
    """Move notes from their chords onto those of a score, and repeat long notes where its chord changes."""
    ticks, target = _chords(score)
    latest = np.maximum(notes.onset_ticks, notes.end_ticks - score.ticks_per_beat // 2)
    first = np.searchsorted(ticks, notes.onset_ticks, "right") - 1
    repeats = np.searchsorted(ticks, latest, "right") - first
    row = np.repeat(np.arange(len(notes)), repeats)
    segment = np.arange(len(row)) - np.repeat(np.cumsum(repeats) - repeats - first, repeats)
    notes, old, new = notes[row], chord[row], target[segment]
    onset = np.maximum(notes.onset_ticks, ticks[segment])
    end = np.minimum(notes.end_ticks, np.append(ticks, np.iinfo(np.int64).max)[segment + 1])
    # Without a chord there are no roots to move between, so pitches stay.
    fits = (old == NONE) == (new == NONE)
    old, new = np.where(old == NONE, 0, old), np.where(new == NONE, 0, new)
    (root, quality), (new_root, new_quality) = (np.divmod(c, len(QUALITIES)) for c in (old, new))
    degree = (notes.pitch - root) % 12
    pitch = notes.pitch + (new_root - root + 6) % 12 - 6 + CHANGES[quality, new_quality, degree]
    fits &= (pitch >= 0) & (pitch < 128)
    return notes.replace(onset_ticks=onset, duration_ticks=end - onset, pitch=pitch)[fits]


def _changes() -> np.ndarray:
    """Return by how many semitones a note above the root moves from one chord quality to another: (11, 11, 12)."""
    changes = np.zeros((len(QUALITIES), len(QUALITIES), 12), dtype=np.int64)
    for old, tones in enumerate(QUALITIES.values()):
        for new, others in enumerate(QUALITIES.values()):
            for degree, tone in enumerate(tones):
                nearest = min((*others, 12), key=lambda other: abs(other - tone))
                target = others[degree] if degree < len(others) else nearest
                changes[old, new, tone] = target - tone
    return changes


CHANGES = _changes()


def _chords(score: Score) -> tuple[np.ndarray, np.ndarray]:
    """Return the ticks and indices of a score's chords from tick 0 on, without repeated chords."""
    ticks, chord = in_steps(score, score.ticks_per_beat)
    if not len(ticks) or ticks[0] > 0:
        ticks, chord = np.append(0, ticks), np.append(NONE, chord)
    changes = np.diff(chord, prepend=-1) != 0
    return ticks[changes], chord[changes]


def _chord_at(score: Score, onset_ticks: np.ndarray) -> np.ndarray:
    """Return the index of the chord at each tick."""
    ticks, chord = _chords(score)
    return chord[np.searchsorted(ticks, onset_ticks, "right") - 1]


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


def _vary_part(
    notes: Notes, bar: int, beat: int, random: np.random.Generator
) -> tuple[Notes, np.ndarray]:
    """Shift a part's rhythm within the bar, thin it, and change its durations and octave.

    Returns the notes that are left, and which of the N notes they are.
    """
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
    return notes.replace(duration_ticks=duration, pitch=pitch)[kept], kept


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
