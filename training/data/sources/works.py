"""Which pieces are one work, and the split of each: editions, movements and arrangements of a work go into one.

A work is known by keys: its composer and title where a source knows them, and its opening, which is the same in
every key. Pieces that share a key are one work, and so are those that share one with a third.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Sequence

import numpy as np

from tokenization.score import Score, steps_of
from training.data.sources.source import split_of

STEPS_PER_BEAT = 24
OPENING, OPENING_PITCHES = 16, 24  # onsets of the highest line, with their rhythm and without
FEWEST_PITCHES = 5  # in an opening, which is as long as it takes: a repeated note is nobody's


def opening(score: Score) -> list[str]:
    """Return the keys of how a piece begins: its highest line with its rhythm, and further on without."""
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
    """Return the key of a composer and a title, however they are written; nothing where one is not known."""
    if not _words(composer) or not _words(name):
        return []
    return [f"title {' '.join(sorted(_words(composer)))}: {' '.join(_words(name))}"]


def _words(text: str) -> list[str]:
    plain = unicodedata.normalize("NFKD", text.casefold())
    return re.findall(r"\w+", "".join(c for c in plain if not unicodedata.combining(c)))


def split_works(
    names: Sequence[str], works: Sequence[Sequence[str]], share: float, *, by_name: bool
) -> list[str]:
    """Return the split of each piece, by its name in its source and the keys of its work; a share is held out twice.

    A hash decides: of the work's first key, so that it is the same in every set, or else of its name.
    """
    from scipy.cluster.hierarchy import DisjointSet  # takes a second to import

    known = [[f"name {name}", *keys] for name, keys in zip(names, works, strict=True)]
    joined = DisjointSet(key for keys in known for key in keys)
    for named, *keys in known:
        for key in keys:
            joined.merge(named, key)
    groups = [joined[named] for named, *_ in known]
    first: dict[str, str] = {}
    for group, name, keys in zip(groups, names, works, strict=True):
        own = name if by_name or not keys else keys[0]
        first[group] = min(first.get(group, own), own)
    # The names that earlier languages held out for validation are tested on: no model of theirs learned from them.
    order = ("test", "validation")
    return [split_of(first[group], dict.fromkeys(order, share)) for group in groups]
