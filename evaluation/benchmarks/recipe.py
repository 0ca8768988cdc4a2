"""A benchmark's recipe: its model, its training and the size of its data, from the YAML file of its task in `recipes`.

A recipe named TASK-short is for two cores and our own; TASK is of the size of the papers; TASK-PAPER has what a paper's
tables print. Each says what is printed and what is our own choice.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from evaluation.benchmarks.pathfinder import Paths
from evaluation.benchmarks.training import Optimiser, Pool
from evaluation.benchmarks.variants import Variant, variant, with_choice
from tokenization.records import from_plain, suggestion, yaml_of

FOLDER = Path(__file__).parent / "recipes"
# The recipe of a task, where it is not named as the task.
FULL = {"language": "language-flt", "music": "music-short"}


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """How much data, and of what size; a task reads those that it knows."""

    train: int = 1000  # examples that are made; from users' files all are read
    test: int = 0  # examples that are made; of users' files so many at most, or 0: all
    shortest: int = 500  # tokens of an expression
    longest: int = 2000  # tokens, or bytes, of a sequence
    size: int = 32  # of a picture, or points of a cloud
    paths: Paths = field(default_factory=Paths)  # of Pathfinder
    patch: int = 4  # pixels
    unit: Literal["bytes", "words"] = "bytes"  # of text
    length: int = 512  # of stretches of text to train on
    past: int = 4  # text is read up to so many times that length
    counted: int | None = None  # perplexity of the last so many positions alone, as a paper has it
    sequences: int = 32  # of text, to measure with


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """All that determines a benchmark but its data, its encodings and its seed."""

    task: str
    about: str  # where it comes from, and what is our own
    model: dict[str, Any]  # values of ModelConfig
    optimiser: dict[str, Any]  # values of Optimiser; `epochs` may stand for steps
    pool: Pool = "mean"  # what a classifier decides by
    data: Sizes = field(default_factory=Sizes)
    encodings: tuple[str, ...] = ("none", "absolute", "rope", "sine_spe", "conv_spe")
    encoding: Any = field(default_factory=dict)  # values of encodings: by name, or of `all`

    def variant(self, name: str, sizes: tuple[int, ...] | None) -> Variant:
        """Return what the recipe makes of an encoding, for a grid of those sizes where there is one."""
        grid = {} if sizes is None else {"sizes": sizes}
        chosen, choice = variant(name)
        own = self.encoding.get(name.partition(":")[0], {})
        return with_choice(chosen, {**grid, **self.encoding.get("all", {})}, {**own, **choice})

    def training(self, examples: int) -> Optimiser:
        """Return the settings of a training on so many examples."""
        values = dict(self.optimiser)
        epochs = values.pop("epochs", None)
        if epochs is not None and "steps" not in values:
            values["steps"] = max(1, round(epochs * examples / values["batch"]))
        return from_plain(Optimiser, values, "optimiser")


def names() -> list[str]:
    """Return the names of all recipes."""
    return sorted(name for file in FOLDER.iterdir() for name in yaml_of(file))


def recipe(name: str) -> Recipe:
    """Read a recipe by name."""
    if name not in names():
        raise ValueError(f"there is no recipe {name!r}{suggestion(name, names())}")
    task = name.partition("-")[0]
    values = {"task": task, **yaml_of(FOLDER / f"{task}.yaml")[name]}
    return from_plain(Recipe, values, f"recipe {name}")
