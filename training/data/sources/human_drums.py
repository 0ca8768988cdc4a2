"""The Groove MIDI Dataset (Gillick et al., ICML 2019): human drumming to a click, on an electronic kit.

Its drums become pieces of the groove language without bass and other, with the authors' splits. Trained
on beside grooves, they are also what `data.mix_drums` draws drums from. In a language of every metre, those that
are not in 4/4 are pieces too.
"""

from __future__ import annotations

import csv
import math
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from tokenization.language import Language
from tokenization.prepared import SPLITS
from tokenization.score import Meters, Score
from tokenization.wording import counted
from training.data.sources.source import (
    Found,
    Listing,
    Piece,
    Skipped,
    Source,
    arranged,
    read,
    shown,
)

LIST = "info.csv"
_COLUMNS = {"midi_filename", "time_signature", "split", "beat_type"}
FEWEST_BARS = 4
_METRE = re.compile(r"[1-9]\d?-(?:1|2|4|8|16)")
# Notes of the kit (Roland TD-11) that mean another drum in General MIDI, or none; as the data set's
# own page maps them, but for the rims of the toms and the second crash.
_GENERAL_MIDI = {22: 42, 26: 46, 40: 38, 47: 45, 50: 48, 52: 57, 55: 49, 58: 43}


class HumanDrums(Source):
    """A file a performance, and a list of all of them."""

    name = "human-drums"
    title = "Groove MIDI Dataset: human drumming"
    shape = f"performances of drummers, and {LIST} that lists them"
    language = "groove"
    languages = ("groove", "ensemble")
    licence = (
        "CC BY 4.0, Google LLC (Groove MIDI Dataset; Gillick et al., ICML 2019); changed: drums named "
        "by General MIDI, laid on a grid"
    )
    style = "drums"

    def fits(self, listing: Listing) -> bool:
        return self._list(listing) is not None

    def find(self, listing: Listing, validation: float) -> Found:
        file = self._list(listing)
        assert file is not None, "a folder is looked at before it is read"
        folder = file.removesuffix(LIST)
        pieces, skipped, files = [], [], {*listing.files}
        for row in _rows(listing.path(file)):
            name = folder + (row["midi_filename"] or "")
            reason = _reason(row, name in files)
            if reason:
                skipped.append(Skipped(shown(name), reason))
            else:
                metre = row["time_signature"].replace("-", "/")
                pieces.append(listing.piece(name, row["split"], metre=metre))
        twice = [name for name, count in Counter(p.name for p in pieces).items() if count > 1]
        if twice:
            raise ValueError(
                f"{listing.path(file)} lists {twice[0]} twice; give the list as it was"
            )
        return Found(
            pieces=sorted(pieces, key=lambda piece: piece.name),
            skipped=skipped,
            remarks=["The splits are those of the data set."],
        )

    def scores(self, piece: Piece, language: Language) -> list[Score]:
        if piece.metre != "4/4" and not language.every_metre:
            raise ValueError(f"its metre is {piece.metre}; grooves are in 4/4")
        score = with_general_drums(read(piece))
        numerator, denominator = map(int, piece.metre.split("/"))
        bar_beats = 4 * numerator / denominator
        bars = math.ceil(score.end_ticks / (bar_beats * score.ticks_per_beat))
        if bars < FEWEST_BARS:
            raise ValueError(
                f"it is a fill or break of {counted(bars, 'bar')}; {FEWEST_BARS} make a piece"
            )
        meters = Meters(np.array([0]), np.array([numerator]), np.array([denominator]))
        # It was played to a click: its beats are right, however loosely the drums lie on them.
        return arranged(score.replace(beats_known=True, meters=meters), language)

    def _list(self, listing: Listing) -> str | None:
        """Return the list of performances, if there is one with the columns that are needed."""
        for file in listing.files:
            if file.rpartition("/")[2] == LIST:
                with listing.path(file).open(encoding="utf-8", errors="replace") as lines:
                    if {*next(lines, "").strip().split(",")} >= _COLUMNS:
                        return file
        return None


def _rows(path: Path) -> list[dict[str, Any]]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))
    except (csv.Error, UnicodeDecodeError) as error:
        raise ValueError(
            f"{path} is no table in UTF-8 ({error}); give the list as it was"
        ) from None


def _reason(row: dict[str, Any], is_there: bool) -> str | None:
    """Return why a performance is not taken."""
    if None in row.values():
        return "its line of the list breaks off"
    if not is_there:
        return "it is listed, but missing"
    if not _METRE.fullmatch(row["time_signature"]):
        return f"its metre is {row['time_signature']!r}; one such as 4-4 is known"
    if row["split"] not in SPLITS:
        return f"its split is {row['split']!r}; train, validation and test are known"
    return None


def with_general_drums(score: Score) -> Score:
    """Return the score with the kit's notes as General MIDI names the drums."""
    named = np.arange(128)
    named[list(_GENERAL_MIDI)] = list(_GENERAL_MIDI.values())
    return score.replace(notes=score.notes.replace(pitch=named[score.notes.pitch]).sorted())
