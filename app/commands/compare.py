"""`musicgen compare`: train several configurations by one budget, one after the other, and tabulate what came out."""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Collection
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app import output
from app.commands.train import train
from app.options import check_counts, claim, own_folder

if TYPE_CHECKING:
    from training.config import RunConfig

PRESET = "tiny"
EXAMPLES = """\
examples:
  musicgen compare groove-absolute groove-sine-spe groove-rope --steps 2000 -o runs/groove
  musicgen compare 'pop-piano-*' --preset tiny --set data.length=512
  musicgen compare groove-none groove-sine-spe groove-rope --seeds 3 -o runs/seeds
  # the claim of the paper, and its control
  musicgen compare 'headline/*' --seeds 3 -o runs/headline

Run again, it goes on where it was interrupted; runs that are finished are not repeated. A folder that
holds another comparison's table is refused, unless its rows are among those asked for. With several
seeds, numbers are means with their 95 % interval (Student's), and where a configuration without an
encoding of position, and the same otherwise, is among them, the others' change against it is given:
differences between runs of one seed, which see the same music in the same order.
"""


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "configs", metavar="CONFIG", nargs="+",
        help="YAML files, or names of shipped ones, also with *",
    )  # fmt: skip
    parser.add_argument(
        "-o", "--output", type=Path, metavar="DIR",
        help="folder for all (default: compare, or compare-2, … if that is another comparison's)",
    )  # fmt: skip
    parser.add_argument(
        "--preset",
        help=f"size of the models (default: {PRESET}; of one that has a start, that of its start)",
    )
    parser.add_argument("--steps", type=int, default=2000, metavar="N", help="of each")
    parser.add_argument(
        "--seeds", type=int, default=1, metavar="N", help="train each N times, from as many seeds"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", dest="changes",
        help="change a value of every configuration; may be repeated",
    )  # fmt: skip
    output.add_json(parser)


def run(arguments: argparse.Namespace) -> None:
    """Train all, and write the table."""
    from tokenization.whole_file import make_folder
    from training.comparison import comparison_table, ranked, without_encoding, write_comparison
    from training.curves import draw_comparison

    check_counts(arguments, "seeds")
    named = arguments.output is not None
    arguments.output = arguments.output or own_folder("compare", arguments)
    configs = configured(arguments)
    several = arguments.seeds > 1
    check_table(arguments.output, configs, arguments.seeds)
    if named:
        make_folder(arguments.output, "give another one with -o")
    else:
        claim(arguments.output, arguments)
    against = without_encoding(configs)
    found: list[dict[str, Any]] = []
    whole: dict[str, list[Path]] = defaultdict(list)  # folders of what did not fail
    rows: list[dict[str, Any]] = []
    runs = [(name, run) for name in configs for run in _of_seeds(configs[name], arguments.seeds)]
    runs.sort(key=lambda named: named[1].seed)  # all of one seed, then of the next: pairs first
    for number, (name, config) in enumerate(runs, 1):
        seed = f", seed {config.seed}" if several else ""
        output.remark([f"{number} of {len(runs)}: {name}{seed}"])
        found.append({"name": name, "seed": config.seed, **_trained(name, config)})
        if "failed" not in found[-1]:
            whole[name].append(Path(config.run))
        rows = ranked(found, against)
        # Each time, lest an interruption leave none.
        write_comparison(rows, arguments.output)
    if whole:
        draw_comparison(whole, arguments.output, runs[0][1].data.trained_length)
    output.write_either(arguments.json, rows, output.table(comparison_table(rows)))


def configured(arguments: argparse.Namespace) -> dict[str, RunConfig]:
    """Return all configurations, each with a run in the output folder: a wrong one is known before any trains."""
    from training.config import CONFIG, find, read
    from training.data.shards import Shards
    from training.devices import with_precision
    from training.initial_model import model_config
    from training.run_folder import differences

    changes = [f"optimiser.steps={arguments.steps}", *arguments.changes]
    configs, paths = {}, {}
    for path in [find(name) for pattern in arguments.configs for name in _names(pattern)]:
        of_run = path.name == CONFIG
        name = path.resolve().parent.name if of_run else path.stem
        if paths.setdefault(name, path.resolve()) != path.resolve():
            raise ValueError(
                f"{paths[name]} and {path} would both be called {name}; rename one of them"
            )
        # What is fine-tuned from a start has that model's size.
        preset = arguments.preset or (None if read(path, changes).start else PRESET)
        sized = [*([f"model.preset={preset}"] if preset else []), *changes]
        configs[name] = replace(read(path, sized), run=str(arguments.output / name))
    folders = {", ".join(config.data.folders) for config in configs.values()}
    if len(folders) > 1:
        raise ValueError(
            f"runs on several data sets ({'; '.join(sorted(folders))}) do not compare; "
            "name configurations of one, or --set data.folder=…"
        )
    language = Shards(next(iter(configs.values())).data.folders).language
    for config in configs.values():
        for run in _of_seeds(config, arguments.seeds):
            model_config(run, language)
            if changes := differences(with_precision(run, resume=True)[0]):
                raise ValueError(
                    f"{run.run} holds a run of other settings ({'; '.join(changes)}): name another folder with -o"
                )
    return configs


def check_table(folder: Path, names: Collection[str], seeds: int) -> None:
    """Refuse a folder whose table has rows that would be lost: of other runs, or of more seeds."""
    from tokenization.wording import counted, listed
    from training.comparison import tabulated_seeds

    lost = [
        f"{name} of {counted(own, 'seed')}"
        for name, own in tabulated_seeds(folder).items()
        if name not in names or own > seeds
    ]
    if lost:
        raise ValueError(
            f"{folder} holds the table of another comparison, whose rows would be lost ({listed(lost)}): "
            "name another folder with -o"
        )


def _of_seeds(config: RunConfig, seeds: int) -> list[RunConfig]:
    """Return a run a seed, from the configuration's own on; several lie side by side in its folder."""
    if seeds == 1:
        return [config]
    numbers = range(config.seed, config.seed + seeds)
    return [replace(config, seed=n, run=str(Path(config.run) / f"seed-{n}")) for n in numbers]


def _names(pattern: str) -> list[str]:
    """Return the shipped configurations that a pattern means; a name that is no pattern is itself."""
    from training.config import shipped_names

    if "*" not in pattern:
        return [pattern]
    depth = pattern.count("/")  # which no * goes across
    names = [
        name for name in shipped_names() if name.count("/") == depth and fnmatch(name, pattern)
    ]
    if not names:
        raise ValueError(f"no shipped configuration has a name like {pattern}")
    return names


def _trained(name: str, config: RunConfig) -> dict[str, Any]:
    """Train one, or go on; return what it came to, or why it failed."""
    from training.comparison import run_results

    folder = Path(config.run)
    try:
        train(config, resume=(folder / "config.yaml").exists())
        return run_results(folder)
    except OSError:  # as of a full disk, where the others would fail too
        raise
    except Exception as error:  # whatever it is, the others are trained
        failed = " ".join(str(error).split()) or type(error).__name__
        output.remark([f"{name} failed: {failed}"])
        return {"failed": failed}
