"""Batches of generated sequences, one row each, whatever their positions, codes and musical times.

Rows join and leave between steps, and some may pause while others advance. The compiled loops (loops.py) compute each
row by itself, so that a row's results do not depend, to the last bit, on the other rows. They support models in float32
on a CPU with linear attention, without an encoding or with SPE, rotations, or vectors added to the embeddings
(`supports`). Rows of other models advance one after the other, by `Performer.step`.

B rows, L layers, H heads, D head width, M features, N features of metric heads, R rows of a metric memory, V tokens.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from musicgen import loops
from musicgen.attention import GUARD, dequantise, exact_codes, map_state, quantise, without_autocast
from musicgen.config import ModelConfig
from musicgen.features import PROJECTION_OVER_NORM, Elu, Favor, Relu
from musicgen.metre import MIN_FEATURE, Times
from musicgen.performer import Performer, State
from musicgen.position import Position
from musicgen.position.rope import Rope
from musicgen.position.spe.base import StochasticPosition
from musicgen.recall import BAR, NOTE, ONSET, PART, VALUES, Recollection, recall_rows

EXHAUSTED_PENALTY = 30.0  # nats subtracted from returns to a bar that has been repeated too often
Array = np.ndarray[Any, Any]
_FEATURES = {Relu: loops.RELU, Elu: loops.ELU, Favor: loops.FAVOR}


def supports(model: Performer) -> bool:
    """Return whether the compiled loops support a model."""
    position = model.position
    plain = type(position).qk is Position.qk or isinstance(position, StochasticPosition | Rope)
    untouched = type(position).features is Position.features and position.normaliser_is_positioned
    known = all(
        type(block.attention.features) in _FEATURES  # type: ignore[union-attr]
        for block in model.blocks
    )
    weights = model.embedding.weight
    on_cpu = weights.device.type == "cpu" and weights.dtype == torch.float32
    return plain and untouched and known and on_cpu


def _packed(model: Performer) -> loops.Model:
    """Return a copy of a model's weights in the layout of the loops."""
    blocks: list[Any] = list(model.blocks)
    attentions = [block.attention for block in blocks]
    metre = attentions[0].metre
    qkv = [[one.qkv] if metre is None else [one.qkv, one.metre.qkv] for one in attentions]
    metric = (0, 0, 0) if metre is None else (metre.heads, metre.features, MIN_FEATURE)
    position = model.position
    decay = torch.ones(model.config.heads) if position.decay is None else position.decay
    head = model.embedding if model.head is None else model.head
    return loops.Model(
        qkv=_matrices(qkv),
        output=_matrices([[one.output] for one in attentions]),
        inner=_matrices([[block.feedforward.inner] for block in blocks]),
        outer=_matrices([[block.feedforward.output] for block in blocks]),
        head=_matrices([[head]]),
        norms=_norms(model),
        heads=loops.Heads(
            features=_features(attentions),
            decay=_array(decay),
            metric=np.array(metric, np.float32),
            guard=np.float32(GUARD),
        ),
        activation=loops.RELU if blocks[0].feedforward.activation is F.relu else loops.GELU,
    )


_NO_METRE = np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.float32)


def _array(x: Tensor) -> Array:
    return x.detach().contiguous().numpy()


def _matrices(layers: Sequence[Sequence[Any]]) -> loops.Matrices:
    """Stack linear layers over the model's layers, those of one layer concatenated; as 8-bit codes if all have them."""

    def weight(each: Sequence[Any]) -> Tensor:
        return torch.cat([one.weight.detach() for one in each])

    biases = [torch.cat([_bias(one) for one in each]) for each in layers]
    found = [exact_codes(weight(each)) for each in layers]
    coded = [one for one in found if one is not None]
    if len(coded) == len(found):
        codes, scales = (torch.stack(part) for part in zip(*coded, strict=True))
    else:
        codes = torch.stack([weight(each) for each in layers])
        scales = codes.new_ones(codes.shape[:2])
    return loops.Matrices(_array(codes.mT), _array(scales), _array(torch.stack(biases)))


def _bias(layer: Any) -> Tensor:
    bias = getattr(layer, "bias", None)
    return layer.weight.new_zeros(len(layer.weight)) if bias is None else bias.detach()


def _norms(model: Performer) -> loops.Norms:
    def both(norm: Any) -> Tensor:
        return torch.stack([norm.weight, norm.bias])

    blocks: list[Any] = list(model.blocks)
    before = model.config.norm == "pre"
    last = both(model.norm) if before else torch.zeros(2, model.config.width)
    return loops.Norms(
        first=_array(torch.stack([both(block.attention_norm) for block in blocks])),
        second=_array(torch.stack([both(block.feedforward_norm) for block in blocks])),
        last=_array(last),
        least=np.float32(blocks[0].attention_norm.eps),
        come_first=before,
    )


def _features(attentions: Sequence[Any]) -> loops.Features:
    """Return the feature map; for FAVOR+, the projection is scaled so that norms and projections share one bound."""
    first = attentions[0].features
    kind = _FEATURES[type(first)]
    if first.omega is None:
        omega = torch.zeros(len(attentions), first.width, 0)
    else:
        omega = torch.stack([one.features.omega.float() for one in attentions])
    floor, favor = np.float32(0), (np.float32(0),) * 4
    if isinstance(first, Favor):
        omega, bounds = omega / PROJECTION_OVER_NORM, first.bounds
        favor = tuple(np.float32(bound) for bound in bounds)
    else:
        floor = np.float32(first.config.floor)
    return loops.Features(kind, _array(omega), floor, *favor)


class CompiledBatch:
    """A batch computed by the compiled loops, with the states of all rows in shared arrays.

    Sums are (L, slots, H, M, D + 1), metric memories (L, slots, R, N, D + 1).
    """

    def __init__(self, model: Performer) -> None:
        self._model = model
        self._packed: loops.Model | None = None
        self._gains: Array | None = None
        self._states: dict[int, State] = {}  # by slot, without what the arrays hold
        self._sums = self._memory = torch.empty(0, 0)
        self._times: Times | None = None

    def __len__(self) -> int:
        return len(self._states)

    @property
    def _slots(self) -> int:
        return self._sums.shape[1]

    @torch.inference_mode()
    def join(self, state: State, copies: int) -> list[int]:
        """Add rows that continue from a copy of one state, and return their numbers."""
        if self._packed is None:
            self._packed = _packed(self._model)
        if len(self) + copies > self._slots:
            self._grow(state, copies)
        free = (slot for slot in range(self._slots) if slot not in self._states)
        numbers = list(islice(free, copies))
        for layer, own in enumerate(state.layers):
            self._sums[layer, numbers] = own.sums
            if own.metre is not None:
                self._memory[layer, numbers] = own.metre
        if self._times is not None:
            assert state.times is not None, "all sequences of a model have times, or none"
            for mine, given in zip(self._times, state.times, strict=True):
                mine[numbers] = given
        for number in numbers:
            recalls = tuple(one.copy() for one in state.recalls or ())
            self._states[number] = replace(state, layers=(), times=None, recalls=recalls)
        return numbers

    def leave(self, numbers: Sequence[int]) -> None:
        """Remove rows."""
        for number in numbers:
            del self._states[number]
        if not self._states:  # free the memory of an empty batch
            self._times = None
            self._sums = self._memory = torch.empty(0, 0)

    @torch.inference_mode()
    def step(self, numbers: Sequence[int], tokens: Tensor) -> Tensor:
        """Append one token to each of these rows and return the next logits, (B,) → (B, V); other rows pause."""
        model, slots = self._model, torch.tensor(numbers)
        states = [self._states[number] for number in numbers]
        positions = torch.tensor([state.position for state in states]).unsqueeze(1)
        recalls = [one for state in states for one in state.recalls or ()]
        with without_autocast(tokens.device):
            x, around, metre = model.embedding(tokens), None, _NO_METRE
            if model.time is not None:
                assert self._times is not None, "a model that counts musical time has times"
                ticks, newest, goal = (each[slots] for each in self._times)
                around = model.time.around(tokens.unsqueeze(1), ticks)  # (2, B, 1)
                after = around[0, :, 0]
                if model.metre is not None:
                    metre, newest = model.metre.step(after, ticks, newest, slots)
                if model.goals is not None:
                    goal = model.goals.current(tokens.unsqueeze(1), goal)[:, 0]
                    x = x + model.goals(goal)
                for mine, new in zip(self._times, (after, newest, goal), strict=True):
                    mine[slots] = new
            if model.recall is not None and recalls:
                x = x + model.recall(*recall_rows(recalls, tokens.unsqueeze(1))).squeeze(1)
            x = (x * math.sqrt(model.config.width)).unsqueeze(1)
            x = model.position.embed(x, positions).squeeze(1)
            codes = [state.code for state in states]
            encoding, codes = self._encoding(codes, positions, around)
            logits = x.new_empty(len(tokens), model.config.vocabulary_size)
            loops.step(
                self._packed,
                encoding,
                loops.Places(slots.numpy(), *metre),
                x.contiguous().numpy(),
                self._sums.numpy(),
                self._memory.flatten(1, 2).numpy(),
                logits.numpy(),
            )
        for number, state, code in zip(numbers, states, codes, strict=True):
            self._states[number] = replace(state, code=code, position=state.position + 1)
        return _adjusted(logits, recalls) if recalls else logits

    def _encoding(
        self, codes: Sequence[Any], positions: Tensor, around: Tensor | None
    ) -> tuple[loops.Encoding, Sequence[Any]]:
        """Return the encoding of one token per row, and the codes with which the rows continue."""
        position, shape = self._model.position, self._model.position.shape
        places = around if position.musical and around is not None else positions.unsqueeze(0)
        heads = 2 * shape.heads
        kind, gains = loops.COPY, np.zeros((0, 0, 0, 0), np.float32)
        stacked = np.zeros((0, 0, 0, 0, 0), np.float32)
        waves = (np.zeros((0, 0, 0), np.float32),) * 2
        if isinstance(position, StochasticPosition):
            rows, codes = position.cover_rows(codes, places)
            kind, stacked = loops.CONTRACT, _array(rows.float())
            if self._gains is None:
                ones = torch.ones(shape.layers, heads, 1, shape.head_width)
                mix = codes[0].mix
                self._gains = _array(torch.stack(mix).repeat(1, 2, 1, 1) if mix else ones)
            gains = self._gains
        elif isinstance(position, Rope):
            kind = loops.ROTATE
            # (1, B, 1, 1, D/2) or (2, B, 1, H, D/2) each → (B, 2H, D/2)
            by_side = (
                wave.squeeze(2).transpose(0, 1).flatten(1, 2) for wave in position.window(places)
            )
            waves = tuple(
                _array((wave if wave.shape[1] > 1 else wave.expand(-1, heads, -1)).float())
                for wave in by_side
            )
        return loops.Encoding(kind, gains, stacked, *waves), codes

    def _grow(self, like: State, copies: int) -> None:
        """Add slots: double their number, or more if `copies` need more."""
        had, first = self._slots, like.layers[0]
        more = max(had, len(self) + copies - had)
        self._sums = _with_slots(self._sums, first.sums, len(like.layers), more)
        self._memory = _with_slots(self._memory, first.metre, len(like.layers), more)
        if like.times is not None:
            mine = self._times or Times(*(x[:0] for x in like.times))
            grown = (torch.cat([x, x.new_zeros(more, *x.shape[1:])]) for x in mine)
            self._times = Times(*grown)


def _with_slots(array: Tensor, like: Tensor | None, layers: int, more: int) -> Tensor:
    """Return an array with `more` slots of zeros, each shaped like the state of one layer, (1, …)."""
    fresh = torch.zeros(layers, more, *((0, 0, 0) if like is None else like.shape[1:]))
    return torch.cat([array, fresh], 1) if array.ndim > 2 else fresh


def _adjusted(logits: Tensor, recalls: Sequence[Recollection]) -> Tensor:
    """Return logits, (B, V), that favour the sources of returns and the pattern of drums, and limit repetition."""
    logits = logits.clone()
    for row, recall in enumerate(recalls):
        token, nats = recall.source_boost()
        if token >= 0:
            logits[row, token] += nats
        if recall.strength:
            # Finite, as such a return can be all that is allowed.
            logits[row, recall.exhausted_returns()] -= EXHAUSTED_PENALTY
            if (broken := breaking(recall)) is not None:
                logits[row, torch.from_numpy(broken)] -= PENALTY * recall.strength
    return logits


# Drums keep to their pattern: tokens that would break it become less probable.
#
# Drums repeat themselves after one, two, four or eight bars. Where most hits of the last bars recur at such a period,
# the next bar is expected to have the hits of the bar one period before. The returns of a plan cannot do this: they are
# returns of whole bars, which differ as soon as the chords do.
#
# A hit is an onset in the bar and a drum, packed into one integer; the hits of a bar are a sorted array of them.

PENALTY = 3.0  # nats by which tokens that break the pattern become less probable
PERIODS = (1, 2, 4, 8)  # bars
COMPARED = 8  # last bars that are compared with those one period before
MIN_SHARED = 0.7  # mean fraction of hits that these pairs of bars must share
MARGIN = 0.02  # by which a longer period must exceed the shorter ones
NO_HITS = np.zeros(0, np.int64)


def breaking(sequence: Recollection) -> np.ndarray | None:
    """Return which tokens would break the drums' pattern, (V,) bool, or None outside drums or without a pattern."""
    if sequence.drums < 0 or sequence.current_part() != sequence.drums or not sequence.bars():
        return None
    expected = _expected(sequence)
    if not len(expected):
        return None
    size, (kinds, values) = sequence.kinds.shape[1], sequence.kinds
    ids = sequence.tokens_of(sequence.bars()[-1])
    ids = ids[np.flatnonzero(kinds[ids] == PART)[-1] :]  # of the current part
    kind = kinds[ids]
    onsets = np.flatnonzero(kind == ONSET)
    now = int(values[ids[onsets[-1]]]) if len(onsets) else -1
    here = expected[expected // size == now] % size  # drums expected at this onset
    missing = np.setdiff1d(here, ids[onsets[-1] :]) if len(onsets) else NO_HITS
    later = expected[expected >= (now + 1) * size] // size  # onsets
    broken = np.zeros(size, bool)
    if kind[-1] in (PART, NOTE) and not len(missing):  # the onset is complete
        broken |= (kinds == ONSET) & (values != later[0] if len(later) else True)
        if kind[-1] == NOTE and len(here):
            broken |= (kinds == NOTE) | (kinds >= VALUES)
    if kind[-1] == NOTE and (len(missing) or len(later)):
        broken |= (kinds == PART) | (kinds == BAR)
    if len(missing):
        broken |= kinds == NOTE
        broken[missing] = False
        if kind[-1] == NOTE:
            broken |= kinds == ONSET
    return broken


def _expected(sequence: Recollection) -> np.ndarray:
    """Return the expected hits of the current bar, computed once per bar; empty without a pattern."""
    *past, now = sequence.bars()
    if sequence.expected[0] != now:
        hits = [_hits(sequence, bar) for bar in past[-COMPARED - PERIODS[-1] :]]
        sequence.expected = now, pattern(hits)
    return sequence.expected[1]


def _hits(sequence: Recollection, bar: int) -> np.ndarray:
    """Return the hits of a bar."""
    ids = sequence.tokens_of(bar)
    kind, value = sequence.kinds[:, ids]
    indices = np.arange(len(ids))
    part, onset = (
        np.maximum.accumulate(np.where(kind == one, indices, -1)) for one in (PART, ONSET)
    )
    hit = (kind == NOTE) & (part >= 0) & (onset > part) & (ids[part] == sequence.drums)
    return np.unique(value[onset[hit]] * sequence.kinds.shape[1] + ids[hit])


def pattern(bars: list[np.ndarray]) -> np.ndarray:
    """Return the hits expected after these bars: those of the bar one period before, or none without a period."""
    best, chosen = MIN_SHARED - MARGIN, 0
    for period in PERIODS:
        compared = range(max(period, len(bars) - COMPARED), len(bars))
        pairs = [(bars[bar], bars[bar - period]) for bar in compared]
        shared = [_shared(*pair) for pair in pairs if len(pair[0]) or len(pair[1])]
        if shared and np.mean(shared) > best + MARGIN:
            best, chosen = float(np.mean(shared)), period
    return bars[-chosen] if chosen else NO_HITS


def _shared(hits: np.ndarray, others: np.ndarray) -> float:
    """Return the fraction of all hits of two bars that both have."""
    both = len(np.intersect1d(hits, others, assume_unique=True))
    return both / (len(hits) + len(others) - both)


def compile_ahead() -> None:
    """Compile the loops for 8-bit weights, or load them from the cache, before the first request needs them."""
    config = ModelConfig.preset("tiny", vocabulary_size=2, layers=1, position="none")
    model, token = Performer(config, 0).eval(), torch.zeros(1, dtype=torch.long)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim == 2:
                weight.copy_(dequantise(*quantise(weight)))
    batch = CompiledBatch(model)
    batch.step(batch.join(model.step(token, model.start(torch.Generator()))[1], 1), token)


class EagerBatch:
    """A batch for any model: rows advance one after the other, by `Performer.step`."""

    def __init__(self, model: Performer) -> None:
        self._model = model
        self._states: dict[int, State] = {}
        self._next = 0

    @torch.inference_mode()
    def join(self, state: State, copies: int) -> list[int]:
        numbers = [*range(self._next, self._next + copies)]
        self._next += copies
        for number in numbers:  # a step changes the state in place
            layers = tuple(map_state(layer, Tensor.clone) for layer in state.layers)
            self._states[number] = replace(state, layers=layers)
        return numbers

    def leave(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            del self._states[number]

    def step(self, numbers: Sequence[int], tokens: Tensor) -> Tensor:
        logits = []
        for number, token in zip(numbers, tokens.split(1), strict=True):
            found, self._states[number] = self._model.step(token, self._states[number])
            recalls = self._states[number].recalls
            logits.append(_adjusted(found, recalls) if recalls else found)
        return torch.cat(logits)


Batch = CompiledBatch | EagerBatch
"""Rows of sequences, each with a number of its own from `join` to `leave`."""


def batch_of(model: Performer) -> Batch:
    """Return an empty batch for a model."""
    return CompiledBatch(model) if supports(model) else EagerBatch(model)


def row_bytes(state: State) -> int:
    """Return the size of a row's state in bytes."""
    tensors = [x for layer in state.layers for x in layer if isinstance(x, Tensor)]
    return sum(x.numel() * x.element_size() for x in tensors) // len(tensors[0])
