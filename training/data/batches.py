"""Batches from prepared data sets; batch n is a pure function of (seed, n), so checkpoints need no sampler state.

Each epoch uses every file once, in a new random order, with one of its rows drawn (a groove file has one row for each
of its other tracks). Sets with weights have separate epochs. Of P processes, process p takes the rows p, p + P, … of
each batch.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from tokenization.language import language_from_spec
from tokenization.processes import CONTEXT, started_apart
from training.config import DataConfig
from training.data.ensemble_examples import cut_ensemble
from training.data.examples import Cut, Example, cut_groove, cut_remi
from training.data.shards import Shards

IGNORED = -1  # padding after the end of a piece


def next_token_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the loss at each position in nats, (B, T, V) and (B, T) → (B, T); 0 where IGNORED."""
    scores = logits.to(torch.promote_types(logits.dtype, torch.float32))
    if scores.is_cuda:  # a GPU is faster with classes in the last dimension
        losses = F.cross_entropy(
            scores.flatten(0, 1), targets.flatten(), ignore_index=IGNORED, reduction="none"
        )
        return losses.view_as(targets)
    return F.cross_entropy(scores.transpose(1, 2), targets, ignore_index=IGNORED, reduction="none")


CUTS: dict[str, Cut] = {"remi": cut_remi, "groove": cut_groove, "ensemble": cut_ensemble}
ORDER, CROP, MIX = range(3)  # purposes of random draws
_BLOCK = 512  # sequences in which the sets are mixed exactly by their weights
_HELD_OUT_SEED = 0  # the same for all runs, so that their losses can be compared


class Batches(Dataset[np.ndarray]):
    """The training and validation sequences of a data set."""

    def __init__(
        self, config: DataConfig, seed: int, *, process: int = 0, processes: int = 1
    ) -> None:
        if config.batch % processes:
            raise ValueError(
                f"data.batch is {config.batch}, which is not a multiple of the {processes} processes"
            )
        self.shards = Shards(config.folders)
        self.config, self.seed = config, seed
        self.process, self.processes = process, processes
        self.language = self.shards.language
        self._language = language_from_spec(self.language)
        self._cut = CUTS[self._language.name]
        self._files = _Files(self.shards, self.shards.rows("train"), seed)
        self._held_out = _Files(self.shards, self.shards.rows("validation"), seed)
        if not len(self._files) or not len(self._held_out):
            raise ValueError(
                f"{config.folder} has {len(self._files)} files for training and {len(self._held_out)} "
                "for validation, but needs both; prepare a larger set"
            )
        self._stream = (
            self._files if config.weights is None else _Mixture(self.shards, config, seed)
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle only the arguments; the worker process opens the data set itself."""
        constructor = partial(Batches, process=self.process, processes=self.processes)
        return constructor, (self.config, self.seed)

    def steps(self, steps: int | None, epochs: float | None) -> int:
        """Return the number of steps of a run whose length is given in steps or epochs."""
        if steps is not None:
            return steps
        if self.config.weights is not None:
            raise ValueError("sets with weights have no common epoch; give optimiser.steps")
        return math.ceil((epochs or 0) * len(self._files) / self.config.batch)

    def __getitem__(self, number: int) -> np.ndarray:
        """Return this process's rows of a batch: (B, T + 1) int64, IGNORED after the end of a piece."""
        first = number * self.config.batch
        own = range(first + self.process, first + self.config.batch, self.processes)
        return _padded([self._sequence(n) for n in own], self.config.length + 1)

    def validation(self, count: int, length: int) -> np.ndarray:
        """Return at most `count` held-out sequences without augmentation, the same for every run: (N, length + 1).

        They are the beginnings of pieces: first of those that fill the length, then of the rest.
        """
        random = np.random.default_rng(_HELD_OUT_SEED)
        files = range(len(self._held_out))
        rows = random.permutation([self._held_out.draw(file, random) for file in files])
        fills = self.shards.length[rows] > length
        order = np.argsort(~fills, kind="stable")[:count]
        return _padded([self.shards.ids(int(rows[i]))[: length + 1] for i in order], length + 1)

    def _sequence(self, number: int) -> np.ndarray:
        """Return a sequence of the endless training stream."""
        random = np.random.default_rng([self.seed, CROP, number])
        row = self._stream.row(number, random)
        example = Example(
            ids=self.shards.ids(row),
            bars=self.shards.bars(row),
            another=self._random_piece,
            style=self.shards.style(row),
        )
        return self._cut(self._language, example, self.config, random)

    def _random_piece(self, random: np.random.Generator) -> np.ndarray:
        """Return the ids of a random training piece."""
        file = int(random.integers(len(self._files)))
        return self.shards.ids(self._files.draw(file, random))


def load(batches: Batches, first: int) -> Iterator[tuple[int, np.ndarray]]:
    """Yield the number and the tokens of each batch; `data.workers` processes prepare them ahead."""
    workers = batches.config.workers
    loader = DataLoader(
        batches,
        batch_size=None,  # each item is a batch
        sampler=itertools.count(first),
        num_workers=workers,
        collate_fn=_identity,
        multiprocessing_context=CONTEXT if workers else None,
        generator=torch.Generator(),  # leaves torch's global generator alone
    )
    with started_apart():
        loaded = iter(loader)
    yield from zip(itertools.count(first), loaded, strict=False)


def _identity(batch: Any) -> Any:
    return batch


class _Mixture:
    """An endless stream of rows from several sets, mixed by their weights."""

    def __init__(self, shards: Shards, config: DataConfig, seed: int) -> None:
        assert config.weights is not None, "a mixture has weights"
        rows = shards.rows("train")
        set_of_row = shards.set_of(rows)
        self._files = [
            _Files(shards, rows[set_of_row == number], seed, number)
            for number in range(len(shards.sets))
        ]
        for files, prepared in zip(self._files, shards.sets, strict=True):
            if not len(files):
                raise ValueError(f"{prepared.folder} has no files for training; leave it out")
        exact = np.array(config.weights) / sum(config.weights) * _BLOCK
        self._counts = exact.astype(np.int64)  # sequences of each set in a block: (sets,)
        rest = np.argsort(self._counts - exact, kind="stable")[: _BLOCK - self._counts.sum()]
        self._counts[rest] += 1
        self._seed = seed
        self._block: tuple[int, np.ndarray] = (-1, np.array([]))  # the current one and its sets

    def row(self, number: int, random: np.random.Generator) -> int:
        """Return the row at index `number` of the stream."""
        block, place = divmod(number, _BLOCK)
        if self._block[0] != block:
            sets = np.repeat(np.arange(len(self._counts)), self._counts)
            drawn = np.random.default_rng([self._seed, MIX, block]).permutation(sets)
            self._block = (block, drawn)
        sets = self._block[1]
        chosen = int(sets[place])
        before = int((sets[:place] == chosen).sum())
        return self._files[chosen].row(block * int(self._counts[chosen]) + before, random)


class _Files:
    """An endless stream of rows, one per file and epoch; the rows of a file are consecutive."""

    def __init__(self, shards: Shards, rows: np.ndarray, *seed: int) -> None:
        """Take the rows, and a seed of one or more numbers."""
        starts = np.flatnonzero(np.diff(shards.file[rows], prepend=-1))
        self._first = rows[starts]
        self._count = np.diff(starts, append=len(rows))
        self._seed = seed
        self._epoch: tuple[int, np.ndarray] = (-1, np.array([]))  # the current one and its order

    def __len__(self) -> int:
        return len(self._first)

    def row(self, number: int, random: np.random.Generator) -> int:
        """Return the row at index `number` of the stream."""
        epoch, place = divmod(number, len(self))
        if self._epoch[0] != epoch:
            seed, *rest = self._seed
            order = np.random.default_rng([seed, ORDER, epoch, *rest]).permutation(len(self))
            self._epoch = (epoch, order)
        return self.draw(int(self._epoch[1][place]), random)

    def draw(self, file: int, random: np.random.Generator) -> int:
        """Return a random row of a file."""
        return int(self._first[file] + random.integers(self._count[file]))


def _padded(sequences: list[np.ndarray], length: int) -> np.ndarray:
    batch = np.full((len(sequences), length), IGNORED, dtype=np.int64)
    for row, ids in zip(batch, sequences, strict=True):
        row[: len(ids)] = ids
    return batch
