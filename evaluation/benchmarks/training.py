"""Train and measure one model of a benchmark.

The batch, the code and the dropout of a step depend only on (seed, step), so that all encodings see the same examples
in the same order.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from evaluation.benchmarks.mixers import WholeAttention, WholePassage, mixed
from evaluation.benchmarks.variants import Variant, model_config, position_of
from musicgen.common.learning import cosine_rate, generator_of, parameter_groups, seed_of
from musicgen.features import FEATURES, FeatureMap
from musicgen.linear import Linear
from musicgen.performer import Block, FeedForward, Performer, draw_weights, redraw_features
from tokenization.records import check_fields

# A classifier of whole sequences or of pairs of them, with the blocks of the music models, but without a causal mask.
#
#     tokens (or vectors) → embedding → blocks → mean over positions, or first position → hidden layer → classes
#
# B batch, T time, C model width.

Pool = Literal["mean", "first"]  # the mean over all positions, or the output at the first one


class Classifier(nn.Module):
    """A classifier with bidirectional blocks; with `pairs`, it compares two sequences that the same blocks read."""

    def __init__(
        self,
        chosen: Variant,
        values: dict[str, Any],
        *,
        classes: int,
        pairs: bool = False,
        vectors: int | None = None,
        pool: Pool = "mean",
        seed: int = 0,
    ) -> None:
        """Build the model; `values` are those of ModelConfig, `vectors` is the width of inputs that are vectors."""
        super().__init__()
        self.pool = pool
        config = model_config(chosen, values)
        self.config, self.pairs = config, pairs
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.position = position_of(chosen, config)
            self.embedding = (
                nn.Embedding(config.vocabulary_size, config.width)
                if vectors is None
                else nn.Linear(vectors, config.width)
            )
            self.dropout = nn.Dropout(config.dropout)
            self.blocks = nn.ModuleList(self._block(chosen) for _ in range(config.layers))
            self.norm = nn.LayerNorm(config.width)
            self.hidden = Linear((4 if pairs else 1) * config.width, config.feedforward)
            self.head = Linear(config.feedforward, classes)
        self._initialise(torch.Generator().manual_seed(seed))

    def _block(self, chosen: Variant) -> Block:
        config = self.config
        width = self.position.qk_width
        features: FeatureMap = FEATURES[config.features_name](config.features, width)
        attention = WholeAttention(config, features)
        return Block(config, mixed(attention, chosen.mixer, config, width), FeedForward(config))

    @torch.no_grad()
    def _initialise(self, generator: Generator) -> None:
        """Draw the weights as in the music models."""
        draw_weights(self.blocks.named_modules(), self.config, generator)
        if isinstance(self.embedding, nn.Embedding):
            self.embedding.weight.normal_(0, 1, generator=generator)
        redraw_features(self, generator)

    def begin(self, generator: Generator) -> Any:
        """Draw the code that all sequences of a batch share."""
        return self.position.begin(generator)

    def forward(
        self, inputs: Tensor, present: Tensor, code: Any, places: Tensor | None = None
    ) -> Tensor:
        """Return logits (B, classes) for tokens (B, T) or vectors (B, T, ·); for pairs of successive rows, (B/2, ·)."""
        pooled = self._pooled(inputs, present, code, places)
        if self.pairs:
            one, two = pooled[0::2], pooled[1::2]
            pooled = torch.cat([one, two, one * two, one - two], -1)
        return self.head(functional.relu(self.hidden(pooled)))

    def _pooled(self, inputs: Tensor, present: Tensor, code: Any, places: Tensor | None) -> Tensor:
        length = inputs.shape[1]
        x = self.dropout(self.position.embed(self.embedding(inputs), 0))
        code = self.position.cover(code, 0, length, places)
        padded = None if bool(present.all()) else present
        passage = WholePassage(
            position=self.position, code=code, start=0, metre=None, present=padded
        )
        for number, block in enumerate(self.blocks):
            x, _ = block(x, passage.of_layer(number), None)
        if self.pool == "first":
            return self.norm(x[:, 0])
        kept = present.unsqueeze(-1).to(x.dtype)
        return (self.norm(x) * kept).sum(1) / kept.sum(1).clamp(min=1)


ORDER, CODE, DROPOUT, REDRAW, MEASURE = range(5)  # purposes of randomness
STEPS = "steps"  # the measure of the number of steps


@dataclass(frozen=True, kw_only=True)
class Optimiser:
    """The settings of AdamW, with a warm-up and a schedule over a number of steps or seconds."""

    steps: int
    seconds: float | None = None  # of processor time, or of real time on a GPU; instead of steps
    batch: int
    learning_rate: float = 1e-3
    warmup: int = 50
    schedule: Literal["cosine", "inverse_sqrt"] = "cosine"  # to 1 % of the peak
    beta1: float = 0.9
    beta2: float = 0.98
    epsilon: float = 1e-8
    weight_decay: float = 0.01
    clip: float | None = 1.0
    redraw: float = 0.05  # probability of new random features at a step

    def __post_init__(self) -> None:
        check_fields(self)
        if min(self.steps, self.batch) < 1 or (self.seconds is not None and self.seconds <= 0):
            raise ValueError(
                f"steps are {self.steps}, batch is {self.batch}, seconds are {self.seconds}; "
                "steps and batch must be 1 or more, and seconds above 0"
            )

    def done(self, step: int, spent: float) -> float:
        """Return the fraction of the training before a step, counted from 0, from the seconds spent."""
        return step / self.steps if self.seconds is None else spent / self.seconds

    def rate(self, step: int, done: float) -> float:
        """Return the learning rate at a step, counted from 0."""
        if step < self.warmup:
            return self.learning_rate * (step + 1) / self.warmup
        if self.schedule == "inverse_sqrt":
            return self.learning_rate * math.sqrt(max(1, self.warmup) / (step + 1))
        total = self.steps if self.seconds is None or not done else round(step / done)
        of_peak = {"peak": 1.0, "floor": 0.01, "warmup": self.warmup, "total": max(total, step + 1)}
        return self.learning_rate * cosine_rate(step, **of_peak)


@dataclass(frozen=True, kw_only=True)
class Examples:
    """Sequences of tokens or vectors to classify; a pair is two sequences with one label."""

    inputs: list[np.ndarray]
    labels: np.ndarray
    places: np.ndarray | None = None  # in space, (n, T, ℓ), or (1, T, ℓ) for all sequences

    def only(self, rows: np.ndarray) -> Examples:
        """Return the examples with these numbers."""
        each = len(self.inputs) // max(1, len(self.labels))  # sequences per label
        numbers = (rows[:, None] * each + np.arange(each)).reshape(-1)
        places = self.places
        if places is not None and len(places) > 1:
            places = places[numbers]
        inputs = [self.inputs[n] for n in numbers]
        return Examples(inputs=inputs, labels=self.labels[rows], places=places)

    def batch(self, rows: np.ndarray, device: torch.device) -> dict[str, Any]:
        """Return the examples with these numbers, padded to the longest."""
        chosen = self.only(rows)
        sequences, places = chosen.inputs, chosen.places
        length = max(len(x) for x in sequences)
        kind = np.float32 if sequences[0].ndim == 2 else np.int64
        inputs = np.zeros((len(sequences), length, *sequences[0].shape[1:]), dtype=kind)
        present = np.zeros((len(sequences), length), dtype=bool)
        for row, x in enumerate(sequences):
            inputs[row, : len(x)], present[row, : len(x)] = x, True
        return {
            "inputs": torch.from_numpy(inputs).to(device),
            "present": torch.from_numpy(present).to(device),
            "places": None if places is None else torch.from_numpy(places[:, :length]).to(device),
        }


def fit(
    model: Classifier | Performer,
    loss_of: Callable[[int, Any], Tensor],
    settings: Optimiser,
    seed: int,
) -> list[float]:
    """Train, and return the loss of each step; raise ValueError if a loss is not finite."""
    optimiser = torch.optim.AdamW(
        parameter_groups(model.parameters(), settings.weight_decay),
        lr=settings.learning_rate, betas=(settings.beta1, settings.beta2), eps=settings.epsilon,
    )  # fmt: skip
    model.train()
    on_cpu = next(model.parameters()).device.type == "cpu"
    clock = time.process_time if on_cpu else time.monotonic
    losses, start = [], clock()
    while (done := settings.done(step := len(losses), clock() - start)) < 1:
        if np.random.default_rng([seed, step, REDRAW]).random() < settings.redraw:
            redraw_features(model, generator_of(seed, step, REDRAW))
        torch.manual_seed(seed_of(seed, step, DROPOUT))
        for group in optimiser.param_groups:
            group["lr"] = settings.rate(step, done)
        loss = loss_of(step, model.begin(generator_of(seed, step, CODE)))
        loss.backward()
        if settings.clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), settings.clip)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        losses.append(float(loss.detach()))
        if not math.isfinite(losses[-1]):
            raise ValueError(
                f"the loss was not finite at step {step + 1}; a lower learning_rate may help"
            )
    return losses


def classified(
    model: Classifier,
    train: Examples,
    test: Examples,
    settings: Optimiser,
    seed: int,
) -> dict[str, float]:
    """Train a classifier, and return its test accuracy and the mean loss of the last tenth of the training."""
    device = next(model.parameters()).device

    def loss_of(step: int, code: Any) -> Tensor:
        rows = _rows(seed, step, settings.batch, len(train.labels))
        logits = model(**train.batch(rows, device), code=code)
        return functional.cross_entropy(logits, torch.from_numpy(train.labels[rows]).to(device))

    losses = fit(model, loss_of, settings, seed)
    model.eval()
    right = 0
    with torch.no_grad():
        code = model.begin(generator_of(seed, MEASURE))
        for first in range(0, len(test.labels), settings.batch):
            rows = np.arange(first, min(first + settings.batch, len(test.labels)))
            found = model(**test.batch(rows, device), code=code).argmax(-1).cpu().numpy()
            right += int((found == test.labels[rows]).sum())
    return {
        "accuracy": right / len(test.labels),
        "training_loss": float(np.mean(losses[-max(1, len(losses) // 10) :])),
    }


def perplexities(
    model: Performer,
    train: np.ndarray,
    test: np.ndarray,
    length: int,
    edges: list[int],
    sequences: int,
    settings: Optimiser,
    seed: int,
) -> dict[str, float]:
    """Train on random excerpts of a text, and return the test perplexity by ranges of positions between the edges."""
    device = next(model.parameters()).device

    def loss_of(step: int, code: Any) -> Tensor:
        random = np.random.default_rng([seed, step, ORDER])
        starts = random.integers(len(train) - length, size=settings.batch)
        ids = np.stack([train[start : start + length + 1] for start in starts]).astype(np.int64)
        return _token_losses(model, torch.from_numpy(ids).to(device), code).mean()

    steps = len(fit(model, loss_of, settings, seed))
    model.eval()
    longest = edges[-1]
    starts = np.linspace(0, len(test) - longest - 1, sequences, dtype=int)
    found = []
    with torch.no_grad():
        code = model.begin(generator_of(seed, MEASURE))
        for start in starts:
            ids = torch.from_numpy(test[start : start + longest + 1].astype(np.int64)[None])
            found.append(_token_losses(model, ids.to(device), code)[0].double().cpu().numpy())
    losses = np.stack(found)  # (sequences, positions)
    by_position = {
        f"{first}–{last}": float(np.exp(losses[:, first:last].mean()))
        for first, last in pairwise(edges)
    }
    return by_position if settings.seconds is None else {STEPS: steps, **by_position}


def _rows(seed: int, step: int, batch: int, count: int) -> np.ndarray:
    """Return the examples of a step: each occurs once per epoch, in an order drawn from the seed."""
    numbers = np.arange(step * batch, (step + 1) * batch)
    epochs = np.unique(numbers // count)
    orders = {e: np.random.default_rng([seed, int(e), ORDER]).permutation(count) for e in epochs}
    return np.array([orders[n // count][n % count] for n in numbers])


def _token_losses(model: Performer, ids: Tensor, code: Any) -> Tensor:
    """Return the loss of each token except for the first, (B, T + 1) → (B, T)."""
    logits = model(ids[:, :-1], code=code)
    return functional.cross_entropy(logits.transpose(1, 2), ids[:, 1:], reduction="none")
