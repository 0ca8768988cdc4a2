"""The parts of a score, and which of them are the bass, the drums and the busiest other.

A part is a track, or several of one name and one family of instruments. Drums are recognised by their
channel, else by their name, else by what they play; a bass by its instrument, its name, its
register, and by playing one note at a time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from tokenization.score import Notes, Score
from tokenization.wording import listed

# The tracks of a score as people speak of them: by name or by index.


def note_counts(score: Score) -> list[int]:
    """Return how many notes each track has."""
    return np.bincount(score.notes.track, minlength=len(score.tracks)).tolist()


def sources_of(score: Score, tracks: Iterable[int]) -> tuple[int, ...]:
    """Return the tracks of the file's score that some tracks play together."""
    return tuple(source for index in tracks for source in score.tracks[index].sources)


def label(score: Score, index: int) -> str:
    """Return what to call a track."""
    return score.tracks[index].name.strip() or f"track {index}"


def find_tracks(score: Score, wanted: int | str) -> list[int]:
    """Return the one of an index, or the tracks of a name; digits are a name if there is one so."""
    name = str(wanted).strip().casefold()
    found = [i for i, track in enumerate(score.tracks) if name == track.name.strip().casefold()]
    if isinstance(wanted, str) and name and found:
        return found
    if name.isdecimal() and int(name) < len(score.tracks):
        return [int(name)]
    there = listed([f"{i} ({label(score, i)})" for i in range(len(score.tracks))])
    raise ValueError(f"there is no track {wanted!r}; the score has {there}")


def chosen_tracks(score: Score, wanted: int | str | Iterable[int | str]) -> list[int]:
    """Return the tracks of these indices and names that have notes, in order."""
    wanted = [wanted] if isinstance(wanted, int | str) else wanted
    counts = note_counts(score)
    found = {index for name in wanted for index in find_tracks(score, name) if counts[index]}
    if not found:
        raise ValueError("the chosen tracks hold no notes; choose others, or leave the choice open")
    return sorted(found)


BASS_NAME = re.compile(r"bass(?!oon|\s*drum|\s*clar)|\b(basse|bajo|baixo)\b|ベース", re.I)
DRUM_NAME = re.compile(
    r"(?<!steel )drum|percussion|\bkit\b|schlagzeug|batter(ie|ia|y)|bateria|ドラム", re.I
)
FAMILY_PROGRAMS = 8  # how many programs of General MIDI are a family of instruments
BASS_PROGRAMS = range(32, 40)
EFFECT_PROGRAMS = range(120, 128)  # birds, helicopters
LOW_PITCH = 52  # E3: at least half the notes of a bass lie below, or there
KICKS, SNARES = (35, 36), (37, 38, 39, 40)
CYMBALS = (42, 44, 46, 49, 51, 53, 55, 57, 59)


@dataclass(frozen=True, kw_only=True)
class Part:
    """Tracks that play together as one, and what tells their role."""

    tracks: tuple[int, ...]
    label: str
    program: int
    is_drum: bool
    notes: int
    median_pitch: float
    one_at_a_time: float  # the share of notes that begin while no other one of the part sounds
    kit_share: float  # how much of it is a drum kit; 0 where nothing speaks for one


def parts_of(score: Score) -> list[Part]:
    """Return the parts that have notes, in the order of their first tracks."""
    groups: dict[tuple, list[int]] = {}
    playing = np.bincount(score.notes.track, minlength=len(score.tracks)) > 0
    for index, track in enumerate(score.tracks):
        if playing[index]:
            name = track.name.strip().casefold() or index
            family = track.program // FAMILY_PROGRAMS
            groups.setdefault((name, family, track.is_drum), []).append(index)
    return [_part(score, tuple(tracks)) for tracks in groups.values()]


def _part(score: Score, tracks: tuple[int, ...]) -> Part:
    notes = score.notes[np.isin(score.notes.track, tracks)]
    first = score.tracks[tracks[0]]
    return Part(
        tracks=tracks,
        label=label(score, tracks[0]),
        program=first.program,
        is_drum=first.is_drum,
        notes=len(notes),
        median_pitch=float(np.median(notes.pitch)),
        one_at_a_time=_one_at_a_time(notes, score.ticks_per_beat),
        kit_share=_kit_share(notes, score.ticks_per_beat),
    )


def _one_at_a_time(notes: Notes, ticks_per_beat: int) -> float:
    order = np.argsort(notes.onset_ticks, kind="stable")
    onset, end = notes.onset_ticks[order], notes.end_ticks[order]
    legato = ticks_per_beat / 4  # so long may a note last into the next one
    together = np.diff(onset) <= ticks_per_beat / 16
    overlap = np.maximum.accumulate(end)[:-1] > onset[1:] + legato
    return 1 - float(np.count_nonzero(together | overlap)) / len(notes)


def _kit_share(notes: Notes, ticks_per_beat: int) -> float:
    """Return the share of kicks, snares and cymbals, by General MIDI's map of drum pitches.

    Any melody has such pitches. A kit has all three and strikes them together, or its notes are
    mere clicks; anything else counts as 0.
    """
    shares = [float(np.isin(notes.pitch, pitches).mean()) for pitches in (KICKS, SNARES, CYMBALS)]
    full_kit = min(shares) >= 0.03 and sum(shares) >= 0.8
    clicks = 16 * np.median(notes.duration_ticks) <= ticks_per_beat
    together = full_kit and _one_at_a_time(notes, ticks_per_beat) < 0.9
    return sum(shares) if together or (clicks and sum(shares) >= 0.2) else 0.0


def find_drums(parts: Sequence[Part]) -> tuple[list[Part], str]:
    """Return the drums and how they were recognised: all parts on a drum channel, or else by name."""
    if flagged := [part for part in parts if part.is_drum]:
        return flagged, "on the drum channel"
    if named := [part for part in parts if DRUM_NAME.search(part.label)]:
        return named, "by name"
    playing = [part for part in parts if part.kit_share]
    best = sorted(playing, key=lambda part: -part.kit_share)[:1]
    return best, "by its pitches, those of a drum kit"


def find_bass(parts: Sequence[Part]) -> tuple[list[Part], str]:
    """Return the part that is most like a bass and how it was recognised, or none."""
    candidates = melodic(parts)
    lowest = min((part.median_pitch for part in candidates), default=0.0)
    signs = [_signs_of_bass(part, lowest) for part in candidates]
    points = [sum(weight for weight, _ in found) for found in signs]
    if max(points, default=0) < 4:
        return [], ""
    best = max(range(len(candidates)), key=lambda i: (points[i], -candidates[i].median_pitch))
    return [candidates[best]], ", ".join(reason for _, reason in signs[best])


def _signs_of_bass(part: Part, lowest_pitch: float) -> list[tuple[int, str]]:
    signs = (
        (part.program in BASS_PROGRAMS, 3, "a bass instrument"),
        (BASS_NAME.search(part.label) is not None, 3, "by name"),
        (part.median_pitch == lowest_pitch, 2, "the lowest"),
        (part.median_pitch <= LOW_PITCH, 1, "low"),
        (part.one_at_a_time >= 0.6, 1, "one note at a time"),
    )
    return [(weight, reason) for holds, weight, reason in signs if holds]


def find_other(parts: Sequence[Part]) -> tuple[list[Part], str]:
    """Return the busiest part that is neither percussion nor a sound effect, or none."""
    busiest = sorted(melodic(parts), key=lambda part: -part.notes)
    return busiest[:1], "the busiest of the rest" if len(busiest) > 1 else "the only one left"


def melodic(parts: Sequence[Part]) -> list[Part]:
    """Return the parts that are neither percussion nor sound effects."""
    return [
        part
        for part in parts
        if not part.is_drum
        and part.program not in EFFECT_PROGRAMS
        and not DRUM_NAME.search(part.label)
    ]
