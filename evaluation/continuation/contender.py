"""What a model brings to an experiment, and what is asked of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from musicgen.generation.sampling import Sampling
from musicgen.model.performer import Performer
from tokenization.language import Language


@dataclass(frozen=True, kw_only=True)
class Contender:
    """A model under a name that no other one of the experiment has."""

    name: str
    language: Language
    sha256: str  # of its weights; empty for an untrained one
    trained_length: int  # tokens; 0 for an untrained one
    load: Callable[[], Performer]  # can be pickled, so that other processes load it too
    longest_ticks: list[int] | None = None  # of notes in its training data, if it keeps to them

    def plain(self) -> dict[str, Any]:
        """Return what identifies it, as plain data."""
        return {
            "name": self.name,
            "sha256": self.sha256 or None,
            "language": self.language.name,
            "trained_length": self.trained_length or None,
        }


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


def of_one_language(contenders: list[Contender]) -> tuple[list[Contender], list[str]]:
    """Return those that speak the first one's language, and sentences on the others."""
    first = contenders[0]
    kept = [c for c in contenders if c.language.spec() == first.language.spec()]
    told = [
        f"{c.name} speaks {c.language.name}, but {first.name} {first.language.name}: "
        "one table compares models of one language, so it is left out"
        for c in contenders
        if c not in kept
    ]
    return kept, told
