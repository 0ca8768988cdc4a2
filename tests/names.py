"""File names that are not ASCII, for all locales."""

import os


def on_disk(name: str) -> str:
    """Return Python's name here for a file with this name in UTF-8: the name, or its escaped bytes."""
    return os.fsdecode(name.encode("utf-8", "surrogateescape"))
