"""Several prepared sets of one language as a single data set."""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from tokenization.prepared import SPLITS, Prepared, family_of


class Shards:
    """The rows of several sets under common numbers; their tokens stay memory-mapped."""

    def __init__(self, folders: Sequence[str]) -> None:
        if not folders:
            raise ValueError("no data set is given; data.folder takes one prepared folder or more")
        self.sets = [Prepared.open(folder) for folder in dict.fromkeys(folders)]
        first = self.sets[0]
        for other in self.sets[1:]:
            names = [one.meta["language"].get("language") for one in (other, first)]
            if names[0] != names[1]:
                raise ValueError(
                    f"{other.folder} and {first.folder} are in different languages "
                    f"({', '.join(map(str, names))}); prepare both in the same"
                )
        if len(self.sets) > 1:
            _check_disjoint(self.sets)
        self._starts = np.cumsum([0, *(len(one) for one in self.sets)])
        files = np.cumsum([0, *(len(one.pieces.names) for one in self.sets)])
        self.length = np.concatenate([one.pieces.length for one in self.sets])  # (R,)
        self.file = np.concatenate(  # (R,)
            [one.pieces.file + start for one, start in zip(self.sets, files[:-1], strict=True)]
        )

    @property
    def language(self) -> dict[str, Any]:
        """The spec of the sets' latest version of the language; raises ValueError if one is not installed."""
        specs = [one.language.spec() for one in self.sets]
        return max(specs, key=lambda spec: spec["tokens"])

    @property
    def highest(self) -> int:
        """The highest token of all sets."""
        return max(int(one.tokens.max()) for one in self.sets)

    @property
    def checksum(self) -> str:
        """The checksum of all tokens."""
        sums = [one.meta["checksum"] for one in self.sets]
        return sums[0] if len(sums) == 1 else hashlib.sha256("".join(sums).encode()).hexdigest()

    @property
    def counts(self) -> dict[str, dict[str, int]]:
        """The numbers of files, pieces, tokens, bars and notes by split."""
        totals: dict[str, Counter[str]] = {}
        for one in self.sets:
            for split, count in one.meta["counts"].items():
                totals.setdefault(split, Counter()).update(count)
        return {split: dict(count) for split, count in totals.items()}

    def described(self, key: str) -> str:
        """Return the distinct values of a key in the descriptions of the sets' sources, joined by commas."""
        described = (one.meta.get("source", {}).get(key) for one in self.sets)
        return ", ".join(dict.fromkeys(str(value) for value in described if value))

    def verify(self) -> None:
        """Raise ValueError if the tokens of a set are damaged."""
        for one in self.sets:
            one.verify()

    def rows(self, split: str) -> np.ndarray:
        """Return the row numbers of a split in ascending order."""
        starts = self._starts[:-1]
        return np.concatenate(
            [one.rows(split) + start for one, start in zip(self.sets, starts, strict=True)]
        )

    def ids(self, row: int) -> np.ndarray:
        """Return a row's tokens, a view into a file: (length,)."""
        one, row = self._place(row)
        return np.asarray(one.ids(row))  # a plain array, since slices of a memmap are slow

    def bars(self, row: int) -> np.ndarray:
        """Return the offsets of a row's bars in its tokens."""
        one, row = self._place(row)
        return one.bars(row)

    def set_of(self, rows: np.ndarray) -> np.ndarray:
        """Return the number of the set that each row belongs to."""
        return np.searchsorted(self._starts, rows, side="right") - 1

    def style(self, row: int) -> str | None:
        """Return the style of the set that a row belongs to."""
        return self._place(row)[0].meta.get("style")

    def name(self, row: int) -> str:
        """Return the name of a row's file."""
        one, row = self._place(row)
        return one.name(row)

    def teaches(self, row: int) -> bool:
        """Return whether critics that select and teach learn from a training row (Prepared)."""
        one, row = self._place(row)
        return one.teaches(row)

    def _place(self, row: int) -> tuple[Prepared, int]:
        number = int(self.set_of(np.asarray(row)))
        return self.sets[number], row - int(self._starts[number])


OPENING = 256  # tokens, by which pieces of equal length are compared


def _check_disjoint(sets: Sequence[Prepared]) -> None:
    """Raise ValueError if a set trains on a style, piece or work that another holds out."""
    is_train = [one.pieces.split == SPLITS.index("train") for one in sets]
    for names_by_key in (_families, _pieces, _works):
        trained = [names_by_key(one, rows) for one, rows in zip(sets, is_train, strict=True)]
        held_out = [names_by_key(one, ~rows) for one, rows in zip(sets, is_train, strict=True)]
        for here, there in itertools.permutations(range(len(sets)), 2):
            for key in sorted(trained[here].keys() & held_out[there].keys()):
                raise ValueError(
                    f"{sets[here].folder} trains on {trained[here][key]}, which {sets[there].folder} holds out as "
                    f"{held_out[there][key]} (the notes, the opening, the title or the style are the same): train on "
                    "only one of the two sets, or prepare their files as one"
                )


def _families(prepared: Prepared, rows: np.ndarray) -> dict[str, str]:
    """Return the families of the styles in some rows, as keys and names: a family is held out as a whole."""
    numbers = np.unique(prepared.pieces.style[rows & (prepared.pieces.style >= 0)])
    families = [family_of(prepared.meta["styles"][number]) for number in numbers]
    return {family: f"the style {family}" for family in families}


def _pieces(prepared: Prepared, rows: np.ndarray) -> dict[str, str]:
    """Return file names by digests of the tokens, for some rows."""
    found = {}
    for row in np.flatnonzero(rows).tolist():
        ids = prepared.ids(row)
        digest = hashlib.sha256(ids[:OPENING].tobytes()).hexdigest()
        found[f"{len(ids)} {digest}"] = prepared.name(row)
    return found


def _works(prepared: Prepared, rows: np.ndarray) -> dict[str, str]:
    """Return file names by the keys of their works, for some rows."""
    pieces = prepared.pieces
    files = np.unique(pieces.file[rows])
    return {
        key: str(name)
        for name, keys in zip(pieces.names[files], pieces.works[files], strict=True)
        for key in str(keys).split("\n")
        if key
    }
