"""The attributes in the head of a piece: its style, key, tempo, metre and parts, as found or asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tokenization.analysis.chords import key as estimated_key
from tokenization.analysis.chords import read_key, read_signature
from tokenization.analysis.metres import FOUR_FOUR
from tokenization.analysis.metres import NAMES as METRE_NAMES
from tokenization.ensemble.plan import is_within, plan_for, tokens_by_bar
from tokenization.ensemble.spelling import Setting, Sheet, declared
from tokenization.ensemble.tokens import (
    BAR,
    BEGIN,
    FAMILIES,
    HARMONY,
    KEY,
    LENGTHS,
    METRE,
    MOST_PARTS,
    MOST_VOICES,
    PART_NAMES,
    PITCHED,
    PLAYERS,
    TEMPO,
    VOCABULARY,
    instruments,
    label_of,
    tempo_level,
)
from tokenization.language import Vocabulary
from tokenization.records import suggestion

_KEYS = {
    "major": ("C", "Db", "D", "Eb", "E", "F", "F#", "G", "Ab", "A", "Bb", "B"),
    "minor": ("C", "C#", "D", "Eb", "E", "F", "F#", "G", "G#", "A", "Bb", "B"),
}
TEMPO_BOUNDS = 30, 300  # beats per minute; models know 44 to 215
_PARTS_OF_STYLES = {
    "pop": ("piano", "piano"),
    "song": ("voice", "piano", "piano"),
    "quartet": ("violin", "violin", "viola", "cello"),
    "keyboard": ("piano", "piano"),
    "band": ("drums", "electric_bass", "electric_guitar", "piano"),
    "drums": ("drums",),
    "rock": ("drums", "electric_bass", "distorted_guitar", "distorted_guitar", "lead"),
    "film": ("strings", "strings", "horn", "harp", "timpani"),
    "choir": ("voice", "voice", "voice", "voice"),
    "orchestra": (
        *("flute", "oboe", "clarinet", "bassoon", "horn", "trumpet", "timpani"),
        *("violin", "violin", "viola", "cello", "contrabass"),
    ),
    "folk": ("violin",),
}


def key_of(
    sheet: Sheet, signature: tuple[int, bool] | None = None, *, hears_bass: bool = True
) -> int | None:
    """Return the most probable key (0–11 major, 12–23 minor), or None without pitched notes.

    It is one with the signature of the file, if the notes fit that.
    """
    pitched = sheet.instrument < PITCHED
    if not pitched.any():
        return None
    value, bar = sheet.value[pitched], sheet.bar[pitched]
    order = np.lexsort((value, sheet.onset[pitched]))
    bass = value[order][np.unique(bar[order], return_index=True)[1]]
    length = LENGTHS[sheet.length[pitched]]
    return estimated_key(value, length, bass if hears_bass else None, signature)


def with_style_and_key(
    ids: np.ndarray, *, style: str | None = None, key: int | None = None
) -> np.ndarray:
    """Return a piece with tokens for its style and its key, if given, after the begin token."""
    added = [] if style is None else [VOCABULARY.id(f"style_{style}")]
    added += [] if key is None else [KEY.start + key]
    return np.insert(ids, 1, np.array(added, dtype=ids.dtype))


def beginnings(vocabulary: Vocabulary) -> dict[str, list[str]]:
    """Return the attributes that a new piece can have, each with its choices; a tempo has none."""
    return {
        "style": [name for name in _PARTS_OF_STYLES if f"style_{name}" in vocabulary.ids],
        "key": [f"{root} {mode}" for mode, roots in _KEYS.items() for root in roots],
        "tempo": [],
        "metre": [*METRE_NAMES],
        "parts": [*FAMILIES, *(name for name in PART_NAMES if name != PART_NAMES[HARMONY])],
    }


def beginning(
    asked: Mapping[str, Any], plan: Mapping[str, Any] | None, vocabulary: Vocabulary
) -> tuple[np.ndarray, Setting]:
    """Return the prompt of a new piece with the given attributes, and a setting with its key and exact tempo.

    {"style": "pop", "key": "G minor", "tempo": 90, "metre": "3/4", "parts": ["flute", "piano"]}

    All parts play in the first bar, unless the plan asks for something else: a part that rests there might never
    play.
    """
    known = beginnings(vocabulary)
    for name in asked:
        if name not in known:
            raise ValueError(f"a new piece has no {name!r}{suggestion(name, known)}")
    head, setting = [], Setting()
    parts = asked.get("parts")
    if (style := asked.get("style")) is not None:
        name = known["style"][_one_of("style", style, known["style"])]
        head.append(vocabulary.id(f"style_{name}"))
        parts = parts or _PARTS_OF_STYLES[name]
    if (key := asked.get("key")) is not None:
        head.append(KEY.start + read_key(str(key)))
        setting = replace(setting, key_signature=read_signature(str(key)))
    if (tempo := asked.get("tempo")) is not None:
        if not is_within(tempo, *TEMPO_BOUNDS):
            least, most = TEMPO_BOUNDS
            raise ValueError(
                f"the tempo is {tempo!r}; it must be from {least} to {most} beats per minute"
            )
        head.append(TEMPO.start + tempo_level(float(tempo)))
        setting = replace(setting, tempos=((0, float(tempo)),))
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
    levels = {"return": np.zeros(1), **plan_for({"players": players, **first}, 1)}
    first_bar = tokens_by_bar(levels, 1)[0]
    if metre is not None and (index := _one_of("metre", metre, METRE_NAMES)) != FOUR_FOUR:
        first_bar.append(METRE.start + index)
    return np.array([BEGIN, *head, *declared(np.array(numbers)), BAR, *first_bar]), setting


def _one_of(what: str, name: Any, names: Sequence[str]) -> int:
    label = label_of(str(name))
    if label not in names:
        raise ValueError(f"there is no {what} {name!r}{suggestion(label, names)}")
    return names.index(label)
