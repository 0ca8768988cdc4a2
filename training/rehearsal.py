"""Rehearsal: a run that learns other music keeps what its start foresees in takes of its own.

From the first bar of one take on, each step adds the divergence of the next tokens' distributions from those of the
start (Hinton et al. 2015). The takes stand for all that the start knows, so none of its data has to be at hand. What
comes before, such as the parts, is free: a piece from nothing then begins like the music that is learned.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from musicgen.checkpoint import folder_of
from musicgen.common.learning import generator_of
from musicgen.generation.sampling import Sampling
from musicgen.performer import Performer
from musicgen.playable import find
from musicgen.weights import load
from tokenization.language import Language, language_from_spec
from tokenization.records import json_of, yaml_of
from tokenization.whole_file import write_whole
from training.config import CONFIG, RehearsalConfig, RunConfig
from training.log import StepSums
from training.loop import RECALL, Run
from training.run_folder import plain

TAKES = "takes.json"  # in the folder of a run
DRAWN_BY = "start", "seed", "rehearsal"  # settings of a run that its takes depend on
PARTS = 3, 13  # of a take that is asked for parts: from so many, to below
CODE = RECALL + 1  # purpose of random draws, besides those of the loop


def settings(config: RunConfig) -> RehearsalConfig:
    """Return the settings of a run that rehearses."""
    assert config.rehearsal is not None, "called only for a run that rehearses"
    return config.rehearsal


def kept(run: Path) -> list[list[int]]:
    """Return the tokens of the takes that the folder of a run has."""
    return json_of(run / TAKES) if (run / TAKES).is_file() else []


def forget_others(config: RunConfig) -> None:
    """Delete the takes in the folder of a run if they were drawn with other settings than it has now."""
    folder = Path(config.run)
    if (folder / CONFIG).is_file():
        before, now = yaml_of(folder / CONFIG), plain(config)
        if not isinstance(before, dict) or any(before.get(key) != now[key] for key in DRAWN_BY):
            (folder / TAKES).unlink(missing_ok=True)


def draw(config: RunConfig, progress: Callable[[int, int], None]) -> None:
    """Draw the takes that the folder of a run lacks; each is written at once, so that this can be interrupted."""
    assert config.start is not None, "RunConfig checks this"
    asked, path = settings(config), Path(config.run) / TAKES
    drawn = kept(path.parent)
    if len(drawn) >= asked.takes:
        return
    model = find(config.start, "cpu")
    for number in range(len(drawn), asked.takes):
        progress(number, asked.takes)
        # One in two is for parts of any kind and number, which few takes from nothing have.
        idea = _parts(model.language, config.seed, number) if number % 2 else None
        [take] = model.continue_(
            bars=asked.bars, draw=1, seed=number, sampling=Sampling(), idea=idea
        )
        drawn.append(model.language.encode(take.score).ids.tolist())
        write_whole(path, json.dumps(drawn).encode())


def _parts(language: Language, *seed: int) -> dict[str, Any] | None:
    """Return parts for a new piece as its idea, None in a language that names none."""
    if (known := language.beginnings().get("parts")) is None:
        return None
    random = np.random.default_rng(seed)
    return {"parts": random.choice(known, random.integers(*PARTS), replace=False).tolist()}


class RehearsalRun(Run):
    """A run whose steps also rehearse a take; all have been drawn."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        assert self.config.start is not None, "RunConfig checks this"
        length, device = settings(self.config).length, self.devices.device
        bars = language_from_spec(self.language).bars
        code = self.model.begin(generator_of(self.config.seed, CODE))
        self.takes = []
        for ids in kept(self.folder):
            first = int(bars(np.array(ids))[0])
            tokens = torch.tensor([ids[: first + length + 1]], device=device)
            self.takes.append(partial(foreseen, tokens=tokens, code=code, first=first))
        start = self.devices.module_of(load(folder_of(self.config.start), device)[0])
        with torch.no_grad():
            self.foreseen = [start(take) for take in self.takes]

    def learn_from(self, number: int, batch: np.ndarray, sums: StepSums) -> None:
        """Add the gradients of a step, and those of rehearsing the next take."""
        super().learn_from(number, batch, sums)
        which = number % len(self.takes)
        now = self.module(self.takes[which])
        forgotten = F.kl_div(now, self.foreseen[which], log_target=True, reduction="batchmean")
        (settings(self.config).weight * forgotten).backward()


def foreseen(model: Performer, tokens: Tensor, code: Any, first: int) -> Tensor:
    """Return the log-probabilities of the token after each of a take's but the `first`, (1, T + 1) → (T − first, V)."""
    return F.log_softmax(model(tokens[:, :-1], code)[0, first:].float(), -1)
