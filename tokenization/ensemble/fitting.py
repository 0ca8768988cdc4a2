"""What new parts prefer so that they fit the given ones: their chords, their melody, and the space left by each other.

The grammar adds nats to the tokens of pitches: fewer for tones outside the given chord, for tones a semitone from a
given part, and where many pitches sound already, and more for the seventh of a chord. Nothing is forbidden by this.

Letters: B rows of a batch, V tokens of the vocabulary, P parts, S steps of the piece, W cells of the near future.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tokenization.analysis.chords import NONE, PITCH_CLASSES, QUALITIES, SEVENTHS, TONES
from tokenization.ensemble.arranging import (
    BASS,
    BASSES,
    CHORDS,
    HOLDS,
    LINE,
    MOVES,
    NO_ROLE,
    VOICES,
    WALKS,
    Arrangement,
    phrases_of,
)
from tokenization.ensemble.drumming import HAND_IDS, SNARE_IDS, Groove
from tokenization.ensemble.given_returns import returns_of
from tokenization.ensemble.grammar import AFTER_VALUE, PLACED, PLACES, SOUNDS, EnsembleGrammar
from tokenization.ensemble.spelling import Sheet
from tokenization.ensemble.tokens import (
    AT,
    BAR,
    DRUMS,
    HARMONY,
    LENGTH,
    LENGTHS,
    LONGEST_BAR,
    LOUDNESS,
    METRE_STEPS,
    MOST_PARTS,
    PITCH,
    PITCHED,
    STEPS_PER_BEAT,
    STEPS_PER_SUBBEAT,
    VOCABULARY,
)

# In nats. Chosen on the sheets with odd numbers of `musicgen evaluate accompaniment --sheets`.
SEMITONE = 3.0  # for a tone a semitone from one of a given part, by the share of its time
OUTSIDE = 1.0  # for a tone outside the chord, by the share of its time; on a beat
OUTSIDE_BASS = 3.0  # the same in the bass
LINGERING = 1.0  # and for each beat of its time after the first
PASSING = 0.5  # factor off the beat
UNROOTED = 3.0  # for another tone than the chord's root in the bass; on a beat
WALKING = 0.35  # factor for a bass that walks, within the bar
LATE = 3.0  # for a bass that begins after the bar line
EARLY = 12.0  # for what comes before the first given note
ROOTED = 1.5  # for the chord's root in a part that holds its notes, by the share of its time
# In favour of a seventh that nobody has and that fits all of the note, in a part that is no bass, by the share of its
# time.
SEVENTH = 3.0
CROWDED = 1.5  # for each pitch beyond the space
AT_ONCE = 5  # pitches of all new parts
RESERVED = 0.5  # of them for each new part that is still to be written in the bar

TOO_SHORT = 2.5  # for a length below two beats in a part that holds its notes, and below one in a bass that does
TOO_LONG = 2.0  # for a length above a beat in a part that moves
STILL = 1.0  # in a part that moves, for each time in the bar that it has played the pitch class …
STILLEST = 3.0  # … up to this
LOW, TOO_LOW = 28, 1.5  # for each semitone of a bass below the lowest string of most
STRAYING = 12.0  # for an octave outside the register
# Semitones of the register of each role on each side of its middle.
REACH = np.array([4, 6, 6, 4, 4, len(PITCH)])
FULLER = 4.0  # in favour of one more note of a chord that has fewer
ONE_MORE = 4.0  # for a note more at once than the part has voices

CELL = STEPS_PER_SUBBEAT
CELLS = (LONGEST_BAR + int(LENGTHS[-1])) // CELL + 1  # that a note of a bar can reach
IS_LONG = LENGTHS > STEPS_PER_BEAT
CLASS = np.arange(len(PITCH)) % PITCH_CLASSES
AGAINST_LOW = TOO_LOW * np.maximum(LOW - np.arange(len(PITCH)), 0)
CHORDAL = HOLDS, MOVES, CHORDS


@dataclass(frozen=True, kw_only=True, eq=False)
class Given:
    """What the given parts do: where they begin, and sums over the steps so far, for each pitch class, (S + 1, 12)."""

    begins: int  # the step of the first note
    clashing: np.ndarray  # whether a given part has a tone a semitone from it, and none has itself
    outside: np.ndarray  # whether the given chord lacks it
    unrooted: np.ndarray  # whether it is not the root of the given chord
    seventh: np.ndarray  # whether it is the seventh of the given chord, and no given part has it

    @classmethod
    def of(cls, sheet: Sheet) -> Given:
        """Return what the parts of a sheet do; without chords, no tone is outside."""
        steps = int(sheet.bars.length.sum()) * STEPS_PER_SUBBEAT
        pitched = sheet.instrument < PITCHED
        change = np.zeros((steps + 1, PITCH_CLASSES), np.int32)
        start = sheet.onset[pitched]
        end = np.minimum(start + LENGTHS[sheet.length[pitched]], steps)
        tone = sheet.value[pitched] % PITCH_CLASSES
        np.add.at(change, (start, tone), 1)
        np.add.at(change, (end, tone), -1)
        sounds = change.cumsum(0)[:-1] > 0
        harmony = sheet.instrument == HARMONY
        places = np.append(0, sheet.onset[harmony])
        chords = np.append(NONE, sheet.value[harmony])
        now = chords[np.searchsorted(places, np.arange(steps), side="right") - 1]
        known = (now != NONE)[:, None]
        return cls(
            begins=int(sheet.onset[~harmony].min()) if (~harmony).any() else 0,
            clashing=_sums((np.roll(sounds, 1, axis=1) | np.roll(sounds, -1, axis=1)) & ~sounds),
            outside=_sums(~TONES[now] & known),
            unrooted=_sums((now[:, None] // len(QUALITIES) != np.arange(PITCH_CLASSES)) & known),
            seventh=_sums(SEVENTHS[now] & ~sounds),
        )

    def shares(self, start: np.ndarray, steps: np.ndarray) -> list[np.ndarray]:
        """Return the share of some spans in which each of the four is so: (spans…, 12) each."""
        last = len(self.clashing) - 1
        first, end = np.minimum(start, last), np.minimum(start + steps, last)
        size = np.maximum(end - first, 1)[..., None]
        return [
            (sums[end] - sums[first]) / size
            for sums in (self.clashing, self.outside, self.unrooted, self.seventh)
        ]


def first_downbeat(sheet: Sheet) -> int:
    """Return the bar of the first downbeat, which follows a pickup: first notes in the last half of their bar."""
    onset = sheet.onset[sheet.instrument != HARMONY]
    if not len(onset):
        return 0
    start, length = (row * STEPS_PER_SUBBEAT for row in (sheet.bars.start, sheet.bars.length))
    bar = int(np.searchsorted(start, onset.min(), side="right")) - 1
    return bar + int(2 * (onset.min() - start[bar]) >= length[bar])


def _sums(of: np.ndarray) -> np.ndarray:
    return np.concatenate([np.zeros((1, PITCH_CLASSES), np.int32), of.cumsum(0, dtype=np.int32)])


class Fitting(EnsembleGrammar):
    """The grammar of parts that are written to given ones, with preferences among lengths and pitches."""

    def __init__(
        self, given: Given, arrangement: Arrangement, groove: Groove, **rules: Any
    ) -> None:
        """Take what the given parts do, what the new ones do, and the arguments of `EnsembleGrammar`."""
        super().__init__(**rules)
        self._given, self._arrangement, self._groove = given, arrangement, groove
        self._struck = np.zeros(1, dtype=bool)  # whether the drums have a snare at their position
        self._hands = np.zeros(1, dtype=np.int64)  # drums that hands play there
        self._sounding = np.zeros((1, CELLS, len(PITCH)), dtype=bool)  # of new parts, from the bar
        # How often the part has played each pitch class in the bar: (B, 12).
        self._in_bar = np.zeros((1, PITCH_CLASSES), dtype=np.int64)

    @classmethod
    def to(
        cls,
        given: Sheet,
        parts: np.ndarray,
        written: np.ndarray,
        back: np.ndarray | None,
        **rules: Any,
    ) -> Fitting:
        """Return the grammar of the `written` ones of these parts, which have roles if `back` says what returns."""
        returns = returns_of(given) if back is None else back
        first = first_downbeat(given)
        onset = given.onset[given.instrument < PITCHED]
        arrangement = Arrangement.of(
            parts,
            written & (back is not None),
            returns,
            first,
            to_melody=len(np.unique(onset)) == len(onset) > 0,
        )
        groove = Groove.of(given, phrases_of(returns, first))
        return cls(Given.of(given), arrangement, groove, **rules)

    def bias(self) -> np.ndarray | None:
        """Return the nats that are added to the logits of the next token, (B, V), or None for none."""
        part = np.maximum(self._part, 0)
        every = np.arange(len(part))
        instrument = self._instrument[every, part]
        writes = self._may_write[every, part] & (self._part >= 0)
        places, sounds = PLACES[self._kind], SOUNDS[self._kind]
        pitched = (writes & sounds & (instrument < PITCHED)).nonzero()[0]
        drums = (writes & (sounds | places) & (instrument == DRUMS)).nonzero()[0]
        begins = writes & places & (self._at < 0)
        if not len(pitched) and not len(drums) and not begins.any():
            return None
        bar = np.clip(self._bars - 1, 0, len(self._arrangement.role) - 1)
        role, middle = (of[bar, part] for of in (self._arrangement.role, self._arrangement.middle))
        basses = (begins & np.isin(role, (BASS, WALKS, LINE))).nonzero()[0]
        found = np.zeros((len(part), len(VOCABULARY)), dtype=np.float32)
        for row in drums.tolist():
            where = (int(state[row]) for state in (self._bars - 1, self._metre, self._at))
            nats = self._groove.bias(
                *where,
                placing=bool(places[row]),
                struck=bool(self._struck[row]),
                hands=int(self._hands[row]),
            )
            found[row, : len(nats)] = nats
        found[basses, AT.start + 1 : AT.stop] -= LATE
        early = (self._start < self._given.begins) & writes & places & (instrument != HARMONY)
        for row in early.nonzero()[0].tolist():
            found[row, AT.start : AT.stop][: self._given.begins - self._start[row]] -= EARLY
        if len(pitched):
            found[pitched, LENGTH.start : LENGTH.stop] -= self._against_lengths(
                pitched, role[pitched]
            )
            rows = pitched[self._length[pitched] >= 0]
            role, middle = role[rows], middle[rows]
            crowding, sounding = self._crowding(rows)
            pitches, more = self._against_more(rows, role, crowding, sounding)
            found[rows, LENGTH.start : LOUDNESS.stop] -= more[:, None]
            pitches += self._against_tones(rows, role, sounding) + _straying(role, middle)
            pitches += AGAINST_LOW * self._is_bass(rows)[:, None]
            still = np.minimum(STILL * self._in_bar[rows], STILLEST)
            pitches += (still * np.isin(role, (MOVES, WALKS))[:, None])[:, CLASS]
            found[rows, PITCH.start : PITCH.stop] -= pitches
        return found

    def _against_lengths(self, rows: np.ndarray, role: np.ndarray) -> np.ndarray:
        """Return the nats against each length, by the role and by the tone that fits it best: (rows, lengths)."""
        first = (self._kind[rows] == PLACED)[:, None]
        short = np.where(role == HOLDS, 2, role == BASS)[:, None] * STEPS_PER_BEAT > LENGTHS
        moves = np.isin(role, (MOVES, WALKS))[:, None]
        steps = np.broadcast_to(LENGTHS, short.shape)
        best = self._against_classes(rows, role, steps, *self._shares(rows, steps)).min(-1)
        return best + first * (TOO_SHORT * short + TOO_LONG * (moves & IS_LONG))

    def _against_tones(
        self, rows: np.ndarray, role: np.ndarray, sounding: np.ndarray
    ) -> np.ndarray:
        """Return the nats against each pitch for how it fits what is given: (rows, pitches)."""
        steps = LENGTHS[self._length[rows, None]]
        shares = self._shares(rows, steps)
        against = self._against_classes(rows, role, steps, *shares)[:, 0]
        clashing, outside, unrooted, seventh = (share[:, 0] for share in shares)
        rooted = ROOTED * (1 - unrooted) * (role == HOLDS)[:, None]
        played = np.zeros_like(seventh)  # by new parts
        np.maximum.at(played.T, CLASS, sounding.T)
        fits = (outside == 0) & (clashing == 0) & np.isin(role, CHORDAL)[:, None]
        missing = fits * np.maximum(seventh - played, 0)
        return (against + rooted - SEVENTH * missing)[:, CLASS]

    def _shares(self, rows: np.ndarray, steps: np.ndarray) -> list[np.ndarray]:
        """Return what the given parts do in notes of some lengths: (rows, lengths, 12) each."""
        return self._given.shares((self._start[rows] + self._at[rows])[:, None], steps)

    def _against_classes(
        self, rows: np.ndarray, role: np.ndarray, steps: np.ndarray,
        clashing: np.ndarray, outside: np.ndarray, unrooted: np.ndarray, _: np.ndarray,
    ) -> np.ndarray:  # fmt: skip
        """Return the nats against each pitch class in notes of some lengths, by their shares: (rows, lengths, 12)."""
        at = self._at[rows, None, None]
        walking = np.where((role == WALKS)[:, None, None] & (at > 0), WALKING, 1)
        harmony = np.where(
            self._is_bass(rows)[:, None, None],
            OUTSIDE_BASS * outside + UNROOTED * walking * unrooted,
            OUTSIDE * outside,
        )
        harmony += LINGERING * np.maximum(outside * steps[..., None] / STEPS_PER_BEAT - 1, 0)
        return SEMITONE * clashing + np.where(at % STEPS_PER_BEAT, PASSING, 1) * harmony

    def _is_bass(self, rows: np.ndarray) -> np.ndarray:
        return np.isin(self._instrument[rows, self._part[rows]], BASSES)

    def _against_more(
        self, rows: np.ndarray, role: np.ndarray, crowding: np.ndarray, sounding: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the nats against each pitch as one more, (rows, pitches), and against a token that begins one more.

        Pitches that sound already may be doubled.
        """
        voices = np.where(self._is_bass(rows), 1, np.append(VOICES, len(PITCH))[role])
        full = ONE_MORE * (self._at_once[rows] >= voices)
        again = self._kind[rows] == AFTER_VALUE
        fuller = FULLER * (again & (role == CHORDS) & (self._at_once[rows] < voices))
        pitches = crowding[:, None] * (1 - sounding) + (full - fuller)[:, None]
        return pitches, again * (crowding + full)

    def _crowding(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the nats against one more pitch, (rows,), and the shares in which each sounds: (rows, pitches)."""
        at, steps = self._at[rows], LENGTHS[self._length[rows]]
        first, last = at // CELL, (at + steps - 1) // CELL + 1
        sums = np.cumsum(self._sounding[rows], axis=1, dtype=np.int16)
        index = np.arange(len(rows))
        before = np.where(first[:, None] > 0, sums[index, np.maximum(first - 1, 0)], 0)
        count, width = sums[index, last - 1] - before, last - first
        instrument = self._instrument[rows]
        later = (np.arange(MOST_PARTS) > self._part[rows, None]) & self._may_write[rows]
        later &= (instrument >= 0) & (instrument < PITCHED)
        space = AT_ONCE - RESERVED * later.sum(1)
        beyond = np.maximum(count.sum(1) / width + 1 - space, 0)
        return CROWDED * beyond, count / width[:, None]

    def _begin_bar_or_part(self, row: int, token: int) -> None:
        if token == BAR and self._bars[row]:
            past = int(METRE_STEPS[self._metre[row]]) // CELL
            self._sounding[row] = np.concatenate(
                [self._sounding[row, past:], np.zeros((past, len(PITCH)), bool)]
            )
        self._in_bar[row] = 0
        super()._begin_bar_or_part(row, token)

    def _add_notes(self, rows: np.ndarray, tokens: np.ndarray) -> None:
        part = self._part[rows]
        new = self._may_write[rows, part] & (self._instrument[rows, part] < PITCHED)
        for row, token in zip(rows[new].tolist(), tokens[new].tolist(), strict=True):
            at = int(self._at[row])
            end = (at + int(LENGTHS[self._length[row]]) - 1) // CELL + 1
            self._sounding[row, at // CELL : end, token - PITCH.start] = True
            self._in_bar[row, (token - PITCH.start) % PITCH_CLASSES] += 1
        self._struck[rows] |= np.isin(tokens, SNARE_IDS)
        self._hands[rows] += np.isin(tokens, HAND_IDS)
        super()._add_notes(rows, tokens)

    def advance(self, tokens: np.ndarray) -> None:
        """Append one token to each row: (B,) allowed ids."""
        super().advance(tokens)
        placed = (self._kind == PLACED) & AT.holds(np.asarray(tokens))
        self._struck[placed], self._hands[placed] = False, 0


def _straying(role: np.ndarray, middle: np.ndarray) -> np.ndarray:
    """Return the nats against each pitch for its distance from the register of a part with a role: (rows, pitches)."""
    away = np.abs(np.arange(len(PITCH)) - middle[:, None]) - REACH[role][:, None]
    return STRAYING * np.maximum(away, 0) / PITCH_CLASSES * (role != NO_ROLE)[:, None]
