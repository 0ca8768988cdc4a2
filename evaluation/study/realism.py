"""How well bars that models write are told from those of real pieces, as an experiment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evaluation.metrics.telling_apart import telling
from evaluation.study.experiments import Experiment, taking_part
from evaluation.study.form_and_infilling import held_out_piece, long_pieces, score_of
from evaluation.study.piece_jobs import Choice, Measure, model_of
from musicgen.continuation import Continuation
from musicgen.generation.request import Options
from musicgen.playable import Playable

WINDOW = 8  # bars


def realism(
    playables: Sequence[Playable], choice: Choice, *, prompt_bars: int, bars: int
) -> tuple[Experiment, dict[str, Any]]:
    """Return the experiment that continues pieces and has what is written told from the same bars of them."""
    if bars < WINDOW:
        raise ValueError(f"--bars is {bars}; {WINDOW} or more are told apart, {WINDOW} at a time")
    language = choice.prepared.language
    able = [model for model in playables if model.language.name == language.name]
    left_out = taking_part(able, playables, "realism", language.name)
    arguments = {"prompt_bars": prompt_bars, "bars": bars}
    return long_pieces(
        measure_realism,
        able,
        choice,
        arguments,
        left_out,
        fewest_bars=prompt_bars + bars,
        table=telling,
    )


def measure_realism(
    *, model: str, data: str, device: str, row: int, prompt_bars: int, bars: int, seed: int
) -> Measure:
    """Return the statistics of a continuation's windows and of the same bars of the piece; silent ones are left out."""
    from evaluation.metrics.window import statistics

    loaded = model_of(model, device)
    piece = held_out_piece(data, row, loaded.language)
    work = Continuation(loaded, piece.prompt(prompt_bars), Options(bars=bars, seed=seed))
    yield [work]
    sides = {"written": score_of(work), "real": piece.score}
    found = []
    for start in range(prompt_bars, prompt_bars + bars - WINDOW + 1, WINDOW):
        for side, score in sides.items():
            measured = statistics(score, start, start + WINDOW)
            if measured is not None:
                about = {"piece": piece.name, "side": side, "bar": start}
                found.append({**about, "statistics": measured})
    return found
