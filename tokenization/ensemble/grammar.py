"""The rules of the ensemble language: what may follow, token by token over a batch.

They are those of spelling.py, and three more: only certain parts may be written, where others are given; plan tokens
may stand after a bar token, in their order; and where these say that all parts play, all do. Tokens of goals change
nothing. There is always a way on: a place in a bar is only entered where some key of the part is free.

Letters: B rows of a batch, V tokens of the vocabulary, P parts.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from tokenization.analysis.chords import CHORDS, ROOTS
from tokenization.analysis.chords import key as likeliest_key
from tokenization.analysis.metres import FOUR_FOUR
from tokenization.ensemble.spelling import Reading
from tokenization.ensemble.tokens import (
    AFTER,
    AT,
    BAR,
    BEFORE,
    BEGIN,
    CHORD,
    DRUM,
    DRUMS,
    END,
    EXTRA_START,
    FLAT,
    HARMONY,
    HARMONY_ID,
    KEY,
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

# What a position is after: nothing, or a token of one of these kinds. A goal's token changes nothing.
NOTHING, BEGUN, DECLARED, AFTER_BAR, AFTER_PLAN, AFTER_METRE, NAMED, PLACED = range(8)
AFTER_LENGTH, AFTER_LOUDNESS, AFTER_VALUE, ENDED, GOAL, ABOUT = range(8, 14)
KEYS = 128
# The chord of the tonic of each key, and which pitches are tones of it: (keys, pitches).
TONICS = np.array([CHORD.start + CHORDS.index(f"{root}_{mode}") for mode in "Mm" for root in ROOTS])
TRIADS = np.stack(
    [np.isin((np.arange(len(PITCH)) - key) % 12, [0, 3 if key > 11 else 4, 7]) for key in range(24)]
)
FADES = 0.5 ** (1 / 8)  # what is left of a bar's weight for the key after another: half after 8
FAR = np.iinfo(np.int64).max // 2


def _kinds() -> np.ndarray:
    """Return the kind of each token in a bar: (V,)."""
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
    return kind


def _ranks() -> np.ndarray:
    """Return the place of each token among those that say what a piece or a bar is like, from 1: (V,)."""
    rank = np.zeros(len(VOCABULARY), dtype=np.int64)
    families = ["style", "key", "tempo", "flat"], [name for name, _ in PLAN_FAMILIES]
    for names in families:
        for number, name in enumerate(names, 1):
            rank[VOCABULARY[name].start : VOCABULARY[name].stop] = number
    return rank


KIND, RANK = _kinds(), _ranks()
ABOUT_IDS = np.flatnonzero(KIND == ABOUT)
VALUES = slice(PITCH.start, CHORD.stop)


class EnsembleGrammar(Grammar):
    """What may follow, over a batch; after `end` nothing may."""

    def __init__(
        self,
        *,
        write: Collection[int] | None = None,
        metres: bool = True,
        given_bars: int = 0,
        plays: bool = False,
    ) -> None:
        """Stand at the start of one sequence, before the begin token.

        Of the parts only those in `write`, indices into the declared ones, are free to be written; by default all. With
        `metres`, a bar may have another metre than the one before it; the first `given_bars` may in any case. A note of
        a later bar ends where its key is struck again. If it `plays`, every part in `write` plays in each bar in which
        one before it does.
        """
        self._may_write = np.ones((1, MOST_PARTS), dtype=bool)
        if write is not None:
            self._may_write = np.isin(np.arange(MOST_PARTS), [*write])[None]
        self._metres, self._plays = metres, plays
        self._given_bars = np.full(1, given_bars)
        self._kind = np.full(1, NOTHING)
        self._rank = np.zeros(1, dtype=np.int64)  # of the last token about the piece or the bar
        self._flat = np.zeros(1, dtype=bool)
        self._beyond = np.zeros(1, dtype=bool)  # inside what stands after a gap
        self._instrument = np.full((1, MOST_PARTS), -1)
        self._voice = np.zeros((1, MOST_PARTS), dtype=np.int64)
        self._count = np.zeros(1, dtype=np.int64)  # of declared parts
        self._bars = np.zeros(1, dtype=np.int64)  # begun
        self._start = np.zeros(1, dtype=np.int64)  # the step at which the bar begins …
        self._metre = np.full(1, FOUR_FOUR)  # … and its metre
        self._noted = np.zeros(1, dtype=bool)  # whether the bar has a note …
        self._full = np.zeros(1, dtype=bool)  # … and is to have some of every part
        self._part = np.full(1, -1)  # the one in hand; after an instrument, the first of it
        self._last = np.full(1, -1)  # the part in hand before that
        self._pending = np.full(1, -1)  # an instrument that was just named
        self._at = np.full(1, -1)
        self._length = np.full(1, -1)
        self._loudness = np.full(1, -1)
        self._value = np.full(1, -1)  # the last one of this onset and loudness
        self._free_at = np.zeros((1, MOST_PARTS, KEYS), dtype=np.int64)  # step
        self._tones = np.zeros((1, len(ROOTS)))  # how long each was heard, of late above all

    @property
    def bars(self) -> np.ndarray:
        """How many bars each row has begun: (B,)."""
        return self._bars

    @property
    def on_downbeat(self) -> np.ndarray:
        """Whether what comes next is at the beginning of a bar: (B,)."""
        return self._at == 0

    @property
    def in_chords(self) -> np.ndarray:
        """Whether the part in hand is that of the chords: (B,)."""
        return self._instrument[np.arange(len(self._part)), self._part] == HARMONY

    def tonics(self, rows: np.ndarray) -> list[int]:
        """Return the chord of the tonic of the key that the music of each of some rows is in by now: (rows,) ids."""
        tones = np.arange(len(ROOTS))
        return [int(TONICS[likeliest_key(tones, self._tones[row])]) for row in rows]

    def allowed(self) -> np.ndarray:
        """Return which tokens may come next: (B, V) bool."""
        kind = self._kind
        mask = np.zeros((len(kind), len(VOCABULARY)), dtype=bool)
        mask[:, BEGIN] = kind == NOTHING
        heading = np.flatnonzero((kind == BEGUN) | (kind == DECLARED))
        if len(heading):
            self._head(mask, heading)
        in_bar = (kind == AFTER_BAR) | (kind == AFTER_PLAN)
        if in_bar.any():
            plan = in_bar[:, None] & (RANK[PLAN_START:PLAN_STOP] > self._rank[:, None])
            mask[:, PLAN_START:PLAN_STOP] = plan
            may_change = in_bar & (self._metres | (self._bars <= self._given_bars))
            if may_change.any():
                mask[:, METRE.start : METRE.stop] = may_change[:, None]
                mask[np.arange(len(kind)), METRE.start + self._metre] = False
        opening = in_bar | (kind == AFTER_METRE) | (kind == AFTER_VALUE)
        if opening.any():
            rows = np.flatnonzero(opening)
            owes = self._open(mask, rows)
            mask[rows, BAR] = ~owes
            mask[rows, END] = self._noted[rows] & ~owes
        # A given part says no more than what is given.
        ours = self._may_write[np.arange(len(kind)), self._part] | (self._pending >= 0)
        playing = np.flatnonzero((kind >= NAMED) & (kind <= AFTER_VALUE) & ours)
        if len(playing):
            self._play(mask, playing)
        return mask

    def _head(self, mask: np.ndarray, rows: np.ndarray) -> None:
        """Allow what declares a piece: what it is like, its parts, and its first bar."""
        new = self._kind[rows] == BEGUN
        mask[np.ix_(rows, ABOUT_IDS)] = new[:, None] & (RANK[ABOUT_IDS] > self._rank[rows, None])
        # How many parts of each instrument are declared: (rows, instruments).
        of_each = (self._instrument[rows, :, None] == np.arange(len(PART))).sum(1)
        pending = self._pending[rows]
        voices = np.where(pending >= 0, of_each[np.arange(len(rows)), pending], 0)
        numbered = (pending >= 0) & (voices > 1)
        may = of_each < np.append(np.full(PITCHED, MOST_VOICES), [1, 1])
        may &= ((self._count[rows] < MOST_PARTS) & ~numbered)[:, None]
        mask[rows, PART.start : PART.stop] = may
        mask[rows, BAR] = ~new & ~numbered
        mask[rows[numbered], VOICE.start + voices[numbered] - 2] = True

    def _open(self, mask: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Allow the instruments of parts that may play next in the bar; return which rows owe a part: (rows,)."""
        end = self._start[rows] + METRE_STEPS[self._metre[rows]]
        later = np.arange(MOST_PARTS) > self._last_part(rows)[:, None]
        later &= (np.arange(MOST_PARTS) < self._count[rows, None]) & self._may_write[rows]
        later &= self._free_at[rows].min(2) < end[:, None]
        owed = later & ((self._instrument[rows] != HARMONY) | self._plays)
        owes = owed.any(1) & ((self._noted[rows] & self._plays) | self._full[rows])
        later &= ~owes[:, None] | (np.arange(MOST_PARTS) <= owed.argmax(1)[:, None])
        row, part = np.nonzero(later)
        mask[rows[row], PART.start + self._instrument[rows[row], part]] = True
        return owes

    def _last_part(self, rows: np.ndarray) -> np.ndarray:
        """Return the last part of the bar that is named in full."""
        return np.where(self._pending[rows] >= 0, self._last[rows], self._part[rows])

    def _play(self, mask: np.ndarray, rows: np.ndarray) -> None:
        """Allow what a part plays: places, lengths, loudness and values."""
        kind, part, at = self._kind[rows], self._part[rows], self._at[rows]
        kept = self._last_part(rows)
        pending = self._pending[rows]
        named = kind == NAMED
        # After an instrument, a voice that is still to come; a place only if the first voice is.
        if (pending >= 0).any():
            for index in np.flatnonzero(pending >= 0):
                row = rows[index]
                of_it = np.flatnonzero(self._instrument[row] == pending[index])
                of_it = of_it[(of_it > kept[index]) & self._may_write[row, of_it]]
                of_it = of_it[:1] if self._full[row] else of_it
                voices = self._voice[row, of_it]
                mask[row, VOICE.start + voices[voices > 1] - 2] = True
                named[index] = (voices == 1).any()
        instrument = self._instrument[rows, part]
        pitched, harmony = instrument < PITCHED, instrument == HARMONY
        free_at = self._free_at[rows, part]  # (rows, KEYS)
        start = self._start[rows]
        steps = np.arange(LONGEST_BAR)
        places = (steps > at[:, None]) & (steps < METRE_STEPS[self._metre[rows]][:, None])
        places &= start[:, None] + steps >= free_at.min(1)[:, None]
        places &= (named | (kind == AFTER_VALUE))[:, None]
        mask[rows, AT.start : AT.stop] = places

        first, after = kind == PLACED, kind == AFTER_VALUE
        now = (start + np.maximum(at, 0))[:, None]
        free = free_at <= now
        more = first | (after & free.any(1))
        length, loudness = self._length[rows, None], self._loudness[rows, None]
        lengths, levels = np.arange(len(LENGTH)), np.arange(len(LOUDNESS))
        may_length = np.where(first[:, None], lengths != length, lengths > length)
        may_length &= (more & pitched)[:, None]
        mask[rows, LENGTH.start : LENGTH.stop] = may_length
        sized = (~pitched | (self._length[rows] >= 0)) & more | (kind == AFTER_LENGTH)
        anew = first | (kind == AFTER_LENGTH)
        may_level = np.where(anew[:, None], levels != loudness, levels > loudness)
        loud = ~harmony & ~self._flat[rows]
        mask[rows, LOUDNESS.start : LOUDNESS.stop] = may_level & (loud & sized)[:, None]

        ready = first & (~pitched | (self._length[rows] >= 0)) | (kind == AFTER_LENGTH)
        ready = ready & (~loud | (self._loudness[rows] >= 0)) | (kind == AFTER_LOUDNESS) | after
        keys = np.arange(KEYS)
        above = free & (keys > self._value[rows, None]) & ready[:, None]
        mask[rows, PITCH.start : PITCH.stop] = above & pitched[:, None]
        drum = (ready & (instrument == DRUMS))[:, None]
        mask[rows, DRUM.start : DRUM.stop] = above[:, : len(DRUM)] & drum
        chord = np.arange(len(CHORD)) != self._value[rows, None]
        mask[rows, CHORD.start : CHORD.stop] = chord & (harmony & first)[:, None]

    def take(self, ids: np.ndarray) -> None:
        """Take the tokens of a valid prompt: bars that are followed by others at once, which is faster."""
        bars = np.flatnonzero(ids == BAR)
        if self._kind[0] != NOTHING or len(bars) < 2 or (ids == AFTER).any():
            super().take(ids)
            return
        super().take(ids[: bars[0]])
        whole = ids[: bars[-1]]
        sheet = Reading(whole[whole < EXTRA_START]).sheet()
        instrument = sheet.parts[sheet.part]
        lasts = np.where(instrument < PITCHED, LENGTHS[sheet.length], 1)
        sounds, pitched = instrument != HARMONY, instrument < PITCHED
        free_at = sheet.onset + np.where(sheet.bar >= self._given_bars, 1, lasts)
        self._free_at[0, sheet.part[sounds], sheet.value[sounds]] = free_at[sounds]
        before = len(bars) - 2  # the bar before the last one
        weight = lasts * FADES ** (before - sheet.bar)
        np.add.at(self._tones[0], sheet.value[pitched] % len(ROOTS), weight[pitched])
        self._bars[0] = before + 1
        self._start[0] = METRE_STEPS[sheet.bars.metre[:before]].sum()
        self._metre[0] = sheet.bars.metre[before]
        super().take(ids[bars[-1] :])

    def advance(self, tokens: np.ndarray) -> None:
        """Take one more token a row: (B,) ids that `allowed` allowed; those of goals change nothing."""
        tokens = np.asarray(tokens, dtype=np.int64)
        # What stands after a gap is no part of the music before it.
        self._beyond = np.where(tokens == AFTER, True, self._beyond & (tokens != BEFORE))
        kind = np.where(self._beyond, GOAL, KIND[tokens])
        for row in np.flatnonzero((kind == NAMED) | (kind == AFTER_BAR)):
            self._name(int(row), int(tokens[row]))
        self._flat = self._flat | (tokens == FLAT)
        sounding = ((self._instrument >= 0) & (self._instrument != HARMONY)).sum(1)
        self._full = self._full | ((kind == AFTER_PLAN) & (tokens == PLAYERS_1 + sounding - 1))
        said = (kind == ABOUT) | (kind == AFTER_PLAN)
        self._rank = np.where(said, RANK[tokens], self._rank)
        self._metre = np.where(kind == AFTER_METRE, tokens - METRE.start, self._metre)
        placed, lengthened = kind == PLACED, kind == AFTER_LENGTH
        self._at = np.where(placed, tokens - AT.start, self._at)
        self._length = np.where(lengthened, tokens - LENGTH.start, self._length)
        louder = kind == AFTER_LOUDNESS
        self._loudness = np.where(louder, tokens - LOUDNESS.start, self._loudness)
        self._value = np.where((placed & ~self.in_chords) | lengthened | louder, -1, self._value)
        rows = np.flatnonzero(kind == AFTER_VALUE)
        if len(rows):
            self._strike(rows, tokens[rows])
        self._pending = np.where(placed, -1, self._pending)
        keeps = (kind == GOAL) | (kind == ABOUT)
        heading = (self._bars == 0) & (kind == NAMED)
        self._kind = np.where(keeps, self._kind, np.where(heading, DECLARED, kind))

    def _name(self, row: int, token: int) -> None:
        """Take a bar, an instrument or a voice of one row."""
        if token == BAR:
            if self._bars[row]:
                self._start[row] += METRE_STEPS[self._metre[row]]
            self._bars[row] += 1
            self._tones[row] *= FADES
            self._noted[row], self._full[row], self._rank[row] = False, False, 0
            self._part[row] = self._last[row] = self._pending[row] = -1
        elif not self._bars[row]:
            self._declare(row, token)
        elif PART.holds(np.array(token)):
            last = self._last_part(np.array([row]))[0]
            instrument = token - PART.start
            of_it = np.flatnonzero(self._instrument[row] == instrument)
            self._last[row], self._pending[row] = last, instrument
            self._part[row] = of_it[0] if len(of_it) else -1
        else:
            of_it = self._instrument[row] == self._pending[row]
            found = np.flatnonzero(of_it & (self._voice[row] == token - VOICE.start + 2))
            self._part[row], self._pending[row] = (found[0] if len(found) else -1), -1
        self._at[row] = self._length[row] = self._loudness[row] = self._value[row] = -1

    def _declare(self, row: int, token: int) -> None:
        if not PART.holds(np.array(token)):
            self._pending[row] = -1
            return
        count = self._count[row]
        instrument = token - PART.start
        self._instrument[row, count] = instrument
        self._voice[row, count] = (self._instrument[row] == instrument).sum()
        if instrument == DRUMS:
            self._free_at[row, count, len(DRUM) :] = FAR
        self._pending[row] = instrument
        self._count[row] += 1

    def _strike(self, rows: np.ndarray, tokens: np.ndarray) -> None:
        """Take the values of some rows."""
        part = self._part[rows]
        instrument = self._instrument[rows, part]
        pitched, harmony = instrument < PITCHED, instrument == HARMONY
        start = np.where(pitched, PITCH.start, np.where(harmony, CHORD.start, DRUM.start))
        value = tokens - start
        now = self._start[rows] + self._at[rows]
        lasts = np.where(pitched, LENGTHS[self._length[rows]], 1)
        sounds = ~harmony
        # Refusing a key that sounds would push a model that wants it to a wrong one: the note is cut.
        free_at = now + np.where(self._bars[rows] > self._given_bars[rows], 1, lasts)
        self._free_at[rows[sounds], part[sounds], value[sounds]] = free_at[sounds]
        self._tones[rows[pitched], value[pitched] % len(ROOTS)] += lasts[pitched]
        self._value[rows] = value
        self._noted[rows] |= sounds


# Tokens that are forced around bar lines; between them the model chooses. B rows of a batch, L tokens of the script.

FREE = -1  # no place in the script: the row writes
TONIC = -1  # in a script: the chord of the tonic of the key that the music is in by then


@dataclass(frozen=True, kw_only=True, eq=False)
class Script:
    """The forced tokens around the bar tokens of a piece of N bars, in order."""

    tokens: np.ndarray  # (L,)
    stop: np.ndarray  # (L,) where each bar's part ends
    first: np.ndarray  # (N + 1,) the place of each bar's part; L after the last
    # (N + 1,) what comes where a bar is over: the first of the next one's part; the end at last
    opening: np.ndarray
    in_chords: np.ndarray  # (N + 1,) whether each bar's part says its chords; False after the last

    @classmethod
    def around(cls, before: Sequence[Sequence[int]], after: Sequence[Sequence[int]]) -> Script:
        """Say of each bar what stands before its bar token and what right after it."""
        parts = [[*b, BAR, *a] for b, a in zip(before, after, strict=True)]
        lengths = np.array([len(part) for part in parts])
        first = np.concatenate([[0], lengths.cumsum()]).astype(np.int64)
        tokens = np.array([token for part in parts for token in part], dtype=np.int64)
        opening = np.append(tokens, END)[first]
        in_chords = np.array([*(HARMONY_ID in part for part in after), False])
        stop = np.repeat(first[1:], lengths)
        return cls(tokens=tokens, stop=stop, first=first, opening=opening, in_chords=in_chords)


class Scripted(Grammar):
    """The grammar of music that has as many bars as the script, and then ends.

    A bar is over by whichever token a model would end it: the next bar's, the end, or what the script says there. Each
    stands for what comes in fact. To forbid the others would push a model that expects one of them into notes that it
    does not want.
    """

    counts_bars = True

    def __init__(
        self,
        grammar: EnsembleGrammar,
        script: Script,
        *,
        may_end_silent: bool = False,
        on_tonic: bool = False,
    ) -> None:
        """Stand where `grammar` stands, at the start of a sequence.

        `may_end_silent`: the end may also come where another bar could, after an empty one. `on_tonic`: the script says
        the tonic in the last bar, and only tones of it are played on the downbeat, as real pieces end.
        """
        self._grammar, self._script, self._may_end_silent = grammar, script, may_end_silent
        self._on_tonic = on_tonic
        self._place = np.full(len(grammar.bars), FREE)
        self._key = np.full(len(grammar.bars), -1)  # whose tonic was said

    @property
    def bars(self) -> np.ndarray:
        """How many bars each row has begun to write."""
        return self._grammar.bars

    def allowed(self) -> np.ndarray:
        """Return which tokens may come next."""
        mask = self._grammar.allowed().copy()
        bars, scripted = self._grammar.bars, self._place != FREE
        may_begin, rest = mask[:, BAR].copy(), bars < len(self._script.first) - 1
        may_end = mask[:, END] | (may_begin & self._may_end_silent)
        over = np.flatnonzero(np.where(rest, may_begin, may_end))
        mask[:, [BAR, END]] = False
        mask[over, BAR] = mask[over, END] = True
        mask[over, self._script.opening[bars[over]]] = True
        # A bar whose chords are said has no others; before the first bar none are.
        rows = np.flatnonzero(self._script.in_chords[bars - 1] & self._grammar.in_chords)
        mask[rows, AT.start : AT.stop] = False
        for row in np.flatnonzero((self._key >= 0) & self._grammar.on_downbeat):
            tones = mask[row].copy()
            tones[PITCH.start : PITCH.stop] &= TRIADS[self._key[row]]
            mask[row] = tones if tones.any() else mask[row]
        rows = np.flatnonzero(scripted)
        said = self._script.tokens[self._place[rows]]
        said[said == TONIC] = self._grammar.tonics(rows[said == TONIC])
        mask[rows] = False
        mask[rows, said] = True
        return mask

    def take(self, ids: np.ndarray) -> None:
        """Take the tokens of a valid prompt, in whose bars but the last the script says nothing."""
        bars = np.flatnonzero(ids == BAR)
        first = self._script.first[: len(bars)]
        is_silent = len(bars) > 1 and (np.diff(first) == 1).all()
        last = bars[-1] if is_silent else 0
        self._grammar.take(ids[:last])
        super().take(ids[last:])

    def instead(self, tokens: np.ndarray) -> np.ndarray:
        """Return what a row takes in place of a token; nothing else where the script speaks."""
        over = (self._place == FREE) & np.isin(tokens, (BAR, END))
        return np.where(over, self._script.opening[self._grammar.bars], tokens)

    def advance(self, tokens: np.ndarray) -> None:
        """Take one more token a row."""
        tokens, bars = np.asarray(tokens, dtype=np.int64), self._grammar.bars
        rest = bars < len(self._script.first) - 1
        opens = (self._place == FREE) & rest & (tokens == self._script.opening[bars])
        first = self._script.first[np.where(opens, bars, 0)]
        place = np.where(opens, first, np.maximum(self._place, 0))
        if self._on_tonic:
            said = ~rest & (self._place != FREE) & np.isin(tokens, TONICS)
            self._key = np.where(said, (tokens[:, None] == TONICS).argmax(1), self._key)
        self._grammar.advance(tokens)
        goes_on = (opens | (self._place != FREE)) & (place + 1 < self._script.stop[place])
        self._place = np.where(goes_on, place + 1, FREE)
