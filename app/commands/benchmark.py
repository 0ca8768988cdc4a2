"""`musicgen benchmark`: small models that differ in one part, on the papers' tasks and on music."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app import output
from app.options import check_counts, chosen_device

if TYPE_CHECKING:
    from evaluation.benchmarks.run import Row
    from evaluation.benchmarks.tasks import Material, Recipe

EXAMPLES = """\
Models that differ in one part alone, most in their encoding of position, are trained on the same examples in the same
order, from several seeds; given are means with 95 % intervals (Student's), what rules without a model come to, and what
the papers report.

tasks:                                        SOURCE
  listops     nested operations on digits     none, or the benchmark's files
  pathfinder  are two marks on one path?      none, or the benchmark's files
  points      the field of charges in space   none
  text        film reviews, by bytes          aclImdb
  retrieval   does one paper cite another?    with new_aan_pairs.train.tsv
  image       CIFAR-10, by grey pixels        cifar-10-batches-bin
  patches     your own pictures               a .npz of images and labels
  language    the next byte or word           texts, or WikiText-103's files
  music       the next token of music         a prepared data set

examples:
  musicgen benchmark listops --short -o runs/listops
  musicgen benchmark language ~/texts --short --encodings none rope sine_spe flt
  musicgen benchmark language ~/texts --short --encodings lrpe lrpe:angles=a lrpe:type=mixed
  musicgen benchmark pathfinder --short --features relu --seeds 5
  musicgen benchmark text aclImdb --recipe text-permuteformer --device cuda
  musicgen benchmark music data/pop909 --seconds 120 -o runs/parts

Run again with the same -o, it goes on where it was interrupted; DIR also gets the table with the papers' figures
(benchmark.md) and a figure of perplexities (benchmark.png), and `musicgen evaluate report MODEL --benchmarks DIR`
shows the table on its page. Recipes lie in evaluation/benchmarks/recipes, a file for each task; encodings in
evaluation/benchmarks/variants.py.
"""


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("task", metavar="TASK", help="one of those below")
    parser.add_argument(
        "source", metavar="SOURCE", nargs="?", type=Path, help="the data, where a task takes yours"
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--short", action="store_true", help="the form for two cores")
    which.add_argument("--recipe", metavar="NAME", help="another recipe of the task")
    parser.add_argument(
        "--encodings",
        nargs="+",
        metavar="NAME",
        help="what is compared (default: the recipe's); NAME:KEY=VALUE,… for other values",
    )
    parser.add_argument("--features", metavar="NAME", help="feature map: favor, relu or elu")
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="runs of each")
    parser.add_argument(
        "--steps", type=int, metavar="N", help="of training, instead of the recipe's"
    )
    parser.add_argument(
        "--seconds", type=int, metavar="N",
        help="train each for N seconds of the processor, instead of so many steps",
    )  # fmt: skip
    parser.add_argument("--unit", choices=("bytes", "words"), help="of the task language")
    parser.add_argument("--device", default="cpu", help="such as cuda")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="DIR", help="folder of the results, for going on"
    )
    output.add_json(parser)


def run(arguments: argparse.Namespace) -> None:
    """Make or read the data, train, and print the tables."""
    from evaluation.benchmarks.run import (
        benchmark,
        examples_measured,
        fitting,
        plain,
        table_beside_papers,
    )
    from evaluation.benchmarks.tasks import TASKS as KNOWN
    from evaluation.benchmarks.tasks import material
    from evaluation.benchmarks.variants import variant
    from musicgen.common.processes import machine
    from tokenization.records import suggestion

    if arguments.task not in KNOWN:
        raise ValueError(f"there is no task {arguments.task!r}{suggestion(arguments.task, KNOWN)}")
    check_counts(arguments, "seeds", "seconds")
    recipe = _recipe(arguments)
    with output.progress_bar("Data") as progress:
        data = material(arguments.task, arguments.source, recipe.data, progress)
    data = replace(data, remarks=[*data.remarks, *examples_measured(recipe, data)])
    names = arguments.encodings or fitting(recipe.encodings, data)
    output.remark([recipe.about, *data.remarks, f"On {machine()}."])
    for name in names:
        variant(name)  # or a sentence on what is wrong
    with output.progress_bar("Training") as progress:
        rows = benchmark(
            recipe, data, encodings=list(dict.fromkeys(names)), seeds=arguments.seeds,
            device=chosen_device(arguments), folder=arguments.output, progress=progress,
        )  # fmt: skip
    output.remark(f"{row.encoding}: {row.failed}." for row in rows if row.failed)
    if not any(row.values for row in rows):
        raise ValueError("no encoding could be measured; the sentences above say why")
    table = table_beside_papers(arguments.task, rows, data.rules)
    if arguments.output is not None:
        _write(arguments.output, recipe, data, rows, table)
    result = {"task": arguments.task, "rules": data.rules, "rows": [*map(plain, rows)]}
    output.write_either(arguments.json, result, output.table(table))


def _write(
    folder: Path, recipe: Recipe, data: Material, rows: list[Row], table: list[list[str]]
) -> None:
    """Write benchmark.json, which `evaluate report --benchmarks` reads, the table, and a figure of the perplexities."""
    import torch

    from app.commands.evaluate.study_options import command_line
    from evaluation.benchmarks.run import SUMMARY, control_of, plain
    from evaluation.benchmarks.training import STEPS
    from evaluation.figures import changes, png
    from musicgen.common.processes import machine
    from tokenization.whole_file import write_bytes, write_json, write_text
    from tokenization.wording import markdown

    given = recipe.optimiser
    training = {
        **{key: given.get(key) for key in ("steps", "seconds", "epochs", "batch")},
        "learning_rate": float(given["learning_rate"]),
    }
    facts = {
        "task": recipe.task,
        "command": command_line(),
        "about": recipe.about,
        "remarks": data.remarks,
        "training": training,
        "machine": machine(),
        "threads": torch.get_num_threads(),
        "rules": data.rules,
        "rows": [*map(plain, rows)],
    }
    write_json(folder / SUMMARY, facts)
    if data.corpus is not None and (control := control_of(rows)) is not None:
        measures = [name for name in control.values[0] if name != STEPS]
        drawn = changes(rows, control, [measures[0], measures[-1]])
        write_bytes(folder / "benchmark.png", png(drawn))
    write_text(folder / "benchmark.md", f"{markdown(table)}\n")


def _recipe(arguments: argparse.Namespace) -> Recipe:
    from evaluation.benchmarks.tasks import FULL, recipe

    task: str = arguments.task
    own = f"{task}-short" if arguments.short else FULL.get(task, task)
    found = recipe(arguments.recipe or own)
    if found.task != arguments.task:
        raise ValueError(f"recipe {arguments.recipe} is of the task {found.task}")
    if arguments.features:
        found = replace(
            found, model={**found.model, "features": _features(found, arguments.features)}
        )
    for name in ("steps", "seconds"):
        if (value := getattr(arguments, name)) is not None:
            optimiser = {k: v for k, v in found.optimiser.items() if k != "epochs"}
            found = replace(found, optimiser={"steps": 1, **optimiser, name: value})
    if arguments.unit:
        if task != "language":
            raise ValueError(f"--unit is for the task language; {task} has no text to cut")
        found = replace(found, data=replace(found.data, unit=arguments.unit))
    return found


def _features(found: Recipe, name: str) -> dict[str, Any]:
    """Return another feature map, with as many features as the recipe's has."""
    given = found.model.get("features", {})
    count = given.get("features") if isinstance(given, dict) else None
    return {"name": name, **({} if count is None else {"features": count})}
