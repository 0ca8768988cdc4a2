"""Recall: with each token, show the network what followed when the piece was last at this point.

A state of constant size cannot reproduce the notes of an earlier bar; a list of tokens can. So the network receives
with each token two guesses of the next one, each with a level that says how it was found:

- *planned*: where the plan has a bar return to an earlier one (its source), the next token of the source. A bar that
  departs from its source is kept aligned with it by part, by onset and by pitch.
- *matched*: the token that followed the latest earlier occurrence of the last tokens, if four or more agree.

This is prediction by partial matching (Cleary and Witten 1984); neural caches mix such guesses into the output (Grave
et al. 2017). Here the network learns when to trust a guess (guesses.py). The kernel makes the guesses (recall.h), in
arrays that this file keeps.

B batch, T time, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Self

import numpy as np

from musicgen.kernel.host import Kernel
from musicgen.parts import BAR, RETURN, RecallConfig

REPEAT_LIMIT = 4  # occurrences of a bar's notes; most real songs stay within it (docs/results.md)
INFINITE = 1 << 30  # occurrences
TABLE_SIZE = 1 << 14  # of the hash table of contexts

# What the plan says of a bar: nothing; it is new; it returns to the bar k bars back; to an earlier one without a name.
UNPLANNED, NEW, NAMED, UNNAMED = range(4)

# Columns of the guesses. Tokens are counted from 1; 0 is none.
PLANNED, PLANNED_LEVEL, MATCHED, MATCHED_LEVEL = range(4)

# The structure `Recall` of recall.h: addresses and sizes, then the state; −1 is none.
_FIELDS = (
    "kind", "value", "named", "avoided", "ids", "table", "bars", "named_count", "avoided_count", "columns",
    "length",  # sounding tokens so far
    "match",  # the index among them at which the match continues
    "match_length",
    "cursor",  # the index at which the source bar continues
    "agreed",  # tokens in a row that agree with the source
    "begun",  # bars
    "first_bar",  # that can be a source
    "return_kind",  # of the current bar, as the plan says
    "source",  # the bar that the current one returns to
    "last_copied",  # the source of the previous bar, if that is a copy
    "current_part",
    "limit",  # occurrences of its notes from which on a bar is not recalled
)  # fmt: skip
_AT = {name: place for place, name in enumerate(_FIELDS)}
# Columns of the table of bars: index of the first token, source set by the request, hash of the notes, occurrences
# of these notes up to this bar, and a level for each family of the plan.
START, REQUESTED_SOURCE, NOTES_HASH, COUNT, PLAN_LEVELS = range(5)


class RecallRoles:
    """The roles of a language's tokens, where the kernel reads them; begins the recall of sequences."""

    def __init__(self, config: RecallConfig, vocabulary: int, kernel: Kernel) -> None:
        self.kernel, self.drums = kernel, config.drums  # the part of drums, −1 for none
        # kind of each token and its value within that kind, (2, V)
        self.kinds = config.kinds(vocabulary)
        self.bar, self._restart = config.bar, config.restart
        named = np.flatnonzero((self.kinds[0] == RETURN) & (self.kinds[1] > 0))
        self.returns, self.bars_back = named, self.kinds[1, named]  # tokens of returns with a name
        self.columns = PLAN_LEVELS + len(config.plan)
        distances = np.unique(self.bars_back)
        arrays = (*self.kinds, distances)
        self.spans = [kernel.place(array.astype(np.int32)) for array in arrays]
        self.named_count = len(distances)

    def begin(
        self,
        *,
        elsewhere: Sequence[int] = (),
        unlike: Sequence[int] = (),
        sources: Mapping[int, int] | None = None,
        varies: bool = False,
        strength: float = 1.0,
    ) -> Recall:
        """Return the recall of a sequence before its first token; `Order` explains the arguments."""
        found = Recall(self, strength, varies)
        if len(unlike):
            other = Recall(self)
            other.take(np.array([*unlike, self.bar]))
            found.avoid(other)
        if len(elsewhere):
            found.take(np.array([*elsewhere, self.bar, self._restart]))
        found.set_sources(sources or {})
        return found


class Recall:
    """The recall of one sequence, which takes the tokens as they come."""

    def __init__(self, roles: RecallRoles, strength: float = 1.0, varies: bool = False) -> None:
        """Begin before the first token; `strength` scales the effect of recall."""
        self.roles, self.strength, self.varies = roles, strength, varies
        self.given = -1  # bars before the first one in which rules apply; −1 until they do
        # A bar, its expected drum hits, and whether they differ from those of the bar before.
        self.expected: tuple[int, np.ndarray, bool] = (-1, np.zeros(0), False)
        # A length, and the tokens that would break the drums' pattern there.
        self.breaking: tuple[int, np.ndarray | None] = (-1, None)
        # A bar, and the notes of the parts of its source.
        self.source_parts: tuple[int, dict[bytes, bytes]] = (-1, {})
        # The last bar begun, the length of the loop before it, and the longest loop where the rules began.
        self.looped: tuple[int, int, int] = (-1, 0, 0)
        self.exact_parts: frozenset[bytes] | None = None  # that repeat themselves exactly
        self.music = ""  # what the given bars are (generation/rules.py), once it is known
        kernel = roles.kernel
        self._table = kernel.place(np.zeros(TABLE_SIZE, np.int32))
        self._ids, self._bars = kernel.take(0), kernel.take(0)
        self._avoided = kernel.take(0)  # hashes of the notes of bars that are not recalled
        self._most_ids = self._most_bars = 0  # that there can be by now
        self._rows = 0  # of the table of bars
        kind, value, named = (span.address for span in roles.spans)
        given = {"kind": kind, "value": value, "named": named, "named_count": roles.named_count}
        none = dict.fromkeys(("match", "cursor", "source", "last_copied", "current_part"), -1)
        start = {**given, **none, "columns": roles.columns, "limit": REPEAT_LIMIT}
        words = [start.get(name, 0) for name in _FIELDS]
        self._struct = kernel.place(np.array(words, np.int64).astype(np.int32))
        self._words: np.ndarray | None = None  # a copy of the structure, until the next token
        self._point()

    @property
    def address(self) -> int:
        """The address of the structure."""
        return self._struct.address

    def __getitem__(self, name: str) -> int:
        """Return a number of the state by its name."""
        if self._words is None:
            self._words = self._struct.read(np.int32, len(_FIELDS))
        return int(self._words[_AT[name]])

    def _write(self, **fields: int) -> None:
        for name, value in fields.items():
            self._struct.write(np.array([value], np.uint32), 4 * _AT[name])
        self._words = None

    def _point(self) -> None:
        """Write the addresses of the arrays into the structure."""
        spans = {
            "ids": self._ids,
            "table": self._table,
            "bars": self._bars,
            "avoided": self._avoided,
        }
        self._write(**{name: span.address for name, span in spans.items()})

    def table(self, start: int, stop: int) -> np.ndarray:
        """Return rows of the table of bars, (bars, columns)."""
        columns = self.roles.columns
        found = self._bars.read(np.int32, (stop - start) * columns, start * columns)
        return found.reshape(-1, columns)

    def bars(self) -> range:
        """Return the numbers of the bars begun so far, without those that were given ahead."""
        return range(self["first_bar"], self["begun"])

    def tokens_of(self, bar: int) -> np.ndarray:
        """Return the tokens of a bar so far, without annotations."""
        last = bar == self["begun"] - 1
        starts = self.table(bar, bar + 1 if last else bar + 2)[:, START].tolist()
        stop = self["length"] if last else starts[1] - 1
        return self._ids.read(np.int32, stop - starts[0], starts[0])

    def next_of_source(self) -> int:
        """Return the source's next token, −1 without an aligned source."""
        cursor = self["cursor"]
        return -1 if cursor < 0 else int(self._ids.read(np.int32, 1, cursor)[0])

    @property
    def source_is_requested(self) -> bool:
        """Whether the request has set the source of the current bar."""
        bar = self["begun"] - 1
        return bar >= 0 and int(self.table(bar, bar + 1)[0, REQUESTED_SOURCE]) >= 0

    def copy(self) -> Self:
        """Return an independent copy."""
        other = copy(self)
        for name in ("_struct", "_table", "_ids", "_bars"):
            setattr(other, name, getattr(self, name).copy())
        other._point()
        return other

    def set_sources(self, sources: Mapping[int, int]) -> None:
        """Set the source of bars that the plan has return, bar → source; both are counted from the next bar.

        Sources below 0 are counted back from the last bar elsewhere, −1.
        """
        now = self["begun"]
        self._reserve(0, max(0, now + max(sources, default=0) + 1 - self._most_bars))
        for bar, source in sources.items():
            at = (bar + now) * self.roles.columns + REQUESTED_SOURCE
            # An empty bar follows those elsewhere.
            self._bars.write(np.array([source + now - (source < 0)], np.int32), 4 * at)

    def avoid(self, other: Recall) -> None:
        """Recall no bar with the notes of a bar that another sequence has completed."""
        hashes = other.table(0, max(other["begun"] - 1, 0))[:, NOTES_HASH]
        self._avoided = self.roles.kernel.place(hashes.copy())
        self._write(avoided_count=len(hashes))
        self._point()

    def adapt_limit(self) -> None:
        """Raise the limit on repetition to that of the piece so far; lift it if one bar makes up most of the piece."""
        counts = self.table(0, max(self["begun"] - 1, 0))[:, COUNT]
        most = int(counts[counts < INFINITE].max(initial=0))
        one_bar = 2 * most > len(counts) > 1
        self._write(limit=INFINITE if one_bar else max(REPEAT_LIMIT, most))

    def take(self, tokens: np.ndarray) -> np.ndarray:
        """Append tokens, (T,), and return the guesses after each: (T, 4) int16."""
        self._reserve(len(tokens), int((self.roles.kinds[0, tokens] == BAR).sum()))
        return _guesses([self] * len(tokens), tokens)

    def _reserve(self, tokens: int, bars: int) -> None:
        """Make room for more tokens and bars; the next ones change the state."""
        self._words = None
        self._most_ids, self._most_bars = self._most_ids + tokens, self._most_bars + bars
        kernel, ids, table = self.roles.kernel, self._ids, self._bars
        if 4 * self._most_ids >= ids.size:
            self._ids = kernel.take(max(4 * self._most_ids + 4, 2 * ids.size, 256))
            kernel.call("move", self._ids.address, ids.address, ids.size)
            self._point()
        if self._most_bars >= self._rows:
            had, columns = self._rows, self.roles.columns
            self._rows = max(self._most_bars + 1, 2 * had, 64)
            fresh = np.zeros((self._rows, columns), np.int32)
            fresh[:, [REQUESTED_SOURCE, *range(PLAN_LEVELS, columns)]] = -1
            fresh[:had] = table.read(np.int32, had * columns).reshape(had, columns)
            self._bars = kernel.place(fresh)
            self._point()


def take_each(sequences: Sequence[Recall], tokens: np.ndarray) -> np.ndarray:
    """Append one token to each sequence, and return the guesses after it: (B,) → (B, 4) int16."""
    begins = sequences[0].roles.kinds[0, tokens] == BAR
    for sequence, begun in zip(sequences, begins.tolist(), strict=True):
        sequence._reserve(1, begun)
    return _guesses(sequences, tokens)


def _guesses(sequences: Sequence[Recall], tokens: np.ndarray) -> np.ndarray:
    """Append a token to each sequence, one after the other: a sequence can occur several times."""
    if not len(tokens):
        return np.zeros((0, 4), np.int16)
    kernel = sequences[0].roles.kernel
    addresses = kernel.place(np.array([one.address for one in sequences], np.uint32))
    given, found = kernel.place(np.asarray(tokens, np.int32)), kernel.take(8 * len(tokens))
    kernel.call("recall", len(tokens), addresses.address, given.address, found.address)
    return found.read(np.int16, 4 * len(tokens)).reshape(-1, 4)
