"""The description of a prepared data set, meta.json: nothing relies on it before it has the right shape."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from tokenization.records import Open, from_json, from_plain

FORMAT = 1
META_FILE = "meta.json"
SPLITS = ("train", "validation", "test")
# What may be left unsaid of a set that was not made from files.
UNSAID = {"notes": [], "losses": {}, "remarks": [], "skipped": []}
UNSAID_OF_SOURCE = {"title": "", "folder": "", "licence": ""}


class _Counted(Open):
    """A record whose whole numbers count something."""

    def __post_init__(self) -> None:
        below = [name for name, value in vars(self).items() if isinstance(value, int) and value < 0]
        if below:
            raise ValueError(f"{below[0]} is {getattr(self, below[0])}, and counts something")


@dataclass(frozen=True)
class _Source(Open):
    title: str
    folder: str
    licence: str


@dataclass(frozen=True)
class _Language(_Counted):
    language: str
    tokens: int


@dataclass(frozen=True)
class _Block(_Counted):
    name: str
    start: int
    stop: int
    tokens: tuple[str, ...]


@dataclass(frozen=True)
class _Remark(_Counted):
    example: str
    files: int


@dataclass(frozen=True)
class _Skipped(Open):
    name: str
    reason: str


@dataclass(frozen=True)
class _Split(_Counted):
    files: int
    pieces: int
    tokens: int
    bars: int
    notes: int


@dataclass(frozen=True)
class _Splits(Open):
    train: _Split
    validation: _Split
    test: _Split


@dataclass(frozen=True)
class _Meta(_Counted):
    """What every description says, among other things."""

    source: _Source
    language: _Language
    vocabulary: tuple[_Block, ...]
    notes: tuple[str, ...]
    losses: dict[str, int]
    remarks: tuple[_Remark, ...]
    skipped: tuple[_Skipped, ...]
    counts: _Splits
    styles: tuple[str, ...]
    tokens: int
    checksum: str

    def __post_init__(self) -> None:
        super().__post_init__()
        if min(self.losses.values(), default=0) < 0:
            raise ValueError("losses has a count below 0")
        borders = [0, *(block.stop for block in self.vocabulary)]
        if borders[-1] != self.language.tokens or any(
            block.start != start or len(block.tokens) != stop - start
            for block, (start, stop) in zip(self.vocabulary, pairwise(borders), strict=True)
        ):
            raise ValueError("vocabulary does not name each token once, block after block")


def family_of(style: str) -> str:
    """Return the family of a style: what is before the last `_` of its name."""
    return style.rpartition("_")[0] or style


def read_meta(folder: Path) -> dict[str, Any]:
    """Return a prepared folder's description; a folder that is none raises ValueError."""
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
            f"{folder} has format {version}, this program reads format {FORMAT}; prepare it again"
        )
    if isinstance(source := meta.get("source"), dict):
        meta = {**UNSAID, **meta, "source": {**UNSAID_OF_SOURCE, **source}}
    try:
        from_plain(_Meta, meta, path.name)
    except ValueError as error:
        raise ValueError(f"{path} is not the description of a prepared data set: {error}") from None
    return meta
