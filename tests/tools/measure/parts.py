"""Measure continuations of music with many parts: python -m tests.tools.measure.parts SONGS BANDS MODEL ….

Parts of two bands join each of N validation songs (training/data/new_styles.py). The table has the loss of these
pieces in nats per token, and, for continuations by 16 bars of their first 8, the number of parts playing in a bar
relative to the prompt, and the fraction of bars with drums and with a bass. The last row has the pieces themselves.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import musicgen
from app import output
from evaluation.study.extrapolation import position_losses
from musicgen.playable import load
from tests.tools.options import options
from tokenization.analysis.parts import role
from tokenization.midi.writing import write_midi
from tokenization.prepared import Prepared
from tokenization.score import Score
from training.data.new_styles import one_metre, with_bands

PIECES, PROMPT, BARS = 14, 8, 16
EDGES = (0, 512, 1536, 3072)  # tokens
HEAD = ("model", *(f"{start}–{stop}" for start, stop in pairwise(EDGES)), "parts", "drums", "bass")


def pieces(songs: Prepared, bands: Prepared) -> list[Score]:
    """Return songs in 4/4 with parts of two bands each."""
    random = np.random.default_rng(30)

    def drawn(prepared: Prepared) -> list[Score]:
        rows = random.permutation(np.asarray(prepared.rows("validation"))).tolist()
        scores = (prepared.language.decode(np.asarray(prepared.ids(row), int)) for row in rows)
        return [score for score in scores if one_metre(score) == (4, 4) and len(score.notes)]

    chosen, others = drawn(songs)[:PIECES], drawn(bands)
    return [
        with_bands(song, others[2 * n : 2 * n + 2], np.random.default_rng(n))
        for n, song in enumerate(chosen)
    ]


def going_on(score: Score) -> list[float]:
    """Return how many parts play after the prompt, relative to it, and how often drums and a bass do."""
    bar = score.notes.onset_ticks // (4 * score.ticks_per_beat)
    tracks = [{*score.notes.track[bar == number].tolist()} for number in range(PROMPT + BARS)]
    drums, bass = (
        {n for n, track in enumerate(score.tracks) if role(track) == name}
        for name in ("drums", "bass")
    )
    before, after = tracks[:PROMPT], tracks[PROMPT:]
    parts = np.mean([len(playing) for playing in after]) / np.mean([len(one) for one in before])
    shares = (np.mean([bool(playing & role) for playing in after]) for role in (drums, bass))
    return [float(parts), *map(float, shares)]


def continued(score: Score, model: str) -> Score:
    """Return a continuation of the first bars of a score, by way of a MIDI file."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "prompt.mid"
        file.write_bytes(write_midi(score))
        return musicgen.load(model).continue_(file, prompt_bars=PROMPT, bars=BARS, seed=1)[0].score


def losses(score: Score, model: str) -> list[float]:
    """Return the mean loss of each range of tokens."""
    playable = load(model, "cpu")
    ids = playable.language.encode(score).ids[: EDGES[-1] + 1].astype(int)
    found = position_losses(playable.performer, ids, seed=0)
    return [float(found[start:stop].mean()) for start, stop in pairwise(EDGES)]


def main() -> None:
    given = options(__doc__, "song_set", "band_set", "models")
    chosen = pieces(Prepared.open(given.song_set), Prepared.open(given.band_set))
    rows: list[tuple[str, ...]] = [HEAD]
    for model in map(str, given.models):
        values = [losses(one, model) + going_on(continued(one, model)) for one in chosen]
        rows.append((model, *(f"{value:.3f}" for value in np.mean(values, 0))))
    own = np.mean([going_on(one) for one in chosen], 0)
    rows.append(("the pieces", *["–"] * (len(EDGES) - 1), *(f"{value:.3f}" for value in own)))
    output.write(output.table(rows))


if __name__ == "__main__":
    main()
