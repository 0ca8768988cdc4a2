"""The Groove MIDI Dataset (Gillick et al., ICML 2019): human drumming to a click on an electronic kit.

In the groove language its performances are pieces without bass and other. When trained on together with grooves, they
are among the drums that `data.mix_drums` uses. Performances in metres other than 4/4 are pieces in languages that have
every metre. The splits are the authors'.
"""

from __future__ import annotations

import csv
import math
import re
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
    printable,
    read,
)

LIST = "info.csv"
_COLUMNS = {"midi_filename", "time_signature", "split", "beat_type"}
FEWEST_BARS = 4
_METRE = re.compile(r"[1-9]\d?-(?:1|2|4|8|16)")
# Notes of the kit (Roland TD-11) that differ from General MIDI, mapped as on the data set's page, except for the rims
# of the toms and the second crash.
_GENERAL_MIDI = {22: 42, 26: 46, 40: 38, 47: 45, 50: 48, 52: 57, 55: 49, 58: 43}


class HumanDrums(Source):
    """One file per performance, and a list of all performances."""

    name = "human-drums"
    title = "Groove MIDI Dataset: human drumming"
    shape = f"drum performances, listed in {LIST}"
    language = "groove"
    languages = ("groove", "ensemble")
    licence = (
        "CC BY 4.0, Google LLC (Groove MIDI Dataset; Gillick et al., ICML 2019); changed: drums named "
        "by General MIDI, laid on a grid"
    )
    style = "drums"

    def find(self, listing: Listing, validation: float) -> Found:
        folder, rows = _listed(listing)
        pieces, skipped, files = [], [], {*listing.files}
        for row in rows:
            name = folder + (row["midi_filename"] or "")
            reason = _reason(row, name in files)
            if reason:
                skipped.append(Skipped(printable(name), reason))
            else:
                metre = row["time_signature"].replace("-", "/")
                pieces.append(listing.piece(name, row["split"], metre=metre))
        return Found(
            pieces=sorted(pieces, key=lambda piece: piece.name),
            skipped=skipped,
            remarks=["The data set's own splits are used."],
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
                f"it is a fill or break of {counted(bars, 'bar')}; a piece has {FEWEST_BARS} or more"
            )
        meters = Meters(np.array([0]), np.array([numerator]), np.array([denominator]))
        # It was played to a click, so its beats are right, however loose the playing.
        return arranged(score.replace(beats_known=True, meters=meters), language)


def _listed(listing: Listing) -> tuple[str, list[dict[str, Any]]]:
    """Return the folder and the rows of the list of performances; no rows if there is none."""
    for file in listing.files:
        if file.rpartition("/")[2] == LIST:
            with listing.path(file).open(encoding="utf-8", errors="replace", newline="") as lines:
                table = csv.DictReader(lines)
                if {*(table.fieldnames or ())} >= _COLUMNS:
                    return file.removesuffix(LIST), list(table)
    return "", []


def _reason(row: dict[str, Any], exists: bool) -> str | None:
    """Return why a performance is skipped, or None if it is used."""
    if None in row.values():
        return "its line in the list is incomplete"
    if not exists:
        return "it is listed, but missing"
    if not _METRE.fullmatch(row["time_signature"]):
        return f"its metre is {row['time_signature']!r}; expected one such as 4-4"
    if row["split"] not in SPLITS:
        return f"its split is {row['split']!r}; expected train, validation or test"
    return None


def with_general_drums(score: Score) -> Score:
    """Return the score with the kit's notes mapped to General MIDI."""
    mapped = np.arange(128)
    mapped[list(_GENERAL_MIDI)] = list(_GENERAL_MIDI.values())
    return score.replace(notes=score.notes.replace(pitch=mapped[score.notes.pitch]).sorted())
