"""How prompts are continued in the groove experiment."""

from __future__ import annotations

from dataclasses import dataclass

from musicgen.generation.sampling import Sampling


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
                raise ValueError(f"{name} is {getattr(self, name)}; it must be 1 or more")
        if self.seed < 0:
            raise ValueError(f"seed is {self.seed}; it must be 0 or more")
        Sampling(temperature=self.temperature)  # which says what is wrong with it
