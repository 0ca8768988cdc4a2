"""What may be asked of bars, as a musician says it, and the levels of a plan that say it to a model.

    {"density": 4, "register": [60, 60, 72, 72], "loudness": 80, "players": 3, "form": "A A B A"}

A number holds for every bar, a list a bar each, null leaves a bar free. `density` is notes a beat, `register` the
MIDI pitch of the highest line, `loudness` a velocity, `players` how many parts play. `form` names sections of equal
length by letters: one that comes again returns to the bars of its first time.
"""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tokenization.ensemble.layouts import DENSITY_EDGES, NO_LEVEL, REGISTER_EDGES
from tokenization.ensemble.tokens import DYNAMICS, PLAYERS, RETURNS
from tokenization.records import suggestion

ASKED = ("density", "register", "loudness", "players", "form")
_BOUNDS = {"density": (0, 24), "register": (0, 127), "loudness": (1, 127), "players": (1, PLAYERS)}


def plan_for(asked: Mapping[str, Any], bars: int) -> dict[str, np.ndarray]:
    """Return the plan of so many bars by what is asked of them, or say what cannot be."""
    for name in asked:
        if name not in ASKED:
            raise ValueError(f"a plan has no {name!r}{suggestion(name, ASKED)}")
    plan = {}
    for name, value in asked.items():
        if value is None:
            continue
        if name == "form":
            plan["return"] = _returns(value, bars)
            continue
        numbers = _numbers(name, value, bars)
        said = ~np.isnan(numbers)
        family, level = _level(name, np.where(said, numbers, 1))
        plan[family] = np.where(said, level, NO_LEVEL)
    return plan


def _numbers(name: str, value: Any, bars: int) -> np.ndarray:
    """Return a number for each bar, NaN where a bar is left free."""
    each = value if isinstance(value, Sequence) and not isinstance(value, str) else [value] * bars
    if len(each) != bars:
        raise ValueError(
            f"the plan's {name} has {len(each)} numbers for {bars} bars; give one, or one for each bar"
        )
    low, high = _BOUNDS[name]
    for number in each:
        if number is not None and not _is_within(number, low, high):
            raise ValueError(f"the plan's {name} is {number!r}; it goes from {low} to {high}")
    return np.array([np.nan if number is None else float(number) for number in each])


def _is_within(number: Any, low: int, high: int) -> bool:
    is_number = isinstance(number, int | float) and not isinstance(number, bool)
    return is_number and low <= number <= high


def _level(name: str, numbers: np.ndarray) -> tuple[str, np.ndarray]:
    if name == "density":
        return name, np.searchsorted(DENSITY_EDGES, numbers, side="left")
    if name == "register":
        return name, np.searchsorted(REGISTER_EDGES, numbers, side="right")
    if name == "loudness":
        return "dynamics", (numbers * DYNAMICS / 128).astype(np.int64)
    return name, np.rint(numbers).astype(np.int64) - 1


def _returns(form: Any, bars: int) -> np.ndarray:
    """Return which earlier bar each bar returns to, as levels of a plan."""
    back = bars_back(form, bars)
    other = len(RETURNS) - 1
    names = ["new" if not distance else str(distance) for distance in back]
    return np.array([RETURNS.index(name) if name in RETURNS else other for name in names])


def bars_back(form: Any, bars: int) -> list[int]:
    """Return how many bars back each bar returns, by the letters of its sections; 0 for what is new."""
    letters = form.split() if isinstance(form, str) and " " in form.strip() else [*str(form)]
    if not letters or bars % len(letters):
        raise ValueError(
            f"the form {form!r} has {len(letters)} sections, which do not divide {bars} bars evenly"
        )
    known = string.ascii_uppercase
    length, latest = bars // len(letters), dict[str, int]()
    back = [0] * bars
    for section, letter in enumerate(letters):
        if letter in latest:
            distance = (section - latest[letter]) * length
            back[section * length : (section + 1) * length] = [distance] * length
        elif letter != known[len(latest)]:
            raise ValueError(
                f"the form {form!r} names {letter} before {known[len(latest)]}; "
                "letters come in order, as in A A B A"
            )
        latest[letter] = section
    return back
