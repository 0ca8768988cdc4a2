"""Token sequences as commands read them: text with a bar a line, or the JSON that `tokenize` prints."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tokenization.groove.language import Band
from tokenization.language import LANGUAGES, Language, language
from tokenization.wording import listed

MOST_TOKENS = 1 << 21  # of the longest piece that can be read
MOST_BRACKETS = 10_000  # of its JSON, which has lists of plain values


def read_tokens(
    text: str, name: str, language_name: str | None
) -> tuple[Language, np.ndarray, Band | None]:
    """Return the language, tokens and setting of text or JSON, all checked; errors call it by `name`."""
    content = _content(text, name) if text.lstrip().startswith("{") else {}
    words = content["tokens"] if content else text.split(maxsplit=MOST_TOKENS)
    if len(words) > MOST_TOKENS:
        raise ValueError(f"{name} holds more than {MOST_TOKENS:,} tokens; give a part of it")
    words = [str(word) for word in words]

    def place(index: int) -> str:
        if content:
            return f"tokens[{index}] of {name}"
        return f"{_place(text, index)} of {name}"

    if not words:
        raise ValueError(f"{name} holds no tokens; give what `musicgen tokenize` prints")
    speaker = language(language_name or str(content.get("language") or _language_of(words, name)))
    ids = _checked_ids(speaker, words, place)
    return speaker, ids, _setting_of(speaker, content.get("setting"), name)


def _setting_of(speaker: Language, plain: Any, name: str) -> Band | None:
    """Return what a language keeps apart from its tokens, from plain data."""
    if plain is None or speaker.name != "groove":
        return None
    try:
        programs, velocities = (
            (int(bass), int(drums), int(other))
            for bass, drums, other in (plain["programs"], plain["velocities"])
        )
        return Band(
            programs=programs,
            velocities=velocities,
            beats_per_minute=float(plain["beats_per_minute"]),
        )
    except (TypeError, LookupError, ValueError, OverflowError):
        raise ValueError(
            f"the setting in {name} needs programs (0 to 127) and velocities (1 to 127) of three "
            "tracks, and beats_per_minute above 0"
        ) from None


def _content(text: str, name: str) -> dict[str, Any]:
    if text.count(",") > 4 * MOST_TOKENS or text.count("[") + text.count("{") > MOST_BRACKETS:
        raise ValueError(
            f"{name} starts like JSON, but is not from `musicgen tokenize`: it holds more"
        )
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name} starts like JSON, but is not: {error}") from None
    if not isinstance(content.get("tokens"), list):
        raise ValueError(f'{name} has no list "tokens", as the JSON of `musicgen tokenize` has')
    return content


def _language_of(words: Sequence[str], name: str) -> str:
    """Return the language that knows most of the words."""
    known = {}
    for each in LANGUAGES:
        ids = language(each).vocabulary.ids
        known[each] = sum(word in ids for word in words)
    best = max(known, key=lambda each: known[each])
    if not known[best]:
        raise ValueError(
            f"{name} holds no tokens of the languages {listed([*LANGUAGES])}; "
            "give what `musicgen tokenize` prints"
        )
    return best


def _place(text: str, index: int) -> str:
    """Return where in a text a word stands, by its number."""
    for number, line in enumerate(text.splitlines(), 1):
        if index < (here := len(line.split())):
            return f"token {index + 1} in line {number}"
        index -= here
    raise AssertionError("there are as many words as have been read")


def _checked_ids(
    speaker: Language, words: Sequence[str], place: Callable[[int], str]
) -> np.ndarray:
    known, ids = speaker.vocabulary.ids, []
    for index, word in enumerate(words):
        if word not in known:
            raise ValueError(
                f"{place(index)} is {word[:40]!r}, which is not a token of the language {speaker.name}"
            )
        ids.append(known[word])
    fault = speaker.validate(np.array(ids, dtype=np.int64))
    if fault:
        raise ValueError(f"{place(fault.position)} is wrong: {fault.reason}")
    return np.array(ids, dtype=np.uint16)
