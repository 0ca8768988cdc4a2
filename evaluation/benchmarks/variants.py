"""What is compared: encodings of position, and other ways to attend, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from evaluation.benchmarks.positions import (
    GridConvSpe,
    GridConvSpeConfig,
    GridPermuteformer,
    GridPermuteformerConfig,
    SpaceFlt,
    SpaceFltConfig,
)
from musicgen.attention.features import FeatureMap
from musicgen.attention.linear_attention import CHUNK, GUARD, Features, parallel_sums
from musicgen.layers.linear import Linear, without_autocast
from musicgen.model.config import ModelConfig, check_sense
from musicgen.model.performer import Attention, Block, Passage, Performer
from musicgen.position import POSITIONS, Position
from tokenization.records import from_plain, from_yaml, suggestion

# Linear attention without the causal mask: every position sees the whole sequence, at the same linear cost.
#
#     out_i = Σ_j r^|i−j| (fq_i·fk_j) v_j / Σ_j r^|i−j| (fq_i·fk_j)
#
# Without a decay r that is two products; with one it is the causal sums from both ends, less the position itself,
# which both have. Positions of padding are no keys. B batch, T time, H heads, M features, D value width.


def attend_both_ways(
    fq: Tensor,
    fk: Tensor,
    v: Tensor,
    *,
    decay: Tensor | None = None,
    normaliser: Features | None = None,
    present: Tensor | None = None,
    chunk: int = CHUNK,
) -> Tensor:
    """Attend to all positions: fq, fk (B, T, H, M), v (B, T, H, D) → (B, T, H, D).

    The decay is r in (0, 1] a head, (H,); a normaliser gives the denominator other features; `present` is False where
    there is only padding, (B, T).
    """
    if present is not None:
        kept = present[..., None, None].to(fk.dtype)
        fk = fk * kept
        normaliser = None if normaliser is None else (normaliser[0], normaliser[1] * kept)
    with without_autocast(v.device):
        dtype = torch.promote_types(v.dtype, torch.float32)
        fq, fk, values = fq.to(dtype), fk.to(dtype), v.to(dtype)
        if normaliser is None:
            y = _sums(fq, fk, functional.pad(values, (0, 1), value=1.0), decay, chunk)
            return (y[..., :-1] / (y[..., -1:] + GUARD)).to(v.dtype)
        one = values.new_ones(*values.shape[:-1], 1)
        gq, gk = (x.to(dtype) for x in normaliser)
        total = _sums(gq, gk, one, decay, chunk)
        return (_sums(fq, fk, values, decay, chunk) / (total + GUARD)).to(v.dtype)


def _sums(q: Tensor, k: Tensor, v: Tensor, decay: Tensor | None, chunk: int) -> Tensor:
    if decay is None:
        return torch.einsum("bthm,bhmd->bthd", q, torch.einsum("bthm,bthd->bhmd", k, v))
    start = q.new_zeros(q.shape[0], q.shape[2], q.shape[3], v.shape[3])  # (B, H, M, D)
    before, _ = parallel_sums(q, k, v, decay, start, chunk=chunk)
    after, _ = parallel_sums(q.flip(1), k.flip(1), v.flip(1), decay, start, chunk=chunk)
    own = (q * k).sum(-1, keepdim=True) * v
    return before + after.flip(1) - own


@dataclass(frozen=True, kw_only=True)
class WholePassage(Passage):
    """Where the tokens of whole sequences stand, and which are padding."""

    present: Tensor | None = None  # (B, T); None: no padding


class WholeAttention(Attention):
    """The attention of a block, over the whole sequence."""

    def attend(
        self, x: Tensor, fq: Tensor, fk: Tensor, v: Tensor, passage: Passage, state: Any
    ) -> tuple[Tensor, Any]:
        """Attend to all positions that are no padding."""
        assert isinstance(passage, WholePassage), "whole sequences know their padding"
        position = passage.position
        placed_fq, placed_fk = position.features(fq, fk, passage.code, passage.start, self.layer)
        out = attend_both_ways(
            placed_fq,
            placed_fk,
            v,
            decay=position.decay,
            normaliser=None if position.normaliser_is_positioned else (fq, fk),
            present=passage.present,
            chunk=self.chunk,
        )
        return out, None


# Random feature attention, gated or not (Peng et al. 2021), as feature maps and a recurrence with forgetting.
#
# Queries and keys have length one, so that the softmax kernel and the Gaussian one differ by a constant, which
# cancels.
#
# - `gaussian`: φ(x) = √(2/M) [sin ωx, cos ωx] with E[φ(x)·φ(y)] = exp(−|σ(x − y)|²/2).
# - `arccos`: φ(x) = √(2/M) max(ωx, 0), whose mean product is the arc-cosine kernel of order one.
# - The gate: S_t = g_t S_{t−1} + (1 − g_t) φ(k_t) v_tᵀ, with g_t of the token and head.
#
# B batch, T time, H heads, W width, M features, D value width.

# Gaussian features are of either sign, so the sum of a query's weights may be about 0, and what it divides without
# bound. A sum below this share of the number of keys is taken as this.
SMALLEST_SUM = 1e-2
GATED_CHUNK = 64  # positions a block
KINDS = ("gaussian", "arccos")


class RandomFeatures(FeatureMap):
    """φ of unit vectors, scaled by a learned σ a dimension."""

    def __init__(self, width: int, features: int, kind: str = "gaussian") -> None:
        if kind not in KINDS:
            raise ValueError(f"RFA has no features {kind!r}; there are {', '.join(KINDS)}")
        if kind == "gaussian" and features % 2:
            raise ValueError(f"Gaussian features come in pairs; {features} is odd")
        super().__init__(width, features, features // 2 if kind == "gaussian" else features)
        self.kind = kind
        self.log_scale = nn.Parameter(torch.zeros(width))  # log σ

    def queries(self, x: Tensor) -> Tensor:
        """Return φ(q)."""
        u = self._projected(functional.normalize(x, dim=-1) * self.log_scale.exp())
        if self.kind == "gaussian":
            return torch.cat([u.sin(), u.cos()], -1) * (2 / self.features) ** 0.5
        return u.relu() * (2 / self.features) ** 0.5

    def keys(self, x: Tensor) -> Tensor:
        """Return φ(k)."""
        return self.queries(x)


def gated_sums(q: Tensor, k: Tensor, v: Tensor, log_gates: Tensor) -> Tensor:
    """Return q_i Σ_{j≤i} (g_{j+1} ⋯ g_i)(1 − g_j) k_j v_jᵀ in blocks: (B, T, H, ·), log g (B, T, H) → (B, T, H, D).

    Products of gates are exponentials of differences of sums of log g, which are 0 or less.
    """
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))  # (B, H, T, ·)
    logs = log_gates.transpose(1, 2)
    k = k * -torch.expm1(logs).unsqueeze(-1)  # times 1 − g
    state = q.new_zeros(*q.shape[:2], q.shape[3], v.shape[3])  # (B, H, M, D)
    parts = []
    for start in range(0, q.shape[2], GATED_CHUNK):
        block = slice(start, start + GATED_CHUNK)
        qs, ks, vs, sums = q[:, :, block], k[:, :, block], v[:, :, block], logs[:, :, block]
        sums = sums.cumsum(-1)  # (B, H, c)
        between = (sums.unsqueeze(-1) - sums.unsqueeze(-2)).tril().exp().tril()  # (B, H, c, c)
        inside = ((qs @ ks.mT) * between) @ vs
        parts.append(inside + (qs @ state) * sums.exp().unsqueeze(-1))
        left = (sums[..., -1:] - sums).exp().unsqueeze(-1)
        state = state * sums[..., -1:].exp().unsqueeze(-1) + (ks * left).mT @ vs
    return torch.cat(parts, 2).transpose(1, 2)


class RandomFeatureAttention(Attention):
    """The attention of a block by random features, causal; gated, if asked for."""

    def __init__(
        self, config: ModelConfig, layer: int, features: FeatureMap, *, gated: bool = False
    ) -> None:
        if config.horizons is not None:
            raise ValueError(
                "random feature attention has a gate instead of horizons; leave them out"
            )
        super().__init__(config, layer, features)
        self.gate = Linear(config.width, config.heads) if gated else None
        if self.gate is not None:
            nn.init.zeros_(self.gate.weight)
            nn.init.constant_(self.gate.bias, 3.0)  # remember about 20 tokens at first

    def attend(
        self, x: Tensor, fq: Tensor, fk: Tensor, v: Tensor, passage: Passage, state: Any
    ) -> tuple[Tensor, Any]:
        """Attend to the earlier positions, which a gate lets be forgotten."""
        if state is not None or isinstance(passage, WholePassage):
            raise ValueError("random feature attention is causal here, and reads whole sequences")
        values = functional.pad(v, (0, 1), value=1.0)
        if self.gate is None:
            begun = fq.new_zeros(len(x), self.heads, fq.shape[-1], values.shape[-1])
            y, _ = parallel_sums(fq, fk, values, None, begun, chunk=self.chunk)
            keys = torch.arange(1, x.shape[1] + 1, device=x.device).view(1, -1, 1, 1)
        else:
            y = gated_sums(fq, fk, values, functional.logsigmoid(self.gate(x)))
            keys = 1
        return y[..., :-1] / y[..., -1:].clamp(min=SMALLEST_SUM * keys), None


# Log-linear attention (Luo et al. 2021): a learned weight for every distance, by FFT instead of a (T, T) matrix.
#
#     out_i = Σ_j c_{i−j} (fq_i·fk_j) v_j / Σ_j c_{i−j} (fq_i·fk_j),  c = exp b
#
# The sums over j are convolutions of each product of a feature and a value with c: O(T log T) time, but M·D columns
# of memory. B batch, T time, H heads, M features, D value width.

REACH = 512  # distances with a weight of their own; those further off share the last


def toeplitz_attend(fq: Tensor, fk: Tensor, v: Tensor, weights: Tensor) -> Tensor:
    """Attend with c by distance: fq, fk (B, T, H, M), v (B, T, H, D), c (H, 2T − 1) of −(T − 1) … T − 1."""
    y = _sums_by_distance(fq, fk, functional.pad(v, (0, 1), value=1.0), weights)
    # FFTs leave rounding errors of the largest sum in the smallest, where the definition has none.
    return y[..., :-1] / y[..., -1:].clamp(min=GUARD)


def _sums_by_distance(q: Tensor, k: Tensor, v: Tensor, weights: Tensor) -> Tensor:
    length = q.shape[1]
    products = torch.einsum("bthm,bthd->bhmdt", k, v)
    # On a circle of 2T places lag −l lies at 2T − l; place T, which no lag has, is empty.
    circle = torch.cat(
        [weights[:, length - 1 :], weights.new_zeros(len(weights), 1), weights[:, : length - 1]], 1
    )
    spectrum = torch.fft.rfft(products, 2 * length) * torch.fft.rfft(circle)[:, None, None]
    summed = torch.fft.irfft(spectrum, 2 * length)[..., :length]
    return torch.einsum("bthm,bhmdt->bthd", q, summed)


class ToeplitzAttention(Attention):
    """The attention of a block, causal or not, with a learned weight a head and distance."""

    def __init__(self, config: ModelConfig, layer: int, features: FeatureMap | None) -> None:
        if config.horizons is not None:
            raise ValueError(
                "log-linear attention learns how much a distance weighs; leave out horizons"
            )
        super().__init__(config, layer, features)
        self.bias = nn.Parameter(torch.zeros(config.heads, 2 * REACH + 1))  # b, from −REACH on

    def weights(self, length: int, *, causal: bool) -> Tensor:
        """Return c of the distances −(T − 1) … T − 1, (H, 2T − 1); 0 ahead, where it is causal."""
        lags = torch.arange(1 - length, length, device=self.bias.device)
        found = self.bias[:, lags.clamp(-REACH, REACH) + REACH].exp()
        return found * (lags >= 0) if causal else found

    def attend(
        self, x: Tensor, fq: Tensor, fk: Tensor, v: Tensor, passage: Passage, state: Any
    ) -> tuple[Tensor, Any]:
        """Attend with a weight by distance, to all positions or to the earlier ones."""
        if state is not None:
            raise ValueError("log-linear attention has no state: it reads whole sequences alone")
        whole = isinstance(passage, WholePassage)
        if whole and passage.present is not None:
            fk = fk * passage.present[..., None, None].to(fk.dtype)
        return toeplitz_attend(fq, fk, v, self.weights(x.shape[1], causal=not whole)), None


SPACES: dict[str, tuple[type[Any], type[Position]]] = {
    "permuteformer_grid": (GridPermuteformerConfig, GridPermuteformer),
    "conv_spe_grid": (GridConvSpeConfig, GridConvSpe),
    "flt_space": (SpaceFltConfig, SpaceFlt),
}
"""Encodings of places in several dimensions; those of sequences are in `musicgen.position`."""


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One row of a table: an encoding, and how it is attended."""

    position: str
    choice: Mapping[str, Any] = field(default_factory=dict)  # of the encoding
    mixer: str = "linear"  # linear | softmax | toeplitz | rfa | rfa_arccos | rfa_gated
    causal: bool = True  # whether models that predict the next token have it
    whole: bool = True  # whether classifiers have it
    shape: str = "sequence"  # sequence | grid | cloud: what its places are
    about: str = ""


VARIANTS: dict[str, Variant] = {
    "none": Variant(position="none", about="no encoding"),
    "absolute": Variant(position="absolute", about="sinusoids added (Vaswani et al. 2017)"),
    "learned": Variant(position="learned", causal=False, about="a learned vector a position"),
    "rope": Variant(position="rope", about="rotations (Su et al. 2021)"),
    "sine_spe": Variant(position="sine_spe", choice={"sines": 10}, about="gated (Liutkus et al. 2021)"),
    "sine_spe_ungated": Variant(position="sine_spe", choice={"sines": 10, "gated": False}),
    "conv_spe": Variant(position="conv_spe", about="gated (Liutkus et al. 2021)"),
    "conv_spe_ungated": Variant(position="conv_spe", choice={"gated": False}),
    "permuteformer": Variant(position="permuteformer", whole=False, about="Chen 2021, with r"),
    "permuteformer_without_r": Variant(
        position="permuteformer", choice={"with_decay": False},
        about="r = 1, as bidirectional models of Chen 2021 have it",
    ),
    "permuteformer_without_permutation": Variant(
        position="permuteformer", choice={"with_permutation": False}, whole=False
    ),
    "lrpe": Variant(position="lrpe", about="type 1 (Qin et al. 2023)"),
    "lrpe_type_2": Variant(position="lrpe", choice={"type": "orthogonal"}),
    "lrpe_type_3": Variant(position="lrpe", choice={"type": "permutation"}),
    "flt": Variant(position="flt", about="Gaussian mixture (Choromanski et al. 2023)"),
    "flt_local": Variant(position="flt", choice={"mask": "local", "frequencies": "folded"}),
    "toeplitz": Variant(position="none", mixer="toeplitz", about="log-linear (Luo et al. 2021)"),
    "softmax": Variant(position="none", mixer="softmax", whole=False, about="exact, at quadratic cost"),
    "rfa": Variant(position="none", mixer="rfa", whole=False, about="Peng et al. 2021"),
    "rfa_arccos": Variant(position="none", mixer="rfa_arccos", whole=False),
    "rfa_gated": Variant(position="none", mixer="rfa_gated", whole=False),
    "permuteformer_grid": Variant(position="permuteformer_grid", causal=False, shape="grid"),
    "conv_spe_grid": Variant(position="conv_spe_grid", causal=False, shape="grid"),
    "flt_grid": Variant(position="flt_space", causal=False, shape="grid"),
    "flt_cloud": Variant(
        position="flt_space", choice={"sizes": None, "dimensions": 3}, causal=False, shape="cloud"
    ),
    "flt_cloud_radial": Variant(
        position="flt_space", choice={"sizes": None, "dimensions": 3, "mask": "radial"},
        causal=False, shape="cloud",
    ),
}  # fmt: skip


def variant(name: str) -> tuple[Variant, dict[str, Any]]:
    """Return a variant by name, and the values that stand after it, as in `lrpe:type=mixed,learned_core=true`."""
    name, _, values = name.partition(":")
    if name not in VARIANTS:
        raise ValueError(f"there is no encoding {name!r} to compare{suggestion(name, VARIANTS)}")
    chosen = VARIANTS[name]
    pairs = (part.partition("=") for part in values.split(",") if part)
    choice = {key: from_yaml(value, f"{name}: {key}") for key, _, value in pairs}
    if chosen.position in POSITIONS:
        from_plain(POSITIONS[chosen.position][0], choice, f"encoding {name!r}")
    return chosen, choice


def with_choice(chosen: Variant, common: Mapping[str, Any], own: Mapping[str, Any]) -> Variant:
    """Return a variant with values for all encodings, where its own knows them, and values for it alone, which win."""
    known = {**POSITIONS, **SPACES}[chosen.position][0].__dataclass_fields__
    fitting = {key: value for key, value in common.items() if key in known}
    return replace(chosen, choice={**fitting, **chosen.choice, **own})


def model_config(chosen: Variant, values: Mapping[str, Any]) -> ModelConfig:
    """Return the configuration of a model with a variant's encoding; one of space comes with `position_of`."""
    position = {"name": "none"}
    if chosen.position in POSITIONS:
        position = {"name": chosen.position, **chosen.choice}
    attention = "softmax" if chosen.mixer == "softmax" else "linear"
    values = {**values, "position": position, "attention": attention}
    config = ModelConfig.read(values, "the benchmark's model")
    check_sense(config)
    if chosen.position == "flt_space" and config.features_name != "favor":
        raise ValueError(
            "flt adds a mask to the exponent of the softmax kernel; choose features: favor"
        )
    return config


def position_of(chosen: Variant, config: ModelConfig) -> Position:
    """Return the encoding of a variant for a model."""
    if chosen.position in POSITIONS:
        return POSITIONS[chosen.position][1](config.position, config.shape())
    settings, encoding = SPACES[chosen.position]
    read = from_plain(settings, dict(chosen.choice), f"encoding {chosen.position!r}")
    return encoding(read, config.shape())


def language_model(chosen: Variant, config: ModelConfig, seed: int) -> Performer:
    """Return a model that predicts the next token, with the attention that a variant names."""
    model = Performer(config, seed)
    for layer, block in enumerate(model.blocks):
        assert isinstance(block, Block)
        assert isinstance(block.attention, Attention)
        block.attention = mixed(block.attention, chosen, config, layer, model.position.qk_width)
    return model


def mixed(
    attention: Attention, chosen: Variant, config: ModelConfig, layer: int, width: int
) -> Attention:
    """Return an attention of the same weights that mixes tokens as a variant says."""
    if chosen.mixer in ("linear", "softmax"):
        return attention
    if chosen.mixer == "toeplitz":
        other: Attention = ToeplitzAttention(config, layer, attention.features)
    else:
        kind = "arccos" if chosen.mixer == "rfa_arccos" else "gaussian"
        features = RandomFeatures(width, config.shape().features, kind)
        gated = chosen.mixer == "rfa_gated"
        other = RandomFeatureAttention(config, layer, features, gated=gated)
    other.qkv, other.output = attention.qkv, attention.output
    return other
