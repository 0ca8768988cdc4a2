"""The configuration of a model: a frozen dataclass that nests those of the feature map and the positional encoding.

In plain data (JSON, YAML) a nested configuration is its name, or a mapping of its name and the values that differ from
the defaults: `position: {name: sine_spe, realisations: 64}`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.resources import files
from typing import Any, Literal

from musicgen.parts import (
    FEATURE_CONFIGS,
    POSITION_CONFIGS,
    Clock,
    MetreConfig,
    RecallConfig,
    Shape,
)
from tokenization.records import check_fields, from_plain, from_yaml, suggestion

LARGEST = 1 << 20  # of all sizes; no computer has the memory for more


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The hyperparameters of a model; `features` and `position` can be given by name."""

    vocabulary_size: int
    layers: int = 24
    width: int = 512
    heads: int = 8
    feedforward: int = 2048
    dropout: float = 0.1
    norm: Literal["pre", "post"] = "pre"  # layer norm before or after each residual branch
    activation: Literal["gelu", "relu"] = "gelu"
    attention: Literal["linear", "softmax"] = "linear"
    # How linear attention is computed over sequences.
    backend: Literal["exact", "chunked", "recurrent", "fast-transformers"] = "chunked"
    # Positions per block of the chunked backend: the fastest of 64, 128 and 256 on two CPU cores at M = 128, D = 64.
    chunk: int = 128
    features: Any = "favor"  # the feature map of linear attention
    position: Any = "none"  # the positional encoding
    # Shortest and longest horizon of the heads in tokens; null: no decay, or the encoding's own.
    horizons: tuple[float, ...] | None = None
    metre: MetreConfig | None = None  # additional heads that attend by the place in the bar
    clock: Clock | None = None  # how the language's tokens move musical time
    goals: tuple[int, ...] | None = None  # goal tokens of the language; null: not embedded
    recall: RecallConfig | None = None  # the kinds of tokens; null: the model does not recall
    tie_embeddings: bool = False  # one matrix for the embedding and the logits
    checkpoint_activations: bool = False  # recompute blocks in the backward pass to save memory
    initial_deviation: float = 0.02  # standard deviation of the initial weights of linear layers
    # Above 0: of a change to each matrix of the layers (linear.py), which alone learns; saved models have it merged.
    rank: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", _part("features", FEATURE_CONFIGS, self.features))
        object.__setattr__(self, "position", _part("position", POSITION_CONFIGS, self.position))
        check_fields(self, "vocabulary_size", "layers", "width", "heads", "feedforward", "chunk")
        for part in (self.features, self.position, self.metre, self.clock, self):
            for name, size in () if part is None else vars(part).items():
                if isinstance(size, int) and size > LARGEST:
                    raise ValueError(f"{name} is {size}; it must be at most {LARGEST}")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout is {self.dropout}; it must be at least 0 and below 1")
        if self.rank < 0:
            raise ValueError(f"rank is {self.rank}; it must be 0 or more")
        if self.initial_deviation < 0:
            raise ValueError(f"initial_deviation is {self.initial_deviation}; it must be 0 or more")
        if self.width % self.heads:
            raise ValueError(
                f"width {self.width} cannot be divided among {self.heads} heads; "
                f"{self.width - self.width % self.heads or self.heads} can"
            )
        if self.attention == "softmax" and self.position.needs_linear_attention:
            raise ValueError(
                f"position {self.position_name!r} acts on the features of linear attention, which softmax "
                f"attention does not have; choose attention: linear, or another encoding"
            )
        self._check_decay()
        self._check_time()

    def _check_decay(self) -> None:
        """Check horizons and metre, which let heads forget."""
        for name, given in (("horizons", self.horizons), ("a metre", self.metre)):
            if given is not None and self.attention == "softmax":
                raise ValueError(
                    f"{name} cannot be used with softmax attention; choose attention: linear"
                )
        if self.horizons is None:
            return
        if len(self.horizons) != 2 or not 1 < self.horizons[0] <= self.horizons[1] < math.inf:
            raise ValueError(
                f"horizons are {list(self.horizons)}; give the shortest and the longest, in tokens, as in [8, 512]"
            )

    def _check_time(self) -> None:
        """Check the clock, the goals, and that there is a clock for whatever needs one."""
        needs_clock = {
            "a metre": self.metre is not None,
            "a position in musical time": self.position.musical,
            "a list of goals": self.goals is not None,
        }
        if self.clock is None:
            for name, is_used in needs_clock.items():
                if is_used:
                    raise ValueError(f"{name} needs the clock of the token language")
            return
        if self.metre is not None:
            self.metre.periods(self.clock)
        last = max((token for token, *_ in self.clock.moves), default=0)
        if last >= self.vocabulary_size:
            raise ValueError(
                f"the clock has token {last}, but the vocabulary ends at token {self.vocabulary_size - 1}"
            )
        if self.goals is None:
            return
        distinct = len(set(self.goals)) == len(self.goals) > 0
        if not distinct or not all(0 <= token < self.vocabulary_size for token in self.goals):
            raise ValueError(
                f"goals are {list(self.goals)}; give distinct tokens below {self.vocabulary_size}"
            )

    @property
    def head_width(self) -> int:
        """Width of a head's values, D."""
        return self.width // self.heads

    @property
    def longest(self) -> int | None:
        """The maximum length of a sequence in tokens, or None if the encoding sets none."""
        return getattr(self.position, "max_length", None)

    @property
    def features_name(self) -> str:
        """The name of the feature map in FEATURE_CONFIGS."""
        return _name_of(FEATURE_CONFIGS, self.features)

    @property
    def position_name(self) -> str:
        """The name of the encoding in POSITION_CONFIGS."""
        return _name_of(POSITION_CONFIGS, self.position)

    def shape(self) -> Shape:
        """Return the sizes that a positional encoding needs to know."""
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
        """Return the complete configuration as plain data; `read` is the inverse."""
        data = asdict(self)
        data["features"] = {"name": self.features_name, **data["features"]}
        data["position"] = {"name": self.position_name, **data["position"]}
        return data

    @classmethod
    def read(cls, data: Mapping[str, Any], where: str = "the model's config") -> ModelConfig:
        """Build a configuration from plain data; `where` names its source in error messages."""
        return from_plain(cls, data, where)

    @classmethod
    def preset(cls, name: str, **overrides: Any) -> ModelConfig:
        """Return a preset by name with some fields overridden; vocabulary_size must always be given."""
        folder = files("musicgen") / "presets"
        names = sorted(file.name.removesuffix(".yaml") for file in folder.iterdir())
        if name not in names:
            raise ValueError(f"there is no preset {name!r}{suggestion(name, names)}")
        values = from_yaml((folder / f"{name}.yaml").read_text(encoding="utf-8"), f"preset {name}")
        return cls.read({**values, **overrides}, f"preset {name}")


def check_compatible(config: ModelConfig) -> None:
    """Raise ValueError for a combination that runs but makes no sense; called before training, not for saved models."""
    estimates = config.attention == "softmax" or config.features_name == "favor"
    if config.position.wants_softmax_kernel and not estimates:
        raise ValueError(
            f"position {config.position_name!r} adds its mask f to the exponent of exp(q·k/√D + f), which features "
            f"{config.features_name!r} do not estimate, so that the mask would mean nothing; choose features: favor"
        )


def _part(field: str, registry: Mapping[str, type[Any]], value: Any) -> Any:
    """Return a nested configuration, given as such, by name, or as a mapping with a name."""
    if isinstance(value, tuple(registry.values())):
        return value
    values = {"name": value} if isinstance(value, str) else value
    if not isinstance(values, Mapping) or "name" not in values:
        raise ValueError(f"{field} is {value!r}; give a name, or a mapping with a name")
    name, rest = values["name"], {key: values[key] for key in values if key != "name"}
    if name not in registry:
        raise ValueError(f"{field} {name!r} is unknown{suggestion(name, registry)}")
    return from_plain(registry[name], rest, f"{field} {name!r}")


def _name_of(registry: Mapping[str, type[Any]], part: Any) -> str:
    return next(name for name, config in registry.items() if type(part) is config)
