"""The tracks of a score as people speak of them: by name or by index."""

from __future__ import annotations

import numpy as np

from tokenization.score import Score
from tokenization.wording import listed


def note_counts(score: Score) -> list[int]:
    """Return how many notes each track has."""
    return np.bincount(score.notes.track, minlength=len(score.tracks)).tolist()


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
