"""Counts endings that hold a tonic chord: python -m tests.tools.measure.endings FILE… --takes 3

Each file is ended by four bars, as `musicgen end` does, and with `--free`. Counted are takes in whose last bar every
part attacks the downbeat alone and holds its notes for most of the bar; takes whose lowest note there is the tonic of
the key (of the file's key signature if its notes fit that, else the most probable one); and the fraction of the parts
of the two bars before that play in it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from evaluation.metrics.estimates import estimate
from musicgen import Take
from musicgen.playable import Playable, load
from tests.tools.options import options
from tokenization.analysis.metres import bar_count, bar_lines
from tokenization.ensemble.beginning import key_of

BARS = 4


def signs(model: Playable, take: Take, tonic: int) -> tuple[bool, bool, float]:
    """Return whether the last chord is held, whether its bass is the tonic, and the fraction of parts in it."""
    score = take.score
    lines = bar_lines(score, bar_count(score))
    start, stop = lines[-2:]
    notes, drums = score.notes, score.on_drums
    last = (notes.onset_ticks >= start) & ~drums
    held = (notes.onset_ticks[last] == start) & (
        4 * notes.duration_ticks[last] >= 3 * (stop - start)
    )
    hits = notes.onset_ticks[(notes.onset_ticks >= start) & drums]
    before = np.unique(notes.track[(notes.onset_ticks >= lines[-4]) & (notes.onset_ticks < start)])
    playing = np.unique(notes.track[notes.onset_ticks >= start])
    whole = bool(last.any() and held.all() and (hits == start).all())
    bass = bool(last.any() and notes.pitch[last].min() % 12 == tonic)
    return whole, bass, len(np.intersect1d(before, playing)) / max(len(before), 1)


def main() -> int:
    """Measure both ways, and print a table."""
    given = options(__doc__, "files", takes=3, model="ensemble")
    model = load(given.model)
    print(f"{'takes':<24}{'n':>5}{'held':>22}{'on the tonic':>22}{'parts':>8}")
    for name, free in (("with --free", True), ("as promised", False)):
        found = []
        for path in given.files:
            piece = model.read(Path(path))
            tonic = key_of(model.language.sheet(piece.encoded.ids), piece.score.key_signature)
            assert tonic is not None, f"{path} has no pitched notes"
            for take in model.continue_(
                piece, bars=BARS, ends=True, variations=given.takes, free=free
            ):
                found.append(signs(model, take, tonic % 12))
        held, bass, parts = np.array(found, float).T
        cells = "".join(f"{_share(x):>22}" for x in (held, bass))
        print(f"{name:<24}{len(found):>5}{cells}{parts.mean():>8.2f}")
    return 0


def _share(hits: np.ndarray) -> str:
    """Return a count with Wilson's 95 % interval."""
    found = estimate(hits.tolist(), shares=True)
    return f"{int(hits.sum())} [{found['low']:.2f}, {found['high']:.2f}]"


if __name__ == "__main__":
    sys.exit(main())
