"""The codes of rows that go on with sequences of their own: one token a row, each with its own draw.

H heads, D head width, R realisations, S slots: 1, or one a layer where layers do not share.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

Ticks = tuple[int, int]  # of a row's query and key


@dataclass(frozen=True, kw_only=True)
class RowCodes:
    """The codes of one token a row: of queries and keys together, (2H, 2D, R), or, at two times, (H, 2D, R) each."""

    rows: tuple[list[tuple[Tensor, ...]], ...]  # a slot each, a row each
    sides_mix: tuple[Tensor, ...]  # as that of SpeCode


def by_positions(
    codes: Sequence[Any], positions: Sequence[int], cover: Callable[[Any, int, int], Any]
) -> tuple[RowCodes, list[Any]]:
    """Return the codes of rows at token positions, and each sequence's code, which `cover` made ready there."""
    known: dict[tuple[int, int], tuple[Any, list[tuple[Tensor, ...]]]] = {}
    for code, at in zip(codes, positions, strict=True):
        if (id(code), at) not in known:
            covered = cover(code, at, at + 1)
            known[id(code), at] = covered, [(x.rows[0][at - x.start],) for x in covered.ahead]
    found = [known[id(code), at] for code, at in zip(codes, positions, strict=True)]
    rows = tuple([own[slot] for _, own in found] for slot in range(len(found[0][1])))
    return RowCodes(rows=rows, sides_mix=found[0][0].sides_mix), [one for one, _ in found]


def by_ticks(
    codes: Sequence[Any], ticks: Sequence[Ticks], cover: Callable[[Any, tuple[Ticks, ...]], Any]
) -> tuple[RowCodes, list[Any]]:
    """Return the same of rows at times of their own; what rows of one sequence need is made once."""
    of_sequence: dict[int, list[int]] = {}
    for row, code in enumerate(codes):
        of_sequence.setdefault(id(code), []).append(row)
    after = list(codes)
    for rows in of_sequence.values():
        covered = cover(codes[rows[0]], tuple(ticks[row] for row in rows))
        for row in rows:
            after[row] = covered
    return at_ticks(after, ticks), after


def at_ticks(codes: Sequence[Any], ticks: Sequence[Ticks]) -> RowCodes:
    """Look up the codes of rows at their ticks."""
    rows = tuple(
        [_of_sides(code.ticks[slot], *own) for code, own in zip(codes, ticks, strict=True)]
        for slot in range(len(codes[0].ticks))
    )
    return RowCodes(rows=rows, sides_mix=codes[0].sides_mix)


def _of_sides(ticks: dict[int, Tensor], query: int, key: int) -> tuple[Tensor, ...]:
    """Return the codes of a query and a key, as one where they stand at the same tick, as most do."""
    if query == key:
        return (ticks[query],)
    return ticks[query].chunk(2)[0], ticks[key].chunk(2)[1]
