"""Results as files: whole or not there at all, whatever happens to the disk, the machine or this process.

JSON is for programs, CSV for spreadsheets.
"""

from __future__ import annotations

import csv
import errno
import io
import json
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

_BEGIN_FORMULAS = ("=", "+", "-", "@", "\t")


def write_whole(path: Path, data: bytes, *, new: bool = False) -> None:
    """Write a file under a temporary name and rename it when all of it is on the disk; errors name the file.

    A `new` one takes no other's place: where one is, also since a moment ago, FileExistsError says so.
    """
    with beside(path, new=new) as part, part.open("xb") as file:
        if file.write(data) != len(data):
            raise OSError(f"{path} was not taken whole by the disk")
        file.flush()
        os.fsync(file.fileno())


def make_folder(folder: Path, advice: str, *, for_: Path | None = None) -> None:
    """Make a folder, and those above it, where there is none; where it cannot be made, a sentence ends in the advice.

    One that is made `for_` another, which takes its place in time, is called by the name of that.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(
            f"the folder {for_ or folder} cannot be made ({error.strerror}); {advice}"
        ) from None


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file whole, into a folder that is made where there is none."""
    make_folder(path.parent, "name another one")
    write_whole(path, data)


def write_text(path: Path, text: str) -> None:
    """Write a text; a file's name in it that is none becomes escapes, which JSON reads as the same name."""
    write_bytes(path, text.encode(errors="backslashreplace"))


def write_json(path: Path, value: Any) -> None:
    """Write plain data; a number that is none is refused."""
    try:
        text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False)
    except ValueError as error:  # as of a model whose weights are too large to compute with
        raise ValueError(f"{path} would hold a number that is none ({error})") from None
    write_text(path, f"{text}\n")


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write a line a row under the names of all columns; what is None stays empty.

    A mapping gives a column a key, under both names; lists are in no table: they are told in JSON. A text that a
    spreadsheet would compute as a formula, as a stranger's name may be, has an apostrophe before it.
    """
    flat = [dict(_flat(row)) for row in rows]
    columns = list(dict.fromkeys(name for row in flat for name in row))
    stream = io.StringIO()
    writer = csv.DictWriter(stream, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    write_text(path, stream.getvalue())


def _flat(row: Mapping[str, Any], before: str = "") -> Iterable[tuple[str, Any]]:
    for name, value in row.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}_")
        elif not isinstance(value, list):
            yield f"{before}{name}", _cell(value) if isinstance(value, str) else value


def _cell(text: str) -> str:
    text = text.replace("\r", " ")  # it would end the line
    return f"'{text}" if text.startswith(_BEGIN_FORMULAS) else text


@contextmanager
def beside(path: Path, *, new: bool = False) -> Iterator[Path]:
    """Give the path of a new file to fill, which takes the place of `path` if nothing goes wrong.

    It takes that of a file alone: a device or a pipe of that name stays.
    """
    target = path if new else Path(os.path.realpath(path))  # a link stays one
    if not new and target.exists() and not target.is_file():
        raise OSError(f"{path} is a folder or a device: give the name of a file to write")
    part = target.with_name(f".{secrets.token_hex(6)}.part")
    try:
        with naming(path):
            yield part
            (_put_where_none_is if new else os.replace)(part, target)
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Let what the system says to be wrong name a file, which it does not where the disk is full."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def is_text(path: Path) -> bool:
    """Say whether a path is text, as libraries want it that are not Python's own, and not bytes that are none."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True


def sync(path: Path) -> None:
    """Make sure that a file, or the entries of a folder, survive a power cut."""
    if path.is_dir() and os.name == "nt":
        return
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _put_where_none_is(part: Path, target: Path) -> None:
    """Give a file its name unless there is one of that name, as the system knows names: `Song` may be `song`."""
    try:
        os.link(part, target)
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)) from None
        os.replace(part, target)
