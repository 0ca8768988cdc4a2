"""Splits by works, so that all editions, movements and arrangements of a work are in the same split.

A work is identified by keys: its composer and title, if the source has them, and its opening, independent of
transposition. Pieces that share a key, directly or through other pieces, are one work.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Sequence

import numpy as np

from tokenization.score import Score, steps_of
from training.data.sources.source import place_of, split_of

STEPS_PER_BEAT = 24
OPENING, OPENING_PITCHES = 16, 24  # least onsets of the highest line, with rhythm and without
FEWEST_PITCHES = 5  # in an opening, which is extended to reach it: repeated notes identify no work


def opening(score: Score) -> list[str]:
    """Return the keys of a piece's opening: the intervals of its highest line with rhythm, and longer without."""
    notes = score.pitched
    onset = steps_of(notes.onset_ticks, score.ticks_per_beat, STEPS_PER_BEAT)
    order = np.lexsort((notes.pitch, onset))
    onset, pitch = onset[order], notes.pitch[order]
    highest = np.diff(onset, append=-1) != 0
    onset, pitch = onset[highest], pitch[highest]
    _, first = np.unique(pitch, return_index=True)
    if len(pitch) < OPENING or len(first) < FEWEST_PITCHES:
        return []
    enough = int(np.sort(first)[FEWEST_PITCHES - 1]) + 1
    keys = []
    for name, least, rhythm in (
        ("line", OPENING, np.diff(onset)),
        ("pitches", OPENING_PITCHES, np.diff(onset) * 0),
    ):
        steps = np.stack([np.diff(pitch), rhythm])[:, : max(least, enough) - 1].astype("<i8")
        keys.append(f"{name} {hashlib.sha256(steps.tobytes()).hexdigest()[:16]}")
    return keys


def title(composer: str, name: str) -> list[str]:
    """Return the key of a composer and a title, normalised; none if either is missing."""
    if not _words(composer) or not _words(name):
        return []
    return [f"title {' '.join(sorted(_words(composer)))}: {' '.join(_words(name))}"]


def _words(text: str) -> list[str]:
    plain = unicodedata.normalize("NFKD", text.casefold())
    return re.findall(r"\w+", "".join(c for c in plain if not unicodedata.combining(c)))


def _groups(keys: Sequence[Sequence[str]]) -> list[str]:
    """Return for each piece, given its keys, a key of its group: pieces with a common key are in one group."""
    above: dict[str, str] = {}  # the keys of a group are a tree

    def root(key: str) -> str:
        while (higher := above.setdefault(key, key)) != key:
            above[key] = above[higher]  # shortens the way of the next search
            key = higher
        return key

    for first, *others in keys:
        for key in others:
            above[root(key)] = root(first)
        root(first)
    return [root(first) for first, *_ in keys]


def split_works(
    names: Sequence[str], works: Sequence[Sequence[str]], fraction: float, *, by_name: bool,
    exactly: bool = False,
) -> list[str]:  # fmt: skip
    """Return the split of each piece, given its name in the source and its work's keys.

    The fraction is held out for validation and for test. A work's split follows from a hash: of its first key, so that
    it is the same in every set, or of its name. `exactly` holds out just the fraction of the works, at least one, for
    validation alone.
    """
    groups = _groups([[f"name {name}", *keys] for name, keys in zip(names, works, strict=True)])
    first: dict[str, str] = {}
    for group, name, keys in zip(groups, names, works, strict=True):
        own = name if by_name or not keys else keys[0]
        first[group] = min(first.get(group, own), own)
    if exactly:
        order = sorted(first, key=lambda group: place_of(first[group]))
        held_out = {*order[: max(1, round(fraction * len(order)))]}
        return ["validation" if group in held_out else "train" for group in groups]
    # Test first: it then has the names that sets in other languages hold out for validation, so that no model of
    # theirs was trained on them.
    order = ("test", "validation")
    return [split_of(first[group], dict.fromkeys(order, fraction)) for group in groups]
