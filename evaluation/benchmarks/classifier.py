"""A classifier of whole sequences, or of pairs of them: the blocks of the music models without their causal mask.

    tokens (or vectors) → embedding → blocks → mean over the positions, or the first → a hidden layer → classes

B batch, T time, C model width.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from evaluation.benchmarks.bidirectional import WholeAttention, WholePassage
from evaluation.benchmarks.variants import Variant, mixed, model_config, position_of
from musicgen.attention.features import FEATURES, FeatureMap
from musicgen.layers.dropout import Dropout
from musicgen.layers.linear import Linear
from musicgen.model.block import Block, FeedForward
from musicgen.model.drawn_weights import draw_weights, redraw_features

POOLS = ("mean", "first")  # over all positions, or what stands at the first


class Classifier(nn.Module):
    """Bidirectional blocks under a classifier; `pairs` compares two sequences, read by the same blocks."""

    def __init__(
        self,
        chosen: Variant,
        values: dict[str, Any],
        *,
        classes: int,
        pairs: bool = False,
        vectors: int | None = None,
        pool: str = "mean",
        seed: int = 0,
    ) -> None:
        """`values` are those of ModelConfig; `vectors` is the width of inputs that are no tokens."""
        super().__init__()
        if pool not in POOLS:
            raise ValueError(f"pool is {pool!r}; it must be one of {', '.join(POOLS)}")
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
            self.dropout = Dropout(config.dropout)
            self.blocks = nn.ModuleList(self._block(chosen, n) for n in range(config.layers))
            self.norm = nn.LayerNorm(config.width)
            self.hidden = Linear((4 if pairs else 1) * config.width, config.feedforward)
            self.head = Linear(config.feedforward, classes)
        self._initialise(torch.Generator().manual_seed(seed))

    def _block(self, chosen: Variant, layer: int) -> Block:
        config = self.config
        width = self.position.qk_width
        features: FeatureMap = FEATURES[config.features_name][1](config.features, width)
        attention = WholeAttention(config, layer, features)
        return Block(config, mixed(attention, chosen, config, layer, width), FeedForward(config))

    @torch.no_grad()
    def _initialise(self, generator: Generator) -> None:
        """Draw the weights as those of the music models are; gates stay as torch draws them."""
        modules = self.blocks.named_modules()
        drawn = [(name, module) for name, module in modules if not name.endswith(".gate")]
        draw_weights(drawn, self.config, generator)
        if isinstance(self.embedding, nn.Embedding):
            self.embedding.weight.normal_(0, 1, generator=generator)
        self.redraw(generator)

    def redraw(self, generator: Generator) -> None:
        """Draw the random features of every layer anew."""
        redraw_features(self, generator)

    def begin(self, generator: Generator) -> Any:
        """Draw the code that a batch of sequences shares."""
        return self.position.begin(generator)

    def forward(
        self, inputs: Tensor, present: Tensor, code: Any, places: Tensor | None = None
    ) -> Tensor:
        """Return logits (B, classes) of tokens (B, T) or vectors (B, T, ·); of pairs, one after the other, (B/2, ·)."""
        pooled = self._pooled(inputs, present, code, places)
        if self.pairs:
            one, two = pooled[0::2], pooled[1::2]
            pooled = torch.cat([one, two, one * two, one - two], -1)
        return self.head(functional.relu(self.hidden(pooled)))

    def _pooled(self, inputs: Tensor, present: Tensor, code: Any, places: Tensor | None) -> Tensor:
        length = inputs.shape[1]
        x = self.dropout(self.position.embed(self.embedding(inputs), 0))
        code = self.position.cover(code, 0, length, places)
        everything = present if not bool(present.all()) else None
        passage = WholePassage(
            position=self.position, code=code, start=0, metre=None, present=everything
        )
        for block in self.blocks:
            x, _ = block(x, passage, None)
        if self.pool == "first":
            return self.norm(x[:, 0])
        kept = present.unsqueeze(-1).to(x.dtype)
        return (self.norm(x) * kept).sum(1) / kept.sum(1).clamp(min=1)
