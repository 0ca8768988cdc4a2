"""The groove experiment on small models: continuations, measures and tables."""

import json
from dataclasses import replace

import numpy as np
import pytest

from evaluation.continuation.experiment import (
    by_style,
    compared,
    continuation,
    continuing_work,
    sequences,
)
from evaluation.continuation.prompts import Plan, PromptedPiece, read_prompts
from evaluation.continuation.results import MEASURES, continuation_tables
from evaluation.study.experiments import conduct, models_of
from musicgen.playable import Playable, load
from tests.app.toy_models import write_model
from tests.evaluation.continuation.toys import PLAN, write_pieces
from tokenization.language import language
from tokenization.midi.reading import read_midi
from tokenization.score import excerpt

GROOVE = language("groove")
MODELS = {"first": "rope", "second": "absolute"}


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory):
    """Return the prompts, the results of two small models, and the folder of their continuations."""
    folder = tmp_path_factory.mktemp("experiment")
    prompts, _ = read_prompts(write_pieces(folder), GROOVE, bars=2, tokens=PLAN.tokens)
    folders = [write_model(folder / name, "groove", kind) for name, kind in MODELS.items()]
    models = models_of(folders)
    where = {"folder": folder / "out", "device": "cpu"}
    made = continuation(models, folder, PLAN, **where)
    results, failures = conduct({"continuation": made}, folder=folder / "kept")
    assert failures == []
    again, _ = conduct({"continuation": made}, folder=folder / "kept")
    assert again["continuation"]["similarity"] == results["continuation"]["similarity"]
    return prompts, results["continuation"], folder


def run_alone(model: Playable, prompt: PromptedPiece, plan: Plan = PLAN) -> list[np.ndarray]:
    """Return the continuations of a prompt that is run by itself."""
    return sequences(continuing_work(model, prompt, plan).finish(), plan)


def test_samples_are_valid_have_the_planned_length_and_depend_on_the_seed(experiment):
    prompts, _, folder = experiment
    model = load(str(folder / "first"))
    found = run_alone(model, prompts[0])
    assert len(found) == PLAN.samples
    for ids in found:
        assert GROOVE.validate(ids) is None
        assert len(ids) == PLAN.tokens
        assert GROOVE.end not in ids
        np.testing.assert_array_equal(ids[: len(prompts[0].ids)], prompts[0].ids)
    assert not np.array_equal(found[0], found[1])
    assert not np.array_equal(found, run_alone(model, prompts[0], replace(PLAN, seed=1)))
    kept = [json.loads(path.read_text()) for path in (folder / "kept").iterdir()]
    results = [one["done"]["result"] for one in kept]
    assert [ids.tolist() for ids in found] in results
    assert len(results) == len(MODELS) * len(prompts)


def test_continuations_are_written_as_midi_with_their_settings(experiment):
    _, _, folder = experiment
    files = sorted((folder / "out" / "samples").glob("first-*/*.prompt_cont_*.mid"))
    assert len(files) == 8
    assert all(len(read_midi(path).notes) for path in files)
    assert b'"temperature": 0.6' in files[0].read_bytes()


def chosen(rows, **wanted) -> list[dict]:
    return [row for row in rows if wanted.items() <= row.items()]


def test_reference_passages_bound_the_scores(experiment):
    prompts, results, _ = experiment
    measured = results["measured"]
    for metric in ("onset_duration", "onset_drum"):
        wanted = {"against": "prompt", "metric": metric, "quarter": None}
        rows = chosen(results["similarity"], **wanted)
        mean = {row["output"]: row["mean"] for row in rows}
        assert mean["prompt looped"] > 0.95
        assert mean["the piece itself"] > 0.8
        # The drums of the two styles are the same; their basses are not.
        other = mean["another style"]
        assert other < 0.6 if metric == "onset_duration" else other > 0.9
    found = {(row["output"], row["measure"]): row for row in results["measures"]}
    assert found["prompt looped", "copied_share"]["mean"] > 0.9
    assert found["first", "copied_share"]["mean"] < 0.1
    assert found["first", "diversity"]["mean"] > 0.5
    assert {row["output"] for row in measured["diversities"]} == {"first", "second"}
    lengths = {row["mean"] for (_, measure), row in found.items() if measure == "tokens"}
    assert lengths == {PLAN.tokens - np.mean([len(prompt.ids) for prompt in prompts])}
    references = {"prompt": prompts[0].score, "piece": prompts[0].piece}
    rows = list(compared(references, excerpt(prompts[0].piece, prompts[0].start_ticks)))
    assert min(row["similarity"] for row in chosen(rows, against="piece", quarter=None)) > 0.9


def test_means_are_over_styles():
    rows = [("b", 1.0), ("a", 0.0), ("b", 0.5), ("b", 0.0), ("a", None), ("c", None)]
    rows = [{"output": "model", "style": style, "similarity": x} for style, x in rows]
    (found,) = by_style(rows, ["output"], "similarity")
    assert (found["n"], found["missing"], found["mean"]) == (2, 1, 0.25)
    (alone,) = by_style(rows[:1], ["output"], "similarity")
    assert (alone["mean"], alone["low"]) == (1, None)


def test_the_last_table_has_every_measure_by_output(experiment):
    *_, table = continuation_tables(experiment[1])
    assert table.head[:3] == ["measure", "first", "second"]
    assert len(table.rows) == len(MEASURES)
    pitches = next(row for row in table.rows if row[0] == "polyphony (pitches)")
    assert all(cell.endswith("] (2)") for cell in pitches[1:])
