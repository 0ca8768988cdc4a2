"""Run a benchmark, which trains a model for every encoding and seed, and make its table."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from evaluation.benchmarks.tasks import BenchmarkData, Progress, Recipe
from evaluation.benchmarks.training import STEPS, Classifier, classified, perplexities
from evaluation.benchmarks.variants import Variant, language_model, model_config
from evaluation.study.experiments import Measurement, run
from evaluation.tables import NONE
from musicgen.performer import parameter_count
from tokenization.intervals import mean_interval
from tokenization.records import yaml_of

KEPT = ".results"  # the subfolder of the output folder with all measurements


@dataclass(frozen=True, kw_only=True)
class Row:
    """The results of one encoding: all measures for every seed, or why it failed."""

    encoding: str
    parameters: int = 0
    values: tuple[dict[str, float], ...] = ()  # one per seed
    seconds: float = 0.0  # per seed, on average
    failed: str = ""

    def mean(self, measure: str) -> tuple[float, float | None]:
        """Return the mean of a measure over the seeds, and half of its 95 % interval (Student's t)."""
        return mean_interval([one[measure] for one in self.values])

    def change(self, other: Row, measure: str) -> tuple[float, float | None]:
        """Return the mean and half interval of the paired differences from another encoding."""
        pairs = zip(self.values, other.values, strict=False)  # the seeds that both have come first
        differences = tuple({measure: own[measure] - its[measure]} for own, its in pairs)
        return replace(self, values=differences).mean(measure)


def benchmark(
    recipe: Recipe,
    data: BenchmarkData,
    *,
    encodings: Sequence[str],
    seeds: int,
    device: str,
    folder: Path | None,
    progress: Progress,
) -> list[Row]:
    """Train and measure all encodings, one seed after the other; results in the folder are not computed again."""
    # The identity of a result: the list of encodings does not affect a single one.
    known = {k: v for k, v in asdict(recipe).items() if k not in ("encodings", "about")}
    identity = {"recipe": known, "data": _checksum(data)}
    places = {"recipe": recipe, "data": data, "device": device}
    rows = {name: Row(encoding=name) for name in encodings}
    jobs = [
        Measurement(
            measure=measured,
            arguments={"encoding": name, "seed": seed},
            places=places,
            identity=identity,
        )
        for seed in range(1, seeds + 1)
        for name in encodings
    ]
    kept = None if folder is None else folder / KEPT
    for job, done in zip(jobs, run(jobs, folder=kept, progress=progress), strict=True):
        row = rows[job.arguments["encoding"]]
        if done.error:
            rows[row.encoding] = replace(row, failed=done.error)
        elif not row.failed:
            count = len(row.values)
            rows[row.encoding] = replace(
                row,
                parameters=done.result["parameters"],
                values=(*row.values, done.result["measures"]),
                seconds=(row.seconds * count + done.seconds) / (count + 1),
            )
    return list(rows.values())


def edges(length: int, past: int, counted: int | None) -> list[int]:
    """Return the borders of the ranges of positions whose perplexity is measured."""
    inside = [0, length // 4, length // 2] if counted is None else [0, length - counted]
    beyond = [round(length * x) for x in (1.5, 2, 3, 4, 6, 8) if x <= past]
    return sorted({*inside, length, *beyond})


def _model(recipe: Recipe, data: BenchmarkData, chosen: Variant, seed: int) -> Any:
    values = {**recipe.model, "vocabulary_size": max(1, data.vocabulary)}
    if data.corpus is not None:
        if not chosen.causal:
            raise ValueError("this encoding is only for classifiers, not for causal models")
        return language_model(chosen, model_config(chosen, values, data.language), seed)
    if not chosen.whole:
        raise ValueError("this encoding is only for causal models, not for classifiers")
    return Classifier(
        chosen,
        values,
        classes=data.classes,
        pairs=data.pairs,
        vectors=data.vectors,
        pool=recipe.pool,
        seed=seed,
    )


def measured(
    *, recipe: Recipe, data: BenchmarkData, device: str, encoding: str, seed: int
) -> dict[str, Any]:
    """Train a model with an encoding and a seed, and return its number of parameters and its measures."""
    chosen = recipe.variant(encoding)
    model = _model(recipe, data, chosen, seed).to(torch.device(device))
    if data.corpus is not None:
        sizes, corpus = recipe.data, data.corpus
        settings = recipe.training(max(1, len(corpus.train) // sizes.length))
        borders = edges(sizes.length, sizes.past, sizes.counted)
        measures = perplexities(
            model, corpus.train, corpus.test, sizes.length, borders, sizes.sequences,
            settings, seed,
        )  # fmt: skip
    else:
        assert data.train is not None
        assert data.test is not None
        settings = recipe.training(len(data.train.labels))
        measures = classified(model, data.train, data.test, settings, seed)
    return {"parameters": parameter_count(model), "measures": measures}


def _checksum(data: BenchmarkData) -> str:
    digest = hashlib.sha256()
    if data.corpus is not None:
        for ids in (data.corpus.train, data.corpus.test):
            digest.update(np.ascontiguousarray(ids).tobytes())
        return digest.hexdigest()
    for examples in (data.train, data.test):
        assert examples is not None
        for x in examples.inputs[:1000]:
            digest.update(np.ascontiguousarray(x).tobytes())
        digest.update(examples.labels.tobytes())
    return digest.hexdigest()


# The results as a table: means with intervals, the results of rules without a model, and the papers' figures.

CONTROL = "none"  # the encoding that all others are compared with
SUMMARY = "benchmark.json"  # the rows and the conditions of a benchmark, in its output folder
ANCHORS = yaml_of(Path(__file__).with_name("anchors.yaml"))
"""Task → papers, what they measure, and their figures by the names of encodings used here."""


def result_table(rows: Sequence[Row], rules: Mapping[str, float]) -> list[list[str]]:
    """Return one line per encoding, the best first, followed by the accuracy of rules without a model.

    The order is by accuracy, or by the perplexity furthest past the trained length. If there is a model without an
    encoding, the table has the paired change of the others relative to it.
    """
    measures = next((list(row.values[0]) for row in rows if row.values), [])
    first = "accuracy" if "accuracy" in measures else (measures or [""])[-1]
    control = next((row for row in rows if row.encoding == CONTROL and row.values), None)
    more = [] if control is None else [f"{_heading(first)}: change from none"]
    lead = ["encoding", "parameters", "n"]
    table = [[*lead, *(_heading(m) for m in measures), *more, "seconds each"]]
    order = sorted((r for r in rows if r.values), key=lambda r: r.mean(first)[0])
    if first == "accuracy":
        order.reverse()
    for row in order:
        cells = [_cell(*row.mean(measure), measure) for measure in measures]
        if control is not None:
            change = _cell(*row.change(control, first), first)
            cells.append(NONE if row is control else change if change[0] == "-" else f"+{change}")
        table.append(
            [
                row.encoding,
                f"{row.parameters:,}",
                str(len(row.values)),
                *cells,
                f"{row.seconds:.0f}",
            ]
        )
    for name, accuracy in rules.items():
        blank = [NONE] * (len(measures) - 1 + len(more))
        table.append([name, "0", NONE, f"{100 * accuracy:.2f}", *blank, NONE])
    return table


def table_with_papers(
    task: str, rows: Sequence[Row], rules: Mapping[str, float]
) -> list[list[str]]:
    """Return the table with one column per paper; encodings that only papers have follow at the end."""
    table = result_table(rows, rules)
    width, papers = len(table[0]), ANCHORS.get(task, [])
    own = {line[0] for line in table[1:]}
    others = dict.fromkeys(name for one in papers for name in one["rows"] if name not in own)
    table += [[name, *[NONE] * (width - 1)] for name in others]
    for anchor in papers:
        table[0].append(f"{anchor['paper']}: {anchor['what']}")
        for line in table[1:]:
            value = anchor["rows"].get(line[0])
            line.append(NONE if value is None else f"{value:.2f}")
    return table


def _heading(measure: str) -> str:
    if measure == "accuracy":
        return "accuracy, %"
    others = {"training_loss": "training loss", STEPS: STEPS}
    return others.get(measure, f"perplexity {measure}")


def _cell(mean: float, half: float | None, measure: str) -> str:
    scale, digits = {"accuracy": (100, 2), STEPS: (1, 0)}.get(measure, (1, 3))
    interval = "" if half is None else f" ± {half * scale:.{digits}f}"
    return f"{mean * scale:.{digits}f}{interval}"
