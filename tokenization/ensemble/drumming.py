"""What new drums prefer so that they fit the given parts: a drum set, a backbeat, their feel, fills where phrases end.

K bars.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tokenization.analysis.metres import METRES
from tokenization.ensemble.grammar import LEAVING
from tokenization.ensemble.spelling import Sheet
from tokenization.ensemble.tokens import (
    AT,
    DRUM,
    HARMONY,
    LONGEST_BAR,
    LOWEST_DRUM,
    METRE_STEPS,
    STEPS_PER_BEAT,
    STEPS_PER_SUBBEAT,
)

# In nats. Chosen by ear and by `python -m tests.tools.measure.drums`.
BACKBEAT = 3.0  # against what leaves out a snare
OFF_THE_FEEL = 4.0  # against a straight onset in swung music, and the other way round
FILL, TOM = 6.0, 2.0  # for toms and snares in the last half of a fill, and more for toms
CRASH = 2.5  # for a crash on the downbeat after a fill
UNUSUAL = 3.0  # against what is no part of a drum set, and toms outside of fills
DOWNBEAT = 5.0  # for a bass drum where a bar begins
STEADY = 1.5  # for closed hats and rides on beats
OPEN = 2.0  # against open hats
BUSY, HANDS = 12.0, 2  # against what needs a third hand

SNARES, TOMS, CRASHES = (38, 40, 37, 39), (41, 43, 45, 47, 48, 50), (49, 57)
KICKS, FRAMES, OPEN_HAT = (35, 36), (42, 51, 53, 59), 46  # bass drums; closed hats and rides
FOOT = 44  # the pedal hi-hat, which can be the backbeat of swung music
SWUNG, STRAIGHT, UNKNOWN = "swung", "straight", ""
FEWEST_OFF_BEAT = 8  # onsets between the beats that show a feel
MOSTLY = 2  # times as many of one feel as of the other
PHRASE = 8  # bars after which a fill comes if nothing returns
BREATH = 4  # bars after which one comes if the given parts rest in the last half


def _ids(*drums: int) -> list[int]:
    return [DRUM.start + drum - LOWEST_DRUM for drum in drums]


SNARE_IDS, TOM_IDS, KICK_IDS, FRAME_IDS, OPEN_IDS = (
    _ids(*drums) for drums in ((*SNARES, FOOT), TOMS, KICKS, FRAMES, (OPEN_HAT,))
)
UNUSUAL_IDS = np.setdiff1d(
    np.arange(DRUM.start, DRUM.stop), _ids(*KICKS, *SNARES, *FRAMES, FOOT, OPEN_HAT, *CRASHES)
)
HAND_IDS = np.setdiff1d(np.arange(DRUM.start, DRUM.stop), _ids(*KICKS, FOOT))
# The steps of each metre that have a backbeat: every second beat where there are two or four.
BACKBEATS: list[list[int]] = [
    [step * int(METRE_STEPS[number]) // beats for step in range(1, beats, 2)]
    if (beats := numerator // 3 if denominator == 8 else numerator) in (2, 4)
    else []
    for number, (numerator, denominator) in enumerate(METRES)
]
COMPOUND = [denominator == 8 for _, denominator in METRES]


@dataclass(frozen=True, kw_only=True, eq=False)
class Groove:
    """What the given parts suggest to drums."""

    feel: str  # of quarter notes
    fills: np.ndarray  # (K,) whether the bar ends a phrase

    @classmethod
    def of(cls, sheet: Sheet, phrases: np.ndarray) -> Groove:
        """Return what a sheet suggests; `phrases` says which bars begin one, (K,)."""
        bars = len(sheet.bars)
        begins = np.append(np.flatnonzero(phrases), bars)
        sounds = sheet.instrument != HARMONY
        start = (sheet.bars.start * STEPS_PER_SUBBEAT)[sheet.bar]
        late = 2 * (sheet.onset - start) >= METRE_STEPS[sheet.bars.metre[sheet.bar]]
        busy = np.bincount(sheet.bar[sounds & late], minlength=bars) > 0
        fills = np.zeros(bars, dtype=bool)
        fills[begins[begins > 0] - 1] = True
        since = np.arange(bars) - np.maximum.accumulate(np.where(phrases, np.arange(bars), 0))
        fills |= since % PHRASE == PHRASE - 1
        fills |= (since % BREATH == BREATH - 1) & ~busy
        return cls(feel=feel_of(sheet), fills=fills)

    def bias(
        self, bar: int, metre: int, at: int, *, placing: bool, struck: bool, hands: int = 0
    ) -> np.ndarray:
        """Return the nats added to each token of the drums in a bar, as far as the last drum: (tokens,).

        `at` is the step of the last position, −1 before the first one, `struck` whether a snare was struck there, and
        `hands` how many drums that hands play. `placing`: whether the next token can be a position, and not only a
        drum.
        """
        found = np.zeros(DRUM.stop, dtype=np.float32)
        steps, place = np.arange(LONGEST_BAR), found[AT.start : AT.stop]
        beats, swung = BACKBEATS[metre], self.feel == SWUNG
        misses = at in beats and not struck
        due = next((step for step in beats if step > at), LONGEST_BAR)
        if placing:
            place[steps >= 0 if misses else steps > due] -= BACKBEAT
            found[LEAVING] -= BACKBEAT * (misses or due < LONGEST_BAR)
            if self.feel and not COMPOUND[metre]:
                place[steps % STEPS_PER_BEAT % (8 if swung else 6) != 0] -= OFF_THE_FEEL
        if misses:
            found[_ids(*SNARES, *([FOOT] if swung else []))] += BACKBEAT
        if self._is_fill(bar) and 2 * at >= METRE_STEPS[metre]:
            found[_ids(*TOMS, *SNARES)] += FILL
            found[TOM_IDS] += TOM
        elif 0 <= bar < len(self.fills):
            found[UNUSUAL_IDS] -= UNUSUAL
            found[KICK_IDS] += DOWNBEAT * (at == 0)
            found[FRAME_IDS] += STEADY * (at >= 0 and at % STEPS_PER_BEAT == 0)
            found[OPEN_IDS] -= OPEN
        if at == 0 and self._is_fill(bar - 1):
            found[_ids(*CRASHES)] += CRASH
        found[HAND_IDS] -= BUSY * (hands >= HANDS)
        return found

    def _is_fill(self, bar: int) -> bool:
        return 0 <= bar < len(self.fills) and bool(self.fills[bar])


def feel_of(sheet: Sheet) -> str:
    """Return whether the onsets between quarter notes are those of swung or of straight eighths, if one is clear."""
    sounds = sheet.instrument != HARMONY
    simple = np.array([not COMPOUND[metre] for metre in sheet.bars.metre.tolist()], dtype=bool)
    start = (sheet.bars.start * STEPS_PER_SUBBEAT)[sheet.bar]
    within = (sheet.onset - start)[sounds & simple[sheet.bar]] % STEPS_PER_BEAT
    swung = int(((abs(within - 16) <= 1) | (abs(within - 8) <= 1)).sum())
    straight = int((abs(within - 12) <= 1).sum())
    if swung + straight < FEWEST_OFF_BEAT:
        return UNKNOWN
    if swung >= MOSTLY * straight:
        return SWUNG
    return STRAIGHT if straight >= MOSTLY * swung else UNKNOWN
