"""Prepared data sets end to end, as one: the shards of a set that was prepared in parts, or sets of one language."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from training.prepared import SPLITS, Prepared
from training.splits import check_styles


class Shards:
    """Rows of several sets under one numbering; the tokens stay in their files, mapped."""

    def __init__(self, folders: Sequence[str]) -> None:
        if not folders:
            raise ValueError("no data set is named; data.folder is a prepared folder or several")
        self.sets = [Prepared.open(folder) for folder in folders]
        first = self.sets[0]
        for other in self.sets[1:]:
            if other.meta["language"] != first.meta["language"]:
                raise ValueError(
                    f"{other.folder} is in another language than {first.folder}: "
                    f"{other.meta['language'].get('language')} in its version, "
                    f"not {first.meta['language'].get('language')}; prepare both alike"
                )
        _check_styles(self.sets)
        self._starts = np.cumsum([0, *(len(one) for one in self.sets)])
        files = np.cumsum([0, *(len(one.pieces.names) for one in self.sets)])
        self.length = np.concatenate([one.pieces.length for one in self.sets])  # (R,)
        self.file = np.concatenate(  # (R,)
            [one.pieces.file + start for one, start in zip(self.sets, files[:-1], strict=True)]
        )

    @property
    def language(self) -> dict[str, Any]:
        """The spec of the language."""
        return self.sets[0].meta["language"]

    @property
    def checksum(self) -> str:
        """What identifies the tokens."""
        sums = [one.meta["checksum"] for one in self.sets]
        return sums[0] if len(sums) == 1 else hashlib.sha256("".join(sums).encode()).hexdigest()

    @property
    def counts(self) -> dict[str, dict[str, int]]:
        """How much there is, by split."""
        totals: dict[str, Counter[str]] = {}
        for one in self.sets:
            for split, count in one.meta["counts"].items():
                totals.setdefault(split, Counter()).update(count)
        return {split: dict(count) for split, count in totals.items()}

    def said(self, key: str) -> str:
        """Return what the sources of the sets say under a key, each once."""
        said = (one.meta.get("source", {}).get(key) for one in self.sets)
        return ", ".join(dict.fromkeys(str(value) for value in said if value))

    def rows(self, split: str) -> np.ndarray:
        """Return the numbers of the rows of a split, ascending."""
        starts = self._starts[:-1]
        parts = [one.rows(split) + start for one, start in zip(self.sets, starts, strict=True)]
        return np.concatenate(parts)

    def ids(self, row: int) -> np.ndarray:
        """Return a row's tokens, a view into a file: (length,)."""
        one, row = self._place(row)
        return np.asarray(one.ids(row))  # plain: slices of a memmap are slow

    def bars(self, row: int) -> np.ndarray:
        """Return the offsets in a row's tokens at which its bars start."""
        one, row = self._place(row)
        return one.bars(row)

    def _place(self, row: int) -> tuple[Prepared, int]:
        number = int(np.searchsorted(self._starts, row, side="right")) - 1
        return self.sets[number], row - int(self._starts[number])


def _check_styles(sets: Sequence[Prepared]) -> None:
    """Raise ValueError where a style that one set holds out is trained on in another."""
    pairs = {
        (one.meta["styles"][style], SPLITS[split])
        for one in (sets if len(sets) > 1 else ())
        for style, split in zip(one.pieces.style.tolist(), one.pieces.split.tolist(), strict=True)
        if style >= 0
    }
    check_styles(sorted(pairs))
