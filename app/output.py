"""How commands speak: results on the standard output, as text or JSON, and remarks beside it."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from collections.abc import Iterable, Sequence
from typing import Any

from tokenization.wording import visible


def add_json(parser: ArgumentParser) -> None:
    """Let a command give its result to a program."""
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def write(text: str) -> None:
    """Print a result."""
    print(visible(text, lines=True))


def write_json(value: Any) -> None:
    """Print a result for a program."""
    print(
        visible(json.dumps(value, ensure_ascii=False))
    )  # within texts alone, where escapes are read


def remark(sentences: Iterable[str]) -> None:
    """Say beside the result what is good to know about it."""
    for sentence in sentences:
        print(visible(sentence), file=sys.stderr)


def table(rows: Sequence[Sequence[object]]) -> str:
    """Return rows in columns: the first to the left, numbers with separators to the right."""
    cells = [
        [f"{cell:,}" if isinstance(cell, int) else visible(str(cell)) for cell in row]
        for row in rows
    ]
    widths = [max(len(cell) for cell in column) for column in zip(*cells, strict=True)]
    lines = (
        [row[0].ljust(widths[0])]
        + [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        for row in cells
    )
    return "\n".join("  ".join(line).rstrip() for line in lines)
