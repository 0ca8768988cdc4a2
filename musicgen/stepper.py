"""One generated token: what `Performer` computes, with as little as possible around the matrices.

A token of the paper's model reads 300 MB of weights. They sweep the processor's caches, so that each call of torch
between two matrices starts cold and takes some 10 µs however few its numbers, and looking parts up on modules takes as
long. So the parts are gathered once, as bare functions, and queries and keys of all heads go through each call
together. The formulas stay with their owners: attention.py, features.py and the encodings say how they go in steps.

B rows, H heads, D head width, W width of positioned queries, M features, C model width; "queries over keys" is a
tensor of 2H heads, the queries' first.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from musicgen.attention import AttentionState, attend_once
from musicgen.linear import filled, least_rows
from musicgen.position import Position
from musicgen.precision import without_autocast

if TYPE_CHECKING:
    from musicgen.model import Performer

Function = Callable[[Tensor], Tensor]


class Moment(NamedTuple):
    """What the layers have in common at one token."""

    code: Any
    position: int
    decay: Tensor | None  # (H, 1, 1)
    one: Tensor  # (B, H, 1, 1)
    rows: int  # that are computed
    batch: int  # … and those that are asked for


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The parts of a block as functions, of rows (B, ·) where nothing else is said."""

    attention_norm: Function
    qkv: Function
    place: Callable[[Tensor, Any, int], Tensor]  # queries over keys: (2H, B, D) → (2H, B, W)
    features: Function  # … (2HB, W) → (2HB, M)
    attend: Callable[[Tensor, Tensor, Tensor, AttentionState, Moment], Tensor]  # (B, H, 1, ·)
    output: Function
    feedforward_norm: Function
    inner: Function
    activation: Function
    outer: Function

    @classmethod
    def of(cls, block: Any, position: Position) -> Parts:
        """Gather those of a `Block`."""
        attention, feedforward = block.attention, block.feedforward
        assert attention.features is not None, "softmax attention does not go in these steps"
        return cls(
            attention_norm=bare(block.attention_norm),
            qkv=bare(attention.qkv),
            place=position.for_steps(attention.layer),
            features=attention.features.for_steps(),
            attend=_attend(position, attention.layer),
            output=bare(attention.output),
            feedforward_norm=bare(block.feedforward_norm),
            inner=bare(feedforward.inner),
            activation=_of_few(feedforward.activation),
            outer=bare(feedforward.output),
        )


class Stepper:
    """The parts of a model with linear attention; of a sequence it remembers nothing."""

    def __init__(self, model: Performer) -> None:
        config = model.config
        self.position = model.position
        self.embedding = model.embedding.weight
        self.scale = math.sqrt(config.width)
        self.least = least_rows(min(config.width, config.feedforward))
        self.heads, self.pre = config.heads, config.norm == "pre"
        self.parts = [Parts.of(block, model.position) for block in model.blocks]
        self.norm = bare(model.norm)
        tied = partial(F.linear, weight=self.embedding)
        self.head = tied if model.head is None else bare(model.head)
        self.blocks = self.bound()

    def bound(self) -> list[Callable[[Tensor, AttentionState, Moment], Tensor]]:
        """Return a function for each block's parts, as they are now."""
        return [_block(parts, self.heads, self.pre) for parts in self.parts]

    def __call__(
        self, tokens: Tensor, states: tuple[AttentionState, ...], code: Any, position: int
    ) -> tuple[Tensor, Any]:
        """Absorb a token a row, (B,) → (B, V), and return the code behind it; the states are updated in place."""
        with without_autocast(tokens.device):
            code = self.position.cover(code, position, position + 1)
            x = torch.embedding(self.embedding, tokens).unsqueeze(1) * self.scale
            x = filled(self.position.embed(x, position).squeeze(1), self.least)  # (rows, C)
            sums, decay = states[0].sums, self.position.decay
            decay = None if decay is None else decay.to(sums.dtype).view(-1, 1, 1)
            one = sums.new_ones(*sums.shape[:2], 1, 1)
            moment = Moment(code, position, decay, one, len(x), len(tokens))
            for block, state in zip(self.blocks, states, strict=True):
                x = block(x, state, moment)
            return self.head(self.norm(x))[: len(tokens)], code


def _block(
    parts: Parts, heads: int, pre: bool
) -> Callable[[Tensor, AttentionState, Moment], Tensor]:
    """Return a block of the model as a function of rows (rows, C), its state and the moment."""
    attention_norm, qkv, place, features = (
        parts.attention_norm, parts.qkv, parts.place, parts.features,
    )  # fmt: skip
    attend, output, feedforward_norm = parts.attend, parts.output, parts.feedforward_norm
    inner, activation, outer = parts.inner, parts.activation, parts.outer

    def attention(x: Tensor, state: AttentionState, moment: Moment) -> Tensor:
        code, position, _, _, rows, batch = moment
        all_heads = qkv(x).narrow(0, 0, batch).view(batch, 3 * heads, -1)  # (B, 3H, D)
        qk = place(all_heads.narrow(1, 0, 2 * heads).transpose(0, 1), code, position)
        f = features(qk.reshape(2 * heads * batch, -1)).view(2, heads, batch, 1, -1)
        fq, fk = f.transpose(1, 2).unbind()  # (B, H, 1, M) each
        v = all_heads.narrow(1, 2 * heads, heads).unsqueeze(2)
        y = attend(fq, fk, v, state, moment)  # (B, H, 1, D)
        return output(filled(y.to(v.dtype).view(batch, -1), rows))

    def before(x: Tensor, state: AttentionState, moment: Moment) -> Tensor:
        x = x + attention(attention_norm(x), state, moment)
        return x + outer(activation(inner(feedforward_norm(x))))

    def after(x: Tensor, state: AttentionState, moment: Moment) -> Tensor:
        x = attention_norm(x + attention(x, state, moment))
        return feedforward_norm(x + outer(activation(inner(x))))

    return before if pre else after


def _attend(position: Position, layer: int) -> Callable[..., Tensor]:
    """Return the attention of one token to all before it, of features (B, H, 1, M) and values (B, H, 1, D)."""

    def attend(fq: Tensor, fk: Tensor, v: Tensor, state: AttentionState, moment: Moment) -> Tensor:
        return attend_once(fq, fk, v, moment.one, moment.decay, None, state)

    def attend_placed(
        fq: Tensor, fk: Tensor, v: Tensor, state: AttentionState, moment: Moment
    ) -> Tensor:
        normaliser = None if position.normaliser_is_positioned else (fq, fk)
        fq, fk = (x.transpose(1, 2) for x in (fq, fk))  # (B, 1, H, M)
        fq, fk = position.features(fq, fk, moment.code, moment.position, layer)
        fq, fk = (x.transpose(1, 2) for x in (fq, fk))
        return attend_once(fq, fk, v, moment.one, moment.decay, normaliser, state)

    return attend if type(position).features is Position.features else attend_placed


def bare(module: nn.Module) -> Function:
    """Return what a module computes as a function that looks nothing up."""
    if isinstance(module, nn.Linear):
        return partial(F.linear, weight=module.weight, bias=module.bias)
    if isinstance(module, nn.LayerNorm):
        shape, weight, bias = module.normalized_shape, module.weight, module.bias
        return partial(
            torch.layer_norm, normalized_shape=shape, weight=weight, bias=bias, eps=module.eps
        )
    return module.forward


def _of_few(activation: Function) -> Function:
    """Return an activation by torch's own kernel: contiguous input goes to oneDNN's, which takes 40 µs to start."""
    return lambda x: activation(x.t()).t()
