"""From a model's configuration and tensors to the tables of the kernel.

C width, L layers, H heads, D head width, W encoded width, M features, S slots of noise, I and O widths of a matrix.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from musicgen.checkpoint import SCALE, check_shape, does_not_belong, quantised
from musicgen.config import ModelConfig
from musicgen.kernel.host import Kernel, Span
from musicgen.parts import (
    LARGEST_NORM,
    LARGEST_PROJECTION,
    MATCHED_LEVELS,
    PERIODS,
    PLANNED_LEVELS,
    musical_harmonics,
)

Tensors = Mapping[str, np.ndarray]

FEATURE_MAPS = {"relu": 0, "elu": 1, "favor": 2}
ACTIVATIONS = {"relu": 0, "gelu": 3}
POSITIONS = {"none": 0, "sine_spe": 1, "conv_spe": 2, "rope": 3, "absolute": 4, "learned": 5}
MOST_TOKENS = 1 << 14  # that the draw has room for
ITEMS = 32  # of a step; more are taken in several
RING = 64  # positions of white noise beyond the taps: at least ITEMS
LARGEST_SUM = (1 << 31) - 1
LARGEST_CODE = (1 << 15) - 1


def lacking(config: ModelConfig) -> str:
    """Return the part of a model that the kernel does not know; empty if it can play the model."""
    position = config.position
    if config.attention != "linear":
        return f"{config.attention} attention"
    if config.rank:
        return "changes of low rank that are not merged"
    if config.features_name not in FEATURE_MAPS:
        return f"the features {config.features_name}"
    if config.position_name not in POSITIONS:
        return f"the encoding {config.position_name}"
    if getattr(position, "orthogonal", False):
        return "orthogonal noise"
    widths = (
        config.width,
        config.head_width,
        encoded_width(config),
        columns(config),
        features(config),
    )
    if any(width % 4 for width in (*widths, config.feedforward)):
        return "a width that four does not divide"
    if config.vocabulary_size > MOST_TOKENS:
        return f"a vocabulary of more than {MOST_TOKENS:,} tokens"
    return ""


def encoded_width(config: ModelConfig) -> int:
    """Return the width of encoded queries and keys, W."""
    return getattr(config.position, "realisations", config.head_width)


def features(config: ModelConfig) -> int:
    """Return the number of features, M."""
    return config.features.features or encoded_width(config)


def columns(config: ModelConfig) -> int:
    """Return the number of columns of the random projection, 0 for none."""
    count = config.features.features or 0
    return count // 2 if config.features_name == "favor" else count


class Packing:
    """The fields of the kernel's model, in the order of the structure in kernel.c, and the spans that they name."""

    def __init__(self, kernel: Kernel, config: ModelConfig, tensors: Tensors, path: Path) -> None:
        """Place all tensors; raises ValueError unless they are those of the model. `path` is their file, for errors."""
        self.fields: dict[str, int | np.float32] = {}
        self.spans: list[Span] = []
        self._kernel, self._config, self._tensors, self._path = kernel, config, tensors, path
        self._used: set[str] = set()
        self._sizes()
        self._weights()
        self._time()
        self._position()
        self._room()
        for name in sorted(tensors.keys() - self._used):
            raise ValueError(does_not_belong(path, "has a superfluous", name))

    def words(self) -> np.ndarray:
        """Return the fields as words of 32 bits."""
        return np.array(
            [
                int(np.float32(value).view(np.int32)) if isinstance(value, np.floating) else value
                for value in self.fields.values()
            ],
            np.int64,
        ).astype(np.int32)

    def _set(self, **fields: int | np.float32) -> None:
        self.fields.update(fields)

    def _place(self, array: np.ndarray | None, dtype: Any) -> int:
        """Place an array in the kernel's memory and return its address, 0 for none."""
        if array is None:
            return 0
        self.spans.append(self._kernel.place(np.asarray(array, dtype)))
        return self.spans[-1].address

    def _tensor(self, name: str, *shape: int) -> np.ndarray:
        """Return a tensor of the file, which must be there in this shape."""
        if name not in self._tensors:
            raise ValueError(does_not_belong(self._path, "lacks", name))
        check_shape(self._path, name, self._tensors[name], shape)
        self._used.add(name)
        return self._tensors[name]

    def _sizes(self) -> None:
        config = self._config
        width, count = encoded_width(config), features(config)
        self._set(
            vocabulary=config.vocabulary_size, layers=config.layers, width=config.width, heads=config.heads,
            head_width=config.head_width, encoded=width, columns=columns(config), features=count,
            pre_norm=int(config.norm == "pre"), activation=ACTIVATIONS[config.activation],
            feature_map=FEATURE_MAPS[config.features_name],
            floor=np.float32(getattr(config.features, "floor", 0)), epsilon=np.float32(1e-5),
            root_width=np.float32(math.sqrt(config.width)),
            favor_bound=np.float32(LARGEST_NORM * math.sqrt(math.sqrt(width))),
            favor_norm=np.float32(LARGEST_NORM), favor_projection=np.float32(LARGEST_PROJECTION),
            favor_offset=np.float32(-self._kernel.logarithms(np.array([float(count)]))[0] / 2),
        )  # fmt: skip

    def _weights(self) -> None:
        config, layers = self._config, range(self._config.layers)
        blocks = [f"blocks.{layer}." for layer in layers]
        metric = ["attention.metre.qkv"] if config.metre is not None else []
        width, metric_width, metric_inputs = config.width, 0, []
        if (metre := config.metre) is not None:
            metric_width = len(metre.bars) * config.head_width
            metric_inputs = [len(metre.bars) * (2 * metre.features + config.head_width)]
        of_block = {
            "qkv": (["attention.qkv", *metric], [3 * width, *metric_inputs], width),
            "output": (["attention.output"], [width], width + metric_width),
            "inner": (["feedforward.inner"], [config.feedforward], width),
            "outer": (["feedforward.output"], [width], config.feedforward),
        }
        for field, (names, outputs, inputs) in of_block.items():
            each = [[block + name for name in names] for block in blocks]
            self._matrices(field, each, outputs, inputs, bias=True)
        head = "embedding" if config.tie_embeddings else "head"
        self._matrices("head", [[head]], [config.vocabulary_size], width, bias=False)
        norms = [
            self._tensor(f"{block}{norm}.{part}", width)
            for block in blocks
            for norm in ("attention_norm", "feedforward_norm")
            for part in ("weight", "bias")
        ]
        if config.norm == "pre":
            norms += [self._tensor(f"norm.{part}", width) for part in ("weight", "bias")]
        omega = None
        if count := columns(config):
            shape = encoded_width(config), count
            omega = np.stack(
                [self._tensor(f"{one}attention.features.omega", *shape) for one in blocks]
            )
            if config.features_name == "favor":
                omega = omega / np.float32(LARGEST_PROJECTION / LARGEST_NORM)
        self._set(
            norms=self._place(np.concatenate(norms), np.float32),
            omega=self._place(omega, np.float32),
            decay=self._place(self._decays(), np.float32),
        )
        vocabulary, levels = config.vocabulary_size, PLANNED_LEVELS + MATCHED_LEVELS
        recalls = {"planned": vocabulary, "matched": vocabulary, "trust": levels, "level": levels}
        rows = {
            "embedding": ("embedding", vocabulary),
            "goals": ("goals.vectors", len(config.goals or ())),
        }
        for name, count in recalls.items():
            rows[name] = f"recall.{name}", 0 if config.recall is None else count
        for field, (name, count) in rows.items():
            codes, scale = self._codes(name, count, width) if count else (None, None)
            self._set(**{f"{field}_codes": self._place(codes, np.int8)})
            self._set(**{f"{field}_scale": self._place(scale, np.float32)})
        self._set(planned_levels=PLANNED_LEVELS)

    def _decays(self) -> np.ndarray:
        """Return the decay 1 − 1/h of each head, for horizons h from the shortest to the longest (position/base.py)."""
        config = self._config
        if config.horizons is None:
            return np.ones(config.heads)
        first, last = self._kernel.logarithms(np.array(config.horizons, np.float64))
        places = np.arange(config.heads) / max(1, config.heads - 1)
        return 1 - self._kernel.exponentials(-(first + (last - first) * places))

    def _codes(self, name: str, outputs: int, inputs: int) -> tuple[np.ndarray, np.ndarray]:
        """Return a matrix as 8-bit codes and a scale for each row; floats are rounded."""
        weight = self._tensor(f"{name}.weight", outputs, inputs)
        if weight.dtype == np.int8:
            return weight, self._tensor(f"{name}.weight{SCALE}", outputs)
        return quantised(weight)

    def _matrices(
        self, field: str, layers: Sequence[Sequence[str]], outputs: Sequence[int], inputs: int, *, bias: bool
    ) -> None:  # fmt: skip
        """Place a linear layer of all layers, those of several names one after the other."""
        more, padding = -sum(outputs) % 4, -inputs % 8
        packed, scales, biases = [], [], []
        for names in layers:
            each = [*zip(names, outputs, strict=True)]
            found = [self._codes(name, count, inputs) for name, count in each]
            codes, scale = (np.concatenate(part) for part in zip(*found, strict=True))
            panels = np.pad(codes, ((0, more), (0, padding)))
            packed.append(panels.reshape(len(panels) // 4, 4, -1, 8).swapaxes(1, 2))
            scales.append(np.pad(scale, (0, more)))
            added = [
                self._tensor(f"{n}.bias", count) if bias else np.zeros(count) for n, count in each
            ]
            biases.append(np.pad(np.concatenate(added), (0, more)))
        given, inputs = inputs, inputs + padding
        most = min(LARGEST_CODE, LARGEST_SUM // (127 * inputs))
        self._set(**{
            f"{field}_codes": self._place(np.stack(packed), np.int8),
            f"{field}_scale": self._place(np.stack(scales), np.float32),
            f"{field}_bias": self._place(np.stack(biases), np.float32),
            f"{field}_given": given, f"{field}_inputs": inputs, f"{field}_outputs": sum(outputs) + more,
            f"{field}_most": np.float32(most),
        })  # fmt: skip

    def _time(self) -> None:
        config, clock, metre = self._config, self._config.clock, self._config.metre
        needed = clock is not None and (metre or config.goals or config.position.musical)
        steps, tick = np.zeros(config.vocabulary_size), np.full(config.vocabulary_size, -1)
        goals = np.zeros(config.vocabulary_size)
        if clock is not None:
            for token, on, to in clock.moves:
                steps[token], tick[token] = on, to
        for number, token in enumerate(config.goals or (), 1):
            goals[token] = number
        self._set(
            step_ticks=clock.step_ticks if needed and clock is not None else 0,
            steps=self._place(steps, np.int32),
            tick=self._place(tick, np.int32),
            goal_of=self._place(goals, np.int32),
        )
        periods = metre.periods(clock) if metre is not None and clock is not None else []
        ratios = [] if metre is None else [1 - 1 / remembers for remembers in metre.remembers]
        count = 0 if metre is None else metre.features
        self._set(
            metric_heads=len(periods),
            metric_features=count,
            metric_rows=sum(periods),
            period=self._place(np.array(periods), np.int32),
            first_row=self._place(np.cumsum([0, *periods])[:-1], np.int32),
            ratio=self._place(np.array(ratios, np.float32), np.float64),  # rounded as in metre.py
            free_blocks=0,
            zeros=self._place(np.zeros(count * (config.head_width + 1)), np.float32),
            free_count=0,
        )

    def _position(self) -> None:
        config, position = self._config, self._config.position
        name, heads, width = config.position_name, config.heads, config.head_width
        slots, waves, taps, gated = 1, 0, 0, False
        frequencies, offsets, gains, mix, scale = None, None, None, None, 0.0
        musical = position.musical
        if name in ("sine_spe", "conv_spe"):
            slots = 1 if position.shared else config.layers
            gated = position.gated
            # (DR)^-¼, by roots that are the same everywhere
            scale = 1 / math.sqrt(math.sqrt(config.head_width * position.realisations))
            if gated:
                odds = self._kernel.exponentials(
                    self._tensor("position.gates", config.layers, heads, width).astype(np.float64)
                )
                # √(1 − δ) and √δ of δ = sigmoid(gate): (L, 2, H, D)
                mix = np.stack([np.sqrt(1 / (1 + odds)), np.sqrt(odds / (1 + odds))], 1)
        if name == "sine_spe":
            waves = position.sines
            shape = slots, heads, width, waves
            frequencies = self._frequencies(shape, musical)
            offsets = self._tensor("position.offsets", *shape).astype(np.float64) / (2 * math.pi)
            raw = self._tensor("position.raw_gains", *shape).astype(np.float64)
            softplus = np.where(
                raw > 20,
                raw,
                self._kernel.logarithms(1 + self._kernel.exponentials(np.minimum(raw, 20))),
            )
            gains = softplus * (scale / math.sqrt(2 * waves))
        elif name == "conv_spe":
            taps = position.taps
            gains = self._tensor("position.filters", slots, 2, heads, width, taps) * np.float32(
                scale
            )
        elif name == "rope" and musical:
            frequencies = self._frequencies((heads, width // 2), musical)
        elif name in ("rope", "absolute"):
            count = config.head_width // 2 if name == "rope" else (config.width + 1) // 2
            whole = config.head_width if name == "rope" else config.width
            exponents = np.arange(count) * (-2 / whole)
            of_base = self._kernel.logarithms(np.array([float(position.base)]))[0]
            frequencies = self._kernel.exponentials(exponents * of_base) / (2 * math.pi)
        elif name == "learned":
            gains = self._tensor("position.table", position.max_length, config.width)
        self._set(
            position=POSITIONS[name], musical=int(musical), slots=slots, gated=int(gated), waves=waves,
            taps=taps, ring=taps + RING,
            frequencies=self._place(frequencies, np.float64),
            offsets=self._place(offsets, np.float64),
            gains=self._place(gains, np.float32),
            mix=self._place(mix, np.float32),
            noise_scale=np.float32(scale),
        )  # fmt: skip

    def _room(self) -> None:
        """Take room for the items of a step."""
        config, f = self._config, self.fields
        metric = ITEMS * int(f["metric_heads"])
        by_head = 2 * config.heads * config.head_width
        code = {
            "rope": by_head,
            "sine_spe": by_head * f["encoded"],
            "conv_spe": by_head * f["encoded"],
        }
        inputs = max(
            int(f[f"{name}_inputs"]) for name in ("qkv", "output", "inner", "outer", "head")
        )
        floats = {
            "x": config.width,
            "wide": max(int(f["qkv_outputs"]), config.width),
            "found": max(int(f["output_given"]), config.width),
            "hidden": f["inner_outputs"],
            "logits": f["head_outputs"],
            "code": code.get(config.position_name, 0),
        }
        for name, size in floats.items():
            self._set(**{name: self._place(np.zeros(ITEMS * int(size)), np.float32)})
        self._set(
            activations=self._place(np.zeros(ITEMS * inputs), np.int16),
            activation_scale=self._place(np.zeros(ITEMS), np.float32),
            key_block=self._place(np.zeros(metric), np.int32),
            query_block=self._place(np.zeros(metric), np.int32),
            key_decay=self._place(np.zeros(metric), np.float32),
        )

    def _frequencies(self, shape: tuple[int, ...], musical: bool) -> np.ndarray:
        """Return the frequencies of sines in cycles per token or tick."""
        if musical:
            clock, offsets = self._config.clock, self._tensor("position.learned.offsets", *shape)
            assert clock is not None, "ModelConfig checks this"
            return musical_frequencies(clock.bar_ticks, offsets, self._config.heads)
        raw = self._tensor("position.raw_frequencies", *shape).astype(np.float64)
        return 1 / (1 + self._kernel.exponentials(-raw)) / 2


def musical_frequencies(bar: int, offsets: np.ndarray, heads: int) -> np.ndarray:
    """Return the frequencies of encodings in musical time, (…, H, *waves), in cycles per tick (position/base.py)."""
    waves = offsets.shape[-2:] if offsets.ndim == 4 else offsets.shape[-1:]
    harmonics, period = musical_harmonics(bar, heads, math.prod(waves))
    first = (harmonics / period[:, None]).reshape(heads, *waves)
    return first + offsets.astype(np.float64) / (max(PERIODS) * bar)
