"""Sources given as archives: they are unpacked to a temporary folder, regular files only."""

from __future__ import annotations

import gzip
import lzma
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from tokenization.whole_file import FULL, full_disk_named
from training.data.sources.source import Skipped

MOST_BYTES = 32 << 30
FREE_BYTES, MOST_TIMES = 1 << 28, 100  # music compresses to about a fifth, never to a hundredth
MOST_MEMBER_BYTES = 1 << 26  # no reader accepts larger files
LONGEST_NAME = 200  # characters of a name in a report
_DAMAGE = (
    EOFError,
    RuntimeError,  # a zip archive with a password or an unknown compression
    gzip.BadGzipFile,
    lzma.LZMAError,
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
)


@contextmanager
def unpacked(source: Path) -> Iterator[tuple[Path, list[Skipped]]]:
    """Yield the folder to read, temporary for an archive, and the members that were not unpacked."""
    if not source.is_file():
        yield source, []
        return
    with tempfile.TemporaryDirectory(prefix="musicgen-") as folder:
        try:
            with full_disk_named(Path(folder), "set TMPDIR to a folder on another disk"):
                skipped = _unpack(source, Path(folder))
        except _DAMAGE as error:
            raise ValueError(f"the archive {source} cannot be unpacked: {error}") from None
        yield Path(folder), skipped


def _unpack(source: Path, folder: Path) -> list[Skipped]:
    """Write the files of an archive below a folder; return those that cannot be written, with reasons."""
    most = min(MOST_BYTES, FREE_BYTES + MOST_TIMES * source.stat().st_size)
    total, skipped = 0, []
    for name, size, open_member in _members(source):
        if reason := _refusal(name, size):
            skipped.append(Skipped(name[:LONGEST_NAME], reason))
            continue
        total += size
        if total > most:
            raise ValueError(
                f"the archive {source} unpacks to more than {most >> 20} MB; "
                "if that is right, unpack it yourself and give the folder"
            )
        target = folder / PurePosixPath(name.replace("\\", "/"))
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with open_member() as file, target.open("wb") as output:
                shutil.copyfileobj(file, output)
        except (OSError, UnicodeError) as error:
            if isinstance(error, OSError) and error.errno in (None, *FULL):  # damaged, or no space
                raise
            skipped.append(Skipped(name[:LONGEST_NAME], "its name is not valid for a file here"))
    return skipped


def _refusal(name: str, size: int) -> str | None:
    """Return why a member is not unpacked, or None if it is."""
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or PureWindowsPath(name).drive or not path.name:
        return "its name leads outside the archive's folder"
    if "\0" in name:
        return "its name is not valid for a file here"
    if size > MOST_MEMBER_BYTES:
        return f"it has {size >> 20} MB; the limit is {MOST_MEMBER_BYTES >> 20} MB"
    return None


def _members(source: Path) -> Iterator[tuple[str, int, Callable[[], Any]]]:
    """Yield name, size and opener of each regular file; links and devices are left out."""
    # Tar first: an archive that ends with a zipped score also looks like a zip file.
    if tarfile.is_tarfile(source):
        with tarfile.open(source) as archive:
            for member in archive:
                if member.isfile():
                    yield member.name, member.size, partial(archive.extractfile, member)
    elif zipfile.is_zipfile(source):
        with zipfile.ZipFile(source) as archive:
            for entry in archive.infolist():
                if not entry.is_dir():
                    yield entry.filename, entry.file_size, partial(archive.open, entry)
    else:
        raise ValueError(
            f"{source} is neither a folder nor a tar or zip archive; give one that contains the music"
        )
