"""Print the losses of compared runs on old and on new sets: python -m tests.tools.measure.losses FOLDER DATA.

FOLDER is what `musicgen compare … --seeds N` wrote, DATA has the sets of docs/data.md in the language `ensemble`. A
loss is that of the beginnings of validation pieces in nats per token, the mean of its sets. Changes are from the runs
named `…base` with the same seed, with 95 % intervals over the seeds (Student's t).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from app import output
from musicgen.playable import load
from tests.tools.options import options
from tokenization.intervals import mean_interval
from tokenization.prepared import Prepared
from training.data.batches import IGNORED, next_token_loss

SETS = {
    "old": ("pop909", "lieder", "quartets", "polish-keyboard", "groove", "human-drums"),
    "new": ("orchestra", "freedoom", "dance-tunes", "free-music", "open-hymnal", "madrigals"),
}


def beginnings(prepared: Prepared, pieces: int, length: int) -> torch.Tensor:
    """Return the beginnings of some validation pieces, (N, length + 1), IGNORED after their ends."""
    rows = np.random.default_rng(6).permutation(np.asarray(prepared.rows("validation")))[:pieces]
    found = np.full((len(rows), length + 1), IGNORED, np.int64)
    for place, row in zip(found, rows.tolist(), strict=True):
        ids = np.asarray(prepared.ids(row))[: length + 1]
        place[: len(ids)] = ids
    return torch.from_numpy(found)


@torch.inference_mode()
def losses(run: Path, sets: dict[str, list[torch.Tensor]]) -> list[float]:
    """Return the mean loss of each group of sets."""
    model = load(str(run / "model"), "cpu").performer
    found = []
    for group in sets.values():
        means = []
        for tokens in group:
            code = model.begin(torch.Generator().manual_seed(0))
            logits = model(tokens[:, :-1].clamp(min=0), code)
            means.append(next_token_loss(logits, tokens[:, 1:]).sum() / (tokens[:, 1:] >= 0).sum())
        found.append(float(torch.stack(means).mean()))
    return found


def main() -> None:
    given = options(__doc__, "folder", "data", pieces=6, length=512)
    sets = {
        group: [beginnings(Prepared.open(given.data / name), given.pieces, given.length) for name in names]
        for group, names in SETS.items()
    }  # fmt: skip
    runs = sorted(path.parent for path in given.folder.glob("*/seed-*/model"))
    found = {(run.parent.name, run.name): np.array(losses(run, sets)) for run in runs}
    pieces = {group: sum(map(len, tensors)) for group, tensors in sets.items()}
    rows = [("run", "seeds", *(f"{group}, n {n}, {what}" for group, n in pieces.items()
                               for what in ("loss", "change")))]  # fmt: skip
    for name in dict.fromkeys(name for name, _ in found):
        seeds = [seed for other, seed in found if other == name]
        pairs = [
            (found[name, seed], found[base, seed])
            for seed in seeds
            for base in dict.fromkeys(other for other, _ in found if other.endswith("base"))
            if (base, seed) in found
        ]
        cells = []
        for group in range(len(sets)):
            mean, _ = mean_interval([float(found[name, seed][group]) for seed in seeds])
            change, width = mean_interval([float((own - base)[group]) for own, base in pairs])
            cells += [f"{mean:.3f}", f"{change:+.3f} ± {'–' if width is None else f'{width:.3f}'}"]
        rows.append((name, str(len(seeds)), *cells))
    output.write(output.table(rows))


if __name__ == "__main__":
    main()
