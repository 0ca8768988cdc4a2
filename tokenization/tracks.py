"""The tracks of a score as people speak of them: by name, by index, in a list."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tokenization.score import Score

LISTED = 8  # names in a sentence


def note_counts(score: Score) -> list[int]:
    """Return how many notes each track has."""
    return np.bincount(score.notes.track, minlength=len(score.tracks)).tolist()


def label(score: Score, index: int) -> str:
    """Return what to call a track."""
    return score.tracks[index].name.strip() or f"track {index}"


def listed(names: Sequence[str]) -> str:
    """Return names as a part of a sentence; of many, the first ones."""
    names = list(names)
    if len(names) > LISTED + 1:
        names[LISTED:] = [f"{len(names) - LISTED} more"]
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


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
