"""The configuration of a model: one frozen dataclass that nests those of its feature map and its encoding of position.

As plain data (JSON, YAML) a nested part is its name alone, or a mapping of its name and what differs from its defaults:
`position: {name: sine_spe, realisations: 64}`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from importlib.resources import files
from typing import Any, Literal

from musicgen.features import FEATURES
from musicgen.metre import Clock, MetreConfig
from musicgen.position import POSITIONS, Position, Shape
from musicgen.recall import RecallConfig
from tokenization.records import check_fields, from_plain, from_yaml, suggestion

LARGEST = 1 << 20  # of all sizes; no computer holds a model that has one beyond


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """All that determines a model but its weights; `features` and `position` may be given by name."""

    vocabulary_size: int
    layers: int = 24
    width: int = 512
    heads: int = 8
    feedforward: int = 2048
    dropout: float = 0.1
    norm: Literal["pre", "post"] = "pre"  # where a block normalises
    activation: Literal["gelu", "relu"] = "gelu"
    attention: Literal["linear", "softmax"] = "linear"
    # How linear attention is computed in training.
    backend: Literal["exact", "chunked", "recurrent", "fast-transformers"] = "chunked"
    chunk: int = 128  # positions a block of the chunked backend
    features: Any = "favor"  # the feature map of linear attention
    position: Any = "none"
    # Tokens that heads remember, the shortest and the longest; null: all, or the encoding's.
    horizons: tuple[float, ...] | None = None
    metre: MetreConfig | None = None  # further heads, which remember by the place in the bar
    clock: Clock | None = None  # how the language's tokens move time: what the metre needs to know
    # Goal tokens of the language, if each position is told them.
    goals: tuple[int, ...] | None = None
    recall: RecallConfig | None = None  # what tokens mean to one who recalls, if the model does
    tie_embeddings: bool = False  # one matrix for the embedding and the logits
    checkpoint_activations: bool = False  # recompute each block in the backward pass: less memory
    initial_deviation: float = 0.02  # of the weights of linear layers

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", _part("features", FEATURES, self.features))
        object.__setattr__(self, "position", _part("position", POSITIONS, self.position))
        check_fields(self, "vocabulary_size", "layers", "width", "heads", "feedforward", "chunk")
        for part in (self.features, self.position, self.metre, self.clock, self):
            for name, size in () if part is None else vars(part).items():
                if isinstance(size, int) and size > LARGEST:
                    raise ValueError(f"{name} is {size}; sizes here go to {LARGEST}")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout is {self.dropout}; it lies in 0 ≤ dropout < 1")
        if self.initial_deviation < 0:
            raise ValueError(f"initial_deviation is {self.initial_deviation}; it must be 0 or more")
        if self.width % self.heads:
            raise ValueError(
                f"width {self.width} does not divide into {self.heads} heads; "
                f"{self.width - self.width % self.heads or self.heads} would"
            )
        if self.attention == "softmax" and needs_linear_attention(POSITIONS[self.position_name][1]):
            raise ValueError(
                f"position {self.position_name!r} acts on the features of linear attention, which softmax "
                f"attention has not; choose attention: linear, or another encoding"
            )
        self._check_memory()
        self._check_time()

    def _check_memory(self) -> None:
        """Check how heads forget."""
        for name, given in (("horizons", self.horizons), ("a metre", self.metre)):
            if given is not None and self.attention == "softmax":
                raise ValueError(
                    f"softmax attention remembers everything; {name} goes with attention: linear"
                )
        if self.horizons is None:
            return
        if len(self.horizons) != 2 or not 1 < self.horizons[0] <= self.horizons[1] < math.inf:
            raise ValueError(
                f"horizons are {list(self.horizons)}; give the shortest and the longest, in tokens, as in [8, 512]"
            )

    def _check_time(self) -> None:
        """Check what needs the clock, and the tokens that it and the goals name."""
        musical = getattr(self.position, "time", "tokens") == "music"
        wanted = {
            "a metre": self.metre is not None,
            "a position in musical time": musical,
            "a list of goals": self.goals is not None,
        }
        if self.clock is None:
            for name, is_wanted in wanted.items():
                if is_wanted:
                    raise ValueError(
                        f"{name} needs the clock of the language whose tokens are learned"
                    )
            return
        if self.metre is not None:
            self.metre.periods(self.clock)
        last = max((token for token, *_ in self.clock.moves), default=0)
        if last >= self.vocabulary_size:
            raise ValueError(
                f"the clock moves by token {last}, but there are {self.vocabulary_size} tokens, from 0"
            )
        if self.goals is None:
            return
        known = len(set(self.goals)) == len(self.goals) > 0
        if not known or not all(0 <= token < self.vocabulary_size for token in self.goals):
            raise ValueError(
                f"goals are {list(self.goals)}; different tokens below {self.vocabulary_size} are wanted"
            )

    @property
    def head_width(self) -> int:
        """Width of one head's values."""
        return self.width // self.heads

    @property
    def longest(self) -> int | None:
        """The tokens past which there is no position; None where there is one at any place."""
        return getattr(self.position, "max_length", None)

    @property
    def features_name(self) -> str:
        """The feature map's name in FEATURES."""
        return _name_of(FEATURES, self.features)

    @property
    def position_name(self) -> str:
        """The encoding's name in POSITIONS."""
        return _name_of(POSITIONS, self.position)

    def shape(self) -> Shape:
        """Return the sizes an encoding is built for."""
        return Shape(
            layers=self.layers,
            heads=self.heads,
            head_width=self.head_width,
            width=self.width,
            features=self.features.features or self.head_width,
            horizons=self.horizons,
            bar_ticks=None if self.clock is None else self.clock.bar_ticks,
        )

    def plain(self) -> dict[str, Any]:
        """Return the configuration as plain data, complete; `read` is the way back."""
        data = asdict(self)
        data["features"] = {"name": self.features_name, **data["features"]}
        data["position"] = {"name": self.position_name, **data["position"]}
        return data

    @classmethod
    def read(cls, data: Mapping[str, Any], where: str = "the model's config") -> ModelConfig:
        """Build a configuration from plain data; `where` names its source in errors."""
        return from_plain(cls, data, where)

    @classmethod
    def preset(cls, name: str, **overrides: Any) -> ModelConfig:
        """Return a preset of the package by name, with some fields set otherwise (vocabulary_size is always needed)."""
        folder = files("musicgen") / "presets"
        names = sorted(file.name.removesuffix(".yaml") for file in folder.iterdir())
        if name not in names:
            raise ValueError(f"there is no preset {name!r}{suggestion(name, names)}")
        values = from_yaml((folder / f"{name}.yaml").read_text(encoding="utf-8"), f"preset {name}")
        return cls.read({**values, **overrides}, f"preset {name}")

    def with_realisations(self, realisations: int) -> ModelConfig:
        """Return this configuration with another number of realisations of a stochastic encoding."""
        if not hasattr(self.position, "realisations"):
            raise ValueError(
                f"position {self.position_name!r} is not stochastic: it has no realisations to choose"
            )
        return replace(self, position=replace(self.position, realisations=realisations))


def needs_linear_attention(encoding: type[Position]) -> bool:
    """Tell whether an encoding acts after the feature map, where softmax attention has nothing to act on."""
    return encoding.features is not Position.features or encoding.decay is not Position.decay


def check_sense(config: ModelConfig) -> None:
    """Refuse what can be computed but does not mean what its name says; asked before training, not of saved models."""
    estimates = config.attention == "softmax" or config.features_name == "favor"
    if POSITIONS[config.position_name][1].wants_softmax_kernel and not estimates:
        raise ValueError(
            f"position {config.position_name!r} adds its mask f to the exponent of exp(q·k/√D + f), which features "
            f"{config.features_name!r} do not estimate, so that the mask would mean nothing; choose features: favor"
        )


def _part(field: str, registry: Mapping[str, tuple[Any, Any]], value: Any) -> Any:
    """Return a nested configuration given as itself, by its name, or as a mapping with its name."""
    if isinstance(value, tuple(config for config, _ in registry.values())):
        return value
    values = {"name": value} if isinstance(value, str) else value
    if not isinstance(values, Mapping) or "name" not in values:
        raise ValueError(f"{field} is {value!r}, where a name, or a mapping with a name, is wanted")
    name, rest = values["name"], {key: values[key] for key in values if key != "name"}
    if name not in registry:
        raise ValueError(f"{field} {name!r} is unknown{suggestion(name, registry)}")
    config = registry[name][0]
    if field == "position" and "time" in rest and "time" not in config.__dataclass_fields__:
        able = [n for n, (c, _) in registry.items() if "time" in c.__dataclass_fields__]
        raise ValueError(
            f"position {name!r} cannot count musical time; {', '.join(able)} can, or leave out its time"
        )
    return from_plain(config, rest, f"{field} {name!r}")


def _name_of(registry: Mapping[str, tuple[Any, Any]], part: Any) -> str:
    return next(name for name, (config, _) in registry.items() if type(part) is config)
