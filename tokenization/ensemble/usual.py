"""What the notes of a band's parts are usually like: how long, how loud, how many at once, and which drums.

A band plays patterns, so that what a part has not done in many notes is improbable: the nats against it grow with the
odds that the next note is like given ones (Good–Turing: the unseen have about the probability of what was seen once).

Letters: P parts, S steps of a bar, L lengths, D drums, V levels of loudness, N notes at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tokenization.ensemble.grammar import AFTER_LOUDNESS, AFTER_VALUE, LEAVING
from tokenization.ensemble.spelling import Sheet
from tokenization.ensemble.tokens import (
    AT,
    DRUM,
    DRUMS,
    LENGTH,
    LONGEST_BAR,
    LOUDNESS,
    PITCH,
    STEPS_PER_SUBBEAT,
)

SURE = 2.0  # nats of odds up to which nothing is said
MOST = 4.0  # nats
MOST_AT_ONCE = 12  # notes
# Nats against each level of loudness beyond so many deviations of given notes from the usual level of their step, and
# the least deviation.
PER_LEVEL, WITHIN, LEAST = 0.375, 1.5, 0.5


@dataclass(frozen=True, kw_only=True, eq=False)
class Usual:
    """The nats for and against what P parts do."""

    length: np.ndarray  # (P, L) against each length
    drum: np.ndarray  # (D,) against each drum
    loudness: np.ndarray  # (P, S, V) against each level
    another: np.ndarray  # (P, S, N) for another note where a part has so many, negative for none

    @classmethod
    def of(cls, sheet: Sheet, judged: np.ndarray, late: np.ndarray) -> Usual:
        """Return what is usual for the judged parts by their `late` notes; nothing is, in music without drums."""
        parts = len(sheet.parts)
        place = sheet.onset - (sheet.bars.start * STEPS_PER_SUBBEAT)[sheet.bar]
        length = np.zeros((parts, len(LENGTH)), np.float32)
        loudness = np.zeros((parts, LONGEST_BAR, len(LOUDNESS)), np.float32)
        another = np.zeros((parts, LONGEST_BAR, MOST_AT_ONCE), np.float32)
        drum = np.zeros(len(DRUM), np.float32)
        for part in np.flatnonzero(judged & (DRUMS in sheet.parts)).tolist():
            own = late & (sheet.part == part)
            if not sheet.flat:
                loudness[part] = _against_loudness(place[own], sheet.loudness[own])
            if sheet.parts[part] == DRUMS:
                drum = _against_unseen(sheet.value[own], len(DRUM))
            else:
                length[part] = _against_unseen(sheet.length[own], len(LENGTH))
                another[part] = _for_another(place[own], sheet.onset[own])
        return cls(length=length, drum=drum, loudness=loudness, another=another)

    def add_to(
        self, nats: np.ndarray, part: int, *, kind: int, at: int, notes: int, loudness: int
    ) -> None:
        """Add what is usual for a part at a step, after a token of a kind, to the nats of tokens, (tokens,).

        `notes`: that the part has there; `loudness`: of its last note in the bar, −1 for none.
        """
        nats[DRUM.start : DRUM.stop] -= self.drum
        nats[LENGTH.start : LENGTH.stop] -= self.length[part]
        if at < 0:
            return
        if kind != AFTER_LOUDNESS:
            against = self.loudness[part, at]
            nats[LOUDNESS.start : LOUDNESS.stop] -= against
            if kind != AFTER_VALUE and loudness >= 0:
                nats[PITCH.start : DRUM.stop] -= against[loudness]
        if kind == AFTER_VALUE:
            more = self.another[part, at, min(notes, MOST_AT_ONCE) - 1]
            nats[LENGTH.start : PITCH.stop] += min(more, 0)
            nats[AT.start : AT.stop] -= max(more, 0)
            nats[LEAVING] -= max(more, 0)


def _against_unseen(values: np.ndarray, count: int) -> np.ndarray:
    """Return the nats against each of `count` values by how improbable it is that an unseen one comes: (count,)."""
    many = np.bincount(values, minlength=count)
    unseen = ((many == 1).sum() + 0.5) / (many.sum() + 1)
    return np.where(many == 0, _beyond(np.log((1 - unseen) / unseen)), 0)


def _against_loudness(place: np.ndarray, level: np.ndarray) -> np.ndarray:
    """Return the nats against each level at each step of the bar: (S, V)."""
    many = np.bincount(place, minlength=LONGEST_BAR) + 1
    usual = (np.bincount(place, level, LONGEST_BAR) + level.mean()) / many
    deviation = max(float(np.sqrt(np.mean((level - usual[place]) ** 2))), LEAST)
    away = np.abs(np.arange(len(LOUDNESS)) - usual[:, None])
    return _rounded(np.clip(PER_LEVEL * (away - WITHIN * deviation), 0, MOST))


def _for_another(place: np.ndarray, onset: np.ndarray) -> np.ndarray:
    """Return the nats for another note at each step where a part has 1, 2, … notes: (S, N)."""
    _, first, notes = np.unique(onset, return_index=True, return_counts=True)
    notes = np.minimum(notes, MOST_AT_ONCE) - 1
    here = np.zeros((LONGEST_BAR, MOST_AT_ONCE))
    np.add.at(here, (place[first], notes), 1)
    here += np.bincount(notes, minlength=MOST_AT_ONCE) / len(notes)
    more = here[:, ::-1].cumsum(1)[:, ::-1] - here
    odds = np.where(here + more < 0.5, 0, np.log((more + 0.1) / (here + 0.1)))
    return np.sign(odds) * _beyond(np.abs(odds))


def _beyond(odds: np.ndarray) -> np.ndarray:
    return _rounded(np.clip(odds - SURE, 0, MOST))


def _rounded(nats: np.ndarray) -> np.ndarray:
    """Return nats in eighths, so that no rounding decides."""
    return np.round(8 * nats) / 8
