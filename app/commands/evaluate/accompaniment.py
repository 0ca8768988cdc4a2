"""`musicgen evaluate accompaniment`: how like the real part is one that a model writes to the others."""

from __future__ import annotations

import argparse
from typing import Any

from app import output
from app.commands.evaluate.study_options import add_study, chosen_device, command_line, conducted
from app.progress import progress_bar

PARTS = ("bass", "drums", "other")
METRICS = {
    "onset_drum": "onset–drum",
    "onset_duration": "onset–duration",
    "time_pitch": "time–pitch",
}
EXAMPLES = """\
Of each held-out piece one part after the other is hidden and written anew to the others. Its style is
compared with the hidden part's; beside it that of the piece's next bars, of another piece of the style,
and of another style: mean ± deviation over styles, and the number of styles in which the written part
is nearer than another piece's.

examples:
  musicgen evaluate accompaniment runs/mine --data data/groove-2
  musicgen evaluate accompaniment runs/mine --data data/groove-2 --hide drums --bars 16 --pieces 40 --json
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_study(parser)
    parser.add_argument(
        "--data", required=True, metavar="DEST", help="a prepared data set of grooves"
    )
    parser.add_argument(
        "--hide", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART",
        help="the parts to hide, one at a time: bass, drums, other (default: all)",
    )  # fmt: skip
    parser.add_argument("--bars", type=int, default=8, metavar="N", help="of a piece (default: 8)")
    parser.add_argument(
        "--pieces", type=int, default=20, metavar="N", help="how many to take (default: 20)"
    )
    parser.add_argument(
        "--split", choices=("validation", "test", "train"), default="test", help="(default: test)"
    )
    output.add_json(parser)
    parser.epilog = EXAMPLES


def run(arguments: argparse.Namespace) -> None:
    """Write the parts, compare, and print the tables."""
    from evaluation.study.accompaniment import accompaniment
    from evaluation.study.models import models_of

    for option in ("bars", "pieces"):
        if getattr(arguments, option) < 1:
            raise ValueError(f"--{option} is {getattr(arguments, option)}; it is 1 or more")
    experiment, facts = accompaniment(
        models_of(arguments.models),
        arguments.data,
        hide=arguments.hide,
        bars=arguments.bars,
        pieces=arguments.pieces,
        split=arguments.split,
        seed=arguments.seed,
        device=chosen_device(arguments.device),
    )
    with progress_bar("Accompanying") as progress:
        results, failures = conducted({"accompaniment": experiment}, arguments, progress)
    found = results["accompaniment"]
    output.remark(failures)
    if not found["models"]:
        raise ValueError("no model could be measured" + "".join(f"; {why}" for why in failures))
    if arguments.json:
        output.write_json({"command": command_line(), **facts, **found, "failures": failures})
        return
    for model in found["models"]:
        output.write(f"{model['model']}, {facts['bars']} bars of {facts['pieces']} pieces")
        output.write(output.table([HEADER, *(_row(row) for row in model["table"])]))


HEADER = (
    "hidden", "likeness by", "styles", "written", "its next bars", "another piece", "another style",
    "above another piece",
)  # fmt: skip


def _row(row: dict[str, Any]) -> tuple[str, ...]:
    values = (_value(row[name]) for name in ("written", "next", "same", "other"))
    return (
        row["part"],
        METRICS[row["metric"]],
        str(row["written"]["n"]),
        *values,
        f"{row['above_same']} of {row['of']}",
    )


def _value(found: dict[str, Any]) -> str:
    if found["mean"] is None:
        return "–"
    spread = "" if found["deviation"] is None else f" ± {found['deviation']:.2f}"
    return f"{found['mean']:.2f}{spread}"
