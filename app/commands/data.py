"""`musicgen data`: prepare a data set for training, make one, or inspect one."""

from __future__ import annotations

import argparse
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app import output
from app.options import add_language, add_workers, check_counts, from_options, scheduled

if TYPE_CHECKING:
    from training.data.sources.source import Source


def _add_make_groove(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("destination", metavar="DEST", type=Path, help="the folder to write")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="random seed")
    parser.add_argument(
        "--chords", type=Path, metavar="SOURCE",
        help="POP909, a folder or archive (default: generated progressions)",
    )  # fmt: skip
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="number of processes")
    output.add_json(parser)


def _make_groove(arguments: argparse.Namespace) -> None:
    """Make the set, and print its number of files."""
    from tokenization.wording import counted
    from training.data.archive import unpacked
    from training.data.groove_set import make_groove_set

    if arguments.seed < 0:
        raise ValueError(f"--seed is {arguments.seed}; it must be 0 or more")
    check_counts(arguments, "workers")
    charts = nullcontext((None, [])) if arguments.chords is None else unpacked(arguments.chords)
    with output.progress_bar("Making grooves") as progress, charts as (folder, _):
        made = make_groove_set(
            arguments.destination, folder, seed=arguments.seed, workers=arguments.workers,
            progress=progress,
        )  # fmt: skip
    folder, left_out = str(arguments.destination), counted(made.left_out, "style")
    rows = [("split", "files"), *made.files.items()]
    output.write_result(
        arguments.json,
        {"folder": folder, **asdict(made)},
        f"{folder}:\n{output.table(rows)}",
        f"Left out: {left_out} without bass, drums and another track, or the same as another style.",
    )


SHOWN = 10  # remarks and skipped files in the text; the JSON has all
EXAMPLES = """\
examples:
  musicgen data pop909 POP909 data/pop909
  musicgen data lieder lieder.tar data/lieder
  # one piano in 4/4, as in the papers
  musicgen data pop909 POP909 data/pop909-remi --language remi
  musicgen data midi ~/Music data/mine --language groove --licence "my own work"
  musicgen data inspect data/pop909
  # grooves over generated progressions, or over the chords of songs
  musicgen data make-groove grooves --seed 7
  musicgen data make-groove grooves --seed 7 --chords POP909.tar.xz
  musicgen data groove grooves data/groove

The same seed, charts and version of MMA (Debian package: mma) give the same grooves.
"""


def add(parser: argparse.ArgumentParser) -> None:
    from training.data.sources import SOURCES

    kinds = parser.add_subparsers(metavar="KIND", title="kinds of data", required=True, dest="kind")
    for name, source in SOURCES.items():
        summary = f"{source.title} ({source.shape})"
        example = f"example:\n  musicgen data {name} SOURCE data/{name}"
        about = f"Prepare {source.title}."
        kind = kinds.add_parser(name, help=summary, description=about, epilog=example)
        _add_source(kind, source)
        kind.set_defaults(do=_prepare)
    summary = "make a groove set from chord charts with MMA, an accompaniment program"
    made = kinds.add_parser(
        "make-groove", help=summary, description=f"M{summary[1:]}.", epilog=EXAMPLES
    )
    _add_make_groove(made)
    made.set_defaults(do=_make_groove)
    summary = "describe a prepared data set"
    example = "example:\n  musicgen data inspect data/pop909"
    inspect = kinds.add_parser(
        "inspect", help=summary, description=f"D{summary[1:]}.", epilog=example
    )
    inspect.add_argument("destination", metavar="DEST", type=Path, help="its folder")
    output.add_json(inspect)
    inspect.set_defaults(do=_inspect)


def _add_source(parser: argparse.ArgumentParser, source: Source) -> None:
    parser.add_argument(
        "source",
        metavar="SOURCE",
        type=Path,
        help="the raw data: a folder, or a tar or zip archive",
    )
    parser.add_argument("destination", metavar="DEST", type=Path, help="the folder to write")
    add_language(parser, None, source.languages, otherwise=source.language)
    parser.add_argument(
        "--validation", type=float, default=0.05, metavar="SHARE",
        help="fraction of pieces held out for validation, by a hash of their names, if the source has no split; "
        "with the language ensemble, by a hash of works, and another such fraction for test",
    )  # fmt: skip
    parser.add_argument(
        "--test-only", action="store_true",
        help="put all pieces into the test split, as music that no model was trained on",
    )  # fmt: skip
    parser.add_argument(
        "--title",
        metavar="TEXT",
        help="name of the data set, for the READMEs of models trained on it",
    )
    parser.add_argument(
        "--licence", metavar="TEXT", help="licence of the data, for models' READMEs"
    )
    add_workers(parser)
    parser.add_argument(
        "--force", action="store_true", dest="replace", help="replace the prepared data set in DEST"
    )
    output.add_json(parser)


def run(arguments: argparse.Namespace) -> None:
    """Prepare, make or inspect."""
    arguments.do(arguments)


def _prepare(arguments: argparse.Namespace) -> None:
    from training.data.prepare import PrepareOptions, prepare

    check_counts(arguments, "workers")
    if arguments.scheduler and not arguments.source.is_dir():
        raise ValueError("--scheduler needs SOURCE as a folder that all machines see")
    with (
        scheduled(arguments.scheduler) as executor,
        output.progress_bar(f"Preparing {arguments.kind}") as progress,
    ):
        options = from_options(PrepareOptions, arguments, workers=executor or arguments.workers)
        meta = prepare(arguments.kind, arguments.source, arguments.destination, options, progress)
    _inspect(arguments)
    if not meta["counts"]["validation"]["pieces"] and not arguments.test_only:
        output.remark(
            ["No piece is held out for validation; prepare more, or give a larger --validation."]
        )


def _inspect(arguments: argparse.Namespace) -> None:
    """Verify the checksum of a set's tokens, and print its description."""
    from tokenization.prepared import Prepared

    prepared = Prepared.open(arguments.destination)
    prepared.verify()
    meta, source = prepared.meta, prepared.meta["source"]
    if arguments.json:
        plain = {name: value for name, value in meta.items() if name != "vocabulary"}
        output.write_json({"folder": str(prepared.folder), **plain})
        return
    counts = {split: count for split, count in meta["counts"].items() if count["pieces"]}
    rows = [(split, *count.values()) for split, count in counts.items()]
    parts = [
        f"{prepared.folder}: {source['title']} ({source['folder']})\nlicence: {source['licence']}",
        f"{meta['tokens']:,} tokens of {meta['language']['language']} (vocabulary {meta['language']['tokens']}); "
        f"checksum {meta['checksum'][:16]}… verified",
        output.table([("split", *next(iter(counts.values()))), *rows]),
        "\n".join(_report(meta)),
    ]
    output.write("\n\n".join(part for part in parts if part))


def _report(meta: dict[str, Any]) -> list[str]:
    """List what was lost, assumed and skipped."""
    from tokenization.wording import counted

    lines = [*meta["notes"]]
    lines += [f"{counted(count, 'note')}: {reason}" for reason, count in meta["losses"].items()]
    for remark in meta["remarks"][:SHOWN]:
        such_as = ", such as" if remark["files"] > 1 else ""
        lines.append(f"{counted(remark['files'], 'file')}{such_as}: {remark['example']}")
    if len(meta["remarks"]) > SHOWN:
        lines.append(f"… and {len(meta['remarks']) - SHOWN} more remarks, which meta.json lists")
    skipped = meta["skipped"]
    if skipped:
        lines.append(f"Skipped {len(skipped)}:")
        lines += [f"  {one['name']}: {one['reason']}" for one in skipped[:SHOWN]]
    if len(skipped) > SHOWN:
        lines.append(f"  … and {len(skipped) - SHOWN} more, which meta.json lists")
    return lines
