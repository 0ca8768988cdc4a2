"""Results as files: JSON for programs, CSV for spreadsheets; each written in one step."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tokenization.whole_file import write_whole


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, data)


def write_json(path: Path, value: Any) -> None:
    """Write plain data; a number that is none is refused."""
    text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False)
    write_bytes(path, f"{text}\n".encode())


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write a line a row under the names of all columns; what is nested is joined, what is None stays empty."""
    flat = [dict(_flat(row)) for row in rows]
    columns = list(dict.fromkeys(name for row in flat for name in row))
    stream = io.StringIO()
    writer = csv.DictWriter(stream, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    write_bytes(path, stream.getvalue().encode())


def _flat(row: Mapping[str, Any], before: str = "") -> Iterable[tuple[str, Any]]:
    for name, value in row.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}_")
        elif not isinstance(value, list):
            yield f"{before}{name}", value
