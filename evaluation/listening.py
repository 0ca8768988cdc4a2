"""Blind listening comparisons: how often each of two sources was preferred, from the files that the page saves.

A source is the name of a model, or the real piece. If both takes are of one model, the sides are A and B as heard, so
that the counts show whether listeners prefer a position.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from evaluation.metrics.estimates import estimate
from evaluation.tables import Table, interval
from tokenization.records import json_of

FORMAT = "musicgen listening 1"  # as app/assets/desk/listening.js writes it
REAL = "real"  # the source of real pieces
CHOSEN = ("A", "B", "none")
HEAD = ("pair", "n", "first", "second", "equal", "fraction first")
CAPTION = (
    "How often each side of a pair was preferred in n blind comparisons. fraction\n"
    "first: of the comparisons with a preference, with its 95 % interval (Wilson)."
)
LONGEST_SOURCE = 12  # characters of a name in the table


def choices_of(paths: Iterable[Path]) -> list[dict[str, Any]]:
    """Return the choices in some files, without duplicates."""
    found: dict[str, dict[str, Any]] = {}
    for path in paths:
        content = json_of(path)
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise ValueError(
                f"{path} has no choices of blind comparisons; the page's “Compare blind” saves a file of them"
            )
        choices = content.get("choices")
        if not isinstance(choices, list) or not all(map(_is_choice, choices)):
            raise ValueError(f"{path} is damaged: one of its choices is incomplete")
        found.update({choice["id"]: choice for choice in choices})
    return [*found.values()]


def _is_choice(choice: Any) -> bool:
    if not isinstance(choice, dict) or choice.get("chosen") not in CHOSEN:
        return False
    sides = [choice.get(side) for side in ("A", "B")]
    have_sources = all(
        isinstance(side, dict) and isinstance(side.get("source"), str) for side in sides
    )
    return have_sources and isinstance(choice.get("id"), str)


def counted(choices: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one row per pair of sources, sorted by name; the real piece is always second."""
    rows: dict[tuple[str, str], list[int]] = {}
    for choice in choices:
        heard = choice["A"]["source"], choice["B"]["source"]
        pair = min(heard, heard[::-1], key=lambda two: (two[0] == REAL, two))
        first = "A" if pair == heard else "B"
        verdict = 2 if choice["chosen"] == "none" else int(choice["chosen"] != first)
        rows.setdefault(pair, [0, 0, 0])[verdict] += 1
    return [
        {
            "pair": list(pair),
            "heard": sum(counts),
            "first": counts[0],
            "second": counts[1],
            "equal": counts[2],
            "share": vars(estimate([1.0] * counts[0] + [0.0] * counts[1], shares=True)),
        }
        for pair, counts in sorted(rows.items())
    ]


def table(rows: Sequence[dict[str, Any]]) -> Table:
    """Format the rows as a table; for two takes of one model, the first side is A."""
    cells = [
        [
            _pair_name(*row["pair"]),
            *(str(row[name]) for name in ("heard", "first", "second", "equal")),
            interval(*(row["share"][key] for key in ("mean", "low", "high"))),
        ]
        for row in rows
    ]
    return Table(head=HEAD, rows=cells, caption=CAPTION)


def _pair_name(first: str, second: str) -> str:
    names = [
        name if len(name) <= LONGEST_SOURCE else f"{name[: LONGEST_SOURCE - 1]}…"
        for name in (first, second)
    ]
    return f"{names[0]}, A and B" if first == second else " / ".join(names)
