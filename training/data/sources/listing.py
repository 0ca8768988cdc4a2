"""The files of a source folder, by their paths below it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tokenization.any_file import ENDINGS, MIDI_ENDINGS


@dataclass(frozen=True)
class Skipped:
    """A file or folder that is not in the prepared set, and why."""

    name: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Listing:
    """All files below a folder, in a fixed order; hidden ones are left out."""

    root: Path
    files: tuple[str, ...]  # with forward slashes
    unreadable: tuple[Skipped, ...] = ()

    @property
    def midi_files(self) -> list[str]:
        """The files that are named like MIDI files."""
        return [file for file in self.files if file.lower().endswith(MIDI_ENDINGS)]

    @property
    def music_files(self) -> list[str]:
        """The files that are named like MIDI, MusicXML or ABC files."""
        return [file for file in self.files if file.lower().endswith(ENDINGS)]

    def path(self, file: str) -> Path:
        """Return where a file lies."""
        return self.root / file


def list_files(root: Path) -> Listing:
    """Walk through a folder; what cannot be read below it is listed with the reason."""
    if not root.exists():
        raise FileNotFoundError(f"there is no folder or archive {root} to read music from")
    if not root.is_dir():
        raise ValueError(
            f"{root} is neither a folder nor an archive; give one that holds the music"
        )
    os.listdir(root)  # no permission here is an error, not a skipped folder
    files: list[str] = []
    unreadable: list[Skipped] = []

    def note(error: OSError) -> None:
        below = os.path.relpath(error.filename, root)
        unreadable.append(Skipped(shown(below), f"the folder cannot be read: {error.strerror}"))

    for folder, folders, names in os.walk(root, onerror=note):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        here, below = Path(folder), Path(folder).relative_to(root)
        for name in folders:
            if (here / name).is_symlink():
                reason = "it is a link to a folder, and such links are not followed"
                unreadable.append(Skipped(shown((below / name).as_posix()), reason))
        for name in sorted(name for name in names if not name.startswith(".")):
            file = (below / name).as_posix()
            if (here / name).is_file():
                files.append(file)
            else:  # to open a pipe would be to wait for somebody to write into it
                unreadable.append(Skipped(shown(file), "it is not a file, or a link to nothing"))
    return Listing(root=root, files=tuple(sorted(files)), unreadable=tuple(unreadable))


def shown(name: str) -> str:
    """Return a file's name as text: bytes that are no text are written out."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")
