"""`musicgen learn`: learn a style from a musician's own files, or remove one."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app import output

if TYPE_CHECKING:
    from training.style import Learning

EXAMPLES = """\
examples:
  musicgen learn ~/Music/mine --name mine
  musicgen generate --model mine
  musicgen learn --remove mine
"""
# New music that is compared with the files.
PIECES, PIECE_BARS = 4, 16


def add(parser: argparse.ArgumentParser) -> None:
    from musicgen.playable import DEFAULT

    parser.description = (
        "Learn a style from 5 to 200 pieces of music, in minutes: what changes a model, kept in your home. "
        "One work in five is held out, to tell what was learned. If interrupted, the same command resumes."
    )
    parser.add_argument(
        "files", nargs="?", type=Path, metavar="FILES",
        help="a folder or an archive of MIDI, MusicXML or ABC files",
    )  # fmt: skip
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--name", help="the name of the style, by which --model and the page find it")
    what.add_argument("--remove", metavar="NAME", help="remove the style of this name")
    parser.add_argument(
        "--start",
        default=DEFAULT,
        metavar="MODEL",
        help="the model that learns (default: %(default)s)",
    )
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="random seed")
    output.add_json(parser)


def run(arguments: argparse.Namespace) -> None:
    """Learn and tell what was learned, or remove a style."""
    from training import style

    if arguments.remove is not None:
        style.remove(arguments.remove)
        output.write_result(
            arguments.json, {"removed": arguments.remove}, f"{arguments.remove} is removed."
        )
        return
    if arguments.files is None:
        raise ValueError("name the folder with your files: musicgen learn FILES --name NAME")
    style.check_name(arguments.name)
    told = learn(arguments.files, style.Learning(arguments.name), arguments.start, arguments.seed)
    output.write_result(arguments.json, told, _text(told), *_remarks(told))


def learn(files: Path, learning: Learning, start: str, seed: int) -> dict[str, Any]:
    """Learn a style, and return what is told of it."""
    from app.commands.train import train
    from tokenization.intervals import mean_interval
    from training import style

    began, config = time.monotonic(), learning.config(start, seed)
    with output.progress_bar("Reading files") as progress:
        meta = style.prepare_files(files, learning, start, progress)
    output.remark(f"Skipped {one['name']}: {one['reason']}" for one in meta["skipped"])
    counts = {split: count["files"] for split, count in meta["counts"].items()}
    output.remark([f"Learning from {counts['train']} files; {counts['validation']} are held out."])
    train(config, resume=Path(config.run).is_dir(), again="the same command")
    gain = style.gain_of(config)
    _, interval = mean_interval((gain.after - gain.before).tolist())
    known = _passages(str(learning.data))
    told = style.write_style(learning, config, gain)
    return {
        "name": learning.name,
        **told,
        "interval": interval,
        "skipped": meta["skipped"],
        "copied": _copied(learning.name, known),
        "seconds": round(time.monotonic() - began, 1),
    }


def _text(told: dict[str, Any]) -> str:
    from tokenization.wording import counted

    before, after, interval = told["loss_before"], told["loss_after"], told["interval"]
    within = "one piece gives no interval" if interval is None else f"± {interval:.3f}"
    copied = told["copied"]
    return (
        f"{told['name']}: learned from {told['files'] - told['held_out']} files in {told['seconds'] / 60:.1f} minutes, "
        f"{told['bytes'] / 1000:,.0f} kB.\n"
        f"Loss on {counted(told['held_out'], 'held-out file')}: {after:.3f} nats per token, before {before:.3f} "
        f"({after - before:+.3f}, {within}).\n"
        f"Of {counted(copied['passages'], 'two-bar passage')} of new music, {copied['alike']} share half or more of "
        f"their notes with one of the files"
        + (f"; the closest shares {copied['closest']:.0%}." if copied["passages"] else ".")
    )


def _remarks(told: dict[str, Any]) -> list[str]:
    name = told["name"]
    worse = told["loss_after"] >= told["loss_before"]
    return [
        *(
            ["Nothing that helps on held-out files was learned: give more files, or more alike."]
            if worse
            else []
        ),
        f"Use it with --model {name}, or on the page once `musicgen app` is started again; "
        f"`musicgen learn --remove {name}` removes it.",
    ]


def _passages(data: str) -> Any:
    """Return the passages of the files that a style learned from, while they are there; None if they have none."""
    from evaluation.study.originality import training_passages

    try:
        return training_passages(data)
    except ValueError:  # all have too few notes to be compared
        return None


def _copied(name: str, known: Any) -> dict[str, Any]:
    """Compare the passages of new music with those of the files."""
    from evaluation.study.originality import ALIKE, passages
    from musicgen.playable import load

    if known is None:
        return {"passages": 0, "alike": 0, "closest": 0.0}
    model, found = load(name), []
    with output.progress_bar("Comparing new music") as progress:
        for seed in range(PIECES):
            progress(seed, PIECES)
            score = model.continue_(bars=PIECE_BARS, draw=1, seed=seed)[0].score
            found += [known.closest(keys)[0] for _, keys in passages(score, 0, PIECE_BARS)]
    return {
        "passages": len(found),
        "alike": sum(one >= ALIKE for one in found),
        "closest": round(max(found, default=0.0), 3),
    }
