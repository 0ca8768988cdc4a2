"""A prepared data set, written: beside its destination first, and put in its place when whole."""

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
from tokenization.prepared import NO_STYLE, PIECES_FILE, TOKEN_TYPE, TOKENS_FILE, Pieces
from tokenization.set_description import FORMAT, META_FILE, SPLITS, read_meta
from tokenization.whole_file import make_folder, sync
from training.disk import full_disk_named, held

ELSEWHERE = "name another place for the set"


class PreparedWriter:
    """Takes files in order, in bounded memory; `commit` makes the set, anything else leaves no trace.

    The set grows in a hidden folder beside the destination, so that putting it in place is a
    rename. A set that stands there is moved aside for that moment; should the machine stop right
    then, the next run puts it back.
    """

    def __init__(self, destination: Path, *, replace: bool) -> None:
        self.destination = Path(os.path.realpath(destination))
        self._part = self.destination.with_name(f".{self.destination.name}.part")
        self._old = self.destination.with_name(f".{self.destination.name}.old")
        self._replace = replace
        self._is_in_place = False
        self._digest = hashlib.sha256()
        self._tokens = 0
        self._rows: list[tuple[int, int, int, int, int]] = []  # length, notes, file, split, style
        self._bars: list[np.ndarray] = []
        self._names: list[str] = []
        self.names_of_works: list[str] = []  # of each file, in its source
        self.works: list[tuple[str, ...]] = []  # the keys of each file's work
        self._styles: dict[str, int] = {}

    def __enter__(self) -> PreparedWriter:
        with self._disk():
            make_folder(self.destination.parent, ELSEWHERE)
            if self._old.is_dir() and not self.destination.exists():
                self._old.rename(self.destination)
            check_destination(self.destination, replace=self._replace)
            make_folder(self._part, ELSEWHERE, for_=self.destination)
            self._lock = held(
                self._part, f"another run is writing {self.destination} at this moment"
            )
            for left in self._part.iterdir():  # of a run that was killed
                left.unlink()
            self._file = (self._part / TOKENS_FILE).open("wb")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with suppress(OSError):  # a full disk complains again
            self._file.close()
        if not self._is_in_place:  # else the next run may be filling a folder of that name
            shutil.rmtree(self._part, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)

    @property
    def files(self) -> int:
        """How many files were added."""
        return len(self._names)

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
        number = NO_STYLE if not style else self._styles.setdefault(style, len(self._styles))
        for row in rows:
            data = np.ascontiguousarray(row.ids, dtype=TOKEN_TYPE).tobytes()
            with self._disk():
                self._file.write(data)
            self._digest.update(data)
            self._tokens += len(row.ids)
            entry = (len(row.ids), row.notes, len(self._names), SPLITS.index(split), number)
            self._rows.append(entry)
            self._bars.append(np.asarray(row.bars, dtype=np.uint32))
        self._names.append(name)
        self.names_of_works.append(work)
        self.works.append(works)

    def hold_out(self, splits: Sequence[str]) -> None:
        """Give each file another split, in their order."""
        numbers = [SPLITS.index(split) for split in splits]
        self._rows = [(*row[:3], numbers[row[2]], row[4]) for row in self._rows]

    def commit(self, meta: dict[str, Any], notices: Sequence[tuple[Path, str]] = ()) -> None:
        """Put the set in its place, with its description and copies of the source's notices."""
        meta = {
            "format": FORMAT,
            **meta,
            "counts": self._counts(),
            "styles": list(self._styles),
            "tokens": self._tokens,
            "checksum": self._digest.hexdigest(),
        }
        with self._disk():
            self._file.close()
            columns = vars(self._pieces())
            if not any(self.works):  # as sets were before there were any
                columns = {name: column for name, column in columns.items() if name != "works"}
            _save(self._part / PIECES_FILE, columns)
            text = json.dumps(meta, indent=1, ensure_ascii=False) + "\n"
            (self._part / META_FILE).write_text(text, encoding="utf-8", errors="backslashreplace")
            for source, name in notices:
                shutil.copyfile(source, self._part / name)
            for path in [*self._part.iterdir(), self._part]:
                sync(path)
            self._swap()

    def _swap(self) -> None:
        check_destination(self.destination, replace=self._replace)
        shutil.rmtree(self._old, ignore_errors=True)
        if self.destination.exists():
            self.destination.rename(self._old)
        self._part.rename(self.destination)
        self._is_in_place = True
        sync(self.destination.parent)
        shutil.rmtree(self._old, ignore_errors=True)

    def _pieces(self) -> Pieces:
        length, notes, file, split, style = np.array(self._rows, dtype=np.int64).T
        bars = [len(row) for row in self._bars]
        return Pieces(
            start=np.cumsum(length) - length,
            length=length,
            notes=notes,
            bar_start=np.append(0, np.cumsum(bars, dtype=np.int64)),
            bars=np.concatenate(self._bars),
            file=file,
            split=split.astype(np.uint8),
            style=style.astype(np.int32),
            names=np.array(self._names, dtype=np.str_),
            works=np.array(["\n".join(keys) for keys in self.works], dtype=np.str_),
        )

    def _counts(self) -> dict[str, dict[str, int]]:
        pieces = self._pieces()
        bars = np.diff(pieces.bar_start)
        counts = {}
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

    def _disk(self) -> AbstractContextManager[None]:
        return full_disk_named(
            self.destination.parent, "write the data set elsewhere (nothing was changed)"
        )


def _save(path: Path, columns: dict[str, np.ndarray]) -> None:
    """Write columns as numpy's npz; its own `savez` cannot have a column called `file`."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, column in columns.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, column, allow_pickle=False)


def check_destination(destination: Path, *, replace: bool) -> None:
    """Raise ValueError where writing would overwrite what is not ours to overwrite."""
    if not destination.exists():
        return
    if not destination.is_dir():
        raise ValueError(f"{destination} is a file; give a folder to write the data set to")
    if not any(destination.iterdir()):
        return
    try:
        meta = read_meta(destination)
    except ValueError:
        raise ValueError(
            f"{destination} is not empty and holds no prepared data set; "
            "choose a new folder, nothing was written"
        ) from None
    if not replace:
        raise ValueError(
            f"{destination} already holds a prepared data set of {meta['tokens']} tokens; "
            "choose another folder, or replace it with --force"
        )
