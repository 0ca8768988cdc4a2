"""Experiments with the pieces of a prepared data set: which are taken, a job a model and piece, a table a model."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from evaluation.likelihood import FAR
from evaluation.study.experiments import (
    Experiment,
    Found,
    job_of,
    probed_length,
    taking_part,
)
from musicgen.continuation import Generation
from musicgen.playable import Playable, find, load
from tokenization.prepared import Prepared

Rows = list[dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Which pieces of a prepared data set are taken, and how they are measured."""

    data: str  # its folder
    pieces: int  # at most
    split: str
    seed: int
    device: str
    skip: int = 0  # pieces that are left out: the first in the order in which they are taken

    @property
    def place(self) -> str:
        """Where pieces are looked for, in words."""
        return f"its {self.split} split" + (f" after the first {self.skip}" if self.skip else "")

    @cached_property
    def prepared(self) -> Prepared:
        """The data set, undamaged: results are kept under its checksum."""
        prepared = Prepared.open(self.data)
        prepared.verify()
        return prepared


@dataclass(frozen=True, kw_only=True)
class HeldOut:
    """Pieces that models read up to a length, one row a file: those that fill it first, in the order of the files."""

    choice: Choice
    rows: list[int]
    length: int

    def facts(self) -> dict[str, Any]:
        """Return what is to be known of them."""
        prepared = self.choice.prepared
        return {
            "folder": str(prepared.folder),
            "checksum": prepared.meta["checksum"],
            "language": prepared.meta["language"]["language"],
            "split": self.choice.split,
            "pieces": len(self.rows),
            "whole": int((prepared.pieces.length[self.rows] > self.length).sum()),
            "rows": hashlib.sha256(str(self.rows).encode()).hexdigest()[:16],
        }


def held_out(
    playables: Sequence[Playable], choice: Choice, length: int | None
) -> tuple[list[Playable], HeldOut, list[str]]:
    """Return the models of a data set's language, the pieces for them, and who is left out.

    Without a length, they are read to 4 times the longest trained length.
    """
    prepared = choice.prepared
    able, left_out = taking_part(playables, prepared.language.name, choice.data)
    length = length or int(FAR * max(map(probed_length, able)))
    rows = prepared.rows(choice.split)
    files = prepared.pieces.file[rows]
    random = np.random.default_rng(choice.seed)
    drawn = np.array([random.choice(rows[files == file]) for file in np.unique(files)], dtype=int)
    if not len(drawn):
        raise ValueError(
            f"{choice.data} has no piece in its {choice.split} split; another --split may have"
        )
    fills = prepared.pieces.length[drawn] > length
    order = drawn[np.argsort(~fills, kind="stable")]
    chosen = order[choice.skip :][: choice.pieces].tolist()
    return able, HeldOut(choice=choice, rows=chosen, length=length), left_out


Measure = Generator[Sequence[Generation], None, Rows]
"""A measurement that yields what is to be written for it, and goes on once that is."""


def drawn(
    choice: Choice, random: np.random.Generator, *, fewest_bars: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of different files that have so many bars, and their places by turns of styles: (N,) both.

    What is skipped is counted among files of any length, so it is the same whatever is measured.
    """
    prepared, files = choice.prepared, choice.prepared.pieces.file
    rows = random.permutation(prepared.rows(choice.split))
    first, places = _by_turns(prepared, rows)
    rows = rows[~np.isin(files[rows], files[first[places[: choice.skip]]])]
    rows = np.array([row for row in rows if len(prepared.bars(int(row))) >= fewest_bars], dtype=int)
    return _by_turns(prepared, rows)


def _by_turns(prepared: Prepared, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first row of each file, and their places by turns of styles."""
    _, first = np.unique(prepared.pieces.file[rows], return_index=True)
    rows = rows[np.sort(first)]
    styles = prepared.pieces.style[rows]
    turn = np.array([(styles[:i] == style).sum() for i, style in enumerate(styles)], dtype=int)
    return rows, np.argsort(turn, kind="stable")


def by_piece(
    measure: Callable[..., Measure],
    playables: Iterable[Playable],
    choice: Choice,
    pieces: Sequence[Mapping[str, Any]],
    table: Callable[[Rows], Rows],
    left_out: Sequence[str],
    **arguments: Any,
) -> Experiment:
    """Return the experiment that measures each model with each piece; a piece is what tells its job from others."""
    prepared, common = choice.prepared, {**arguments, "seed": choice.seed}
    jobs = [
        job_of(playable, measure, choice.device, prepared, **common, **piece)
        for playable in playables
        for piece in pieces
    ]

    def compose(found: Found) -> dict[str, Any]:
        rows: dict[str, Rows] = {}
        for playable, _, done in found:
            rows.setdefault(playable.name, []).extend(done.result)
        models = rows.items()
        return {
            "models": [{"model": name, "table": table(own), "rows": own} for name, own in models]
        }

    facts = {
        "data": str(prepared.folder),
        "checksum": prepared.meta["checksum"],
        "split": choice.split,
        "skip": choice.skip,
        "pieces": len(pieces),
        "left_out": left_out,
        **arguments,
    }
    return Experiment(jobs=jobs, compose=compose, prepared=prepared, facts=facts)


def model_of(name: str, device: str) -> Playable:
    """Return the model of a job, which those that are done together share."""
    return _read(name, device, find(name, device).sha256)


@lru_cache(maxsize=1)
def _read(name: str, device: str, sha256: str | None) -> Playable:
    """Read a model; what lies in its folder by now may have other weights."""
    return load(name, device)
