"""Write a prepared set: its tokens file by file, then its description; tokenization/prepared.py reads it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import zipfile
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from tokenization.language import Encoded
from tokenization.prepared import (
    FORMAT,
    META_FILE,
    NO_STYLE,
    PIECES_FILE,
    SPLITS,
    TOKEN_TYPE,
    TOKENS_FILE,
    Pieces,
    read_meta,
)
from tokenization.whole_file import full_disk_named, lock_folder, make_folder, sync
from training.data.sources.works import split_works

ELSEWHERE = "choose another folder for the set"


class PreparedWriter:
    """Writes a prepared set file by file; without `commit` it leaves no trace.

    The set is written to a hidden folder next to the destination and then renamed. An existing set is moved aside for
    that moment.
    """

    def __init__(self, destination: Path, *, replace: bool) -> None:
        self.destination = Path(os.path.realpath(destination))
        self._part = self.destination.with_name(f".{self.destination.name}.part")
        self._replace = replace
        self._digest = hashlib.sha256()
        self._tokens = 0
        self._rows: list[tuple[int, int, int]] = []  # length, notes, file
        self._bars: list[np.ndarray] = []
        self._names: list[str] = []
        self._splits: list[str] = []  # of each file
        self._styles: list[str] = []
        self.work_names: list[str] = []  # of each file, in its source
        self.works: list[tuple[str, ...]] = []  # the keys of each file's work

    def __enter__(self) -> PreparedWriter:
        with self._disk():
            make_folder(self.destination.parent, ELSEWHERE)
            check_destination(self.destination, replace=self._replace)
            make_folder(self._part, ELSEWHERE, for_=self.destination)
            self._lock = lock_folder(self._part, f"another program is writing {self.destination}")
            for path in self._part.iterdir():  # left by a program that was killed
                path.unlink()
            self._file = (self._part / TOKENS_FILE).open("wb")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with suppress(OSError):  # a full disk fails again
            self._file.close()
        shutil.rmtree(self._part, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)

    def add(
        self,
        name: str,
        rows: Sequence[Encoded],
        *,
        split: str,
        style: str = "",
        work: str = "",
        works: tuple[str, ...] = (),
    ) -> None:
        """Append the rows of a file."""
        for row in rows:
            data = np.ascontiguousarray(row.ids, dtype=TOKEN_TYPE).tobytes()
            with self._disk():
                self._file.write(data)
            self._digest.update(data)
            self._tokens += len(row.ids)
            self._rows.append((len(row.ids), row.notes, len(self._names)))
            self._bars.append(np.asarray(row.bars, dtype=np.uint32))
        self._names.append(name)
        self._splits.append(split)
        self._styles.append(style)
        self.work_names.append(work)
        self.works.append(works)

    def split_by_works(self, fraction: float, *, by_name: bool, exactly: bool) -> None:
        """Assign each file to the split of its work (works.py)."""
        names, works = self.work_names, self.works
        self._splits = split_works(names, works, fraction, by_name=by_name, exactly=exactly)

    def commit(self, meta: dict[str, Any], licence: Path | None = None) -> None:
        """Write the description, copy the source's licence, and move the set to its destination."""
        pieces = self._pieces()
        meta = {
            "format": FORMAT,
            **meta,
            "counts": _counts(pieces),
            "styles": self._named_styles(),
            "tokens": self._tokens,
            "checksum": self._digest.hexdigest(),
        }
        with self._disk():
            self._file.close()
            columns = {**vars(pieces)}
            if not any(self.works):  # a column that older sets lack
                del columns["works"]
            _save(self._part / PIECES_FILE, columns)
            text = json.dumps(meta, indent=1, ensure_ascii=False) + "\n"
            (self._part / META_FILE).write_text(text, encoding="utf-8", errors="backslashreplace")
            if licence is not None:
                shutil.copyfile(licence, self._part / "LICENSE")
            for path in [*self._part.iterdir(), self._part]:
                sync(path)
            check_destination(self.destination, replace=self._replace)
            old = self.destination.with_name(f".{self.destination.name}.old")
            shutil.rmtree(old, ignore_errors=True)
            if self.destination.exists():
                self.destination.rename(old)
            self._part.rename(self.destination)
            sync(self.destination.parent)
            shutil.rmtree(old, ignore_errors=True)

    def _named_styles(self) -> list[str]:
        return [style for style in dict.fromkeys(self._styles) if style]

    def _pieces(self) -> Pieces:
        length, notes, file = np.array(self._rows, dtype=np.int64).T
        split = np.array([SPLITS.index(split) for split in self._splits])
        number = {"": NO_STYLE} | {name: at for at, name in enumerate(self._named_styles())}
        style = np.array([number[style] for style in self._styles])
        bars = [len(row) for row in self._bars]
        return Pieces(
            start=np.cumsum(length) - length,
            length=length,
            notes=notes,
            bar_start=np.append(0, np.cumsum(bars, dtype=np.int64)),
            bars=np.concatenate(self._bars),
            file=file,
            split=split[file].astype(np.uint8),
            style=style[file].astype(np.int32),
            names=np.array(self._names, dtype=np.str_),
            works=np.array(["\n".join(keys) for keys in self.works], dtype=np.str_),
        )

    def _disk(self) -> AbstractContextManager[None]:
        return full_disk_named(
            self.destination.parent, "choose another folder for the set (nothing was changed)"
        )


def _counts(pieces: Pieces) -> dict[str, dict[str, int]]:
    """Return the numbers of files, pieces, tokens, bars and notes by split."""
    bars, counts = np.diff(pieces.bar_start), {}
    for number, split in enumerate(SPLITS):
        rows = pieces.split == number
        counts[split] = {
            "files": len(np.unique(pieces.file[rows])),
            "pieces": int(rows.sum()),
            "tokens": int(pieces.length[rows].sum()),
            "bars": int(bars[rows].sum()),
            "notes": int(pieces.notes[rows].sum()),
        }
    return counts


def _save(path: Path, columns: dict[str, np.ndarray]) -> None:
    """Write columns as an npz file; numpy's `savez` does not allow a column named `file`."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, column in columns.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, column, allow_pickle=False)


def check_destination(destination: Path, *, replace: bool) -> None:
    """Raise ValueError if the destination holds anything other than a prepared set that may be replaced."""
    if not destination.exists():
        return
    if not destination.is_dir():
        raise ValueError(f"{destination} is a file; choose a folder for the set")
    if not any(destination.iterdir()):
        return
    try:
        meta = read_meta(destination)
    except ValueError:
        raise ValueError(
            f"{destination} is not empty and has no prepared data set; choose another folder"
        ) from None
    if not replace:
        raise ValueError(
            f"{destination} already holds a prepared data set of {meta['tokens']} tokens; "
            "choose another folder, or replace it with --force"
        )
