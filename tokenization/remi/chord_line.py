"""A line of chords that music keeps to: read from text, and as the rules of pop piano."""

from __future__ import annotations

import re

import numpy as np

from tokenization.analysis.chords import parse, says_more
from tokenization.remi.grammar import (
    AFTER_BAR,
    AFTER_CHORD,
    AFTER_END,
    AFTER_SUBBEAT,
    AFTER_TEMPO,
    KIND,
    RemiGrammar,
)
from tokenization.remi.spelling import (
    BAR_SUBBEATS,
    CHORD,
    CHORD_INDEX,
    SUBBEAT_IDS,
    SUBBEAT_OF,
    SUBBEATS_PER_BEAT,
)

# A bar stands between bars, `C | G7 | Am F | C`, of which a double one, `||`, is one; the line is repeated as often
# as the music needs. A bar without a chord, `| |`, goes on with the one before. A chord stands where its share of the
# bar begins, on a beat. It needs no training: whatever a model draws that would pass the
# place of a chord, it goes to that place instead, and there the chord is the only one to choose. Between these places
# no other chord is named.
#
# Letters: B rows of a batch, M chords a bar at most, N bars of the line.

MOST = 4  # chords a bar
NONE = -1


def read_chords(text: str) -> list[list[str]]:
    """Return the chords of each bar of a line, as the vocabulary names them; what is none raises ValueError."""
    single = re.sub(r"\|+", "|", text.strip())
    bars = single.removeprefix("|").removesuffix("|").split("|")
    line = []
    for number, bar in enumerate(bars, 1):
        names = bar.split()
        chords = [parse(name) for name in names]
        if None in chords:
            raise ValueError(
                f"{names[chords.index(None)]!r} in bar {number} of the chords is no chord; "
                "C, Am7, F#m7b5, Bbsus4 and N would be read"
            )
        if len(chords) > MOST:
            raise ValueError(
                f"bar {number} of the chords has {len(chords)}; a bar takes {MOST} at most"
            )
        line.append([chord for chord in chords if chord is not None])
    if not any(line):
        raise ValueError(
            "the line of chords names none; one such as 'C | G7 | Am F | C' would be read"
        )
    return line


def simplified(text: str) -> list[str]:
    """Return a remark on the chords of a line of which less is kept to than they say; none where all is."""
    names = [name for name in dict.fromkeys(text.replace("|", " ").split()) if says_more(name)]
    taken = ", ".join(f"{name} as {parse(name)}" for name in names)
    return [f"Basses and extensions of chords are left out: {taken}."] if names else []


def _places() -> np.ndarray:
    """Return the sub-beats, on beats, at which each of so many chords stands in a bar: (M + 1, M)."""
    places = np.zeros((MOST + 1, MOST), dtype=np.int64)
    for count in range(1, MOST + 1):
        share = np.arange(count) * BAR_SUBBEATS / count
        places[count, :count] = np.rint(share / SUBBEATS_PER_BEAT) * SUBBEATS_PER_BEAT
    return places


PLACES = _places()


class ChordLine(RemiGrammar):
    """What may follow where a line of chords is kept to from a bar on."""

    def __init__(self, line: list[list[str]], start: int) -> None:
        """Stand at the start of one sequence; the line begins with bar `start`, from 0."""
        super().__init__()
        chords = np.full((len(line), MOST), NONE)
        for bar, names in enumerate(line):
            chords[bar, : len(names)] = [CHORD.start + CHORD_INDEX[name] for name in names]
        self._line = _Line(chords)
        self._start = start
        self._done = np.zeros(1, dtype=np.int64)  # chords of the bar that stand already

    def allowed(self) -> np.ndarray:
        """Return which tokens may come next: (B, V) bool."""
        plain = super().allowed()
        mask = plain.copy()
        place, chord = self._due()
        inside = self._inside()
        mask[inside, CHORD.start : CHORD.stop] = False
        at = (place == self.subbeat) & np.isin(self.kind, (AFTER_SUBBEAT, AFTER_TEMPO))
        for row in np.flatnonzero(at):
            mask[row] &= KIND == AFTER_TEMPO
            mask[row, chord[row]] = plain[row, chord[row]]
        stuck = ~mask.any(axis=1)  # where every key sounds, a chord is the only way on
        mask[stuck] = plain[stuck]
        return mask

    def instead(self, tokens: np.ndarray) -> np.ndarray:
        """Return tokens; of one that would pass the place of a chord, the way there."""
        tokens = np.asarray(tokens, dtype=np.int64)
        kind, (place, _) = KIND[tokens], self._due()
        passes = (kind == AFTER_BAR) | (kind == AFTER_END)
        passes |= (kind == AFTER_SUBBEAT) & (SUBBEAT_OF[tokens] > place)
        rows = np.flatnonzero(passes & (place != NONE) & (self.kind != AFTER_END))
        if not len(rows):
            return tokens
        there = SUBBEAT_IDS[np.maximum(place, 0)]
        taken = tokens.copy()
        can = self.allowed()[rows, there[rows]]
        taken[rows[can]] = there[rows[can]]
        return taken

    def advance(self, tokens: np.ndarray) -> None:
        """Take one more token a row."""
        super().advance(tokens)
        kind = KIND[np.asarray(tokens, dtype=np.int64)]
        named = (kind == AFTER_CHORD) & self._inside()
        self._done = np.where(kind == AFTER_BAR, 0, self._done + named)
        for _ in range(MOST):  # what sounds already need not be named
            _, chord = self._due()
            self._done = self._done + ((chord != NONE) & (chord == self._chord))

    def _inside(self) -> np.ndarray:
        """Say which rows are in a bar of the line."""
        return self._bars > self._start

    def _due(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the place and the token of the chord that comes next in each row's bar, or NONE: (B,) each."""
        chords = self._line.chords[(self._bars - 1 - self._start) % len(self._line.chords)]
        done = np.minimum(self._done, MOST - 1)[:, None]
        chord = np.take_along_axis(chords, done, axis=1)[:, 0]
        chord = np.where(self._inside() & (self._done < MOST), chord, NONE)
        count = (chords != NONE).sum(axis=1)
        return np.where(chord == NONE, NONE, PLACES[count, done[:, 0]]), chord


class _Line:
    """The chords of each bar by token, NONE past the last of a bar: (N, M); not a row of a batch."""

    def __init__(self, chords: np.ndarray) -> None:
        self.chords = chords
