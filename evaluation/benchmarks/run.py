"""A benchmark: every encoding from several seeds, each result stored at once, so that an interrupted one goes on."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from evaluation.benchmarks.recipe import Recipe, Sizes
from evaluation.benchmarks.tasks import Material, Progress
from evaluation.benchmarks.training import Classifier, Optimiser, classified, perplexities
from evaluation.benchmarks.variants import VARIANTS, Variant, language_model, model_config
from musicgen.common.intervals import mean_interval
from musicgen.model.performer import parameter_count
from tokenization.records import json_of, value_of
from tokenization.whole_file import write_json

RESULTS = "results.json"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One encoding: each measure of each seed; or why there is none."""

    encoding: str
    parameters: int = 0
    values: tuple[dict[str, float], ...] = ()  # a seed each
    seconds: float = 0.0  # of one seed, on average
    failed: str = ""

    def mean(self, measure: str) -> tuple[float, float | None]:
        """Return the mean of a measure over the seeds, and half its 95 % interval (Student's)."""
        return mean_interval([one[measure] for one in self.values])

    def change(self, other: Row, measure: str) -> tuple[float, float | None]:
        """Return the same of the differences to another encoding, seed by seed."""
        pairs = zip(self.values, other.values, strict=False)  # seeds that both have come first
        differences = tuple({measure: own[measure] - its[measure]} for own, its in pairs)
        return replace(self, values=differences).mean(measure)


def benchmark(
    recipe: Recipe,
    data: Material,
    *,
    encodings: Sequence[str],
    seeds: int,
    device: str,
    folder: Path | None,
    progress: Progress,
    say: Callable[[str], None],
) -> list[Row]:
    """Train and measure all encodings, seed by seed, so that pairs of one seed come first."""
    stored = _stored(folder, recipe, data)
    rows = {name: _first_row(recipe, data, name) for name in encodings}
    for seed in range(1, seeds + 1):
        for name in encodings:
            key = f"{name}/{seed}"
            if rows[name].failed:
                continue
            if key not in stored["results"]:
                say(f"{name}, seed {seed} of {seeds}")
                before = time.perf_counter()
                try:
                    found = _measured(recipe, data, name, seed, device, progress)
                except ValueError as error:
                    rows[name] = replace(rows[name], failed=" ".join(str(error).split()))
                    continue
                stored["results"][key] = {**found, "seconds": time.perf_counter() - before}
                if folder is not None:
                    write_json(folder / RESULTS, stored)
            values = dict(stored["results"][key])
            taken = values.pop("seconds")
            before_it = rows[name]
            count = len(before_it.values)
            rows[name] = replace(
                before_it,
                values=(*before_it.values, values),
                seconds=(before_it.seconds * count + taken) / (count + 1),
            )
    return list(rows.values())


def fitting(names: Sequence[str], data: Material) -> list[str]:
    """Return the encodings that make sense of the data: those of grids on grids, causal ones of text."""
    cloud = data.train is not None and data.train.places is not None
    shapes = {"sequence"} if not cloud else {"sequence", "cloud"}
    shapes |= {"grid"} if data.grid is not None else set()
    return [
        name
        for name in names
        if VARIANTS[name].shape in shapes
        and (VARIANTS[name].causal if data.corpus else VARIANTS[name].whole)
    ]


def examples_measured(recipe: Recipe, data: Material) -> list[str]:
    """Say with how many examples is measured, where that is not with all that there are."""
    count = 0 if data.test is None else len(data.test.labels)
    if not 0 < recipe.data.test < count:
        return []
    return [f"measured with {recipe.data.test:,} of the {count:,} examples of the test"]


def edges(length: int, past: int, counted: int | None) -> list[int]:
    """Return the borders of the stretches of positions whose perplexity is given."""
    inside = [0, length // 4, length // 2] if counted is None else [0, length - counted]
    beyond = [round(length * x) for x in (1.5, 2, 3, 4, 6, 8) if x <= past]
    return sorted({*inside, length, *beyond})


def _first_row(recipe: Recipe, data: Material, name: str) -> Row:
    """Return a row without results; a model that cannot be built says why in it."""
    try:
        model = _model(recipe, data, recipe.variant(name, data.grid), 1)
    except ValueError as error:
        return Row(encoding=name, failed=" ".join(str(error).split()))
    return Row(encoding=name, parameters=parameter_count(model))


def _model(recipe: Recipe, data: Material, chosen: Variant, seed: int) -> Any:
    values = {**recipe.model, "vocabulary_size": max(1, data.vocabulary)}
    if data.corpus is not None:
        if not chosen.causal:
            raise ValueError(
                "this encoding is of whole sequences, and text is read from left to right"
            )
        return language_model(chosen, model_config(chosen, values), seed)
    if not chosen.whole:
        raise ValueError("this is for models that read from left to right")
    return Classifier(
        chosen,
        values,
        classes=data.classes,
        pairs=data.pairs,
        vectors=data.vectors,
        pool=recipe.pool,
        seed=seed,
    )


def _measured(
    recipe: Recipe, data: Material, name: str, seed: int, device: str, progress: Progress
) -> dict[str, float]:
    model = _model(recipe, data, recipe.variant(name, data.grid), seed).to(torch.device(device))
    if data.corpus is not None:
        sizes, corpus = recipe.data, data.corpus
        settings = recipe.training(max(1, len(corpus.train) // sizes.length))
        borders = edges(sizes.length, sizes.past, sizes.counted)
        return perplexities(
            model, corpus.train, corpus.test, sizes.length, borders, sizes.sequences,
            settings, seed, progress,
        )  # fmt: skip
    assert data.train is not None
    assert data.test is not None
    test = _first(data.test, recipe.data.test)
    settings: Optimiser = recipe.training(len(data.train.labels))
    return classified(model, data.train, test, settings, seed, progress)


def _first(examples: Any, count: int) -> Any:
    """Return at most so many examples (0: all), spread over all: users' files may be sorted by class."""
    if not count or len(examples.labels) <= count:
        return examples
    rows = np.linspace(0, len(examples.labels) - 1, count, dtype=int)
    numbers = (rows[:, None] * examples.each + np.arange(examples.each)).reshape(-1)
    places = None if examples.places is None else examples.places[numbers]
    inputs = [examples.inputs[n] for n in numbers]
    return replace(examples, inputs=inputs, labels=examples.labels[rows], places=places)


def _stored(folder: Path | None, recipe: Recipe, data: Material) -> dict[str, Any]:
    """Return what is in a folder, if it is of the same recipe and data; another's is refused."""
    own = {"recipe": _plain(recipe), "data": _checksum(data), "results": {}}
    if folder is None or not (file := folder / RESULTS).is_file():
        return own
    found = json_of(file)
    found = _completed(found) if isinstance(found, dict) else {}
    if any(found.get(x) != own[x] for x in ("recipe", "data")):
        raise ValueError(
            f"{folder} holds results of another recipe or other data; name another folder"
        )
    results = value_of(dict[str, dict[str, float]], found.get("results"), f"{file}: results")
    measures = {frozenset(one) for one in results.values()}
    if len(measures) > 1 or any("seconds" not in one for one in measures):
        raise ValueError(f"{file} is damaged: not all of its results have the same measures")
    return {**own, "results": results}


def _completed(stored: dict[str, Any]) -> dict[str, Any]:
    """Return what was stored with what its version did not know of sizes, which then had no part in it."""
    recipe = stored.get("recipe")
    sizes = recipe.get("data") if isinstance(recipe, dict) else None
    if not isinstance(recipe, dict) or not isinstance(sizes, dict):
        return stored
    known = json.loads(json.dumps(asdict(Sizes())))
    return {**stored, "recipe": {**recipe, "data": {**known, **sizes}}}


def _plain(recipe: Recipe) -> Any:
    plain = asdict(recipe)
    for name in ("encodings", "about"):  # which are asked for makes no difference to each
        plain.pop(name)
    return json.loads(json.dumps(plain))


def _checksum(data: Material) -> str:
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
