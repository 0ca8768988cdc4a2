"""How differently high a new phrase of a piece is from those before it: counted in songs, drawn for what is written.

A phrase is UNIT bars; a new one does not repeat an earlier one (phrases.py). With m the mean height of all phrases
before it and l that of the last of them (heights.py), a new one has a height of

    m + rise + keeps · (l − m) + a normal deviation of `spread`,    within what nearly all phrases have.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from musicgen.generation.recall.heights import Heights
from musicgen.generation.recall.phrases import UNIT, sources_of
from tokenization.logit_bias import NoteTokens

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
