"""Prepared data sets end to end, as one: the shards of a set that was prepared in parts, or sets of one language."""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tokenization.prepared import SPLITS, Prepared, family_of


class Shards:
    """Rows of several sets under one numbering; the tokens stay in their files, mapped."""

    def __init__(self, folders: Sequence[str]) -> None:
        if not folders:
            raise ValueError("no data set is named; data.folder is a prepared folder or several")
        self.sets = [Prepared.open(folder) for folder in folders]
        # A set that is named twice is trained on twice as much; it holds no more pieces, and none more out.
        sums = [one.meta["checksum"] for one in self.sets]
        self._is_first = [sums.index(own) == place for place, own in enumerate(sums)]
        first = self.sets[0]
        for other in self.sets[1:]:
            if other.meta["language"] != first.meta["language"]:
                raise ValueError(
                    f"{other.folder} is in another language than {first.folder}: "
                    f"{other.meta['language'].get('language')} in its version, "
                    f"not {first.meta['language'].get('language')}; prepare both alike"
                )
        _check_apart(self.sets, _families, STYLE)
        _check_pieces(self.sets)
        _check_apart(self.sets, _works, WORK)
        self._starts = np.cumsum([0, *(len(one) for one in self.sets)])
        files = np.cumsum([0, *(len(one.pieces.names) for one in self.sets)])
        self.length = np.concatenate([one.pieces.length for one in self.sets])  # (R,)
        self.file = np.concatenate(  # (R,)
            [one.pieces.file + start for one, start in zip(self.sets, files[:-1], strict=True)]
        )

    @property
    def language(self) -> dict[str, Any]:
        """The spec of the language; a ValueError where it differs from the one at hand."""
        return self.sets[0].language.spec()

    @property
    def checksum(self) -> str:
        """What identifies the tokens."""
        sums = [one.meta["checksum"] for one in self.sets]
        return sums[0] if len(sums) == 1 else hashlib.sha256("".join(sums).encode()).hexdigest()

    @property
    def counts(self) -> dict[str, dict[str, int]]:
        """How much there is, by split."""
        totals: dict[str, Counter[str]] = {}
        for one in itertools.compress(self.sets, self._is_first):
            for split, count in one.meta["counts"].items():
                totals.setdefault(split, Counter()).update(count)
        return {split: dict(count) for split, count in totals.items()}

    def described(self, key: str) -> str:
        """Return what the sources of the sets say under a key, each once."""
        described = (one.meta.get("source", {}).get(key) for one in self.sets)
        return ", ".join(dict.fromkeys(str(value) for value in described if value))

    def verify(self) -> None:
        """Raise ValueError if the tokens of a set are not those that were prepared."""
        for one in self.sets:
            one.verify()

    def rows(self, split: str) -> np.ndarray:
        """Return the numbers of the rows of a split, ascending; what is held out stands there once."""
        parts = [
            one.rows(split) + start
            for one, start, is_first in zip(
                self.sets, self._starts[:-1], self._is_first, strict=True
            )
            if is_first or split == "train"
        ]
        return np.concatenate(parts)

    def ids(self, row: int) -> np.ndarray:
        """Return a row's tokens, a view into a file: (length,)."""
        one, row = self._place(row)
        return np.asarray(one.ids(row))  # plain: slices of a memmap are slow

    def bars(self, row: int) -> np.ndarray:
        """Return the offsets in a row's tokens at which its bars start."""
        one, row = self._place(row)
        return one.bars(row)

    def set_of(self, rows: np.ndarray) -> np.ndarray:
        """Return the number of the set that each row lies in."""
        return np.searchsorted(self._starts, rows, side="right") - 1

    def style(self, row: int) -> str | None:
        """Return the style of music that a row's set says it holds."""
        return self._place(row)[0].meta.get("style")

    def _place(self, row: int) -> tuple[Prepared, int]:
        number = int(self.set_of(np.asarray(row)))
        return self.sets[number], row - int(self._starts[number])


STYLE = (
    "{} trains on the style {}, which {} holds out: train on one of the two sets, "
    "or prepare both with the same split"
)
WORK = (
    "{} trains on {}, which begins as or is called what {} holds out as {}: "
    "train on one of the two sets, or prepare their files as one"
)


def _check_apart(
    sets: Sequence[Prepared], said: Callable[[Prepared, np.ndarray], dict[str, str]], why: str
) -> None:
    """Raise ValueError where a set trains on what another holds out; `said` names by key what is in some rows."""
    learns = [one.pieces.split == SPLITS.index("train") for one in sets]
    trained = [said(one, rows) for one, rows in zip(sets, learns, strict=True)]
    held_out = [said(one, ~rows) for one, rows in zip(sets, learns, strict=True)]
    for here, there in itertools.permutations(range(len(sets)), 2):
        for key in sorted(trained[here].keys() & held_out[there].keys()):
            learned, other = trained[here][key], held_out[there][key]
            raise ValueError(why.format(sets[here].folder, learned, sets[there].folder, other))


def _check_pieces(sets: Sequence[Prepared]) -> None:
    """Raise ValueError where a piece that one set holds out is trained on in another, under whatever name."""
    # Few pieces are alike in tokens and notes.
    sizes = [one.pieces.length.astype(np.int64) << 32 | one.pieces.notes for one in sets]
    for here, size in zip(sets, sizes, strict=True):
        for there, other in zip(sets, sizes, strict=True):
            held_out = np.flatnonzero(there.pieces.split != SPLITS.index("train"))
            rows = here.rows("train")
            for row in rows[np.isin(size[rows], other[held_out])] if here is not there else ():
                for twin in held_out[other[held_out] == size[row]]:
                    if np.array_equal(here.ids(row), there.ids(twin)):
                        raise ValueError(
                            f"{here.folder} trains on {here.name(row)}, which {there.folder} holds out as "
                            f"{there.name(twin)}: train on one of the two sets, or prepare their files as one"
                        )


def _works(prepared: Prepared, rows: np.ndarray) -> dict[str, str]:
    """Return a file's name by each key of the works in some rows, in whatever edition."""
    pieces = prepared.pieces
    files = np.unique(pieces.file[rows])
    return {
        key: str(name)
        for name, keys in zip(pieces.names[files], pieces.works[files], strict=True)
        for key in str(keys).split("\n")
        if key
    }


def _families(prepared: Prepared, rows: np.ndarray) -> dict[str, str]:
    """Return the families of the styles in some rows, each under itself: siblings lie on one side."""
    numbers = np.unique(prepared.pieces.style[rows & (prepared.pieces.style >= 0)])
    families = [family_of(prepared.meta["styles"][number]) for number in numbers]
    return dict(zip(families, families, strict=True))
