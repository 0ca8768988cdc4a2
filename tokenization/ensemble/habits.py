"""What given parts keep to by habit: how much each plays, in which rhythm, with whom, how far and how high.

- *amount*: how many notes a bar a part has, which a plan scales.
- *rhythm*: where most onsets of a part recur after one, two, four or eight bars, the next bar is expected to have those
  of the bar one period before, the more so if all did. In a section, such as saxes, that has moved together, they are
  those of its first part, and a part that has doubled another goes on so.
- *range*: a part stays within its given range and some of it on either side; one voice leaps no more often than before,
  and a part of several, such as two hands, reaches its usual depth in each bar and seldom has more notes at once.
- *what is usual* in a band (usual.py): lengths, loudness, how many notes at once, which drums.
- *lines* of a score (lines.py): figures, repeated notes, clashes.
- *form*: where the given harmony recurs after twelve bars, or after 8, 16 or 32, it goes on so.
- *key*: pitches and chords stay in the key that was asked for, or are those of the given music.

Letters: V tokens, P parts, S steps of a bar.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tokenization.analysis.chords import ROOTS, TONES
from tokenization.analysis.notated import is_notated
from tokenization.ensemble.grammar import TONICS
from tokenization.ensemble.spelling import Sheet
from tokenization.ensemble.tokens import (
    CHORD,
    DRUMS,
    FAMILIES,
    HARMONY,
    LENGTHS,
    LONGEST_BAR,
    PART_NAMES,
    PITCH,
    PITCHED,
    STEPS_PER_SUBBEAT,
    VOCABULARY,
)
from tokenization.ensemble.usual import Usual

RECENT = 16  # given bars that show how much a part plays
FEWEST = 8  # given notes of a part that has habits …
FEWEST_OF_FEW = 4  # … or one a bar of fewer bars, but at least so many
OFTEN = 0.5  # of the recent bars in which a part plays that is expected in each
PERIODS = (1, 2, 4, 8)  # bars
COMPARED = 8  # last bars that are compared with those one period before
SHARED = 0.85  # mean Jaccard index of the onsets of these pairs from which a rhythm recurs
MARGIN = 0.02  # by which a longer period must exceed the shorter ones
# Plucked basses are of no section, even if they share the beats of a guitar.
BASSES = [PART_NAMES.index(name) for name in FAMILIES["bass"]]
TOGETHER = 0.8  # Jaccard index of the onsets of parts that move together
# Share of the common onsets that have the same notes, octaves apart or not, if a part doubles another.
DOUBLED = 0.85
APART = 999  # semitones, of no double
# What a part may exceed its range by on either side: a share of it, or semitones; and of what it grew by in between.
WIDER, LEAST, GROWN = 0.125, 1.0, 1.0
# Nats for each semitone outside a part's range, less in scores, which range more widely, and the most, also against
# leaving an onset whose top note is too low; fewer if fewer bars than RECENT show the range, or if a plan asks for
# registers.
BEYOND, BEYOND_IN_SCORES, FARTHEST = 1.5, 0.4, 6.0
# The share of the bars whose lowest note says how deep a part of several voices goes, and semitones above it.
USUALLY, SHALLOWER = 0.75, 2
FULLER = 1.5  # factor of the nats against more notes at once than in so many onsets, by the unseen's odds
FIFTH = 7  # semitones of a leap
FORM_PERIODS = (12, 8, 16, 32)  # bars after which harmony recurs …
AGREED = 0.8  # … if so much of the bars have the first chord of the bar one period before …
DISTINCT = 0.1  # … and by so much more than that of any shorter period
# Nats against the pitch classes that the given music lacks, unless it is a score, since scores modulate; and under a
# plan, which draws music away from its key.
STRANGE, PULLED = 0.25, 2.0
OUTSIDE = 3.5  # nats against pitch classes outside the scale of a key that was asked for …
HOME = 1.0  # … for its tonic chord …
RELATIVE = -1.0  # … and for that of its relative
# The nats on the pitch classes of a key that was asked for, from its tonic: those of its tonic triad are favoured.
MAJOR = {0: 0.5, 2: 0.0, 4: 0.5, 5: 0.0, 7: 0.25, 9: -0.25, 11: 0.0}
MINOR = {0: 0.5, 2: 0.0, 3: 0.5, 5: 0.0, 7: 0.25, 8: 0.0, 10: -0.75, 11: -0.25}


@dataclass(frozen=True, kw_only=True, eq=False)
class Habits:
    """The habits of P given parts."""

    parts: np.ndarray  # (P,) instruments
    judged: np.ndarray  # (P,) whether a part has habits
    rate: np.ndarray  # (P,) notes a bar
    plays: np.ndarray  # (P,) whether it plays in most bars
    leader: np.ndarray  # (P,) the part that it moves with, −1 for none
    above: np.ndarray  # (P,) how many semitones above the leader it doubles it; APART for none
    last: np.ndarray  # (bars, P, S) whether each part attacks a step, the latest given bar first
    period: np.ndarray  # (P,) bars after which its onsets recur, 0 for none
    # (P,) 1, in a band 2, if they do so without exception, or are always those of its leader; else 0
    exact: np.ndarray
    low: np.ndarray  # (P,) the lowest usual pitch
    high: np.ndarray  # (P,)
    floor: np.ndarray  # (P,) the lowest usual top note of an onset; −1 in one voice
    depth: np.ndarray  # (P,) what the lowest note of a bar usually is at most, in several voices
    most: np.ndarray  # (P,) notes at once
    fuller: np.ndarray  # (P,) nats against each one more
    strict: float  # nats for each semitone outside
    leaps: np.ndarray  # (P,) the fraction of moves by a fifth or more; 1 unless it is one voice
    usual: Usual
    is_score: bool
    form: int  # bars after which the harmony recurs; 0 for none
    strange: np.ndarray  # (V,) nats on pitches and chords
    key: int  # that was asked for, −1 for none
    scale: np.ndarray  # (bars,) of the notes in each new bar, by the plan
    fifth: bool  # whether bars have a fifth beat, which models trained on 4/4 leave empty

    @cached_property
    def against_range(self) -> np.ndarray:
        """The nats against each pitch in each part: (P, pitches)."""
        pitch, low, high = np.arange(len(PITCH)), self.low[:, None], self.high[:, None]
        outside = np.maximum(np.maximum(low - pitch, pitch - high), 0)
        return np.minimum(self.strict * np.ceil(outside), FARTHEST)


def habits_of(
    sheet: Sheet,
    plays: bool,
    scale: np.ndarray,
    strange: np.ndarray,
    key: int = -1,
    *,
    fifth: bool = False,
) -> Habits:
    """Return the habits of the parts of given bars.

    `plays`: whether parts are expected to play as often as before. `scale` says how many notes the plan asks of each
    new bar, relative to the given ones. `strange`, `key` and `fifth` are those of `Habits`.
    """
    bars, count = len(sheet.bars), len(sheet.parts)
    first = max(0, bars - RECENT)
    late = sheet.bar >= first
    rate = np.bincount(sheet.part[late], minlength=count) / max(bars - first, 1)
    played = np.zeros((count, max(bars, 1)), bool)
    played[sheet.part, sheet.bar] = True
    notes = np.bincount(sheet.part, minlength=count)
    fewest = min(FEWEST, max(FEWEST_OF_FEW, bars))
    judged = (notes >= fewest) & (sheet.parts != HARMONY) & (rate > 0)
    unsure = RECENT / max(min(bars, RECENT), 1)
    written = is_score(sheet)
    low, high, floor = np.zeros(count), np.full(count, 127.0), np.full(count, -1.0)
    depth, most = np.full(count, float(len(PITCH))), np.full(count, len(PITCH))
    fuller = np.zeros(count)
    leaps = np.ones(count)
    for part in np.flatnonzero(judged & (sheet.parts < PITCHED)).tolist():
        own = sheet.part == part
        value = sheet.value[own]
        onset, at, many = np.unique(sheet.onset[own], return_inverse=True, return_counts=True)
        most[part] = many.max()
        # In eighths, so that no rounding decides.
        fuller[part] = np.round(8 * FULLER * np.log1p(len(many) / 2)) / 8
        late_half = 2 * sheet.bar[own] >= bars
        halves = [
            np.ptp(half) if len(half) else 0 for half in (value[late_half], value[~late_half])
        ]
        growth = float(np.ptp(value)) - sum(halves) / 2  # from half of the bars to all
        extra = max(LEAST, WIDER * float(np.ptp(value))) + GROWN * growth
        low[part], high[part] = value.min() - extra, value.max() + extra
        if many.max() == 1 and len(onset) > FEWEST:
            moves = np.abs(np.diff(value[np.argsort(sheet.onset[own], kind="stable")]))
            leaps[part] = (moves >= FIFTH).mean()
        if many.max() > 1:
            top = np.zeros(len(onset), value.dtype)
            np.maximum.at(top, at, value)
            floor[part] = top.min() - extra
            lowest = np.full(bars, 127, value.dtype)
            np.minimum.at(lowest, sheet.bar[own], value)
            depth[part] = np.quantile(lowest[played[part]], USUALLY) + SHALLOWER
    (leader, above), last = _leaders(sheet, judged), history(sheet)
    period = np.array([recurring(last[:, part], bars) * judged[part] for part in range(count)], int)
    return Habits(
        parts=sheet.parts,
        judged=judged,
        rate=rate,
        plays=judged & (played[:, first:].mean(1) >= OFTEN) & plays,
        leader=leader,
        above=above,
        last=last,
        period=period,
        exact=np.array(
            [_is_exact(last, bars, part, leader[part], period[part]) for part in range(count)], int
        )
        * (1 + (DRUMS in sheet.parts)),
        low=low,
        high=high,
        floor=floor,
        depth=depth,
        most=most,
        fuller=fuller,
        strict=2 * (BEYOND_IN_SCORES if written else BEYOND) / (1 + unsure),
        leaps=leaps,
        usual=Usual.of(sheet, judged, late),
        is_score=written,
        form=_form(sheet),
        strange=strange,
        key=key,
        scale=scale,
        fifth=fifth,
    )


def _leaders(sheet: Sheet, judged: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return an earlier part whose onsets each part shares, −1 for none, and `Habits.above`: (P,) each.

    It is one that the part doubles, if there is one, else the first, as for a bass that walks.
    """
    count = len(sheet.parts)
    onsets = [np.unique(sheet.onset[sheet.part == part]) for part in range(count)]
    leader, above = np.full(count, -1), np.full(count, APART)
    is_bass, moves = np.isin(sheet.parts, BASSES), judged & (sheet.parts < PITCHED)
    for part in np.flatnonzero(moves).tolist():
        for other in np.flatnonzero(moves[:part]).tolist():
            if _shared(onsets[part], onsets[other]) < TOGETHER:
                continue
            if (found := _distance(sheet, part, other)) != APART:
                leader[part], above[part] = other, found
                break
            if leader[part] < 0 and not is_bass[[part, other]].any():
                leader[part] = other
    return leader, above


def _distance(sheet: Sheet, part: int, other: int) -> int:
    """Return how many semitones above another part a part doubles it, APART if it does not."""
    own, others = (_chords_of(sheet, one) for one in (part, other))
    common = own.keys() & others.keys()
    apart = [max(own[onset]) - max(others[onset]) for onset in common]
    usual = max({*apart}, key=lambda one: (apart.count(one), -abs(one), one))
    same = sum(own[onset] == {note + usual for note in others[onset]} for onset in common)
    return usual if usual % 12 == 0 and same >= DOUBLED * len(common) else APART


def _chords_of(sheet: Sheet, part: int) -> dict[int, set[int]]:
    """Return the notes of a part by onset."""
    found: dict[int, set[int]] = {}
    own = sheet.part == part
    for onset, value in zip(sheet.onset[own].tolist(), sheet.value[own].tolist(), strict=True):
        found.setdefault(onset, set()).add(value)
    return found


def _shared(some: np.ndarray, others: np.ndarray) -> float:
    """Return the Jaccard index of two sorted arrays."""
    both = len(np.intersect1d(some, others, assume_unique=True))
    return both / max(len(some) + len(others) - both, 1)


def _form(sheet: Sheet) -> int:
    """Return the period of the chords on the bar lines; 0 if they have none, or a shorter one."""
    bars = len(sheet.bars)
    first = np.full(bars, -1)
    own = np.flatnonzero(sheet.instrument == HARMONY)[::-1]
    first[sheet.bar[own]] = sheet.value[own]

    def agreement(period: int) -> float:
        return float((first[period:] == first[:-period]).mean()) if bars > period else 0.0

    if not bars:
        return 0
    short = max(agreement(period) for period in (1, 2, 4))
    for period in FORM_PERIODS:
        if (
            bars >= period + 4
            and agreement(period) >= AGREED
            and agreement(period) >= short + DISTINCT
        ):
            return period
    return 0


def is_score(sheet: Sheet) -> bool:
    """Return whether music is a score: it has no drums, and notated lengths."""
    return is_notated(sheet.length[sheet.instrument < PITCHED]) and DRUMS not in sheet.parts


def strange(sheet: Sheet, *, is_pulled: bool) -> np.ndarray:
    """Return the nats on each pitch and chord by how often the given music has its pitch classes: (V,)."""
    pitched = sheet.instrument < PITCHED
    weight = np.bincount(sheet.value[pitched] % 12, LENGTHS[sheet.length[pitched]], 12)
    share = weight / max(weight.sum(), 1)
    nats = PULLED if is_pulled else 0.0 if is_score(sheet) else STRANGE
    # In eighths, so that no rounding decides.
    return _by_class(-np.round(8 * nats * np.clip(1 - share * 24, 0, 1)) / 8)


def _by_class(of_class: np.ndarray) -> np.ndarray:
    """Return the nats of pitches and chords from those of pitch classes: (12,) → (V,)."""
    nats = np.zeros(len(VOCABULARY), np.float32)
    nats[PITCH.start : PITCH.stop] = of_class[np.arange(len(PITCH)) % 12]
    nats[CHORD.start : CHORD.stop] = np.where(TONES, of_class, 0).min(1)
    return nats


def in_key(key: int) -> np.ndarray:
    """Return the nats on each pitch and chord in a key that was asked for: (V,)."""
    scale = MINOR if key >= len(ROOTS) else MAJOR
    nats = _by_class(np.array([scale.get((tone - key) % 12, -OUTSIDE) for tone in range(12)]))
    nats[TONICS[key]] += HOME
    nats[TONICS[12 + (key + 9) % 12 if key < len(ROOTS) else (key + 3) % 12]] += RELATIVE
    return nats


def recurring(past: np.ndarray, bars: int) -> int:
    """Return the number of bars after which most onsets recur, 0 for none, from those of the latest bars: (bars, S)."""
    best, chosen = SHARED - MARGIN, 0
    for period in PERIODS:
        known = min(COMPARED, bars - period)
        if known < 1:
            continue
        now, then = past[:known], past[period : period + known]
        either = (now | then).sum(1)
        share = (now & then).sum(1)[either > 0] / either[either > 0]
        if len(share) and share.mean() > best + MARGIN:
            best, chosen = float(share.mean()), period
    return chosen


def _is_exact(last: np.ndarray, bars: int, part: int, leader: int, period: int) -> bool:
    """Return whether the onsets of a part are those of its leader, or recur, in all of the last bars."""
    if leader >= 0:
        return np.array_equal(last[:, part], last[:, leader])
    known = min(COMPARED, bars - period)
    then = last[period : period + known, part]
    return period > 0 and np.array_equal(last[:known, part], then)


def history(sheet: Sheet) -> np.ndarray:
    """Return the onsets of the last bars of each part, the latest first: (bars, P, S) bool."""
    found = np.zeros((COMPARED + PERIODS[-1], len(sheet.parts), LONGEST_BAR), bool)
    place = sheet.onset - (sheet.bars.start * STEPS_PER_SUBBEAT)[sheet.bar]
    back = len(sheet.bars) - 1 - sheet.bar
    late = back < len(found)
    found[back[late], sheet.part[late], place[late]] = True
    return found
