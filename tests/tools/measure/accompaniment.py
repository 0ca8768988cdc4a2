"""What a model makes of the parts that it is given, by what it is told of them.

python -m tests.tools.measure.accompaniment --data data/groove-2 --models groove-2

Of held-out pieces, the loss of a hidden part is read four times: given the others, given what they play sixteen bars
later, given silence, and given the others without their chords. What the second costs is what the model makes of the
harmony; what the third costs is what it makes of the others at all; what the fourth costs, what it makes of the chords
that it is told.
"""

from __future__ import annotations

import argparse

import numpy as np

from evaluation.accompaniment import first_bars
from musicgen.common.intervals import mean_interval
from musicgen.generation.likelihood import position_losses
from musicgen.loading import load
from musicgen.playable import Playable
from tokenization.groove.spelling import END, PARTS
from tokenization.groove_2 import goals
from tokenization.groove_2.language import Groove2
from tokenization.groove_2.spelling import AT, BAR, GIVEN, WRITE
from tokenization.prepared import Prepared
from tokenization.score import Notes
from tokenization.wording import markdown

BARS = 16  # of a piece that are read
GIVEN_AS = (
    "given the others",
    "the others of later bars cost",
    "silence costs",
    "chords untold cost",
)


def written(ids: np.ndarray) -> np.ndarray:
    """Return which tokens are of the written part and not forced: (T,) bool."""
    ours = np.where(ids == WRITE, 1, np.where((ids >= GIVEN.start) & (ids < GIVEN.stop), -1, 0))
    marks = np.maximum.accumulate(np.arange(len(ids)) * (ours != 0))
    forced = np.isin(ids, (BAR, WRITE, END)) | (ids >= WRITE)
    forced[:-1] |= AT.holds(ids[:-1]) & (ids[1:] > WRITE)  # the place of what is told
    return (ours[marks] > 0) & ~forced


def read_losses(model: Playable, piece: Notes) -> list[list[float]]:
    """Return for each part of a piece that has them all the nats a bar of it, by what is given: (3, 4)."""
    speaks = model.language
    assert isinstance(speaks, Groove2), "other models are refused"
    now, later = first_bars(piece, BARS), first_bars(piece, BARS, BARS)
    found = []
    for part in range(len(PARTS)):
        own, others = now[now.track == part], [t for t in range(len(PARTS)) if t != part]
        losses = []
        for given, chords in ((now, True), (later, True), (now[:0], True), (now, False)):
            notes = Notes.concatenate([own, given[given.track != part]]).sorted()
            ids = goals.accompaniment(notes, others, chords=chords and speaks.has_chords)
            losses.append(position_losses(model.performer, ids, 0)[written(ids)[1:]].sum() / BARS)
        found.append([losses[0], *(loss - losses[0] for loss in losses[1:])])
    return found


def held_out(data: str, split: str, most: int) -> list[Notes]:
    """Return pieces of three parts that are long enough, drawn once for all."""
    prepared, found = Prepared.open(data), []
    assert isinstance(prepared.language, Groove2), "other data are refused"
    for row in np.random.default_rng(1).permutation(prepared.rows(split)):
        notes = prepared.language.notes(np.asarray(prepared.ids(int(row))))
        long_enough = len(prepared.bars(int(row))) >= 2 * BARS
        if long_enough and len(np.unique(first_bars(notes, BARS).track)) == len(PARTS):
            found.append(notes)
        if len(found) == most:
            break
    return found


def _of(values: list[float]) -> str:
    mean, interval = mean_interval(values)
    return f"{mean:.2f}" if interval is None else f"{mean:.2f} ± {interval:.2f}"


def main() -> None:
    """Print the table of each model."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", required=True, help="a prepared set of groove-2")
    parser.add_argument("--split", default="test")
    parser.add_argument("--pieces", type=int, default=24)
    parser.add_argument("--models", nargs="+", required=True, help="by name or folder")
    given = parser.parse_args()
    pieces = held_out(given.data, given.split, given.pieces)
    print("nats a bar of a hidden part, mean with its 95 % interval", flush=True)
    print(f"over {len(pieces)} pieces")
    for name in given.models:
        model = load(name)
        if not isinstance(model.language, Groove2):
            parser.error(f"{name} speaks {model.language.name}; one that speaks groove-2 is wanted")
        values = np.array([read_losses(model, piece) for piece in pieces])
        lines = [[model.name, *GIVEN_AS]]
        for part, of in enumerate(PARTS):
            lines.append(
                [of, *(_of(values[:, part, kind].tolist()) for kind in range(len(GIVEN_AS)))]
            )
        print(markdown(lines), flush=True)


if __name__ == "__main__":
    main()
