"""The groove experiment on small models: what is measured, summed up and drawn."""

import numpy as np
import pytest

from evaluation.continuation.experiment import by_style, compared, run, summary
from evaluation.continuation.prompts import read_prompts
from evaluation.continuation.results import statistics_table
from evaluation.metrics.statistics import STATISTICS
from tests.evaluation.continuation.toys import PLAN, playable, write_pieces
from tokenization.language import language
from tokenization.score import excerpt


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory):
    """Return the prompts, what was measured, and the results of two small models."""
    folder = tmp_path_factory.mktemp("experiment")
    groove = language("groove")
    prompts, _ = read_prompts(write_pieces(folder), groove, bars=2, tokens=PLAN.tokens)
    models = [playable("first", 0), playable("second", 1)]
    return prompts, *run(models, prompts, PLAN, folder / "out")


def chosen(rows, **wanted) -> list[dict]:
    return [row for row in rows if wanted.items() <= row.items()]


def test_yardsticks_frame_the_scores(experiment):
    prompts, measured, results = experiment
    for track, metric in (("pitched", "onset_duration"), ("drums", "onset_drum")):
        wanted = {"against": "prompt", "track": track, "metric": metric, "quarter": None}
        rows = chosen(results["similarity"], **wanted)
        mean = {row["output"]: row["mean"] for row in rows}
        assert mean["prompt looped"] > 0.95
        assert mean["the piece itself"] > 0.8
        # The drums of the two styles are the same; their basses are not.
        other = mean["another style"]
        assert other < 0.6 if metric == "onset_duration" else other > 0.9
    found = {(row["output"], row["measure"]): row for row in results["variety"]}
    assert found["prompt looped", "copied_share"]["mean"] > 0.9
    assert found["first", "copied_share"]["mean"] < 0.1
    assert found["first", "diversity"]["mean"] > 0.5
    assert {row["output"] for row in measured.diversities} == {"first", "second"}
    lengths = {row["mean"] for (_, measure), row in found.items() if measure == "tokens"}
    assert lengths == {PLAN.tokens - np.mean([len(prompt.ids) for prompt in prompts])}
    rows = list(compared(prompts[0], excerpt(prompts[0].piece, prompts[0].start_ticks)))
    assert min(row["similarity"] for row in chosen(rows, against="piece", quarter=None)) > 0.9


def test_means_are_over_styles(experiment):
    rows = [("b", 1.0), ("a", 0.0), ("b", 0.5), ("b", 0.0), ("a", None), ("c", None)]
    rows = [{"output": "model", "style": style, "similarity": x} for style, x in rows]
    (found,) = by_style(rows, ["output"], "similarity")
    assert found["values"] == [0.0, 0.5, None]
    assert (found["n"], found["missing"], found["mean"]) == (2, 1, 0.25)
    (alone,) = by_style(rows[:1], ["output"], "similarity")
    assert (alone["mean"], alone["low"]) == (1, None)
    _, measured, results = experiment
    wanted = {"output": "first", "against": "prompt", "track": "drums", "quarter": None}
    (found,) = chosen(results["similarity"], **wanted)
    (expected,) = by_style(chosen(measured.similarities, **wanted), ["metric"], "similarity")
    assert found["values"] == expected["values"]


@pytest.mark.parametrize(("styles", "over", "groups"), [(4, "styles", 4), (1, "pieces", 8)])
def test_distances_have_their_interval_their_floor_and_n(styles: int, over: str, groups: int):
    random, passages = np.random.default_rng(0), []
    outputs = {"model": 3, "prompt looped": 1, "the piece itself": 1, "another style": 1}
    for output, samples in outputs.items():
        for prompt in [*range(8)] * samples:
            row = {"output": output, "prompt": str(prompt), "style": str(prompt % styles)}
            row |= {"tokens": 9, "beats": 4.0, "copied_share": 0.1}
            passages.append({**row, **{name: random.normal() for name in STATISTICS}})
    found = summary([], passages, [])
    rows = found["statistics"]
    assert {row["output"] for row in rows} == {"model", "prompt looped"}  # no control of itself
    assert {row["groups"] for row in rows} == {groups}
    assert {row["outputs"]["n"] for row in rows} == {24, 8}
    assert all(0 <= row["low"] <= row["wasserstein"] <= row["high"] for row in rows)
    assert all(row["floor"] > 0 for row in rows)
    table = statistics_table(found)
    assert table.head[1:4] == ["the piece itself", "apart", "model"]
    for cell, holds in zip(table.rows[0][1:5], ("(8)", ".", "(24)", "["), strict=True):
        assert holds in cell
    assert {len(row) for row in table.rows} == {len(table.head)}
    assert f"over {over};" in table.caption
