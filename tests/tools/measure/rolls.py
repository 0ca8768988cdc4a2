"""Draw ten pieces of each set, tokenized and back: python -m tests.tools.measure.rolls DATA … OUT.

A row of the picture OUT/NAME.png is a piece: its first bars as the set has them, and the same once they were written to
a MIDI file, read, arranged and spelled. What differs is orange.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from app import output
from tokenization.formats import midi, read_file
from tokenization.prepared import Prepared
from tokenization.score import Notes, Score
from training.samples import draw_roll

PIECES, BARS = 10, 16


def both(prepared: Prepared, row: int) -> tuple[Score, Score]:
    """Return the first bars of a row, and the same from their MIDI file through the language."""
    language = prepared.language
    ids = np.asarray(prepared.ids(row), dtype=np.int64)
    before = language.decode(language.close(ids, BARS))
    arranged = language.arrange(read_file(midi(before)))
    return before, language.decode(language.encode(arranged).ids)


def other(one: Score, two: Score) -> np.ndarray:
    """Return which notes of a score another has not at their place, pitch and length: (N,) bool."""

    def keys(score: Score) -> list[tuple[int, ...]]:
        notes: Notes = score.rescaled(one.ticks_per_beat).notes
        return [*zip(*(column.tolist() for column in notes.columns[:3]), strict=True)]

    known = {*keys(two)}
    return np.array([key not in known for key in keys(one)], dtype=bool)


def draw(prepared: Prepared, folder: Path) -> str:
    """Draw pieces spread over a set, and say how many notes differ."""
    longest = prepared.pieces.length
    rows = np.linspace(0, len(longest) - 1, min(PIECES, len(longest))).astype(int).tolist()
    figure = Figure(figsize=(18, 2 * len(rows)), layout="constrained")
    cells = figure.subplots(len(rows), 2, squeeze=False)
    differ = notes = 0
    for row, (left, right) in zip(rows, cells, strict=True):
        before, after = both(prepared, row)
        marks = other(before, after), other(after, before)
        draw_roll(left, before, marks[0])
        draw_roll(right, after, marks[1])
        left.set_title(prepared.name(row)[-60:], loc="left", fontsize="small")
        right.set_title("through a file and the language", loc="left", fontsize="small")
        differ, notes = differ + int(marks[0].sum()), notes + len(before.notes)
    path = folder / f"{prepared.folder.name}.png"
    figure.savefig(path, dpi=60)
    return f"{path}: {len(rows)} pieces, {differ:,} of {notes:,} notes differ"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", metavar="DATA", nargs="+", type=Path)
    parser.add_argument("out", metavar="OUT", type=Path)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for folder in options.sets:
        output.write(draw(Prepared.open(folder), options.out))


if __name__ == "__main__":
    main()
