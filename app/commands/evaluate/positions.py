"""`musicgen evaluate positions`: what encodings know of position, what they learned, and where attention looks."""

from __future__ import annotations

import argparse
import re
from itertools import chain, count
from pathlib import Path
from typing import Any

from app import output
from app.commands.evaluate.study_options import add_study, command_line, conducted, write_results
from app.options import check_counts, chosen_device

EXAMPLES = """\
Translation invariance (T) and monotonicity (M) of the best head of the first layer, 0 is perfect,
± standard error; for queries and offsets of keys in the proportions of the SPE paper's table 7. It is
the encoding that is asked, without the horizons by which heads forget; one that counts musical time
is read a token a sixteenth. – stands where it holds no position: all weights are equal. The folder of
-o gets all heads as CSV, and pictures: the probes by position, learned templates, and attention maps
of music that the model writes past its trained length.

examples:
  musicgen evaluate positions ensemble
  musicgen evaluate positions runs/ape runs/sine -o positions
"""


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--tokens", type=int, metavar="N", help="probe with N tokens (default: the vocabulary)"
    )
    add_study(parser, results="positions.json, .csv and pictures")


def run(arguments: argparse.Namespace) -> None:
    """Measure, write and print."""
    from evaluation.study.experiments import models_of, positions
    from evaluation.tables import positions_table

    check_counts(arguments, "tokens")
    experiment = positions(
        models_of(arguments.models),
        tokens=arguments.tokens,
        seed=arguments.seed,
        device=chosen_device(arguments),
        drawn=arguments.output is not None,
    )
    found, failures = conducted({"positions": experiment}, arguments, "Probing")
    output.remark(failures)
    result = {"command": command_line(), **found["positions"], "left_out": failures}
    if not result["models"]:
        raise ValueError("no model could be probed; the sentences above say why")
    if arguments.output is not None:
        _write(arguments.output, result)
    text = output.captioned(positions_table(result), across=False)
    output.write_either(arguments.json, result, text)


def _write(folder: Path, result: dict[str, Any]) -> None:
    from evaluation import figures
    from evaluation.plots import png
    from evaluation.tables import probe_rows
    from tokenization.whole_file import write_bytes

    write_results(folder, "positions", result, probe_rows(result))
    write_bytes(folder / "probes.png", png(figures.probes(result)))
    for name, model in zip(_file_names(result["models"]), result["models"], strict=True):
        drawn = {"attention": figures.attention(model), "look_back": figures.look_back(model)}
        if model["templates"]:
            drawn["templates"] = figures.templates(model)
        if model["templates"] and model["templates"]["features"] > 1:
            drawn["all_templates"] = figures.all_templates(model)
        for kind, one in drawn.items():
            write_bytes(folder / f"{kind}-{name}.png", png(one))


def _file_names(models: list[dict[str, Any]]) -> list[str]:
    """Return a name for each model's pictures; where two would be the same, the later one gets a number."""
    names: list[str] = []
    for model in models:
        plain = re.sub(r"[^\w.+-]+", "-", model["model"])
        others = (f"{plain}-{number}" for number in count(2))
        names.append(next(name for name in chain([plain], others) if name not in names))
    return names
