"""The lines of a score: what they keep to from note to note, beyond the habits of all music (habits.py).

- *Figures*: where the last three notes of a line are those of an earlier passage, in any transposition, it goes on so.
- *Repeated notes* are no more frequent than they were.
- *Order*: a part that seldom met or crossed another, as a second violin does the first, seldom does.
- *Clashes*: no more notes begin a semitone, octaves apart or not, from a sounding one than did.

A line has the lowest notes of a part's onsets. Letters: B rows of a batch, P parts, S steps of a bar.
"""

from __future__ import annotations

import numpy as np

from tokenization.analysis.chords import ROOTS
from tokenization.ensemble.spelling import Sheet
from tokenization.ensemble.tokens import LENGTHS, LONGEST_BAR, PITCH, PITCHED
from tokenization.grammar import Rows

PAST = 64  # onsets of a part in which a figure is looked for
FIGURE = 2.0  # nats for the next note of a figure
REPEATING = 1.5  # nats against repeated notes, where there are more than before
# Nats against a note that meets or crosses a part that was met or crossed by at most this share of so many notes.
CROSSING, SELDOM, FEWEST = 2.0, 0.1, 8
CLASHING = 2.0  # nats against clashes, where there are more than before
SPARE = 1  # so many more are not too many


class Lines(Rows):
    """The lines of B rows after the same given bars."""

    def __init__(self, sheet: Sheet) -> None:
        """Take the given bars."""
        lines = [_line_of(sheet, part) for part in range(len(sheet.parts))]
        self._repeated = tuple(
            float((np.diff(line) == 0).mean()) if len(line) > 1 else 1.0 for line in lines
        )
        self._clashing, self._apart = _clashing(sheet), _apart(sheet)
        # The latest notes first, −1 where there are none.
        self._past = np.full((1, len(lines), PAST), -1)
        for part, line in enumerate(lines):
            latest = line[::-1][:PAST]
            self._past[0, part, : len(latest)] = latest
        self._moves, self._repeats = (np.zeros((1, len(lines)), np.int64) for _ in range(2))
        self._sounds = np.zeros((1, LONGEST_BAR, len(ROOTS)), bool)  # pitch classes of the bar
        self._lowest = np.full((1, len(lines), LONGEST_BAR), -1, np.int16)  # notes of the bar
        self._notes, self._clashes = (np.zeros(1, np.int64) for _ in range(2))

    def begin_bar(self, row: int) -> None:
        """Forget what sounds in the bar before."""
        self._sounds[row], self._lowest[row] = False, -1

    def add(self, row: int, part: int, at: int, length: int, pitch: int, *, begins: bool) -> None:
        """Append a note of a length in steps; `begins`: whether it is the first one of the part at its step."""
        tone = pitch % len(ROOTS)
        self._notes[row] += 1
        self._clashes[row] += self._near(row, at)[tone]
        self._sounds[row, at : at + length, tone] = True
        if begins:
            self._lowest[row, part, at : at + length] = pitch
            last = self._past[row, part, 0]
            self._moves[row, part] += last >= 0
            self._repeats[row, part] += last == pitch
            self._past[row, part] = [pitch, *self._past[row, part, :-1]]

    def add_to(self, nats: np.ndarray, row: int, part: int, at: int, *, begins: bool) -> None:
        """Add to the nats of tokens what lines keep to in the next note of a part at a step."""
        if self._clashes[row] >= self._clashing * (self._notes[row] + 1) + SPARE:
            near = self._near(row, at)[np.arange(len(PITCH)) % len(ROOTS)]
            nats[PITCH.start : PITCH.stop] -= np.float32(CLASHING) * near
        if not begins:
            return
        for other, above in self._apart[part]:
            if (limit := PITCH.start + int(self._lowest[row, other, at])) >= PITCH.start:
                beyond = slice(PITCH.start, limit + 1) if above else slice(limit, PITCH.stop)
                nats[beyond] -= np.float32(CROSSING)
        if (pitch := next_of(self._past[row, part])) >= 0:
            nats[PITCH.start + pitch] += np.float32(FIGURE)
        last, usual = int(self._past[row, part, 0]), self._repeated[part]
        many = self._repeats[row, part] >= usual * (self._moves[row, part] + 1) + SPARE
        if last >= 0 and many:
            nats[PITCH.start + last] -= np.float32(REPEATING)

    def _near(self, row: int, at: int) -> np.ndarray:
        """Return whether each pitch class is a semitone from one that sounds at a step: (12,) bool."""
        sounds = self._sounds[row, at]
        return np.roll(sounds, 1) | np.roll(sounds, -1)


def next_of(past: np.ndarray) -> int:
    """Return the pitch with which a line, the latest note first, goes on after its last figure, if any; −1 for none."""
    known = past[past >= 0]
    moves = known[:-1] - known[1:]
    if len(moves) < 3 or not moves[:2].any():  # repeated notes are no figure
        return -1
    again = np.flatnonzero((moves[1:-1] == moves[0]) & (moves[2:] == moves[1]))
    pitch = int(known[0] + moves[again[0]]) if len(again) else -1
    return pitch if 0 <= pitch < len(PITCH) else -1


def _line_of(sheet: Sheet, part: int) -> np.ndarray:
    """Return the lowest note of each onset of a pitched part."""
    own = (sheet.part == part) & (sheet.instrument < PITCHED)
    onset, value = sheet.onset[own], sheet.value[own]
    order = np.lexsort((value, onset))
    return value[order][np.unique(onset[order], return_index=True)[1]]


def _apart(sheet: Sheet) -> tuple[tuple[tuple[int, bool], ...], ...]:
    """Return of each part the earlier ones that it seldom meets or crosses, and whether it is above them."""
    ends = sheet.onset + LENGTHS[sheet.length]
    lowest = np.full((len(sheet.parts), int(ends.max(initial=0))), -1, np.int16)
    pitched = np.flatnonzero(sheet.instrument < PITCHED)
    for one in pitched[np.lexsort((-sheet.value[pitched], sheet.onset[pitched]))].tolist():
        lowest[sheet.part[one], sheet.onset[one] : ends[one]] = sheet.value[one]

    def seldom_met(part: int, other: int, above: bool) -> bool:
        own, others = lowest[[[part], [other]], np.unique(sheet.onset[sheet.part == part])]
        own, others = own[others >= 0], others[others >= 0]
        met = own <= others if above else own >= others
        return len(met) >= FEWEST and bool(met.mean() <= SELDOM)

    lines = np.unique(sheet.part[pitched]).tolist()
    return tuple(
        tuple(
            (other, above)
            for other in lines
            for above in (False, True)
            if other < part and part in lines and seldom_met(part, other, above)
        )
        for part in range(len(sheet.parts))
    )


def _clashing(sheet: Sheet) -> float:
    """Return the share of notes that begin a semitone from one that sounds and is written before them."""
    pitched = np.flatnonzero(sheet.instrument < PITCHED)
    found = 0
    for bar in np.unique(sheet.bar[pitched]):
        own = pitched[sheet.bar[pitched] == bar]
        onset, value, part = sheet.onset[own], sheet.value[own], sheet.part[own]
        end = onset + LENGTHS[sheet.length[own]]
        before = (part < part[:, None]) | ((part == part[:, None]) & (value < value[:, None]))
        sounds = (onset <= onset[:, None]) & (end > onset[:, None]) & before
        near = np.isin((value[:, None] - value) % len(ROOTS), (1, len(ROOTS) - 1))
        found += int((sounds & near).any(1).sum())
    return found / max(len(pitched), 1)
