"""The recipes of the papers have all values that the papers print (tests/golden/recipes.json)."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from evaluation.benchmarks.tasks import FULL, TASKS, names, recipe
from evaluation.benchmarks.training import Classifier
from evaluation.benchmarks.variants import model_config
from musicgen.performer import parameter_count
from training.config import find, read, shipped_names

PRINTED = json.loads((Path(__file__).parents[2] / "golden" / "recipes.json").read_text())
COMPARED = {name: one["of"] for one in PRINTED["sets"] for name in one["applies"]}


def values_of(name: str) -> dict[str, Any]:
    """Return all values of a training configuration or of a benchmark's recipe."""
    if COMPARED[name] == "training":
        config = read(find(name))
        return {**asdict(config), "model": config.model_config(333).plain()}
    found = recipe(name)
    values = {**found.model, "vocabulary_size": 256}
    variants = {encoding: found.variant(encoding) for encoding in found.encodings}
    model = model_config(variants[found.encodings[0]], values)
    features = model.features.features
    return {
        "model": model.plain(),
        "optimiser": {**found.optimiser, **asdict(found.training(1000))},
        "data": asdict(found.data),
        "encodings": {
            encoding: asdict(model_config(variant, values).position)
            if variant.position in ("sine_spe", "conv_spe", "flt")
            else dict(variant.choice)
            for encoding, variant in variants.items()
        },
        "features_per_head_width": features and features / model.head_width,
    }


@pytest.mark.parametrize("name", COMPARED)
def test_every_value_is_as_printed(name: str) -> None:
    found = values_of(name)
    for one in PRINTED["sets"]:
        for key, printed, _ in one["rows"] if name in one["applies"] else ():
            value = found
            for part in key.split("."):
                value = value[part]
            same = pytest.approx(printed) if isinstance(printed, float) else printed
            assert value == same, key


@pytest.mark.parametrize("task", PRINTED["parameters"]["rows"])
def test_numbers_of_parameters_are_as_printed(task: str) -> None:
    """An encoding's parameters are exact; the others differ by the mean over positions and by biases."""
    printed, *more = PRINTED["parameters"]["rows"][task]
    found, pairs = recipe(task), task == "retrieval"
    values = {**found.model, "vocabulary_size": 257 if task != "listops" else 20}
    plain, *others = (
        parameter_count(Classifier(found.variant(name), values, classes=2, pairs=pairs))
        for name in ("absolute", "sine_spe", "conv_spe")
    )
    assert plain == pytest.approx(printed, rel=0.02)
    assert [count - plain for count in others] == more


def test_all_recipes_are_valid_and_all_papers_configurations_are_compared() -> None:
    for name in names():
        found = recipe(name)
        for encoding in found.encodings:
            found.variant(encoding)
        assert found.training(100).steps > 0
    for task in TASKS:
        assert {FULL.get(task, task), f"{task}-short"} <= set(names())
    for name in shipped_names():  # the papers have no values without an encoding
        if name.startswith("papers/"):
            assert (name in COMPARED) != name.endswith("-none"), name


def test_values_after_a_name_belong_to_the_encoding():
    chosen = recipe("language-short").variant("sine_spe:realisations=4,gated=false")
    assert chosen.choice == {"sines": 10, "realisations": 4, "gated": False}
    for name, message in (
        ("sine_spe:realizations=4", "unknown key 'realizations'"),
        ("lrpe:angles=z", "angles is 'z'; it must be one of learned, a, b, c"),
        ("lpre:angles=a", "no encoding 'lpre'"),
    ):
        with pytest.raises(ValueError, match=message):
            recipe("language-short").variant(name)
