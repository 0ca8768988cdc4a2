"""How much of what models write stands in the music that they learned from, as an experiment."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from evaluation.study.experiments import Experiment
from evaluation.study.form_and_infilling import estimates, held_out_piece, long_pieces, score_of
from evaluation.study.piece_jobs import Choice, Measure, Rows, model_of
from musicgen.continuation import Continuation
from musicgen.generation.request import Request
from musicgen.playable import Playable
from tokenization.prepared import Prepared

ALIKE = 0.5  # from which on half of all notes of two passages are the same
CASES = 10  # that are named


def originality(
    playables: Sequence[Playable], choice: Choice, *, prompt_bars: int, bars: int
) -> tuple[Experiment, dict[str, Any]]:
    """Return the experiment that continues pieces and looks for what is written in the training pieces."""
    from evaluation.metrics.originality import BARS

    if bars < BARS:
        raise ValueError(f"--bars is {bars}; passages of {BARS} bars are looked for")
    arguments = {"prompt_bars": prompt_bars, "bars": bars}
    return long_pieces(
        "originality",
        measure_originality,
        playables,
        choice,
        arguments,
        fewest_bars=prompt_bars + bars,
        table=without_cases,
    )


def without_cases(rows: Rows) -> Rows:
    """Return a row a measure."""
    return estimates([row for row in rows if "case" not in row])


def closest_cases(rows: Rows) -> Rows:
    """Return the passages written that are most like one of the training pieces, the closest first."""
    cases = [row["case"] | {"piece": row["piece"]} for row in rows if "case" in row]
    return sorted(cases, key=lambda case: -case["likeness"])[:CASES]


@lru_cache(maxsize=1)
def training_passages(data: str) -> Any:
    """Return the passages of the training pieces of a data set, in its own language."""
    from evaluation.metrics.originality import Collection

    prepared = Prepared.open(data)
    pieces = (held_out_piece(data, int(row), prepared.language) for row in prepared.rows("train"))
    found = Collection((piece.name, piece.score, piece.bars) for piece in pieces)
    if not len(found):
        raise ValueError(f"{data} has no training piece with notes enough")
    return found


def measure_originality(
    *, model: str, data: str, device: str, row: int, prompt_bars: int, bars: int, seed: int
) -> Measure:
    """Return how like the training pieces a continuation is, and the same bars of the piece are."""
    from evaluation.metrics.originality import passages

    loaded = model_of(model, device)
    piece = held_out_piece(data, row, loaded.language)
    work = Continuation(loaded, piece.prompt(prompt_bars), Request(bars=bars, seed=seed))
    yield [work]
    known, stop = training_passages(data), prompt_bars + bars
    likeness: dict[str, list[float]] = {}
    rows: Rows = []
    for side, score in {"written": score_of(work), "real": piece.score}.items():
        likeness[side] = []
        for bar, keys in passages(score, prompt_bars, stop):
            found = known.closest(keys)
            likeness[side].append(found.likeness)
            if side == "written":
                case = {"bar": bar, "likeness": found.likeness, "of": found.piece, "at": found.bar}
                rows.append({"piece": piece.name, "case": case})
    measures = {
        "closest passage": np.mean,
        "most of it alike": lambda values: np.mean(np.array(values) >= ALIKE),
        "the same": lambda values: np.mean(np.array(values) == 1),
    }
    for name, measure in measures.items():
        sides = {
            side: float(measure(values)) if values else None for side, values in likeness.items()
        }
        rows.append({"piece": piece.name, "measure": name, **sides})
    return rows
