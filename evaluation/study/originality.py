"""Originality: how much of the music that models generate occurs in their training pieces."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from evaluation.study.piece_jobs import Measure, Rows, continued, score_of
from tokenization.analysis.metres import bar_lines
from tokenization.prepared import Prepared
from tokenization.score import Score

# A note of a passage is one integer key: onset · PITCHES + pitch, with room for transposition, or the drum.

BARS = 2
STEPS_PER_BEAT = 12
LEAST_NOTES = 8
SEMITONES = range(-6, 7)  # transpositions to try
PITCHES = 512  # keys per onset: pitches, then drums from DRUMS on
DRUMS = 192
ROOM = 12  # below the lowest pitch, so that transposed keys stay within their onset


def passages(
    score: Score, start: int, stop: int, step: int = BARS
) -> Iterator[tuple[int, np.ndarray]]:
    """Yield the passages in bars start … stop − 1: the first bar and the sorted keys of the notes of each."""
    score = score.rescaled(STEPS_PER_BEAT)
    onset, pitch, lines = score.notes.onset_ticks, score.notes.pitch, bar_lines(score, stop)
    offsets = np.where(score.on_drums, DRUMS + pitch, ROOM + pitch)
    for bar in range(start, stop - BARS + 1, step):
        first, last = lines[[bar, bar + BARS]]
        inside = (onset >= first) & (onset < last)
        keys = np.unique((onset[inside] - first) * PITCHES + offsets[inside])
        if len(keys) >= LEAST_NOTES:
            yield bar, keys


class Collection:
    """The passages of many pieces, with an index to find them by their notes."""

    def __init__(self, pieces: Iterable[tuple[str, Score, int]]) -> None:
        """Collect the passages of pieces, given as name, score and number of bars."""
        self._where: list[tuple[str, int]] = []
        found = []
        for name, score, bars in pieces:
            for bar, keys in passages(score, 0, bars, 1):
                self._where.append((name, bar))
                found.append(keys)
        self._sizes = np.array([len(keys) for keys in found], dtype=np.int64)
        keys = np.concatenate([np.empty(0, np.int64), *found])
        order = np.argsort(keys, kind="stable")
        self._keys = keys[order]
        self._passages = np.repeat(np.arange(len(found)), self._sizes)[order]

    def write(self, path: Path) -> None:
        """Write the collection to a file, for other processes."""
        names, name = np.unique([name for name, _ in self._where], return_inverse=True)
        where = np.stack([name, [bar for _, bar in self._where]])
        np.savez(
            path, keys=self._keys, passages=self._passages, sizes=self._sizes, names=names, where=where
        )  # fmt: skip

    @classmethod
    def read(cls, path: Path) -> Collection:
        """Read a collection that `write` wrote."""
        found = cls([])
        with np.load(path, allow_pickle=False) as file:
            found._keys, found._passages, found._sizes = (
                file[name] for name in ("keys", "passages", "sizes")
            )
            names, (name, bar) = file["names"], file["where"].tolist()
        found._where = [(str(names[at]), own) for at, own in zip(name, bar, strict=True)]
        return found

    def __len__(self) -> int:
        """Return the number of passages."""
        return len(self._where)

    def closest(self, keys: np.ndarray) -> tuple[float, str, int]:
        """Return the Jaccard index of some keys with the most similar passage in any key, its piece and its bar."""
        pitched = keys % PITCHES < DRUMS
        best = (0.0, "", 0)
        for shift in SEMITONES:
            moved = np.where(pitched, keys + shift, keys)
            first, last = (np.searchsorted(self._keys, moved, side) for side in ("left", "right"))
            holders = [self._passages[a:b] for a, b in zip(first, last, strict=True)]
            shared = np.bincount(np.concatenate(holders), minlength=len(self))
            likeness = shared / (self._sizes + len(keys) - shared)
            closest = int(likeness.argmax())
            if likeness[closest] > best[0]:
                best = (float(likeness[closest]), *self._where[closest])
        return best


ALIKE = 0.5  # likeness from which two passages count as alike
CASES = 10  # closest passages to list


def closest_cases(rows: Rows) -> Rows:
    """Return the generated passages that are closest to the training pieces, closest first."""
    cases = [row["case"] | {"piece": row["piece"]} for row in rows if "case" in row]
    return sorted(cases, key=lambda case: -case["likeness"])[:CASES]


@lru_cache(maxsize=1)
def training_passages(data: str, index: str | None = None) -> Collection:
    """Return the passages of the training pieces of a data set, which `index` has if there is such a file."""
    if index is not None and Path(index).is_file():
        return Collection.read(Path(index))
    return collected(data, lambda done, total: None)


def collected(data: str, progress: Callable[[int, int], None]) -> Collection:
    """Collect the passages of the training pieces of a data set."""
    prepared = Prepared.open(data)
    language, rows = prepared.language, prepared.rows("train").tolist()

    def pieces() -> Iterator[tuple[str, Score, int]]:
        for done, row in enumerate(rows):
            progress(done, len(rows))
            ids = np.asarray(prepared.ids(row))
            yield prepared.name(row), language.decode(ids), len(language.bars(ids))

    found = Collection(pieces())
    if not len(found):
        raise ValueError(f"{data} has no training piece with {LEAST_NOTES} notes in {BARS} bars")
    return found


def measure_originality(
    *, data: str, prompt_bars: int, bars: int, index: str | None = None, **asked: Any
) -> Measure:
    """Measure the similarity of a continuation, and of the same bars of the piece, to the training pieces."""
    piece, work = continued(data=data, prompt_bars=prompt_bars, bars=bars, **asked)
    yield [work]
    known, stop = training_passages(data, index), prompt_bars + bars
    likeness: dict[str, list[float]] = {}
    rows: Rows = []
    for side, score in {"written": score_of(work), "real": piece.score}.items():
        likeness[side] = []
        for bar, keys in passages(score, prompt_bars, stop):
            shared, source, source_bar = known.closest(keys)
            likeness[side].append(shared)
            if side == "written":
                case = {"bar": bar, "likeness": shared, "of": source, "at": source_bar}
                rows.append({"piece": piece.name, "case": case})
    measures = {
        "closest passage": np.mean,
        "most of it alike": lambda values: np.mean(np.array(values) >= ALIKE),
        "the same": lambda values: np.mean(np.array(values) == 1),
    }
    for name, measure in measures.items():
        sides = {
            side: float(measure(values)) if values else None for side, values in likeness.items()
        }
        rows.append({"piece": piece.name, "measure": name, **sides})
    return rows
