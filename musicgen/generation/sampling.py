"""Sampling: from logits to tokens by temperature, top-k, top-p, min-p and masks, over a batch, in the kernel.

A token is drawn by inverting the cumulative distribution at one uniform number per row, so that each row has its own
stream of randomness. B rows, V vocabulary, K kinds.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from musicgen.kernel.host import Kernel
from tokenization.records import whole_number

# Sampling by kind keeps the probability of each kind of token (pitches, onsets, bar lines) as the model gives it:
#
#     p(t) = P(kind of t) · p(t)^(1 / temperature) / Σ_u p(u)^(1 / temperature),    u of the kind of t
#
# Over a whole vocabulary, a temperature below 1 makes music sparse: the bar line is one token, but a note can be any of
# fifty tokens, each improbable by itself. Top-k, top-p and min-p apply within a kind. Min-p applies among kinds too: a
# kind less than min-p times as probable as the most probable one is left out.


@dataclass(frozen=True, eq=False)
class Kinds:
    """The tokens of a vocabulary grouped by kind."""

    of: np.ndarray  # the kind of each token, (V,)
    # Tokens whose whole kinds are sampled at temperature 1 without limits; a temperature of 0 holds for all kinds.
    untouched: Collection[int] = ()

    def tables(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the number of each token's kind from 0, (V,), and which kinds are untouched, (K,)."""
        numbers = np.unique(self.of, return_inverse=True)[1]
        untouched = np.zeros(int(numbers.max()) + 1, np.int32)
        untouched[numbers[[*self.untouched]]] = 1
        return numbers.astype(np.int32), untouched


@dataclass(frozen=True)
class Control:
    """How users set a number: by a command-line option, and by a slider of the page."""

    help: str
    letter: str
    label: str
    hint: str
    least: float = 0
    most: float = 1  # of the slider; `Sampling` checks the bounds
    step: float = 0.01


MOST_GUIDANCE = 10


def _set_by(default: Any, control: Control) -> Any:
    return field(default=default, metadata={"control": control})


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How freely tokens are chosen; of the limits, top_k applies first, then top_p, then min_p.

    `temperature` 0 takes the most probable token, and 1 is the model itself. `recall` scales how strongly earlier bars
    are recalled, and `guidance` how strictly a requested plan is kept. Commands, endpoints and page take names,
    descriptions and bounds from the fields.
    """

    temperature: float = _set_by(1.0, Control(
        "randomness: 0 always takes the most probable token, 1 samples from the model's own probabilities", "T",
        "Surprise", "0: safe, 1: natural, above: wild", most=2,
    ))  # fmt: skip
    top_p: float = _set_by(1.0, Control(
        "sample from the most probable tokens whose probabilities add up to P", "P",
        "Top-p", "1: no limit", least=0.05,
    ))  # fmt: skip
    top_k: int | None = _set_by(None, Control(
        "sample from the K most probable tokens (default: no limit)", "K",
        "Top-k", "0: no limit", most=200, step=1,
    ))  # fmt: skip
    min_p: float = _set_by(0.0, Control(
        "sample from tokens at least P times as probable as the most probable one; 0: no limit", "P",
        "Min-p", "0: no limit", most=0.5,
    ))  # fmt: skip
    by_kind: bool | None = None  # see `Kinds`; None: as the language prefers
    # Of earlier bars (recall.py), if the model has learned it.
    recall: float = _set_by(1.0, Control(
        "how strongly earlier bars are recalled, 0 (not at all) to 1", "R",
        "How much to repeat", "of earlier bars; 0: nothing on purpose", step=0.05,
    ))  # fmt: skip
    # Classifier-free guidance (Ho and Salimans 2022) towards a requested plan:
    # logits without the plan + guidance · (logits with it − logits without it).
    guidance: float = _set_by(2.0, Control(
        "how closely bars follow the requested plan; 1: no guidance", "G",
        "How closely to follow the plan", "1: as the model would", least=1, most=4, step=0.1,
    ))  # fmt: skip

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise ValueError(
                f"temperature is {self.temperature}; it must be 0 or more; 1 leaves the model as it is"
            )
        if self.top_k is not None and whole_number(self.top_k, "top_k") < 1:
            raise ValueError(f"top_k is {self.top_k}; it must be 1 or more, or None for no limit")
        if not 0 < self.top_p <= 1:
            raise ValueError(
                f"top_p is {self.top_p}; it must be in 0 < top_p ≤ 1; 1 means no limit"
            )
        for name, value, least, most, meaning in (
            ("min_p", self.min_p, 0, 1, "0 means no limit"),
            ("recall", self.recall, 0, 1, "0 turns recall off"),
            ("guidance", self.guidance, 1, MOST_GUIDANCE, "1 turns guidance off"),
        ):
            if not least <= value <= most:
                bounds = f"{least} ≤ {name} ≤ {most}"
                raise ValueError(f"{name} is {value}; it must be in {bounds}; {meaning}")


# The default for music. Without min-p, now and then a token is drawn that never follows such a context in the data, and
# the music after it loses its way. At a temperature of 0.9, songs had too few pitches.
MUSICAL = Sampling(min_p=0.01)


CONTROLS: dict[str, Control] = {
    one.name: one.metadata["control"] for one in fields(Sampling) if one.metadata
}


DRAW = np.dtype(  # the structure `Draw` of draw.h
    [
        *((name, "<u4") for name in ("logits", "unguided", "bias", "kind_of", "untouched")),
        *((name, "<i4") for name in ("vocabulary", "kinds", "top_k")),
        ("guidance", "<f4"),
        *((name, "<f8") for name in ("temperature", "top_p", "min_p", "uniform")),
    ],
    align=True,
)


class Draws:
    """The draws of rows with the same settings."""

    def __init__(
        self, kernel: Kernel, vocabulary: int, sampling: Sampling, kinds: Kinds | None
    ) -> None:
        """Sample over the whole vocabulary, or by kind if the settings say so, which needs kinds."""
        if kinds is None or not sampling.by_kind:
            kinds = Kinds(np.zeros(vocabulary, np.int64))
        self._kernel, self._vocabulary = kernel, vocabulary
        of, untouched = kinds.tables()
        self._spans = [kernel.place(of), kernel.place(untouched)]
        self._same = np.zeros(1, DRAW)
        for name, value in {
            "kind_of": self._spans[0].address,
            "untouched": self._spans[1].address,
            "vocabulary": vocabulary,
            "kinds": len(untouched),
            "top_k": sampling.top_k or 0,
            "guidance": sampling.guidance - 1,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "min_p": sampling.min_p,
        }.items():
            self._same[name] = value

    def draw(
        self, logits: Sequence[int], unguided: Sequence[int], bias: np.ndarray, uniforms: np.ndarray,
        limits: np.ndarray | None = None,
    ) -> np.ndarray:  # fmt: skip
        """Draw a token for each row: (B,) addresses of logits, (B, V) of bias and (B,) in [0, 1) → (B,).

        `unguided` are the addresses of the twins' logits, 0 for none. The bias is −∞ for what cannot come next.
        `limits` are factors of min-p, (B,). The token is −1 if nothing can come, and −2 if logits are not finite.
        """
        count, placed = len(logits), self._kernel.place(bias.astype(np.float32, copy=False))
        draws = np.repeat(self._same, count)
        draws["logits"], draws["unguided"], draws["uniform"] = logits, unguided, uniforms
        if limits is not None:
            draws["min_p"] *= limits
        draws["bias"] = placed.address + 4 * self._vocabulary * np.arange(count)
        given, found = self._kernel.place(draws), self._kernel.take(4 * count)
        self._kernel.call("draw", count, given.address, found.address)
        return found.read(np.int32, count).astype(np.int64)
