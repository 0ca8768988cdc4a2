"""The contract of a source: which files of a folder are pieces, where they belong, how they are read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path

from tokenization.any_file import read_file
from tokenization.groove.arrange import trios
from tokenization.language import Language
from tokenization.score import Score
from training.data.sources.listing import Listing, Skipped


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A file or folder that is read as a piece."""

    name: str  # its own in the source, and the same wherever the source lies
    path: Path
    split: str
    style: str = ""
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

    @abstractmethod
    def fits(self, listing: Listing) -> bool:
        """Say whether a folder looks like this source."""

    @abstractmethod
    def find(self, listing: Listing, validation: float) -> Found:
        """Return the pieces, with a share held out for validation where the source has no split."""

    def scores(self, piece: Piece, language: Language) -> list[Score]:
        """Read a piece as one or more arranged scores, of which training draws one at a time."""
        return arranged(read(piece), language)


def read(piece: Piece) -> Score:
    """Read a piece's file; errors call it `it`, since its name stands before them."""
    return read_file(piece.path, name="it", tune=piece.tune)


def arranged(score: Score, language: Language) -> list[Score]:
    """Return a score as a language spells it: each of its trios, or else all of it."""
    if language.family == "groove":
        return trios(score)
    return [language.arrange(score)]
