"""How far the last bar of a song should lean towards the tonic (tokenization/remi/goals.py).

OMP_NUM_THREADS=1 python -m tests.tools.fit.cadence pop-piano-2 --data data/pop909 --songs 120

Of songs the last bars are read, counted down to the end, and what a model expects of the last bar's chords is laid
beside what they are: on the tonic of the key of what was heard before, another chord, none. Weights by these kinds are
fitted on songs that the model learned from, and what they are worth is read on those that are held out.
"""

from __future__ import annotations

import argparse

import numpy as np
import torch
from torch import Tensor

from musicgen.loading import load
from musicgen.model.performer import Performer
from tokenization.analysis.chords import tonic
from tokenization.language import COUNTED
from tokenization.prepared import Prepared
from tokenization.remi.goals import (
    LEFT_1,
    NO_CHORD,
    OTHER,
    TONIC,
    bar_offsets,
    chord_kinds,
    ending,
    from_bar,
)
from tokenization.remi.language import Remi
from tokenization.remi.spelling import BAR, BEGIN, CHORD
from training.results.recall_fit import minimised

HEARD = 16  # bars before the countdown, whose key is taken
RIDGE = 1e-3  # of the squares of weights
Chords = tuple[Tensor, Tensor, Tensor]
"""Of N chords: the log of each chance (N, 133), the kinds of all in the key (N, 133), and which came (N,)."""


@torch.inference_mode()
def last_chords(model: Performer, speaks: Remi, ids: np.ndarray) -> Chords | None:
    """Read the last bars of a song; None where it is too short, or its last bar says no chord."""
    lines = bar_offsets(ids)
    bars = HEARD + COUNTED
    if len(lines) <= bars:
        return None
    counted = ending(np.concatenate([[BEGIN], from_bar(ids, int(lines[-1 - bars]))]), COUNTED)
    heard = speaks.decode(counted[: np.flatnonzero(counted == BAR)[HEARD]]).pitched
    places = np.flatnonzero(CHORD.holds(counted))
    places = places[places > np.flatnonzero(counted == LEFT_1)[0]]
    if not len(places) or not len(heard):
        return None
    state = model.start(torch.Generator().manual_seed(0))
    logits, _ = model.read(torch.from_numpy(counted[None]), state)
    chances = logits[0, places - 1, CHORD.start : CHORD.stop].float().log_softmax(1)
    kinds = torch.from_numpy(chord_kinds(tonic(heard.pitch, heard.duration_ticks)))
    return (
        chances,
        kinds.expand(len(places), -1),
        torch.from_numpy(counted[places] - CHORD.start),
    )


def losses(chords: Chords, weights: Tensor) -> Tensor:
    """Return the nats of each chord, biased by weights: (N,)."""
    chances, kinds, true = chords
    return -(chances + weights[kinds]).log_softmax(1).gather(1, true[:, None])[:, 0]


def fitted(chords: Chords) -> Tensor:
    """Return the weights that make chords likeliest, that of other chords being 0: (4,)."""

    def loss(weights: Tensor) -> Tensor:
        return losses(chords, weights).mean() + RIDGE * weights.square().sum()

    weights = minimised(loss, torch.zeros(4))
    return weights - weights[OTHER]


def main() -> None:
    """Fit, and print what the last chords are, what is expected of them, and what the bias is worth."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("model")
    parser.add_argument("--data", required=True, help="a prepared set of remi-2")
    parser.add_argument("--songs", type=int, default=120, help="that the model learned from")
    given = parser.parse_args()
    model, data = load(given.model), Prepared.open(given.data)
    if not isinstance(model.language, Remi) or not model.language.can_end():
        parser.error(
            f"{given.model} speaks {model.language.name}; one that speaks remi-2 is wanted"
        )
    learned = np.random.default_rng(0).permutation(data.rows("train"))[: given.songs]
    sets = []
    for rows in (learned, data.rows("validation")):
        pieces = (np.asarray(data.ids(int(row)), dtype=np.int64) for row in rows)
        found = [
            one for ids in pieces if (one := last_chords(model.performer, model.language, ids))
        ]
        sets.append(tuple(torch.cat(columns) for columns in zip(*found, strict=True)))
    weights = fitted(sets[0])
    for name, chords in zip(("learned from", "held out"), sets, strict=True):
        chances, kinds, true = chords
        came = kinds.gather(1, true[:, None])[:, 0]
        print(f"songs {name}: {len(true)} chords of last bars")
        for kind, of in ((TONIC, "on the tonic"), (NO_CHORD, "no chord")):
            expected = (chances.exp() * (kinds == kind)).sum(1).mean()
            print(f"  {of} {(came == kind).float().mean():.2f}, expected {expected:.2f}")
        alone, leant = losses(chords, torch.zeros(4)), losses(chords, weights)
        change = leant - alone
        error = 1.96 * change.std() / len(change) ** 0.5
        print(f"  {alone.mean():.2f} nats a chord, biased {change.mean():+.2f} ± {error:.2f}")
    print(f"weights: tonic {weights[TONIC]:.2f}, no chord {weights[NO_CHORD]:.2f}")


if __name__ == "__main__":
    main()
