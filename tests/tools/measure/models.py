"""How well models of different languages predict the same notes: nats a note, since their tokens are not the same.

python -m tests.tools.measure.models groove ensemble --data data/groove --split test --pieces 16

All models read the notes that the first one's language keeps of a piece, up to some bar.
"""

import numpy as np

from musicgen.common.intervals import mean_interval
from musicgen.generation.likelihood import position_losses
from musicgen.playable import load
from tests.tools.options import options
from tokenization.language import Language
from tokenization.prepared import Prepared
from tokenization.score import Score


def heard(language: Language, score: Score) -> Score:
    """Return the music that a language keeps of a score."""
    encoded = language.encode(language.arrange(score))
    return language.decode(encoded.ids, encoded.setting)


def main() -> None:
    """Print each model's loss, and by how much it differs from the first one's, paired by piece."""
    given = options(__doc__, "models", data="", split="validation", pieces=8, bars=32)
    names = [*map(str, given.models)]
    prepared = Prepared.open(given.data)
    rows = np.random.default_rng(0).permutation(prepared.rows(given.split))
    _, first = np.unique(prepared.pieces.file[rows], return_index=True)
    rows = rows[np.sort(first)][: given.pieces]
    scores = [prepared.language.decode(np.asarray(prepared.ids(int(row)))) for row in rows]
    scores = [heard(load(names[0]).language, score) for score in scores]
    found: list[np.ndarray] = []
    for name in names:
        model = load(name)
        losses = []
        for score in scores:
            ids = model.language.encode(model.language.arrange(score)).ids
            starts = model.language.bars(ids)
            ids = ids[: starts[given.bars]] if len(starts) > given.bars else ids
            notes = len(model.language.decode(model.language.close(ids)).notes)
            losses.append(position_losses(model.performer, ids, 0).sum() / notes)
        found.append(np.array(losses))
        told = f"{found[-1].mean():.3f} ± {found[-1].std(ddof=1):.3f} nats a note (n {len(rows)})"
        apart = found[-1] - found[0]
        mean, half = mean_interval(apart.tolist())
        low, high = mean - (half or 0), mean + (half or 0)
        beside = f"; {mean:+.3f} [{low:+.3f}, {high:+.3f}] against {names[0]}"
        print(f"{name}: {told}{beside if len(found) > 1 else ''}", flush=True)


if __name__ == "__main__":
    main()
