"""Token sequences as commands read them: text with a bar a line, or the JSON that `tokenize` prints."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tokenization.groove.grid import Band
from tokenization.language import LANGUAGES, Language, language
from tokenization.wording import listed


@dataclass(frozen=True, kw_only=True)
class TokenText:
    """A sequence that was read, and the language it is in."""

    language: Language
    ids: np.ndarray
    setting: Any = None  # what the language keeps beside its tokens


def read_tokens(text: str, name: str, language_name: str | None = None) -> TokenText:
    """Read text or JSON and check every token; errors call the text by `name`."""
    content = _content(text, name) if text.lstrip().startswith("{") else {}
    if content:
        words = [str(word) for word in content["tokens"]]
        places = [f"tokens[{position}] of {name}" for position in range(len(words))]
    else:
        found = [
            (word, f"token {position} in line {number} of {name}")
            for number, line in enumerate(text.splitlines(), 1)
            for position, word in enumerate(line.split(), 1)
        ]
        words, places = [word for word, _ in found], [place for _, place in found]
    if not words:
        raise ValueError(f"{name} holds no tokens; give what `musicgen tokenize` prints")
    speaker = language(language_name or str(content.get("language") or _language_of(words, name)))
    return TokenText(
        language=speaker,
        ids=_checked_ids(speaker, words, places),
        setting=setting_of(speaker, content.get("setting"), name),
    )


def setting_of(speaker: Language, plain: Any, name: str) -> Any:
    """Return what a language keeps beside its tokens, from plain data."""
    if plain is None or speaker.family != "groove":
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
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name} starts like JSON, but is none: {error}") from None
    if not isinstance(content.get("tokens"), list):
        raise ValueError(f'{name} has no list "tokens", as the JSON of `musicgen tokenize` has')
    return content


def _language_of(words: Sequence[str], name: str) -> str:
    """Return the language that knows most of the words."""
    known = {
        each: sum(word in language(each).vocabulary.ids for word in words) for each in LANGUAGES
    }
    best = max(known, key=lambda each: known[each])
    if not known[best]:
        raise ValueError(
            f"{name} holds no tokens of the languages {listed([*LANGUAGES])}; "
            "give what `musicgen tokenize` prints"
        )
    return best


def _checked_ids(speaker: Language, words: Sequence[str], places: Sequence[str]) -> np.ndarray:
    ids = []
    for word, place in zip(words, places, strict=True):
        if word not in speaker.vocabulary.ids:
            raise ValueError(
                f"{place} is {word[:40]!r}, which is no token of the language {speaker.name}"
            )
        ids.append(speaker.vocabulary.ids[word])
    fault = speaker.validate(np.array(ids, dtype=np.int64))
    if fault:
        raise ValueError(f"{places[fault.position]} is wrong: {fault.reason}")
    return np.array(ids, dtype=np.uint16)
