"""Small models and a small grammar for the tests of this folder."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Generator

from musicgen.config import ModelConfig
from musicgen.metre import Clock, MetreConfig
from musicgen.performer import Performer
from musicgen.position import POSITIONS
from musicgen.recall import RecallConfig
from tokenization.grammar import Grammar

GOLDEN = Path(__file__).parents[1] / "golden"
VOCABULARY = 11
# Tokens 0 … 3 move time: a bar on, or to a tick of this bar of 6; where that is an earlier one, time stands still.
CLOCK = Clock(bar_ticks=6, step_ticks=6, moves=((0, 1, 0), (1, 0, 2), (2, 1, 3), (3, 0, 5)))

# Parts 1 and 2, places 3 to 5, notes 6 and 7; 8 has a bar return to the one before, 9 says something of it.
RECALL = RecallConfig(
    bar=0, restart=10, parts=(1, 3), places=(3, 6), notes=((6, 8),), values=(), said=8, plan=((9, 10),),
    returns=((8, 1),),
)  # fmt: skip

METRE = MetreConfig(bars=(1, 0.5, 2), remembers=(2, 8, 3), features=3)

MUSICAL = [name for name, (config, _) in POSITIONS.items() if hasattr(config, "time")]
ENCODINGS = [*POSITIONS, *(f"{name} in music" for name in MUSICAL)]
"""Every encoding by token number, and in musical time where it can."""


def toy_config(**overrides: Any) -> ModelConfig:
    """Return the configuration of a model of one layer that answers in milliseconds."""
    sizes = {"layers": 1, "width": 16, "heads": 2, "feedforward": 24, "chunk": 8}
    given = {**sizes, "dropout": 0.0, "clock": CLOCK, **overrides}
    return ModelConfig(vocabulary_size=VOCABULARY, **given)


def toy_model(seed: int = 0, **overrides: Any) -> Performer:
    """Return a toy in evaluation mode, its weights large enough to make tokens matter."""
    model = Performer(toy_config(**{"initial_deviation": 0.3, **overrides}), seed).eval()
    if model.recall is not None:  # which begins as zeros
        with torch.no_grad():
            for weight in model.recall.parameters():
                weight.normal_(0, 0.3, generator=generator(seed))
    return model


def stirred(model: Performer) -> Performer:
    """Return a model with all at random that begins as 0 and 1: biases, norms and goals."""
    if model.goals is not None:
        torch.nn.init.normal_(model.goals.vectors.weight, 0, 0.3, generator=generator(3))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(0.3 * torch.randn(len(parameter), generator=generator()))
    return model


def unlimited(position: str, length: int = 32768) -> Any:
    """Return the default configuration of an encoding of ENCODINGS, without a limit below `length`."""
    name, _, time = position.partition(" in ")
    config = POSITIONS[name][0](**({"time": time} if time else {}))
    return replace(config, max_length=length) if hasattr(config, "max_length") else config


def toy_tokens(batch: int, length: int, seed: int = 0) -> torch.Tensor:
    """Return random tokens, (B, T)."""
    return torch.randint(VOCABULARY, (batch, length), generator=Generator().manual_seed(seed))


def whole_of(model: Performer, tokens: torch.Tensor) -> torch.Tensor:
    """Return the logits of whole sequences, (B, T, V)."""
    with torch.no_grad():
        return model(tokens, code=model.begin(generator()))


def golden(name: str) -> dict[str, torch.Tensor]:
    """Return the tensors that a paper's code gave."""
    return {key: torch.from_numpy(value) for key, value in np.load(GOLDEN / name).items()}


def generator(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


class Anything(Grammar):
    """A language in which any token may follow, without bars."""

    bars = np.zeros(1, dtype=np.int64)

    def __init__(self) -> None:
        self.bars = np.zeros(1, dtype=np.int64)

    def allowed(self) -> np.ndarray:
        return np.ones((len(self.bars), VOCABULARY), bool)

    def advance(self, tokens: np.ndarray) -> None:
        """Take a token a row, whatever it is."""


class Alternating(Anything):
    """A language in which odd and even tokens take turns, and each 0 begins a bar; after END nothing may follow."""

    END = 10

    def __init__(self) -> None:
        super().__init__()
        self.last = np.ones(1, dtype=np.int64)

    def allowed(self) -> np.ndarray:
        turns = (np.arange(VOCABULARY)[None] + self.last[:, None]) % 2 == 1
        return turns & (self.last != self.END)[:, None]

    def advance(self, tokens: np.ndarray) -> None:
        assert self.allowed()[np.arange(len(tokens)), tokens].all()
        self.last = tokens
        self.bars = self.bars + (tokens == 0)
