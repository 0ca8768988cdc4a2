"""The grammar of the ensemble language: the tokens that can follow each prefix of a batch.

It enforces the order of tokens that spelling.py describes, and further rules. If some parts are given, only others can
be written. Plan tokens can follow a bar token, in their order. At least as many parts play in a written bar as its plan
says. A part can only move to a position at which one of its keys is free. Parts keep to their promises (promises.py),
and none rests for long if that was asked. Goal tokens change no state.

Letters: B rows of a batch, V tokens of the vocabulary, P parts.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from tokenization.analysis.chords import CHORDS, ROOTS
from tokenization.analysis.chords import key as estimated_key
from tokenization.analysis.metres import FOUR_FOUR
from tokenization.ensemble.promises import Promises
from tokenization.ensemble.spelling import Reading, value_start
from tokenization.ensemble.tokens import (
    AFTER,
    AT,
    BAR,
    BARS_BACK,
    BEFORE,
    BEGIN,
    CHORD,
    DRUM,
    DRUMS,
    END,
    EXTRA_START,
    FLAT,
    HARMONY,
    KEY,
    LATER_STYLE,
    LEFT_1,
    LENGTH,
    LENGTHS,
    LONGEST_BAR,
    LOUDNESS,
    METRE,
    METRE_STEPS,
    MOST_PARTS,
    MOST_VOICES,
    PART,
    PITCH,
    PITCHED,
    PLAN_FAMILIES,
    PLAN_START,
    PLAN_STOP,
    PLAYERS_1,
    STYLE,
    TEMPO,
    VOCABULARY,
    VOICE,
)
from tokenization.grammar import Grammar

# The kind of the last token; NOTHING before the first one. A row is never in state GOAL or ABOUT: see `advance`.
NOTHING, BEGUN, DECLARED, AFTER_BAR, AFTER_PLAN, AFTER_METRE, NAMED, PLACED = range(8)
AFTER_LENGTH, AFTER_LOUDNESS, AFTER_VALUE, ENDED, GOAL, ABOUT = range(8, 14)


def _among(*kinds: int) -> np.ndarray:
    """Return whether each kind is one of these."""
    return np.isin(np.arange(ABOUT + 1), kinds)


IN_HEAD = _among(BEGUN, DECLARED)
BEGINS = _among(NAMED, AFTER_BAR)  # a part or a bar begins
DESCRIBES = _among(ABOUT, AFTER_PLAN)
RESTARTS = _among(PLACED, AFTER_LENGTH, AFTER_LOUDNESS)  # values start from the lowest one again
KEEPS = _among(GOAL, ABOUT)  # the kind before it
# After these, a part or a bar can begin, a plan can go on, and a position or a note can come.
OPENS = _among(AFTER_BAR, AFTER_PLAN, AFTER_METRE, AFTER_VALUE)
PLANS = _among(AFTER_BAR, AFTER_PLAN)
PLACES = _among(NAMED, AFTER_VALUE)
SOUNDS = _among(PLACED, AFTER_LENGTH, AFTER_LOUDNESS, AFTER_VALUE)
PARTS, STEPS, KEYS = np.arange(MOST_PARTS), np.arange(LONGEST_BAR), np.arange(128)
SIZES, LEVELS, SYMBOLS = (np.arange(len(block)) for block in (LENGTH, LOUDNESS, CHORD))
LEAVING = np.array([END, BAR, *range(PART.start, PART.stop)])  # with which a part ends in a bar
# The tonic chord of each key, and the pitches that belong to it: (24,) and (24, pitches).
TONICS = np.array([CHORD.start + CHORDS.index(f"{root}_{mode}") for mode in "Mm" for root in ROOTS])
TRIADS = np.stack(
    [np.isin((np.arange(len(PITCH)) - key) % 12, [0, 3 if key > 11 else 4, 7]) for key in range(24)]
)
ROOT_TONES = (
    np.arange(len(PITCH)) - np.arange(24)[:, None]
) % 12 == 0  # of each key: (24, pitches)
# The lengths that hold a chord in a bar of each metre: most of the bar, and no more: (metres, lengths).
HELD = (3 * METRE_STEPS[:, None] <= 4 * LENGTHS) & (METRE_STEPS[:, None] >= LENGTHS)
BACK_IDS = np.array([VOCABULARY.id(f"return_{bars}") for bars in BARS_BACK])  # by bars back
FADING = 0.5 ** (1 / 8)  # factor per bar on the weight of older notes in the key: half after 8 bars
FAR = np.iinfo(np.int64).max // 2
NO_CLOSING = (-1, -1)


def _kinds() -> np.ndarray:
    """Return the kind of each token: (V,)."""
    kind = np.full(len(VOCABULARY), NOTHING)
    kind[[BEGIN, END, BAR, FLAT]] = BEGUN, ENDED, AFTER_BAR, ABOUT
    blocks = {METRE: AFTER_METRE, PART: NAMED, VOICE: NAMED, AT: PLACED, LENGTH: AFTER_LENGTH}
    blocks |= {LOUDNESS: AFTER_LOUDNESS, PITCH: AFTER_VALUE, DRUM: AFTER_VALUE, CHORD: AFTER_VALUE}
    for block, number in blocks.items():
        kind[block.start : block.stop] = number
    kind[STYLE.start : KEY.stop] = ABOUT
    kind[TEMPO.start : TEMPO.stop] = ABOUT
    kind[PLAN_START:PLAN_STOP] = AFTER_PLAN
    kind[LEFT_1:] = GOAL
    kind[LATER_STYLE.start : LATER_STYLE.stop] = ABOUT
    return kind


def _ranks() -> np.ndarray:
    """Return the position of each token's family in the head of a piece or the plan of a bar, from 1: (V,)."""
    rank = np.zeros(len(VOCABULARY), dtype=np.int64)
    families = ["style", "key", "tempo", "flat"], [name for name, _ in PLAN_FAMILIES]
    for names in families:
        for number, name in enumerate(names, 1):
            rank[VOCABULARY[name].start : VOCABULARY[name].stop] = number
    rank[LATER_STYLE.start : LATER_STYLE.stop] = rank[STYLE.start]
    return rank


KIND, RANK = _kinds(), _ranks()
ABOUT_IDS = np.flatnonzero(KIND == ABOUT)


class EnsembleGrammar(Grammar):
    """The rules above for a batch; nothing follows `end`."""

    def __init__(
        self,
        *,
        write: Collection[int] | None = None,
        metres: bool = True,
        given_bars: int = 0,
        plays: bool = False,
        promises: Promises | None = None,
        most_rest: int = 0,
        closing: tuple[int, int] = NO_CLOSING,
    ) -> None:
        """Start one sequence, before the begin token.

        `write`: the indices of the declared parts that can be written; None for all. `metres`: whether the metre can
        change after the first `given_bars`, in which it always can. Only notes of these bars block their key while
        they sound; later ones end when the key is struck again. `plays`: every part in `write` plays in each bar in
        which a part before it does. `promises`: the bounds of the declared parts; None for none. `most_rest`: the
        number of bars after which a part that has not played comes next; 0 for any number. `closing`: a bar, counted
        from 1, and the part that is its bass and plays in it.
        """
        self._promises, self._most_rest, self._closing = promises, most_rest, closing
        self._most = np.full((1, MOST_PARTS), FAR)  # notes that a part attacks at once
        self._at_once = np.zeros(1, dtype=np.int64)  # notes of the part at its current position
        self._rested = np.zeros((1, MOST_PARTS), dtype=np.int64)  # bars since the part last played
        self._may_write = np.ones((1, MOST_PARTS), dtype=bool)
        if write is not None:
            self._may_write = np.isin(PARTS, [*write])[None]
        self._metres, self._plays = metres, plays
        self._given_bars = np.full(1, given_bars)
        self._kind = np.full(1, NOTHING)
        self._rank = np.zeros(1, dtype=np.int64)  # RANK of the last token in the head or the plan
        self._key = np.full(1, -1)  # that the piece states
        self._flat = np.zeros(1, dtype=bool)
        self._in_suffix = np.zeros(1, dtype=bool)  # between `after` and `before`
        self._instrument = np.full((1, MOST_PARTS), -1)
        self._voice = np.zeros((1, MOST_PARTS), dtype=np.int64)
        self._count = np.zeros(1, dtype=np.int64)  # of declared parts
        self._bars = np.zeros(1, dtype=np.int64)
        self._start = np.zeros(1, dtype=np.int64)  # first step of the current bar
        self._metre = np.full(1, FOUR_FOUR)
        # The metres of the latest bars, the last one first.
        self._metres_before = np.full((1, int(BARS_BACK[-1])), -1)
        self._noted = np.zeros(1, dtype=bool)  # whether the bar has a note
        self._planned = np.zeros(1, dtype=np.int64)  # the number of parts in the bar's plan, or 0
        self._played = np.zeros(1, dtype=np.int64)  # the number of parts with notes in the bar
        self._latest = np.full(1, -1)  # the last of them
        self._part = np.full(1, -1)  # the current one; after an instrument, its first part
        self._last = np.full(1, -1)  # the part before the pending instrument
        self._pending = np.full(1, -1)  # the instrument just named, before a voice or position
        self._at = np.full(1, -1)
        self._length = np.full(1, -1)
        self._loudness = np.full(1, -1)
        self._value = np.full(1, -1)  # the last one with this onset, length and loudness
        self._free_at = np.zeros((1, MOST_PARTS, len(KEYS)), dtype=np.int64)  # step
        self._tones = np.zeros((1, len(ROOTS)))  # duration per pitch class, with older bars fading

    @property
    def bars(self) -> np.ndarray:
        """The number of bars so far, including the current one: (B,)."""
        return self._bars

    @property
    def on_downbeat(self) -> np.ndarray:
        """Whether the current position is the start of a bar: (B,)."""
        return self._at == 0

    @property
    def begins_bass(self) -> np.ndarray:
        """Whether the next note is the lowest one of the bass in the closing bar: (B,)."""
        return (self._part == self._closing[1]) & (self._value < 0)

    @property
    def held(self) -> np.ndarray:
        """Which lengths hold a chord that begins the current bar: (B, lengths)."""
        return HELD[self._metre]

    @property
    def in_chords(self) -> np.ndarray:
        """Whether the current part is that of the chords: (B,)."""
        return self._instrument[np.arange(len(self._part)), self._part] == HARMONY

    def tonics(self, rows: np.ndarray) -> list[int]:
        """Return the id of the tonic chord of each row's current key: (rows,)."""
        tones = np.arange(len(ROOTS))
        return [
            int(TONICS[estimated_key(tones, self._tones[row], before=int(self._key[row]))])
            for row in rows
        ]

    def allowed(self) -> np.ndarray:
        """Return the mask of the tokens that can come next: (B, V) bool."""
        kind = self._kind
        mask = np.zeros((len(kind), len(VOCABULARY)), dtype=bool)
        mask[:, BEGIN] = kind == NOTHING
        rows = IN_HEAD[kind].nonzero()[0]
        if len(rows):
            self._allow_head(mask, rows)
        rows = PLANS[kind].nonzero()[0]
        if len(rows):
            further = RANK[PLAN_START:PLAN_STOP] > self._rank[rows, None]
            mask[rows, PLAN_START:PLAN_STOP] = further
            may_change = self._metres | (self._bars[rows] <= self._given_bars[rows])
            self._allow_returns(mask, rows[~may_change])
            rows = rows[may_change]
            mask[rows, METRE.start : METRE.stop] = True
            mask[rows, METRE.start + self._metre[rows]] = False
        rows = OPENS[kind].nonzero()[0]
        if len(rows):
            row, part = self._later_parts(rows)[0].nonzero()
            mask[rows[row], PART.start + self._instrument[rows[row], part]] = True
            mask[rows, BAR] = True
            mask[rows, END] = self._noted[rows]
        # A given part gets no more notes than the given ones.
        writable = self._may_write[np.arange(len(kind)), self._part] | (self._pending >= 0)
        rows = (PLACES[kind] & writable).nonzero()[0]
        if len(rows):
            self._allow_places(mask, rows)
        rows = (SOUNDS[kind] & writable).nonzero()[0]
        if len(rows):
            self._allow_notes(mask, rows)
        return mask

    def _allow_returns(self, mask: np.ndarray, rows: np.ndarray) -> None:
        """Forbid returns to bars of another metre, where the metre stays."""
        metre = self._metres_before[np.ix_(rows, BARS_BACK - 1)]
        fits = (metre == self._metre[rows, None]) | (metre < 0)
        mask[np.ix_(rows, BACK_IDS)] &= fits

    def _allow_head(self, mask: np.ndarray, rows: np.ndarray) -> None:
        """Allow the tokens of a piece's head: its attributes, its parts, and the first bar token."""
        new = self._kind[rows] == BEGUN
        mask[np.ix_(rows, ABOUT_IDS)] = new[:, None] & (RANK[ABOUT_IDS] > self._rank[rows, None])
        # The number of declared parts of each instrument: (rows, instruments).
        declared = (self._instrument[rows, :, None] == np.arange(len(PART))).sum(1)
        pending = self._pending[rows]
        voices = np.where(pending >= 0, declared[np.arange(len(rows)), pending], 0)
        numbered = (pending >= 0) & (voices > 1)
        free = declared < np.append(np.full(PITCHED, MOST_VOICES), [1, 1])
        free &= ((self._count[rows] < MOST_PARTS) & ~numbered)[:, None]
        mask[rows, PART.start : PART.stop] = free
        mask[rows, BAR] = ~new & ~numbered
        mask[rows[numbered], VOICE.start + voices[numbered] - 2] = True

    def _later_parts(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the parts that can come next, the number of players from each part on, and how many have to play.

        The first two are (rows, P), the last one (rows,).
        """
        end = self._start[rows] + METRE_STEPS[self._metre[rows]]
        last = np.where(self._pending[rows] >= 0, self._last[rows], self._part[rows])
        later = (last[:, None] < PARTS) & (self._count[rows, None] > PARTS) & self._may_write[rows]
        row, part = later.nonzero()
        later[row, part] = self._free_at[rows[row], part].min(1) < end[row]
        players = later & ((self._instrument[rows] != HARMONY) | self._plays)
        left = np.cumsum(players[:, ::-1], axis=1)[:, ::-1]
        required = np.clip(self._planned[rows] - self._played[rows], 0, left[:, 0])
        required = np.where(self._noted[rows] & self._plays, left[:, 0], required)
        return later, left, required

    def _allow_places(self, mask: np.ndarray, rows: np.ndarray) -> None:
        """Allow the positions of a part's notes, and after an instrument, the voices of later parts."""
        start, end = self._start[rows], METRE_STEPS[self._metre[rows]]
        free_at = self._free_at[rows, self._part[rows]].min(1)
        earliest = np.maximum(self._at[rows] + 1, free_at - start)[:, None]
        places = (earliest <= STEPS) & (end[:, None] > STEPS)
        pending = self._pending[rows]
        chosen = (pending >= 0).nonzero()[0]
        if len(chosen):
            later, left, required = self._later_parts(rows[chosen])
            for index, parts in zip(chosen, later & (left >= required[:, None]), strict=True):
                row = rows[index]
                voices = self._voice[row, parts & (self._instrument[row] == pending[index])]
                mask[row, VOICE.start + voices[voices > 1] - 2] = True
                places[index] &= (voices == 1).any()
        mask[rows, AT.start : AT.stop] = places

    def _allow_notes(self, mask: np.ndarray, rows: np.ndarray) -> None:
        """Allow the tokens of a part's notes at a position: lengths, loudness and values."""
        kind, part = self._kind[rows, None], self._part[rows]  # (rows, 1) but for the part
        first, lengthened = kind == PLACED, kind == AFTER_LENGTH
        after = (kind == AFTER_VALUE) & (self._at_once[rows] < self._most[rows, part])[:, None]
        length, loudness = self._length[rows, None], self._loudness[rows, None]
        value, instrument = self._value[rows, None], self._instrument[rows, part][:, None]
        pitched, harmony = instrument < PITCHED, instrument == HARMONY
        free = self._free_at[rows, part] <= (self._start[rows] + self._at[rows])[:, None]
        more = first | (after & free.any(1, keepdims=True))
        has_length = ~pitched | (length >= 0)
        loud = ~harmony & ~self._flat[rows, None]
        ready = (first & has_length | lengthened) & (~loud | (loudness >= 0))
        above = free & (value < KEYS) & (ready | (kind == AFTER_LOUDNESS) | after)
        # Loudness only rises among the notes of one length.
        may_level = np.where(first | lengthened, loudness != LEVELS, loudness < LEVELS)
        families = [
            np.where(first, length != SIZES, length < SIZES) & pitched & more,
            may_level & loud & (has_length & more | lengthened),
            above & pitched,
            above[:, : len(DRUM)] & (instrument == DRUMS),
            (value != SYMBOLS) & harmony & first,
        ]
        mask[rows, LENGTH.start : CHORD.stop] = np.concatenate(families, axis=1)

    def instead(self, tokens: np.ndarray) -> np.ndarray:
        """Return the next part for a token that would leave out too many parts of the bar.

        Masking such tokens would push a model that expects one of them into unwanted notes.
        """
        is_part = PART.holds(tokens)
        leaves = is_part | (tokens == BAR) | (tokens == END)
        rows = (leaves & OPENS[self._kind]).nonzero()[0]
        if not len(rows):
            return tokens
        later, left, required = self._later_parts(rows)
        named = tokens[rows] - PART.start
        chosen = later & (self._instrument[rows] == named[:, None])
        if self._most_rest or self._closing != NO_CLOSING:
            due = self._rested[rows] >= (self._most_rest or FAR)
            due |= (self._bars[rows, None] == self._closing[0]) & (self._closing[1] == PARTS)
            due &= (
                later & (self._instrument[rows] != HARMONY) & ~np.maximum.accumulate(chosen, axis=1)
            )
            late = due.any(1)
            named[late] = self._instrument[rows[late], due[late].argmax(1)]
            chosen = later & (self._instrument[rows] == named[:, None])
            tokens, is_part = tokens.copy(), is_part.copy()
            tokens[rows[late]], is_part[rows[late]] = PART.start + named[late], True
        remaining = np.where(is_part[rows], (chosen * left).max(1), 0)
        skips = np.flatnonzero(remaining < required)
        # The next player is the last part from which all players are left.
        next_player = (left[skips] == left[skips, :1]).sum(1) - 1
        tokens = tokens.copy()
        tokens[rows[skips]] = PART.start + self._instrument[rows[skips], next_player]
        return tokens

    def take(self, ids: np.ndarray) -> None:
        """Advance past a valid prompt. All complete bars are processed at once, which is faster."""
        bars = np.flatnonzero(ids == BAR)
        if self._kind[0] != NOTHING or len(bars) < 2 or (ids == AFTER).any():
            super().take(ids)
            return
        super().take(ids[: bars[0]])
        whole = ids[: bars[-1]]
        sheet = Reading(whole[whole < EXTRA_START]).sheet()
        instrument = sheet.parts[sheet.part]
        steps = np.where(instrument < PITCHED, LENGTHS[sheet.length], 1)
        sounds, pitched = instrument != HARMONY, instrument < PITCHED
        free_at = sheet.onset + np.where(sheet.bar >= self._given_bars, 1, steps)
        self._free_at[0, sheet.part[sounds], sheet.value[sounds]] = free_at[sounds]
        before = len(bars) - 2  # the bar before the last one
        weight = steps * FADING ** (before - sheet.bar)
        np.add.at(self._tones[0], sheet.value[pitched] % len(ROOTS), weight[pitched])
        last = np.full(MOST_PARTS, -1)
        np.maximum.at(last, sheet.part, sheet.bar)
        self._rested[0] = before - last
        self._bars[0] = before + 1
        self._start[0] = METRE_STEPS[sheet.bars.metre[:before]].sum()
        self._metre[0] = sheet.bars.metre[before]
        recent = sheet.bars.metre[:before][::-1][: int(BARS_BACK[-1])]
        self._metres_before[0, : len(recent)] = recent
        super().take(ids[bars[-1] :])

    def advance(self, tokens: np.ndarray) -> None:
        """Append one token to each row: (B,) allowed ids. Goal tokens change no state."""
        tokens = np.asarray(tokens, dtype=np.int64)
        # The bars after a gap precede the piece in the sequence. The rules do not apply to them.
        self._in_suffix = (tokens == AFTER) | (self._in_suffix & (tokens != BEFORE))
        kind = np.where(self._in_suffix, GOAL, KIND[tokens])
        for row in BEGINS[kind].nonzero()[0].tolist():
            self._begin_bar_or_part(row, int(tokens[row]))
        rows = DESCRIBES[kind].nonzero()[0]
        if len(rows):
            self._rank[rows] = RANK[tokens[rows]]
            self._flat[rows] |= tokens[rows] == FLAT
            keyed = rows[KEY.holds(tokens[rows])]
            self._key[keyed] = tokens[keyed] - KEY.start
            rows = rows[VOCABULARY["players"].holds(tokens[rows])]
            self._planned[rows] = tokens[rows] - PLAYERS_1 + 1
        for number, block, state in (
            (AFTER_METRE, METRE, self._metre),
            (PLACED, AT, self._at),
            (AFTER_LENGTH, LENGTH, self._length),
            (AFTER_LOUDNESS, LOUDNESS, self._loudness),
        ):
            np.copyto(state, tokens - block.start, where=kind == number)
        self._value[RESTARTS[kind] & ~self.in_chords] = -1
        self._pending[kind == PLACED] = -1
        self._at_once[kind == PLACED] = 0
        rows = (kind == AFTER_VALUE).nonzero()[0]
        if len(rows):
            self._add_notes(rows, tokens[rows])
        kind[(kind == NAMED) & (self._bars == 0)] = DECLARED
        self._kind = np.where(KEEPS[kind], self._kind, kind)

    def _begin_bar_or_part(self, row: int, token: int) -> None:
        """Advance one row by a bar, an instrument or a voice."""
        if token == BAR:
            if self._bars[row]:
                self._start[row] += METRE_STEPS[self._metre[row]]
                self._metres_before[row, 1:] = self._metres_before[row, :-1]
                self._metres_before[row, 0] = self._metre[row]
            self._bars[row] += 1
            self._tones[row] *= FADING
            self._rested[row] += 1
            self._noted[row], self._rank[row] = False, 0
            self._planned[row], self._played[row], self._latest[row] = 0, 0, -1
            self._part[row] = self._last[row] = self._pending[row] = -1
        elif not self._bars[row]:
            self._declare(row, token)
        elif token < PART.stop:
            if self._pending[row] < 0:
                self._last[row] = self._part[row]
            self._pending[row] = token - PART.start
            found = np.flatnonzero(self._instrument[row] == self._pending[row])
            self._part[row] = found[0] if len(found) else -1
        else:
            same = self._instrument[row] == self._pending[row]
            found = np.flatnonzero(same & (self._voice[row] == token - VOICE.start + 2))
            self._part[row], self._pending[row] = (found[0] if len(found) else -1), -1
        self._at[row] = self._length[row] = self._loudness[row] = self._value[row] = -1
        self._at_once[row] = 0

    def _declare(self, row: int, token: int) -> None:
        if token >= PART.stop:  # a voice
            self._pending[row] = -1
            return
        count = self._count[row]
        instrument = token - PART.start
        self._instrument[row, count] = instrument
        self._voice[row, count] = (self._instrument[row] == instrument).sum()
        if instrument == DRUMS:
            self._free_at[row, count, len(DRUM) :] = FAR
        if self._promises is not None and instrument != HARMONY:
            lowest, highest, self._most[row, count] = self._promises.of_part(count, instrument)
            self._free_at[row, count, (lowest > KEYS) | (highest < KEYS)] = FAR
        self._pending[row] = instrument
        self._count[row] += 1

    def _add_notes(self, rows: np.ndarray, tokens: np.ndarray) -> None:
        """Advance some rows by a value token."""
        part = self._part[rows]
        instrument = self._instrument[rows, part]
        pitched, sounds = instrument < PITCHED, instrument != HARMONY
        value = tokens - value_start(instrument)
        now = self._start[rows] + self._at[rows]
        steps = np.where(pitched, LENGTHS[self._length[rows]], 1)
        # Masking a key that still sounds would push a model that wants it to a wrong one. The note is cut instead.
        free_at = now + np.where(self._bars[rows] > self._given_bars[rows], 1, steps)
        self._free_at[rows[sounds], part[sounds], value[sounds]] = free_at[sounds]
        self._tones[rows[pitched], value[pitched] % len(ROOTS)] += steps[pitched]
        self._value[rows] = value
        self._at_once[rows] += 1
        self._rested[rows, part] = 0
        self._noted[rows] |= sounds
        self._played[rows] += sounds & (part != self._latest[rows])
        self._latest[rows] = np.where(sounds, part, self._latest[rows])
