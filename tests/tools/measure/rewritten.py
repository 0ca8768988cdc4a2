"""Leaves out a kind of part of given files, lets models write it again, and compares both: a table for drums or basses.

The first bars of each file are accompanied as `musicgen accompany --write drums` does, and with `--free`; the file's
own part is measured, too, if it has one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from evaluation.metrics.estimates import estimate
from evaluation.study.accompaniment import cut_bars
from musicgen.completion import Completion, accompaniment
from musicgen.continuation import run_together
from musicgen.generation.request import Request
from musicgen.pieces import piece_of
from musicgen.playable import load
from tests.tools.options import options
from tokenization.analysis.parts import role
from tokenization.ensemble.language import Ensemble
from tokenization.ensemble.spelling import Sheet
from tokenization.formats import read_file
from tokenization.score import Score

OWN, FREE, PROMISED = WAYS = "its own", "with --free", "as promised"
Measures = Mapping[str, float | None]


def without(score: Score, kind: str) -> Score:
    """Return a score without the tracks of a role: bass, drums or other."""
    kept = [track for track, one in enumerate(score.tracks) if role(one) != kind]
    place = np.full(len(score.tracks), -1)
    place[kept] = np.arange(len(kept))
    notes = score.notes[place[score.notes.track] >= 0]
    return score.replace(
        notes=notes.replace(track=place[notes.track]),
        tracks=tuple(score.tracks[one] for one in kept),
    )


def compare(
    doc: str | None, kind: str, titles: Sequence[str], of: Callable[[Sheet], Measures]
) -> int:
    """Measure parts of a role in all ways on the files that the command line names, and print a table."""
    given = options(doc, "files", bars=16, model="ensemble")
    model = load(given.model)
    language = model.language
    assert isinstance(language, Ensemble), f"{given.model} does not use the language ensemble"
    rows: dict[str, list[Measures]] = {way: [] for way in WAYS}
    works: list[tuple[str, str, Completion]] = []

    def add(name: str, way: str, found: Measures) -> None:
        rows[way].append(found)
        print(f"{name[:30]:<32}{way:<13}" + "".join(_cell(found[one]) for one in titles))

    for path in given.files:
        arranged = language.arrange(
            read_file(path.read_bytes(), name=path.name, suffix=path.suffix)
        )
        score = cut_bars(arranged, given.bars) or arranged
        rest = without(score, kind)
        if not len(rest.notes):
            continue
        if len(rest.notes) < len(score.notes):
            add(path.stem, OWN, of(language.sheet(language.encode(score).ids)))
        piece = piece_of(language, rest, path.name)
        works += [
            (path.stem, way, accompaniment(model, piece, [kind], Request(seed=1, free=way == FREE)))
            for way in (FREE, PROMISED)
        ]
    for _ in run_together([work for *_, work in works]):
        pass
    for name, way, work in works:
        work.check()
        add(name, way, of(language.sheet(work.goal.whole(work.sequences()[0]))))
    for title in titles:
        print(f"\n{title}")
        for way, found in rows.items():
            one = estimate(row[title] for row in found)
            if one["low"] is not None:
                print(
                    f"  {way:<13}{one['mean']:.2f} [{one['low']:.2f}, {one['high']:.2f}] (n {one['n']})"
                )
    return 0


def _cell(value: float | None) -> str:
    return "     –" if value is None else f"{value:6.2f}"
