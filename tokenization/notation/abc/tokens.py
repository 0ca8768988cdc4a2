"""The signs of ABC music: notes, rests, bar lines and what stands between them (ABC standard 2.1, section 4)."""

from __future__ import annotations

import re
from fractions import Fraction

_LENGTH = r"(\d{0,4})(/{0,6})(\d{0,4})"
_NOTE = r"(\^\^|\^|__|_|=)?([A-Ga-g])([,']{0,6})" + _LENGTH
NOTE = re.compile(_NOTE)
# Bounded, so that signs that are never closed cost no time that grows with the square.
TOKEN = re.compile(
    r"(?P<field>\[[A-Za-z]:[^\]\n]{0,200}\])"
    r"|(?P<bar>[:|\[\]]{0,6}\|[:|\]]*|::+)(?P<times>\d{1,2}(?:[,-]\d{1,2})*)?"
    r"|(?P<ending>\[\d{1,2}(?:[,-]\d{1,2})*)"
    rf"|(?P<note>{_NOTE})"
    rf"|(?P<rest>[zx]{_LENGTH})"
    r"|(?P<bars>[ZX]\d{0,4})"
    rf"|(?P<chord>\[[^\]|\n]{{0,200}}\]{_LENGTH})"
    r"|(?P<tie>-)"
    r"|(?P<broken>[<>]{1,3})"
    r"|(?P<tuplet>\(\d(?::\d?){0,2})"
    r"|(?P<grace>\{[^}\n]{0,200}\})"
    r'|(?P<text>"[^"\n]{0,200}")'
    r"|(?P<sign>![^!\n]{1,40}!|\+[A-Za-z.]{1,20}\+)"
    r"|(?P<overlay>&)"
)


def times_of(text: str) -> frozenset[int]:
    """Return the times of an ending such as 1, 1,3 or 1-3."""
    times: set[int] = set()
    for part in text.split(","):
        numbers = part.split("-")
        times.update(range(int(numbers[0]), int(numbers[-1]) + 1))
    return frozenset(times)


def length_of(text: str) -> Fraction:
    """Return how many units a note lasts: 3, 3/2, /, //, /4."""
    found = re.match(_LENGTH, text)
    assert found is not None, "nothing is a length, too"
    above, slashes, below = found.groups()
    divisor = int(below) if below and slashes else 2 ** len(slashes)
    return Fraction(int(above or 1), max(1, divisor * (2 ** (len(slashes) - 1) if below else 1)))
