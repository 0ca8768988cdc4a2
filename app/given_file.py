"""The file that a command is given; `-` is the standard input."""

from __future__ import annotations

import sys
from pathlib import Path

STANDARD_INPUT = "-"


def read_given(file: str, most_bytes: int) -> tuple[bytes, str]:
    """Return the bytes of a file, one more than allowed at most, and what errors call it."""
    if file == STANDARD_INPUT:
        return sys.stdin.buffer.read(most_bytes + 1), "the standard input"
    path = Path(file)
    if not path.exists():
        raise FileNotFoundError(f"there is no file {file}: check its name and folder")
    if not path.is_file():
        raise ValueError(f"{file} is a folder or a device: give a file")
    with path.open("rb") as content:
        return content.read(most_bytes + 1), file
