"""Makes the critic of a model, which chooses among its takes (musicgen/critic.py): `make critic`.

It learns from pieces of the training splits of several sets, real bars and continuations of the bars before. A first
critic learns from any takes; the second also from those that the first has chosen, since what the first prefers is soon
too much of it. Critics that judge (study/realism.py) learn from the other half of these pieces.
"""

from __future__ import annotations

import argparse
import shutil
import warnings
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from evaluation.study.experiments import job_of, models_of, run
from evaluation.study.piece_jobs import Choice
from evaluation.study.realism import SPARE, draw_takes, lessons_of, windows_of
from musicgen.critic import FILE
from musicgen.generation.sampling import MUSICAL
from musicgen.playable import Playable
from tokenization.whole_file import write_whole
from tokenization.workers import Workers

PROMPT_BARS, BARS = 8, 16
HIDDEN, WEIGHT_DECAY, EPOCHS, RATE = 16, 10.0, 20, 3e-3
NETWORKS = 5
CHOSEN_OF = 4  # takes, of which the first critic chooses one
EXTREMES = 0.02, 0.98  # quantiles to which statistics are clipped


def main() -> None:
    """Draw the takes that are missing, and write the critic into the model's folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, help="the folder of a model")
    parser.add_argument("data", nargs="+", help="prepared data sets")
    parser.add_argument(
        "--lessons",
        type=int,
        nargs="+",
        default=[240],
        metavar="N",
        help="pieces of each set, or of all",
    )
    parser.add_argument(
        "-o", "--output", type=Path, required=True, help="folder that keeps the takes"
    )
    parser.add_argument(
        "--workers", type=int, default=0, metavar="N", help="processes (default: 1)"
    )
    asked = parser.parse_args()
    counts = asked.lessons * (len(asked.data) if len(asked.lessons) == 1 else 1)
    if len(counts) != len(asked.data):
        parser.error(f"--lessons has {len(counts)} numbers for {len(asked.data)} sets")
    sets = dict(zip(asked.data, counts, strict=True))
    kept = asked.output / ".results"
    found = all_lessons(asked.model, sets, 1, kept, asked.workers)
    first = asked.output / "first"
    shutil.copytree(asked.model, first, dirs_exist_ok=True)
    write_whole(first / FILE, written_critic(found))
    found += all_lessons(first, sets, CHOSEN_OF, kept, asked.workers)
    write_whole(asked.model / FILE, written_critic(found))


Lessons: TypeAlias = "tuple[list[str], np.ndarray, np.ndarray]"
"""The names of statistics, their values for windows, (N, F), and which of these are generated, (N,)."""


def all_lessons(
    folder: Path, sets: Mapping[str, int], draw: int, kept: Path, workers: Workers
) -> list[Lessons]:
    """Return the lessons of so many pieces of each set."""
    [model] = models_of([str(folder)])
    return [lessons(model, data, count, draw, kept, workers) for data, count in sets.items()]


def written_critic(found: Sequence[Lessons]) -> bytes:
    """Return the file of the critic that learns from lessons."""
    names = sorted({name for known, _, _ in found for name in known})
    values = np.full((sum(len(kind) for _, _, kind in found), len(names)), np.nan)
    first = 0
    for known, own, kind in found:
        values[first : first + len(kind), [names.index(name) for name in known]] = own
        first += len(kind)
    critic: dict[str, Any] = learned(names, values, np.concatenate([kind for _, _, kind in found]))
    content = BytesIO()
    np.savez_compressed(content, **critic)
    return content.getvalue()


def lessons(
    model: Playable, data: str, count: int, draw: int, folder: Path, workers: Workers
) -> Lessons:
    """Return the lessons of pieces of a set and a take of each, which the model's critic chooses of `draw`."""
    choice = Choice(data=data, pieces=count, split="train", seed=0, device="cpu")
    rows = lessons_of(choice, PROMPT_BARS + BARS + SPARE, for_selection=True)[:count]
    how: dict[str, Any] = {
        "prompt_bars": PROMPT_BARS,
        "bars": BARS,
        "takes": 1,
        "draw": draw,
        "recall": MUSICAL.recall,
    }
    jobs = [
        job_of(model, draw_takes, "cpu", choice.prepared, **how, planned=True, seed=0, row=row)[1]
        for row in rows
    ]
    done = run(
        jobs,
        folder=folder,
        workers=workers,
        progress=lambda done, total: print(f"{data}, one of {draw}: {done} of {total}", flush=True),
    )
    drawn = [take for one in done if not one.error for take in one.result]
    windows, names = windows_of(model, data, drawn, PROMPT_BARS, BARS)
    return names, windows.values, windows.written


def learned(names: list[str], values: np.ndarray, written: np.ndarray) -> dict[str, np.ndarray]:
    """Return the arrays of a critic (musicgen/critic.py) that has learned from statistics: (N, F), (N,) bool."""
    from sklearn.exceptions import ConvergenceWarning  # takes seconds to import
    from sklearn.neural_network import MLPClassifier

    some = np.asarray(~np.isnan(values).all(axis=0))
    values, names = values[:, some], [name for name, kept in zip(names, some, strict=True) if kept]
    middle = np.nanmedian(values, axis=0)
    low, high = np.nanquantile(values, EXTREMES, axis=0)
    known = np.clip(np.where(np.isnan(values), middle, values), low, high)
    mean, scale = known.mean(axis=0), np.maximum(known.std(axis=0), 1e-6)
    networks = [
        MLPClassifier(
            HIDDEN, alpha=WEIGHT_DECAY, max_iter=EPOCHS, learning_rate_init=RATE, random_state=seed
        )
        for seed in range(NETWORKS)
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # it stops early on purpose
        for one in networks:
            one.fit((known - mean) / scale, written)
    out = [np.append(one.intercepts_[1], one.coefs_[1]) for one in networks]
    arrays = {
        "middle": middle, "low": low, "high": high, "mean": mean, "scale": scale,
        "hidden": np.stack([one.coefs_[0] for one in networks]),
        "bias": np.stack([one.intercepts_[0] for one in networks]),
        "out": np.stack(out),
    }  # fmt: skip
    return {
        "names": np.array(names),
        **{name: own.astype(np.float32) for name, own in arrays.items()},
    }


if __name__ == "__main__":
    main()
