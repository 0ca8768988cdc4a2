"""Recall in plain Python: the reference of what the kernel does (musicgen/recall.py)."""

from collections.abc import Collection
from typing import Any

import numpy as np

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
from musicgen.recall import INFINITE, NAMED, NEW, REPEAT_LIMIT, UNNAMED, UNPLANNED

MIN_MATCH = 4  # tokens
MAX_COMPARED = 64  # tokens, when a match is looked up
TABLE_SIZE = 1 << 14  # of the hash table of contexts
PHRASE = 4  # bars within which a repetition counts twice
NEAR = 16  # bars; a return without a name goes back further
MIN_COPIED = 3  # agreeing tokens at the end of a bar that make it a copy of its source
COPY_BONUS = 8  # equal plan levels that continuing a copy is worth


class PlainRecall:
    """The recall of one sequence."""

    def __init__(self, kinds: np.ndarray, families: int) -> None:
        self.kinds, self.families = kinds.T.tolist(), families
        self.named = {value for kind, value in self.kinds if kind == RETURN and value > 0}
        self.ids: list[int] = []
        self.match = self.cursor = self.source = self.last_copied = self.current_part = -1
        self.match_length = self.agreed = self.first_bar = 0
        self.return_kind, self.limit = UNPLANNED, REPEAT_LIMIT
        self.table: dict[int, int] = {}
        self.avoided: Collection[int] = ()
        self.sources: dict[int, int] = {}
        # Of each bar: its start, the hash of its notes, their occurrences, and a level for each family.
        self.starts: list[int] = []
        self.hashes: list[int] = []
        self.counts: list[int] = []
        self.levels: list[list[int]] = []

    @property
    def length(self) -> int:
        return len(self.ids)

    @property
    def begun(self) -> int:
        return len(self.starts)

    def take(self, token: int) -> list[int]:
        """Append a token, and return the guesses after it."""
        (kind, value), bar = self.kinds[token], self.begun - 1
        if kind == RESTART:
            self.first_bar, self.return_kind = self.begun, UNPLANNED
            self.source = self.cursor = self.last_copied = -1
        elif kind == RETURN and bar >= 0:
            self.return_kind = NEW if value == 0 else (NAMED if value > 0 else UNNAMED)
            self.source = -1
            requested = bool(value) and bar in self.sources
            if requested:
                self.return_kind, self.source = NAMED, min(self.sources[bar], bar - 1)
            elif value > 0:
                self.source = bar - value
            elif value < 0:
                self.source = self._most_similar(bar)
            self._go_to_source(requested)
        elif kind == PLAN and bar >= 0:
            self.levels[bar][value % self.families] = value // self.families
            if self.return_kind == UNNAMED:
                self.source = self._most_similar(bar)
                self._go_to_source(requested=False)
        elif kind < ANNOTATION or kind >= VALUES:
            if kind == BAR:
                copied = self.return_kind > NEW and self.agreed >= MIN_COPIED
                self.last_copied = self.source if copied else -1
                self.return_kind = UNPLANNED
                self.source = self.cursor = self.current_part = -1
                if bar >= 0:
                    self._count_repeats(bar)
                self.starts.append(self.length + 1)
                self.hashes.append(0)
                self.counts.append(0)
                self.levels.append([-1] * self.families)
            elif self.source >= 0:
                self._align(token, kind, value)
            if kind == PART:
                self.current_part = token
            self._match(token)
        return self._guesses()

    def _go_to_source(self, requested: bool) -> None:
        self.cursor, self.agreed = -1, 0
        least = 0 if requested else self.first_bar
        if self.source < least or (not requested and self.counts[self.source] >= self.limit):
            self.source = -1
        else:
            self.cursor = self.starts[self.source]

    def _count_repeats(self, bar: int) -> None:
        notes = 0
        for one in self.ids[self.starts[bar] :]:
            if PART <= self.kinds[one][0] <= NOTE:
                notes = (notes * 1000003 + one) & 0x3FFFFFFF
        self.hashes[bar], self.counts[bar] = notes, 1
        if notes and notes in self.avoided:
            self.counts[bar] = INFINITE
        elif notes and notes in self.hashes[:bar]:
            other = bar - 1 - self.hashes[:bar][::-1].index(notes)
            self.counts[bar] = self.counts[other] + (2 if bar - other <= PHRASE else 1)

    def _most_similar(self, bar: int) -> int:
        best, chosen = 0, -1
        for other in range(self.first_bar, bar - NEAR):
            if bar - other in self.named or self.counts[other] >= self.limit:
                continue
            common = COPY_BONUS if 0 <= self.last_copied == other - 1 else 0
            for before in range(2 if other > self.first_bar else 1):
                both = zip(self.levels[bar - before], self.levels[other - before], strict=True)
                common += sum(own == its >= 0 for own, its in both)
            if common > best:
                best, chosen = common, other
        return chosen

    def _align(self, token: int, kind: int, value: int) -> None:
        ids, kinds, cursor = self.ids, self.kinds, self.cursor
        start, stop = self.starts[self.source], self.starts[self.source + 1] - 1
        agrees = cursor >= 0 and ids[cursor] == token
        self.agreed = self.agreed + 1 if agrees else 0
        if agrees:
            self.cursor = cursor + 1
        elif kind == PART:
            first = start if cursor < 0 else cursor
            order = [start + (first - start + n) % (stop - start) for n in range(stop - start)]
            self.cursor = next((at + 1 for at in order if ids[at] == token), -1)
        elif cursor < 0:
            return
        elif kind == ONSET:
            while cursor < stop and kinds[ids[cursor]][0] != PART:
                if kinds[ids[cursor]][0] == ONSET and kinds[ids[cursor]][1] >= value:
                    cursor += ids[cursor] == token
                    break
                cursor += 1
            self.cursor = cursor
        else:
            index = cursor
            while index < stop and kinds[ids[index]][0] not in (PART, ONSET):
                if ids[index] == token:
                    self.cursor = index + 1
                    return
                index += 1
            if cursor < stop and kinds[ids[cursor]][0] == kind:
                passed = kind != NOTE or kinds[ids[cursor]][1] <= value
                self.cursor = cursor + (kind >= VALUES or (kind == NOTE and passed))
            elif kind == OTHER and self.current_part >= 0:
                pairs = [
                    (self.current_part, token) == (*ids[at : at + 2],)
                    for at in range(start, stop - 1)
                ]
                self.cursor = start + pairs.index(True) + 2 if any(pairs) else -1

    def _match(self, token: int) -> None:
        goes_on = self.match >= 0 and self.ids[self.match] == token
        self.match = self.match + 1 if goes_on else -1
        self.match_length = self.match_length + 1 if goes_on else 0
        self.ids.append(token)
        now = self.length
        if now < MIN_MATCH:
            return
        context = 0
        for one in self.ids[-MIN_MATCH:]:
            context = (context * 1000003 + one) & 0x3FFFFFFF
        slot = (context ^ (context >> 15)) % TABLE_SIZE
        earlier, self.table[slot] = self.table.get(slot, 0), now
        if self.match >= 0 or earlier < MIN_MATCH:
            return
        length = 0
        while (
            length < min(MAX_COMPARED, earlier)
            and self.ids[earlier - 1 - length] == self.ids[now - 1 - length]
        ):
            length += 1
        if length >= MIN_MATCH:
            self.match, self.match_length = earlier, length

    def _guesses(self) -> list[int]:
        planned = planned_level = matched = matched_level = 0
        if self.return_kind == NEW:
            planned_level = 1
        elif self.cursor >= 0:
            planned = self.ids[self.cursor] + 1
            planned_level = (3 if self.return_kind == NAMED else 8) + min(
                self.agreed.bit_length(), 4
            )
        elif self.return_kind != UNPLANNED:
            planned_level = 2
        if self.match >= 0:
            bar = max(0, sum(start <= self.match for start in self.starts) - 1)
            if not self.begun or self.counts[bar] < self.limit:
                matched = self.ids[self.match] + 1
                matched_level = 1 + sum(
                    self.match_length > least for least in (5, 7, 11, 15, 23, 39)
                )
        return [planned, planned_level, matched, matched_level]

    def state(self, names: Collection[str]) -> dict[str, Any]:
        """Return numbers of the state by name."""
        return {name: getattr(self, name) for name in names}
