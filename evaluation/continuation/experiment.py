"""The groove experiment of the SPE paper (section 3.3, figure 5): does a continuation keep the style of its prompt?

Every prompt is continued several times by every model. A continuation, and each quarter of it (four parts of equal
duration), is compared with the prompt and with the whole piece that the prompt was taken from, by style profiles. The
paper's figure does the first, its appendix describes the second. Beside similarity stand what it hides, copies of the
prompt and sameness of the samples, the statistics of the music, and reference passages that no model wrote.

A style is one value: the mean over its prompts and their samples; means and intervals are over styles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from evaluation.continuation.plan import Plan
from evaluation.continuation.prompts import JudgedPassage, PromptedPiece
from evaluation.continuation.references import REFERENCE_PASSAGES, reference_passages
from evaluation.continuation.samples import read_samples, write_samples
from evaluation.continuation.summary import summary
from evaluation.metrics.copying import copied_share, diversity
from evaluation.metrics.statistics import statistics
from evaluation.metrics.style import (
    in_bars,
    onset_drum,
    profiles,
    quarters,
    similarities,
    track_profiles,
)
from musicgen.common.workers.pool import Workers
from musicgen.playable import Playable
from tokenization.excerpt import excerpt
from tokenization.score import Score

Row = dict[str, Any]
Progress = Callable[[int, int], None]
ProgressBar = Callable[[str], AbstractContextManager[Progress]]

SAMPLES = "samples"  # the folder of what models wrote, inside the experiment's
PITCHED, DRUMS = "pitched", "drums"  # stand for all tracks of their kind
REFERENCES = ("prompt", "piece")


@dataclass(frozen=True, kw_only=True)
class Measured:
    """All that was measured, in rows."""

    similarities: list[Row] = field(default_factory=list)  # of a part of a passage to a reference
    passages: list[Row] = field(default_factory=list)  # what else is known of each continuation
    diversities: list[Row] = field(default_factory=list)  # one of the samples of a model and prompt


def run(
    models: Sequence[Playable],
    prompts: Sequence[PromptedPiece],
    plan: Plan,
    folder: Path,
    *,
    workers: Workers = 0,
    progress_bar: ProgressBar = lambda title: nullcontext(lambda done, total: None),
) -> tuple[Measured, dict[str, Any]]:
    """Write what is missing of the continuations into a folder, measure them all, and sum up."""
    for model in models:
        with progress_bar(f"{model.name}: prompts") as progress:
            write_samples(
                model, prompts, plan, folder / SAMPLES, workers=workers, progress=progress
            )
    with progress_bar("Measuring: prompts") as progress:
        measured = measure(models, prompts, plan, folder, progress)
    results = {
        "experiment": "continuation",
        "settings": asdict(plan),
        "models": [_facts(model) for model in models],
        "yardsticks": list(REFERENCE_PASSAGES.values()),
        "prompts": len(prompts),
        "styles": len({prompt.style for prompt in prompts}),
        **summary(measured.similarities, measured.passages, measured.diversities),
    }
    return measured, results


def _facts(model: Playable) -> Row:
    """Return what identifies a model, as plain data."""
    return {
        "name": model.name,
        "sha256": model.sha256 or None,
        "language": model.language.name,
        "trained_length": model.trained_length or None,
        "number": model.number,
    }


def measure(
    models: Sequence[Playable],
    prompts: Sequence[PromptedPiece],
    plan: Plan,
    folder: Path,
    progress: Progress = lambda done, total: None,
) -> Measured:
    """Compare what the models wrote, and the reference passages, with prompts and pieces."""
    measured, language = Measured(), models[0].language
    for done, prompt in enumerate(prompts, start=1):
        for model in models:
            samples = read_samples(model, prompt, plan, folder / SAMPLES)
            passages = [prompt.passage(language, ids, len(prompt.ids)) for ids in samples]
            _add(measured, model.name, prompt, passages)
        for name, passage in reference_passages(
            language, prompts, prompt, plan.tokens, plan.seed
        ).items():
            _add(measured, REFERENCE_PASSAGES[name], prompt, [] if passage is None else [passage])
        progress(done, len(prompts))
    return measured


def _add(
    measured: Measured, output: str, prompt: PromptedPiece, passages: Sequence[JudgedPassage]
) -> None:
    """Add the rows of some continuations of one prompt."""
    shared = {"output": output, "prompt": prompt.name, "style": prompt.style}
    for number, passage in enumerate(passages):
        row = {**shared, "sample": number}
        music = excerpt(passage.score, passage.start_ticks)
        measured.similarities.extend({**row, **one} for one in compared(prompt, music))
        measured.passages.append({**row, **_described(prompt, passage, music)})
    if len(passages) > 1:
        value = diversity([passage.new_ids for passage in passages])
        measured.diversities.append({**shared, "samples": len(passages), "diversity": value})


def compared(prompt: PromptedPiece, music: Score) -> Iterator[Row]:
    """Yield the similarities of a continuation, the whole (no quarter) and its quarters, to both references."""
    parts = {None: music, **dict(enumerate(quarters(music), start=1))}
    found = {quarter: _profiles(part) for quarter, part in parts.items()}
    for against, reference in zip(REFERENCES, (prompt.score, prompt.piece), strict=True):
        expected = _profiles(reference)
        for quarter, histograms in found.items():
            for (track, metric), value in similarities(expected, histograms).items():
                yield {
                    "against": against,
                    "track": track,
                    "metric": metric,
                    "quarter": quarter,
                    "similarity": value,
                }


def _profiles(score: Score) -> Mapping[tuple[str, str], np.ndarray]:
    """Return the histograms of all pitched tracks, of the drums, and of each pitched track."""
    drums = onset_drum(in_bars(score)[score.on_drums], score.ticks_per_beat)
    together = {(PITCHED, metric): value for metric, value in profiles(score).items()}
    by_track = {k: v for k, v in track_profiles(score).items() if k[1] != "onset_drum"}
    return {**together, (DRUMS, "onset_drum"): drums, **by_track}


def _described(prompt: PromptedPiece, passage: JudgedPassage, music: Score) -> Row:
    return {
        "tokens": len(passage.new_ids),
        "beats": music.end_ticks / music.ticks_per_beat,
        "copied_share": copied_share(passage.new_ids, prompt.ids),
        **statistics(music),
    }
