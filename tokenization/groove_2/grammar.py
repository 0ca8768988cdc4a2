"""The rules of the second groove language to generate by: events of one time in any order, and some of them given.

What groove/grammar.py says of order, unisons and notes that hang holds here too. Given events are taken where they
stand: a token that would pass the next one is not taken, and what leads to it is (`instead`). A mask that forbade to
pass it would push the model into notes that it does not want. Nothing else happens on the keys of given events.

Letters: B rows of a batch, K = 384 keys, V tokens of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tokenization.groove.grammar import FAR_TICKS, RANK, GrooveGrammar, why_not_event
from tokenization.groove.spelling import (
    BAR_TICKS,
    BEGIN,
    END,
    KEYS,
    MOST_UNISONS,
    NOTE_OFF,
    NOTE_ON,
    PITCHES,
    Events,
)
from tokenization.groove_2.spelling import (
    AT,
    BAR,
    GOAL_START,
    NOTHING,
    TICK_OF,
    VOCABULARY,
    BarReading,
    ChordTokens,
    spell_bars,
)

BEFORE, BEGUN, AFTER_NOTE, MOVED, ENDED = range(5)  # phases; begun is being before the first bar
PLACES = np.arange(1, BAR_TICKS)  # (47,)


def _phase_after() -> np.ndarray:
    phase = np.full(len(VOCABULARY), AFTER_NOTE)
    phase[AT.start : AT.stop] = MOVED
    phase[[BEGIN, END]] = BEGUN, ENDED
    return phase  # (V,)


PHASE_AFTER = _phase_after()


@dataclass(frozen=True, eq=False)
class Given:
    """Events that come after the prompt in any case and what is told, in order; the last never comes: (G + 1,)."""

    time_ticks: np.ndarray
    tokens: np.ndarray
    # (K,) the number of the last event of each key, G where it is never free, −1 without
    last: np.ndarray

    @classmethod
    def of(cls, events: Events, reserved: np.ndarray, chord_tokens: ChordTokens = NOTHING) -> Given:
        """Take sorted events, which keys nothing else may happen on, ever, (K,) bool, and what is told before them."""
        times = np.concatenate([chord_tokens.time_ticks, events.time_ticks])
        order = np.argsort(times, kind="stable")
        place = np.argsort(order)[len(chord_tokens.ids) :]  # of each event
        last = np.full(KEYS, -1)
        last[events.track * PITCHES + events.pitch] = place
        last[reserved] = len(order)
        tokens = np.concatenate([chord_tokens.ids, events.ids])[order]
        return cls(
            time_ticks=np.append(times[order], FAR_TICKS), tokens=np.append(tokens, -1), last=last
        )


# How far each token goes on from the bar line, 0 where it does not: (V,). The end goes to the line, as a bar does.
MOVES_TO = np.maximum(TICK_OF, 0)
MOVES_TO[[BAR, END]] = BAR_TICKS


class BarGrammar(GrooveGrammar):
    """What may follow when only the music counts; tokens of goals are not allowed, and taken without effect."""

    def __init__(
        self,
        *,
        prompt_tokens: int = 0,
        longest_ticks: Sequence[int] | None = None,
        own_lengths: bool = False,
        given: Given | None = None,
        size: int = len(VOCABULARY),
    ) -> None:
        """Stand at the start of one sequence, before the begin token; given events come after its prompt."""
        super().__init__(
            prompt_tokens=prompt_tokens,
            longest_ticks=longest_ticks,
            own_lengths=own_lengths,
        )
        self._size, self._given = size, given
        self._bars = np.zeros(1, dtype=np.int64)
        self._next = np.zeros(1, dtype=np.int64)  # the number of the given event that is due next
        if given is not None:
            self._longest[:, given.last >= 0] = FAR_TICKS  # these end where they are given to

    @property
    def bars(self) -> np.ndarray:
        """How many bars each row has begun: (B,)."""
        return self._bars

    def allowed(self) -> np.ndarray:
        """Return which tokens may come next: (B, V) bool."""
        after_note, tick = self._phase == AFTER_NOTE, self.time_ticks % BAR_TICKS
        now, leaves = (after_note | (self._phase == MOVED)), after_note & ~self._must_end()
        mask = np.zeros((len(tick), self._size), dtype=bool)
        np.logical_and(self._may_begin(), now[:, None], out=mask[:, NOTE_ON.start : NOTE_ON.stop])
        np.logical_and(self._may_end(), now[:, None], out=mask[:, NOTE_OFF.start : NOTE_OFF.stop])
        mask[:, AT.start : AT.stop] = leaves[:, None] & (tick[:, None] < PLACES)
        mask[:, BEGIN] = self._phase == BEFORE
        mask[:, BAR] = leaves | (self._phase == BEGUN)
        mask[:, END] = leaves & (self._sounding.any(axis=1) | (tick > 0))
        if self._given is not None:
            kept = (self._next[:, None] <= self._given.last) & (self._prompt == 0)[:, None]
            mask[:, NOTE_ON.start : NOTE_ON.stop] &= ~kept
            mask[:, NOTE_OFF.start : NOTE_OFF.stop] &= ~kept
            rows = np.flatnonzero(now & (self._due_given() == self.time_ticks))
            mask[rows, self._given.tokens[self._next[rows]]] = True
        return mask

    def instead(self, tokens: np.ndarray) -> np.ndarray:
        """Return tokens; of a move past what must come first, the part up to there, or that itself."""
        tokens = np.asarray(tokens, dtype=np.int64)
        line = self.time_ticks - self.time_ticks % BAR_TICKS
        reached = np.where(MOVES_TO[tokens] > 0, line + MOVES_TO[tokens], self.time_ticks)
        given = self._due_given()
        due = np.where(self._prompt == 0, np.minimum(self._next_due, given), FAR_TICKS)
        passes = (reached > due) & (self._phase == AFTER_NOTE)
        taken = np.where(passes & (due > self.time_ticks), AT.start - 1 + due - line, tokens)
        if self._given is None:
            return taken
        token = self._given.tokens[self._next]
        now = (given == self.time_ticks) & (passes | (_order(tokens) > _order(token)))
        return np.where(now, token, taken)

    def advance(self, tokens: np.ndarray) -> None:
        """Take one more token a row: (B,) ids that `allowed` allowed, or tokens of goals."""
        tokens = np.asarray(tokens, dtype=np.int64)
        is_given = self._is_given(tokens)
        self._phase = np.where(tokens < GOAL_START, PHASE_AFTER[tokens], self._phase)
        # After what is told nothing needs to happen at its place.
        self._phase = np.where(is_given & (tokens >= GOAL_START), AFTER_NOTE, self._phase)
        self._next = self._next + is_given
        self._bars = self._bars + (tokens == BAR)
        self._take_notes(tokens)
        rows = np.flatnonzero(TICK_OF[tokens] >= 0)
        if len(rows):
            self._move(rows, (self._bars[rows] - 1) * BAR_TICKS + TICK_OF[tokens[rows]])
        self._prompt = np.maximum(self._prompt - 1, 0)

    def _is_given(self, tokens: np.ndarray) -> np.ndarray:
        """Say which tokens are the given event that is due: (B,)."""
        if self._given is None:
            return np.zeros(len(tokens), dtype=bool)
        return (self._due_given() == self.time_ticks) & (tokens == self._given.tokens[self._next])

    def _due_given(self) -> np.ndarray:
        """Return when the next given event comes; inside the prompt none does: (B,)."""
        if self._given is None:
            return np.full(len(self.time_ticks), FAR_TICKS)
        return np.where(self._prompt == 0, self._given.time_ticks[self._next], FAR_TICKS)


def _order(tokens: np.ndarray) -> np.ndarray:
    """Return where events of one time stand among each other: what is told, note-offs and what is none, note-ons."""
    on = NOTE_ON.holds(tokens)
    order = np.where(on, RANK[np.where(on, tokens - NOTE_ON.start, 0)] + 1, 0)
    return np.where(tokens >= GOAL_START, -1, order)


# Whether a sequence of the second groove language is the one spelling of its music, and why a token may not stand.
#
# The order of events at one time is that of the first one (groove/grammar.py). Places in a bar ascend, and something
# happens at each. The last bar has something in it, be it a note that sounds on: so a piece has one number of bars.


def is_valid(ids: np.ndarray) -> bool:
    """Say whether a sequence, or a prefix of one, says its events as the encoder would."""
    if not len(ids) or ids[0] != BEGIN:
        return not len(ids)
    begun = ids[:-1] if len(ids) > 1 and (ids[-1] == END or AT.holds(ids[-1:])[0]) else ids
    reading = BarReading(begun)
    sounding, events = reading.sounding, reading.events
    if ((sounding < 0) | (sounding > MOST_UNISONS)).any() or (np.diff(events.time_ticks) < 0).any():
        return False
    spelled = spell_bars(events.sorted(), 0, reading.bars)
    if not np.array_equal(begun[1:], spelled):
        return False
    if len(begun) == len(ids):
        return True
    tick = int(reading.time_ticks[-1]) % BAR_TICKS
    if ids[-1] != END:
        return reading.bars > 0 and tick < int(TICK_OF[ids[-1]])
    return reading.bars > 0 and (
        tick > 0 or 2 * int(reading.is_on.sum()) > len(reading.event_places)
    )


def explain(ids: np.ndarray) -> str:
    """Say why the last of these ids may not follow the others, which are a valid prefix."""
    token, before = int(ids[-1]), BarReading(ids[:-1])
    name = VOCABULARY.names[token]
    if not len(before.ids):
        return f"a piece starts with begin, but {name} does"
    last = int(before.ids[-1])
    previous = VOCABULARY.names[last]
    if last == END:
        return f"nothing may follow end, but {name} does"
    if token == BEGIN or token >= GOAL_START:
        return f"{name} may not stand inside a piece"
    if last == BEGIN:
        return f"a bar must follow begin, but {name} does"
    if token == END and not AT.holds(before.ids[-1:])[0]:
        return "the last bar has something in it, but end follows an empty one"
    if token in (BAR, END) or AT.holds(ids[-1:])[0]:
        if AT.holds(before.ids[-1:])[0]:
            return f"a note-on or note-off must follow {previous}, but {name} does"
        tick = int(before.time_ticks[-1]) % BAR_TICKS
        return f"places in a bar ascend, but tick {TICK_OF[token]} follows tick {tick}"
    return why_not_event(before, token, name)
