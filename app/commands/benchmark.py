"""`musicgen benchmark`: compare small models that differ in one part, on the papers' tasks and on music."""

from __future__ import annotations

import argparse
from dataclasses import asdict, replace
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from app import output
from app.options import check_counts, chosen_device

if TYPE_CHECKING:
    from evaluation.benchmarks.run import Row
    from evaluation.benchmarks.tasks import BenchmarkData, Recipe

EXAMPLES = """\
Trains models that differ in one part only, in most tasks the encoding of position, on the same examples in the same
order, with several seeds. The table has means with 95 % intervals (Student's t), the results of simple rules without a
model, and the papers' figures.

tasks:                                        SOURCE
  listops     nested operations on digits     none
  pathfinder  are two marks on one path?      none
  points      the field of charges in space   none
  text        film reviews, byte by byte      aclImdb
  retrieval   does one paper cite another?    with new_aan_pairs.train.tsv
  image       CIFAR-10, as grey pixels        cifar-10-batches-bin
  patches     your own pictures               a .npz of images and labels
  language    the next byte or word           texts, or WikiText-103's files
  music       the next token of music         a prepared data set

examples:
  musicgen benchmark listops --short -o runs/listops
  musicgen benchmark language ~/texts --short --encodings none rope sine_spe flt
  musicgen benchmark language ~/texts --short --encodings lrpe lrpe:angles=a lrpe:type=mixed
  musicgen benchmark text aclImdb --recipe text-permuteformer --device cuda
  musicgen benchmark music data/pop909 --seconds 120 -o runs/parts

An interrupted benchmark resumes when it is run again with the same -o. DIR also gets benchmark.json, whose table
`musicgen evaluate report MODEL --benchmarks DIR` shows in its report. The recipes are in evaluation/benchmarks/recipes,
one file per task; the encodings are in evaluation/benchmarks/variants.py.
"""


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("task", metavar="TASK", help="one of the tasks below")
    parser.add_argument(
        "source", metavar="SOURCE", nargs="?", type=Path, help="the data, as listed below"
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--short", action="store_true", help="a reduced version that two cores can train"
    )
    which.add_argument("--recipe", metavar="NAME", help="another recipe of the task")
    parser.add_argument(
        "--encodings", nargs="+", metavar="NAME",
        help="what to compare, as NAME or NAME:KEY=VALUE,… (default: the recipe's)",
    )  # fmt: skip
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="runs per encoding")
    parser.add_argument(
        "--steps", type=int, metavar="N", help="training steps (default: the recipe's)"
    )
    parser.add_argument(
        "--seconds", type=int, metavar="N",
        help="train each run for N seconds of processor time, instead of for --steps",
    )  # fmt: skip
    parser.add_argument("--device", default="cpu", help="the device to compute on, such as cuda")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="DIR", help="folder for the results, to resume from"
    )
    output.add_json(parser)


def run(arguments: argparse.Namespace) -> None:
    """Generate or read the data, train the models, and print the table."""
    from evaluation.benchmarks.run import SUMMARY, benchmark, table_with_papers
    from evaluation.benchmarks.tasks import TASKS as KNOWN
    from evaluation.benchmarks.tasks import data_of
    from evaluation.benchmarks.variants import variant
    from musicgen.common.machine import machine
    from tokenization.records import suggestion
    from tokenization.whole_file import write_json

    if arguments.task not in KNOWN:
        raise ValueError(f"there is no task {arguments.task!r}{suggestion(arguments.task, KNOWN)}")
    check_counts(arguments, "seeds", "seconds")
    recipe = _recipe(arguments)
    names = arguments.encodings or recipe.encodings
    for name in names:
        variant(name)  # raises ValueError for a wrong one
    with output.progress_bar("Data") as progress:
        data = data_of(arguments.task, arguments.source, recipe.data, progress)
    for sentence in (recipe.about, *data.remarks, f"On {machine()}."):
        output.remark(wrap(sentence, output.COLUMNS))
    with output.progress_bar("Training") as progress:
        rows = benchmark(
            recipe, data, encodings=list(dict.fromkeys(names)), seeds=arguments.seeds,
            device=chosen_device(arguments), folder=arguments.output, progress=progress,
        )  # fmt: skip
    failures = [f"{row.encoding}: {row.failed}." for row in rows if row.failed]
    output.remark(failures)
    if not any(row.values for row in rows):
        raise ValueError("no encoding could be measured, for the reasons above")
    table = table_with_papers(arguments.task, rows, data.rules)
    data = replace(data, remarks=[*data.remarks, *failures])
    summary = _summary(recipe, data, rows, table)
    if arguments.output is not None:
        write_json(arguments.output / SUMMARY, summary)
    output.write_result(arguments.json, summary, output.table(table))


def _summary(
    recipe: Recipe, data: BenchmarkData, rows: list[Row], table: list[list[str]]
) -> dict[str, Any]:
    """Return benchmark.json, whose table `evaluate report --benchmarks` shows."""
    import torch

    from app.commands.evaluate.study_options import command_line
    from evaluation.benchmarks.tasks import TASKS
    from musicgen.common.machine import machine

    return {
        "task": recipe.task,
        "what": TASKS[recipe.task].about,
        "command": command_line(),
        "about": recipe.about,
        "remarks": data.remarks,
        "training": recipe.optimiser,
        "machine": machine(),
        "threads": torch.get_num_threads(),
        "table": table,
        "rules": data.rules,
        "rows": [asdict(row) for row in rows],
    }


def _recipe(arguments: argparse.Namespace) -> Recipe:
    from evaluation.benchmarks.tasks import FULL, recipe

    task: str = arguments.task
    own = f"{task}-short" if arguments.short else FULL.get(task, task)
    found = recipe(arguments.recipe or own)
    if found.task != arguments.task:
        raise ValueError(f"recipe {arguments.recipe} belongs to the task {found.task}, not {task}")
    for name in ("steps", "seconds"):
        if (value := getattr(arguments, name)) is not None:
            optimiser = {k: v for k, v in found.optimiser.items() if k != "epochs"}
            found = replace(found, optimiser={"steps": 1, **optimiser, name: value})
    return found
