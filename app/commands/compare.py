"""`musicgen compare`: train several configurations on one budget, one after the other, and tabulate the results."""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app import output
from app.commands.train import train
from app.options import add_scheduler, check_counts, default_folder, resumed_by, scheduled

if TYPE_CHECKING:
    from training.config import RunConfig

PRESET = "tiny"  # unless --set names another
EXAMPLES = """\
examples:
  musicgen compare groove-absolute groove-sine-spe groove-rope --steps 2000 -o runs/groove
  musicgen compare 'pop-piano-*' --set model.preset=small --set data.length=512
  musicgen compare groove-none groove-sine-spe groove-rope --seeds 3 -o runs/seeds
  # the paper's claim and its control
  musicgen compare 'headline/*' --seeds 3 -o runs/headline

An interrupted comparison resumes when it is run again with the same -o; finished runs are not repeated. With several
seeds, the numbers are means with 95 % intervals (Student's t). If one configuration has no encoding of position, the
table also has the change of the others relative to it: the differences between runs with the same seed, which see the
same music in the same order.
"""


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "configs", metavar="CONFIG", nargs="+",
        help="YAML files, or names of shipped configurations, also with *",
    )  # fmt: skip
    parser.add_argument(
        "-o", "--output", type=Path, metavar="DIR",
        help="folder for all runs, to resume from (default: compare, or compare-2, … if that exists)",
    )  # fmt: skip
    parser.add_argument("--steps", type=int, default=2000, metavar="N", help="steps of each run")
    parser.add_argument(
        "--seconds", type=float, metavar="N", help="processor time of each run, instead of steps"
    )
    parser.add_argument(
        "--seeds",
        type=int,
        default=1,
        metavar="N",
        help="the number of seeds to train each configuration with",
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", dest="changes",
        help="change a value in every configuration; repeatable",
    )  # fmt: skip
    add_scheduler(parser)
    output.add_json(parser)


def run(arguments: argparse.Namespace) -> None:
    """Train all runs, and write the table."""
    from tokenization.whole_file import make_folder
    from tokenization.workers import Failed, as_done
    from training.comparison import (
        baseline_of,
        comparison_table,
        draw_runs,
        ranked,
        write_comparison,
    )

    check_counts(arguments, "seeds")
    arguments.output = arguments.output or default_folder("compare")
    configs = configured(arguments)
    several = arguments.seeds > 1
    make_folder(arguments.output, "give another one with -o")
    output.remark([resumed_by(arguments.output)])
    baseline = baseline_of(configs)
    found: list[dict[str, Any]] = []
    succeeded: dict[str, list[Path]] = defaultdict(list)  # name → folders of runs
    rows: list[dict[str, Any]] = []
    runs = [(name, run) for name in configs for run in _seeded(configs[name], arguments.seeds)]
    runs.sort(key=lambda named: named[1].seed)  # complete one seed before the next, for the pairs

    def announced() -> Iterator[RunConfig]:
        for number, (name, config) in enumerate(runs, 1):
            seed = f", seed {config.seed}" if several else ""
            output.remark([f"{number} of {len(runs)}: {name}{seed}"])
            yield config

    with scheduled(arguments.scheduler) as executor:
        trained = partial(_trained, seconds=arguments.seconds)
        for index, results in as_done(trained, announced(), workers=executor or 0):
            name, config = runs[index]
            if isinstance(results, Failed):
                results = {"failed": results.reason}
            if "failed" in results:
                output.remark([f"{name} failed: {results['failed']}"])
            else:
                succeeded[name].append(Path(config.run))
            found.append({"name": name, "seed": config.seed, **results})
            rows = ranked(found, baseline)
            # After every run, in case the next is interrupted.
            write_comparison(rows, arguments.output)
    if succeeded:
        picture = arguments.output / "comparison.png"
        draw_runs(succeeded, picture, runs[0][1].data.length, by_time=True)
    output.write_result(arguments.json, rows, output.table(comparison_table(rows)))


def configured(arguments: argparse.Namespace) -> dict[str, RunConfig]:
    """Return all configurations by name, with their runs in the output folder; all are checked before any trains."""
    from training.config import CONFIG, find, read
    from training.data.shards import Shards
    from training.devices import with_precision
    from training.initial_model import language_of, model_config
    from training.run_folder import differences

    changes = [f"optimiser.steps={arguments.steps}", *arguments.changes]
    configs, paths = {}, {}
    for path in [find(name) for pattern in arguments.configs for name in _names(pattern)]:
        is_run = path.name == CONFIG
        name = path.resolve().parent.name if is_run else path.stem
        if paths.setdefault(name, path.resolve()) != path.resolve():
            raise ValueError(
                f"{paths[name]} and {path} would both be called {name}; rename one of them"
            )
        # A fine-tuned model has the size of the one that it starts from.
        sized = changes if read(path, changes).start else [f"model.preset={PRESET}", *changes]
        configs[name] = replace(read(path, sized), run=str(arguments.output / name))
    folders = {", ".join(config.data.folders) for config in configs.values()}
    if len(folders) > 1:
        raise ValueError(
            f"runs on several data sets ({'; '.join(sorted(folders))}) cannot be compared; "
            "choose configurations of one, or use --set data.folder=…"
        )
    shards = Shards(next(iter(configs.values())).data.folders)
    for config in configs.values():
        for run in _seeded(config, arguments.seeds):
            model_config(run, language_of(run, shards))
            if changes := differences(with_precision(run)):
                raise ValueError(
                    f"{run.run} has a run with other settings ({'; '.join(changes)}): name another folder with -o"
                )
    return configs


def _seeded(config: RunConfig, seeds: int) -> list[RunConfig]:
    """Return one run per seed, from the configuration's own seed on; several get subfolders."""
    if seeds == 1:
        return [config]
    numbers = range(config.seed, config.seed + seeds)
    return [replace(config, seed=n, run=str(Path(config.run) / f"seed-{n}")) for n in numbers]


def _names(pattern: str) -> list[str]:
    """Return the shipped configurations that match a pattern; a name without * is returned as it is."""
    from training.config import shipped_names

    if "*" not in pattern:
        return [pattern]
    depth = pattern.count("/")  # * does not match a slash
    names = [
        name for name in shipped_names() if name.count("/") == depth and fnmatch(name, pattern)
    ]
    if not names:
        raise ValueError(f"no shipped configuration has a name like {pattern}")
    return names


def _trained(config: RunConfig, seconds: float | None) -> dict[str, Any]:
    """Train or resume a run; return its results, or why it failed."""
    from training.comparison import run_results
    from training.loop import MODEL
    from training.run_folder import is_of_tail

    folder = Path(config.run)
    timed = {} if seconds is None else {"seconds": seconds, "clock": time.process_time}
    try:
        if not (timed and is_of_tail(folder / MODEL)):  # a timed run could go on for ever
            train(config, resume=(folder / "config.yaml").exists(), **timed)
        return run_results(folder)
    except OSError:  # such as a full disk, where the others would fail too
        raise
    except Exception as error:  # the others are trained anyway
        return {"failed": " ".join(str(error).split()) or type(error).__name__}
