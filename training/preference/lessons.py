"""What preference training compares: the takes of a prompt and what the old weights make of them, kept on disk.

Only the last layers learn, so what enters them is computed once, as is the probability of each take under the old
weights: an epoch costs a fraction of a whole pass. The code of a stochastic positional encoding is a function of the
seed and the prompt, and so the same for old and new weights.

K sequences of a prompt, of which the last has the real bars; T time, C model width, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from musicgen.attention import linear
from musicgen.common.learning import generator_of
from musicgen.performer import Passage, Performer
from tokenization.whole_file import write_whole
from training.config import RunConfig
from training.data.batches import IGNORED, next_token_loss
from training.preference.takes import Takes, folder_of_takes, settings

CODE = 1  # purpose of random draws


@dataclass(frozen=True, kw_only=True, eq=False)
class Lesson:
    """The sequences of a prompt."""

    tokens: np.ndarray  # (K, T + 1) int64, IGNORED after the end of each
    prompt: np.ndarray  # the number of tokens that they share: ()
    hidden: np.ndarray  # what enters the first layer that learns: (K, T, C) float16
    reference: np.ndarray  # the log-probability of the new tokens by the old weights: (K,)


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


@torch.no_grad()
def lesson_of(model: Performer, config: RunConfig, takes: Takes, row: int) -> Lesson:
    """Return the lesson of a prompt, by the old weights."""
    sequences, prompt = takes.sequences(row), len(takes.prompt(row).ids)
    tokens = np.full((len(sequences), max(map(len, sequences))), IGNORED, np.int64)
    for own, ids in zip(tokens, sequences, strict=True):
        own[: len(ids)] = ids
    passage, first = passage_of(model, tokens, config.seed, row), first_to_learn(model, config)
    x = model.embed(inputs_of(model, tokens), passage)
    for number in range(first):
        x, _ = model.blocks[number](x, passage.of_layer(number), None)
    hidden = x.half()
    logits = logits_of(model, hidden.float(), passage, first)
    return Lesson(
        tokens=tokens,
        prompt=np.array(prompt),
        hidden=hidden.numpy(),
        reference=log_probability(logits, tokens, prompt).numpy(),
    )


def first_to_learn(model: Performer, config: RunConfig) -> int:
    """Return the number of the first layer that learns."""
    return len(model.blocks) - settings(config).layers


def inputs_of(model: Performer, tokens: np.ndarray) -> Tensor:
    """Return the tokens that a model sees: (K, T + 1) → (K, T)."""
    return torch.from_numpy(tokens[:, :-1]).clamp(min=0).to(model.embedding.weight.device)


def passage_of(model: Performer, tokens: np.ndarray, seed: int, row: int) -> Passage:
    """Return what the layers share in a pass over a prompt's sequences."""
    state = model.start(generator_of(seed, CODE, row))
    return model.passage(inputs_of(model, tokens), state, whole=True)[0]


def logits_of(model: Performer, x: Tensor, passage: Passage, first: int) -> Tensor:
    """Return the logits that the last layers make of what enters them: (K, T, C) → (K, T, V)."""
    for number in range(first, len(model.blocks)):
        x, _ = model.blocks[number](x, passage.of_layer(number), None)
    x = model.norm(x)
    return linear(x, model.embedding.weight) if model.head is None else model.head(x)


def log_probability(logits: Tensor, tokens: np.ndarray, prompt: int) -> Tensor:
    """Return the log-probability of the new tokens: (K, T, V), (K, T + 1) → (K,)."""
    targets = torch.from_numpy(tokens[:, 1:].copy()).to(logits.device)
    targets[:, : prompt - 1] = IGNORED
    return -next_token_loss(logits, targets).sum(1)
