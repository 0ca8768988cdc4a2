"""How differently high a new phrase of a piece is from those before it: counted in songs, drawn for what is written.

A phrase is UNIT bars; a new one does not repeat an earlier one (phrases.py). With m the mean height of all phrases
before it and l that of the last of them, a new one has a height of

    m + rise + keeps · (l − m) + a normal deviation of `spread`,    within what nearly all phrases have.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from copy import copy
from dataclasses import asdict, dataclass

import numpy as np
from typing_extensions import Self

from musicgen.generation.recall.phrases import UNIT, sources_of
from tokenization.grammar import NoteTokens, exchange

# The height of some bars is the pitch that four in five of the highest notes at their time do not go above, in
# semitones.

FEW = 3  # times at which something begins; with fewer, bars are a rest and have no height


class Heights:
    """The phrases of one sequence, UNIT bars each."""

    def __init__(self, tokens: NoteTokens) -> None:
        """Begin before the first bar."""
        self._pitch, self._moves = tokens.pitch.tolist(), tokens.moves.tolist()
        self.bar = -1  # which one is being written
        self.over: list[float | None] = []  # the heights of phrases that are over; None of a rest
        self._tops: list[int] = []  # of this phrase: the highest pitch whenever notes begin
        self._sounds = False  # whether a note has begun at this time
        self._pitches = self._notes = 0  # the sum of all pitches, and how many

    def copy(self) -> Self:
        """Return one that goes on for itself."""
        other = copy(self)
        other.over, other._tops = [*self.over], [*self._tops]
        return other

    @property
    def known(self) -> list[float]:
        """The heights of the phrases that are over, without rests."""
        return [height for height in self.over if height is not None]

    @property
    def here(self) -> float | None:
        """The height of the phrase that is being written, as far as it has come; None of a rest."""
        return None if len(self._tops) < FEW else float(np.percentile(self._tops, 80))

    @property
    def middle(self) -> float:
        """The mean pitch of all notes."""
        return self._pitches / max(self._notes, 1)

    def take(self, token: int, begins: bool) -> None:
        """Take one more token, and whether a bar begins with it."""
        if begins:
            self.bar += 1
            self._sounds = False
            if self.bar and self.bar % UNIT == 0:
                self.over.append(self.here)
                self._tops = []
        if (pitch := self._pitch[token]) >= 0:
            if self._sounds:
                self._tops[-1] = max(self._tops[-1], pitch)
            else:
                self._tops.append(pitch)
            self._sounds = True
            self._pitches += pitch
            self._notes += 1
        elif self._moves[token]:
            self._sounds = False


FEWEST = 20  # new phrases, from which on there is something to count
FURTHEST = 2.0  # deviations that are drawn at most
NEARLY_ALL = (2, 98)  # percentiles


@dataclass(frozen=True, kw_only=True)
class Contrast:
    """In semitones, but for `keeps`."""

    rise: float  # by how much new phrases are above those before them, on average
    keeps: float  # the share that they keep of the last one's difference from all before
    spread: float  # the deviation of the rest
    lowest: float  # heights that nearly all phrases are between
    highest: float

    def __post_init__(self) -> None:
        if self.spread < 0 or self.lowest > self.highest:
            raise ValueError("spread is 0 or more, and lowest is no more than highest")

    def drawn(self, before: Sequence[float], random: np.random.Generator) -> float:
        """Return the height of a new phrase after others, of which there is one at least."""
        mean = float(np.mean(before))
        deviation = np.clip(random.standard_normal(), -FURTHEST, FURTHEST)
        height = mean + self.rise + self.keeps * (before[-1] - mean) + self.spread * deviation
        # Music may be given that lies outside.
        return float(np.clip(height, min(self.lowest, mean), max(self.highest, mean)))

    def in_words(self) -> str:
        """Return it in words."""
        return ", ".join(f"{name} {value:g}" for name, value in asdict(self).items())


def contrast_of(
    pieces: Iterable[tuple[np.ndarray, Collection[int]]], tokens: NoteTokens
) -> Contrast | None:
    """Return how new phrases differ from those before, of ids and the places where bars begin; None of too few."""
    changes, lasts, all_heights = [], [], []
    for ids, places in pieces:
        heights, starts = Heights(tokens), {*places}
        for place, token in enumerate(ids.tolist()):
            heights.take(token, place in starts)
        over = [*heights.over, heights.here]
        all_heights += [height for height in over if height is not None]
        for bar, source in sources_of(ids, places).items():
            here = over[bar // UNIT]
            known = [height for height in over[: bar // UNIT] if height is not None]
            if source is None and here is not None and known:
                changes.append(here - np.mean(known))
                lasts.append(known[-1] - np.mean(known))
    if len(changes) < FEWEST:
        return None
    line = np.stack([np.ones_like(lasts), lasts], 1)
    rise, keeps = np.linalg.lstsq(line, np.array(changes))[0]
    spread = np.std(changes - line @ [rise, keeps])
    low, high = np.percentile(all_heights, NEARLY_ALL)
    return Contrast(
        rise=round(float(rise), 3),
        keeps=round(float(keeps), 3),
        spread=round(float(spread), 3),
        lowest=round(float(low), 1),
        highest=round(float(high), 1),
    )


# Leads a new phrase to the height that was drawn for it.
#
# A model goes on as high as the music is that it reads: its phrases differed half as much in height as those of
# songs. So while a new phrase is written, pitches above the middle of the piece exchange their chances by a bias of λ
# per semitone: up to the height that is wanted, if that is above, and from there on if it is below. λ begins in
# proportion to how far the phrase before is from it, and changes with each bar by how far this one still is. Whether
# a high note comes stays the model's own, and so do all low ones: when all pitches took part, what accompanies a
# melody rose and vanished with it. Within a return nothing is led: it is to be like what it repeats.

BEGIN = 0.05  # λ per semitone that is wanted beside the phrase before
ADD = 0.02  # with each bar, per semitone that is still wanted
MOST = 0.35  # with 0.07, 0.03 and 0.5 phrases came all the way, and had 0.7 notes a bar less (40 takes)


class Leaning:
    """One sequence, and where its new phrases are led."""

    def __init__(self, contrast: Contrast, tokens: NoteTokens) -> None:
        """Begin before the first bar."""
        self._contrast, self._pitch = contrast, tokens.pitch
        self._heights = Heights(tokens)
        self._seed: tuple[int, ...] = ()
        self._wanted: float | None = None  # of this phrase
        self._lean = 0.0  # λ

    def copy(self) -> Self:
        """Return one that goes on for itself."""
        other = copy(self)
        other._heights = self._heights.copy()
        return other

    def decide(self, seed: Sequence[int]) -> None:
        """Draw from here on; the same with the same seed."""
        self._seed = (*seed,)

    def take(self, token: int, begins: bool, new: bool) -> None:
        """Take one more token, and whether a bar begins with it, of a phrase that is decided to be new."""
        self._heights.take(token, begins)
        if begins:
            self._begin_bar(new)

    def _begin_bar(self, new: bool) -> None:
        heights = self._heights
        if not new:
            self._wanted, self._lean = None, 0.0
        elif heights.bar % UNIT == 0:
            self._wanted, self._lean = None, 0.0
            if known := heights.known:
                random = np.random.default_rng([*self._seed, heights.bar, 1])
                self._wanted = self._contrast.drawn(known, random)
                self._add(BEGIN * (self._wanted - known[-1]))
        elif self._wanted is not None and (here := heights.here) is not None:
            self._add(ADD * (self._wanted - here))

    def _add(self, lean: float) -> None:
        self._lean = min(max(self._lean + lean, -MOST), MOST)

    def apply(self, scores: np.ndarray, allowed: np.ndarray) -> None:
        """Change the scores of what comes next, (V,), as far as it may come: (V,) bool."""
        if self._wanted is None or not self._lean:
            return
        middle = self._heights.middle
        upper = np.flatnonzero(allowed & (self._pitch > middle))
        if not len(upper):
            return
        above = self._pitch[upper] - middle
        wanted = max(self._wanted - middle, 0)
        counted = np.minimum(above, wanted) if self._lean > 0 else np.maximum(above - wanted, 0)
        exchange(scores, upper, self._lean * counted)
