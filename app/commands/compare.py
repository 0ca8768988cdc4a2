"""`musicgen compare`: train several configurations by one budget, one after the other, and tabulate what came out."""

from __future__ import annotations

import argparse
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from app import output
from app.commands.train import train

if TYPE_CHECKING:
    from training.comparison import Compared
    from training.config import RunConfig

EXAMPLES = """\
examples:
  musicgen compare groove-absolute groove-sine-spe groove-rope --steps 2000 -o runs/groove
  musicgen compare 'pop-piano-*' --preset tiny --set data.length=512

Run again, it goes on where it was interrupted; runs that are finished are not repeated.
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.epilog = EXAMPLES
    parser.add_argument(
        "configs", metavar="CONFIG", nargs="+",
        help="YAML files, or names of shipped ones, also with *",
    )  # fmt: skip
    parser.add_argument(
        "-o", "--output", type=Path, metavar="DIR",
        help="folder for all (default: compare, or compare-2, … if that is another comparison's)",
    )  # fmt: skip
    parser.add_argument("--preset", default="tiny", help="size of the models (default: tiny)")
    parser.add_argument(
        "--steps", type=int, default=2000, metavar="N", help="of each (default: 2000)"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", dest="changes",
        help="change a value of every configuration; may be repeated",
    )  # fmt: skip
    output.add_json(parser)


def run(arguments: argparse.Namespace) -> None:
    """Train all, and write the table."""
    from app.own_folder import claim, own_folder
    from training.comparison import ranked, write_comparison

    named = arguments.output is not None
    arguments.output = arguments.output or own_folder("compare", arguments)
    configs = configured(arguments)
    if named:
        arguments.output.mkdir(parents=True, exist_ok=True)
    else:
        claim(arguments.output, arguments)
    rows: list[Compared] = []
    for number, config in enumerate(configs, 1):
        output.remark([f"{number} of {len(configs)}: {Path(config.run).name}"])
        rows.append(_trained(config))
        write_comparison(rows, arguments.output)  # each time, lest an interruption leave none
    _draw(configs, rows, arguments.output)
    if arguments.json:
        output.write_json([asdict(row) for row in ranked(rows)])
    else:
        output.write((arguments.output / "comparison.md").read_text(encoding="utf-8").rstrip())


def configured(arguments: argparse.Namespace) -> list[RunConfig]:
    """Return all configurations, each with a run in the output folder: a wrong one is known before any trains."""
    from training.config import find, read
    from training.shards import Shards
    from training.start import model_config

    changes = [
        f"model.preset={arguments.preset}",
        f"optimiser.steps={arguments.steps}",
        *arguments.changes,
    ]
    configs = {}
    for path in [find(name) for pattern in arguments.configs for name in _names(pattern)]:
        config = read(path, changes)
        configs[path.stem] = replace(config, run=str(arguments.output / path.stem))
    folders = {", ".join(config.data.folders) for config in configs.values()}
    if len(folders) > 1:
        raise ValueError(
            f"runs on several data sets ({'; '.join(sorted(folders))}) do not compare; "
            "name configurations of one, or --set data.folder=…"
        )
    found = list(configs.values())
    language = Shards(found[0].data.folders).language
    for config in found:
        model_config(config, language)
    return found


def _names(pattern: str) -> list[str]:
    """Return the shipped configurations that a pattern means; a name that is no pattern is itself."""
    from training.config import CONFIGS

    if "*" not in pattern:
        return [pattern]
    names = sorted(path.stem for path in CONFIGS.glob(f"{pattern}.yaml"))
    if not names:
        raise ValueError(f"no shipped configuration has a name like {pattern}")
    return names


def _trained(config: RunConfig) -> Compared:
    """Train one, or go on; a failure becomes a row of the table."""
    from training.comparison import Compared, compared

    folder = Path(config.run)
    try:
        train(config, resume=(folder / "config.yaml").exists())
        return compared(folder)
    except ValueError as error:
        output.remark([f"{folder.name} failed: {error}"])
        return Compared(name=folder.name, failed=" ".join(str(error).split()))


def _draw(configs: list[RunConfig], rows: list[Compared], folder: Path) -> None:
    from training.comparison import draw_comparison

    whole = {row.name for row in rows if not row.failed}
    runs = [Path(config.run) for config in configs if Path(config.run).name in whole]
    if not runs:
        return
    try:
        draw_comparison(runs, folder, configs[0].data.length)
    except ImportError as error:
        output.remark([f"No picture is drawn: {error.name} is not installed here."])
