"""The repetition settings of a model, fitted to held-out pieces when it is published, and stored in its card."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from musicgen.generation.recall.circling import Limits, checked_limits
from musicgen.generation.recall.contrast import Contrast
from musicgen.generation.recall.phrases import Phrasing
from musicgen.generation.recall.trust import checked_weights
from tokenization.records import value_of


@dataclass(frozen=True, kw_only=True)
class Habits:
    """How pieces return to what they said."""

    weights: tuple[float, ...]  # by which what is recalled is trusted (trust.py)
    limits: Limits = ()  # how far nine pieces in ten go round in circles (circling.py)
    phrasing: Phrasing | None = None  # how often they go back to a phrase (phrases.py)
    contrast: Contrast | None = None  # how differently high new ones are (contrast.py)

    def facts(self) -> dict[str, Any]:
        """Return what a card says."""
        phrasing = self.phrasing and {**asdict(self.phrasing), "back": [*self.phrasing.back]}
        return {
            "recall": [*self.weights],
            "circling": [*self.limits] or None,
            "phrasing": phrasing,
            "contrast": self.contrast and asdict(self.contrast),
        }


def read_habits(facts: Mapping[str, Any], where: str) -> Habits | None:
    """Return what a card says, or say what is wrong with it; None where it says nothing."""
    weights = checked_weights(facts.get("recall"), f"{where}: recall")
    limits = checked_limits(facts.get("circling"), f"{where}: circling")
    phrasing = value_of(Phrasing | None, facts.get("phrasing"), f"{where}: phrasing")
    contrast = value_of(Contrast | None, facts.get("contrast"), f"{where}: contrast")
    if weights is None:
        return None
    return Habits(weights=weights, limits=limits, phrasing=phrasing, contrast=contrast)
