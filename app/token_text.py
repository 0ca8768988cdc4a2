"""Read token sequences: text with one line per bar, or the JSON that `tokenize` prints."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from tokenization.groove.language import Band
from tokenization.language import LANGUAGES, Language, language
from tokenization.wording import listed

MOST_TOKENS = 1 << 21
MOST_BRACKETS = 10_000  # in JSON, which has only lists of plain values


def read_tokens(
    text: str, name: str, language_name: str | None
) -> tuple[Language, np.ndarray, Band | None]:
    """Return the language, the checked tokens and the setting of text or JSON; errors mention its `name`."""
    content = _content(text, name) if text.lstrip().startswith("{") else {}
    words = content["tokens"] if content else text.split(maxsplit=MOST_TOKENS)
    if len(words) > MOST_TOKENS:
        raise ValueError(f"{name} has more than {MOST_TOKENS:,} tokens; use a part of it")
    words = [str(word) for word in words]

    if not words:
        raise ValueError(f"{name} has no tokens; use the output of `musicgen tokenize`")
    chosen = language(language_name or str(content.get("language") or _language_of(words, name)))
    ids = _checked_ids(chosen, words, name)
    return chosen, ids, _setting_of(chosen, content.get("setting"), name)


def _setting_of(chosen: Language, plain: Any, name: str) -> Band | None:
    """Build the setting that groove keeps outside its tokens from plain data."""
    if plain is None or chosen.name != "groove":
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
            f"the setting in {name} needs programs (0 to 127) and velocities (1 to 127) for three "
            "tracks, and beats_per_minute above 0"
        ) from None


def _content(text: str, name: str) -> dict[str, Any]:
    if text.count(",") > 4 * MOST_TOKENS or text.count("[") + text.count("{") > MOST_BRACKETS:
        raise ValueError(
            f"{name} looks like JSON, but not of `musicgen tokenize`: it has too many lists or values"
        )
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name} looks like JSON, but is not valid: {error}") from None
    if not isinstance(content.get("tokens"), list):
        raise ValueError(f'{name} lacks the list "tokens" that `musicgen tokenize` writes')
    return content


def _language_of(words: Sequence[str], name: str) -> str:
    """Return the language that has most of the words as tokens."""
    known = {}
    for each in LANGUAGES:
        ids = language(each).vocabulary.ids
        known[each] = sum(word in ids for word in words)
    best = max(known, key=lambda each: known[each])
    if not known[best]:
        raise ValueError(
            f"{name} has no tokens of the languages {listed([*LANGUAGES])}; "
            "use the output of `musicgen tokenize`"
        )
    return best


def _checked_ids(chosen: Language, words: Sequence[str], name: str) -> np.ndarray:
    known, ids = chosen.vocabulary.ids, []
    for index, word in enumerate(words):
        if word not in known:
            raise ValueError(
                f"token {index + 1} of {name} is {word[:40]!r}, which is not a token of the language {chosen.name}"
            )
        ids.append(known[word])
    fault = chosen.validate(np.array(ids, dtype=np.int64))
    if fault:
        raise ValueError(f"token {fault.position + 1} of {name} is wrong: {fault.reason}")
    return np.array(ids, dtype=np.uint16)
