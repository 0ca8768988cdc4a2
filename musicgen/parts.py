"""The configurations of a model's parts: frozen dataclasses that check their values, and their names.

config.py nests them. They only describe the parts, without torch; the modules that learn are in features.py, position/,
metre.py and guesses.py, and FEATURES and POSITIONS there have the names of the tables here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from tokenization.records import check_fields

# Feature maps (features.py).


LARGEST_NORM, LARGEST_PROJECTION = (
    8.0,
    24.0,
)  # |x| and |ωx| in the exponents of FAVOR+ (features.py)


@dataclass(frozen=True, kw_only=True)
class FavorConfig:
    """FAVOR+, an estimate of the softmax kernel exp(q·k / √W)."""

    features: int = 128  # M: half of them for each sign

    def __post_init__(self) -> None:
        if self.features < 2 or self.features % 2:
            raise ValueError(f"features of favor must be an even number, found {self.features}")


@dataclass(frozen=True, kw_only=True)
class ReluConfig:
    """ReLU features of the input or of a random projection of it."""

    features: int | None = None  # M of a random projection; null: none, and M = W
    floor: float = 1e-3  # keeps every weight positive

    def __post_init__(self) -> None:
        name = type(self).__name__.removesuffix("Config").lower()
        if self.features is not None and self.features < 1:
            raise ValueError(
                f"features of {name} must be at least 1, or null, found {self.features}"
            )
        if not self.floor > 0:
            raise ValueError(f"floor of {name} must be above 0, found {self.floor}")


@dataclass(frozen=True, kw_only=True)
class EluConfig(ReluConfig):
    """elu(x) + 1 (Katharopoulos et al. 2020, equation 7) of the input or of a random projection of it."""

    floor: float = 1e-6  # float32 rounds elu(x) + 1 to zero below x = −17


@dataclass(frozen=True, kw_only=True)
class UnitConfig:
    """Features of length one, which can be negative; the outputs of each head are normalised."""

    features: None = None  # M = W


FEATURE_CONFIGS: dict[str, type[Any]] = {
    "favor": FavorConfig,
    "relu": ReluConfig,
    "elu": EluConfig,
    "unit": UnitConfig,
}

# Frequencies in musical time are initialised with harmonics of bars, down to sixteenths, and learned.
#
# The waves of all harmonics n = 1 … 16 P of a period of P bars add up to a comb with a tooth, a sixteenth wide, at each
# multiple of the period: the kernel [t ≡ s mod P] of a metric head (metre.py). Heads take periods of 1, 2, 4 and 8 bars
# in turn, and their waves take harmonics that are spread evenly. The learned offsets are in cycles per longest period;
# in cycles per tick, the first hundred training steps would blur the teeth.

PERIODS = (1, 2, 4, 8)  # bars, head by head
FINEST = 16  # waves per bar
_GOLDEN = (math.sqrt(5) - 1) / 2  # any number of its multiples, modulo 1, is spread evenly


def musical_harmonics(bar: int, heads: int, waves: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the harmonics with which waves begin, (H, waves), and the period of each head in ticks, (H,)."""
    bars = np.array([PERIODS[head % len(PERIODS)] for head in range(heads)])
    turns = np.arange(1, waves + 1, dtype=np.float64) * _GOLDEN % 1
    most = bars * max(1, min(FINEST, bar // 2))
    return 1 + (turns * most[:, None]).astype(np.int64), bars * bar


# Positional encodings (position/).


@dataclass(frozen=True, kw_only=True)
class PositionConfig:
    """The base of the configurations of all encodings: what the rest of a model must know of them."""

    # Whether the encoding acts after the feature map, or decays, which softmax attention cannot do.
    needs_linear_attention: ClassVar[bool] = False
    # Whether the encoding is valid only if attention weights are, or estimate, exp(q·k/√W).
    wants_softmax_kernel: ClassVar[bool] = False

    @property
    def musical(self) -> bool:
        """Whether places are musical times instead of token numbers."""
        return getattr(self, "time", "tokens") == "music"

    def check(self, stop: int) -> None:
        """Raise ValueError if a sequence of `stop` tokens is too long for the encoding."""


@dataclass(frozen=True, kw_only=True)
class NoneConfig(PositionConfig):
    """No positional encoding: the model knows the order of tokens only through causality."""


@dataclass(frozen=True, kw_only=True)
class AbsoluteConfig(PositionConfig):
    """Sines and cosines with wavelengths from 2π to 2π · `base` tokens."""

    base: float = 10_000.0

    def __post_init__(self) -> None:
        if self.base <= 1:
            raise ValueError(f"base is {self.base}; it must be greater than 1")


@dataclass(frozen=True, kw_only=True)
class LearnedConfig(PositionConfig):
    """One learned vector for each of `max_length` positions."""

    max_length: int = 2048
    initial_deviation: float = 0.02

    def __post_init__(self) -> None:
        check_fields(self, "max_length")
        if self.initial_deviation < 0:
            raise ValueError(f"initial_deviation is {self.initial_deviation}; it must be 0 or more")

    def check(self, stop: int) -> None:
        if stop > self.max_length:
            raise ValueError(
                f"the sequence reaches {stop} tokens, but the learned positional encoding has a "
                f"maximum length of {self.max_length}; shorten the sequence, or choose an encoding "
                f"without a limit, such as rope or sine_spe"
            )


@dataclass(frozen=True, kw_only=True)
class RopeConfig(PositionConfig):
    """Rotations by angles per token that fall from 1 towards 1 / `base`."""

    base: float = 10_000.0
    time: Literal["tokens", "music"] = "tokens"

    def __post_init__(self) -> None:
        check_fields(self)
        if self.base <= 1:
            raise ValueError(f"base is {self.base}; it must be greater than 1")


@dataclass(frozen=True, kw_only=True)
class SpeConfig(PositionConfig):
    """The options that both stochastic encodings have."""

    realisations: int = 64  # R
    gated: bool = True
    shared: bool = True  # one code for all layers

    def __post_init__(self) -> None:
        check_fields(self, "realisations")


@dataclass(frozen=True, kw_only=True)
class SineSpeConfig(SpeConfig):
    """Sine SPE: templates that are sums of sines.

    The paper's music models have 64 realisations, 5 sines (pop piano) or 8 (groove), and gates.
    """

    sines: int = 5  # K
    time: Literal["tokens", "music"] = "tokens"
    orthogonal: bool = False  # draw orthogonal rows of noise

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fields(self, "sines")


@dataclass(frozen=True, kw_only=True)
class ConvSpeConfig(SpeConfig):
    """Convolutional SPE: templates that are correlations of filters.

    The paper's music models have 64 realisations, and 128 taps if gated, else 512.
    """

    taps: int = 128  # P

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fields(self, "taps")


@dataclass(frozen=True, kw_only=True)
class PermuteformerConfig(PositionConfig):
    """PermuteFormer: fixed random permutations drawn from `seed`; the flags are the paper's two ablations."""

    needs_linear_attention: ClassVar[bool] = True

    with_decay: bool = True
    with_permutation: bool = True
    seed: int = 0
    time: Literal["tokens", "music"] = "tokens"

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, kw_only=True)
class LrpeConfig(PositionConfig):
    """LRPE: features after a change of basis P, rotated or permuted by Λ.

    `type` chooses Λ (the paper's solutions 1 to 3, and mixed, which rotates half of the features), `core` P. The other
    options are those of the paper's code: angles are learned, or fixed (a falls geometrically, b rises linearly to a
    quarter turn, c falls from there as 1/k), and Householder vectors are fixed or learned.
    """

    needs_linear_attention: ClassVar[bool] = True

    type: Literal["unitary", "orthogonal", "permutation", "mixed"] = "unitary"
    core: Literal["householder", "identity"] = "householder"
    angles: Literal["learned", "a", "b", "c"] = "learned"
    learned_core: bool = False
    seed: int = 0  # of the Householder vectors and permutations
    time: Literal["tokens", "music"] = "tokens"

    def __post_init__(self) -> None:
        check_fields(self)
        if self.learned_core and self.core != "householder":
            raise ValueError(f"core {self.core} has no parameters to learn; householder has")
        if self.angles != "learned" and (self.type == "permutation" or self.time == "music"):
            raise ValueError(
                f"angles {self.angles} are per token, which type permutation and time music do not "
                "have; choose angles: learned"
            )


@dataclass(frozen=True, kw_only=True)
class FltConfig(PositionConfig):
    """FourierLearner: an additive mask f of distances, by random features.

    `mask` chooses the family of f. `frequencies` applies to the mask `local`: normal as in the paper, for which the
    variance of the estimate is infinite, or folded, for which it is finite (LocalMask).
    """

    wants_softmax_kernel: ClassVar[bool] = True

    mask: Literal["gaussian", "local"] = "gaussian"
    frequencies: Literal["normal", "folded"] = "normal"
    random_features: int = 32  # r
    components: int = 8  # of the mask
    time: Literal["tokens", "music"] = "tokens"

    def __post_init__(self) -> None:
        check_fields(self, "random_features", "components")
        if self.frequencies == "folded" and self.mask != "local":
            raise ValueError(
                f"frequencies: folded needs mask: local; the estimate of mask {self.mask} already has a "
                "finite variance"
            )


POSITION_CONFIGS: dict[str, type[PositionConfig]] = {
    "none": NoneConfig,
    "absolute": AbsoluteConfig,
    "learned": LearnedConfig,
    "rope": RopeConfig,
    "sine_spe": SineSpeConfig,
    "conv_spe": ConvSpeConfig,
    "permuteformer": PermuteformerConfig,
    "lrpe": LrpeConfig,
    "flt": FltConfig,
}


@dataclass(frozen=True, kw_only=True)
class Shape:
    """The sizes of a model that its positional encoding needs to know."""

    layers: int
    heads: int
    head_width: int  # D
    width: int  # C
    features: int  # M of the feature map, for encodings with a `features` hook
    horizons: tuple[float, ...] | None = None  # shortest and longest of the heads, in tokens
    bar_ticks: int | None = None  # of the language's clock, for encodings in musical time


# Musical time, and metric heads (metre.py).

MAX_BARS = 64  # of a period: the memory has one row per tick
MAX_ROWS = 1 << 16  # of all heads of a layer
MAX_STEPS = 1 << 20  # of one move


@dataclass(frozen=True, kw_only=True)
class Clock:
    """How the tokens of a language move musical time."""

    bar_ticks: int
    step_ticks: int  # ticks per step
    moves: tuple[tuple[int, ...], ...]  # (token, steps, tick) of each token that moves time

    def __post_init__(self) -> None:
        if min(self.bar_ticks, self.step_ticks) < 1:
            raise ValueError(
                f"a bar has {self.bar_ticks} ticks and a step {self.step_ticks}; both must be at least 1"
            )
        for move in self.moves:
            if len(move) != 3 or min(move) < 0 or move[2] >= self.step_ticks:
                raise ValueError(
                    f"{list(move)} is not a move; give a token, steps, and a tick below {self.step_ticks}"
                )
            if move[1] > MAX_STEPS:
                raise ValueError(f"{list(move)} moves time by more than {MAX_STEPS} steps")


@dataclass(frozen=True, kw_only=True)
class MetreConfig:
    """The metric heads of a layer, one for each of `bars`."""

    bars: tuple[float, ...] = (1, 1, 2, 4)  # the period of each head
    remembers: tuple[float, ...] = (2, 8, 8, 8)  # its horizon in periods: r = 1 − 1 / horizon
    features: int = 4  # M

    def __post_init__(self) -> None:
        if not self.bars or len(self.bars) != len(self.remembers):
            raise ValueError(
                f"bars are {list(self.bars)} and remembers {list(self.remembers)}; give one of each per head"
            )
        possible = all(0 < bars <= MAX_BARS for bars in self.bars)
        if not possible or not all(1 < n < math.inf for n in self.remembers) or self.features < 1:
            raise ValueError(
                f"bars are {list(self.bars)} (above 0, {MAX_BARS} at most), remembers {list(self.remembers)} "
                f"(above 1) and features {self.features} (at least 1)"
            )

    def periods(self, clock: Clock) -> list[int]:
        """Return the period of each head in ticks."""
        ticks = [bars * clock.bar_ticks for bars in self.bars]
        for bars, period in zip(self.bars, ticks, strict=True):
            if period != int(period):
                raise ValueError(
                    f"{bars} bars are {period} ticks; the period of a metric head must be a whole number of ticks"
                )
        if sum(ticks) > MAX_ROWS:
            raise ValueError(
                f"the periods of the metric heads are {int(sum(ticks))} ticks together; at most {MAX_ROWS} are possible"
            )
        return [int(period) for period in ticks]


# Recall (recall.py, guesses.py).

# Kinds of tokens. From VALUES on, each is a block of tokens that set a value of the notes that follow.
OTHER, BAR, PART, ONSET, NOTE, ANNOTATION, PLAN, RETURN, RESTART, VALUES = range(10)

# Levels of guesses. Planned: 0 no plan, 1 a new bar, 2 no aligned source, then five for a named source and five for
# another, by the number of tokens that have agreed. Matched: 0 no match, then by its length.
PLANNED_LEVELS, MATCHED_LEVELS = 13, 8


@dataclass(frozen=True, kw_only=True)
class RecallConfig:
    """The roles of a language's tokens; ranges of ids are [start, stop)."""

    bar: int
    restart: int  # ends what was given ahead: no later bar returns to a bar before it
    parts: tuple[int, int]
    places: tuple[int, int]  # of onsets in the bar
    notes: tuple[tuple[int, int], ...]
    values: tuple[tuple[int, int], ...]  # of notes, such as lengths
    said: int  # ids from here on are annotations, which make no sound
    plan: tuple[tuple[int, int], ...]
    # (token, bars back): 0 for a new bar, −1 for a return to a bar that is not named.
    returns: tuple[tuple[int, int], ...]
    drums: int = -1  # the part that keeps to its patterns (generation/rules.py); −1 for none

    def kinds(self, vocabulary: int) -> np.ndarray:
        """Return the kind of each token, and its value within that kind: (2, V)."""
        kinds = np.zeros((2, vocabulary), np.int64)
        kinds[:, self.said :] = [[ANNOTATION], [0]]
        blocks = ((PART, [self.parts]), (ONSET, [self.places]), (NOTE, self.notes))
        for kind, ranges in blocks:
            for start, stop in ranges:
                kinds[0, start:stop] = kind
                kinds[1, start:stop] = np.arange(stop - start)
        for number, (start, stop) in enumerate(self.values):
            kinds[0, start:stop] = VALUES + number
        for number, (start, stop) in enumerate(self.plan):
            kinds[0, start:stop] = PLAN
            kinds[1, start:stop] = np.arange(stop - start) * len(self.plan) + number
        for token, bars in self.returns:
            kinds[:, token] = RETURN, bars
        kinds[0, self.bar], kinds[0, self.restart] = BAR, RESTART
        return kinds
