"""Accompaniments in one style each, named CHART.STYLE.mid: the Groove2Groove data, and sets like it.

Groove2Groove (Cífka et al., 2020) has files `midi/train/fixed/CHART.STYLE_SUB.mid`, which begin with a count-in of two
bars. The SPE paper uses only the training styles and holds some of them out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

import numpy as np

from tokenization.language import Language
from tokenization.prepared import family_of
from tokenization.score import Score, excerpt
from training.data.sources.source import (
    Found,
    Listing,
    Piece,
    Skipped,
    Source,
    arranged,
    check_styles,
    printable,
    read,
    split_of,
)

_SPLITS = {
    **{"train": "train", "test": "test"},
    **{"val": "validation", "valid": "validation", "validation": "validation"},
}
_FIXED = "fixed"  # the folder of Groove2Groove's files with correct programs
COUNT_IN_BEATS = 8
HELD_OUT_STYLES = 25  # for validation, and as many for test; each has two sub-styles


@dataclass(frozen=True, kw_only=True)
class _Named:
    """A file and the parts of its path."""

    file: str
    style: str
    folder: str  # train, val, test, … or empty

    @property
    def is_fixed(self) -> bool:
        return PurePosixPath(self.file).parent.name == _FIXED


class Groove(Source):
    """Accompaniments in folders train, val and test, or in a single folder."""

    name = "groove"
    title = "a groove set"
    shape = "accompaniments CHART.STYLE.mid, in folders train, val and test or in a single one"
    language = "groove"
    languages = ("groove", "ensemble")
    licence = "not stated: that of the files"
    style = "band"
    file = re.compile(r"(?:^|.*/)[^/]+\.([^/.]+)\.midi?", re.IGNORECASE)

    def find(self, listing: Listing, validation: float) -> Found:
        files, skipped = [], []
        for file in listing.midi_files:
            if match := self.file.fullmatch(file):
                folders = PurePosixPath(file).parent.parts
                known = [folder for folder in folders if folder in _SPLITS or folder == "itest"]
                files.append(_Named(file=file, style=match[1], folder=["", *known][-1]))
            else:
                skipped.append(Skipped(printable(file), "it is not named CHART.STYLE.mid"))
        if any(name.is_fixed for name in files):
            found = _groove2groove(listing, files, validation)
        else:
            found = _by_folder(listing, files, validation)
        check_styles((piece.style, piece.split) for piece in found.pieces)
        return replace(found, skipped=found.skipped + skipped)

    def scores(self, piece: Piece, language: Language) -> list[Score]:
        score = read(piece)
        if piece.path.parent.name == _FIXED:
            score = excerpt(merged(score), COUNT_IN_BEATS * score.ticks_per_beat)
        # These files were made by a program, so their beats are right even if the notes swing.
        return arranged(score.replace(beats_known=True), language)


class GrooveSongs(Groove):
    """A groove set over the songs of the McGill Billboard annotations (Burgoyne et al., ISMIR 2011)."""

    name = "groove-songs"
    title = "Groove songs: MMA accompaniments over whole songs"
    shape = "accompaniments named bbNNNN.STYLE.mid"
    licence = (
        "made with MMA (GPL-2.0-or-later) over chords of the McGill Billboard annotations (CC0)"
    )
    file = re.compile(r"(?:^|.*/)bb\d{4}\.([^/.]+)\.midi?", re.IGNORECASE)

    def find(self, listing: Listing, validation: float) -> Found:
        return super().find(listing, 0.0)


def merged(score: Score) -> Score:
    """Return the score with tracks of the same name merged."""
    first = {}
    for index, track in enumerate(score.tracks):
        first.setdefault(track.name, index)
    target = np.array([first[track.name] for track in score.tracks], dtype=np.int64)
    return score.replace(
        notes=score.notes.replace(track=target[score.notes.track]).sorted(),
        pedals=score.pedals.replace(track=target[score.pedals.track]),
    )


def paper_split(families: list[str]) -> dict[str, str]:
    """Return the split of the styles that the paper's authors drew.

    With numpy's seed 0, the first 25 styles of a permutation of the sorted styles are the test styles, and the first 25
    of a permutation of the others the validation styles.
    """
    random = np.random.RandomState(0)
    order = [sorted(families)[i] for i in random.permutation(len(families))]
    test, others = order[:HELD_OUT_STYLES], order[HELD_OUT_STYLES:]
    validation = [others[i] for i in random.permutation(len(others))[:HELD_OUT_STYLES]]
    return (
        dict.fromkeys(families, "train")
        | dict.fromkeys(test, "test")
        | dict.fromkeys(validation, "validation")
    )


def _by_folder(listing: Listing, files: list[_Named], validation: float) -> Found:
    """Take the splits from the folders if there are any; otherwise hold out styles by a hash of their family."""
    own = any(name.folder for name in files)
    pieces, skipped = [], []
    for name in files:
        split = _SPLITS.get(name.folder) if own else _hashed(family_of(name.style), validation)
        if split is None:
            reason = "it is in none of the folders train, val and test"
            skipped.append(Skipped(printable(name.file), reason))
        else:
            pieces.append(listing.piece(name.file, split, style=name.style))
    return Found(pieces=pieces, skipped=skipped)


def _hashed(family: str, validation: float) -> str:
    return split_of(family, {"validation": validation, "test": validation})


def _groove2groove(listing: Listing, files: list[_Named], validation: float) -> Found:
    """Split Groove2Groove's training styles, keeping only one of the two files of a held-out style."""
    used = [name for name in files if name.folder in ("train", "") and name.is_fixed]
    families = sorted({family_of(name.style) for name in used})
    if len(families) > 10 * HELD_OUT_STYLES:  # the complete data
        splits = paper_split(families)
    else:
        splits = {family: _hashed(family, validation) for family in families}
    kept: dict[tuple[str, str], _Named] = {}
    for name in used:
        split = splits[family_of(name.style)]
        kept.setdefault((name.style, name.file if split == "train" else ""), name)
    return Found(
        pieces=[
            listing.piece(name.file, splits[family_of(style)], style=style)
            for (style, _), name in sorted(kept.items())
        ],
        remarks=[
            "As in the paper, validation and test styles are held out from the training styles, with one file each."
        ],
    )
