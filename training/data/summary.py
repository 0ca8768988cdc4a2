"""What is in a prepared data set: its tokens by family, its pieces by length, and how they look."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from tokenization.prepared import SPLITS, Prepared

QUANTILES = {"shortest": 0.0, "5 %": 0.05, "median": 0.5, "95 %": 0.95, "longest": 1.0}
EXCERPT_TOKENS = 120
_BLOCK_TOKENS = 1 << 22


def length_quantiles(prepared: Prepared) -> dict[str, dict[str, int]]:
    """Return how many tokens the pieces of each split that has some are long."""
    return {
        split: {
            name: int(np.quantile(prepared.pieces.length[rows], share))
            for name, share in QUANTILES.items()
        }
        for split in SPLITS
        if len(rows := prepared.rows(split))
    }


def family_shares(prepared: Prepared) -> dict[str, float]:
    """Return each family's share of the tokens."""
    blocks = prepared.meta["vocabulary"]
    counts = np.zeros(max(block["stop"] for block in blocks), dtype=np.int64)
    for start in range(0, len(prepared.tokens), _BLOCK_TOKENS):
        counts += np.bincount(prepared.tokens[start : start + _BLOCK_TOKENS], minlength=len(counts))
    total = counts.sum()
    return {
        block["name"]: float(counts[block["start"] : block["stop"]].sum() / total)
        for block in blocks
    }


def excerpt(prepared: Prepared, row: int) -> str:
    """Return the beginning of a piece by the tokens' names, a line a bar."""
    names = [name for block in prepared.meta["vocabulary"] for name in block["tokens"]]
    ids = prepared.ids(row)[:EXCERPT_TOKENS]
    bars = prepared.bars(row)
    starts = [0, *(int(bar) for bar in bars if 0 < bar < len(ids)), len(ids)]
    lines = (" ".join(names[i] for i in ids[a:b]) for a, b in pairwise(starts) if b > a)
    return "\n".join(lines) + (" …" if prepared.pieces.length[row] > len(ids) else "")


def summary(prepared: Prepared) -> dict[str, Any]:
    """Return all of it as plain data, after a check of the tokens against their checksum."""
    prepared.verify()
    meta = prepared.meta
    row = int(next(rows for split in SPLITS if len(rows := prepared.rows(split)))[0])
    return {
        "folder": str(prepared.folder),
        "source": meta["source"],
        "language": meta["language"]["language"],
        "vocabulary_size": meta["language"]["tokens"],
        "tokens": meta["tokens"],
        "checksum": meta["checksum"],
        "counts": meta["counts"],
        "styles": len(meta["styles"]),
        "lengths": length_quantiles(prepared),
        "families": family_shares(prepared),
        "notes": meta["notes"],
        "losses": meta["losses"],
        "remarks": meta["remarks"],
        "skipped": meta["skipped"],
        "excerpt": {"name": prepared.name(row), "tokens": excerpt(prepared, row)},
    }
