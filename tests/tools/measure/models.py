"""How well models of different languages predict the same music: nats a note, since their tokens are not the same.

python -m tests.tools.measure.models groove groove-2 --data data/groove-2 --pieces 8 --bars 32
"""

import argparse

import numpy as np

from musicgen.generation.likelihood import position_losses
from musicgen.loading import load
from tokenization.prepared import Prepared


def main() -> None:
    """Print each model's loss, and by how much it differs from the first one's, paired by piece."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("models", nargs="+")
    parser.add_argument("--data", required=True, help="a prepared data set")
    parser.add_argument("--split", default="validation")
    parser.add_argument("--pieces", type=int, default=8)
    parser.add_argument("--bars", type=int, default=32, help="of each piece, from its beginning")
    arguments = parser.parse_args()
    prepared = Prepared.open(arguments.data)
    reader = prepared.language
    rows = np.random.default_rng(0).permutation(prepared.rows(arguments.split))
    _, first = np.unique(prepared.pieces.file[rows], return_index=True)
    rows = rows[np.sort(first)][: arguments.pieces]
    found: list[np.ndarray] = []
    for name in arguments.models:
        model = load(name)
        losses = []
        for row in rows:
            score = reader.decode(np.asarray(prepared.ids(int(row))))
            ids = model.language.encode(model.language.arrange(score)).ids
            starts = model.language.bars(ids)
            ids = ids[: starts[arguments.bars]] if len(starts) > arguments.bars else ids
            notes = len(model.language.decode(model.language.close(ids)).notes)
            losses.append(position_losses(model.performer, ids, 0).sum() / notes)
        found.append(np.array(losses))
        told = f"{found[-1].mean():.3f} ± {found[-1].std(ddof=1):.3f} nats a note (n {len(rows)})"
        apart = found[-1] - found[0]
        error = apart.std(ddof=1) / len(rows) ** 0.5
        beside = f"; {apart.mean():+.3f} ± {error:.3f} beside {arguments.models[0]}"
        print(f"{name}: {told}{beside if len(found) > 1 else ''}", flush=True)


if __name__ == "__main__":
    main()
