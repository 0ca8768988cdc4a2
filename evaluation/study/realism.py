"""Realism: how well critics tell generated bars from real ones.

The critics learn from pieces of the training split, the real bars after the first ones and a continuation of these, and
judge pieces that neither they nor the model have seen. Both sides are decoded from tokens, so they are quantised alike,
and their windows are at the same bars. A piece, or a take, is judged by the mean over its windows. AUC 1: perfect
separation; 0.5: chance. The 95 % interval is a percentile bootstrap over the judged pieces, if there are enough.

The control does the same without generated music: critics learn to tell one half of the real training pieces from the
other, and judge halves of the real judged pieces, for several divisions. Its mean has to be near 0.5.

With several takes of each piece, what users are shown is judged as well: the best of 2, 4, …, which the model's own
critic chooses while they are written (musicgen/critic.py). It has learned from the other half of the training pieces,
and is of another family.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from evaluation.study.critics import Judge, Windows, boosting, linear, network, roll
from evaluation.study.experiments import Experiment, job_of, models_for_language
from evaluation.study.piece_jobs import Choice, Measure, continued, draw_pieces
from evaluation.study.selection import best_and_worst, ranked, scores_of
from musicgen.playable import Playable
from tokenization.analysis.statistics import GROUPS, LOUDNESS, WINDOW, Measured
from tokenization.wording import counted

SPARE = 4  # bars that a piece must have after those compared, so that these are not its ending
RESAMPLES = 400  # of pieces, for an interval
FEWEST_PIECES = 6  # of an interval; the bootstrap of fewer is far too narrow
DIVISIONS = 16  # into halves, for the control
FAMILIES = "statistics, boosting", "rolls, network"
LINEAR = "statistics, linear"  # akin to the model's critic, so it does not judge what that one has chosen
BEST = 8  # single statistics to report
SEED = 0
SHOWN = 1 << 10  # takes that are the best of N have the numbers from SHOWN · N on
Rows = list[dict[str, Any]]


def draw_takes(*, row: int, draw: int = 1, **how: Any) -> Measure:
    """Return the new tokens of each take of the continuation of a piece's first bars (`continued`)."""
    _, work = continued(row=row, draw=draw, **how)
    yield [work]
    work.check()
    kept = enumerate(work.kept(work.sequences()), SHOWN * draw if draw > 1 else 0)
    return [{"row": row, "take": number, "ids": work.job.rows[one][:]} for number, one in kept]


def realism(
    playables: Sequence[Playable],
    choice: Choice,
    *,
    lessons: int,
    bars: int,
    prompt_bars: int,
    takes: int,
    **how: Any,
) -> Experiment:
    """Return the experiment whose critics learn from `lessons` pieces of the training split and judge those chosen."""
    if bars < WINDOW:
        raise ValueError(f"--bars is {bars}; it must be {WINDOW} or more, the length of a window")
    prepared = choice.prepared
    able, left_out = models_for_language(playables, prepared.language.name, "realism")
    choice.check_split()
    fewest = prompt_bars + bars + SPARE
    taught = lessons_of(choice, fewest, for_selection=False)
    learned = taught[:lessons]
    # Of the training split, only pieces from which no critic can learn.
    judged = [row for row in _rows(choice, fewest) if row not in taught][: choice.pieces]
    if len(learned) < 2 or not judged:
        raise ValueError(
            f"{choice.data} has too few pieces of {counted(fewest, 'bar')} in its training split or in "
            f"{choice.place}; ask for fewer bars"
        )
    best_of = [1 << power for power in range(1, takes.bit_length())]
    asked = {"prompt_bars": prompt_bars, "bars": bars, **how, "seed": choice.seed}
    jobs = [
        job_of(playable, draw_takes, choice.device, prepared, **asked, **drawn, row=row)
        for playable in able
        for rows, drawn in (
            (learned, {"takes": 1}),
            (judged, {"takes": takes}),
            *((judged, {"draw": each, "takes": 2 * takes // each}) for each in best_of),
        )
        for row in rows
    ]

    def compose(playable: Playable, results: list[Rows]) -> Rows:
        drawn = [take for result in results for take in result]
        windows, names = windows_of(playable, choice.data, drawn, prompt_bars, bars)
        is_learned = np.isin(windows.piece, learned)
        of_judged = [take for take in drawn if take["row"] in judged and take["take"] < SHOWN]
        found = ranked(playable, choice.data, of_judged, prompt_bars, bars)
        table = judged_table(windows[is_learned], windows[~is_learned], names)
        return [{"model": playable.name, "table": table, "choices": best_and_worst(found)}]

    facts = {
        **choice.facts(len(judged)),
        "left_out": left_out,
        "lessons": len(learned),
        **asked,
        "takes": takes,
    }
    return Experiment(jobs=jobs, compose=compose, prepared=prepared, facts=facts)


def lessons_of(choice: Choice, fewest_bars: int, *, for_selection: bool) -> list[int]:
    """Return the rows of the training pieces for critics that judge, or of the other half, for critics that select."""
    rows = _rows(replace(choice, split="train", skip=0), fewest_bars)
    return [row for row in rows if choice.prepared.teaches(row) == for_selection]


def _rows(choice: Choice, fewest_bars: int) -> list[int]:
    """Return the rows of the pieces of a choice, in the order in which they are used."""
    rows, places = draw_pieces(choice, np.random.default_rng(choice.seed), fewest_bars=fewest_bars)
    return rows[places].tolist()


def windows_of(
    playable: Playable,
    data: str,
    drawn: Sequence[Mapping[str, Any]],
    prompt_bars: int,
    bars: int,
) -> tuple[Windows, list[str]]:
    """Return the windows of takes and of the pieces that they were drawn from, and the names of their statistics."""
    found: list[dict[str, float]] = []
    rest: list[tuple[np.ndarray, int, int, int]] = []
    for row, number, _, score in scores_of(playable, data, drawn, prompt_bars, bars):
        measured = Measured(score, prompt_bars + bars)
        for start in range(prompt_bars, prompt_bars + bars - WINDOW + 1, WINDOW):
            statistics = measured.statistics(start, start + WINDOW, prompt_bars)
            if statistics is not None:
                found.append(statistics)
                rest.append((roll(measured.excerpt(start, start + WINDOW)), row, number, start))
    names = sorted({name for one in found for name in one})
    values = [[one.get(name, np.nan) for name in names] for one in found]
    rolls, *columns = zip(*rest, strict=True)
    piece, take, bar = map(np.array, columns)
    return Windows(
        values=np.array(values, np.float32), rolls=np.stack(rolls), piece=piece, take=take, bar=bar
    ), names


def judged_table(learned: Windows, judged: Windows, names: Sequence[str]) -> Rows:
    """Return how well each critic separates the judged windows, the control, and what gives the music away."""
    every_take, judged = judged, judged[judged.take < SHOWN]
    every = np.ones(len(names), bool)
    group = np.array([name.split(":")[0] for name in names])
    about_loudness = np.array([LOUDNESS in name for name in names], bool)
    judges: dict[str, Judge] = {
        FAMILIES[0]: boosting(learned, learned.written, every),
        FAMILIES[1]: network(learned, learned.written),
        LINEAR: linear(learned, learned.written, every),
        "without loudness": boosting(learned, learned.written, ~about_loudness),
    }
    table = [_row(name, judged, judge(judged)) for name, judge in judges.items()]
    for name, learning in (("", boosting), (", linear", linear)):
        table.append(
            {"measure": f"control{name}: real halves", **_control(learned, judged, learning, every)}
        )
    best_of = every_take.take // SHOWN
    for each in np.unique(best_of[best_of > 0]).tolist():
        shown = every_take[(every_take.take < 0) | (best_of == each)]
        table += [_row(f"best of {each}: {one}", shown, judges[one](shown)) for one in FAMILIES]
    varies = np.nanmax(learned.values, axis=0, initial=-np.inf) > np.nanmin(
        learned.values, axis=0, initial=np.inf
    )
    for one in GROUPS:
        if (varies & (group == one)).any():
            judge = boosting(learned, learned.written, group == one)
            table.append(_row(f"only {one}", judged, judge(judged)))
    single = [
        _single(name, judged, column) for name, column in zip(names, judged.values.T, strict=True)
    ]
    known = [row for row in single if row["auc"] is not None]
    return [*table, *sorted(known, key=lambda row: -row["auc"])[:BEST]]


def auc(scores: np.ndarray, kind: np.ndarray) -> float | None:
    """Return how often one of the kind scores higher than another, ties count half.

    None if a side is empty, or if the critic learned nothing.
    """
    known = kind.any() and not kind.all() and not np.isnan(scores).any()
    return float(_wins(scores, kind).mean()) if known else None


def _wins(scores: np.ndarray, kind: np.ndarray) -> np.ndarray:
    """Return 1 where one of the kind scores higher than another, ½ where they tie, else 0: (kind, others)."""
    own, other = scores[kind][:, None], scores[~kind]
    return (own > other) + (own == other) / 2


def _row(measure: str, windows: Windows, scores: np.ndarray) -> dict[str, Any]:
    """Return the AUC of scores by window and by piece or take, with intervals."""
    whole = _by_take(windows, scores)
    return {
        "measure": measure,
        **_with_interval("", scores, windows.written, windows.piece),
        **_with_interval("piece_", *whole),
        "pieces": len(np.unique(windows.piece)),
        "windows": len(windows),
        "written": None,
        "real": None,
    }


def _by_take(windows: Windows, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the mean score of each piece and take, whether it is generated, and its piece."""
    keys, own = np.unique(np.stack([windows.piece, windows.take]), axis=1, return_inverse=True)
    own = own.ravel()
    return np.bincount(own, scores) / np.bincount(own), keys[1] >= 0, keys[0]


def _with_interval(
    prefix: str, scores: np.ndarray, kind: np.ndarray, pieces: np.ndarray
) -> dict[str, float | None]:
    """Return the AUC and its 95 % interval by bootstrap over pieces."""
    names, own = np.unique(pieces, return_inverse=True)
    whole = auc(scores, kind)
    if whole is None or len(names) < FEWEST_PIECES:
        return {f"{prefix}auc": whole, f"{prefix}low": None, f"{prefix}high": None}
    random, found = np.random.default_rng(SEED), []
    is_of = np.eye(len(names))[own]  # (N, pieces)
    wins = is_of[kind].T @ _wins(scores, kind) @ is_of[~kind]  # by the pieces of both sides
    ones, others = is_of[kind].sum(axis=0), is_of[~kind].sum(axis=0)
    for _ in range(RESAMPLES):
        times = np.bincount(random.integers(len(names), size=len(names)), minlength=len(names))
        pairs = (times @ ones) * (times @ others)
        found.append(times @ wins @ times / pairs if pairs else None)
    known = [value for value in found if value is not None]
    low, high = np.percentile(known, [2.5, 97.5]).tolist() if known else (None, None)
    return {f"{prefix}auc": whole, f"{prefix}low": low, f"{prefix}high": high}


def _control(
    learned: Windows, judged: Windows, learning: Callable[..., Judge], every: np.ndarray
) -> dict[str, Any]:
    """Return the mean AUC, and the lowest and the highest, of critics of halves of the real pieces."""
    learned, judged = learned[~learned.written], judged[~judged.written]
    random, by_window, by_piece = np.random.default_rng(SEED), [], []
    for _ in range(DIVISIONS):
        halves = []
        for windows in (learned, judged):
            pieces = random.permutation(np.unique(windows.piece))
            halves.append(np.isin(windows.piece, pieces[: len(pieces) // 2]))
        scores = learning(learned, halves[0], every)(judged)
        whole, _, pieces = _by_take(judged, scores)
        half = np.isin(pieces, judged.piece[halves[1]])
        by_window.append(auc(scores, halves[1]))
        by_piece.append(auc(whole, half))
    return {
        **_range("", by_window),
        **_range("piece_", by_piece),
        "pieces": len(np.unique(judged.piece)),
        "windows": len(judged),
        "written": None,
        "real": None,
    }


def _range(prefix: str, values: Sequence[float | None]) -> dict[str, float | None]:
    known = [value for value in values if value is not None]
    if not known:
        return dict.fromkeys((f"{prefix}auc", f"{prefix}low", f"{prefix}high"))
    return {
        f"{prefix}auc": float(np.mean(known)),
        f"{prefix}low": min(known),
        f"{prefix}high": max(known),
    }


def _single(name: str, windows: Windows, column: np.ndarray) -> dict[str, Any]:
    """Return the AUC of one statistic over the windows that have it, in either direction, and its mean on each side."""
    known = ~np.isnan(column)
    written, own = windows.written[known], column[known]
    one_way = auc(own, written) if known.mean() > 0.5 else None
    return {
        "measure": name,
        "auc": None if one_way is None else max(one_way, 1 - one_way),
        "low": None, "high": None, "piece_auc": None, "piece_low": None, "piece_high": None,
        "pieces": len(np.unique(windows.piece[known])),
        "windows": int(known.sum()),
        "written": float(own[written].mean()) if written.any() else None,
        "real": float(own[~written].mean()) if not written.all() else None,
    }  # fmt: skip
