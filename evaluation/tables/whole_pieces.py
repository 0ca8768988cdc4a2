"""The tables of whole pieces: their form, gaps filled in, and parts written to others."""

from __future__ import annotations

from typing import Any

from evaluation.metrics.harmony import HARMONY
from evaluation.metrics.statistics import NOTES_A_BAR, SOUNDING
from evaluation.metrics.style import METRICS
from evaluation.tables.table import NONE, Result, Table
from tokenization.wording import filled

KINDS = {
    "form": "Form of continuations, and endings",
    "infilling": "Gaps filled in",
    "accompaniment": "Parts written to others",
}
ACCOMPANIMENT_METRICS = {
    **METRICS, HARMONY: "in harmony", NOTES_A_BAR: "notes a bar", SOUNDING: "notes at a time",
}  # fmt: skip
# What stands side by side in a table of each kind, and what it is called there.
SIDES = {
    "form": {"written": "written", "real": "the real piece", "middle": "where nothing ends"},
    "infilling": {"written": "written", "real": "the true bars", "alone": "without the bars after"},
    "accompaniment": {
        "written": "written",
        "real": "the hidden part",
        "next": "its next bars",
        "same": "another piece",
        "other": "another style",
    },
}
CAPTIONS = {
    "form": """Returns: the share of bars that have most of an earlier bar; repeats: all of one; phrases: how like each
        8 bars are to earlier ones (all 0 to 1); circles: the longest run of bars that repeat each other; contrast and
        swell: by how many semitones and by which share phrases differ in height and in notes. End: the share of pieces
        whose last bar shows a sign of one. Mean ± deviation [95 % interval: Student's, of shares of pieces Wilson's]
        over n pieces.""",
    "infilling": """Loss: of the true bars, in nats a token; recalling: the same with what is recalled of the piece; f1:
        how many of the true notes were written; likeness: of the style to the bars around; leap: semitones into the bar
        after. Mean ± deviation [95 % interval] over n pieces.""",
    "accompaniment": """Likeness of the style to the hidden part's, 0 to 1; in harmony: the share of notes that are
        tones of the piece's chord; notes a bar and at a time. Mean ± deviation [95 % interval] over n styles, and in
        how many what was written is above another piece.""",
}


def whole_pieces_table(kind: str, result: Result) -> Table:
    """Return a row a model and measure: what was written beside what stands for good and for bad."""
    sides = SIDES[kind]
    above = ["above another piece"] if kind == "accompaniment" else []
    rows = [
        [
            model["model"],
            _measure(row),
            *(_value(row.get(side), row["written"]["n"]) for side in sides),
            str(row["written"]["n"]),
            *([f"{row['above_same']} of {row['of']}"] if above else []),
        ]
        for model in result["models"]
        for row in model["table"]
    ]
    return Table(
        head=["model", "measure", *sides.values(), "n", *above],
        rows=rows,
        caption=filled(CAPTIONS[kind]),
    )


def whole_pieces_rows(kind: str, result: Result) -> list[dict[str, Any]]:
    """Return a row a model, measure and side, for a CSV file."""
    return [
        {
            "kind": kind,
            "data": result["data"],
            "model": model["model"],
            "measure": _measure(row),
            "side": side,
            **row[side],
        }
        for model in result["models"]
        for row in model["table"]
        for side in SIDES[kind]
        if row.get(side) is not None
    ]


def _measure(row: Result) -> str:
    if "part" not in row:
        return row["measure"]
    return f"{row['part']}: {ACCOMPANIMENT_METRICS[row['metric']]}"


def _value(found: Result | None, of_row: int) -> str:
    """Return an estimate, with its n where that is not the row's: what a piece does not have is in no mean."""
    if found is None or found["mean"] is None:
        return NONE
    deviation = "" if found["deviation"] is None else f" ± {found['deviation']:.2f}"
    between = "" if found["low"] is None else f" [{found['low']:.2f}, {found['high']:.2f}]"
    of_its_own = "" if found["n"] == of_row else f" (n {found['n']})"
    return f"{found['mean']:.2f}{deviation}{between}{of_its_own}"
