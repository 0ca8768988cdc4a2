"""The variants to compare: encodings of position and kinds of attention, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from evaluation.benchmarks.mixers import DECAYS, mixed
from evaluation.benchmarks.positions import (
    GridPermuteformer,
    GridPermuteformerConfig,
    SpaceFlt,
    SpaceFltConfig,
)
from musicgen.config import ModelConfig, check_compatible
from musicgen.parts import POSITION_CONFIGS
from musicgen.performer import Attention, Block, Performer
from musicgen.position import POSITIONS, Position
from tokenization.language import Language, with_token_roles
from tokenization.records import from_plain, from_yaml, suggestion

SPACES: dict[str, tuple[type[Any], type[Position]]] = {
    "permuteformer_grid": (GridPermuteformerConfig, GridPermuteformer),
    "flt_space": (SpaceFltConfig, SpaceFlt),
}
"""Encodings of places in several dimensions; those of sequences are in `musicgen.position`."""


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One row of a table: an encoding and a kind of attention."""

    position: str
    choice: Mapping[str, Any] = field(default_factory=dict)  # values of the encoding
    mixer: str = "linear"  # linear, softmax, or another name that `mixed` knows
    model: Mapping[str, Any] = field(default_factory=dict)  # values of ModelConfig
    causal: bool = True  # whether it works in causal models
    whole: bool = True  # whether it works in classifiers


DECAY = {"horizons": DECAYS}
CLOUD = {"dimensions": 3}
METRE = {**DECAY, "metre": {"bars": [1, 1, 2, 4, 8, 16], "remembers": [2, 8, 8, 8, 8, 8]}}

VARIANTS: dict[str, Variant] = {
    "none": Variant(position="none"),
    "absolute": Variant(position="absolute"),  # sinusoids added (Vaswani et al. 2017)
    "learned": Variant(position="learned", causal=False),  # a vector per position
    "rope": Variant(position="rope"),  # rotations (Su et al. 2021)
    "sine_spe": Variant(position="sine_spe", choice={"sines": 10}),  # gated (Liutkus et al. 2021)
    "sine_spe_ungated": Variant(position="sine_spe", choice={"sines": 10, "gated": False}),
    "conv_spe": Variant(position="conv_spe"),  # gated
    "conv_spe_ungated": Variant(position="conv_spe", choice={"gated": False}),
    "permuteformer": Variant(position="permuteformer", whole=False),  # Chen 2021, with r
    # r = 1, as in the bidirectional models of Chen 2021
    "permuteformer_without_r": Variant(position="permuteformer", choice={"with_decay": False}),
    "permuteformer_without_permutation": Variant(
        position="permuteformer", choice={"with_permutation": False}, whole=False
    ),
    "lrpe": Variant(position="lrpe"),  # type 1 (Qin et al. 2023)
    "lrpe_type_2": Variant(position="lrpe", choice={"type": "orthogonal"}),
    "lrpe_type_3": Variant(position="lrpe", choice={"type": "permutation"}),
    "flt": Variant(position="flt"),  # Gaussian mixture (Choromanski et al. 2023)
    "flt_local": Variant(position="flt", choice={"mask": "local", "frequencies": "folded"}),
    "softmax": Variant(position="none", mixer="softmax", whole=False),  # exact, with quadratic cost
    "decay": Variant(position="none", model=DECAY, whole=False),  # a fixed factor per head
    "decay_by_token": Variant(position="none", mixer="decay_by_token", whole=False),
    # with the keys and the normalisation of the delta rule
    "decay_by_token_normed": Variant(position="none", mixer="decay_by_token_normed", whole=False),
    "delta": Variant(position="none", mixer="delta", whole=False),  # Schlag et al. 2021
    "metre": Variant(position="none", model=METRE, whole=False),  # decay and metric heads
    "delta_metre": Variant(
        position="none", mixer="delta", model={**METRE, "horizons": None}, whole=False
    ),
    # decay, and given what followed earlier occurrences of the last tokens
    "recall": Variant(position="none", model={**DECAY, "recall": True}, whole=False),
    "metre_recall": Variant(position="none", model={**METRE, "recall": True}, whole=False),
    "permuteformer_grid": Variant(position="permuteformer_grid", causal=False),
    "flt_grid": Variant(position="flt_space", causal=False),
    "flt_cloud": Variant(position="flt_space", choice=CLOUD, causal=False),
    "flt_cloud_radial": Variant(
        position="flt_space", choice={**CLOUD, "mask": "radial"}, causal=False
    ),
}


def variant(name: str) -> tuple[Variant, dict[str, Any]]:
    """Return a variant and the values given with its name, as in `lrpe:type=mixed,learned_core=true`."""
    name, _, values = name.partition(":")
    if name not in VARIANTS:
        raise ValueError(f"there is no encoding {name!r}{suggestion(name, VARIANTS)}")
    chosen = VARIANTS[name]
    pairs = (part.partition("=") for part in values.split(",") if part)
    choice = {key: from_yaml(value, f"{name}: {key}") for key, _, value in pairs}
    if chosen.position in POSITIONS:
        from_plain(POSITION_CONFIGS[chosen.position], choice, f"encoding {name!r}")
    return chosen, choice


def model_config(
    chosen: Variant, values: Mapping[str, Any], language: Language | None = None
) -> ModelConfig:
    """Return the configuration of a model with a variant's encoding, or without one if it is in SPACES.

    The language gives the model the meanings of its tokens.
    """
    position = {"name": "none"}
    if chosen.position in POSITIONS:
        position = {"name": chosen.position, **chosen.choice}
    attention = "softmax" if chosen.mixer == "softmax" else "linear"
    values = {**values, **chosen.model, "position": position, "attention": attention}
    if language is not None:
        values = with_token_roles(values, language)
    elif values.get("metre") or values.get("recall"):
        raise ValueError("metric heads and recall need tokens of music: use the task music")
    config = ModelConfig.read(values, "the benchmark's model")
    check_compatible(config)
    if chosen.position == "flt_space" and config.features_name != "favor":
        raise ValueError(
            "flt adds a mask to the exponent of the softmax kernel; choose features: favor"
        )
    return config


def position_of(chosen: Variant, config: ModelConfig) -> Position:
    """Build the encoding of a variant for a model."""
    if chosen.position in POSITIONS:
        return POSITIONS[config.position_name](config.position, config.shape())
    settings, encoding = SPACES[chosen.position]
    read = from_plain(settings, dict(chosen.choice), f"encoding {chosen.position!r}")
    return encoding(read, config.shape())


def language_model(chosen: Variant, config: ModelConfig, seed: int) -> Performer:
    """Build a model that predicts the next token, with the variant's kind of attention."""
    model = Performer(config, seed)
    for block in model.blocks:
        assert isinstance(block, Block)
        assert isinstance(block.attention, Attention)
        block.attention = mixed(block.attention, chosen.mixer, config, model.position.qk_width)
    return model
