"""Small models and a small grammar for the tests of this folder."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Generator

from musicgen.config import ModelConfig
from musicgen.model import Performer
from musicgen.position import POSITIONS

VOCABULARY = 11


def toy_config(**overrides: Any) -> ModelConfig:
    """Return the configuration of a model of one layer that answers in milliseconds."""
    sizes = {"layers": 1, "width": 16, "heads": 2, "feedforward": 24, "chunk": 8}
    return ModelConfig(vocabulary_size=VOCABULARY, **{**sizes, "dropout": 0.0, **overrides})


def toy_model(seed: int = 0, **overrides: Any) -> Performer:
    """Return a toy in evaluation mode, its weights large enough to make tokens matter."""
    return Performer(toy_config(**{"initial_deviation": 0.3, **overrides}), seed).eval()


def unlimited(position: str, length: int = 32768) -> Any:
    """Return the default configuration of an encoding, without a limit below `length`."""
    config = POSITIONS[position][0]()
    return replace(config, max_length=length) if hasattr(config, "max_length") else config


def toy_tokens(batch: int, length: int, seed: int = 0) -> torch.Tensor:
    """Return random tokens, (B, T)."""
    return torch.randint(VOCABULARY, (batch, length), generator=Generator().manual_seed(seed))


def generator(seed: int = 0) -> Generator:
    """Return a seeded generator."""
    return Generator().manual_seed(seed)


class Alternating:
    """A language in which odd and even tokens take turns, and each 0 begins a bar; after END nothing may follow."""

    END = 10

    def __init__(self, last: np.ndarray | None = None, bars: np.ndarray | None = None) -> None:
        self.last = np.ones(1, dtype=np.int64) if last is None else last
        self.bars = np.zeros(1, dtype=np.int64) if bars is None else bars

    def allowed(self) -> np.ndarray:
        """Return the mask of the next tokens."""
        turns = (np.arange(VOCABULARY)[None] + self.last[:, None]) % 2 == 1
        return turns & (self.last != self.END)[:, None]

    def instead(self, tokens: np.ndarray) -> np.ndarray:
        """Return the tokens themselves."""
        return tokens

    def advance(self, tokens: np.ndarray) -> None:
        """Take a token a row."""
        assert self.allowed()[np.arange(len(tokens)), tokens].all()
        self.last = tokens
        self.bars = self.bars + (tokens == 0)

    def select(self, rows: np.ndarray) -> Alternating:
        """Return copies of rows."""
        return type(self)(self.last[rows], self.bars[rows])
