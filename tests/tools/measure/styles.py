"""Measure styles that are learned from some pieces of sets: python -m tests.tools.measure.styles SET … --files 10.

The files are training pieces, written as MIDI. The table has, in nats per token, the loss on validation and test pieces
of the set (n of them, within 1,024 tokens) before, and the change by the style with its 95 % interval; the change on
the files that `musicgen learn` itself held out; that on test pieces of other sets, played in the style all the same,
the mean over the sets, and the largest; the processor's seconds, for everything; kB; and how many two-bar passages of
new music are like one of the files. With `--rolls`, a folder gets pictures of a continuation of a validation piece
before and after, by the same seed.
"""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from app import output
from app.commands.learn import learn
from evaluation.figures import roll
from evaluation.study.extrapolation import position_losses
from evaluation.study.takes import roll_of
from musicgen.playable import DEFAULT, Playable, load
from tests.tools.options import options
from tokenization.analysis.metres import bar_lines
from tokenization.intervals import mean_interval
from tokenization.midi.writing import write_midi
from tokenization.prepared import Prepared
from training.style import Learning

TOKENS, MOST = 1024, 32  # of a validation piece, and pieces of a set
UNSEEN = ("validation", "test")  # splits
OF_OTHERS = 2  # test pieces of each other set
GIVEN, BARS = 4, 16  # of the continuations that are drawn
HEAD = (
    "set", "files", "n", "before", "change", "±", "own", "others", "worst", "seconds", "kB", "alike",
)  # fmt: skip


def drawn(prepared: Prepared, split: str, count: int) -> list[int]:
    """Return rows of a split, one for each file."""
    rows = prepared.rows(split)
    _, first = np.unique(prepared.pieces.file[rows], return_index=True)
    return np.random.default_rng(7).permutation(rows[first])[:count].tolist()


def write_files(prepared: Prepared, count: int, folder: Path) -> None:
    """Write training pieces as MIDI files."""
    folder.mkdir()
    for row in drawn(prepared, "train", count):
        score = prepared.language.decode(np.asarray(prepared.ids(row), int))
        (folder / f"{row}.mid").write_bytes(write_midi(score))


def losses(prepared: Prepared, model: Playable, count: int, *splits: str) -> np.ndarray:
    """Return the loss of pieces of splits, one after the other, in nats per token."""
    rows = [row for split in splits for row in drawn(prepared, split, count)][:count]
    ids = [np.asarray(prepared.ids(row), int) for row in rows]
    return np.array(
        [position_losses(model.performer, one[: TOKENS + 1], seed=0).mean() for one in ids]
    )


def draw(prepared: Prepared, models: dict[str, Playable], folder: Path) -> None:
    """Draw continuations of the first bars of a validation piece by models."""
    [row] = drawn(prepared, "validation", 1)
    score = prepared.language.decode(np.asarray(prepared.ids(row), int))
    folder.mkdir(parents=True, exist_ok=True)
    for name, model in models.items():
        take = model.continue_(score, prompt_bars=GIVEN, bars=BARS, draw=1, seed=3)[0].score
        new = take.notes.onset_ticks >= bar_lines(take, GIVEN)[-1]
        roll(roll_of(take, new)).savefig(folder / f"{prepared.folder.name}-{name}.png", dpi=110)
        (folder / f"{prepared.folder.name}-{name}.mid").write_bytes(write_midi(take))


def measured(
    folder: Path, files: int, others: list[Path], work: Path, rolls: str
) -> tuple[Any, ...]:
    """Return the row of a set."""
    prepared, name = Prepared.open(folder), f"{folder.name}-{files}"
    write_files(prepared, files, work / name)
    began = sum(os.times()[:4])
    told = learn(work / name, Learning(name), DEFAULT, 1)
    seconds = sum(os.times()[:4]) - began
    base, style = load(DEFAULT, "cpu"), load(name, "cpu")
    before, after = (losses(prepared, model, MOST, *UNSEEN) for model in (base, style))
    sets = [Prepared.open(other) for other in others if other.name != folder.name]
    elsewhere = [
        losses(one, style, OF_OTHERS, "test").mean() - losses(one, base, OF_OTHERS, "test").mean()
        for one in sets
    ]
    if rolls:
        draw(prepared, {"before": base, "after": style}, Path(rolls))
    change, interval = mean_interval((after - before).tolist())
    copied = told["copied"]
    return (
        folder.name, files, len(before), f"{before.mean():.3f}", f"{change:+.3f}",
        "" if interval is None else f"{interval:.3f}", f"{told['loss_after'] - told['loss_before']:+.3f}",
        *(f"{of(elsewhere):+.3f}" if elsewhere else "" for of in (np.mean, max)),
        round(seconds), round(told["bytes"] / 1000),
        f"{copied['alike']} of {copied['passages']}",
    )  # fmt: skip


def main() -> None:
    names = ("pop909", "quartets", "groove", "lieder", "polish-keyboard", "orchestra", "free-music")
    sets = [f"data/{name}" for name in names]
    given = options(__doc__, "sets", files=10, others=sets, rolls="")
    with TemporaryDirectory() as home:
        os.environ["HOME"] = os.environ["USERPROFILE"] = home
        rows: list[tuple[Any, ...]] = [HEAD]
        for folder in given.sets:
            rows.append(
                measured(folder, given.files, [*map(Path, given.others)], Path(home), given.rolls)
            )
            output.remark([" ".join(map(str, rows[-1]))])
    output.write(output.table(rows))


if __name__ == "__main__":
    main()
