"""A source given as an archive, unpacked for as long as it is read: files alone, below one folder."""

from __future__ import annotations

import errno
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

from musicgen.common.processes import full_disk_named
from training.data.sources.source import Skipped

MOST_BYTES = 32 << 30
FREE_BYTES, MOST_TIMES = 1 << 28, 100  # music is packed to a fifth of its size, not to a hundredth
MOST_MEMBER_BYTES = 1 << 26  # no reader here takes more of a file
MOST_MEMBERS = 2_000_000
LONGEST_NAME = 200  # characters of one in a report
# Too long, not to be spelled, or that of a folder where another member wants a file.
_OF_NAMES = {
    errno.ENAMETOOLONG,
    errno.EILSEQ,
    errno.EINVAL,
    errno.EISDIR,
    errno.ENOTDIR,
    errno.EEXIST,
}
_DAMAGE = (
    EOFError,
    RuntimeError,  # of a zip archive with a password, or packed in a way that is not known
    gzip.BadGzipFile,
    lzma.LZMAError,
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
)


@contextmanager
def unpacked(source: Path) -> Iterator[tuple[Path, list[Skipped]]]:
    """Give the folder to read from, the source itself or a passing one for an archive, and what is not in it."""
    if not source.is_file():
        yield source, []
        return
    with tempfile.TemporaryDirectory(prefix="musicgen-") as folder:
        try:
            with full_disk_named(Path(folder), "point TMPDIR to another disk"):
                left_out = _unpack(source, Path(folder))
        except _DAMAGE as error:
            raise ValueError(f"the archive {source} cannot be unpacked: {error}") from None
        yield Path(folder), left_out


def _unpack(source: Path, folder: Path) -> list[Skipped]:
    """Write the files of an archive below a folder; those that cannot be are returned, each with the reason."""
    most = min(MOST_BYTES, FREE_BYTES + MOST_TIMES * source.stat().st_size)
    total, left_out = 0, []
    for number, (name, size, open_member) in enumerate(_members(source)):
        if number >= MOST_MEMBERS:
            raise ValueError(f"the archive {source} holds more than {MOST_MEMBERS} files")
        if reason := _unfit(name, size):
            left_out.append(Skipped(name[:LONGEST_NAME], reason))
            continue
        total += size
        if total > most:
            raise ValueError(
                f"the archive {source} unpacks to more than {most >> 20} MB; "
                "if there is music of that size in it, unpack it and give the folder"
            )
        target = folder / PurePosixPath(name.replace("\\", "/"))
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with open_member() as file, target.open("wb") as output:
                shutil.copyfileobj(file, output)
        except (OSError, UnicodeError) as error:  # a name that this file system does not take
            if not isinstance(error, UnicodeError) and error.errno not in _OF_NAMES:
                raise
            left_out.append(Skipped(name[:LONGEST_NAME], "its name is that of no file"))
    return left_out


def _unfit(name: str, size: int) -> str | None:
    """Say why a member is not unpacked, if it is not."""
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or PureWindowsPath(name).drive or not path.name:
        return "its name leads outside the archive's folder"
    if "\0" in name:
        return "its name is that of no file"
    if size > MOST_MEMBER_BYTES:
        return f"it has {size >> 20} MB; files of up to {MOST_MEMBER_BYTES >> 20} MB are read"
    return None


def _members(source: Path) -> Iterator[tuple[str, int, Callable[[], Any]]]:
    """Yield name, size and how to open each of the regular files; links and devices are left out."""
    # First, since a tar archive that ends with a zip file, as of scores, looks like that one.
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
            f"{source} is neither a folder nor a tar or zip archive; give one that holds the music"
        )
