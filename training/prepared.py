"""A prepared data set, read: tokens mapped into memory, and where each piece lies in them.

    tokens.bin   all pieces end to end, 16 bits a token, little-endian
    pieces.npz   where the pieces lie, by the names of the fields of `Pieces`
    meta.json    the language and its vocabulary, the source, counts, skipped files, checksum

A row is what a model is trained on. A file may have several rows, of which one is drawn at a time:
those of a groove file are its bass and drums with each of the other tracks in turn.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

FORMAT = 1
SPLITS = ("train", "validation", "test")
TOKENS_FILE, PIECES_FILE, META_FILE = "tokens.bin", "pieces.npz", "meta.json"
TOKEN_TYPE = np.dtype("<u2")
NO_STYLE = -1
_BLOCK_BYTES = 1 << 22


@dataclass(frozen=True, kw_only=True, eq=False)
class Pieces:
    """Where R rows of F files lie in the tokens; offsets are in tokens."""

    start: np.ndarray  # (R,) int64
    length: np.ndarray  # (R,) int64
    notes: np.ndarray  # (R,) int64
    bar_start: np.ndarray  # (R + 1,) int64: row r has bars[bar_start[r] : bar_start[r + 1]]
    bars: np.ndarray  # (all bars,) uint32: where each bar starts, counted from the row's start
    file: np.ndarray  # (R,) int64: rows of one file have one number
    split: np.ndarray  # (R,) uint8: index into SPLITS
    style: np.ndarray  # (R,) int32: index into the meta's styles, or NO_STYLE
    setting: np.ndarray  # (R,) JSON as bytes: what the language keeps beside the tokens, or empty
    names: np.ndarray  # (F,) the name of each file


@dataclass(frozen=True, kw_only=True, eq=False)
class Prepared:
    """A data set that may be larger than memory."""

    folder: Path
    meta: dict[str, Any]
    pieces: Pieces
    tokens: np.ndarray  # (T,) uint16, mapped

    @classmethod
    def open(cls, folder: str | Path) -> Prepared:
        """Open a prepared folder, or say what is wrong with it."""
        folder = Path(folder)
        meta = read_meta(folder)
        tokens, size = folder / TOKENS_FILE, meta["tokens"] * TOKEN_TYPE.itemsize
        found = tokens.stat().st_size if tokens.exists() else 0
        if found != size or not size:
            raise ValueError(f"{tokens} has {found} bytes but needs {size}; prepare the set again")
        return cls(
            folder=folder,
            meta=meta,
            pieces=_read_pieces(folder / PIECES_FILE, meta["tokens"]),
            tokens=np.memmap(tokens, dtype=TOKEN_TYPE, mode="r"),
        )

    def __len__(self) -> int:
        return len(self.pieces.start)

    def __reduce__(self) -> tuple[Any, ...]:
        return Prepared.open, (self.folder,)  # another process maps the file, it gets no copy

    def ids(self, row: int) -> np.ndarray:
        """Return a row's tokens, a view into the file: (length,)."""
        start = self.pieces.start[row]
        return self.tokens[start : start + self.pieces.length[row]]

    def bars(self, row: int) -> np.ndarray:
        """Return the offsets in a row's tokens at which its bars start."""
        first, last = self.pieces.bar_start[row : row + 2]
        return self.pieces.bars[first:last]

    def rows(self, split: str) -> np.ndarray:
        """Return the numbers of the rows of a split, ascending."""
        if split not in SPLITS:
            raise ValueError(f"there is no split {split!r}; there are {', '.join(SPLITS)}")
        return np.flatnonzero(self.pieces.split == SPLITS.index(split))

    def name(self, row: int) -> str:
        """Return the name of the file that a row comes from."""
        return str(self.pieces.names[self.pieces.file[row]])

    def setting(self, row: int) -> dict[str, Any] | None:
        """Return what the language keeps beside a row's tokens, as plain data."""
        text = bytes(self.pieces.setting[row])
        return json.loads(text) if text else None

    def verify(self) -> None:
        """Raise ValueError if the tokens are not those that were written."""
        digest = hashlib.sha256()
        with (self.folder / TOKENS_FILE).open("rb") as file:
            while block := file.read(_BLOCK_BYTES):
                digest.update(block)
        if digest.hexdigest() != self.meta["checksum"]:
            raise ValueError(
                f"{self.folder / TOKENS_FILE} is damaged: its checksum is not the one in "
                f"{META_FILE}; prepare the set again"
            )


def read_meta(folder: Path) -> dict[str, Any]:
    """Return a prepared folder's description; a folder that is none raises ValueError."""
    if not folder.is_dir():
        raise FileNotFoundError(
            f"there is no prepared data set {folder}; `musicgen data` prepares one"
        )
    path = folder / META_FILE
    if not path.is_file():
        raise ValueError(
            f"{folder} is no prepared data set: it has no {META_FILE}; `musicgen data` prepares one"
        )
    try:
        meta = json.loads(path.read_text(encoding="utf-8"))
        version = meta["format"]
    except (ValueError, KeyError, TypeError):
        version, meta = FORMAT, {}
    if version == FORMAT and not {"language", "tokens", "checksum", "counts"} <= {*meta}:
        raise ValueError(f"{path} is not the description of a prepared data set")
    if version != FORMAT:
        raise ValueError(
            f"{folder} has format {version}, this program reads format {FORMAT}; prepare it again"
        )
    return meta


def _read_pieces(path: Path, tokens: int) -> Pieces:
    try:
        with np.load(path, allow_pickle=False) as columns:
            pieces = Pieces(**{field.name: columns[field.name] for field in fields(Pieces)})
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        raise ValueError(f"{path} is missing or damaged; prepare the set again") from None
    if int(pieces.length.sum()) != tokens or len(pieces.bar_start) != len(pieces.start) + 1:
        raise ValueError(f"{path} does not belong to the tokens beside it; prepare the set again")
    return pieces
