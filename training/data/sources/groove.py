"""Accompaniments of one style each, named CHART.STYLE.mid: the Groove2Groove data, and sets of its shape.

Groove2Groove (Cífka et al., 2020) has `midi/train/fixed/CHART.STYLE_SUB.mid`, and two bars of
count-in; of its folders the paper uses the training styles alone and holds some of them out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

import numpy as np

from tokenization.language import Language
from tokenization.prepared import family_of
from tokenization.score import Score, excerpt
from tokenization.wording import counted
from training.data.sources.source import (
    Found,
    Listing,
    Piece,
    Skipped,
    Source,
    arranged,
    check_styles,
    read,
    shown,
    split_by_name,
)

_NAME = re.compile(r"(?:^|.*/)[^/]+\.([^/.]+)\.midi?", re.IGNORECASE)
_SPLITS = {
    **{"train": "train", "test": "test"},
    **{"val": "validation", "valid": "validation", "validation": "validation"},
}
_FIXED = "fixed"  # the folder of Groove2Groove's files with the right programs
COUNT_IN_BEATS = 8
HELD_OUT_STYLES = 25  # of two sub-styles each: for validation, and again for test


@dataclass(frozen=True, kw_only=True)
class _Named:
    """A file, and what its path says."""

    file: str
    style: str
    folder: str  # train, val, test, …, or empty

    @property
    def family(self) -> str:
        return family_of(self.style)

    @property
    def is_fixed(self) -> bool:
        return PurePosixPath(self.file).parent.name == _FIXED


class Groove(Source):
    """Files in folders train, val and test, or all in one."""

    name = "groove"
    title = "a groove set"
    shape = "accompaniments named CHART.STYLE.mid, in folders train, val and test or in one"
    language = "groove"
    languages = ("groove", "ensemble")
    licence = "not stated: that of the files"
    style = "band"
    file = _NAME

    def find(self, listing: Listing, validation: float) -> Found:
        named = [(file, _named(file)) for file in listing.midi_files]
        skipped = [
            Skipped(shown(file), "it is not named CHART.STYLE.mid") for file, n in named if not n
        ]
        files = [name for _, name in named if name]
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
        # A program made these files: their beats are right, also where the notes swing.
        return arranged(score.replace(beats_known=True), language)


class GrooveSongs(Groove):
    """As a groove set; its charts are songs of the McGill Billboard annotations (Burgoyne et al., ISMIR 2011)."""

    name = "groove-songs"
    title = "Groove songs: MMA accompaniments over whole songs"
    shape = "accompaniments named bbNNNN.STYLE.mid"
    licence = (
        "made with MMA (GPL-2.0-or-later) over chords of the McGill Billboard annotations (CC0)"
    )
    file = re.compile(r"(?:^|.*/)bb\d{4}\.[^/.]+\.midi?", re.IGNORECASE)

    def find(self, listing: Listing, validation: float) -> Found:
        return super().find(listing, 0.0)


def merged(score: Score) -> Score:
    """Return the score with tracks of equal names as one."""
    first = {}
    for index, track in enumerate(score.tracks):
        first.setdefault(track.name, index)
    target = np.array([first[track.name] for track in score.tracks], dtype=np.int64)
    return score.replace(
        notes=score.notes.replace(track=target[score.notes.track]).sorted(),
        pedals=score.pedals.replace(track=target[score.pedals.track]),
    )


def paper_split(families: list[str]) -> dict[str, str]:
    """Return the split of the styles as the paper's authors drew it, from the sorted styles.

    They drew with numpy's seed 0: a permutation, of which the first 25 are the test styles; then
    one of the others, of which the first 25 are the validation styles.
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


def _named(file: str) -> _Named | None:
    match = _NAME.fullmatch(file)
    folders = PurePosixPath(file).parent.parts
    known = [folder for folder in folders if folder in _SPLITS or folder == "itest"]
    return _Named(file=file, style=match[1], folder=known[-1] if known else "") if match else None


def _by_folder(listing: Listing, files: list[_Named], validation: float) -> Found:
    """Keep the splits of a set that has them; else hold styles out, by a hash of their family."""
    own = any(name.folder for name in files)
    pieces, skipped = [], []
    for name in files:
        split = _SPLITS.get(name.folder)
        if own and split is None:
            skipped.append(
                Skipped(shown(name.file), "it lies in none of the folders train, val and test")
            )
            continue
        if split is None:
            split = split_by_name(name.family, validation=validation, test=validation)
        pieces.append(listing.piece(name.file, split, style=name.style))
    return Found(pieces=pieces, skipped=skipped)


def _groove2groove(listing: Listing, files: list[_Named], validation: float) -> Found:
    """Split Groove2Groove's training styles; of a style held out one file of the two is kept."""
    used = [n for n in files if n.folder in ("train", "") and n.is_fixed]
    by_style: dict[str, list[_Named]] = {}
    for name in used:
        by_style.setdefault(name.style, []).append(name)
    families = sorted({name.family for name in used})
    whole = len(families) > 10 * HELD_OUT_STYLES
    splits = (
        paper_split(families)
        if whole
        else {
            family: split_by_name(family, validation=validation, test=validation)
            for family in families
        }
    )
    pieces, skipped, seconds = [], [], 0
    for style, pair in sorted(by_style.items()):
        split = splits[pair[0].family]
        if len(pair) != 2:
            skipped += [
                Skipped(shown(n.file), f"style {style} has {counted(len(pair), 'file')}, not 2")
                for n in pair
            ]
            continue
        kept = pair if split == "train" else pair[:1]
        seconds += len(pair) - len(kept)
        pieces += [listing.piece(name.file, split, style=style) for name in kept]
    remarks = []
    if len(files) > len(used):
        remarks.append(
            f"{len(files) - len(used)} files outside train/{_FIXED} are not used: the paper's validation "
            "and test styles are held out from the training styles."
        )
    if seconds:
        remarks.append(
            f"{counted(seconds, 'file')} not used: of a style held out the paper takes one file."
        )
    return Found(pieces=pieces, skipped=skipped, remarks=remarks)
