"""Plans: what each bar should be like, as found in a piece or asked by a user, in levels and in tokens.

Letters: T tokens, K bars.
"""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from tokenization.ensemble.likeness import contents, likeness
from tokenization.ensemble.spelling import Sheet
from tokenization.ensemble.tokens import (
    BAR,
    BARS_BACK,
    DYNAMICS,
    END,
    HARMONY,
    LEFT_1,
    PITCHED,
    PLAN,
    PLAYERS,
    RETURNS,
    VOCABULARY,
    velocity_of,
)
from tokenization.records import suggestion

# The upper edges of the levels of a plan; the last level has none.
DENSITY_EDGES = np.array([0, 0.75, 1.5, 2.5, 4, 6.5, 11])  # notes per beat, inclusive
REGISTER_EDGES = np.array([48, 53, 57, 61, 65, 69, 73, 77, 82])  # MIDI pitch
SIMILAR = 0.6  # the least similarity at which a bar counts as the return of another one
NO_LEVEL = -1
Plan = Mapping[str, np.ndarray]  # family → the level of each bar, or NO_LEVEL


def plan_of(sheet: Sheet) -> dict[str, np.ndarray]:
    """Return the plan that describes the bars of a piece."""
    bars = len(sheet.bars)
    sounds = sheet.instrument != HARMONY
    pitched = sheet.instrument < PITCHED
    notes = np.bincount(sheet.bar[sounds], minlength=bars)
    beats = sheet.bars.length / 4
    plays = np.unique(sheet.bar[sounds] * (len(sheet.parts) + 1) + sheet.part[sounds])
    players = np.bincount(plays // (len(sheet.parts) + 1), minlength=bars)
    return {
        "return": _returns(sheet, pitched if pitched.any() else sounds),
        "density": _levels("density", notes / beats),
        "register": _register(sheet, pitched, bars),
        "dynamics": _dynamics(sheet, sounds, notes),
        "players": _levels("players", np.minimum(players, PLAYERS)),
    }


def _register(sheet: Sheet, pitched: np.ndarray, bars: int) -> np.ndarray:
    """Return the register level of each bar, from the mean of the highest pitch at each onset."""
    bar, onset, value = sheet.bar[pitched], sheet.onset[pitched], sheet.value[pitched]
    order = np.lexsort((value, onset))
    bar, onset, value = bar[order], onset[order], value[order]
    top = np.diff(onset, append=-1) != 0
    count = np.bincount(bar[top], minlength=bars)
    mean = np.bincount(bar[top], value[top], bars) / np.maximum(count, 1)
    return np.where(count > 0, _levels("register", mean), NO_LEVEL)


def _dynamics(sheet: Sheet, sounds: np.ndarray, notes: np.ndarray) -> np.ndarray:
    """Return the loudness level of each bar, from its mean velocity."""
    if sheet.flat:
        return np.full(len(notes), NO_LEVEL)
    velocity = velocity_of(sheet.loudness[sounds])
    mean = np.bincount(sheet.bar[sounds], velocity, len(notes)) / np.maximum(notes, 1)
    return np.where(notes > 0, _levels("loudness", mean), NO_LEVEL)


def _returns(sheet: Sheet, chosen: np.ndarray) -> np.ndarray:
    """Return how far back the most similar earlier bar is, as a level of each bar.

    Of equally similar bars, one at a distance that has a token is preferred, then the nearest.
    """
    bars = len(sheet.bars)
    similarity, sizes = likeness(sheet.bar[chosen], contents(sheet)[chosen], bars)
    similarity[np.triu_indices(bars)] = 0  # only earlier bars
    back = np.arange(bars)[:, None] - np.arange(bars)
    has_token = np.isin(back, BARS_BACK)
    best = (similarity + 1e-3 * has_token - 1e-6 * back).argmax(1)
    rows = np.arange(bars)
    distance = np.where(similarity[rows, best] < SIMILAR, 0, back[rows, best])
    return np.where(sizes.diagonal() > 0, return_levels(distance.tolist()), NO_LEVEL)


def with_plan(ids: np.ndarray, plan: Plan, first: int = 0) -> np.ndarray:
    """Return a piece with the plan of each bar, except the `first` ones, in front of its notes: (T,)."""
    bars = np.flatnonzero(ids == BAR)[first:]
    bars = bars + (np.append(ids, END)[bars + 1] >= LEFT_1)  # goal tokens come before the plan
    tokens = tokens_by_bar(plan, len(bars))
    return np.insert(ids, np.repeat(bars + 1, [*map(len, tokens)]), [*chain(*tokens)])


def tokens_by_bar(plan: Plan | None, bars: int) -> list[list[int]]:
    """Return the plan tokens of each bar, in the order of the families."""
    tokens: list[list[int]] = [[] for _ in range(bars)]
    for name in PLAN:
        for bar, level in enumerate([] if plan is None else plan.get(name, [])[:bars]):
            if level >= 0:
                tokens[bar].append(VOCABULARY[name].start + int(level))
    return tokens


# What a user asks of the bars.
#
#     {"density": 4, "register": [60, 60, 72, 72], "loudness": 80, "players": 3, "form": "A A B A"}
#
# A number applies to every bar; a list has one number per bar, with null for a bar that is left free. `density` is in
# notes per beat, `register` is the MIDI pitch of the highest notes, `loudness` a velocity, `players` the number of
# parts that play. `form` names sections of equal length by letters. A letter that was used before returns to the bars
# of the latest section with this letter.

ASKED = ("density", "register", "loudness", "players", "form")
FAMILY = {"loudness": "dynamics", "form": "return"}  # token families with a name of their own
_BOUNDS = {"density": (0, 24), "register": (0, 127), "loudness": (1, 127), "players": (1, PLAYERS)}


def plan_for(asked: Mapping[str, Any], bars: int) -> dict[str, np.ndarray]:
    """Return the plan of the bars that a user asks for; raise ValueError if it is not possible."""
    for name in asked:
        if name not in ASKED:
            raise ValueError(f"a plan has no {name!r}{suggestion(name, ASKED)}")
    plan = {}
    for name, value in asked.items():
        if value is None:
            continue
        if name == "form":
            plan["return"] = return_levels(bars_back(asked, bars))
            continue
        numbers = _numbers(name, value, bars)
        known = ~np.isnan(numbers)
        levels = _levels(name, np.where(known, numbers, 1))
        plan[FAMILY.get(name, name)] = np.where(known, levels, NO_LEVEL)
    return plan


def bars_back(asked: Mapping[str, Any], bars: int) -> list[int]:
    """Return how many bars back each bar of a form returns; 0 for new bars and without a form."""
    if (form := asked.get("form")) is None:
        return [0] * bars
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


def _numbers(name: str, value: Any, bars: int) -> np.ndarray:
    """Return one number per bar, NaN for a bar that is left free."""
    each = value if isinstance(value, Sequence) and not isinstance(value, str) else [value] * bars
    if len(each) != bars:
        raise ValueError(
            f"the plan's {name} has {len(each)} numbers for {bars} bars; give one, or one per bar"
        )
    low, high = _BOUNDS[name]
    for number in each:
        if number is not None and not is_within(number, low, high):
            raise ValueError(f"the plan's {name} is {number!r}; it must be from {low} to {high}")
    return np.array([np.nan if number is None else float(number) for number in each])


def is_within(number: Any, low: int, high: int) -> bool:
    """Return whether something is a number in a range."""
    is_number = isinstance(number, int | float) and not isinstance(number, bool)
    return is_number and low <= number <= high


def _levels(name: str, numbers: np.ndarray) -> np.ndarray:
    """Return numbers, in the unit that a user asks in, as levels."""
    if name == "density":
        return np.searchsorted(DENSITY_EDGES, numbers, side="left")
    if name == "register":
        return np.searchsorted(REGISTER_EDGES, numbers, side="right")
    if name == "loudness":
        return (numbers * DYNAMICS / 128).astype(np.int64)
    return np.rint(numbers).astype(np.int64) - 1  # players


def return_levels(back: Sequence[int]) -> np.ndarray:
    """Return distances in bars as levels of the family `return`."""
    levels = {name: level for level, name in enumerate(RETURNS)}
    return np.array([levels.get(str(distance or "new"), levels["other"]) for distance in back])
