"""The contract of a source: which files of a folder are pieces, where they belong, how they are read."""

from __future__ import annotations

import hashlib
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tokenization.formats import ENDINGS, MIDI_ENDINGS, read_file
from tokenization.groove.language import trios
from tokenization.language import Language
from tokenization.prepared import SPLITS
from tokenization.score import Score, Track

# Which split a piece belongs to: a hash of its name decides, so that more files move no piece.


def split_by_name(name: str, *, validation: float, test: float = 0.0) -> str:
    """Return the split of a name; the two shares are those of names held out, on average."""
    return split_of(name, {"validation": validation, "test": test})


def split_of(name: str, shares: Mapping[str, float]) -> str:
    """Return the split of a name where so large shares of all names are held out, in this order."""
    digest = hashlib.sha256(name.encode("utf-8", "surrogateescape")).digest()
    place = int.from_bytes(digest[:8], "big") / 2**64
    for split, share in shares.items():
        if place < share:
            return split
        place -= share
    return "train"


def check_styles(pieces: Iterable[tuple[str, str]]) -> None:
    """Raise ValueError if a style, of (style, split) pairs, lies in two splits."""
    seen: dict[str, str] = {}
    for style, split in pieces:
        if style and seen.setdefault(style, split) != split:
            both = " and ".join(name for name in SPLITS if name in {split, seen[style]})
            raise ValueError(
                f"the style {style} lies in {both}, so what is held out would not be new; "
                "move its files into one of the two"
            )


# The files of a source folder, by their paths below it.


@dataclass(frozen=True)
class Skipped:
    """A file or folder that is not in the prepared set, and why."""

    name: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Listing:
    """All files below a folder, in a fixed order; hidden ones are left out."""

    root: Path
    files: tuple[str, ...]  # with forward slashes
    unreadable: tuple[Skipped, ...] = ()

    @property
    def midi_files(self) -> list[str]:
        """The files that are named like MIDI files."""
        return [file for file in self.files if file.lower().endswith(MIDI_ENDINGS)]

    @property
    def music_files(self) -> list[str]:
        """The files that are named like MIDI, MusicXML or ABC files."""
        return [file for file in self.files if file.lower().endswith(ENDINGS)]

    def path(self, file: str) -> Path:
        """Return where a file lies."""
        return self.root / file

    def piece(self, file: str, split: str, **more: Any) -> Piece:
        """Return a file as a piece that is called as it."""
        return Piece(name=shown(file), path=self.path(file), split=split, **more)


def list_files(root: Path) -> Listing:
    """Walk through a folder; what cannot be read below it is listed with the reason."""
    if not root.exists():
        raise FileNotFoundError(f"there is no folder or archive {root} to read music from")
    if not root.is_dir():
        raise ValueError(
            f"{root} is neither a folder nor an archive; give one that holds the music"
        )
    os.listdir(root)  # no permission here is an error, not a skipped folder
    files: list[str] = []
    unreadable: list[Skipped] = []

    def note(error: OSError) -> None:
        below = os.path.relpath(error.filename, root)
        unreadable.append(Skipped(shown(below), f"the folder cannot be read: {error.strerror}"))

    for folder, folders, names in os.walk(root, onerror=note):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        here, below = Path(folder), Path(folder).relative_to(root)
        for name in folders:
            if (here / name).is_symlink():
                reason = "it is a link to a folder, and such links are not followed"
                unreadable.append(Skipped(shown((below / name).as_posix()), reason))
        for name in sorted(name for name in names if not name.startswith(".")):
            file = (below / name).as_posix()
            if (here / name).is_file():
                files.append(file)
            else:  # to open a pipe would be to wait for somebody to write into it
                unreadable.append(Skipped(shown(file), "it is not a file, or a link to nothing"))
    return Listing(root=root, files=tuple(sorted(files)), unreadable=tuple(unreadable))


def shown(name: str) -> str:
    """Return a file's name as text: bytes that are no text are written out."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


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
    languages: tuple[str, ...] = ()  # that it can be spelled in; all if there are none
    style: str | None = None  # that its pieces name in the ensemble language
    file: re.Pattern[str]  # how its files are named, unless it says otherwise what fits
    by_name = False  # whether the names of works decide what is held out, not how they begin

    def fits(self, listing: Listing) -> bool:
        """Say whether a folder looks like this source: most of its files of music are named so."""
        files = listing.music_files
        return 2 * sum(bool(self.file.fullmatch(file)) for file in files) > len(files)

    @abstractmethod
    def find(self, listing: Listing, validation: float) -> Found:
        """Return the pieces, with a share held out for validation where the source has no split."""

    def scores(self, piece: Piece, language: Language) -> list[Score]:
        """Read a piece as one or more arranged scores, of which training draws one at a time."""
        return arranged(read(piece), language)

    def titles(self, piece: Piece) -> list[str]:
        """Return the keys by which a piece's work is known (works.py) besides how it begins."""
        return []


def read(piece: Piece, *, staves: bool = False) -> Score:
    """Read a piece's file; errors call it `it`, since its name stands before them."""
    return read_file(piece.path, name="it", tune=piece.tune, staves=staves)


def arranged(score: Score, language: Language) -> list[Score]:
    """Return a score as a language spells it: each of its trios, or else all of it."""
    if language.name == "groove":
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
