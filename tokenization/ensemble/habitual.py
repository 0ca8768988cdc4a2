"""A grammar with habits: tokens are more or less probable by what the given parts did (habits.py).

A model that is sure of something else can break a habit, which adds some nats to logits and forbids nothing.

Letters: B rows of a batch, V tokens, P parts, S steps of a bar.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tokenization.analysis.chords import ROOTS
from tokenization.analysis.chords import key as estimated_key
from tokenization.analysis.metres import NAMES
from tokenization.ensemble.beginning import key_of
from tokenization.ensemble.grammar import (
    ABOUT,
    AFTER_LENGTH,
    AFTER_LOUDNESS,
    AFTER_VALUE,
    GOAL,
    KIND,
    LEAVING,
    NAMED,
    OPENS,
    PLACED,
    TONICS,
    TRIADS,
)
from tokenization.ensemble.habits import (
    APART,
    FARTHEST,
    FIFTH,
    Habits,
    habits_of,
    in_key,
    recurring,
    strange,
)
from tokenization.ensemble.lines import Lines
from tokenization.ensemble.plan import Plan
from tokenization.ensemble.sequences import bar_offsets, plain
from tokenization.ensemble.spelling import Reading, Sheet, voices_of
from tokenization.ensemble.tokens import (
    AFTER,
    AT,
    BAR,
    CHORD,
    DRUMS,
    END,
    HARMONY,
    KEY,
    LENGTH,
    LENGTHS,
    LONGEST_BAR,
    LOUDNESS,
    METRE,
    PART,
    PITCH,
    PITCHED,
    STEPS_PER_BEAT,
    STEPS_PER_SUBBEAT,
    VOCABULARY,
    VOICE,
)
from tokenization.grammar import Grammar

LITTLE = 0.05  # notes a bar, below which amounts do not differ
FADING = 0.75  # per bar, of the weight of older new bars in how much a part plays
AMOUNT = 2.0  # nats for each octave by which a part plays too little or too much …
SLACK = 0.5  # … from this many octaves on …
MOST = 4.0  # … up to this many nats
# Nats against what breaks a rhythm, and against parts that play where they rest; more if there were no exceptions, and
# still more if so in a band.
PATTERN, REST = (2.5, 6.0, 10.0), (5.0, 8.0, 10.0)
ENTRY = 8.0  # nats against parts that rest where they are expected
LASTING = 16  # new bars in which given rhythms last, even if new ones have departed from them
LEAPING = 2.5  # nats against more leaps than before
LEAPS, SPARE = 1.25, 1  # times the given share of leaps, and so many more, are not too many
# Nats for pitches as low as usual in a bar that has none in a part of several voices, and against ending it so.
DEEP, SHALLOW = 0.5, 1.5
DOUBLING = 6.0  # nats for the notes of the part that a part doubles
TONES = 6  # that a part can have at once to be doubled
FORM = 6.0  # nats against chords that break the form
# Nats for the triad of the key that was asked for, or of the given music under a plan, which draws music away from its
# key, and twice for its chord, while the music is in another.
AWAY = 2.0
# Nats for the fifth beat of new pieces in 5/4, in parts that play in the second half of four, and in drums; or against
# it, in parts that play more in it than in the beats before.
FILLED = 4.0, 8.0
OPENING = 4.0  # nats for the tonic chord in the first bar of a key that was asked for


class Habitual(Grammar):
    """A grammar after a prompt, with the habits of its parts."""

    def __init__(
        self, grammar: Grammar, habits: Habits, sheet: Sheet, *, writes_chords: bool
    ) -> None:
        """Start one sequence with the given bars, in which `grammar` and the prompt do not include other bars."""
        self._grammar, self._habits, self._writes_chords = grammar, habits, writes_chords
        self.counts_bars = grammar.counts_bars
        count, self._given = len(habits.parts), len(sheet.bars)
        self._part, self._pending, self._at, self._last = (np.full(1, -1) for _ in range(4))
        self._has_voice = np.zeros(1, bool)
        self._loudness = np.full(1, -1)  # of the last note of the part in the bar
        self._length, self._tones = np.zeros(1, np.int64), np.zeros((1, len(ROOTS)))
        self._away = np.full(1, -1)  # the key of the new music so far, where one was asked for
        self._voices = tuple(voices_of(habits.parts).tolist())
        self._kind = np.zeros(1, np.int64)
        self._now = np.zeros((1, count, LONGEST_BAR), bool)  # onsets of the bar
        self._chords_now = np.full((1, count, LONGEST_BAR, TONES), -1, np.int16)  # of the bar
        self._past = habits.last[None].copy()  # of the bars before, the latest first
        self._period = habits.period[None].copy()  # bars after which the onsets of a part recur
        self._count = np.zeros((1, count), np.int64)  # notes in the bar
        self._recent = habits.rate[None].copy()
        self._more = np.zeros((1, count))  # nats for each part to play more in this bar
        self._pitch = np.full((1, count), -1)
        self._lowest = np.full((1, count), len(PITCH))  # in the bar
        self._lines = Lines(sheet) if habits.is_score else None
        # The highest pitch of the part at its position, and how many notes it has there.
        self._highest, self._notes = np.full(1, -1), np.zeros(1, np.int64)
        # Notes of each instrument in the second to fourth, and in the fifth beats of new pieces in 5/4.
        self._inner, self._fifth = (np.zeros((1, len(PART)), np.int64) for _ in range(2))
        self._moves, self._leaps = (np.zeros((1, count), np.int64) for _ in range(2))
        self._chords = np.zeros((1, habits.form, LONGEST_BAR), np.int64)  # the latest bar first
        self._chord = np.zeros((1, LONGEST_BAR), np.int64)
        place = sheet.onset - (sheet.bars.start * STEPS_PER_SUBBEAT)[sheet.bar]
        back = self._given - 1 - sheet.bar
        own = (sheet.instrument == HARMONY) & (back < habits.form)
        self._chords[0, back[own], place[own]] = CHORD.start + sheet.value[own]

    @property
    def bars(self) -> np.ndarray:
        return self._grammar.bars

    def allowed(self) -> np.ndarray:
        return self._grammar.allowed()

    def instead(self, tokens: np.ndarray) -> np.ndarray:
        return self._grammar.instead(tokens)

    def take(self, ids: np.ndarray) -> None:
        self._grammar.take(ids)
        begun = np.flatnonzero(ids == BAR)
        for token in ids[begun[-1] if len(begun) else len(ids) :].tolist():
            self._advance(0, int(token))

    def advance(self, tokens: np.ndarray) -> None:
        self._grammar.advance(tokens)
        for row, token in enumerate(np.asarray(tokens).tolist()):
            self._advance(row, token)

    def _advance(self, row: int, token: int) -> None:
        """Advance one row by a token."""
        kind = int(KIND[token])
        if kind in (GOAL, ABOUT):
            return
        if token == BAR:
            self._begin_bar(row)
        elif PART.start <= token < PART.stop:
            self._last[row] = self._part[row]
            self._pending[row], self._has_voice[row] = token - PART.start, False
            self._part[row] = self._voice(token - PART.start, 1)
            self._at[row] = self._loudness[row] = -1
        elif VOICE.start <= token < VOICE.stop:
            self._part[row] = self._voice(int(self._pending[row]), token - VOICE.start + 2)
            self._has_voice[row] = True
        elif kind == PLACED:
            self._at[row], self._highest[row], self._notes[row] = token - AT.start, -1, 0
        elif kind == AFTER_LENGTH:
            self._length[row] = token - LENGTH.start
        elif kind == AFTER_LOUDNESS:
            self._loudness[row] = token - LOUDNESS.start
        elif kind == AFTER_VALUE:
            self._add(row, token)
        self._kind[row] = kind

    def _voice(self, instrument: int, number: int) -> int:
        found = np.flatnonzero(self._habits.parts == instrument)
        return int(found[number - 1]) if number <= len(found) else -1

    def _begin_bar(self, row: int) -> None:
        if self._kind[row]:  # a new bar is complete
            self._recent[row] = FADING * self._recent[row] + (1 - FADING) * self._count[row]
            self._past[row, 1:] = self._past[row, :-1]
            self._past[row, 0] = self._now[row]
            self._find_periods(row)
            if self._habits.key >= 0 and self._tones[row].any():
                self._away[row] = estimated_key(np.arange(len(ROOTS)), self._tones[row])
            if self._habits.form:
                self._chords[row, 1:] = self._chords[row, :-1]
                self._chords[row, 0] = self._chord[row]
        self._more[row] = self._amounts(row)
        self._now[row], self._count[row], self._chord[row] = False, 0, 0
        self._lowest[row], self._chords_now[row] = len(PITCH), -1
        if self._lines:
            self._lines.begin_bar(row)
        self._part[row] = self._pending[row] = self._at[row] = -1

    def _go_home(self, row: int, nats: np.ndarray) -> None:
        """Open with the tonic of the key that was asked for, and favour its triad while the music has another key."""
        key, away = self._habits.key, int(self._away[row])
        if self.bars[row] == 1:
            nats[TONICS[key]] += np.float32(OPENING)
        if away not in (-1, key):
            for one, sign in ((key, AWAY), (away, -AWAY)):
                nats[PITCH.start : PITCH.stop] += np.float32(sign) * TRIADS[one]
                nats[TONICS[one]] += np.float32(2 * sign)

    def _go_on(self, row: int, nats: np.ndarray) -> None:
        """Let a part that plays shortly before the fifth beat play in it, too, as often as in others."""
        at, instrument = int(self._at[row]), self._pending[row]
        if instrument == HARMONY:
            return
        filled = np.float32(FILLED[int(instrument == DRUMS)])
        if 3 * self._fifth[row, instrument] > self._inner[row, instrument]:
            nats[AT.start + 4 * STEPS_PER_BEAT : AT.stop] -= filled
        elif 2 <= at // STEPS_PER_BEAT < 4:
            nats[LEAVING] -= filled
            if at >= 3 * STEPS_PER_BEAT:
                nats[AT.start + 4 * STEPS_PER_BEAT] += filled

    def _amounts(self, row: int) -> np.ndarray:
        """Return the nats for each part to play more, negative for those that lately play too much: (P,)."""
        habits = self._habits
        bar = int(self.bars[row]) - 1 - self._given
        scale = habits.scale[min(bar, len(habits.scale) - 1)] if len(habits.scale) else 1.0
        # In eighths of an octave, so that no rounding decides.
        ratio = (self._recent[row] + LITTLE) / (habits.rate * scale + LITTLE)
        octaves = np.round(8 * np.log2(ratio)) / 8
        beyond = np.sign(octaves) * np.maximum(np.abs(octaves) - SLACK, 0)
        return np.clip(-AMOUNT * beyond, -MOST, MOST)

    def _find_periods(self, row: int) -> None:
        """Find the rhythms of new bars, where the given ones have none or have lasted long enough."""
        habits, bars = self._habits, int(self.bars[row]) - 1
        old = bars - self._given >= LASTING
        for part in np.flatnonzero(habits.judged & (old | (habits.period == 0))).tolist():
            self._period[row, part] = recurring(self._past[row, :, part], bars)

    def _add(self, row: int, token: int) -> None:
        part, at = int(self._part[row]), int(self._at[row])
        if PITCH.start <= token < PITCH.stop:
            self._highest[row] = max(self._highest[row], token - PITCH.start)
            self._tones[row, (token - PITCH.start) % len(ROOTS)] += LENGTHS[self._length[row]]
        if self._habits.fifth:
            self._inner[row, self._pending[row]] += 0 < at // STEPS_PER_BEAT < 4
            self._fifth[row, self._pending[row]] += at // STEPS_PER_BEAT == 4
        if part < 0:
            return
        if PITCH.start <= token < PITCH.stop:
            if self._lines:
                length, begins = int(LENGTHS[self._length[row]]), not self._now[row, part, at]
                self._lines.add(row, part, at, length, token - PITCH.start, begins=begins)
            self._lowest[row, part] = min(self._lowest[row, part], token - PITCH.start)
            self._chords_now[row, part, at, self._notes[row] % TONES] = token - PITCH.start
        if CHORD.start <= token < CHORD.stop:
            self._chord[row, at] = token
        elif PITCH.start <= token < PITCH.stop and not self._now[row, part, at]:
            pitch, last = token - PITCH.start, self._pitch[row, part]
            self._moves[row, part] += last >= 0
            self._leaps[row, part] += last >= 0 and abs(pitch - last) >= FIFTH
            self._pitch[row, part] = pitch
        self._now[row, part, at] = True
        self._notes[row] += 1
        self._count[row, part] += 1

    # What habits say of the next token.

    def bias(self) -> np.ndarray:
        """Return the nats to add to the logits of the next token: (B, V)."""
        inner = self._grammar.bias()
        found = np.zeros((len(self._part), len(VOCABULARY)), np.float32)
        found += 0 if inner is None else inner
        for row, nats in enumerate(found):
            kind, part = int(self._kind[row]), int(self._part[row])
            nats += self._habits.strange
            if self._habits.key >= 0:
                self._go_home(row, nats)
            is_named = kind == NAMED and self._at[row] < 0
            if OPENS[kind] or (is_named and not self._has_voice[row]):
                self._who_plays(row, nats)
            if self._habits.fifth and kind == AFTER_VALUE:
                self._go_on(row, nats)
            if kind in (NAMED, AFTER_VALUE) and part >= 0:
                self._when(row, part, nats)
            if kind in (PLACED, AFTER_LENGTH, AFTER_LOUDNESS, AFTER_VALUE) and part >= 0:
                self._what(row, part, nats)
        return found

    def _who_plays(self, row: int, nats: np.ndarray) -> None:
        """Let the parts that are expected come next, and not those that play too much."""
        habits, last = self._habits, int(self._part[row])
        if self._kind[row] == NAMED:
            last = int(self._last[row])
        wish = np.zeros(len(habits.parts))
        for part in range(last + 1, len(habits.parts)):
            if not habits.judged[part]:
                continue
            leader = int(habits.leader[part])
            rest = REST[habits.exact[part]]
            if leader >= 0:
                wish[part] = ENTRY if self._now[row, leader].any() else -rest
            elif habits.plays[part] and (expected := self._expected(row, part)) is not None:
                wish[part] = ENTRY if expected.any() else -rest
            if habits.plays[part] or not wish[part]:
                wish[part] += self._more[row, part]
        # A token that skips parts has the strongest wish for one of them against it.
        skipped = np.maximum.accumulate(np.append(0, np.maximum(wish[last + 1 :], 0)))
        nats[[BAR, END]] -= np.float32(skipped[-1])
        for number, part in enumerate(range(last + 1, len(habits.parts))):
            instrument, voice = int(habits.parts[part]), int(self._voices[part])
            if instrument == HARMONY:
                continue
            against = np.float32(min(wish[part], 0) - skipped[number])
            if self._kind[row] == NAMED:
                if instrument == self._pending[row]:
                    tokens = slice(AT.start, AT.stop) if voice == 1 else VOICE.start + voice - 2
                    nats[tokens] += against
            elif voice == 1 or habits.parts[part - 1] != instrument or part - 1 <= last:
                nats[PART.start + instrument] += against

    def _expected(self, row: int, part: int) -> np.ndarray | None:
        """Return the steps at which a part is expected to play in this bar, (S,) bool; None if there is no pattern."""
        leader = int(self._habits.leader[part])
        if leader >= 0:
            return self._now[row, leader]
        new, period = int(self.bars[row]) - 1 - self._given, int(self._period[row, part])
        if not period:
            return None
        if new < LASTING and self._habits.period[part]:
            return self._habits.last[period - 1 - new % period, part]
        return self._past[row, period - 1, part]

    def _when(self, row: int, part: int, nats: np.ndarray) -> None:
        """Keep the rhythm of a part, and how much it plays."""
        habits, at = self._habits, int(self._at[row])
        if habits.parts[part] == HARMONY:
            self._form_places(row, at, nats)
            return
        if not habits.judged[part] or habits.parts[part] == DRUMS:
            return
        expected = self._expected(row, part)
        if expected is not None:
            later = np.flatnonzero(expected[at + 1 :]) + at + 1
            against = np.float32(PATTERN[habits.exact[part]])
            nats[AT.start : AT.stop] -= against
            if len(later):
                nats[AT.start + later[0]] += against
                nats[LEAVING] -= against
        more = float(self._more[row, part])
        if self._kind[row] == AFTER_VALUE and more:
            nats[LEAVING] -= np.float32(max(more, 0) / 2)
            nats[AT.start : AT.stop] += np.float32(min(more, 0) / 2)
            nats[PITCH.start : PITCH.stop] += np.float32(min(more, 0) / 2)

    def _what(self, row: int, part: int, nats: np.ndarray) -> None:
        """Keep a part to what is usual, its range, line and leaps, and the chords in their form."""
        habits, at = self._habits, int(self._at[row])
        if habits.parts[part] == HARMONY:
            expected = self._chords[row, habits.form - 1, at] if habits.form else 0
            if expected and self._writes_chords:
                nats[CHORD.start : CHORD.stop] -= np.float32(FORM)
                nats[expected] += np.float32(FORM)
            return
        if not habits.judged[part]:
            return
        habits.usual.add_to(
            nats, part, kind=int(self._kind[row]), at=at, notes=int(self._notes[row]),
            loudness=int(self._loudness[row]),
        )  # fmt: skip
        if habits.parts[part] >= PITCHED:
            return
        nats[PITCH.start : PITCH.stop] -= habits.against_range[part]
        over = max(int(self._notes[row] + 1 - habits.most[part]), 0)
        nats[LENGTH.start : PITCH.stop] -= np.float32(habits.fuller[part] * over)
        if habits.above[part] != APART:
            self._double(row, part, nats)
        depth = int(habits.depth[part])
        if self._lowest[row, part] > depth:
            nats[PITCH.start : PITCH.start + depth + 1] += np.float32(DEEP)
            nats[LEAVING] -= np.float32(SHALLOW * (self._kind[row] == AFTER_VALUE))
        if self._kind[row] == AFTER_VALUE and (low := habits.floor[part] - self._highest[row]) > 0:
            against = np.float32(min(habits.strict * np.ceil(low), FARTHEST))
            nats[AT.start : AT.stop] -= against
            nats[LEAVING] -= against
        if self._lines:
            self._lines.add_to(nats, row, part, at, begins=not self._now[row, part, at])
        last, allowed = self._pitch[row, part], LEAPS * habits.leaps[part]
        leaps, moves = self._leaps[row, part], self._moves[row, part]
        if last >= 0 and habits.leaps[part] < 1 and leaps >= allowed * (moves + 1) + SPARE:
            is_leap = np.abs(np.arange(len(PITCH)) - last) >= FIFTH
            nats[PITCH.start : PITCH.stop] -= np.float32(LEAPING) * is_leap

    def _double(self, row: int, part: int, nats: np.ndarray) -> None:
        """Favour the notes of the part that this one doubles, until it has them."""
        leader, at = int(self._habits.leader[part]), int(self._at[row])
        given, own = (self._chords_now[row, one, at] for one in (leader, part))
        if (given < 0).all():
            return
        due = np.setdiff1d(given[given >= 0] + int(self._habits.above[part]), own)
        due = PITCH.start + due[(due >= 0) & (due < len(PITCH))]
        nats[PITCH.start : PITCH.stop] -= np.float32(DOUBLING)
        nats[due] += np.float32(DOUBLING)
        if len(due) and self._kind[row] == AFTER_VALUE:
            nats[AT.start : AT.stop] -= np.float32(DOUBLING)
            nats[LEAVING] -= np.float32(DOUBLING)

    def _form_places(self, row: int, at: int, nats: np.ndarray) -> None:
        """Let chords change where those of the bar one form before did."""
        if not self._habits.form or not self._writes_chords:
            return
        later = np.flatnonzero(self._chords[row, self._habits.form - 1, at + 1 :]) + at + 1
        nats[AT.start : AT.stop] -= np.float32(FORM)
        if len(later):
            nats[AT.start + later[0]] += np.float32(FORM)
            nats[PART.start : PART.stop] -= np.float32(FORM)
            nats[BAR] -= np.float32(FORM)


FIVE_FOUR = METRE.start + NAMES.index("5/4")
LEVELS = np.array([0, 0.5, 1.1, 2, 3.2, 5, 8.5, 13])  # notes per beat, in the middle of each level


def habitual(
    grammar: Grammar, prompt: np.ndarray, plan: Plan | None, *, writes_chords: bool
) -> Grammar:
    """Return a grammar with the habits of the parts of a prompt, if it has bars, under a plan."""
    if not len(prompt) or prompt[-1] == END or (prompt == AFTER).any():
        return grammar
    ids = plain(prompt)
    given = ids[: bar_offsets(ids)[-2]] if (ids == BAR).any() else ids[:1]
    sheet = Reading(given).sheet()
    plan = plan or {}
    scale = np.zeros(0)
    if "density" in plan and len(sheet.bars):
        sounds = sheet.instrument != HARMONY
        usual = 4 * sounds.sum() / max(sheet.bars.length.sum(), 1)
        asked = np.where(plan["density"] >= 0, LEVELS[plan["density"]], usual)
        scale = np.clip(asked / max(usual, 0.1), 0.25, 4)
    keys, key = prompt[KEY.holds(prompt)], -1
    fifth = FIVE_FOUR in prompt and not len(sheet.bars)
    if len(sheet.bars):
        is_drawn = bool({*plan} - {"return"})
        against = strange(sheet, is_pulled=is_drawn)
        if is_drawn and (home := key_of(sheet, hears_bass=False)) is not None:
            key = home
    elif len(keys):
        key = int(keys[0]) - KEY.start
        against = in_key(key)
    elif fifth:
        against = np.zeros(len(VOCABULARY), np.float32)
    else:
        return grammar
    habits = habits_of(sheet, "players" not in plan, scale, against, key, fifth=fifth)
    if "register" in plan:
        habits = replace(habits, strict=habits.strict / 4)
    return Habitual(grammar, habits, sheet, writes_chords=writes_chords)
