"""Tells other programs of the user where the server is, and what opens it to them, by a file in the user's home."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def whereabouts() -> Path:
    """Return the path of the file."""
    return Path.home() / ".musicgen" / "server.json"


@contextmanager
def announced(address: str, token: str) -> Iterator[None]:
    """Say within the context where the server is; the last one that was started counts."""
    path, said = whereabouts(), json.dumps({"address": address, "token": token})
    with suppress(OSError, RuntimeError):  # without a home, programs try the usual port
        path.parent.mkdir(mode=0o700, exist_ok=True)
        part = path.with_name(f".{path.name}.{os.getpid()}")
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(said)
        part.replace(path)
    try:
        yield
    finally:
        with suppress(OSError):
            if path.read_text(encoding="utf-8") == said:
                path.unlink()


def new_token() -> str:
    """Return a new token."""
    return secrets.token_urlsafe(24)
