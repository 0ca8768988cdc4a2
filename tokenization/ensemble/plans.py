"""Turn what a user asks of the bars, or of a new piece, into plan levels and prompt tokens.

    {"density": 4, "register": [60, 60, 72, 72], "loudness": 80, "players": 3, "form": "A A B A"}

A number applies to every bar; a list has one number per bar, with null for a bar that is left free. `density` is in
notes per beat, `register` is the MIDI pitch of the highest notes, `loudness` a velocity, `players` the number of parts
that play. `form` names sections of equal length by letters. A letter that was used before returns to the bars of the
latest section with this letter.
"""

from __future__ import annotations

import string
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from tokenization.analysis.chords import ROOTS
from tokenization.analysis.metres import FOUR_FOUR
from tokenization.analysis.metres import NAMES as METRE_NAMES
from tokenization.ensemble.layouts import DENSITY_EDGES, NO_LEVEL, REGISTER_EDGES
from tokenization.ensemble.spelling import Setting, declared
from tokenization.ensemble.tokens import (
    BAR,
    BEGIN,
    DYNAMICS,
    FAMILIES,
    HARMONY,
    KEY,
    METRE,
    MOST_PARTS,
    MOST_VOICES,
    PART_NAMES,
    PITCHED,
    PLAN,
    PLAYERS,
    RETURNS,
    STYLE,
    STYLES,
    TEMPO,
    VOCABULARY,
    instruments,
    label_of,
    tempo_level,
)
from tokenization.language import Language
from tokenization.records import suggestion

ASKED = ("density", "register", "loudness", "players", "form")
FAMILY = {"loudness": "dynamics", "form": "return"}  # token families with a name of their own
_BOUNDS = {"density": (0, 24), "register": (0, 127), "loudness": (1, 127), "players": (1, PLAYERS)}

_KEYS = {
    "major": ("C", "Db", "D", "Eb", "E", "F", "F#", "G", "Ab", "A", "Bb", "B"),
    "minor": ("C", "C#", "D", "Eb", "E", "F", "F#", "G", "G#", "A", "Bb", "B"),
}
_PARTS_OF_STYLES = {
    "pop": ("piano", "piano"),
    "song": ("voice", "piano", "piano"),
    "quartet": ("violin", "violin", "viola", "cello"),
    "keyboard": ("piano", "piano"),
    "band": ("drums", "electric_bass", "electric_guitar", "piano"),
    "drums": ("drums",),
}


class Plans(Language):
    """Plans of bars, and beginnings of new pieces."""

    def plan(self, asked: Mapping[str, Any], bars: int, /) -> dict[str, np.ndarray]:
        """Return the plan of the bars that a user asks for; raise ValueError if it is not possible."""
        for name in asked:
            if name not in ASKED:
                raise ValueError(f"a plan has no {name!r}{suggestion(name, ASKED)}")
        plan = {}
        for name, value in asked.items():
            if value is None:
                continue
            if name == "form":
                plan["return"] = _levels_of(self.bars_back(asked, bars))
                continue
            numbers = _numbers(name, value, bars)
            known = ~np.isnan(numbers)
            family, level = _level(name, np.where(known, numbers, 1))
            plan[family] = np.where(known, level, NO_LEVEL)
        return plan

    def plan_tokens(self, asked: Collection[str] | None = None) -> list[int]:
        """Return the plan tokens, all or only those of the attributes in `asked`."""
        names = PLAN if asked is None else [FAMILY.get(name, name) for name in asked]
        blocks = [VOCABULARY[name] for name in names]
        return [token for block in blocks for token in range(block.start, block.stop)]

    def bars_back(self, asked: Mapping[str, Any], bars: int, /) -> list[int]:
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

    def beginnings(self) -> dict[str, list[str]]:
        """Return the attributes that a new piece can have, each with its choices; a tempo has none."""
        return {
            "style": [*STYLES],
            "key": [f"{root} {mode}" for mode, roots in _KEYS.items() for root in roots],
            "tempo": [],
            "metre": [*METRE_NAMES],
            "parts": [*FAMILIES, *(name for name in PART_NAMES if name != PART_NAMES[HARMONY])],
        }

    def beginning(
        self, asked: Mapping[str, Any], plan: Mapping[str, Any] | None = None, /
    ) -> tuple[np.ndarray, Setting]:
        """Return the prompt of a new piece with the given attributes, and its exact tempo as a setting.

        {"style": "pop", "key": "G minor", "tempo": 90, "metre": "3/4", "parts": ["flute", "piano"]}

        All parts play in the first bar, unless the plan asks for something else: a part that rests there might never
        play.
        """
        for name in asked:
            if name not in (known := self.beginnings()):
                raise ValueError(f"a new piece has no {name!r}{suggestion(name, known)}")
        head = []
        parts = asked.get("parts")
        if (style := asked.get("style")) is not None:
            number = _one_of("style", style, STYLES)
            head.append(STYLE.start + number)
            parts = parts or _PARTS_OF_STYLES[STYLES[number]]
        if (key := asked.get("key")) is not None:
            head.append(KEY.start + _key(key))
        if (tempo := asked.get("tempo")) is not None:
            if not _is_within(tempo, 10, 500):
                raise ValueError(
                    f"the tempo is {tempo!r}; it must be from 10 to 500 beats per minute"
                )
            head.append(TEMPO.start + tempo_level(float(tempo)))
        setting = Setting() if tempo is None else Setting(tempos=((0, float(tempo)),))
        metre = asked.get("metre")
        if parts is None and metre is None:
            return np.array([BEGIN, *head]), setting
        numbers = [PART_NAMES.index(instruments(part)[0]) for part in parts or ("piano", "piano")]
        if len(numbers) > MOST_PARTS - 1:
            raise ValueError(f"{len(numbers)} parts are asked for; the limit is {MOST_PARTS - 1}")
        if HARMONY not in numbers and any(number < PITCHED for number in numbers):
            numbers = [HARMONY, *numbers]
        for number in {*numbers}:
            most = MOST_VOICES if number < PITCHED else 1
            if (count := numbers.count(number)) > most:
                raise ValueError(
                    f"the parts contain {PART_NAMES[number]} {count} times; the limit is {most}"
                )
        players = min(sum(number != HARMONY for number in numbers), PLAYERS) or None
        first = {
            name: [*value][:1] if isinstance(value, list | tuple) else value
            for name, value in (plan or {}).items()
            if name != "form"
        }
        levels = {"return": [0], **self.plan({"players": players, **first}, 1)}
        planned = [(name, int(levels[name][0])) for name in PLAN if name in levels]
        first_bar = [VOCABULARY[name].start + level for name, level in planned if level != NO_LEVEL]
        if metre is not None and (index := _one_of("metre", metre, METRE_NAMES)) != FOUR_FOUR:
            first_bar.append(METRE.start + index)
        return np.array([BEGIN, *head, *declared(np.array(numbers)), BAR, *first_bar]), setting


def _numbers(name: str, value: Any, bars: int) -> np.ndarray:
    """Return one number per bar, NaN for a bar that is left free."""
    each = value if isinstance(value, Sequence) and not isinstance(value, str) else [value] * bars
    if len(each) != bars:
        raise ValueError(
            f"the plan's {name} has {len(each)} numbers for {bars} bars; give one, or one per bar"
        )
    low, high = _BOUNDS[name]
    for number in each:
        if number is not None and not _is_within(number, low, high):
            raise ValueError(f"the plan's {name} is {number!r}; it must be from {low} to {high}")
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


def _levels_of(back: Sequence[int]) -> np.ndarray:
    """Return distances in bars as levels of the family `return`."""
    other = len(RETURNS) - 1
    names = [str(distance or "new") for distance in back]
    return np.array([RETURNS.index(name) if name in RETURNS else other for name in names])


def _one_of(what: str, name: Any, names: Sequence[str]) -> int:
    label = label_of(str(name))
    if label not in names:
        raise ValueError(f"there is no {what} {name!r}{suggestion(label, names)}")
    return names.index(label)


def _key(name: Any) -> int:
    root, _, mode = str(name).strip().partition(" ")
    root = {"db": "C#", "eb": "D#", "gb": "F#", "ab": "G#", "bb": "A#"}.get(
        root.lower(), root.upper()
    )
    modes = ("major", "minor")
    mode = mode.strip().casefold() or "major"
    if root not in ROOTS or mode not in modes:
        raise ValueError(f"there is no key {name!r}; a key is written as 'G minor' or 'Eb major'")
    return modes.index(mode) * len(ROOTS) + ROOTS.index(root)
