"""Write results so that a file is complete or absent, whatever happens to the disk, the machine or the process.

JSON is for programs, CSV for spreadsheets.
"""

from __future__ import annotations

import csv
import errno
import io
import json
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # Windows, where nothing is locked
    fcntl = None

_FORMULA_PREFIXES = ("=", "+", "-", "@", "\t")


def write_whole(path: Path, data: bytes, *, new: bool = False) -> None:
    """Write a file under a temporary name, sync it and rename it; errors name `path`.

    With `new`, raises FileExistsError if the path exists, even if it appeared during the write.
    """
    with replacing(path, new=new) as part, part.open("xb") as file:
        if file.write(data) != len(data):
            raise OSError(f"{path} could not be written completely")
        file.flush()
        os.fsync(file.fileno())


def make_folder(folder: Path, advice: str, *, for_: Path | None = None) -> None:
    """Create a folder and its parents if necessary; an error ends with the advice.

    `for_` is the path to show in the error, for a temporary folder that is renamed later.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(
            f"the folder {for_ or folder} cannot be made ({error.strerror}); {advice}"
        ) from None


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file, creating its folder if necessary."""
    make_folder(path.parent, "name another one")
    write_whole(path, data)


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text; lone surrogates, as in undecodable file names, become escapes that JSON can read back."""
    write_bytes(path, text.encode(errors="backslashreplace"))


def write_json(path: Path, value: Any) -> None:
    """Write plain data as JSON; raises ValueError for NaN and infinity."""
    try:
        text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False)
    except ValueError as error:  # for example from a model whose weights overflow
        raise ValueError(f"{path} would hold a number that is not finite ({error})") from None
    write_text(path, f"{text}\n")


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write one line per row, under a header with the column names of the first; None becomes an empty cell.

    A text that a spreadsheet would evaluate as a formula is prefixed with an apostrophe, since names may come from
    strangers.
    """
    stream = io.StringIO()
    writer = csv.DictWriter(stream, [*rows[0]], lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _cell(value) for name, value in row.items()} for row in rows)
    write_text(path, stream.getvalue())


def _cell(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    text = value.replace("\r", " ")  # it would end the line
    return f"'{text}" if text.startswith(_FORMULA_PREFIXES) else text


@contextmanager
def replacing(path: Path, *, new: bool = False) -> Iterator[Path]:
    """Yield a temporary path in the same folder; on success the file there replaces `path`.

    Raises OSError if `path` is a folder, a device or a pipe.
    """
    target = path if new else Path(os.path.realpath(path))  # keep a symbolic link
    if not new and target.exists() and not target.is_file():
        raise OSError(f"{path} is a folder or a device: give the name of a file to write")
    part = target.with_name(f".{secrets.token_hex(6)}.part")
    try:
        with _naming(path):
            yield part
            (_rename_to_new if new else os.replace)(part, target)
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Add the path to system errors, which lack it if the disk is full."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def is_text(path: Path) -> bool:
    """Return whether a path can be encoded as text, as libraries outside Python require."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True


def sync(path: Path) -> None:
    """Flush a file, or the entries of a folder, so that it survives a power cut."""
    if path.is_dir() and os.name == "nt":
        return
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _rename_to_new(part: Path, target: Path) -> None:
    """Rename a file unless the target exists, comparing names as the file system does."""
    try:
        os.link(part, target)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)) from None
        os.replace(part, target)


def lock_folder(folder: Path, taken: str) -> int | None:
    """Lock a folder until the returned descriptor is closed or this process ends; None if locks are not supported.

    Raises ValueError with the message `taken` if another process holds it.
    """
    if fcntl is None:
        return None
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            raise ValueError(taken) from None
        return None  # the file system does not support locks
    return descriptor


FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@contextmanager
def full_disk_named(folder: Path, advice: str) -> Iterator[None]:
    """Raise an OSError with a readable message if a write below a folder fails for lack of space."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise OSError(f"the disk of {folder} is full; free some space, or {advice}") from None
