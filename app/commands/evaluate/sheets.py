"""`musicgen evaluate accompaniment --sheets`: bands for lead sheets, by models and by the systems of a collection."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app import output
from app.commands.evaluate.study_options import command_line
from app.options import check_counts

if TYPE_CHECKING:
    from evaluation.lead_sheets import Collection


def add(data: Any) -> None:
    """Declare the option, among those that name the data."""
    data.add_argument(
        "--sheets", type=Path, metavar="PATH",
        help="lead sheets instead, with other systems' bands for them: a folder or a tar archive, as "
        "evaluation/lead_sheets.py describes it; --pieces and --skip choose among them (default: all)",
    )  # fmt: skip


def run(arguments: argparse.Namespace) -> None:
    """Write the bands of each model, measure them and those of the other systems, and print the table."""
    from evaluation.lead_sheets import measured, read_collection, sheets_table
    from tokenization.whole_file import write_json
    from tokenization.wording import counted

    check_counts(arguments, "pieces")
    whole = read_collection(arguments.sheets)
    names = [*whole.sheets][arguments.skip :][: arguments.pieces]
    if not names:
        many = counted(len(whole.sheets), "lead sheet")
        raise ValueError(f"{arguments.sheets} has {many}; --skip leaves out all of them")
    collection = whole.only(names)
    ours = {name: _bands(name, collection, arguments) for name in arguments.models or ["ensemble"]}
    rows = measured(collection, {**ours, **collection.systems})
    result = {"command": command_line(), "sheets": names, "systems": rows}
    if arguments.output is not None:
        write_json(arguments.output / "accompaniment.json", result)
    output.write_result(arguments.json, result, output.captioned(sheets_table(rows)))


def _bands(name: str, collection: Collection, arguments: argparse.Namespace) -> dict[str, bytes]:
    """Return the band of a model for each sheet, as MIDI, and write them to the output folder if there is one."""
    from evaluation.lead_sheets import arranged
    from musicgen.continuation import run_together
    from musicgen.generation.request import Request
    from musicgen.playable import load
    from tokenization.whole_file import make_folder, write_bytes

    model, request = load(name, arguments.device), Request(seed=arguments.seed)
    works = {
        sheet: arranged(model, data, sheet, request) for sheet, data in collection.sheets.items()
    }
    bars = sum(work.piece.bars for work in works.values())
    with output.progress_bar(f"{model.name}: bars") as show:
        for _ in run_together([*works.values()]):
            done = (
                work.piece.bars if work.job.ended.is_set() else work.job.bars
                for work in works.values()
            )
            show(sum(done), bars)
    files: dict[str, bytes] = {}
    for sheet, work in works.items():
        work.check()
        files[sheet] = work.takes()[0].midi
    if arguments.output is not None:
        folder = arguments.output / model.name.replace(":", "-")
        make_folder(folder, "give another one with -o")
        for sheet, data in files.items():
            write_bytes(folder / f"{sheet}.mid", data)
    return files
