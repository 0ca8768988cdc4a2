"""A source given as an archive, unpacked for as long as it is read: files alone, below one folder."""

from __future__ import annotations

import gzip
import lzma
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO

from training.disk import full_disk_named

MOST_BYTES = 32 << 30
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
def unpacked(source: Path) -> Iterator[Path]:
    """Give the folder to read from: the source itself, or a passing one with an archive's files."""
    if not source.is_file():
        yield source
        return
    with tempfile.TemporaryDirectory(prefix="musicgen-") as folder:
        try:
            with full_disk_named(Path(folder), "point TMPDIR to another disk"):
                _unpack(source, Path(folder))
        except _DAMAGE as error:
            raise ValueError(f"the archive {source} cannot be unpacked: {error}") from None
        yield Path(folder)


def _unpack(source: Path, folder: Path) -> None:
    total = 0
    for name, size, file in _members(source):
        path = PurePosixPath(name.replace("\\", "/"))
        if path.is_absolute() or ".." in path.parts or PureWindowsPath(name).drive:
            raise ValueError(f"the archive {source} would write outside its folder: {name!r}")
        total += size
        if total > MOST_BYTES:
            raise ValueError(f"the archive {source} unpacks to more than {MOST_BYTES >> 30} GB")
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        with file, target.open("wb") as output:
            shutil.copyfileobj(file, output)


def _members(source: Path) -> Iterator[tuple[str, int, IO[bytes]]]:
    """Yield name, size and content of the regular files; links and devices are left out."""
    # First, since a tar archive that ends with a zip file, as of scores, looks like that one.
    if tarfile.is_tarfile(source):
        with tarfile.open(source) as archive:
            for member in archive:
                content = archive.extractfile(member) if member.isfile() else None
                if content is not None:
                    yield member.name, member.size, content
    elif zipfile.is_zipfile(source):
        with zipfile.ZipFile(source) as archive:
            for entry in archive.infolist():
                if not entry.is_dir():
                    yield entry.filename, entry.file_size, archive.open(entry)
    else:
        raise ValueError(
            f"{source} is neither a folder nor a tar or zip archive; give one that holds the music"
        )
