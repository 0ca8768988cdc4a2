"""Batches from a prepared data set; batch number n is a pure function of (seed, n), so nothing of a sampler is saved.

Each batch is learned from in one step, or window by window in as many as its longest sequence fills.

In each epoch every file comes once, in a new order, with one of its rows drawn (a groove file has a row for each of its
other tracks). Where sets have weights, each has epochs of its own. Of P processes, process p takes the rows p, p + P, …
of each batch.
"""

from __future__ import annotations

import itertools
import math
import queue
import threading
import time
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from musicgen.common.processes import CONTEXT, started_apart
from tokenization.ensemble.language import Ensemble
from tokenization.language import language_from_spec
from training.config import DataConfig
from training.data.ensemble_examples import cut_ensemble
from training.data.examples import Cut, cut_groove, cut_remi
from training.data.shards import Shards

IGNORED = -1  # a target after the end of a piece


def next_token_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the loss of each position in nats, (B, T, V) against (B, T) → (B, T); 0 where IGNORED."""
    scores = logits.to(torch.promote_types(logits.dtype, torch.float32))
    if scores.is_cuda:  # where a sum over the last dimension is the fast one
        losses = F.cross_entropy(
            scores.flatten(0, 1), targets.flatten(), ignore_index=IGNORED, reduction="none"
        )
        return losses.view_as(targets)
    return F.cross_entropy(scores.transpose(1, 2), targets, ignore_index=IGNORED, reduction="none")


# What cuts training sequences out of pieces, by the family of the language that they are in.
CUTS: dict[str, Cut] = {"remi": cut_remi, "groove": cut_groove}
ORDER, CROP, MIX = range(3)  # purposes of randomness
_BLOCK = 512  # sequences in which each set comes as often as its weight says
_HELD_OUT_SEED = 0  # one for all runs, so that their losses compare


class Part(NamedTuple):
    """What one step learns from."""

    step: int
    number: int  # of the batch
    window: int  # of the batch
    windows: int  # that the batch has
    tokens: np.ndarray  # (B, T + 1), IGNORED after a piece's end
    recalled: np.ndarray | None = None  # after each token but the last, where the model recalls

    @property
    def first_step(self) -> int:
        """The step that learns from the first window."""
        return self.step - self.window

    @property
    def is_last(self) -> bool:
        """Whether the batch ends with this window."""
        return self.window + 1 == self.windows


class Batches(Dataset[np.ndarray]):
    """The training and validation sequences of a data set."""

    def __init__(
        self, config: DataConfig, seed: int, *, process: int = 0, processes: int = 1
    ) -> None:
        if config.batch % processes:
            raise ValueError(
                f"data.batch is {config.batch}, which does not divide among {processes} processes"
            )
        self.shards = Shards(config.folders)
        self.config, self.seed = config, seed
        self.process, self.processes = process, processes
        self.language = self.shards.language
        self._speaks = language_from_spec(self.language)
        self._cut = CUTS.get(self._speaks.name)
        self._files = _Files(self.shards, self.shards.rows("train"), seed)
        self._held_out = _Files(self.shards, self.shards.rows("validation"), seed)
        if not len(self._files) or not len(self._held_out):
            raise ValueError(
                f"{config.folder} has {len(self._files)} files to train on and {len(self._held_out)} "
                "to validate with; both are needed: prepare a larger set"
            )
        self._stream = (
            self._files if config.weights is None else _Mixture(self.shards, config, seed)
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Let another process open the data set itself."""
        of_process = partial(Batches, process=self.process, processes=self.processes)
        return of_process, (self.config, self.seed)

    @cached_property
    def longest_ticks(self) -> list[int] | None:
        """How long notes last at most in a thousand or two of the pieces to train on: what to generate by."""
        rows = self.shards.rows("train")
        spread = rows[:: max(1, len(rows) // 1000)]
        return self._speaks.longest(self.shards.ids(int(r)) for r in spread)

    def steps(self, steps: int | None, epochs: float | None) -> int:
        """Return the length of a run given in steps or in epochs.

        A batch of several windows takes as many steps as its longest piece fills; what is cut from a piece by chance
        may fill fewer, so that the run then sees a little more than so many epochs.
        """
        if steps is not None:
            return steps
        if self.config.weights is not None:
            raise ValueError("sets with weights have no common epoch; give optimiser.steps")
        batches = math.ceil((epochs or 0) * len(self._files) / self.config.batch)
        return batches if self.config.windows == 1 else self._steps_of(batches)

    def _steps_of(self, batches: int) -> int:
        """Return how many windows the first batches fill together, by the lengths of their files."""
        config, files = self.config, len(self._files)
        tokens = np.minimum(self._files.longest(self.shards.length), config.trained_length + 1)
        windows = np.maximum(1, -(-(tokens - 1) // config.length))  # of each file
        sequences = batches * config.batch
        orders = [windows[self._files.order(epoch)] for epoch in range(-(-sequences // files))]
        return int(np.concatenate(orders)[:sequences].reshape(batches, -1).max(1).sum())

    def __getitem__(self, number: int) -> np.ndarray:
        """Return this process's share of a batch: (B, T + 1) int64, IGNORED after a piece's end.

        It is as long as the windows that the longest of all processes' sequences fills.
        """
        config, first = self.config, number * self.config.batch
        own = range(first + self.process, first + config.batch, self.processes)
        sequences = {n: self._sequence(n) for n in own}
        if config.windows == 1:
            return _padded([*sequences.values()], config.length + 1)
        others = (n for n in range(first, first + config.batch) if n not in sequences)
        longest = max(map(len, [*sequences.values(), *map(self._sequence, others)]))
        windows = max(1, -(-(longest - 1) // config.length))
        return _padded([*sequences.values()], windows * config.length + 1)

    def validation(self, count: int, length: int) -> np.ndarray:
        """Return held-out sequences, the same for every run: (up to count, length + 1), unaugmented.

        They are drawn from the pieces that fill the length, then from the rest, each from its beginning.
        """
        random = np.random.default_rng(_HELD_OUT_SEED)
        held_out = range(len(self._held_out))
        rows = random.permutation([self._held_out.draw(file, random) for file in held_out])
        whole = self.shards.length[rows] > length
        order = np.argsort(~whole, kind="stable")[:count]
        return _padded([self.shards.ids(int(rows[i]))[: length + 1] for i in order], length + 1)

    def _sequence(self, number: int) -> np.ndarray:
        """Return the training sequence that comes at a place of the endless stream."""
        random = np.random.default_rng([self.seed, CROP, number])
        row = self._stream.row(number, random)
        ids, bars = self.shards.ids(row), self.shards.bars(row)
        if isinstance(self._speaks, Ensemble):
            style = self.shards.style(row)
            return cut_ensemble(self._speaks, ids, bars, self.config, random, style)
        assert self._cut is not None, "a language of the papers has a cut of its own"
        return self._cut(self._speaks, ids, bars, self.config, random, self._another)

    def _another(self, random: np.random.Generator) -> np.ndarray:
        """Return the ids of any piece to train on."""
        file = int(random.integers(len(self._files)))
        return self.shards.ids(self._files.draw(file, random))


def windows_of(batch: np.ndarray, length: int, number: int, step: int) -> Iterator[Part]:
    """Yield the windows of a batch, a step each, the first of which is given."""
    windows = (batch.shape[1] - 1) // length
    for window in range(windows):
        tokens = batch[:, window * length : (window + 1) * length + 1]
        yield Part(step + window, number, window, windows, tokens)


class Loader:
    """Prepares batches ahead in a thread, which `data.workers` processes may cut them for; measures the waiting."""

    def __init__(
        self,
        batches: Batches,
        start: int,
        stop: int,
        number: int,
        recall: Callable[[Part], np.ndarray] | None = None,
    ) -> None:
        """Prepare for the steps start … stop − 1, the first of which begins the batch of a number.

        `recall` returns what is recalled after each token but the last of a part: (B, T, 4).
        """
        self._batches, self._start, self._stop, self._number = batches, start, stop, number
        self._recall = recall
        self._queue: queue.Queue[Any] = queue.Queue(maxsize=batches.config.prefetch)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._waited, self._since = 0.0, time.perf_counter()

    def __enter__(self) -> Loader:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        while self._thread.is_alive():
            try:
                self._queue.get_nowait()
            except queue.Empty:
                self._thread.join(0.01)

    def __iter__(self) -> Iterator[Part]:
        for _ in range(self._start, self._stop):
            asked = time.perf_counter()
            item = self._queue.get()
            self._waited += time.perf_counter() - asked
            if isinstance(item, BaseException):
                raise item
            yield item

    def share(self) -> float:
        """Return the share of the time since the last call in which the model waited for data."""
        now = time.perf_counter()
        share = self._waited / max(1e-9, now - self._since)
        self._waited, self._since = 0.0, now
        return share

    def _work(self) -> None:
        try:
            for part in self._parts():
                if self._closing.is_set():
                    return
                if self._recall is not None:
                    part = part._replace(recalled=self._recall(part))
                self._queue.put(part)
        except Exception as error:  # handed to the loop, which raises it
            self._queue.put(error)

    def _parts(self) -> Iterator[Part]:
        """Yield what each step learns from, in order."""
        workers = self._batches.config.workers
        loader = DataLoader(
            self._batches,
            batch_size=None,  # they are batches
            sampler=itertools.count(self._number),
            num_workers=workers,
            collate_fn=_as_it_is,
            multiprocessing_context=CONTEXT if workers else None,
            generator=torch.Generator(),  # the run's draws are its own
        )
        with started_apart():
            numbered = enumerate(loader, self._number)
        step = self._start
        for number, batch in numbered:
            for part in windows_of(batch, self._batches.config.length, number, step):
                if step == self._stop:
                    return
                yield part
                step += 1


def _as_it_is(batch: Any) -> Any:
    return batch


class _Mixture:
    """Draws from sets by their weights: which set a number takes from, and which of its files."""

    def __init__(self, shards: Shards, config: DataConfig, seed: int) -> None:
        assert config.weights is not None, "a mixture has weights"
        rows = shards.rows("train")
        number = shards.set_of(rows)
        self._files = [
            _Files(shards, rows[number == one], seed, one) for one in range(len(shards.sets))
        ]
        for files, one in zip(self._files, shards.sets, strict=True):
            if not len(files):
                raise ValueError(f"{one.folder} has no files to train on; leave it out")
        share = np.array(config.weights) / sum(config.weights) * _BLOCK
        self._counts = share.astype(np.int64)
        rest = np.argsort(self._counts - share, kind="stable")[: _BLOCK - self._counts.sum()]
        self._counts[rest] += 1
        self._seed = seed
        self._block: tuple[int, np.ndarray] = (-1, np.array([]))  # the last one drawn

    def row(self, number: int, random: np.random.Generator) -> int:
        """Return the row that comes at a place of the endless stream."""
        block, place = divmod(number, _BLOCK)
        if self._block[0] != block:
            sets = np.repeat(np.arange(len(self._counts)), self._counts)
            drawn = np.random.default_rng([self._seed, MIX, block]).permutation(sets)
            self._block = (block, drawn)
        sets = self._block[1]
        one = int(sets[place])
        before = int((sets[:place] == one).sum())
        return self._files[one].row(block * int(self._counts[one]) + before, random)


class _Files:
    """Rows as files, each a stretch of them; in each epoch of an endless stream every file comes once."""

    def __init__(self, shards: Shards, rows: np.ndarray, *seed: int) -> None:
        """Take rows, and a seed of one number or more."""
        edges = np.flatnonzero(np.diff(shards.file[rows], prepend=-1))
        self._rows, self._first = rows, rows[edges]
        self._count = np.diff(edges, append=len(rows))
        self._seed = seed
        self._epoch: tuple[int, np.ndarray] = (-1, np.array([]))  # the last one drawn

    def __len__(self) -> int:
        return len(self._first)

    def longest(self, length: np.ndarray) -> np.ndarray:
        """Return the length of each file's longest row, (F,), by those of all rows."""
        rows = np.repeat(np.arange(len(self)), self._count)
        longest = np.zeros(len(self), dtype=np.int64)
        np.maximum.at(longest, rows, length[self._rows])
        return longest

    def order(self, epoch: int) -> np.ndarray:
        """Return the files in the order of an epoch."""
        seed, *which = self._seed
        return np.random.default_rng([seed, ORDER, epoch, *which]).permutation(len(self))

    def row(self, number: int, random: np.random.Generator) -> int:
        """Return the row that comes at a place of the stream."""
        epoch, place = divmod(number, len(self))
        if self._epoch[0] != epoch:
            self._epoch = (epoch, self.order(epoch))
        return self.draw(int(self._epoch[1][place]), random)

    def draw(self, file: int, random: np.random.Generator) -> int:
        """Return one of a file's rows."""
        return int(self._first[file] + random.integers(self._count[file]))


def _padded(sequences: list[np.ndarray], length: int) -> np.ndarray:
    batch = np.full((len(sequences), length), IGNORED, dtype=np.int64)
    for row, ids in zip(batch, sequences, strict=True):
        row[: len(ids)] = ids
    return batch
