"""The report on a prepared set: what was skipped, lost and assumed, over all of its files."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from training.data.sources.listing import Skipped

MOST_REMARKS = 50  # kinds of remarks that are kept
# What differs between two remarks of a kind: numbers, names in quotes, and what a colon introduces.
_PARTICULAR = re.compile(r"\d+(?:[.,]\d+)*|'[^']*'|(?<=:) .*")


@dataclass
class PrepareReport:
    """Grows file by file."""

    skipped: list[Skipped]
    notes: list[str]  # on the source as a whole
    losses: Counter[str] = field(default_factory=Counter)
    _twins: dict[bytes, str] = field(default_factory=dict)  # digest of the tokens → file
    _files: Counter[str] = field(default_factory=Counter)  # of each kind of remark
    _examples: dict[str, str] = field(default_factory=dict)

    def skip(self, name: str, reason: str) -> None:
        """Count a file that is not in the set."""
        self.skipped.append(Skipped(name, reason))

    def twin(self, name: str, digest: bytes) -> str | None:
        """Return the file that had the same tokens, or None for the first that has them."""
        first = self._twins.setdefault(digest, name)
        return None if first == name else first

    def take(self, losses: Mapping[str, int], remarks: Iterable[str]) -> None:
        """Count what one file lost, and its remarks; those that differ in particulars are one kind."""
        self.losses.update(losses)
        for kind, remark in {_PARTICULAR.sub("#", remark): remark for remark in remarks}.items():
            self._files[kind] += 1
            self._examples.setdefault(kind, remark)

    def meta(self) -> dict[str, Any]:
        """Return it as plain data, the most frequent kinds of remarks first."""
        return {
            "notes": self.notes,
            "losses": dict(sorted(self.losses.items())),
            "remarks": [
                {"example": self._examples[kind], "files": files}
                for kind, files in self._files.most_common(MOST_REMARKS)
            ],
            "skipped": [asdict(skipped) for skipped in self.skipped],
        }
