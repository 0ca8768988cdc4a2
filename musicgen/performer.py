"""A causal Transformer over tokens, linear in length: the file to read first.

    tokens → embedding → (attention, feed-forward) × layers → logits

What is unusual about it:
- Attention keeps a state of constant size instead of all keys and values (attention.py): whole sequences are computed
  in blocks and single tokens from the state, with the same numbers.
- One encoding of position serves all layers (position/base.py). It may count musical time instead of tokens, as metric
  heads do (metre.py).
- Every position may be given a goal (`Goals`), and what came next when the piece was last here (recall.py).
- What a stochastic encoding draws is the `code` of a sequence: `begin` draws it from an explicit generator, once a
  batch in training, once a piece in generation.
- The module keeps no state: `State` is passed in and returned.

B batch, T time, H heads, D head width, M features, C model width, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Generator as Steps
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn
from torch.utils.checkpoint import checkpoint

from musicgen.attention import Sums, attend, mapped
from musicgen.common.learning import generator_from
from musicgen.config import ModelConfig
from musicgen.features import FEATURES, FeatureMap
from musicgen.linear import Dropout, Linear, gelu_linear, linear
from musicgen.metre import Metre, MetricHeads, Stretches, Timekeeper, Times, latest
from musicgen.position import POSITIONS, Position
from musicgen.recall import Recall, Recollection, recall_rows

# Exact causal softmax attention, at quadratic cost: what linear attention is compared with.


class SoftmaxState(NamedTuple):
    """The keys and values of all positions so far, (B, T, H, D) each."""

    keys: Tensor
    values: Tensor


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
    out = F.scaled_dot_product_attention(
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
    # What is recalled after each, (B, T, 4), where the model recalls.
    recalled: Tensor | None = None
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
        self.backend: str | Sums = config.backend
        self.chunk = config.chunk
        self.features = features
        self.qkv = Linear(config.width, 3 * config.width)
        self.metre, metric_width = None, 0
        if config.metre is not None:
            self.metre = MetricHeads(config.metre, config.width, config.head_width)
            metric_width = self.metre.heads * config.head_width
        self.output = Linear(config.width + metric_width, config.width)

    def forward(self, x: Tensor, passage: Passage, state: Any) -> tuple[Tensor, Any]:
        """Return (B, T, C) → (B, T, C), and the state after the last token."""
        out, after = self._by_tokens(x, passage, state)
        if self.metre is not None:
            assert passage.metre is not None, "a model with metric heads knows the metre"
            memory = None if state is None else state.metre
            by_metre, memory = self.metre(x, passage.metre, memory)
            out = torch.cat([out, by_metre], -1)
            if memory is not None and not passage.whole:
                after = after._replace(metre=memory)
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


@torch.no_grad()
def draw_weights(
    modules: Iterable[tuple[str, nn.Module | None]], config: ModelConfig, generator: Generator
) -> None:
    """Draw the weights of linear layers: normal, the last of each residual branch smaller by √(number of branches)."""
    for name, module in modules:
        if isinstance(module, nn.Linear):
            scale = 1 / math.sqrt(2 * config.layers) if name.endswith(".output") else 1.0
            module.weight.normal_(0, config.initial_deviation * scale, generator=generator)
            if module.bias is not None:
                module.bias.zero_()


def redraw_features(model: nn.Module, generator: Generator) -> None:
    """Redraw the random features of every layer."""
    for module in model.modules():
        if isinstance(module, FeatureMap):
            module.redraw(generator)


class Goals(nn.Module):
    """Adds to each position an embedding, zeros at first, of the latest goal token: bars left, or a gap to be filled.

    A goal comes once a bar, and linear attention hardly retrieves one token among thousands: in the last bar of songs
    the countdown was worth 0.07 nats a token of 2.4.
    """

    number: Tensor

    def __init__(self, tokens: Sequence[int], vocabulary_size: int, width: int) -> None:
        super().__init__()
        number = torch.zeros(vocabulary_size, dtype=torch.long)
        number[list(tokens)] = torch.arange(1, len(tokens) + 1)
        self.register_buffer("number", number, persistent=False)  # 0 of what is no goal
        self.vectors = nn.Embedding(len(tokens), width)
        nn.init.zeros_(self.vectors.weight)

    def standing(self, tokens: Tensor, goal: Tensor) -> Tensor:
        """Return the goal at each token, itself included, (B, T), of sequences that stand at `goal`, (B,)."""
        number = self.number[tokens]
        return latest(goal.unsqueeze(1), number, number > 0)

    def forward(self, standing: Tensor) -> Tensor:
        """Return the vectors of goals, (…,) → (…, C)."""
        weight = self.vectors.weight
        vectors = torch.cat([weight.new_zeros(1, weight.shape[1]), weight])
        # Not by an index: its gradient adds thousands of positions to a vector one after the other on a GPU.
        return F.embedding(standing, vectors, padding_idx=0)


@dataclass(frozen=True, kw_only=True)
class State:
    """What generation carries from token to token; with linear attention its size does not grow."""

    layers: tuple[Any, ...]  # the state of each layer's attention; None before the first token
    code: Any  # what the encoding of position drew for this sequence
    position: int  # of the next token
    times: Times | None = None  # in musical time, where the model counts that
    # What each row recalls; () before the first token, None where nothing is recalled.
    recalls: tuple[Recollection, ...] | None = None


class Performer(nn.Module):
    """The language model. `seed` determines its initial weights; None leaves them to be loaded.

    Training calls `begin` and `forward`, or `follow` from window to window by `go_on`; generation calls `start`,
    `prefill` and `step`; measurements call `start` and `follow`.
    """

    def __init__(self, config: ModelConfig, seed: int | None = 0) -> None:
        super().__init__()
        self.config = config
        with torch.random.fork_rng(devices=[]):  # parts that draw without being given a generator
            # torch.manual_seed would set the generators of devices too, which nobody puts back.
            torch.default_generator.manual_seed(generator_from(seed or 0).initial_seed())
            self.position = POSITIONS[config.position_name][1](config.position, config.shape())
            self.time, self.metre, self.goals = None, None, None
            if config.metre is not None or config.goals is not None or self.position.musical:
                assert config.clock is not None, "ModelConfig sees to it"
                self.time = Timekeeper(config.clock, config.vocabulary_size)
                self.metre = None if config.metre is None else Metre(config.metre, config.clock)
            if config.goals is not None:
                self.goals = Goals(config.goals, config.vocabulary_size, config.width)
            self.embedding = nn.Embedding(config.vocabulary_size, config.width)
            self.recall = None
            if config.recall is not None:
                self.recall = Recall(config.recall, config.vocabulary_size, config.width)
            self.dropout = Dropout(config.dropout)
            self.blocks = nn.ModuleList(self._block(layer) for layer in range(config.layers))
            self.norm = nn.LayerNorm(config.width) if config.norm == "pre" else nn.Identity()
            self.head = None
            if not config.tie_embeddings:
                self.head = Linear(config.width, config.vocabulary_size, bias=False)
        if seed is not None:
            generator = generator_from(seed)
            modules = [*self.blocks.named_modules(), ("head", self.head)]
            with torch.no_grad():
                draw_weights(modules, config, generator)
                self.embedding.weight.normal_(0, config.width**-0.5, generator=generator)
                redraw_features(self, generator)

    def _block(self, layer: int) -> Block:
        config, features = self.config, None
        if config.attention == "linear":
            feature_map = FEATURES[config.features_name][1]
            features = feature_map(config.features, self.position.qk_width)
        return Block(config, Attention(config, layer, features), FeedForward(config))

    def begin(self, generator: Generator) -> Any:
        """Draw the code that a batch of sequences shares: a new one for each training step."""
        return self.position.begin(generator)

    def forward(self, tokens: Tensor, code: Any = None, recalled: Tensor | None = None) -> Tensor:
        """Return the logits of what follows each token, (B, T) → (B, T, V); `code` comes from `begin`.

        `recalled`, (B, T, 4), is what a model that recalls would find in the tokens.
        """
        if code is None and type(self.position).begin is not Position.begin:
            raise ValueError(
                f"{self.config.position_name} draws a code for each sequence; pass code=model.begin(generator)"
            )
        return self._logits(self._hidden(tokens, self._start(code), recalled, whole=True)[0])

    def start(self, generator: Generator) -> State:
        """Return the state before a sequence's first token."""
        return self._start(self.begin(generator))

    def follow(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """Absorb many tokens and say what follows each: (B, T) → logits (B, T, V), and the state after them."""
        x, state = self._hidden(tokens, state)
        return self._logits(x), state

    def go_on(self, state: State | None, code: Any) -> State:
        """Return a state to go on from in training, or the first one: what computed it gets no gradient.

        The code is that of the sequence, drawn again: what `cover` made of it was a function of the weights of then.
        """
        if state is None:
            return self._start(code)
        return replace(
            state, layers=tuple(mapped(x, Tensor.detach) for x in state.layers), code=code
        )

    @torch.inference_mode()
    def prefill(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """Absorb many tokens in one pass: (B, T) → the logits after the last of them, (B, V), and the state there."""
        x, state = self._hidden(tokens, state)
        return self._logits(x[:, -1:])[:, 0], state

    @torch.inference_mode()
    def prefill_in_pieces(
        self, tokens: Tensor, state: State
    ) -> Steps[None, None, tuple[Tensor, State]]:
        """Return what `prefill` returns, to the last bit; yields after each layer, for something else to be done."""
        passage, after = self.passage(tokens, state)
        x, layers = self.embed(tokens, passage), []
        for block, layer in zip(self.blocks, state.layers, strict=True):
            yield
            x, layer = block(x, passage, layer)
            layers.append(layer)
        return self._logits(self.norm(x)[:, -1:])[:, 0], replace(after, layers=tuple(layers))

    @torch.inference_mode()
    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """Absorb one token a row, (B,) → (B, V): the definition of what generation/batch.py computes faster."""
        return self.prefill(tokens[:, None], state)

    def with_realisations(self, realisations: int, seed: int = 0) -> Performer:
        """Return this model, sharing its weights, with another number of realisations of its stochastic encoding.

        The random features take the width of the encoded queries, so they are redrawn, from the seed.
        """
        other = Performer(self.config.with_realisations(realisations), seed)
        other.to(self.embedding.weight.device)
        fresh = other.state_dict()
        own = {name: t for name, t in self.state_dict().items() if t.shape == fresh[name].shape}
        other.load_state_dict({**fresh, **own}, assign=True)
        return other.train(self.training)

    def _start(self, code: Any) -> State:
        recalls = None if self.recall is None else ()
        return State(layers=(None,) * self.config.layers, code=code, position=0, recalls=recalls)

    def passage(
        self,
        tokens: Tensor,
        state: State,
        recalled: Tensor | None = None,
        *,
        whole: bool = False,
    ) -> tuple[Passage, State]:
        """Say where tokens stand, (B, T), that come after a state; and the state after them but for its layers.

        From what is whole nobody goes on, so that layers need not say what they remember.
        """
        start, stop = state.position, state.position + tokens.shape[1]
        around, metre, goals, times = None, None, None, state.times
        if self.time is not None:
            ticks, newest, goal = times or self._first_times(len(tokens))
            around = self.time.around(tokens, ticks)
            if self.metre is not None:
                metre = self.metre.whole(around[0], around[1]) if whole else None
                if metre is None:
                    metre, newest = self.metre.stretches(around[0], around[1], newest)
            if self.goals is not None:
                goals = self.goals.standing(tokens, goal)
                goal = goals[:, -1]
            times = Times(around[0, :, -1], newest, goal)
        code = self.position.cover(state.code, start, stop, around)
        recalls, strength = state.recalls, None
        if self.recall is not None and recalls is not None and recalled is None:
            recalls = recalls or tuple(self.recall.begin() for _ in tokens)
            recalls = tuple(one.copy() for one in recalls)
            recalled, strength = recall_rows(recalls, tokens)
        passage = Passage(
            position=self.position, code=code, start=start, metre=metre, goals=goals,
            recalled=recalled, strength=strength,
        )  # fmt: skip
        after = State(layers=state.layers, code=code, position=stop, times=times, recalls=recalls)
        return passage, after

    def _first_times(self, batch: int) -> Times:
        ticks = torch.zeros(batch, dtype=torch.long, device=self.embedding.weight.device)
        none = ticks.new_zeros(batch, 0)
        return Times(ticks, none if self.metre is None else self.metre.start(batch), ticks.clone())

    def embed(self, tokens: Tensor, passage: Passage) -> Tensor:
        """Return what the first layer is given, (B, T) → (B, T, C)."""
        x = self.embedding(tokens)
        if self.goals is not None:
            assert passage.goals is not None, "a model that is told of goals is told which stands"
            x = x + self.goals(passage.goals)
        if self.recall is not None and passage.recalled is not None:
            x = x + self.recall(passage.recalled, passage.strength)
        x = x * math.sqrt(self.config.width)  # unit variance, as position's
        return self.dropout(self.position.embed(x, passage.start))

    def _hidden(
        self,
        tokens: Tensor,
        state: State,
        recalled: Tensor | None = None,
        *,
        whole: bool = False,
    ) -> tuple[Tensor, State]:
        passage, after = self.passage(tokens, state, recalled, whole=whole)
        x = self.embed(tokens, passage)
        layers = []
        for number, (block, layer) in enumerate(zip(self.blocks, state.layers, strict=True)):
            own = passage.of_layer(number) if whole else passage
            if self.training and self.config.checkpoint_activations:
                x, layer = checkpoint(block, x, own, layer, use_reentrant=False)
            else:
                x, layer = block(x, own, layer)
            layers.append(layer)
        return self.norm(x), replace(after, layers=tuple(layers))

    def _logits(self, x: Tensor) -> Tensor:
        return linear(x, self.embedding.weight) if self.head is None else self.head(x)


def parameter_count(model: nn.Module) -> int:
    """Return the number of learned numbers."""
    return sum(p.numel() for p in model.parameters())
