"""Lengths as notes can be written: plain, dotted and triplet values, several of them tied where one is not enough."""

from __future__ import annotations

from dataclasses import dataclass

DIVISIONS = 24  # of a beat: sixteenths are 6, eighths of a triplet 8


@dataclass(frozen=True)
class Value:
    """A written value; lengths are in divisions."""

    length: int
    type: str
    dots: int = 0
    is_triplet: bool = False


_TYPES = ("whole", "half", "quarter", "eighth", "16th", "32nd")
_PLAIN = [Value(4 * DIVISIONS >> n, kind) for n, kind in enumerate(_TYPES)]
_DOTTED = [Value(v.length * 3 // 2, v.type, 1) for v in _PLAIN if v.length % 2 == 0]
_TRIPLETS = [Value(v.length * 2 // 3, v.type, 0, True) for v in _PLAIN[1:]] + [
    Value(1, "64th", 0, True)
]
_BY_LENGTH = {v.length: v for v in (*_TRIPLETS, *_DOTTED, *_PLAIN)}
_LENGTHS = sorted(_BY_LENGTH, reverse=True)


def values_of(length: int, at: int) -> list[Value]:
    """Return the values, end to end, of a length that begins so far into a bar.

    What begins between beats and goes over one is cut there, so that beats can be seen.
    """
    values: list[Value] = []
    while length:
        into = at % DIVISIONS
        most = length if not into or length in _BY_LENGTH else min(length, DIVISIONS - into)
        value = _BY_LENGTH[next(one for one in _LENGTHS if one <= most)]
        values.append(value)
        length, at = length - value.length, at + value.length
    return values
