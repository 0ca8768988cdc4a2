"""Read a prepared data set: its description, its memory-mapped tokens, and the index of its pieces.

    tokens.bin   the tokens of all pieces, 16 bits each, little-endian
    pieces.npz   the index: one array per field of `Pieces`
    meta.json    the language and its vocabulary, the source, counts, skipped files, checksum

A row is one piece to train on. A file can have several rows, of which training samples one at a time: a groove file has
one for each track besides bass and drums.
"""

from __future__ import annotations

import hashlib
import zipfile
import zlib
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tokenization.language import Language, language_from_spec
from tokenization.records import from_json

FORMAT = 1
META_FILE = "meta.json"
SPLITS = ("train", "validation", "test")
# Optional entries of the description, for sets that were not made from files.
_DEFAULTS = {"notes": [], "losses": {}, "remarks": [], "skipped": []}
_DEFAULTS_OF_SOURCE = {"title": "", "folder": "", "licence": ""}
# The required entries of the description, with their types. A list has one type for all its elements, a mapping with
# the key _ANY one for all its values.
_ANY = ""
_COUNTED = ("files", "pieces", "tokens", "bars", "notes")
_SHAPE = {
    "source": {"title": str, "folder": str, "licence": str},
    "language": {"language": str, "tokens": int},
    "notes": [str],
    "losses": {_ANY: int},
    "remarks": [{"example": str, "files": int}],
    "skipped": [{"name": str, "reason": str}],
    "counts": {split: dict.fromkeys(_COUNTED, int) for split in SPLITS},
    "styles": [str],
    "tokens": int,
    "checksum": str,
}


def _check(value: Any, shape: Any, where: str) -> None:
    """Raise ValueError if plain data does not have a shape, or contains a negative number."""
    if isinstance(shape, dict) and isinstance(value, dict):
        for name in value if _ANY in shape else shape:
            _check(value.get(name), shape[_ANY if _ANY in shape else name], f"{where}: {name}")
    elif isinstance(shape, list) and isinstance(value, list):
        for one in value:
            _check(one, shape[0], where)
    elif type(value) is not shape or (shape is int and value < 0):
        raise ValueError(f"{where} is {value!r:.40}")


def family_of(style: str) -> str:
    """Return the family of a style: its name up to the last `_`."""
    return style.rpartition("_")[0] or style


def read_meta(folder: Path) -> dict[str, Any]:
    """Return the description of a prepared data set; raise ValueError if the folder is not one."""
    if not folder.is_dir():
        raise FileNotFoundError(
            f"there is no prepared data set {folder}; `musicgen data` prepares one"
        )
    path = folder / META_FILE
    if not path.is_file():
        raise ValueError(
            f"{folder} is not a prepared data set: it has no {META_FILE}; `musicgen data` prepares one"
        )
    try:
        meta = from_json(path.read_text(encoding="utf-8"), str(path))
        version = meta["format"]
    except (ValueError, KeyError, TypeError):
        version, meta = FORMAT, {}
    if version != FORMAT:
        raise ValueError(
            f"{folder} has format {version}, but this program reads format {FORMAT}; prepare it again"
        )
    if isinstance(source := meta.get("source"), dict):
        meta = {**_DEFAULTS, **meta, "source": {**_DEFAULTS_OF_SOURCE, **source}}
    try:
        _check(meta, _SHAPE, path.name)
    except ValueError as error:
        raise ValueError(f"{path} is not the description of a prepared data set: {error}") from None
    return meta


TOKENS_FILE, PIECES_FILE = "tokens.bin", "pieces.npz"
TOKEN_TYPE = np.dtype("<u2")
NO_STYLE = -1
# Limits on the size of the unpacked index: this many bytes, and more if it is compressed by at most this factor.
FREE_BYTES, MOST_TIMES = 1 << 28, 100
COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # of numpy
DAMAGE = (OSError, ValueError, KeyError, TypeError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error)  # fmt: skip
_BLOCK_BYTES = 1 << 22


@dataclass(frozen=True, kw_only=True, eq=False)
class Pieces:
    """The index of R rows from F files; offsets are in tokens."""

    start: np.ndarray  # (R,) int64
    length: np.ndarray  # (R,) int64
    notes: np.ndarray  # (R,) int64
    bar_start: np.ndarray  # (R + 1,) int64: row r has bars[bar_start[r] : bar_start[r + 1]]
    bars: np.ndarray  # (all bars,) uint32: the offset of each bar from the start of its row
    file: np.ndarray  # (R,) int64: index into names and works
    split: np.ndarray  # (R,) uint8: index into SPLITS
    style: np.ndarray  # (R,) int32: index into the meta's styles, or NO_STYLE
    names: np.ndarray  # (F,) the name of each file
    works: (
        np.ndarray
    )  # (F,) the keys of each file's work, one per line; empty in sets not split by works


@dataclass(frozen=True, kw_only=True, eq=False)
class Prepared:
    """A data set that may be larger than memory."""

    folder: Path
    meta: dict[str, Any]
    pieces: Pieces
    tokens: np.ndarray  # (T,) uint16, mapped

    @classmethod
    def open(cls, folder: str | Path) -> Prepared:
        """Open a prepared folder; raise an error that explains what is wrong with it."""
        folder = Path(folder)
        meta = read_meta(folder)
        tokens, size = folder / TOKENS_FILE, meta["tokens"] * TOKEN_TYPE.itemsize
        found = tokens.stat().st_size if tokens.exists() else 0
        if found != size or not size:
            raise ValueError(f"{tokens} has {found} bytes but needs {size}; prepare the set again")
        return cls(
            folder=folder,
            meta=meta,
            pieces=_read_pieces(folder / PIECES_FILE, meta),
            tokens=np.memmap(tokens, dtype=TOKEN_TYPE, mode="r"),
        )

    def __len__(self) -> int:
        return len(self.pieces.start)

    def __reduce__(self) -> tuple[Any, ...]:
        return Prepared.open, (self.folder,)  # another process maps the file instead of copying it

    @cached_property
    def language(self) -> Language:
        """The language of the tokens; ValueError if this program's version differs."""
        return language_from_spec(self.meta["language"])

    def ids(self, row: int) -> np.ndarray:
        """Return the tokens of a row, (length,), as a view of the file."""
        start = self.pieces.start[row]
        return self.tokens[start : start + self.pieces.length[row]]

    def bars(self, row: int) -> np.ndarray:
        """Return the offset of each bar in a row's tokens."""
        first, last = self.pieces.bar_start[row : row + 2]
        return self.pieces.bars[first:last]

    def rows(self, split: str) -> np.ndarray:
        """Return the indices of the rows of a split, ascending."""
        if split not in SPLITS:
            raise ValueError(f"there is no split {split!r}; available: {', '.join(SPLITS)}")
        return np.flatnonzero(self.pieces.split == SPLITS.index(split))

    def name(self, row: int) -> str:
        """Return the name of a row's file."""
        return str(self.pieces.names[self.pieces.file[row]])

    def teaches(self, row: int) -> bool:
        """Return whether critics that choose and teach may learn from a row; those that judge have the rest."""
        return zlib.crc32(self.name(row).encode()) % 2 == 1

    def verify(self) -> None:
        """Raise ValueError if the checksum of the tokens is wrong, or one is outside the vocabulary."""
        digest, highest = hashlib.sha256(), 0
        with (self.folder / TOKENS_FILE).open("rb") as file:
            while block := file.read(_BLOCK_BYTES):
                digest.update(block)
                highest = max(highest, int(np.frombuffer(block, TOKEN_TYPE).max()))
        if digest.hexdigest() != self.meta["checksum"]:
            raise ValueError(
                f"{self.folder / TOKENS_FILE} is damaged: its checksum is not the one in "
                f"{META_FILE}; prepare the set again"
            )
        if highest >= self.meta["language"]["tokens"]:
            raise ValueError(
                f"{self.folder / TOKENS_FILE} contains token {highest}, but its language has only "
                f"{self.meta['language']['tokens']} tokens; prepare the set again"
            )


def _read_pieces(path: Path, meta: dict[str, Any]) -> Pieces:
    try:
        if not path.is_file():
            raise OSError("not a file")  # reading a pipe could block
        with path.open("rb") as file, np.load(file, allow_pickle=False) as columns:
            members = columns.zip.infolist()
            if any(one.compress_type not in COMPRESSIONS for one in members):
                raise ValueError("another compression than numpy's")
            unpacked = sum(one.file_size for one in members)
            if unpacked > FREE_BYTES + MOST_TIMES * path.stat().st_size:
                raise ValueError("a zip bomb")
            names = (field.name for field in fields(Pieces))
            found = {name: columns[name] for name in names if name in columns}
            # Sets that were prepared by earlier versions have no works.
            found.setdefault("works", np.zeros_like(found["names"], dtype="U1"))
            pieces = Pieces(**found)
    except DAMAGE:
        raise ValueError(f"{path} is missing or damaged; prepare the set again") from None
    if not _fit(pieces, meta["tokens"], len(meta["styles"])):
        raise ValueError(f"{path} does not match the tokens of the set; prepare the set again")
    return pieces


def _fit(pieces: Pieces, tokens: int, styles: int) -> bool:
    """Return whether the columns match each other and the numbers of tokens and styles."""
    columns = vars(pieces)
    of_rows = ("start", "length", "notes", "file", "split", "style")
    numbers = ("start", "length", "notes", "bar_start", "bars", "file", "split", "style")
    rows, bars = len(pieces.start) if pieces.start.ndim else 0, pieces.bar_start
    if any(column.ndim != 1 for column in columns.values()):
        return False
    if any(len(columns[name]) != rows for name in of_rows) or len(bars) != rows + 1:
        return False
    kinds = [columns[name].dtype for name in numbers]
    # NumPy would convert unsigned 64-bit integers to floats.
    if any(kind.kind not in "iu" or not np.can_cast(kind, np.int64) for kind in kinds):
        return False
    if {pieces.names.dtype.kind, pieces.works.dtype.kind} != {"U"}:
        return False
    if len(pieces.works) != len(pieces.names):
        return False
    return bool(
        rows
        and np.array_equal(pieces.start, np.cumsum(pieces.length) - pieces.length)
        and int(pieces.length.sum()) == tokens
        and (pieces.length >= 0).all()
        and bars[0] == 0
        and bars[-1] == len(pieces.bars)
        and (np.diff(bars.astype(np.int64)) >= 0).all()
        and (pieces.bars <= np.repeat(pieces.length, np.diff(bars.astype(np.int64)))).all()
        and _all_within(pieces.file, 0, len(pieces.names))
        and _all_within(pieces.split, 0, len(SPLITS))
        and _all_within(pieces.style, NO_STYLE, styles)
    )


def _all_within(column: np.ndarray, first: int, stop: int) -> bool:
    return bool(column.min() >= first and column.max() < stop)
