"""`musicgen data`: prepare a data set for training, make one, say what is in one."""

from __future__ import annotations

import argparse
from contextlib import nullcontext
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app import output
from app.options import add_language, add_workers, check_counts, from_options

if TYPE_CHECKING:
    from tokenization.prepared import Prepared
    from training.data.sources.source import Source

MAKE_GROOVE = "make-groove"
MAKE_GROOVE_EXAMPLES = """\
examples:
  musicgen data make-groove grooves --seed 7                          # over progressions made here
  musicgen data make-groove grooves --seed 7 --chords POP909.tar.xz   # over the chords of songs
  musicgen data groove grooves data/groove                            # then prepare it

The same seed gives the same bytes, from the same charts and the same MMA (Debian package: mma).
"""


def add_make_groove(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("destination", metavar="DEST", type=Path, help="the folder to write")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of all draws")
    parser.add_argument(
        "--chords", type=Path, metavar="SOURCE",
        help="POP909 or the McGill Billboard annotations, a folder or archive (default: progressions made here)",
    )  # fmt: skip
    parser.add_argument(
        "--styles", type=int, metavar="N", help="at most so many styles (default: all)"
    )
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="processes")
    output.add_json(parser)


def run_make_groove(arguments: argparse.Namespace) -> None:
    """Make the set and say what is in it."""
    from tokenization.wording import counted
    from training.data.archive import unpacked
    from training.groove_set import make_groove_set

    if arguments.seed < 0:
        raise ValueError(f"--seed is {arguments.seed}; it must be 0 or more")
    check_counts(arguments, "styles", "workers")
    charts = nullcontext((None, [])) if arguments.chords is None else unpacked(arguments.chords)
    with output.progress_bar("Making grooves") as progress, charts as (folder, _):
        made = make_groove_set(
            arguments.destination, folder, seed=arguments.seed, most=arguments.styles,
            workers=arguments.workers, progress=progress,
        )  # fmt: skip
    folder, left_out = str(arguments.destination), counted(made.left_out, "style")
    rows = [("split", "files"), *made.files.items()]
    output.write_either(
        arguments.json,
        {"folder": folder, **asdict(made)},
        f"{folder}: checksum {made.checksum}\n{output.table(rows)}",
        f"Left out: {left_out}: no groove of bass, drums and another track, or a twin.",
    )


SHOWN = 10  # remarks and skipped files in a text; the JSON has all
EXAMPLES = """\
examples:
  musicgen data pop909 POP909 data/pop909
  musicgen data lieder lieder.tar data/lieder
  musicgen data pop909 POP909 data/pop909-remi --language remi    # one piano in 4/4, as the papers have it
  musicgen data midi ~/Music data/mine --language groove --licence "my own work"
  musicgen data midi /shared/midi data/much --scheduler tcp://HOST:8786    # on many machines, the same bytes
  musicgen data inspect data/pop909
  musicgen data make-groove grooves --seed 7
"""


def add(parser: argparse.ArgumentParser) -> None:
    from training.data.sources import SOURCES

    kinds = parser.add_subparsers(metavar="KIND", title="kinds of data", required=True, dest="kind")
    for name, source in SOURCES.items():
        does = f"{source.title} ({source.shape})"
        example = f"example:\n  musicgen data {name} SOURCE data/{name}"
        about = f"Prepare {source.title}."
        kind = kinds.add_parser(name, help=does, description=about, epilog=example)
        _add_source(kind, source)
    does = "make a groove set with MMA, an accompaniment program, over chord charts"
    made = kinds.add_parser(
        MAKE_GROOVE, help=does, description=f"M{does[1:]}.", epilog=MAKE_GROOVE_EXAMPLES
    )
    add_make_groove(made)
    does = "say what is in a prepared data set"
    example = "example:\n  musicgen data inspect data/pop909"
    inspect = kinds.add_parser("inspect", help=does, description=f"S{does[1:]}.", epilog=example)
    inspect.add_argument("destination", metavar="DEST", type=Path, help="the prepared folder")
    output.add_json(inspect)


def _add_source(parser: argparse.ArgumentParser, source: Source) -> None:
    parser.add_argument(
        "source", metavar="SOURCE", type=Path, help="its folder, or a tar or zip archive of it"
    )
    parser.add_argument("destination", metavar="DEST", type=Path, help="the folder to write")
    add_language(parser, None, source.languages, otherwise=source.language)
    parser.add_argument(
        "--validation", type=float, default=0.05, metavar="SHARE",
        help="share held out, by a hash of the names, where the source has no split; in ensemble, by a hash of the "
        "works, and as much for test again",
    )  # fmt: skip
    parser.add_argument(
        "--test-only", action="store_true",
        help="hold all pieces out, to measure models with music that none has learned from",
    )  # fmt: skip
    parser.add_argument(
        "--title", metavar="TEXT", help="what these pieces are, for the model's README"
    )
    parser.add_argument(
        "--licence", metavar="TEXT", help="their licence: it stays with the models made of them"
    )
    add_workers(parser)
    parser.add_argument(
        "--force", action="store_true", dest="replace", help="replace the prepared data set in DEST"
    )
    output.add_json(parser)


def run(arguments: argparse.Namespace) -> None:
    """Prepare, or inspect."""
    if arguments.kind == "inspect":
        _inspect(arguments)
    elif arguments.kind == MAKE_GROOVE:
        run_make_groove(arguments)
    else:
        _prepare(arguments)


def _prepare(arguments: argparse.Namespace) -> None:
    from training.data.prepare import PrepareOptions, prepare

    workers = arguments.scheduler or arguments.workers
    options = from_options(PrepareOptions, arguments, workers=workers)
    with output.progress_bar(f"Preparing {arguments.kind}") as progress:
        meta = prepare(arguments.kind, arguments.source, arguments.destination, options, progress)
    if arguments.json:
        del meta["vocabulary"]
        output.write_json({"folder": str(arguments.destination), **meta})
        return
    output.write(
        f"{arguments.destination}: {meta['tokens']:,} tokens of {meta['language']['language']}"
    )
    output.write(_counts(meta["counts"]))
    output.remark(_report(meta))
    if not meta["counts"]["validation"]["pieces"] and not arguments.test_only:
        output.remark(
            ["No piece is held out for validation; prepare more, or give a larger --validation."]
        )


# What is in a prepared data set: its tokens by family, its pieces by length, and how they look.

QUANTILES = {"shortest": 0.0, "5 %": 0.05, "median": 0.5, "95 %": 0.95, "longest": 1.0}
EXCERPT_TOKENS = 120
_BLOCK_TOKENS = 1 << 22


def length_quantiles(prepared: Prepared) -> dict[str, dict[str, int]]:
    """Return how many tokens the pieces of each split that has some are long."""
    import numpy as np

    from tokenization.prepared import SPLITS

    return {
        split: {
            name: int(np.quantile(prepared.pieces.length[rows], share))
            for name, share in QUANTILES.items()
        }
        for split in SPLITS
        if len(rows := prepared.rows(split))
    }


def family_shares(prepared: Prepared) -> dict[str, float]:
    """Return each family's share of the tokens."""
    import numpy as np

    blocks = prepared.meta["vocabulary"]
    counts = np.zeros(max(block["stop"] for block in blocks), dtype=np.int64)
    for start in range(0, len(prepared.tokens), _BLOCK_TOKENS):
        counts += np.bincount(prepared.tokens[start : start + _BLOCK_TOKENS], minlength=len(counts))
    total = counts.sum()
    return {
        block["name"]: float(counts[block["start"] : block["stop"]].sum() / total)
        for block in blocks
    }


def excerpt(prepared: Prepared, row: int) -> str:
    """Return the beginning of a piece by the tokens' names, a line a bar."""
    names = [name for block in prepared.meta["vocabulary"] for name in block["tokens"]]
    ids = prepared.ids(row)[:EXCERPT_TOKENS]
    bars = prepared.bars(row)
    starts = [0, *(int(bar) for bar in bars if 0 < bar < len(ids)), len(ids)]
    lines = (" ".join(names[i] for i in ids[a:b]) for a, b in pairwise(starts) if b > a)
    return "\n".join(lines) + (" …" if prepared.pieces.length[row] > len(ids) else "")


def summary(prepared: Prepared) -> dict[str, Any]:
    """Return all of it as plain data, after a check of the tokens against their checksum."""
    from tokenization.prepared import SPLITS

    prepared.verify()
    meta = prepared.meta
    row = int(next(rows for split in SPLITS if len(rows := prepared.rows(split)))[0])
    return {
        "folder": str(prepared.folder),
        "source": meta["source"],
        "language": meta["language"]["language"],
        "vocabulary_size": meta["language"]["tokens"],
        "tokens": meta["tokens"],
        "checksum": meta["checksum"],
        "counts": meta["counts"],
        "styles": len(meta["styles"]),
        "lengths": length_quantiles(prepared),
        "families": family_shares(prepared),
        "notes": meta["notes"],
        "losses": meta["losses"],
        "remarks": meta["remarks"],
        "skipped": meta["skipped"],
        "excerpt": {"name": prepared.name(row), "tokens": excerpt(prepared, row)},
    }


def _inspect(arguments: argparse.Namespace) -> None:
    from tokenization.prepared import Prepared

    found = summary(Prepared.open(arguments.destination))
    if arguments.json:
        output.write_json(found)
        return
    source = found["source"]
    lengths = found["lengths"]
    parts = [
        f"{found['folder']}: {source['title']} ({source['folder']}); licence: {source['licence']}",
        f"{found['tokens']:,} tokens of {found['language']}, which has {found['vocabulary_size']}; "
        f"checksum {found['checksum'][:16]}… is right",
        _counts(found["counts"]),
        output.table(
            [("tokens a piece", *next(iter(lengths.values())))]
            + [(split, *quantiles.values()) for split, quantiles in lengths.items()]
        ),
        output.table(
            [("family", "share")]
            + [(name, f"{share:.2%}") for name, share in found["families"].items()]
        ),
        "\n".join(_report(found)),
        f"{found['excerpt']['name']} begins:\n{found['excerpt']['tokens']}",
    ]
    output.write("\n\n".join(part for part in parts if part))


def _counts(counts: dict[str, dict[str, int]]) -> str:
    """Return what there is by split, as a table."""
    rows = {split: count for split, count in counts.items() if count["pieces"]}
    return output.table(
        [("split", *next(iter(counts.values())))]
        + [(split, *count.values()) for split, count in rows.items()]
    )


def _report(meta: dict[str, Any]) -> list[str]:
    """Return what was lost, assumed and skipped, in sentences."""
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
