"""Small models and grammars for the tests of this folder."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Generator

from musicgen.config import ModelConfig
from musicgen.kernel.network import KernelNetwork, State
from musicgen.kernel.packing import ITEMS
from musicgen.parts import POSITION_CONFIGS, Clock, MetreConfig, RecallConfig
from musicgen.performer import Performer
from tokenization.grammar import Grammar

GOLDEN = Path(__file__).parents[1] / "golden"
VOCABULARY = 11
# Tokens 0 … 3 move time in bars of 6 ticks: to the next bar, to tick 2, to tick 3 of the next bar, and to tick 5.
CLOCK = Clock(bar_ticks=6, step_ticks=6, moves=((0, 1, 0), (1, 0, 2), (2, 1, 3), (3, 0, 5)))

# Parts 1 and 2, places 3 to 5, notes 6 and 7; 8 makes a bar return to the one before, 9 is part of its plan.
RECALL = RecallConfig(
    bar=0, restart=10, parts=(1, 3), places=(3, 6), notes=((6, 8),), values=(), said=8, plan=((9, 10),),
    returns=((8, 1),),
)  # fmt: skip

METRE = MetreConfig(bars=(1, 0.5, 2), remembers=(2, 8, 3), features=3)

MUSICAL = [name for name, config in POSITION_CONFIGS.items() if hasattr(config, "time")]
ENCODINGS = [*POSITION_CONFIGS, *(f"{name} in music" for name in MUSICAL)]
"""Every encoding by token number, and also in musical time if it can count that."""


def toy_config(**overrides: Any) -> ModelConfig:
    """Return the configuration of a one-layer model that runs in milliseconds."""
    sizes = {"layers": 1, "width": 16, "heads": 2, "feedforward": 24, "chunk": 8}
    given = {**sizes, "dropout": 0.0, "clock": CLOCK, **overrides}
    return ModelConfig(vocabulary_size=VOCABULARY, **given)


def toy_model(seed: int = 0, **overrides: Any) -> Performer:
    """Return a toy model in evaluation mode, with weights large enough that tokens matter."""
    model = Performer(toy_config(**{"initial_deviation": 0.3, **overrides}), seed).eval()
    if model.recall is not None:  # whose embeddings are initially zero
        with torch.no_grad():
            for weight in model.recall.parameters():
                weight.normal_(0, 0.3, generator=generator(seed))
    return model


def stirred(model: Performer) -> Performer:
    """Return a model with random biases, norms and goal embeddings, which are initially 0 or 1."""
    if model.goals is not None:
        torch.nn.init.normal_(model.goals.vectors.weight, 0, 0.3, generator=generator(3))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(0.3 * torch.randn(len(parameter), generator=generator()))
    return model


def unlimited(position: str, length: int = 32768) -> Any:
    """Return the default configuration of one of ENCODINGS, with any maximum length raised to `length`."""
    name, _, time = position.partition(" in ")
    config = POSITION_CONFIGS[name](**({"time": time} if time else {}))
    return replace(config, max_length=length) if hasattr(config, "max_length") else config


def toy_tokens(batch: int, length: int, seed: int = 0) -> torch.Tensor:
    """Return random tokens, (B, T)."""
    return torch.randint(VOCABULARY, (batch, length), generator=Generator().manual_seed(seed))


def whole_of(model: Performer, tokens: torch.Tensor) -> torch.Tensor:
    """Return the logits of whole sequences, (B, T, V)."""
    with torch.no_grad():
        return model(tokens, code=model.begin(generator()))


def kernel_logits(
    network: KernelNetwork, state: State, tokens: np.ndarray, guesses: np.ndarray | None = None
) -> np.ndarray:
    """Append tokens to a state of the kernel, and return the logits after each: (T,) → (T, V)."""
    found, width = [], int(network.fields["head_outputs"])
    for start in range(0, len(tokens), ITEMS):
        some = slice(start, start + ITEMS)
        count = len(tokens[some])
        network.advance([state] * count, tokens[some], None if guesses is None else guesses[some])
        rows = network.kernel.machine.read(int(network.fields["logits"]), 4 * count * width)
        found.append(
            rows.view(np.float32).reshape(count, width)[:, : network.config.vocabulary_size]
        )
    return np.concatenate(found)


def golden(name: str) -> dict[str, torch.Tensor]:
    """Return reference tensors that a paper's code computed."""
    return {key: torch.from_numpy(value) for key, value in np.load(GOLDEN / name).items()}


def generator(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


class Anything(Grammar):
    """A grammar that allows every token, without bars."""

    bars = np.zeros(1, dtype=np.int64)

    def __init__(self) -> None:
        self.bars = np.zeros(1, dtype=np.int64)

    def allowed(self) -> np.ndarray:
        return np.ones((len(self.bars), VOCABULARY), bool)

    def advance(self, tokens: np.ndarray) -> None:
        """Accept any token in each row."""


class Alternating(Anything):
    """A grammar in which odd and even tokens alternate, each 0 starts a bar, and END is last."""

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
