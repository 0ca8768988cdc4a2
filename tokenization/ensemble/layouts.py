"""Sequences for a model: a piece with its parts in any order, a style and a key, a plan of its bars, and goals.

    begin style? key? tempo? flat? parts  after <bars after the gap> before  (bar left? plan metre? …)* end

Training examples and prompts are built by the same functions. `plain` removes all that they add.

Letters: T tokens, K bars, P parts.
"""

from __future__ import annotations

import string
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tokenization.analysis.chords import ROOTS
from tokenization.analysis.chords import key as estimated_key
from tokenization.analysis.metres import FOUR_FOUR
from tokenization.analysis.metres import NAMES as METRE_NAMES
from tokenization.ensemble.spelling import Reading, Setting, Sheet, declared, spell
from tokenization.ensemble.tokens import (
    AFTER,
    BAR,
    BEFORE,
    BEGIN,
    DYNAMICS,
    END,
    EXTRA_START,
    FAMILIES,
    HARMONY,
    KEY,
    LEFT_1,
    LENGTHS,
    METRE,
    MOST_PARTS,
    MOST_VOICES,
    PART_NAMES,
    PITCHED,
    PLAN,
    PLAYERS,
    RETURNS,
    SEAM_1,
    STEPS_PER_SUBBEAT,
    STYLE,
    STYLES,
    TEMPO,
    VOCABULARY,
    instruments,
    label_of,
    tempo_level,
    velocity_of,
)
from tokenization.language import COUNTED, Language, suffix_stop
from tokenization.records import suggestion

# The upper edges of the levels of a plan; the last level has none.
DENSITY_EDGES = np.array([0, 0.75, 1.5, 2.5, 4, 6.5, 11])  # notes per beat, inclusive
REGISTER_EDGES = np.array([48, 53, 57, 61, 65, 69, 73, 77, 82])  # MIDI pitch
SIMILAR = 0.6  # the least similarity at which a bar counts as the return of another one
NO_LEVEL = -1
Plan = Mapping[str, np.ndarray]  # family → the level of each bar, or NO_LEVEL


def plain(ids: np.ndarray) -> np.ndarray:
    """Return a sequence without style, key, plan, goals and the bars after a gap: (T,) int64."""
    ids = np.asarray(ids, dtype=np.int64)
    opened, closed = np.flatnonzero(ids == AFTER), np.flatnonzero(ids == BEFORE)
    if len(opened):
        stop = closed[-1] if len(closed) else len(ids)
        ids = np.concatenate([ids[: opened[0]], ids[stop:]])
    return ids[ids < EXTRA_START]


def body_start(ids: np.ndarray) -> int:
    """Return the offset of the first bar, or the length of a sequence without bars."""
    return int(np.argmax(ids == BAR)) if (ids == BAR).any() else len(ids)


def from_bar(ids: np.ndarray, bar: int) -> np.ndarray:
    """Return the plain piece that starts at a bar of another one: (T,)."""
    starts = np.flatnonzero(ids == BAR)
    if not bar:
        return ids
    offset = int(starts[bar])
    metres = ids[:offset][METRE.holds(ids[:offset])]
    rest = ids[offset:]
    names_metre = bool(METRE.holds(rest[1:2]).any())
    metre = rest[1:2] if names_metre else metres[-1:]
    metre = metre[metre != METRE.start + FOUR_FOUR]
    return np.concatenate([ids[: starts[0]], rest[:1], metre, rest[1 + names_metre :]])


def with_parts(
    ids: np.ndarray, order: Sequence[int] | np.ndarray, instruments: np.ndarray | None = None
) -> np.ndarray:
    """Return a plain piece reduced to the parts with these indices, in this order: (T,).

    `instruments`, one for each of them, replace those of the piece.
    """
    sheet, order = Reading(ids).sheet(), np.asarray(order, dtype=np.int64)
    place = np.full(len(sheet.parts), -1)  # −1: dropped
    place[order] = np.arange(len(order))
    part = place[sheet.part]
    columns = (sheet.bar, part, sheet.onset, sheet.length, sheet.loudness, sheet.value)
    events = np.stack(columns)[:, part >= 0]
    bar, part, onset, length, loudness, value = events[:, np.lexsort(events[::-1])]
    parts = sheet.parts[order] if instruments is None else np.asarray(instruments)
    reduced = replace(
        sheet, parts=parts, bar=bar, part=part, onset=onset, length=length, loudness=loudness, value=value
    )  # fmt: skip
    spelled = spell(reduced)
    return spelled if len(ids) and ids[-1] == END else spelled[:-1]


def with_style_and_key(
    ids: np.ndarray, *, style: str | None = None, key: int | None = None
) -> np.ndarray:
    """Return a piece with tokens for its style and its key, if given, after the begin token."""
    added = [] if style is None else [VOCABULARY.id(f"style_{style}")]
    added += [] if key is None else [KEY.start + key]
    return np.insert(ids, 1, np.array(added, dtype=ids.dtype))


def key_of(sheet: Sheet) -> int | None:
    """Return the most probable key (0–11 major, 12–23 minor), or None without pitched notes."""
    pitched = sheet.instrument < PITCHED
    if not pitched.any():
        return None
    return estimated_key(sheet.value[pitched], LENGTHS[sheet.length[pitched]])


def plan_of(sheet: Sheet) -> dict[str, np.ndarray]:
    """Return the plan that describes the bars of a piece."""
    bars = len(sheet.bars)
    sounds = sheet.instrument != HARMONY
    pitched = sheet.instrument < PITCHED
    notes = np.bincount(sheet.bar[sounds], minlength=bars)
    beats = sheet.bars.length / 4
    density = np.searchsorted(DENSITY_EDGES, notes / beats, side="left")
    plays = np.unique(sheet.bar[sounds] * (len(sheet.parts) + 1) + sheet.part[sounds])
    players = np.bincount(plays // (len(sheet.parts) + 1), minlength=bars)
    return {
        "return": _returns(sheet, pitched if pitched.any() else sounds),
        "density": density,
        "register": _register(sheet, pitched, bars),
        "dynamics": _dynamics(sheet, sounds, notes),
        "players": np.minimum(players, len(VOCABULARY["players"])) - 1,
    }


def _register(sheet: Sheet, pitched: np.ndarray, bars: int) -> np.ndarray:
    """Return the register level of each bar, from the mean of the highest pitch at each onset."""
    bar, onset, value = sheet.bar[pitched], sheet.onset[pitched], sheet.value[pitched]
    order = np.lexsort((value, onset))
    bar, onset, value = bar[order], onset[order], value[order]
    top = np.diff(onset, append=-1) != 0
    count = np.bincount(bar[top], minlength=bars)
    mean = np.bincount(bar[top], value[top], bars) / np.maximum(count, 1)
    return np.where(count > 0, np.searchsorted(REGISTER_EDGES, mean, side="right"), NO_LEVEL)


def _dynamics(sheet: Sheet, sounds: np.ndarray, notes: np.ndarray) -> np.ndarray:
    """Return the loudness level of each bar, from its mean velocity."""
    if sheet.flat:
        return np.full(len(notes), NO_LEVEL)
    velocity = velocity_of(sheet.loudness[sounds])
    mean = np.bincount(sheet.bar[sounds], velocity, len(notes)) / np.maximum(notes, 1)
    level = (mean * len(VOCABULARY["dynamics"]) / 128).astype(np.int64)
    return np.where(notes > 0, level, NO_LEVEL)


def _returns(sheet: Sheet, chosen: np.ndarray) -> np.ndarray:
    """Return how far back the most similar earlier bar is, for each bar, as an index into RETURNS.

    Of equally similar bars, one at a distance that has a token is preferred, then the nearest.
    """
    bars = len(sheet.bars)
    start = (sheet.bars.start * STEPS_PER_SUBBEAT)[sheet.bar[chosen]]
    step, part, value = sheet.onset[chosen] - start, sheet.part[chosen], sheet.value[chosen]
    _, note = np.unique((step * 64 + part) * 256 + value, return_inverse=True)
    contains = np.zeros((bars, int(note.max(initial=0)) + 1), dtype=np.float32)
    contains[sheet.bar[chosen], note] = 1
    size = contains.sum(1)
    common = contains @ contains.T
    similarity = 2 * common / np.maximum(size[:, None] + size, 1)  # Dice coefficient: (K, K)
    similarity[np.triu_indices(bars)] = 0  # only earlier bars
    back = np.arange(bars)[:, None] - np.arange(bars)
    has_token = np.isin(back, [int(step) for step in RETURNS[1:-1]])
    best = (similarity + 1e-3 * has_token - 1e-6 * back).argmax(1)
    rows = np.arange(bars)
    distance = back[rows, best]
    level = np.full(bars, len(RETURNS) - 1)
    for number, name in enumerate(RETURNS[1:-1], 1):
        level[distance == int(name)] = number
    level[similarity[rows, best] < SIMILAR] = 0
    return np.where(size > 0, level, NO_LEVEL)


def with_plan(ids: np.ndarray, plan: Plan, first: int = 0) -> np.ndarray:
    """Return a piece with the plan of each bar, except the `first` ones, in front of its notes: (T,)."""
    bars = np.flatnonzero(ids == BAR)[first:]
    counted = np.append(ids, END)[bars + 1] >= LEFT_1  # goal tokens come before the plan
    bars = bars + counted
    at, values = [], []
    for name in PLAN:
        if name in plan:
            level = np.asarray(plan[name])[: len(bars)]
            known = np.flatnonzero(level >= 0)
            at.append(bars[known] + 1)
            values.append(VOCABULARY[name].start + level[known])
    if not at:
        return ids
    return np.insert(ids, np.concatenate(at), np.concatenate(values))


def with_countdown(ids: np.ndarray, bars: int) -> np.ndarray:
    """Return a piece whose last bars, COUNTED at most, count down to its end: (T,)."""
    starts = np.flatnonzero(ids == BAR)[-min(bars, COUNTED) :]
    return np.insert(ids, starts + 1, LEFT_1 + np.arange(len(starts))[::-1])


def gap(ids: np.ndarray, start: int, stop: int) -> np.ndarray:
    """Return an example of filling the gap start … stop − 1 of a piece, which ends with the gap: (T,)."""
    offsets = bar_offsets(ids)
    seams = SEAM_1 + np.arange(stop - start)[::-1]
    piece = np.insert(ids[: offsets[stop]], offsets[start:stop] + 1, seams)
    head = body_start(ids)
    return np.concatenate([piece[:head], bars_after_gap(ids, stop), piece[head:], [END]])


def bars_after_gap(ids: np.ndarray, stop: int) -> np.ndarray:
    """Return the bars after a gap that ends before bar `stop`, as a prompt gives them: (T,)."""
    until = suffix_stop(stop)
    offsets = bar_offsets(ids)
    last = min(until, len(offsets) - 1)
    later = ids[:0]
    if last > stop:
        later = from_bar(ids[: offsets[last]], stop)[body_start(ids) :]
    return np.concatenate([[AFTER], later, np.full(until - last, BAR), [BEFORE]])


def bar_offsets(ids: np.ndarray) -> np.ndarray:
    """Return the offset of each bar in a piece, and the end of the last one: (bars + 1,)."""
    return np.append(np.flatnonzero(ids == BAR), len(ids) - (len(ids) > 0 and ids[-1] == END))


# What a user asks of the bars, or of a new piece, as plan levels and prompt tokens.
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
            raise ValueError(f"{len(numbers)} parts were requested; the limit is {MOST_PARTS - 1}")
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
