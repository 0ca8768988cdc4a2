"""One generated token: what `Performer` computes, as a list of calls made ready.

A token of the paper's model reads 300 MB of weights. They sweep the processor's caches, so that each call of torch
between two matrices starts cold and takes some 10 µs however few its numbers; a view or a new tensor costs a tenth to a
half of that, and looking parts up on modules as much again. So all is laid out once for a sequence: tensors that each
call writes into, the same for all layers, the views of them that the next one reads, and queries beside keys so that
both go through the same calls. Then a token is `for call in calls: call()`. The formulas stay with their owners:
linear_attention.py, features.py, metre/ and the encodings say how they go in steps.

B rows, H heads, D head width, W width of positioned queries, M features, C model width; "queries beside keys" is a
tensor of 2H heads, the queries' first. Matrices are multiplied by more rows than B where few_rows.py asks for it: those
mean nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

from musicgen.attention.linear_attention import AttentionState, calls_of_one
from musicgen.layers.compiled.available import loops_for
from musicgen.layers.few_rows import Product, product, rows_for, way_for
from musicgen.layers.multiplications import Derived
from musicgen.layers.precision import without_autocast
from musicgen.layers.step_calls import Call, StepInputs, bare, in_place
from musicgen.metre.clock import Times
from musicgen.model.performer import Performer
from musicgen.position import Position

# Linear layers that read the same input as one layer: one product instead of several, where each call costs.

_KEPT: Derived[nn.Linear] = Derived()


def joined(layers: Sequence[nn.Linear]) -> nn.Linear:
    """Return a layer whose output is that of these side by side: a copy, kept while they live and do not change.

    One alone is itself.
    """
    if len(layers) == 1:
        return layers[0]
    weights, biases = [layer.weight for layer in layers], [layer.bias for layer in layers]
    return _KEPT.of([*weights, *biases], lambda: _joined(layers))


@torch.inference_mode(False)
@torch.no_grad()
def _joined(layers: Sequence[nn.Linear]) -> nn.Linear:
    weight = torch.cat([layer.weight for layer in layers])
    whole = nn.Linear(weight.shape[1], weight.shape[0], device="meta")
    whole.weight = nn.Parameter(weight, requires_grad=False)
    whole.bias = nn.Parameter(torch.cat([layer.bias for layer in layers]), requires_grad=False)
    return whole


Calls = Iterator[tuple[str, Call]]
"""Calls in their order, each with the kind of work it is."""


@dataclass
class _Flow:
    """What goes from call to call; the calls know it and not their list, so that nothing refers to itself."""

    x: Tensor  # (rows, C), what the layers add to
    normed: Tensor  # (rows, C)


class ReadyCalls:
    """What `Performer.step` computes as calls for the rows of one batch, which update the states in place.

    Each row may go on with a sequence of its own; the memories of metric heads may lie at other places than their rows.
    """

    def __init__(
        self,
        model: Performer,
        states: tuple[AttentionState, ...],
        watch: Callable[[str, Call], Call] = lambda kind, call: call,
    ) -> None:
        config = model.config
        self.position, self.time, self.metre = model.position, model.time, model.metre
        self.goals = model.goals
        self.inputs = StepInputs(code=None)
        self.embedding = model.embedding.weight
        self.scale = math.sqrt(config.width)
        self.heads, self.pre = config.heads, config.norm == "pre"
        self.batch = len(states[0].sums)
        # A lone row's GELU would go through another kernel.
        self.rows = rows_for(self.batch, [1 + (config.activation == "gelu"), *_multiples(model)])
        x = self.embedding.new_zeros(self.rows, config.width)
        self.flow, self.normed = _Flow(x, x), torch.empty_like(x)
        self.logits = x.new_empty(self.rows, config.vocabulary_size)
        parts: Any = model.blocks
        norms = [*(block.attention_norm for block in parts), model.norm]
        blocks = map(self._block, parts, states, norms[1:])
        first = self._normalised(norms[0]) if self.pre else ()
        calls = chain(first, chain.from_iterable(blocks), self._output(model))
        self.calls = [watch(kind, call) for kind, call in calls]

    def __call__(
        self,
        tokens: Tensor,
        codes: Sequence[Any],
        positions: Sequence[int],
        times: Times | None = None,
        places: Tensor | None = None,
    ) -> tuple[Tensor, Sequence[Any], Times | None]:
        """Absorb a token a row, (B,) → (B, V), and return the codes and the times after it."""
        with without_autocast(tokens.device):
            inputs, around, x = self.inputs, None, torch.embedding(self.embedding, tokens)
            if self.time is not None:
                assert times is not None, "a state of a model that counts musical time has times"
                after = self.time.after(tokens.unsqueeze(1), times.ticks).squeeze(1)
                newest = times.newest
                goal = times.goal
                if self.metre is not None:
                    inputs.metre, newest = self.metre.step(after, times.ticks, newest, places)
                if self.position.musical:
                    around = torch.stack([after, times.ticks]).unsqueeze(-1)
                if self.goals is not None:
                    goal = self.goals.standing(tokens.unsqueeze(1), goal).squeeze(1)
                    x = x + self.goals(goal)
                times = Times(after, newest, goal)
            inputs.code, codes = self.position.cover_rows(codes, positions, around)
            x = x.unsqueeze(1) * self.scale
            if self.rows > self.batch:
                self.flow.x.zero_()  # else the rows of no meaning add up from token to token
            if type(self.position).embed is not Position.embed:
                x = self.position.embed(x, torch.tensor(positions).unsqueeze(1))
            self.flow.x[: self.batch] = x.squeeze(1)
            for call in self.calls:
                call()
            # Codes are megabytes, and these calls may wait for long.
            inputs.code = inputs.metre = None
            return self.logits[: self.batch].clone(), codes, times

    def _block(self, block: Any, state: AttentionState, next_norm: nn.Module) -> Calls:
        """Yield the calls of a `Block`; where norms come first, with the first one after it."""
        attention, feedforward, x = block.attention, block.feedforward, self.flow.x
        self.inputs.scratch.next_layer()
        branch = self._scratch(*x.shape).zero_()
        inner = self._scratch(self.rows, feedforward.inner.bias.numel()).zero_()
        yield from self._attention(attention, state, branch)
        yield from self._added(branch, block.feedforward_norm if self.pre else block.attention_norm)
        yield "matrices", self._of_normed(feedforward.inner, inner)
        yield "activation", in_place(feedforward.activation, inner)
        yield "matrices", partial(self._into(feedforward.output, branch), inner)
        yield from self._added(branch, next_norm if self.pre else block.feedforward_norm)

    def _attention(self, attention: Any, state: AttentionState, out: Tensor) -> Calls:
        """Yield the calls of an `Attention`, whose result goes to `out`, (rows, C)."""
        batch, heads, layer, position = self.batch, self.heads, attention.layer, self.position
        x, scratch = self.flow.x, self.inputs.scratch
        assert attention.features is not None, "softmax attention does not go in these steps"
        projected, multiply = self._queries_keys_values(attention)
        all_heads = projected[0][:batch].view(batch, 3 * heads, -1)  # (B, 3H, D)
        qk, v = all_heads[:, : 2 * heads], all_heads[:, 2 * heads :].unsqueeze(2)
        placed = self._scratch(batch, 2 * heads, position.qk_width)
        features = scratch.empty(state.sums, batch, 2 * heads, attention.features.features)
        fq, fk = features.unsqueeze(2).chunk(2, 1)  # (B, H, 1, M) each
        y = self._scratch(self.rows, attention.output.weight.shape[1]).zero_()
        by_head = y[:batch, : x.shape[1]].view(v.shape)
        yield "matrices", multiply
        for call in position.for_steps(layer, qk, placed, self.inputs):
            yield "positions", call
        for call in attention.features.for_steps(placed, features, scratch):
            yield "features", call
        normaliser = None if position.normaliser_is_positioned else (fq, fk)
        if type(position).features is not Position.features:
            place, fq, fk = self._placed(fq, fk, layer, state)
            yield "positions", place
        for call in calls_of_one(fq, fk, v, position.decay, normaliser, state, by_head, scratch):
            yield "attention state", call
        if attention.metre is not None:
            assert state.metre is not None, "a state of a model with metric heads has their memory"
            rows, out_by_head = projected[1][:batch], y[:batch, x.shape[1] :]
            out_by_head = out_by_head.unflatten(1, (attention.metre.heads, -1))
            for call in attention.metre.for_steps(rows, state.metre, out_by_head, self.inputs):
                yield "attention state", call
        yield "matrices", partial(self._into(attention.output, out), y)

    def _queries_keys_values(self, attention: Any) -> tuple[Sequence[Tensor], Call]:
        """Return where those of the heads are written, and of metric heads, (rows, ·) each, and the product."""
        layers = projections(attention)
        widths = [len(layer.weight) for layer in layers]
        out = self._scratch(self.rows, sum(widths))
        return out.split(widths, 1), self._of_normed(joined(layers), out)

    def _placed(
        self, fq: Tensor, fk: Tensor, layer: int, state: AttentionState
    ) -> tuple[Call, Tensor, Tensor]:
        """Return the encoding's hook after the feature map as a call, and the tensors that it writes."""
        shape = *fq.shape[:-1], state.sums.shape[-2]
        placed_q, placed_k = (self.inputs.scratch.empty(fq, *shape) for _ in "qk")
        by_time = fq.transpose(1, 2), fk.transpose(1, 2)  # (B, 1, H, M)
        hook, inputs = self.position.features, self.inputs

        def place() -> None:
            q, k = hook(*by_time, inputs.code, 0, layer)
            placed_q.copy_(q.transpose(1, 2))
            placed_k.copy_(k.transpose(1, 2))

        return place, placed_q, placed_k

    def _output(self, model: Performer) -> Calls:
        if model.head is None:
            head = product(self.embedding, None, self.logits)
        else:
            head = self._into(model.head, self.logits)
        flow = self.flow
        yield "matrices", lambda: head(flow.normed)

    def _added(self, branch: Tensor, norm: nn.Module) -> Calls:
        """Yield the calls that add a branch to x and normalise: x itself, or what the next branch reads of it."""
        x, flow = self.flow.x, self.flow
        if self.pre and isinstance(norm, nn.LayerNorm) and (loops := loops_for(x, norm.weight)):
            weight, bias = norm.weight.detach().numpy(), norm.bias.detach().numpy()
            loop, normed = loops.add_and_normalise, self.normed
            arrays = x.numpy(), branch.numpy(), weight, bias, norm.eps, normed.numpy()

            def add_and_normalise() -> None:
                loop(*arrays)
                flow.normed = normed

            yield "norms", add_and_normalise
            return
        yield "rest", partial(x.add_, branch)
        called = bare(norm)
        yield from self._normalised(norm) if self.pre else [("norms", lambda: x.copy_(called(x)))]

    def _normalised(self, norm: nn.Module) -> Calls:
        flow, called = self.flow, bare(norm)

        def normalise() -> None:
            flow.normed = called(flow.x)

        yield "norms", normalise

    def _of_normed(self, layer: nn.Linear, out: Tensor) -> Call:
        """Return the product with what was normalised before the branch, or with x where that comes after it."""
        multiply, flow = self._into(layer, out), self.flow
        return (lambda: multiply(flow.normed)) if self.pre else partial(multiply, flow.x)

    def _into(self, layer: nn.Linear, out: Tensor) -> Product:
        """Return a linear layer as a function that writes to `out`, of as few of its rows as this layer needs."""
        rows = rows_for(self.batch, [way_for(layer.weight).multiple])
        multiply = product(layer.weight, layer.bias, out[:rows])
        return multiply if rows == self.rows else lambda x: multiply(x[:rows])

    def _scratch(self, *shape: int) -> Tensor:
        return self.inputs.scratch.empty(self.flow.x, *shape)


def projections(attention: Any) -> list[Any]:
    """Return the layers that make queries, keys and values: of the heads, and of the metric heads if there are any."""
    return [attention.qkv] if attention.metre is None else [attention.qkv, attention.metre.qkv]


def _multiples(model: Performer) -> Iterator[int]:
    """Yield of what the number of rows has to be a multiple, for each matrix of a model."""
    blocks: Any = model.blocks
    for block in blocks:
        first, feedforward = joined(projections(block.attention)), block.feedforward
        for layer in (first, block.attention.output, feedforward.inner, feedforward.output):
            yield way_for(layer.weight).multiple
    yield way_for((model.embedding if model.head is None else model.head).weight).multiple
