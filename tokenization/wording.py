"""Sentences, and numbers and names as parts of them."""

from __future__ import annotations

import re
from collections.abc import Sequence

LISTED = 8  # names in a sentence
# What moves a terminal's cursor, begins a command to it, turns the direction of text, or is no character.
_UNSEEN = "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
_IN_TEXT, _IN_LINE = re.compile(f"[{_UNSEEN}]"), re.compile(f"[\t\n{_UNSEEN}]")


def visible(text: str, *, lines: bool = False) -> str:
    """Return a text with escapes for what is no print, so that a stranger's name cannot speak to a terminal.

    Ends of lines are kept where there may be several `lines`.
    """
    return (_IN_TEXT if lines else _IN_LINE).sub(lambda found: escape(found[0]), text)


def escape(character: str) -> str:
    """Return a character as JSON and Python both read it."""
    return f"\\u{ord(character):04x}"


def sentence(text: str) -> str:
    """Return words as a sentence; a name that begins it, as of a file, keeps its small letter."""
    words = text.split()
    if words and words[0].isalpha():
        words[0] = words[0][0].upper() + words[0][1:]
    joined = " ".join(words)
    return joined if joined.endswith((".", "!", "?")) else f"{joined}."


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural where it belongs."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def listed(names: Sequence[str]) -> str:
    """Return names as a part of a sentence; of many, the first ones."""
    names = list(names)
    if len(names) > LISTED + 1:
        names[LISTED:] = [f"{len(names) - LISTED} more"]
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
