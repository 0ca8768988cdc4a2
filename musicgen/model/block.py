"""One layer of the model: attention and feed-forward, each added to what came in.

B batch, T time, H heads, D head width, C model width.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn import functional

from musicgen.attention.features import FeatureMap
from musicgen.attention.linear_attention import attend
from musicgen.layers.linear import Dropout, Linear, gelu_linear
from musicgen.metre.heads import MetricHeads, Stretches
from musicgen.model.config import ModelConfig
from musicgen.position import Position

# Exact causal softmax attention: what the linear forms are compared with, at quadratic cost.
#
# B batch, T time, H heads, D width. Its state is every key and value so far, so it grows with the position.


class SoftmaxState(NamedTuple):
    """The keys and values of all positions so far, (B, T, H, D) each."""

    keys: Tensor
    values: Tensor

    def map(self, function: Callable[[Tensor], Tensor]) -> SoftmaxState:
        """Apply a function to each tensor."""
        return SoftmaxState(function(self.keys), function(self.values))


def softmax_attend(
    q: Tensor, k: Tensor, v: Tensor, *, state: SoftmaxState | None = None
) -> tuple[Tensor, SoftmaxState]:
    """Weight values by the softmax of q·k/√D over the positions so far: (B, T, H, D) each → the same and the state."""
    if state is not None:
        k, v = torch.cat([state.keys, k], 1), torch.cat([state.values, v], 1)
    length, total = q.shape[1], k.shape[1]
    mask = None
    if 1 < length < total:
        mask = torch.ones(length, total, dtype=torch.bool, device=q.device).tril(total - length)
    out = functional.scaled_dot_product_attention(
        *(x.transpose(1, 2) for x in (q, k, v)), attn_mask=mask, is_causal=1 < length == total
    )
    return out.transpose(1, 2), SoftmaxState(k, v)


_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"gelu": F.gelu, "relu": F.relu}


@dataclass(frozen=True, kw_only=True)
class Passage:
    """Where the tokens of one pass stand: the same for all layers."""

    position: Position
    code: Any  # of the encoding, made ready for these positions
    start: int  # position of the first token
    metre: Stretches | None  # their places in the metre, where the model has metric heads
    goals: Tensor | None = None  # which goal stands at each, (B, T), where the model is told
    recalled: Tensor | None = (
        None  # what is recalled after each, (B, T, 4), where the model recalls
    )
    strength: Tensor | None = None  # by which that counts, (B,), if not fully
    whole: bool = False  # nobody goes on from here: no state is returned
    # By which hooks find the layer's part of the code; None: its own number.
    layer: int | None = None

    def of_layer(self, layer: int) -> Passage:
        """Return what one layer of a whole pass needs to know."""
        code, found = self.position.of_layer(self.code, layer)
        return replace(self, code=code, layer=found, whole=True)


class Attention(nn.Module):
    """Multi-head causal self-attention; without a feature map it is softmax attention."""

    def __init__(self, config: ModelConfig, layer: int, features: FeatureMap | None) -> None:
        super().__init__()
        self.layer = layer
        self.heads = config.heads
        self.backend, self.chunk = config.backend, config.chunk
        self.features = features
        self.qkv = Linear(config.width, 3 * config.width)
        self.metre = None
        if config.metre is not None:
            self.metre = MetricHeads(config.metre, config.width, config.head_width)
        beside = 0 if self.metre is None else self.metre.width
        self.output = Linear(config.width + beside, config.width)

    def forward(self, x: Tensor, passage: Passage, state: Any) -> tuple[Tensor, Any]:
        """Return (B, T, C) → (B, T, C), and the state after the last token."""
        out, after = self._by_tokens(x, passage, state)
        if self.metre is not None:
            assert passage.metre is not None, "a model with metric heads knows the metre"
            memory = None if state is None else state.metre
            by_metre, memory = self.metre(x, passage.metre, memory)
            out = torch.cat([out, by_metre], -1)
            after = after if memory is None else after._replace(metre=memory)
        return self.output(out), None if passage.whole else after

    def _by_tokens(self, x: Tensor, passage: Passage, state: Any) -> tuple[Tensor, Any]:
        """Return what the heads find that count tokens, (B, T, C) → (B, T, C), and the state after."""
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).unbind(2)  # (B, T, H, D) each
        layer = self.layer if passage.layer is None else passage.layer
        q, k = passage.position.qk(q, k, passage.code, passage.start, layer)
        if self.features is None:
            out, state = softmax_attend(q, k, v, state=state)
        else:
            fq, fk = self.features.queries(q), self.features.keys(k)  # (B, T, H, M) each
            out, state = self.attend(x, fq, fk, v, passage, state)
        return out.flatten(2), state

    def attend(
        self, x: Tensor, fq: Tensor, fk: Tensor, v: Tensor, passage: Passage, state: Any
    ) -> tuple[Tensor, Any]:
        """Weigh values by features, (B, T, H, ·) → (B, T, H, D), and the state after; other mixers differ."""
        position = passage.position
        layer = self.layer if passage.layer is None else passage.layer
        placed_fq, placed_fk = position.features(fq, fk, passage.code, passage.start, layer)
        return attend(
            placed_fq,
            placed_fk,
            v,
            decay=position.decay,
            normaliser=None if position.normaliser_is_positioned else (fq, fk),
            state=state,
            backend=self.backend,
            chunk=self.chunk,
        )


class FeedForward(nn.Module):
    """Two linear layers, on each position by itself."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.activation = _ACTIVATIONS[config.activation]
        self.inner = Linear(config.width, config.feedforward)
        self.output = Linear(config.feedforward, config.width)

    def forward(self, x: Tensor) -> Tensor:
        """Return (B, T, C) → (B, T, C)."""
        inner = self.inner(x)
        if self.training and self.activation is F.gelu:
            return gelu_linear(inner, self.output.weight, self.output.bias)
        return self.output(self.activation(inner))


class Block(nn.Module):
    """Attention and feed-forward, each added to what came in, normalised before or after."""

    def __init__(self, config: ModelConfig, attention: Attention, feedforward: FeedForward) -> None:
        super().__init__()
        self.pre = config.norm == "pre"
        self.attention, self.feedforward = attention, feedforward
        self.attention_norm = nn.LayerNorm(config.width)
        self.feedforward_norm = nn.LayerNorm(config.width)
        self.dropout = Dropout(config.dropout)

    def forward(self, x: Tensor, passage: Passage, state: Any) -> tuple[Tensor, Any]:
        """Return (B, T, C) → (B, T, C), and the attention's state."""
        if self.pre:
            y, state = self.attention(self.attention_norm(x), passage, state)
            x = x + self.dropout(y)
            return x + self.dropout(self.feedforward(self.feedforward_norm(x))), state
        y, state = self.attention(x, passage, state)
        x = self.attention_norm(x + self.dropout(y))
        return self.feedforward_norm(x + self.dropout(self.feedforward(x))), state
