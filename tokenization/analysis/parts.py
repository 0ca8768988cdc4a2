"""Find the parts of a score, and among them the drums, the bass and the busiest other part.

A part is one track, or several with the same name and instrument family. Drums are recognised by their channel, else by
their name; a bass by its instrument, name and register, and because it is monophonic.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tokenization.score import Notes, Score, Track
from tokenization.wording import Remark, listed


def note_counts(score: Score) -> list[int]:
    """Return the number of notes of each track."""
    return np.bincount(score.notes.track, minlength=len(score.tracks)).tolist()


def regrouped(score: Score, groups: Sequence[tuple[Track, Sequence[int]]]) -> Score:
    """Return a score without pedals, with a track for each group of its tracks; the others are left out."""
    number = np.full(len(score.tracks), -1)
    tracks = []
    for index, (track, members) in enumerate(groups):
        number[[*members]] = index
        sources = tuple(source for member in members for source in score.tracks[member].sources)
        tracks.append(replace(track, sources=sources))
    notes = score.notes.replace(track=number[score.notes.track])
    return score.replace(notes=notes[notes.track >= 0].sorted(), tracks=tuple(tracks))


def remarks_on_others(score: Score, chosen: Iterable[int]) -> list[str]:
    """Return a remark on the tracks with notes that are not among the chosen ones, if there are any."""
    kept = {*chosen}
    others = [i for i, notes in enumerate(note_counts(score)) if notes and i not in kept]
    names = listed([label(score, index) for index in others])
    return [Remark(f"Left out: {names}.")] if others else []


def label(score: Score, index: int) -> str:
    """Return the name of a track, or its number if it has none."""
    return score.tracks[index].name.strip() or f"track {index}"


def find_tracks(score: Score, wanted: int | str) -> list[int]:
    """Return the tracks with a name, or the one with an index. A name made of digits takes precedence."""
    name = str(wanted).strip().casefold()
    found = [i for i, track in enumerate(score.tracks) if name == track.name.strip().casefold()]
    if isinstance(wanted, str) and name and found:
        return found
    if name.isdecimal() and int(name) < len(score.tracks):
        return [int(name)]
    tracks = listed([f"{i} ({label(score, i)})" for i in range(len(score.tracks))])
    raise ValueError(f"there is no track {wanted!r}; the score has {tracks}")


def chosen_tracks(score: Score, wanted: int | str | Iterable[int | str]) -> list[int]:
    """Return the tracks with these indices and names that have notes, in ascending order."""
    wanted = [wanted] if isinstance(wanted, int | str) else wanted
    counts = note_counts(score)
    found = {index for name in wanted for index in find_tracks(score, name) if counts[index]}
    if not found:
        raise ValueError(
            "the chosen tracks have no notes; choose others, or let the program choose"
        )
    return sorted(found)


BASS_NAME = re.compile(r"bass(?!oon|\s*drum|\s*clar)|\b(basse|bajo|baixo)\b|ベース", re.I)
DRUM_NAME = re.compile(
    r"(?<!steel )drum|percussion|\bkit\b|schlagzeug|batter(ie|ia|y)|bateria|ドラム", re.I
)
FAMILY_PROGRAMS = 8  # programs per instrument family of General MIDI
BASS_PROGRAMS = range(32, 40)
EFFECT_PROGRAMS = range(115, 128)  # woodblocks, birds: pitches select sounds
LOW_PITCH = 52  # E3; the median pitch of a bass is at most this


def role(track: Track) -> str:
    """Return the role of a track in a band: bass, drums or other."""
    if track.is_drum:
        return "drums"
    return "bass" if track.program in BASS_PROGRAMS else "other"


@dataclass(frozen=True, kw_only=True)
class Part:
    """Tracks that form one part, with the features that reveal its role."""

    tracks: tuple[int, ...]
    label: str
    program: int
    is_drum: bool
    notes: int
    median_pitch: float
    monophony: float  # the fraction of notes that start while no other note of the part sounds


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
        monophony=_monophony(notes, score.ticks_per_beat),
    )


def _monophony(notes: Notes, ticks_per_beat: int) -> float:
    order = np.argsort(notes.onset_ticks, kind="stable")
    onset, end = notes.onset_ticks[order], notes.end_ticks[order]
    legato = ticks_per_beat / 4  # tolerated overlap with the next note
    together = np.diff(onset) <= ticks_per_beat / 16
    overlap = np.maximum.accumulate(end)[:-1] > onset[1:] + legato
    return 1 - float(np.count_nonzero(together | overlap)) / len(notes)


def find_drums(parts: Sequence[Part]) -> list[Part]:
    """Return the drum parts: those on the drum channel, or else those with the name of drums."""
    flagged = [part for part in parts if part.is_drum]
    return flagged or [part for part in parts if DRUM_NAME.search(part.label)]


def find_bass(parts: Sequence[Part]) -> list[Part]:
    """Return the most probable bass, if any."""
    candidates = melodic(parts)
    lowest = min((part.median_pitch for part in candidates), default=0.0)
    points = {
        index: 3 * (part.program in BASS_PROGRAMS)
        + 3 * (BASS_NAME.search(part.label) is not None)
        + 2 * (part.median_pitch == lowest)
        + (part.median_pitch <= LOW_PITCH)
        + (part.monophony >= 0.6)
        for index, part in enumerate(candidates)
    }
    if max(points.values(), default=0) < 4:
        return []
    best = max(points, key=lambda index: (points[index], -candidates[index].median_pitch))
    return [candidates[best]]


def find_other(parts: Sequence[Part]) -> list[Part]:
    """Return the busiest part, if any, that is neither percussion nor a sound effect."""
    return sorted(melodic(parts), key=lambda part: -part.notes)[:1]


def melodic(parts: Sequence[Part]) -> list[Part]:
    """Return the parts that are neither percussion nor sound effects; a name of drums counts if others are left."""
    found = [p for p in parts if not p.is_drum and p.program not in EFFECT_PROGRAMS]
    return [part for part in found if not DRUM_NAME.search(part.label)] or found
