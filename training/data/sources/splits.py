"""Which split a piece belongs to: a hash of its name decides, so that more files move no piece."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

from tokenization.set_description import SPLITS


def split_by_name(name: str, *, validation: float, test: float = 0.0) -> str:
    """Return the split of a name; the two shares are those of names held out, on average."""
    if min(validation, test) < 0 or validation + test >= 1:
        raise ValueError(
            f"shares of {validation:g} for validation and {test:g} for test leave nothing to "
            "train on; they are at least 0 and less than 1 together"
        )
    return split_of(name, {"validation": validation, "test": test})


def split_of(name: str, shares: Mapping[str, float]) -> str:
    """Return the split of a name where so large shares of all names are held out, in this order."""
    digest = hashlib.sha256(name.encode("utf-8", "surrogateescape")).digest()
    place = int.from_bytes(digest[:8], "big") / 2**64
    for split, share in shares.items():
        if place < share:
            return split
        place -= share
    return "train"


def check_styles(pieces: Iterable[tuple[str, str]]) -> None:
    """Raise ValueError if a style, of (style, split) pairs, lies in two splits."""
    seen: dict[str, str] = {}
    for style, split in pieces:
        if style and seen.setdefault(style, split) != split:
            both = " and ".join(name for name in SPLITS if name in {split, seen[style]})
            raise ValueError(
                f"the style {style} lies in {both}, so what is held out would not be new; "
                "move its files into one of the two"
            )
