"""The Performer, a causal Transformer language model with linear attention. Start reading here.

    tokens → embedding → (attention, feed-forward) × layers → logits

It differs from a standard decoder as follows:
- Linear attention (attention.py; Katharopoulos et al. 2020) of random features (features.py; Choromanski et al. 2021)
  keeps a state of constant size instead of all keys and values. Training runs over a sequence in blocks, generation
  token by token from the state; both give the same numbers.
- All layers share one positional encoding (position/base.py). It can count musical time instead of tokens, as metric
  heads do (metre.py).
- Stochastic positional encoding (SPE; Liutkus et al. 2021) draws noise, the `code` of a sequence: `begin` draws it from
  an explicit generator, once per batch in training, once per piece in generation.
- Each position can be given the current goal (`Goals`) and a guess of the next token copied from earlier in the piece
  (recall.py, guesses.py).
- The module is stateless: `State` is passed in and returned.

To read on: attention.py to `step_sums`, features.py, position/base.py and spe/sine.py; for training, training/loop.py;
for generation, generation/engine.py.

B batch, T time, H heads, D head width, M features, C model width, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn
from torch.utils.checkpoint import checkpoint

from musicgen.attention import Sums, attend
from musicgen.common.learning import generator_from
from musicgen.config import ModelConfig
from musicgen.features import FEATURES, FeatureMap
from musicgen.guesses import GuessEmbedding, recall_rows
from musicgen.linear import Linear, linear, numbered
from musicgen.metre import Metre, MetreLayout, MetricHeads, Timekeeper, forward_fill
from musicgen.position import POSITIONS, Position
from musicgen.recall import Recall

# Exact causal softmax attention at quadratic cost, the baseline for linear attention (Vaswani et al. 2017, equation 1).


class SoftmaxState(NamedTuple):
    """The cache of keys and values of all positions so far, (B, T, H, D) each."""

    keys: Tensor
    values: Tensor


def softmax_attend(
    q: Tensor, k: Tensor, v: Tensor, *, state: SoftmaxState | None = None
) -> tuple[Tensor, SoftmaxState]:
    """Return softmax(q·kᵀ/√D) v over the positions so far, (B, T, H, D) each → (B, T, H, D), and the new cache."""
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
    """The inputs of one forward pass, besides the embeddings, that all layers share."""

    position: Position
    code: Any  # of the positional encoding, as `cover` returned it for these positions
    start: int  # position of the first token
    metre: MetreLayout | None  # the tokens' places in the metre; None without metric heads
    goals: Tensor | None = None  # number of the current goal, (B, T); None without goals
    recalled: Tensor | None = None  # recalled tokens and their levels, (B, T, 4), from recall.py
    strength: Tensor | None = None  # weight of the recalled tokens, (B,); None means 1
    whole: bool = False  # whole sequences that are not continued: layers return no state

    def of_layer(self, layer: int) -> Self:
        """Return the passage with the code of one layer."""
        return replace(self, code=self.position.of_layer(self.code, layer))


class Attention(nn.Module):
    """Multi-head causal self-attention: linear with a feature map, softmax attention without one."""

    def __init__(self, config: ModelConfig, features: FeatureMap | None) -> None:
        super().__init__()
        self.heads = config.heads
        self.backend: str | Sums = config.backend
        self.chunk = config.chunk
        self.features = features
        self.qkv = Linear(config.width, 3 * config.width)
        has_signs = features is not None and features.has_signs
        self.norm = nn.LayerNorm(config.head_width) if has_signs else None
        self.metre, metric_width = None, 0
        if config.metre is not None:
            self.metre = MetricHeads(config.metre, config.width, config.head_width)
            metric_width = self.metre.heads * config.head_width
        self.output = Linear(config.width + metric_width, config.width)

    def forward(self, x: Tensor, passage: Passage, state: Any) -> tuple[Tensor, Any]:
        """Return the attention output, (B, T, C) → (B, T, C), and the state after the last token."""
        out, after = self._token_heads(x, passage, state)
        if self.metre is not None:
            assert passage.metre is not None, "a model with metric heads needs places in the metre"
            memory = None if state is None else state.metre
            metric_out, memory = self.metre(x, passage.metre, memory)
            out = torch.cat([out, metric_out], -1)
            if memory is not None and not passage.whole:
                after = after._replace(metre=memory)
        return self.output(out), None if passage.whole else after

    def _token_heads(self, x: Tensor, passage: Passage, state: Any) -> tuple[Tensor, Any]:
        """Return the output of all heads but the metric ones, (B, T, C) → (B, T, C), and the new state."""
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).unbind(2)  # (B, T, H, D) each
        q, k = passage.position.qk(q, k, passage.code)
        if self.features is None:
            out, state = softmax_attend(q, k, v, state=state)
        else:
            fq, fk = self.features.queries(q), self.features.keys(k)  # (B, T, H, M) each
            out, state = self.mix(x, fq, fk, v, passage, state)
        return out.flatten(2), state

    def mix(
        self, x: Tensor, fq: Tensor, fk: Tensor, v: Tensor, passage: Passage, state: Any
    ) -> tuple[Tensor, Any]:
        """Return the linear attention of features and values, (B, T, H, ·) → (B, T, H, D), and the new state.

        Subclasses override it to mix tokens in other ways (evaluation/benchmarks/mixers.py).
        """
        position = passage.position
        placed_fq, placed_fk = position.features(fq, fk, passage.code)
        return attend(
            placed_fq,
            placed_fk,
            v,
            decay=position.decay,
            normaliser=None if position.normaliser_is_positioned else (fq, fk),
            norm=self.norm,
            state=state,
            backend=self.backend,
            chunk=self.chunk,
        )


class FeedForward(nn.Module):
    """The position-wise feed-forward network: two linear layers with an activation between them."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.activation = _ACTIVATIONS[config.activation]
        self.inner = Linear(config.width, config.feedforward)
        self.output = Linear(config.feedforward, config.width)

    def forward(self, x: Tensor) -> Tensor:
        return self.output(self.activation(self.inner(x)))


class Block(nn.Module):
    """Attention and feed-forward as residual branches with a layer norm each, in pre-norm or post-norm order."""

    def __init__(self, config: ModelConfig, attention: Attention, feedforward: FeedForward) -> None:
        super().__init__()
        self.pre = config.norm == "pre"
        self.attention, self.feedforward = attention, feedforward
        self.attention_norm = nn.LayerNorm(config.width)
        self.feedforward_norm = nn.LayerNorm(config.width)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, passage: Passage, state: Any) -> tuple[Tensor, Any]:
        """Return the block's output, (B, T, C) → (B, T, C), and the new state of its attention."""
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
    """Draw the weights of linear layers from a normal distribution, and set their biases to zero.

    The last layer of each residual branch is scaled by 1/√(number of branches), as in GPT-2.
    """
    for name, module in modules:
        if isinstance(module, nn.Linear):
            scale = 1 / math.sqrt(2 * config.layers) if name.endswith(".output") else 1.0
            module.weight.normal_(0, config.initial_deviation * scale, generator=generator)
            if module.bias is not None:
                module.bias.zero_()


def redraw_features(model: nn.Module, generator: Generator) -> None:
    """Redraw the random projections of all feature maps."""
    for module in model.modules():
        if isinstance(module, FeatureMap):
            module.redraw(generator)


class Goals(nn.Module):
    """An embedding of the latest goal token, such as the bars left or the gap to fill, for every position.

    The embeddings start at zero. A goal token comes once per bar, and linear attention hardly retrieves one token among
    thousands: in the last bar of songs, giving the countdown to every position was worth 0.07 nats per token, of 2.4.
    """

    number: Tensor  # of each token as a goal, counted from 1; 0 for other tokens: (V,)

    def __init__(self, tokens: Sequence[int], vocabulary_size: int, width: int) -> None:
        super().__init__()
        number = torch.zeros(vocabulary_size, dtype=torch.long)
        number[list(tokens)] = torch.arange(1, len(tokens) + 1)
        self.register_buffer("number", number, persistent=False)
        self.vectors = nn.Embedding(len(tokens), width)
        nn.init.zeros_(self.vectors.weight)

    def current(self, tokens: Tensor, goal: Tensor) -> Tensor:
        """Return the number of the current goal at each token, (B, T); `goal`, (B,), is the one before them."""
        number = self.number[tokens]
        return forward_fill(goal.unsqueeze(1), number, number > 0)

    def forward(self, goals: Tensor) -> Tensor:
        """Return the embeddings of goal numbers, (…,) → (…, C); zeros for number 0."""
        return numbered(self.vectors.weight, goals)


class Times(NamedTuple):
    """The current musical time and goal of each sequence."""

    ticks: Tensor  # the time after the last token: (B,)
    newest: Tensor  # period of the newest entry of each row (metre.py), (B, R); R = 0 without them
    goal: Tensor  # number of the current goal, 0 before the first: (B,)


@dataclass(frozen=True, kw_only=True)
class State:
    """The recurrent state of a sequence between tokens; its size is constant with linear attention."""

    layers: tuple[Any, ...]  # of each layer's attention; None before the first token
    code: Any  # of the positional encoding
    position: int  # of the next token
    times: Times | None = None  # None if the model does not track musical time
    # One per row, () before the first token; None if the model does not recall.
    recalls: tuple[Recall, ...] | None = None


class Performer(nn.Module):
    """The language model. `seed` sets its initial weights; pass None if they will be loaded.

    Training calls `begin` and `forward`; generation calls `start`, `prefill` and `step`; evaluation calls `start` and
    `extend`.
    """

    def __init__(self, config: ModelConfig, seed: int | None = 0) -> None:
        super().__init__()
        self.config = config
        with torch.random.fork_rng(devices=[]):  # for submodules that draw from torch's generator
            # torch.manual_seed would also seed the devices' generators, which fork_rng does not restore here.
            torch.default_generator.manual_seed(generator_from(seed or 0).initial_seed())
            self.position = POSITIONS[config.position_name](config.position, config.shape())
            self.time, self.metre, self.goals = None, None, None
            if config.metre is not None or config.goals is not None or self.position.musical:
                assert config.clock is not None, "ModelConfig checks this"
                self.time = Timekeeper(config.clock, config.vocabulary_size)
                self.metre = None if config.metre is None else Metre(config.metre, config.clock)
            if config.goals is not None:
                self.goals = Goals(config.goals, config.vocabulary_size, config.width)
            self.embedding = nn.Embedding(config.vocabulary_size, config.width)
            self.recall = None
            if config.recall is not None:
                self.recall = GuessEmbedding(config.recall, config.vocabulary_size, config.width)
            self.dropout = nn.Dropout(config.dropout)
            self.blocks = nn.ModuleList(self._block() for _ in range(config.layers))
            self.norm = nn.LayerNorm(config.width) if config.norm == "pre" else nn.Identity()
            self.head = None
            if not config.tie_embeddings:
                self.head = Linear(config.width, config.vocabulary_size, bias=False)
            if config.rank:
                self.requires_grad_(False)
                for module in self.blocks.modules():
                    if isinstance(module, Linear):
                        module.changed_by(config.rank)
        if seed is not None:
            generator = generator_from(seed)
            modules = [*self.blocks.named_modules(), ("head", self.head)]
            with torch.no_grad():
                draw_weights(modules, config, generator)
                self.embedding.weight.normal_(0, config.width**-0.5, generator=generator)
                redraw_features(self, generator)

    def _block(self) -> Block:
        config, features = self.config, None
        if config.attention == "linear":
            feature_map = FEATURES[config.features_name]
            features = feature_map(config.features, self.position.qk_width)
        return Block(config, Attention(config, features), FeedForward(config))

    def begin(self, generator: Generator) -> Any:
        """Draw the code of a batch of sequences; training draws a new one for each step."""
        return self.position.begin(generator)

    def forward(self, tokens: Tensor, code: Any = None, recalled: Tensor | None = None) -> Tensor:
        """Return the logits of the token after each position, (B, T) → (B, T, V); `code` comes from `begin`.

        `recalled`, (B, T, 4), replaces what a model with recall would find in the tokens (recall.py).
        """
        if code is None and type(self.position).begin is not Position.begin:
            raise ValueError(
                f"{self.config.position_name} draws a code for each sequence; pass code=model.begin(generator)"
            )
        return self._logits(self._hidden(tokens, self._start(code), recalled, whole=True)[0])

    def start(self, generator: Generator) -> State:
        """Draw a code, and return the state before a sequence's first token."""
        return self._start(self.begin(generator))

    def extend(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """Process tokens that continue a state: return their logits, (B, T) → (B, T, V), and the new state."""
        x, state = self._hidden(tokens, state)
        return self._logits(x), state

    @torch.inference_mode()
    def prefill(
        self, tokens: Tensor, state: State, recalled: Tensor | None = None, strength: Tensor | None = None
    ) -> tuple[Tensor, State]:  # fmt: skip
        """Process a prompt in one pass: return the logits after its last token, (B, T) → (B, V), and the new state.

        `recalled` and its `strength`, (B,), replace what the state's recall would find.
        """
        x, state = self._hidden(tokens, state, recalled, strength)
        return self._logits(x[:, -1:])[:, 0], state

    @torch.inference_mode()
    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """Process one token per row, (B,) → (B, V): the reference for the kernel."""
        return self.prefill(tokens[:, None], state)

    def _start(self, code: Any) -> State:
        recalls = None if self.recall is None else ()
        return State(layers=(None,) * self.config.layers, code=code, position=0, recalls=recalls)

    def passage(
        self, tokens: Tensor, state: State, recalled: Tensor | None = None, strength: Tensor | None = None,
        *, whole: bool = False,
    ) -> tuple[Passage, State]:  # fmt: skip
        """Return the passage of tokens (B, T) that follow a state, and the state after them with the old layers.

        `whole` says that the sequences will not be continued, so that no layer needs to return its state.
        """
        start, stop = state.position, state.position + tokens.shape[1]
        around, metre, goals, times = None, None, None, state.times
        if self.time is not None:
            ticks, newest, goal = times or self._first_times(len(tokens))
            around = self.time.around(tokens, ticks)
            if self.metre is not None:
                metre, newest = self.metre.layout(around, newest, whole=whole)
            if self.goals is not None:
                goals = self.goals.current(tokens, goal)
                goal = goals[:, -1]
            times = Times(around[0, :, -1], newest, goal)
        code = self.position.cover(state.code, start, stop, around)
        recalls = state.recalls
        if self.recall is not None and recalls is not None and recalled is None:
            recalls = recalls or tuple(self.recall.begin() for _ in tokens)
            recalls = tuple(one.copy() for one in recalls)
            recalled = recall_rows(recalls, tokens)
        passage = Passage(
            position=self.position, code=code, start=start, metre=metre, goals=goals,
            recalled=recalled, strength=strength, whole=whole,
        )  # fmt: skip
        after = State(layers=state.layers, code=code, position=stop, times=times, recalls=recalls)
        return passage, after

    def _first_times(self, batch: int) -> Times:
        ticks = torch.zeros(batch, dtype=torch.long, device=self.embedding.weight.device)
        none = ticks.new_zeros(batch, 0)
        return Times(ticks, none if self.metre is None else self.metre.start(batch), ticks.clone())

    def embed(self, tokens: Tensor, passage: Passage) -> Tensor:
        """Return the input of the first layer, (B, T) → (B, T, C)."""
        x = self.embedding(tokens)
        if self.goals is not None:
            assert passage.goals is not None, "a model with goals needs the current goals"
            x = x + self.goals(passage.goals)
        if self.recall is not None and passage.recalled is not None:
            x = x + self.recall(passage.recalled, passage.strength)
        x = x * math.sqrt(self.config.width)  # unit variance, like that of an added encoding
        return self.dropout(self.position.embed(x, passage.start))

    def _hidden(
        self, tokens: Tensor, state: State, recalled: Tensor | None = None, strength: Tensor | None = None,
        *, whole: bool = False,
    ) -> tuple[Tensor, State]:  # fmt: skip
        passage, after = self.passage(tokens, state, recalled, strength, whole=whole)
        x = self.embed(tokens, passage)
        layers = []
        for number, (block, layer) in enumerate(zip(self.blocks, state.layers, strict=True)):
            own = passage.of_layer(number)
            if self.training and self.config.checkpoint_activations:
                x, layer = checkpoint(block, x, own, layer, use_reentrant=False)
            else:
                x, layer = block(x, own, layer)
            layers.append(layer)
        return self.norm(x), replace(after, layers=tuple(layers))

    def _logits(self, x: Tensor) -> Tensor:
        return linear(x, self.embedding.weight) if self.head is None else self.head(x)


def parameter_count(model: nn.Module) -> int:
    """Return the number of weights in all parameters."""
    return sum(p.numel() for p in model.parameters())
