"""The interface of a source: which files of a folder are pieces, their splits, and how they are read."""

from __future__ import annotations

import hashlib
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from tokenization.analysis.parts import note_counts, regrouped
from tokenization.formats import ENDINGS, MIDI_ENDINGS, read_file
from tokenization.groove.language import trios
from tokenization.language import Language
from tokenization.prepared import SPLITS
from tokenization.score import Score, Track, sustained


def place_of(name: str) -> float:
    """Return a number from 0 to 1 by the hash of a name."""
    digest = hashlib.sha256(name.encode("utf-8", "surrogateescape")).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def split_of(name: str, fractions: Mapping[str, float]) -> str:
    """Return the split of a name by its hash, so that adding files moves no piece to another split.

    The fractions are those of the held-out splits; their order matters.
    """
    place = place_of(name)
    for split, fraction in fractions.items():
        if place < fraction:
            return split
        place -= fraction
    return "train"


def check_styles(pieces: Iterable[tuple[str, str]]) -> None:
    """Raise ValueError if a style is in two splits, given (style, split) pairs."""
    seen: dict[str, str] = {}
    for style, split in pieces:
        if style and seen.setdefault(style, split) != split:
            both = " and ".join(name for name in SPLITS if name in {split, seen[style]})
            raise ValueError(
                f"the style {style} is in both {both}, so held-out styles would not be new; "
                "move its files into one of them"
            )


@dataclass(frozen=True)
class Skipped:
    """A file or folder that is left out of the prepared set, and the reason."""

    name: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Listing:
    """All files below a folder in a fixed order, except hidden ones and those behind links to folders."""

    root: Path
    files: tuple[str, ...]  # with forward slashes

    @property
    def midi_files(self) -> list[str]:
        """The files with a MIDI extension."""
        return [file for file in self.files if file.lower().endswith(MIDI_ENDINGS)]

    @property
    def music_files(self) -> list[str]:
        """The files with a MIDI, MusicXML or ABC extension."""
        return [file for file in self.files if file.lower().endswith(ENDINGS)]

    def path(self, file: str) -> Path:
        """Return the path of a file."""
        return self.root / file

    def piece(self, file: str, split: str, **more: Any) -> Piece:
        """Return a piece named after its file."""
        return Piece(name=printable(file), path=self.path(file), split=split, **more)


def list_files(root: Path) -> Listing:
    """Return the files below a folder; raises OSError if one of its folders cannot be read."""
    if not root.exists():
        raise FileNotFoundError(f"there is no folder or archive {root} to read music from")
    if not root.is_dir():
        raise ValueError(
            f"{root} is neither a folder nor an archive; give one that contains the music"
        )
    files = []
    for folder, folders, names in os.walk(root, onerror=_raise):
        folders[:] = [name for name in folders if not name.startswith(".")]
        paths = [Path(folder, name) for name in names if not name.startswith(".")]
        # Opening a pipe would block, and a link can be broken.
        files += [path.relative_to(root).as_posix() for path in paths if path.is_file()]
    return Listing(root=root, files=tuple(sorted(files)))


def _raise(error: OSError) -> None:
    raise error


def printable(name: str) -> str:
    """Return a file's name as text, with undecodable bytes escaped."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A file or folder that is read as a piece."""

    name: str  # within the source
    path: Path
    split: str
    style: str = ""
    work: str = ""  # the name of its work in the source; empty if the source has splits of its own
    metre: str = "4/4"  # if the source states it
    tune: int | None = None  # its number in an ABC file of several tunes


@dataclass(frozen=True, kw_only=True)
class Found:
    """The pieces of a source, with skipped files and remarks."""

    pieces: list[Piece]
    skipped: list[Skipped] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


class Source(ABC):
    """A kind of data set."""

    name: str
    title: str
    shape: str  # the contents of its folder, as a phrase
    language: str  # the default
    licence: str
    languages: tuple[str, ...] = ()  # possible languages; empty: all
    style: str | None = None  # of its pieces in the ensemble language
    by_name = False  # whether works are split by their names rather than their openings

    @abstractmethod
    def find(self, listing: Listing, validation: float) -> Found:
        """Return the pieces; if the source has no split, a fraction is held out for validation."""

    def scores(self, piece: Piece, language: Language) -> list[Score]:
        """Read a piece as one or more arranged scores, one of which is drawn each time in training."""
        return arranged(read(piece), language)

    def titles(self, piece: Piece) -> list[str]:
        """Return the title keys of a piece's work (works.py)."""
        return []


class NamedByWork(Source):
    """One file per piece, at any depth, of which the name tells the work."""

    file: re.Pattern[str]  # of the names of files, with the work as a group
    same_works: ClassVar[Mapping[str, str]] = {}

    def find(self, listing: Listing, validation: float) -> Found:
        named = [(file, match[1]) for file in listing.files if (match := self.file.fullmatch(file))]
        works = [(file, self.same_works.get(name, name)) for file, name in named]
        return Found(
            pieces=[
                listing.piece(
                    file, split_of(work, {"validation": validation}), work=printable(work)
                )
                for file, work in works
            ]
        )


def read(piece: Piece, *, staves: bool = False) -> Score:
    """Read a piece's file; error messages call it `it`, as they follow its name in reports."""
    return read_file(piece.path, name="it", tune=piece.tune, staves=staves)


def sounding(score: Score) -> Score:
    """Return the score without silent tracks, which hold texts, or parts that were merged into others."""
    score = sustained(score)
    counts = enumerate(note_counts(score))
    return regrouped(score, [(score.tracks[track], [track]) for track, notes in counts if notes])


def arranged(score: Score, language: Language) -> list[Score]:
    """Arrange a score for a language: each of its trios for groove, otherwise the whole."""
    if language.name == "groove":
        return trios(score)
    return [language.arrange(score)]


def joined(
    score: Score, groups: Sequence[Sequence[int]], track: Track | None = None
) -> list[Score]:
    """Return a score with each group of tracks joined into the group's first track, or into a given one.

    Returns no score if no group has several tracks.
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
