"""Recall: with each token, show the network what followed when the piece was last at this point.

A state of constant size cannot reproduce the notes of an earlier bar; a list of tokens can. So the network receives
with each token two guesses of the next one, each with a level that says how it was found:

- *planned*: where the plan has a bar return to an earlier one (its source), the next token of the source. A bar that
  departs from its source is kept aligned with it by part, by onset and by pitch.
- *matched*: the token that followed the latest earlier occurrence of the last tokens, if MIN_MATCH or more agree.

This is prediction by partial matching (Cleary and Witten 1984); neural caches mix such guesses into the output (Grave
et al. 2017). Here the network learns when to trust a guess (guesses.py).

B batch, T time, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, Self

import numpy as np

from musicgen.loops import compiled
from musicgen.parts import (
    ANNOTATION,
    BAR,
    NOTE,
    ONSET,
    OTHER,
    PART,
    PLAN,
    RESTART,
    RETURN,
    VALUES,
)

MIN_MATCH = 4  # tokens
MAX_COMPARED = 64  # tokens, when a match is looked up
TABLE_SIZE = 1 << 14  # of the hash table of contexts of MIN_MATCH tokens
REPEAT_LIMIT = 4  # occurrences of a bar's notes; most real songs stay within it (docs/results.md)
PHRASE = 4  # bars within which a repetition counts twice
NEAR = 8  # bars; a return without a name goes back further
MIN_COPIED = 3  # agreeing tokens at the end of a bar that make it a copy of its source
COPY_BONUS = 8  # equal plan levels that continuing a copy is worth

# In a bar that returns, the nats added to the logit of the source's next token: at first, and once ALIGNED tokens in a
# row agree with the source (less, as songs vary what they repeat). The plan names the source, or it is guessed; where
# the request sets it, the boost is constant. Chosen on validation songs (docs/results.md).
ALIGNED = 4
NAMED_BOOST, GUESSED_BOOST, REQUESTED_BOOST = (0.8, 0.0), (5.0, 0.9), 3.0

INFINITE = 1 << 30  # occurrences

# What the plan says of a bar: nothing; it is new; it returns to the bar k bars back; to an earlier one without a name.
UNPLANNED, NEW, NAMED, UNNAMED = range(4)

# Planned: 0 no plan, 1 a new bar, 2 no aligned source, then five for a named source and five for another, by the number
# of tokens that have agreed. Matched: 0 no match, then by its length.
PLANNED_LEVELS, MATCHED_LEVELS = 13, 8

# Columns of the guesses. Tokens are counted from 1; 0 is none.
PLANNED, PLANNED_LEVEL, MATCHED, MATCHED_LEVEL = range(4)

# The state of a sequence, an array of integers; −1 is none.
(
    LENGTH,  # sounding tokens so far
    MATCH,  # the index among them at which the match continues
    MATCH_LENGTH,
    CURSOR,  # the index at which the source bar continues
    AGREED,  # tokens in a row that agree with the source
    BARS,  # begun so far
    FIRST_BAR,  # that can be a source
    RETURN_KIND,  # of the current bar, as the plan says
    SOURCE,  # the bar that the current one returns to
    LAST_COPIED,  # the source of the previous bar, if that is a copy
    CURRENT_PART,
    LIMIT,  # occurrences of its notes from which on a bar is not recalled
    STATE_SIZE,
) = range(13)
# Columns of the table of bars: index of the first token, source set by the request, hash of the notes, occurrences
# of these notes up to this bar, and a level for each family of the plan.
START, REQUESTED_SOURCE, NOTES_HASH, COUNT, PLAN_LEVELS = range(5)


class Recollection:
    """The recall of one sequence, which takes the tokens as they come."""

    def __init__(
        self, kinds: np.ndarray, families: int, *, strength: float = 1.0, drums: int = -1
    ) -> None:
        """Begin before the first token; `strength` scales the effect of recall, and `drums` is the part of drums."""
        self.kinds, self.strength, self.drums = kinds, strength, drums
        self.expected: tuple[int, np.ndarray] = (-1, np.zeros(0))  # a bar, its expected drum hits
        named = np.flatnonzero((kinds[0] == RETURN) & (kinds[1] > 0))
        self._returns = [(int(token), int(kinds[1, token])) for token in named]
        self._named = np.unique(kinds[1, named])  # bars back
        self._state = np.zeros(STATE_SIZE, np.int64)
        self._state[[MATCH, CURSOR, SOURCE, LAST_COPIED, CURRENT_PART]] = -1
        self._state[LIMIT] = REPEAT_LIMIT
        self._avoided = np.zeros(0, np.int32)  # hashes of the notes of bars that are not recalled
        self._table = np.zeros(TABLE_SIZE, np.int32)
        self._ids = np.zeros(0, np.int32)  # the sounding tokens
        self._bars = np.zeros((0, PLAN_LEVELS + families), np.int32)

    def current_part(self) -> int:
        """Return the token of the current part, −1 before the first of a bar."""
        return int(self._state[CURRENT_PART])

    def bars(self) -> range:
        """Return the numbers of the bars begun so far, without those that were given ahead."""
        return range(int(self._state[FIRST_BAR]), int(self._state[BARS]))

    def tokens_of(self, bar: int) -> np.ndarray:
        """Return the tokens of a bar so far, without annotations."""
        last = bar == self._state[BARS] - 1
        stop = self._state[LENGTH] if last else self._bars[bar + 1, START] - 1
        return self._ids[self._bars[bar, START] : stop]

    def exhausted_returns(self) -> list[int]:
        """Return the tokens that would have this bar return to one whose notes have reached the limit."""
        now, limit = int(self._state[BARS]) - 1, self._state[LIMIT]
        return [
            token
            for token, back in self._returns
            if back <= now and self._bars[now - back, COUNT] >= limit
        ]

    def source_boost(self) -> tuple[int, float]:
        """Return the source's next token and the nats to add to its logit; (−1, 0) without an aligned source."""
        cursor = int(self._state[CURSOR])
        if cursor < 0 or not self.strength:
            return -1, 0.0
        if self._bars[self._state[BARS] - 1, REQUESTED_SOURCE] >= 0:
            boost = REQUESTED_BOOST
        else:
            before, after = NAMED_BOOST if self._state[RETURN_KIND] == NAMED else GUESSED_BOOST
            boost = before if self._state[AGREED] < ALIGNED else after
        return int(self._ids[cursor]), boost * self.strength

    def copy(self) -> Self:
        """Return an independent copy."""
        other = copy(self)
        other._state, other._table = self._state.copy(), self._table.copy()
        other._ids, other._bars = self._ids.copy(), self._bars.copy()
        return other

    def set_sources(self, sources: Mapping[int, int]) -> None:
        """Set the source of bars that the plan has return, bar → source; both are counted from the next bar."""
        now = int(self._state[BARS])
        self._reserve(now + max(sources, default=0) + 1)
        for bar, source in sources.items():
            self._bars[bar + now, REQUESTED_SOURCE] = source + now

    def avoid(self, other: Self) -> None:
        """Recall no bar with the notes of a bar that another sequence has completed."""
        self._avoided = other._bars[: max(int(other._state[BARS]) - 1, 0), NOTES_HASH].copy()

    def adapt_limit(self) -> None:
        """Raise the limit on repetition to that of the piece so far; lift it if one bar makes up most of the piece."""
        counts = self._bars[: max(int(self._state[BARS]) - 1, 0), COUNT]
        most = int(counts[counts < INFINITE].max(initial=0))
        one_bar = 2 * most > len(counts) > 1
        self._state[LIMIT] = INFINITE if one_bar else max(REPEAT_LIMIT, most)

    def take(self, tokens: np.ndarray) -> np.ndarray:
        """Append tokens, (T,), and return the guesses after each: (T, 4) int16."""
        tokens = np.ascontiguousarray(tokens, np.int64)
        self._ids = _with_capacity(self._ids, int(self._state[LENGTH]) + len(tokens) + 1)
        self._reserve(int(self._state[BARS] + (self.kinds[0, tokens] == BAR).sum()) + 1)
        guesses = np.zeros((len(tokens), 4), np.int16)
        _take(
            tokens, self.kinds, self._named, self._avoided, self._state, self._ids, self._table,
            self._bars, guesses,
        )  # fmt: skip
        return guesses

    def _reserve(self, bars: int) -> None:
        had = len(self._bars)
        self._bars = _with_capacity(self._bars, bars)
        self._bars[had:, REQUESTED_SOURCE:] = -1


def recall_rows(
    recalls: Sequence[Recollection], tokens: Any
) -> tuple[np.ndarray, np.ndarray | None]:
    """Append tokens, (B, T), to the recall of each row; return the guesses, (B, T, 4), and the strengths, (B,).

    The strengths are None if all of them are 1.
    """
    rows = zip(recalls, np.asarray(tokens), strict=True)
    guesses = np.stack([recall.take(row) for recall, row in rows])
    strengths = [recall.strength for recall in recalls]
    if all(strength == 1 for strength in strengths):
        return guesses, None
    return guesses, np.array(strengths, np.float32)


def _with_capacity(array: np.ndarray, rows: int) -> np.ndarray:
    """Return an array with at least this many rows, at least doubling one that is too short."""
    if rows <= len(array):
        return array
    larger = np.zeros((max(rows, 2 * len(array), 64), *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    return larger


@compiled
def _take(
    tokens: Any, kinds: Any, named: Any, avoided: Any, state: Any, ids: Any, table: Any, bars: Any,
    guesses: Any,
) -> None:  # fmt: skip
    """Append tokens and write the guesses after each."""
    families = bars.shape[1] - PLAN_LEVELS
    for step in range(len(tokens)):
        token = tokens[step]
        kind, value = kinds[0, token], kinds[1, token]
        bar = state[BARS] - 1
        if kind == RESTART:
            state[FIRST_BAR], state[RETURN_KIND] = state[BARS], UNPLANNED
            state[SOURCE], state[CURSOR], state[LAST_COPIED] = -1, -1, -1
        elif kind == RETURN and bar >= 0:
            state[RETURN_KIND] = NEW if value == 0 else (NAMED if value > 0 else UNNAMED)
            state[SOURCE] = -1
            if value and bars[bar, REQUESTED_SOURCE] >= 0:
                state[RETURN_KIND], state[SOURCE] = NAMED, min(bars[bar, REQUESTED_SOURCE], bar - 1)
            elif value > 0:
                state[SOURCE] = bar - value
            elif value < 0:
                state[SOURCE] = _most_similar(bar, state, bars, named)
            _go_to_source(state, bars)
        elif kind == PLAN and bar >= 0:
            bars[bar, PLAN_LEVELS + value % families] = value // families
            if state[RETURN_KIND] == UNNAMED:
                state[SOURCE] = _most_similar(bar, state, bars, named)
                _go_to_source(state, bars)
        elif kind < ANNOTATION or kind >= VALUES:
            if kind == BAR:
                copied = state[RETURN_KIND] > NEW and state[AGREED] >= MIN_COPIED
                state[LAST_COPIED] = state[SOURCE] if copied else -1
                state[RETURN_KIND] = UNPLANNED
                state[SOURCE], state[CURSOR], state[CURRENT_PART] = -1, -1, -1
                if bar >= 0:
                    _count_repeats(bar, kinds, avoided, state, ids, bars)
                bars[state[BARS], START] = state[LENGTH] + 1
                state[BARS] += 1
            elif state[SOURCE] >= 0:
                _align(token, kinds, state, ids, bars)
            if kind == PART:
                state[CURRENT_PART] = token
            _match(token, state, ids, table)
        _write_guesses(guesses[step], state, ids, bars)


@compiled
def _go_to_source(state: Any, bars: Any) -> None:
    """Set the cursor to the beginning of the source, or drop a source that cannot be recalled."""
    state[CURSOR], state[AGREED] = -1, 0
    if state[SOURCE] < state[FIRST_BAR] or bars[state[SOURCE], COUNT] >= state[LIMIT]:
        state[SOURCE] = -1
    else:
        state[CURSOR] = bars[state[SOURCE], START]


@compiled
def _count_repeats(bar: int, kinds: Any, avoided: Any, state: Any, ids: Any, bars: Any) -> None:
    """Count the occurrences of a bar's notes, as the bar ends.

    A repetition within a phrase counts twice. A silent bar always counts once.
    """
    notes = 0
    for index in range(bars[bar, START], state[LENGTH]):
        if PART <= kinds[0, ids[index]] <= NOTE:
            notes = (notes * 1000003 + ids[index]) & 0x3FFFFFFF
    bars[bar, NOTES_HASH], bars[bar, COUNT] = notes, 1
    if notes == 0:
        return
    if notes in avoided:
        bars[bar, COUNT] = INFINITE
        return
    for other in range(bar - 1, -1, -1):
        if bars[other, NOTES_HASH] == notes:
            bars[bar, COUNT] = bars[other, COUNT] + (2 if bar - other <= PHRASE else 1)
            break


@compiled
def _most_similar(bar: int, state: Any, bars: Any, named: Any) -> int:
    """Return the bar with the most plan levels in common with this one, −1 for none; bars with a name are left out.

    The plans of the two bars before them are compared too. The bar after the source of a copy is preferred.
    """
    best, chosen = 0, -1
    for other in range(state[FIRST_BAR], bar - NEAR):
        if bar - other in named or bars[other, COUNT] >= state[LIMIT]:
            continue
        common = COPY_BONUS if state[LAST_COPIED] >= 0 and other == state[LAST_COPIED] + 1 else 0
        for before in range(2 if other > state[FIRST_BAR] else 1):
            for family in range(PLAN_LEVELS, bars.shape[1]):
                level = bars[bar - before, family]
                if level >= 0 and level == bars[other - before, family]:
                    common += 1
        if common > best:
            best, chosen = common, other
    return chosen


@compiled
def _align(token: int, kinds: Any, state: Any, ids: Any, bars: Any) -> None:
    """Advance the cursor in the source bar past a token of the current bar."""
    kind, value = kinds[0, token], kinds[1, token]
    start, stop = bars[state[SOURCE], START], bars[state[SOURCE] + 1, START] - 1
    cursor = state[CURSOR]
    agrees = cursor >= 0 and ids[cursor] == token
    state[AGREED] = state[AGREED] + 1 if agrees else 0
    if agrees:
        state[CURSOR] = cursor + 1
        return
    if kind == PART:  # the same part of the source: first after the cursor, then before it
        state[CURSOR] = -1
        first = start if cursor < 0 else cursor
        for offset in range(stop - start):
            index = start + (first - start + offset) % (stop - start)
            if ids[index] == token:
                state[CURSOR] = index + 1
                return
        return
    if cursor < 0:
        return
    if kind == ONSET:  # the same onset of the part, or the next one
        index = cursor
        while index < stop and kinds[0, ids[index]] != PART:
            if kinds[0, ids[index]] == ONSET and kinds[1, ids[index]] >= value:
                state[CURSOR] = index + (ids[index] == token)
                return
            index += 1
        state[CURSOR] = index
        return
    # The same token later in the onset; else this one replaces the token at the cursor, or is inserted before it.
    index = cursor
    while index < stop and kinds[0, ids[index]] != PART and kinds[0, ids[index]] != ONSET:
        if ids[index] == token:
            state[CURSOR] = index + 1
            return
        index += 1
    if cursor < stop and kinds[0, ids[cursor]] == kind:
        passed = kind != NOTE or kinds[1, ids[cursor]] <= value
        state[CURSOR] = cursor + (kind >= VALUES or (kind == NOTE and passed))
    elif kind == OTHER and state[CURRENT_PART] >= 0:  # which of the parts of one instrument it is
        state[CURSOR] = -1
        for index in range(start, stop - 1):
            if ids[index] == state[CURRENT_PART] and ids[index + 1] == token:
                state[CURSOR] = index + 2
                return


@compiled
def _match(token: int, state: Any, ids: Any, table: Any) -> None:
    """Append a token; continue the match, or find the latest earlier occurrence of the last tokens."""
    match = state[MATCH]
    if match >= 0 and ids[match] == token:
        state[MATCH], state[MATCH_LENGTH] = match + 1, state[MATCH_LENGTH] + 1
    else:
        state[MATCH], state[MATCH_LENGTH] = -1, 0
    ids[state[LENGTH]] = token
    state[LENGTH] += 1
    now = state[LENGTH]
    if now < MIN_MATCH:
        return
    context = 0
    for index in range(now - MIN_MATCH, now):
        context = (context * 1000003 + ids[index]) & 0x3FFFFFFF
    slot = (context ^ (context >> 15)) % TABLE_SIZE
    earlier = table[slot]
    table[slot] = now
    if state[MATCH] >= 0 or earlier < MIN_MATCH:
        return
    length, most = 0, min(MAX_COMPARED, earlier)
    while length < most and ids[earlier - 1 - length] == ids[now - 1 - length]:
        length += 1
    if length >= MIN_MATCH:
        state[MATCH], state[MATCH_LENGTH] = earlier, length


@compiled
def _write_guesses(guesses: Any, state: Any, ids: Any, bars: Any) -> None:
    """Write the guesses of the next token, and their levels."""
    if state[RETURN_KIND] == NEW:
        guesses[PLANNED_LEVEL] = 1
    elif state[CURSOR] >= 0:
        agreed, level = state[AGREED], 0  # 0 to 4: 0, 1, 2 to 3, 4 to 7, 8 or more tokens
        while agreed and level < 4:
            agreed, level = agreed >> 1, level + 1
        guesses[PLANNED] = ids[state[CURSOR]] + 1
        guesses[PLANNED_LEVEL] = (3 if state[RETURN_KIND] == NAMED else 8) + level
    elif state[RETURN_KIND] != UNPLANNED:
        guesses[PLANNED_LEVEL] = 2
    if state[MATCH] < 0:
        return
    bar = np.searchsorted(bars[: state[BARS], START], state[MATCH], side="right") - 1
    if bars[max(bar, 0), COUNT] < state[LIMIT]:
        length = state[MATCH_LENGTH]
        level = 1 + (length > 5) + (length > 7) + (length > 11) + (length > 15)
        guesses[MATCHED] = ids[state[MATCH]] + 1
        guesses[MATCHED_LEVEL] = level + (length > 23) + (length > 39)
