"""The folder of results where none is named: the same request comes back to its own, another gets a new one.

A new one is given what was measured for others beside it, which is known by what it is and not by the request.
"""

from __future__ import annotations

import argparse
import json
from itertools import count
from pathlib import Path

from tokenization.whole_file import make_folder, write_bytes, write_json

ASKED = ".asked.json"
# What has no say in the results: a request that was interrupted goes on with other values of these.
WITHOUT_EFFECT = ("output", "json", "workers", "scheduler", "device")


def own_folder(name: str, arguments: argparse.Namespace) -> Path:
    """Return NAME, else NAME-2, … : the first that is not there, or is that of the same request."""
    for number in count(1):
        folder = Path(name if number == 1 else f"{name}-{number}")
        if not folder.exists() or _asked_before(folder) == _asked(arguments):
            return folder
    raise AssertionError("there is always another number")


def claim(folder: Path, arguments: argparse.Namespace, *reused: str) -> None:
    """Write into a folder what it is for, so that the same request finds it again.

    A new one gets copies of the folders `reused` of those that were claimed beside it.
    """
    others = [] if folder.exists() else sorted(folder.parent.glob(f"*/{ASKED}"))
    make_folder(folder, "give another one with -o")
    write_json(folder / ASKED, _asked(arguments))
    for source, name in ((other.parent / name, name) for other in others for name in reused):
        for file in (path for path in source.rglob("*") if path.is_file()):
            if not file.match(".*.part"):
                write_bytes(folder / name / file.relative_to(source), file.read_bytes())


def _asked(arguments: argparse.Namespace) -> dict[str, str]:
    return {
        name: str(value)
        for name, value in sorted(vars(arguments).items())
        if name not in WITHOUT_EFFECT and not callable(value)
    }


def _asked_before(folder: Path) -> dict[str, str] | None:
    try:
        return json.loads((folder / ASKED).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
