"""Measure how freely a model is best sampled: python -m tests.tools.measure.sampling MODEL DATA.

Held-out pieces of a prepared set are continued at each temperature, top-p and min-p, and statistics of the music are
laid beside those of what really follows there. The distance is Wasserstein's, in standard deviations of the real
pieces, as the mean over the statistics: by it alone no music is good, but a setting far from all others is bad.
Beside them: how like the prompt the second half of the new bars is (the mean of the style profiles' cosines), how many
bars return to one at least 4 before, and how often a bar changes its chord.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from statistics import mean

import numpy as np

from evaluation.metrics.estimates import mean as average
from evaluation.metrics.form import form
from evaluation.metrics.statistics import distances, statistics
from evaluation.metrics.style import ALL, profiles, similarities
from musicgen.continuation import Continuation, together
from musicgen.generation.request import Request
from musicgen.generation.sampling import Sampling
from musicgen.pieces import Piece
from musicgen.playable import Playable, load
from tokenization.language import Encoded, Language
from tokenization.prepared import Prepared
from tokenization.score import Score, excerpt

NAMES = ("pitch_class_entropy", "groove_consistency", "polyphony", "notes_a_bar", "note_length",
         "repeated_bar_share", "empty_bar_share", "likeness", "returns", "changes")  # fmt: skip
TITLES = ("pitch-class entropy", "groove consistency", "polyphony", "notes a bar", "note length",
          "repeated bars", "empty bars", "likeness", "returns", "chord changes")  # fmt: skip
REAL_PIECES = 64  # that the models' few are laid beside
Described = dict[str, float | None]


def held_out(data: Prepared, language: Language, least_bars: int) -> Iterator[Piece]:
    """Yield a piece of each held-out file that is long enough, in an order that is no order of names."""
    rows = data.rows("validation")
    first = rows[np.unique(data.pieces.file[rows], return_index=True)[1]]
    for row in np.random.default_rng(0).permutation(first):
        ids, bars = np.array(data.ids(row)), data.bars(row)
        if len(bars) >= least_bars:
            encoded = Encoded(ids=ids, bars=bars, notes=int(data.pieces.notes[row]))
            yield Piece(
                name=data.name(row), language=language, encoded=encoded, score=language.decode(ids)
            )


def described(score: Score, prompt_bars: int, bars: int) -> Described:
    """Return the statistics of so many bars of music after a prompt, in one score in 4/4 with it."""
    bar_ticks = 4 * score.ticks_per_beat
    end = (prompt_bars + bars) * bar_ticks
    new = excerpt(score, prompt_bars * bar_ticks, end)
    begun = np.unique(new.notes.onset_ticks // bar_ticks)
    style = profiles(excerpt(score, 0, prompt_bars * bar_ticks), ALL)
    later = profiles(excerpt(score, (prompt_bars + bars // 2) * bar_ticks, end), ALL)
    found = {
        **statistics(new),
        **form(score, prompt_bars, prompt_bars + bars),
        "empty_bar_share": 1 - len(begun) / bars,
        "likeness": average([*similarities(style, later).values()]),
    }
    return {name: found[name] for name in NAMES}


def continued(
    model: Playable, pieces: Sequence[Piece], prompt_bars: int, bars: int, how: Sampling
) -> list[Described]:
    """Return the statistics of what a model follows each prompt by."""
    works = [
        Continuation(model, piece.prompt(prompt_bars), Request(bars=bars, sampling=how))
        for piece in pieces
    ]
    for _ in together(works):
        pass
    return [described(work.takes()[0].score, prompt_bars, bars) for work in works]


def line(title: str, found: Sequence[Described], real: Sequence[Described]) -> list[str]:
    """Return the means of the statistics, and how far they are from the real ones."""
    compared = distances(found, real)
    means = ["–" if c.outputs.mean is None else f"{c.outputs.mean:.3f}" for c in compared]
    apart = [c.in_deviations for c in compared if c.in_deviations is not None]
    return [title, *means, f"{mean(apart):.2f}" if apart else "–"]


def say(title: str, *cells: str) -> None:
    """Print a line as soon as it is known: it may take a minute."""
    columns = zip(cells, (*TITLES, "distance"), strict=True)
    print(f"{title:60}", *(cell.rjust(len(name)) for cell, name in columns), sep="  ", flush=True)


def main(words: Sequence[str] | None = None) -> None:
    """Print a line a setting, below that of the real pieces."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("data", type=Path, help="a prepared data set of the model's language")
    parser.add_argument("--prompts", type=int, default=8)
    parser.add_argument("--prompt-bars", type=int, default=4)
    parser.add_argument("--bars", type=int, default=8, help="to write")
    parser.add_argument("--temperatures", type=float, nargs="+", default=[0.8, 0.9, 1.0])
    parser.add_argument("--top-p", type=float, nargs="+", default=[0.9, 1.0])
    parser.add_argument("--min-p", type=float, nargs="+", default=[0.0, 0.1])
    parser.add_argument("--recall", type=float, nargs="+", default=[0.0])
    parser.add_argument(
        "--by-kind",
        choices=["no", "yes", "both"],
        default="no",
        help="whether temperature and limits hold within kinds of tokens (default: no)",
    )
    given = parser.parse_args(words)
    model, data = load(given.model, "cpu"), Prepared.open(given.data)
    speaks = data.language
    if speaks.name != model.language.name:
        parser.error(f"{given.data} is in {speaks.name}, but {model.name} speaks another language")
    found = list(held_out(data, speaks, given.prompt_bars + given.bars))[:REAL_PIECES]
    real = [described(piece.score, given.prompt_bars, given.bars) for piece in found]
    print(f"{model.name}: {given.bars} bars after each of {len(found[: given.prompts])} prompts")
    say("", *TITLES, "distance")
    say(*line(f"real pieces (n = {len(real)})", real, real))
    kinds = {"no": [False], "yes": [True], "both": [False, True]}[given.by_kind]
    settings = product(given.temperatures, given.top_p, given.min_p, given.recall, kinds)
    for temperature, top_p, min_p, recall, by_kind in settings:
        how = Sampling(
            temperature=temperature, top_p=top_p, min_p=min_p, recall=recall, by_kind=by_kind
        )
        outputs = continued(model, found[: given.prompts], given.prompt_bars, given.bars, how)
        title = f"temperature {temperature:g}, top-p {top_p:g}, min-p {min_p:g}, recall {recall:g}"
        title += ", by kind" * by_kind
        say(*line(title, outputs, real))


if __name__ == "__main__":
    main()
