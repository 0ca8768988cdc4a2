"""The contract of a source: which files of a folder are pieces, where they belong, how they are read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tokenization.any_file import read_file
from tokenization.groove.arrange import trios
from tokenization.language import Language
from tokenization.score import Score, Track
from training.data.sources.listing import Listing, Skipped


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A file or folder that is read as a piece."""

    name: str  # its own in the source, and the same wherever the source lies
    path: Path
    split: str
    style: str = ""
    work: str = ""  # its work's name in the source; empty where the source has a split of its own
    metre: str = "4/4"  # where the source says it
    tune: int | None = None  # which one, of a book of tunes in ABC


@dataclass(frozen=True, kw_only=True)
class Found:
    """What a source has for us."""

    pieces: list[Piece]
    skipped: list[Skipped] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


class Source(ABC):
    """A kind of data set that people have."""

    name: str
    title: str  # what it is called
    shape: str  # what its folder holds, to end a sentence
    language: str  # the language it is spelled in, if nobody says otherwise
    licence: str
    style: str | None = None  # that its pieces name in the ensemble language
    by_name = False  # whether the names of works decide what is held out, not how they begin

    @abstractmethod
    def fits(self, listing: Listing) -> bool:
        """Say whether a folder looks like this source."""

    @abstractmethod
    def find(self, listing: Listing, validation: float) -> Found:
        """Return the pieces, with a share held out for validation where the source has no split."""

    def scores(self, piece: Piece, language: Language) -> list[Score]:
        """Read a piece as one or more arranged scores, of which training draws one at a time."""
        return arranged(read(piece), language)

    def works(self, piece: Piece, score: Score) -> list[str]:
        """Return the keys by which a piece's work is known (works.py), from its arranged score."""
        return []


def read(piece: Piece, *, staves: bool = False) -> Score:
    """Read a piece's file; errors call it `it`, since its name stands before them."""
    return read_file(piece.path, name="it", tune=piece.tune, staves=staves)


def arranged(score: Score, language: Language) -> list[Score]:
    """Return a score as a language spells it: each of its trios, or else all of it."""
    if language.family == "groove":
        return trios(score)
    return [language.arrange(score)]


def joined(
    score: Score, groups: Sequence[Sequence[int]], track: Track | None = None
) -> list[Score]:
    """Return an arranged score with each group of its tracks as one, the first of them or a given one.

    Where no group has several, there is nothing to join, and no score.
    """
    groups = [group for group in groups if len(group)]
    if all(len(group) == 1 for group in groups):
        return []
    number = np.zeros(len(score.tracks), dtype=np.int64)
    for place, group in enumerate(groups):
        number[list(group)] = place
    notes = score.notes.replace(track=number[score.notes.track]).sorted()
    tracks = tuple(track or score.tracks[group[0]] for group in groups)
    return [score.replace(notes=notes, tracks=tracks)]
