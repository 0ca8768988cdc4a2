"""Results as files: whole or not there at all, whatever happens to the disk, the machine or this process."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def write_whole(path: Path, data: bytes) -> None:
    """Write a file beside its place and put it there when all of it is on the disk; errors name the file."""
    with beside(path) as part, part.open("xb") as file:
        if file.write(data) != len(data):
            raise OSError(f"{path} was not taken whole by the disk")
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def beside(path: Path) -> Iterator[Path]:
    """Give the path of a new file to fill, which takes the place of `path` if nothing goes wrong."""
    target = Path(os.path.realpath(path))  # a link stays one
    part = target.with_name(f".{secrets.token_hex(6)}.part")
    try:
        yield part
        os.replace(part, target)
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)
