"""The program and its version, as files say what made them."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version


@cache
def program() -> str:
    """Return the name and the version."""
    try:
        return f"musicgen {version('musicgen')}"
    except PackageNotFoundError:
        return "musicgen from source"  # without an installation
