"""How prompts are continued in an experiment, and by which models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from musicgen.generation.sampling import Sampling
from musicgen.playable import Playable


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How prompts are continued; the defaults are those of the paper (section 3.3 and appendix C.2)."""

    prompt_bars: int = 2
    tokens: int = 1024  # of prompt and continuation together
    temperature: float = 0.6
    samples: int = 3
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("prompt_bars", "tokens", "samples"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it is 1 or more")
        if self.seed < 0:
            raise ValueError(f"seed is {self.seed}; it is 0 or more")
        Sampling(temperature=self.temperature)  # which says what is wrong with it

    def plain(self) -> dict[str, Any]:
        """Return it as plain data."""
        return asdict(self)


def of_one_language(models: Sequence[Playable]) -> tuple[list[Playable], list[str]]:
    """Return those of the first one's language, and sentences on the others."""
    first = models[0]
    able = [model for model in models if model.language.spec() == first.language.spec()]
    told = [
        f"{model.name} speaks {model.language.name}, but {first.name} {first.language.name}: "
        "one table compares models of one language, so it is left out"
        for model in models
        if model not in able
    ]
    return able, told
