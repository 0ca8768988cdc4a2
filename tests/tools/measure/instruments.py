"""Print the loss of pieces played on other instruments: python -m tests.tools.measure.instruments DATA MODEL ….

DATA is the folder with the sets of docs/data.md in the language `ensemble`. Each row has the mean loss of a set's
validation pieces in nats per token, within 512 tokens and from there to 1,536.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from app import output
from evaluation.study.extrapolation import position_losses
from musicgen.playable import load
from tests.tools.options import options
from tokenization.ensemble.sequences import with_parts
from tokenization.ensemble.tokens import PART_NAMES, PITCHED
from tokenization.prepared import Prepared

EDGES = (0, 512, 1536)  # tokens
# The instruments of a piece's pitched parts in order; the last one also plays all further parts.
INSTRUMENTS = {
    "quartets": ("", "voice", "lead", "alto_sax alto_sax tenor_sax", "flute oboe clarinet bassoon"),
    "lieder": ("", "flute nylon_guitar", "violin organ", "lead pad", "clarinet harp"),
    "polish-keyboard": ("", "harpsichord", "organ", "nylon_guitar", "flute cello"),
    "pop909": ("", "lead electric_guitar steel_guitar", "lead lead synth_bass", "flute strings organ"),
}  # fmt: skip


def on(instruments: str, parts: np.ndarray) -> np.ndarray:
    """Return the parts, (P,), on other instruments."""
    names, played = instruments.split(), parts.copy()
    for number, part in enumerate(np.flatnonzero(parts < PITCHED) if names else ()):
        played[part] = PART_NAMES.index(names[min(number, len(names) - 1)])
    return played


def main() -> None:
    given = options(__doc__, "data", "models", pieces=10)
    models = [load(str(model), "cpu") for model in given.models]
    rows = [("set", "instruments", *(model.name for model in given.models))]
    for folder, all_instruments in INSTRUMENTS.items():
        prepared = Prepared.open(given.data / folder)
        random = np.random.default_rng(5)
        chosen = random.permutation(np.asarray(prepared.rows("validation")))[: given.pieces]
        for instruments in all_instruments:
            values = []
            for row in chosen.tolist():
                ids = np.asarray(prepared.ids(row), dtype=np.int64)
                parts = prepared.language.sheet(ids).parts
                played = with_parts(ids, np.arange(len(parts)), on(instruments, parts))
                losses = [
                    position_losses(model.performer, played[: EDGES[-1] + 1], seed=0)
                    for model in models
                ]
                means = [one[start:stop].mean() for one in losses for start, stop in pairwise(EDGES)
                         if len(one) > start]  # fmt: skip
                if len(means) == len(models) * (len(EDGES) - 1):
                    values.append(means)
            label = instruments.replace("_", " ") or "its own"
            columns = np.mean(values, 0).reshape(len(models), -1)
            rows.append((folder, label, *(", ".join(f"{x:.3f}" for x in one) for one in columns)))
    output.write(output.table(rows))


if __name__ == "__main__":
    main()
