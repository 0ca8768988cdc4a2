"""Compares the kernel with torch on validation pieces: losses in nats per token, by set and length.

    python -m tests.tools.kernel data/pop909 data/lieder --pieces 6

Both get the same noise of the encoding and the same guesses of recall. The difference is that of 16-bit activations.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch

from musicgen.kernel.network import KernelNetwork
from musicgen.playable import load
from tests.musicgen.kernel.test_network import code_of
from tests.musicgen.toys import kernel_logits
from tokenization.prepared import Prepared

SEED = 11


def losses(logits: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Return the loss of each token but the first."""
    scores = torch.from_numpy(logits[:-1].astype(np.float64)).log_softmax(-1).numpy()
    return -scores[np.arange(len(ids) - 1), ids[1:]]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", nargs="+", type=Path)
    parser.add_argument("--model", default="ensemble")
    parser.add_argument("--lengths", nargs="+", type=int, default=[512, 2048, 6144])
    parser.add_argument("--pieces", type=int, default=4, help="of each set and length (default: 4)")
    given = parser.parse_args()
    torch.set_num_threads(1)
    model = load(given.model)
    network, performer = model.network, model.performer
    assert isinstance(network, KernelNetwork), "the kernel does not know this model"
    rows = []
    for folder in given.data:
        data = Prepared.open(folder)
        for length in given.lengths:
            found = []
            for row in data.rows("validation"):
                ids = np.asarray(data.ids(row), np.int64)[:length]
                if len(ids) == length and len(found) < given.pieces:
                    found.append(difference(network, performer, ids))
            if found:
                kernel, floats = np.mean(found, 0)
                worst = np.abs(np.diff(found)).max()
                rows.append([folder.name, length, len(found), f"{kernel:.4f}", f"{floats:.4f}",
                             f"{kernel - floats:+.5f}", f"{worst:.5f}"])  # fmt: skip
                print(*rows[-1], sep="\t", flush=True)


def difference(
    network: KernelNetwork, performer: torch.nn.Module, ids: np.ndarray
) -> tuple[float, float]:
    """Return the losses of a piece by the kernel and by torch."""
    guesses = performer.recall.begin().take(ids) if performer.recall is not None else None
    state = network.begin(SEED)
    ours = kernel_logits(network, state, ids, guesses)
    with torch.inference_mode():
        start = performer._start(code_of(network.begin(SEED), performer))
        theirs = performer.extend(torch.from_numpy(ids)[None], start)[0][0].numpy()
    return float(losses(ours, ids).mean()), float(losses(theirs, ids).mean())


if __name__ == "__main__":
    main()
