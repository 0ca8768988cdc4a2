"""The description of a prepared data set, meta.json: nothing relies on it before it has the right shape."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

FORMAT = 1
META_FILE = "meta.json"
SPLITS = ("train", "validation", "test")
COUNTED = ("files", "pieces", "tokens", "bars", "notes")  # by split
_MANY = object()  # in place of a mapping's keys: any
# Types, lists of one shape, mappings with these keys among others; a number is not negative.
SHAPE = {
    "source": {"title": str, "folder": str, "licence": str},
    "language": {"language": str, "tokens": int},
    "vocabulary": [{"name": str, "start": int, "stop": int, "tokens": [str]}],
    "notes": [str],
    "losses": {_MANY: int},
    "remarks": [{"example": str, "files": int}],
    "skipped": [{"name": str, "reason": str}],
    "counts": {split: dict.fromkeys(COUNTED, int) for split in SPLITS},
    "styles": [str],
    "tokens": int,
    "checksum": str,
}
# What may be left unsaid of a set that was not made from files.
UNSAID = {"notes": [], "losses": {}, "remarks": [], "skipped": []}
UNSAID_OF_SOURCE = {"title": "", "folder": "", "licence": ""}


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
    except (ValueError, KeyError, TypeError, RecursionError):
        version, meta = FORMAT, {}
    if version != FORMAT:
        raise ValueError(
            f"{folder} has format {version}, this program reads format {FORMAT}; prepare it again"
        )
    if isinstance(source := meta.get("source"), dict):
        meta = {**UNSAID, **meta, "source": {**UNSAID_OF_SOURCE, **source}}
    if not _has_shape(meta, SHAPE) or not _counts_all(meta):
        raise ValueError(f"{path} is not the description of a prepared data set")
    return meta


def _has_shape(value: Any, shape: Any) -> bool:
    """Say whether plain data is of a shape."""
    if isinstance(shape, list):
        return isinstance(value, list) and all(_has_shape(each, shape[0]) for each in value)
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            return False
        if _MANY in shape:
            return all(_has_shape(each, shape[_MANY]) for each in value.values())
        return all(key in value and _has_shape(value[key], own) for key, own in shape.items())
    return type(value) is shape and (shape is not int or value >= 0)


def _counts_all(meta: dict[str, Any]) -> bool:
    """Say whether the vocabulary names each token of the language once, block after block."""
    blocks = meta["vocabulary"]
    borders = [0, *(block["stop"] for block in blocks)]
    return borders[-1] == meta["language"]["tokens"] and all(
        block["start"] == start and len(block["tokens"]) == stop - start
        for block, (start, stop) in zip(blocks, pairwise(borders), strict=True)
    )
