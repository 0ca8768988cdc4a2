"""What came next when the piece was last here: given to the network with each token, so that music can return.

A state of constant size cannot bring back the notes of an earlier bar; a list of tokens can. So with each token the
network is given two guesses of what comes next, and how each was found:

- *planned*: where the plan has a bar return to an earlier one, the next token of that bar. A bar that departs from its
  source is kept aligned with it by part, by place in the bar and by pitch.
- *matched*: what followed the last tokens where they stood before, if ORDER or more of them are the same.

It is prediction by partial matching (Cleary and Witten 1984); caches mix it into the output (Grave et al. 2017). The
network learns when to trust a guess.

B batch, T time, V vocabulary, C model width.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from musicgen.loops import compiled

ORDER = 4  # tokens that have to be the same
LONGEST = 64  # tokens that are compared
TABLE = 1 << 14  # places of the latest ORDER tokens, by their hash
PHRASE = 4  # bars
NEAR = 8  # bars back, up to which a return has a name or is none
AGREES = 3  # last tokens of a bar that are those of its source, from which on it is a copy
COPIED = 8  # levels of plans that it counts for to follow a bar that was copied
# Nats by which, in a bar that is drawn to return, the next token of its source is likelier: before FOUND tokens are
# those of the source, and after them, since songs vary their bars; where the source has a name, and where it is
# guessed. Chosen on validation songs (docs/results.md).
FOUND = 4
TO_NAMED, TO_GUESSED = (0.8, 0.0), (5.0, 0.9)
TO_KNOWN = 3.0
TIMES = 4  # that the notes of a bar may be said: nine real pieces in ten say none oftener (docs/results.md)
MANY = 1 << 30

# Kinds of tokens. From VALUES on a token sets a value of the notes after it, and each block is a kind.
OTHER, BAR, PART, PLACE, NOTE, SAID, PLAN, RETURN, RESTART, VALUES = range(10)

# What was asked of the bar that has begun.
NOTHING, NEW, NAMED, UNNAMED_RETURN = range(4)
# How a guess was found: level 0 stands for no guess.
# None, new, lost; then 5 of a named return and 5 of another, by how long it has agreed.
PLANNED_LEVELS = 13
MATCHED_LEVELS = 8  # by how many tokens are the same

# Columns of what is recalled; tokens are counted from 1.
PLANNED, PLANNED_LEVEL, MATCHED, MATCHED_LEVEL = range(4)

# Where a sequence stands, by its place in one array.
TOKENS, MATCH, LENGTH, BACK, AGREED, BARS, FIRST, ASKED, SOURCE, LAST, PART_NOW, MOST, STATES = (
    range(13)
)
# What is known of each bar: where it begins, which bar it is known to return to, what it says, how many have said that
# by then, and its plan.
BEGINS, KNOWN, SAYS, SAID_TIMES, OF_PLAN = range(5)


@dataclass(frozen=True, kw_only=True)
class RecallConfig:
    """What tokens mean to one who recalls, as a language says it: stretches of ids, each [start, stop)."""

    bar: int
    restart: int  # the end of what was given ahead: no bar returns to what stands before
    parts: tuple[int, int]
    places: tuple[int, int]  # in the bar
    notes: tuple[tuple[int, int], ...]
    values: tuple[tuple[int, int], ...]  # of notes, such as lengths
    said: int  # from here on tokens say nothing that sounds
    plan: tuple[tuple[int, int], ...]
    # (token, bars back): 0 for a new bar, −1 for an earlier one without a name.
    returns: tuple[tuple[int, int], ...]
    drums: int = -1  # the part that keeps to its patterns (musicgen/drums.py); −1 for none

    def kinds(self, vocabulary: int) -> np.ndarray:
        """Return the kind of each token, and its value: (2, V)."""
        kinds = np.zeros((2, vocabulary), np.int64)
        kinds[:, self.said :] = [[SAID], [0]]
        blocks = ((PART, [self.parts]), (PLACE, [self.places]), (NOTE, self.notes))
        for kind, stretches in blocks:
            for start, stop in stretches:
                kinds[0, start:stop] = kind
                kinds[1, start:stop] = np.arange(stop - start)
        for number, (start, stop) in enumerate(self.values):
            kinds[0, start:stop] = VALUES + number
        for number, (start, stop) in enumerate(self.plan):
            kinds[0, start:stop] = PLAN
            kinds[1, start:stop] = np.arange(stop - start) * len(self.plan) + number
        for token, bars in self.returns:
            kinds[:, token] = RETURN, bars
        kinds[0, self.bar], kinds[0, self.restart] = BAR, RESTART
        return kinds


class Recollection:
    """What one sequence recalls; it takes its tokens one after the other."""

    def __init__(self, kinds: np.ndarray, families: int, strength: float = 1.0) -> None:
        """Stand before the first token; what is recalled counts `strength` times."""
        self.kinds, self.strength, self.drums = kinds, strength, -1  # and the part of drums, if any
        self.expected: tuple[int, np.ndarray] = (-1, np.zeros(0))  # a bar, the hits of its drums
        named = np.flatnonzero((kinds[0] == RETURN) & (kinds[1] > 0))
        self._returns = [(int(token), int(kinds[1, token])) for token in named]
        self._named = np.unique(kinds[1, named])
        self._at = np.zeros(STATES, np.int64)
        self._at[[MATCH, BACK, SOURCE, LAST, PART_NOW]] = -1
        self._at[MOST] = TIMES
        self._avoided = np.zeros(0, np.int32)  # what bars say that are not to be recalled
        self._table = np.zeros(TABLE, np.int32)
        self._ids = np.zeros(0, np.int32)
        self._bars = np.zeros((0, OF_PLAN + families), np.int32)

    def part(self) -> int:
        """Return the part that plays now, −1 before the first of a bar."""
        return int(self._at[PART_NOW])

    def bars(self) -> range:
        """Return the numbers of the bars that have begun, without those that were given ahead."""
        return range(int(self._at[FIRST]), int(self._at[BARS]))

    def said_in(self, bar: int) -> np.ndarray:
        """Return the tokens of a bar that has begun, without those about it."""
        last = bar == self._at[BARS] - 1
        stop = self._at[TOKENS] if last else self._bars[bar + 1, BEGINS] - 1
        return self._ids[self._bars[bar, BEGINS] : stop]

    def worn(self) -> list[int]:
        """Return the tokens that would have this bar return to one that has been said too often."""
        now, most = int(self._at[BARS]) - 1, self._at[MOST]
        return [
            token
            for token, back in self._returns
            if back <= now and self._bars[now - back, SAID_TIMES] >= most
        ]

    def followed(self) -> tuple[int, float]:
        """Return the next token of the bar that this one returns to, or −1, and by how many nats it is likelier."""
        back = int(self._at[BACK])
        if back < 0 or not self.strength:
            return -1, 0.0
        if self._bars[self._at[BARS] - 1, KNOWN] >= 0:
            likelier = TO_KNOWN
        else:
            lost, found = TO_NAMED if self._at[ASKED] == NAMED else TO_GUESSED
            likelier = lost if self._at[AGREED] < FOUND else found
        return int(self._ids[back]), likelier * self.strength

    def copy(self) -> Self:
        """Return one that goes on for itself."""
        other = copy(self)
        other._at, other._table = self._at.copy(), self._table.copy()
        other._ids, other._bars = self._ids.copy(), self._bars.copy()
        return other

    def return_to(self, sources: Mapping[int, int]) -> None:
        """Have bars return to earlier ones, both counted from here on, where a plan has them return."""
        now = int(self._at[BARS])
        self._make_room(now + max(sources, default=0) + 1)
        for bar, source in sources.items():
            self._bars[bar + now, KNOWN] = source + now

    def avoid(self, other: Self) -> None:
        """Recall no bar whose notes are those of a bar that another one has taken, the last one closed."""
        self._avoided = other._bars[: max(int(other._at[BARS]) - 1, 0), SAYS].copy()

    def get_used(self) -> None:
        """Let bars be said as often as one has been; in a piece that mostly says one bar, as often as may be."""
        times = self._bars[: max(int(self._at[BARS]) - 1, 0), SAID_TIMES]
        most = int(times[times < MANY].max(initial=0))
        self._at[MOST] = MANY if 2 * most > len(times) > 1 else max(TIMES, most)

    def take(self, tokens: np.ndarray) -> np.ndarray:
        """Take tokens, (T,), and return what is recalled after each: (T, 4) int16."""
        tokens = np.ascontiguousarray(tokens, np.int64)
        self._ids = _with_room(self._ids, int(self._at[TOKENS]) + len(tokens) + 1)
        self._make_room(int(self._at[BARS] + (self.kinds[0, tokens] == BAR).sum()) + 1)
        found = np.zeros((len(tokens), 4), np.int16)
        _follow(
            tokens, self.kinds, self._named, self._avoided, self._at, self._ids, self._table,
            self._bars, found,
        )  # fmt: skip
        return found

    def _make_room(self, bars: int) -> None:
        had = len(self._bars)
        self._bars = _with_room(self._bars, bars)
        self._bars[had:, KNOWN:] = -1


def _with_room(array: np.ndarray, rows: int) -> np.ndarray:
    """Return an array with room for so many rows: twice as many as there were, if they are too few."""
    if rows <= len(array):
        return array
    larger = np.zeros((max(rows, 2 * len(array), 64), *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    return larger


@compiled
def _follow(
    tokens: Any,
    kinds: Any,
    named: Any,
    avoided: Any,
    at: Any,
    ids: Any,
    table: Any,
    bars: Any,
    found: Any,
) -> None:
    """Take tokens and say what is recalled after each."""
    families = bars.shape[1] - OF_PLAN
    for step in range(len(tokens)):
        token = tokens[step]
        kind, value = kinds[0, token], kinds[1, token]
        bar = at[BARS] - 1
        if kind == RESTART:
            at[FIRST], at[ASKED], at[SOURCE], at[BACK], at[LAST] = at[BARS], NOTHING, -1, -1, -1
        elif kind == RETURN and bar >= 0:
            at[ASKED] = NEW if value == 0 else (NAMED if value > 0 else UNNAMED_RETURN)
            at[SOURCE] = -1
            if value and bars[bar, KNOWN] >= 0:
                at[ASKED], at[SOURCE] = NAMED, min(bars[bar, KNOWN], bar - 1)
            elif value > 0:
                at[SOURCE] = bar - value
            elif value < 0:
                at[SOURCE] = _likest(bar, at, bars, named)
            _go_back(at, bars)
        elif kind == PLAN and bar >= 0:
            bars[bar, OF_PLAN + value % families] = value // families
            if at[ASKED] == UNNAMED_RETURN:
                at[SOURCE] = _likest(bar, at, bars, named)
                _go_back(at, bars)
        elif kind < SAID or kind >= VALUES:
            if kind == BAR:
                copied = at[ASKED] > NEW and at[AGREED] >= AGREES
                at[LAST] = at[SOURCE] if copied else -1
                at[ASKED], at[SOURCE], at[BACK], at[PART_NOW] = NOTHING, -1, -1, -1
                if bar >= 0:
                    _count(bar, kinds, avoided, at, ids, bars)
                bars[at[BARS], BEGINS] = at[TOKENS] + 1
                at[BARS] += 1
            elif at[SOURCE] >= 0:
                _align(token, kinds, at, ids, bars)
            if kind == PART:
                at[PART_NOW] = token
            _match(token, at, ids, table)
        _say(found[step], at, ids, bars)


@compiled
def _go_back(at: Any, bars: Any) -> None:
    """Stand at the beginning of the bar that this one returns to."""
    at[BACK], at[AGREED] = -1, 0
    if at[SOURCE] < at[FIRST] or bars[at[SOURCE], SAID_TIMES] >= at[MOST]:
        at[SOURCE] = -1
    else:
        at[BACK] = bars[at[SOURCE], BEGINS]


@compiled
def _count(bar: int, kinds: Any, avoided: Any, at: Any, ids: Any, bars: Any) -> None:
    """Count how often the notes of a bar have been said, as it ends: twice within a phrase; silence is not counted."""
    number = 0
    for place in range(bars[bar, BEGINS], at[TOKENS]):
        if PART <= kinds[0, ids[place]] <= NOTE:
            number = (number * 1000003 + ids[place]) & 0x3FFFFFFF
    bars[bar, SAYS], bars[bar, SAID_TIMES] = number, 1
    if number == 0:
        return
    for said in avoided:
        if said == number:
            bars[bar, SAID_TIMES] = MANY
            return
    for other in range(bar - 1, -1, -1):
        if bars[other, SAYS] == number:
            bars[bar, SAID_TIMES] = bars[other, SAID_TIMES] + (2 if bar - other <= PHRASE else 1)
            break


@compiled
def _likest(bar: int, at: Any, bars: Any, named: Any) -> int:
    """Return the bar whose plan is the most like this bar's, of those that have no name; −1 if there is none.

    The plans of the bars before the two are compared too. A bar that follows one that was copied is preferred.
    """
    best, chosen = 0, -1
    for other in range(at[FIRST], bar - NEAR):
        back = bar - other
        has_name = False
        for one in named:
            has_name |= one == back
        if has_name or bars[other, SAID_TIMES] >= at[MOST]:
            continue
        common = COPIED if at[LAST] >= 0 and other == at[LAST] + 1 else 0
        for before in range(2 if other > at[FIRST] else 1):
            for family in range(OF_PLAN, bars.shape[1]):
                level = bars[bar - before, family]
                if level >= 0 and level == bars[other - before, family]:
                    common += 1
        if common > best:
            best, chosen = common, other
    return chosen


@compiled
def _align(token: int, kinds: Any, at: Any, ids: Any, bars: Any) -> None:
    """Move on in the bar that is followed, by a token of this one."""
    kind, value = kinds[0, token], kinds[1, token]
    start, stop = bars[at[SOURCE], BEGINS], bars[at[SOURCE] + 1, BEGINS] - 1
    back = at[BACK]
    agrees = back >= 0 and ids[back] == token
    at[AGREED] = at[AGREED] + 1 if agrees else 0
    if agrees:
        at[BACK] = back + 1
        return
    if kind == PART:
        at[BACK] = -1
        first = start if back < 0 else back
        for turn in range(stop - start):
            place = first + turn
            if place >= stop:
                place -= stop - start
            if ids[place] == token:
                at[BACK] = place + 1
                return
        return
    if back < 0:
        return
    if kind == PLACE:
        place = back
        while place < stop and kinds[0, ids[place]] != PART:
            if kinds[0, ids[place]] == PLACE and kinds[1, ids[place]] >= value:
                at[BACK] = place + (ids[place] == token)
                return
            place += 1
        at[BACK] = place
        return
    # Later in the same onset, instead of what stands there, or in front of it.
    place = back
    while place < stop and kinds[0, ids[place]] != PART and kinds[0, ids[place]] != PLACE:
        if ids[place] == token:
            at[BACK] = place + 1
            return
        place += 1
    if back < stop and kinds[0, ids[back]] == kind:
        passed = kind != NOTE or kinds[1, ids[back]] <= value
        at[BACK] = back + (kind >= VALUES or (kind == NOTE and passed))
    elif kind == OTHER and at[PART_NOW] >= 0:  # the number of a part of the same instrument
        at[BACK] = -1
        for place in range(start, stop - 1):
            if ids[place] == at[PART_NOW] and ids[place + 1] == token:
                at[BACK] = place + 2
                return


@compiled
def _match(token: int, at: Any, ids: Any, table: Any) -> None:
    """Take a token, and find where the last ones stood before."""
    match = at[MATCH]
    if match >= 0 and ids[match] == token:
        at[MATCH], at[LENGTH] = match + 1, at[LENGTH] + 1
    else:
        at[MATCH], at[LENGTH] = -1, 0
    ids[at[TOKENS]] = token
    at[TOKENS] += 1
    here = at[TOKENS]
    if here < ORDER:
        return
    number = 0
    for place in range(here - ORDER, here):
        number = (number * 1000003 + ids[place]) & 0x3FFFFFFF
    slot = (number ^ (number >> 15)) % TABLE
    place = table[slot]
    table[slot] = here
    if at[MATCH] >= 0 or place < ORDER:
        return
    length = 0
    while length < LONGEST and place > length and ids[place - 1 - length] == ids[here - 1 - length]:
        length += 1
    if length >= ORDER:
        at[MATCH], at[LENGTH] = place, length


@compiled
def _bar_of(place: int, at: Any, bars: Any) -> int:
    """Return the bar that a token is in, of those that have begun: 0 before the first."""
    low, high = 0, max(at[BARS] - 1, 0)
    while low < high:
        middle = (low + high + 1) // 2
        if bars[middle, BEGINS] <= place:
            low = middle
        else:
            high = middle - 1
    return low


@compiled
def _say(found: Any, at: Any, ids: Any, bars: Any) -> None:
    """Write down what is recalled."""
    if at[ASKED] == NEW:
        found[PLANNED_LEVEL] = 1
    elif at[BACK] >= 0:
        agreed, level = at[AGREED], 0
        while agreed and level < 4:
            agreed, level = agreed >> 1, level + 1
        found[PLANNED] = ids[at[BACK]] + 1
        found[PLANNED_LEVEL] = (3 if at[ASKED] == NAMED else 8) + level
    elif at[ASKED] != NOTHING:
        found[PLANNED_LEVEL] = 2
    if at[MATCH] >= 0 and bars[_bar_of(at[MATCH], at, bars), SAID_TIMES] < at[MOST]:
        length = at[LENGTH]
        level = 1 + (length > 5) + (length > 7) + (length > 11) + (length > 15)
        found[MATCHED] = ids[at[MATCH]] + 1
        found[MATCHED_LEVEL] = level + (length > 23) + (length > 39)


class Recall(nn.Module):
    """Adds what is recalled to the embeddings of tokens: zeros before it has learned."""

    def __init__(self, config: RecallConfig, vocabulary: int, width: int) -> None:
        super().__init__()
        self._kinds, self._families = config.kinds(vocabulary), len(config.plan)
        self._bar, self._restart, self._drums = config.bar, config.restart, config.drums
        self.planned, self.matched = (nn.Embedding(vocabulary, width) for _ in range(2))
        levels = PLANNED_LEVELS + MATCHED_LEVELS
        self.trust = nn.Embedding(levels, width)  # by which a guess counts, for each level
        self.level = nn.Embedding(levels, width)
        with torch.no_grad():
            for part in (self.planned, self.matched, self.level):
                part.weight.zero_()
            self.trust.weight.fill_(1)

    def begin(
        self,
        *,
        elsewhere: Sequence[int] = (),
        unlike: Sequence[int] = (),
        sources: Mapping[int, int] | None = None,
        strength: float = 1.0,
    ) -> Recollection:
        """Return what a sequence recalls before its first token; `Order` explains the arguments."""
        found = Recollection(self._kinds, self._families, strength)
        found.drums = self._drums
        if len(unlike):
            other = Recollection(self._kinds, self._families)
            other.take(np.array([*unlike, self._bar]))
            found.avoid(other)
        if len(elsewhere):
            found.take(np.array([*elsewhere, self._restart]))
        found.return_to(sources or {})
        return found

    def recalled(self, tokens: np.ndarray) -> np.ndarray:
        """Return what whole sequences recall after each token, (B, T) → (B, T, 4)."""
        return np.stack([self.begin().take(np.maximum(row, 0)) for row in tokens])

    def forward(self, recalled: Tensor, strength: Tensor | None = None) -> Tensor:
        """Return the vectors of what is recalled, (B, …, 4) → (B, …, C), which may count less: strength (B,)."""
        planned, level, matched, matched_level = recalled.long().unbind(-1)
        levels = PLANNED_LEVELS + MATCHED_LEVELS
        # A product, since the gradient of 21 vectors by their index takes turns on a GPU.
        of_planned = F.one_hot(level, levels).to(self.level.weight.dtype)
        of_matched = F.one_hot(matched_level + PLANNED_LEVELS, levels).to(self.level.weight.dtype)
        x = _rows(self.planned, planned) * (of_planned @ self.trust.weight)
        x = x + _rows(self.matched, matched) * (of_matched @ self.trust.weight)
        x = x + (of_planned + of_matched) @ self.level.weight
        return x if strength is None else x * strength.view(-1, *[1] * (x.ndim - 1))


def heard(recalls: Sequence[Recollection], tokens: Tensor) -> tuple[Tensor, Tensor | None]:
    """Take tokens, (B, T); return what is recalled after each, (B, T, 4), and how much it counts; None: fully."""
    rows = zip(recalls, tokens.cpu().numpy(), strict=True)
    found = torch.from_numpy(np.stack([one.take(row) for one, row in rows])).to(tokens.device)
    if all(one.strength == 1 for one in recalls):
        return found, None
    return found, torch.tensor([one.strength for one in recalls], device=tokens.device)


def _rows(embedding: nn.Embedding, tokens: Tensor) -> Tensor:
    """Return the vectors of tokens that are counted from 1, and zeros for 0."""
    weight = embedding.weight
    padded = torch.cat([weight.new_zeros(1, weight.shape[1]), weight])
    return F.embedding(tokens, padded, padding_idx=0)
