"""Wording of messages: numbers with their nouns, lists, names in quotes, tables in Markdown."""

from __future__ import annotations

from collections.abc import Sequence

LISTED = 8  # names in a sentence


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


def filled(text: str, **values: object) -> str:
    """Return a text in one line, its braces filled in."""
    return " ".join(text.format(**values).split())


def markdown(rows: Sequence[Sequence[object]], *, numbers: bool = True) -> str:
    """Return a table whose first row is its head as Markdown; numbers, in all columns but the first, end alike."""
    rule = ["---", *["---:" if numbers else "---"] * (len(rows[0]) - 1)]
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in [rows[0], rule, *rows[1:]])


class Remark(str):
    """A sentence on what was made of a piece, and what it is about: beats, metre, upbeat, tracks or drums.

    A plain sentence is about a detail: a repair, or what is usual.
    """

    about: str

    def __new__(cls, text: str, about: str = "") -> Remark:
        """Take the sentence, which it is, and what it is about."""
        made = super().__new__(cls, text)
        made.about = about
        return made
