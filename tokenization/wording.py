"""Wording of messages: sentences, counts with nouns, lists, Markdown tables."""

from __future__ import annotations

from collections.abc import Sequence

LISTED = 8  # names in a sentence


def sentence(text: str) -> str:
    """Turn words into a sentence; a first word that is not plain letters, such as a file name, is not capitalised."""
    words = text.split()
    if words and words[0].isalpha():
        words[0] = words[0][0].upper() + words[0][1:]
    joined = " ".join(words)
    return joined if joined.endswith((".", "!", "?")) else f"{joined}."


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless the number is 1."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def listed(names: Sequence[str]) -> str:
    """Join names with commas and "and"; a long list is shortened to its first names and "n more"."""
    names = list(names)
    if len(names) > LISTED + 1:
        names[LISTED:] = [f"{len(names) - LISTED} more"]
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def filled(text: str, **values: object) -> str:
    """Format a text and join its lines into one."""
    return " ".join(text.format(**values).split())


def markdown(rows: Sequence[Sequence[object]], *, numbers: bool = True) -> str:
    """Return a Markdown table with the first row as header; `numbers` right-aligns all columns but the first."""
    rule = ["---", *["---:" if numbers else "---"] * (len(rows[0]) - 1)]
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in [rows[0], rule, *rows[1:]])


class Remark(str):
    """A sentence about how a piece was read that users should see; details, such as repairs, are plain strings."""
