"""Figures of a line: where its last three notes are those of an earlier passage, in any transposition.

A line has the lowest notes of a part's onsets, the latest first, −1 where there are no more: (PAST,).
"""

from __future__ import annotations

import numpy as np

from tokenization.ensemble.spelling import Sheet

PAST = 64  # onsets of a part in which a figure is looked for


def lines_of(sheet: Sheet) -> np.ndarray:
    """Return the line of each part: (P, PAST)."""
    lines = np.full((len(sheet.parts), PAST), -1)
    for part in range(len(lines)):
        own = sheet.part == part
        _, first = np.unique(sheet.onset[own], return_index=True)
        latest = sheet.value[own][first[::-1][:PAST]]
        lines[part, : len(latest)] = latest
    return lines


def next_of(line: np.ndarray) -> int:
    """Return the pitch with which a line goes on as it last did after this figure; −1 without one."""
    known = line[line >= 0]
    moves = known[:-1] - known[1:]  # the latest first
    if len(moves) < 3 or not moves[:2].any():  # repeated notes are no figure
        return -1
    again = np.flatnonzero((moves[1:-1] == moves[0]) & (moves[2:] == moves[1]))
    pitch = int(known[0] + moves[again[0]]) if len(again) else -1
    return pitch if 0 <= pitch < 128 else -1
