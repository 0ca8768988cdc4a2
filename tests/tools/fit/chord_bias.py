"""How far a drawn part should lean towards the chords that it is told (tokenization/groove_2/goals.py).

OMP_NUM_THREADS=1 python -m tests.tools.fit.chord_bias groove-2 --data data/groove-2 --pieces 48

Of held-out pieces a pitched part is hidden, and its true notes are read beside the others with their chords told. Among
the notes of the part that the model could say there, weights by what the chord makes of them are fitted on one half of
the pieces, and what they are worth is read on the other.
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from musicgen.common.intervals import mean_interval
from musicgen.generation.likelihood import WINDOW
from musicgen.loading import load
from musicgen.model.performer import Performer
from tests.tools.measure.accompaniment import BARS, first_bars, held_out, written
from tokenization.analysis.chords import PITCH_CLASSES, TONES
from tokenization.groove.spelling import BASS, DRUMS, NOTE_ON, OTHER, PARTS, PITCHES
from tokenization.groove_2 import goals
from tokenization.groove_2.language import Groove2
from tokenization.groove_2.spelling import CHORD, ROOT
from tokenization.score import Notes
from tokenization.wording import markdown
from training.results.recall_fit import minimised

RIDGE = 1e-4  # of the squares of weights, so that those of what never comes stay small


class Heard(NamedTuple):
    """The N notes of a part in one piece."""

    chances: Tensor  # (N, P) log of each pitch's, among the part's
    kind: Tensor  # (N, P) what the chord that stands makes of a pitch
    true: Tensor  # (N,) pitches


@torch.inference_mode()
def held_out_of(model: Performer, piece: Notes, part: int) -> Heard | None:
    """Read a part of a piece; None where none of its notes stands by a chord."""
    others = [track for track in (BASS, DRUMS, OTHER) if track != part]
    ids = goals.accompaniment(first_bars(piece, BARS), others)
    at = np.maximum.accumulate(np.arange(len(ids)) * (ids >= CHORD.start))
    stands, key = ids[at], NOTE_ON.start + part * PITCHES
    counts = written(ids) & (ids >= key) & (ids < key + PITCHES) & (stands >= CHORD.start)
    counts &= stands != CHORD.start + len(TONES) - 1  # no chord
    places = np.flatnonzero(counts)
    if not len(places):
        return None
    state, read = model.start(torch.Generator().manual_seed(0)), []
    for start in range(0, len(ids) - 1, WINDOW):
        tokens = torch.from_numpy(ids[None, start : start + WINDOW].astype(np.int64))
        logits, state = model.read(tokens, state)
        read.append(logits[0].float())
    logits = torch.cat(read)[places - 1, key : key + PITCHES]
    kinds = torch.from_numpy(np.stack([kinds_by(int(goal)) for goal in stands[places]]))
    return Heard(logits.log_softmax(1), kinds, torch.from_numpy(ids[places] - key).long())


def kinds_by(goal: int) -> np.ndarray:
    """Return what each pitch is to a chord, a tone of it or not, or how far above a root: (P,)."""
    classes = np.arange(PITCHES) % PITCH_CLASSES
    if CHORD.holds(np.array([goal]))[0]:
        return TONES[goal - CHORD.start][classes].astype(np.int64)
    return (classes - (goal - ROOT.start)) % PITCH_CLASSES


def losses(heard: Heard, weights: Tensor) -> Tensor:
    """Return the nats of each note, biased by weights: (N,)."""
    leant = (heard.chances + weights[heard.kind]).log_softmax(1)
    return -leant.gather(1, heard.true[:, None])[:, 0]


def fitted(pieces: list[Heard]) -> Tensor:
    """Return the weights that make notes likeliest, less their mean: (12,)."""
    whole = Heard(*(torch.cat(columns) for columns in zip(*pieces, strict=True)))

    def loss(weights: Tensor) -> Tensor:
        return losses(whole, weights).mean() + RIDGE * weights.square().sum()

    return minimised(loss, torch.zeros(PITCH_CLASSES))


def main() -> None:
    """Fit on halves, and print what it is worth on the others, and the weights of all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("model")
    parser.add_argument("--data", required=True, help="a prepared set of groove-2")
    parser.add_argument("--split", default="validation")
    parser.add_argument("--pieces", type=int, default=48)
    given = parser.parse_args()
    model = load(given.model)
    if not isinstance(model.language, Groove2):
        parser.error(
            f"{given.model} speaks {model.language.name}; one that speaks groove-2 is wanted"
        )
    pieces = held_out(given.data, given.split, given.pieces)
    lines = [["part", "pieces", "nats a note", "biased: change"]]
    of_all = {}
    for part in (BASS, OTHER):
        heard = [one for piece in pieces if (one := held_out_of(model.performer, piece, part))]
        halves = [fitted(heard[1::2]), fitted(heard[::2])]
        alone = [float(losses(one, torch.zeros(PITCH_CLASSES)).mean()) for one in heard]
        leant = [float(losses(one, halves[n % 2]).mean()) for n, one in enumerate(heard)]
        (mean, spread), (change, interval) = (
            mean_interval(values) for values in (alone, np.subtract(leant, alone).tolist())
        )
        lines.append([PARTS[part], str(len(heard)), f"{mean:.2f} ± {spread or 0:.2f}",
                      f"{change:+.2f} ± {interval or 0:.2f}"])  # fmt: skip
        of_all[part] = fitted(heard)
    print(markdown(lines))
    print(f"a tone of the chord, for the bass: {of_all[BASS][1] - of_all[BASS][0]:.2f}")
    print("above the root, for the other part:", of_all[OTHER].numpy().round(1).tolist())


if __name__ == "__main__":
    main()
