"""What preference training learns from: how the log-probability of each take answers to the weights, kept on disk.

So little is learned that log p(y) − log p_old(y) is nearly linear in the change of the weights: its gradient at the old
weights, computed once for each take, stands for the model, and an epoch takes a second. The code of a stochastic
positional encoding is a function of the seed and the prompt.

K sequences of a prompt, of which the last has the real bars; T time; D weights that learn.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from musicgen.common.learning import generator_of
from musicgen.performer import Performer
from tokenization.whole_file import write_whole
from training.config import RunConfig
from training.data.batches import next_token_loss
from training.preference.takes import Takes, folder_of_takes, settings

CODE = 1  # purpose of random draws


@dataclass(frozen=True, kw_only=True, eq=False)
class Lesson:
    """The sequences of a prompt."""

    gradients: np.ndarray  # of the log-probability of the new tokens: (K, D)
    start: np.ndarray  # the old weights: (D,)


def path_of(config: RunConfig, row: int) -> Path:
    """Return the file of a lesson; it depends on the takes beside it, and on the layers that learn."""
    return folder_of_takes(config) / f"{row}-{settings(config).layers}.npz"


def write(model: Performer, config: RunConfig, takes: Takes, row: int) -> None:
    """Write the lesson of a prompt, by the old weights."""
    content = BytesIO()
    np.savez(content, **vars(lesson_of(model, config, takes, row)))
    write_whole(path_of(config, row), content.getvalue())


def read(path: Path) -> Lesson:
    """Return a lesson from its file."""
    if not path.is_file():
        raise FileNotFoundError(
            f"{path}, from which this run learns, is missing; start another run"
        )
    with np.load(path, allow_pickle=False) as arrays:
        return Lesson(**{name: arrays[name] for name in arrays.files})


def lesson_of(model: Performer, config: RunConfig, takes: Takes, row: int) -> Lesson:
    """Return the lesson of a prompt, by the old weights."""
    learn, prompt = learners(model, config), len(takes.prompt(row).ids)
    found = []
    for ids in takes.sequences(row):
        total = log_probability(model, ids, prompt, generator_of(config.seed, CODE, row))
        found.append(flat(torch.autograd.grad(total, learn)))
    return Lesson(gradients=torch.stack(found).numpy(), start=flat(learn).detach().numpy())


def learners(model: Performer, config: RunConfig) -> list[nn.Parameter]:
    """Return the weights that learn, the norms and biases of the last layers, and let no others learn.

    The steps of matrices with 8 bits, as they are published, are larger than what they would learn.
    """
    for part in model.parameters():
        part.requires_grad_(False)
    last = [*model.blocks[-settings(config).layers :], model.norm]
    found = [part for one in last for part in one.parameters() if part.ndim == 1]
    for part in found:
        part.requires_grad_(True)
    return found


def flat(parts: Iterable[Tensor]) -> Tensor:
    """Return tensors as one vector: (D,)."""
    return torch.cat([part.flatten() for part in parts])


def log_probability(
    model: Performer, ids: np.ndarray, prompt: int, generator: torch.Generator
) -> Tensor:
    """Return the log-probability of the tokens after a prompt."""
    tokens = torch.from_numpy(ids.astype(np.int64))[None].to(model.embedding.weight.device)
    losses = next_token_loss(model(tokens[:, :-1], model.begin(generator)), tokens[:, 1:])
    return -losses[:, prompt - 1 :].sum()
