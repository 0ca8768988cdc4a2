"""Preference training: a model learns which of its own takes are convincing, and stays near its old weights.

The loss compares every two takes of a prompt as direct preference optimisation does (Rafailov et al. 2023), but with a
soft target, as the critic is not sure of itself. With l(y) = log p(y) − log p_old(y), summed over the new tokens of y,
and the log-odds by the critic that y is generated,

    σ(β (l(y) − l(y′)))   shall be   σ(odds(y′) − odds(y)).

The optimum is p_old · (p(real) / p(generated))^(1/β). It is finite, so nothing else has to hold the weights, and it is
about sums: a mean over tokens would ask more of a longer take. The real bars can be compared as another take, as in
self-play fine-tuning (Chen et al. 2024).
"""

from __future__ import annotations

import math
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from musicgen.checkpoint import folder_of
from musicgen.performer import Performer
from musicgen.weights import load
from tokenization.records import json_of
from training.config import RunConfig
from training.data.batches import Batches
from training.devices import Devices
from training.log import StepSums
from training.loop import Run
from training.preference.lessons import Lesson, flat, learners, path_of, read, write
from training.preference.takes import ODDS, Progress, Takes, Teacher, rows_of, settings

ORDER = 0  # purpose of random draws


class PromptBatches(Batches):
    """The prompts of each step; an epoch uses each once, in a new order."""

    def __init__(self, config: RunConfig, *, process: int = 0, processes: int = 1) -> None:
        super().__init__(config.data, config.seed, process=process, processes=processes)
        self.run = config
        self.prompts = rows_of(config, self.shards)

    def __reduce__(self) -> tuple[Any, ...]:
        how = {"process": self.process, "processes": self.processes}
        return partial(PromptBatches, **how), (self.run,)

    def prepare(self, takes: Takes, teacher: Teacher, devices: Devices, progress: Progress) -> None:
        """Make what the run learns from and its folders lack; every process has to call this, and makes its share."""
        assert self.run.start is not None, "RunConfig checks this"
        own = self.prompts[self.process :: self.processes]
        takes.draw(own, progress)
        model = load(folder_of(self.run.start))[0].eval()
        for done, row in enumerate(own):
            progress("reading takes", done, len(own))
            if not path_of(self.run, row).is_file():
                write(model, self.run, takes, row)
        progress("reading takes", len(own), len(own))
        devices.wait()
        if devices.is_first:
            takes.judge(self.prompts, teacher, progress)
        devices.wait()

    def steps(self, steps: int | None, epochs: float | None) -> int:
        if steps is not None:
            return steps
        return math.ceil((epochs or 0) * len(self.prompts) / self.config.batch)

    def __getitem__(self, number: int) -> np.ndarray:
        """Return this process's prompts of a batch, as rows of the data: (B,)."""
        first = number * self.config.batch
        own = range(first + self.process, first + self.config.batch, self.processes)
        return np.array([self._prompt(one) for one in own])

    def _prompt(self, number: int) -> int:
        epoch, place = divmod(number, len(self.prompts))
        random = np.random.default_rng([self.seed, ORDER, epoch])
        return self.prompts[random.permutation(len(self.prompts))[place]]


class PreferenceRun(Run):
    """A run whose steps compare takes, and whose model is the newest that has not forgotten."""

    unit = "pairs of takes"
    judges_start = True

    def start(self) -> Performer:
        """Return the model at step 0, of which little learns."""
        model = super().start()
        learners(model, self.config)
        return model

    @cached_property
    def odds(self) -> dict[str, list[float]]:
        """The log-odds that the sequences of each prompt are generated."""
        return json_of(self.folder / ODDS)

    def learn_from(self, number: int, batch: np.ndarray, sums: StepSums) -> None:
        """Add the gradients of the takes of some prompts; the logged loss is that of two takes."""
        for place, row in enumerate(batch.tolist()):
            lesson = read(path_of(self.config, row))
            with self.devices.without_sync(self.module, unless=place + 1 == len(batch)):
                losses = self.module(
                    partial(self.compared, lesson=lesson, odds=self.odds[str(row)])
                )
                (losses.mean() / len(batch)).backward()
            sums.add(losses.detach().sum(), len(losses), self.state.step)

    def keeps(self, loss: float) -> bool:
        """Return whether a loss on held-out pieces is at most a little above that of the start."""
        first = self.state.first_loss
        return first is None or loss <= first + settings(self.config).most_loss

    def compared(self, model: Performer, *, lesson: Lesson, odds: list[float]) -> Tensor:
        """Return the loss of every two sequences of a prompt."""
        asked = settings(self.config)
        learned = [part for part in model.parameters() if part.requires_grad]
        now, start = flat(learned), torch.from_numpy(lesson.start).to(self.devices.device)
        change = torch.from_numpy(lesson.gradients).to(now) @ (now - start)
        some = slice(None) if asked.real else slice(-1)
        return pair_losses(asked.beta * change[some], torch.tensor(odds).to(now)[some])


def pair_losses(change: Tensor, odds: Tensor) -> Tensor:
    """Return the loss of every two of K takes, above its least value: (K,), (K,) → (K (K − 1) / 2,)."""
    one, other = torch.triu_indices(len(change), len(change), 1)
    wanted = torch.sigmoid(odds[other] - odds[one])
    margin = change[one] - change[other]
    least = F.binary_cross_entropy(wanted, wanted, reduction="none")
    return F.binary_cross_entropy_with_logits(margin, wanted, reduction="none") - least
