"""What single changes of the training recipe are worth: loss beside the same without it, and what a step costs.

OMP_NUM_THREADS=1 python -m tests.tools.measure.recipes --data data/groove-2 --seeds 3 -o build/recipes

One small model of grooves is trained as `plain` says, then with one change at a time, from the same first weights and
over the same music, seed by seed. Run again, it goes on where it was interrupted.
"""

import argparse
import json
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from lightning_fabric import Fabric

from musicgen.model.performer import Performer
from tests.tools.measure.tried import (
    DECAYS,
    Averages,
    Quiet,
    gate_heads,
    mix_values,
    zero_branches,
)
from tokenization.wording import markdown
from training import loop
from training.config import RunConfig, find, read
from training.data.batches import Batches, Part
from training.devices import Sealed, start_fabric
from training.loop import MODEL, Run, StepSums
from training.results.comparison import Compared, repeated
from training.validation import Measured, Validation

TRAINED, MEASURED = 256, 1024  # tokens of a crop, and up to where the loss is measured
DEPTH = 4  # layers; the shallow model has half of them
TURNS = 20  # of steps of each recipe one after the other, of which the median is the cost
PLAIN = (
    "model.preset=tiny", f"model.layers={DEPTH}", "model.width=64", "model.feedforward=256",
    "model.features={name: relu, features: 64}", "model.chunk=64",
    "model.dropout=0", f"data.length={TRAINED}", "data.batch=1",
    "device.accelerator=cpu", "optimiser.learning_rate=3e-3", "optimiser.warmup=30",
    "validation.sequences=2", "validation.length=272", "validation.samples=0", "keep=1",
)  # fmt: skip
CARRIED = ("data.windows=4",)
LONG = "model.metre={bars: [1, 1, 2, 4, 8, 16], remembers: [2, 8, 8, 8, 8, 8]}"


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What is different from `plain`."""

    changes: tuple[str, ...] = ()
    model: Callable[[Performer], object] = lambda model: None  # done to the first model
    beside: str = "plain"


RECIPES = {
    "plain": Recipe(),
    "muon": Recipe(changes=("optimiser.method=muon",)),
    "carried": Recipe(changes=CARRIED),
    "carried-16-bars": Recipe(changes=(*CARRIED, LONG), beside="carried"),
    "grown": Recipe(),
    "shallow": Recipe(changes=(f"model.layers={DEPTH // 2}",)),
    "zero-branches": Recipe(model=zero_branches),
    "value-residual": Recipe(model=mix_values),
    "head-gate": Recipe(model=gate_heads),
    "decay-dropout": Recipe(changes=("optimiser.weight_decay=0.1", "model.dropout=0.1")),
    "twice-the-rate": Recipe(changes=("optimiser.learning_rate=6e-3",)),
}


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """All runs of one command."""

    data: str
    steps: int
    changes: tuple[str, ...]  # of plain
    folder: Path
    fabric: Fabric

    def config(self, name: str, seed: int, steps: int) -> RunConfig:
        """Return a recipe's run."""
        own = [f"data.folder={self.data}", f"optimiser.steps={steps}", f"seed={seed}"]
        own.append(f"run={self.folder / name}-{seed}")
        changes = (*PLAIN, *self.changes, *own, *RECIPES[name].changes)
        return read(find("groove-none-metre"), changes)

    def run(self, name: str, config: RunConfig) -> Run:
        """Return a run at its beginning."""

        def first_model(config: RunConfig, language: dict[str, Any]) -> Performer:
            model = original(config, language)
            RECIPES[name].model(model)
            return model

        original = loop.first_model
        batches = Batches(config.data, config.seed)
        with patch.object(loop, "first_model", first_model):
            return Run(config, self.fabric, batches)

    def costs(self) -> dict[str, list[float]]:
        """Return the processor's milliseconds of steps of each recipe, which take turns."""
        path = self.folder / "costs.json"
        if not path.exists():
            runs = {name: self.run(name, self.config(name, 1, 100)) for name in RECIPES}
            parts = {name: _parts(run.batches) for name, run in runs.items()}
            found: dict[str, list[float]] = {name: [] for name in runs}
            for turn in range(TURNS + 1):
                for name, run in runs.items():
                    part = next(parts[name])
                    began = time.process_time()
                    run._learn(part, StepSums(self.fabric.device))
                    if turn:
                        found[name].append(1000 * (time.process_time() - began))
            path.write_text(json.dumps(found))
        return json.loads(path.read_text())

    def measure(self, name: str, seed: int) -> None:
        """Train a recipe from a seed, unless it is done."""
        if self._result(name, seed).exists():
            return
        began = time.process_time()
        config = self.config(name, seed, self.steps)
        if name in ("grown", "shallow"):
            config = self._of_equal_cost(name, config, seed)
        shutil.rmtree(config.run, ignore_errors=True)
        run = self.run(name, config)
        averages = Averages(run.model)
        run.fit(averages)
        seconds = time.process_time() - began
        if name == "plain":
            last = [weight.clone() for weight in averages.weights]
            for decay, weights in averages.averages.items():
                averages.put_back(weights)
                self._store(f"averaged-{decay}", seed, run, seconds)
            averages.put_back(last)
        self._store(name, seed, run, seconds)
        shutil.rmtree(config.run)

    def _of_equal_cost(self, name: str, config: RunConfig, seed: int) -> RunConfig:
        """Return the run of the shallow model for as long as the plain one, or what grows of one of half of that."""
        costs = {key: float(np.median(times)) for key, times in self.costs().items()}
        steps = round(self.steps * costs["plain"] / costs["shallow"])
        if name == "shallow":
            return replace(config, optimiser=replace(config.optimiser, steps=steps))
        first = self.config("shallow", seed + 100, steps // 2)  # which learns from other music
        shutil.rmtree(first.run, ignore_errors=True)
        self.run("shallow", first).fit(Quiet())
        return replace(
            config,
            start=str(Path(first.run) / MODEL),
            model={"layers": DEPTH},
            optimiser=replace(config.optimiser, steps=self.steps // 2),
        )

    def _store(self, name: str, seed: int, run: Run, seconds: float) -> None:
        validation = {"length": MEASURED, "sequences": 16, "batch": 2}
        config = self.config("plain", 1, self.steps)
        config = replace(config, validation=replace(config.validation, **validation))
        run.model.eval()
        with torch.no_grad():
            measured: Measured = Validation(config, Batches(config.data, 1), run.model).measure(
                self.fabric, run.module, Sealed(None)
            )
        values = {"inside": measured.inside, "beyond": measured.beyond, "seconds": seconds}
        self._result(name, seed).write_text(json.dumps({**values, "rows": measured.rows}))
        print(f"{name}, seed {seed}: {measured.inside:.4f} within, {measured.beyond:.4f} past, "
              f"{seconds:.0f} s", flush=True)  # fmt: skip

    def _result(self, name: str, seed: int) -> Path:
        return self.folder / f"{name}-{seed}.json"

    def table(self, seeds: int) -> str:
        """Return the table of what is there."""
        costs = self.costs()
        names = [*RECIPES, *(f"averaged-{decay}" for decay in DECAYS)]
        found = {name: [self._compared(name, seed) for seed in seeds_of(seeds)] for name in names}
        against = {n: RECIPES[n].beside if n in RECIPES else "plain" for n in names if n != "plain"}
        lines = [
            [
                "recipe",
                "within",
                "past",
                "change within",
                "change past",
                "n",
                "ms a step",
                "s a run",
            ]
        ]
        for row in repeated(found, against):
            times = np.array(costs.get(row.name, costs["plain"]))
            ratio = np.median(times / np.array(costs["plain"]))
            lines.append([
                row.name, _of(row.inside, row.inside_interval), _of(row.beyond, row.beyond_interval),
                _of(row.change, row.change_interval, "+"),
                _of(row.change_beyond, row.change_beyond_interval, "+"),
                str(row.seeds), f"{np.median(times):.0f} ({ratio:.2f})", self._seconds(row.name),
            ])  # fmt: skip
        return markdown(lines)

    def _seconds(self, name: str) -> str:
        """Return the processor's seconds of a run, on average over those that there are."""
        paths = self.folder.glob(f"{name}-[0-9].json")
        found = [json.loads(path.read_text())["seconds"] for path in paths]
        return f"{np.mean(found):.0f}" if found else ""

    def _compared(self, name: str, seed: int) -> Compared:
        path = self._result(name, seed)
        if not path.exists():
            return Compared(name=name, failed="not yet")
        values = json.loads(path.read_text())
        return Compared(name=name, inside=values["inside"], beyond=values["beyond"])


def _parts(batches: Batches) -> Iterator[Part]:
    """Return what one step after the other learns from."""
    step = 0
    for number in count():
        for part in batches.parts(number, step):
            yield part
            step += 1


def seeds_of(number: int) -> range:
    """Return the seeds."""
    return range(1, number + 1)


def _of(mean: float | None, interval: float | None, sign: str = "") -> str:
    if mean is None:
        return ""
    return f"{mean:{sign}.3f}" + ("" if interval is None else f" ± {interval:.3f}")


def main() -> None:
    """Train what is missing, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("recipes", nargs="*", help=f"of {', '.join(RECIPES)} (default: all)")
    parser.add_argument("--data", required=True, help="a prepared set of groove-2")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=500, help=f"of plain, of {TRAINED} tokens")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", dest="changes",
        help="change a value of plain; may be repeated; wants a folder of its own",
    )  # fmt: skip
    parser.add_argument("-o", "--output", type=Path, default=Path("build/recipes"))
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    fabric = start_fabric(read(find("groove-none-metre"), [*PLAIN, *arguments.changes]).device)
    experiment = Experiment(
        data=arguments.data,
        steps=arguments.steps,
        changes=tuple(arguments.changes),
        folder=arguments.output,
        fabric=fabric,
    )
    experiment.costs()
    if not arguments.seeds:
        return
    for seed in seeds_of(arguments.seeds):
        for name in arguments.recipes or RECIPES:
            experiment.measure(name, seed)
    print(experiment.table(arguments.seeds))


if __name__ == "__main__":
    main()
