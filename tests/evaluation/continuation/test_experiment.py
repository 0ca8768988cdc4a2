"""The groove experiment on small models: what is measured, summed up and drawn."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from evaluation.continuation.experiment import compared, measure, run, write_samples
from evaluation.continuation.prompts import REFERENCE_PASSAGES, read_prompts
from evaluation.continuation.results import boxes, continuation
from evaluation.metrics.statistics import STATISTICS
from evaluation.plots.style import figure, png
from tests.evaluation.continuation.toys import PLAN, playable, write_pieces
from tests.evaluation.scores import DRUMS, trio
from tokenization.language import language
from tokenization.score import excerpt

GROOVE = language("groove")


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory):
    """Return the prompts, what was measured and the results of two small models."""
    folder = tmp_path_factory.mktemp("experiment")
    prompts, _ = read_prompts(write_pieces(folder), GROOVE, bars=2, tokens=PLAN.tokens)
    titles = []

    @contextmanager
    def progress_bar(title: str):
        titles.append(title)
        yield lambda done, total: None

    models = [playable("first", 0), playable("second", 1)]
    measured, results = run(models, prompts, PLAN, folder / "out", progress_bar=progress_bar)
    assert titles == ["first: prompts", "second: prompts", "Measuring: prompts"]
    return prompts, measured, results, folder / "out"


def similarity(results, **wanted):
    rows = [r for r in results["similarity"] if all(r[key] == wanted[key] for key in wanted)]
    assert len(rows) == 1
    return rows[0]


def test_every_sample_is_compared_in_every_way(experiment):
    prompts, measured, _, _ = experiment
    of_first = [row for row in measured.similarities if row["output"] == "first"]
    tracks = {("pitched", "onset_duration"), ("pitched", "time_pitch"), ("drums", "onset_drum"),
              ("Bass", "onset_duration"), ("Bass", "time_pitch"),
              ("Other", "onset_duration"), ("Other", "time_pitch")}  # fmt: skip
    assert {(row["track"], row["metric"]) for row in of_first} == tracks
    assert {row["quarter"] for row in of_first} == {None, 1, 2, 3, 4}
    assert {row["against"] for row in of_first} == {"prompt", "piece"}
    assert len(of_first) == len(prompts) * PLAN.samples * 2 * 5 * len(tracks)


def test_yardsticks_frame_the_scores(experiment):
    _, _, results, _ = experiment
    for track, metric in (("pitched", "onset_duration"), ("drums", "onset_drum")):
        looped, piece, other = (
            similarity(
                results, output=name, against="prompt", track=track, metric=metric, quarter=None
            )["mean"]
            for name in REFERENCE_PASSAGES.values()
        )
        assert looped > 0.95
        assert piece > 0.8
        # The drums of the two styles are the same; their basses are not.
        assert other < 0.6 if metric == "onset_duration" else other > 0.9


def test_a_style_is_one_value(experiment):
    _, measured, results, _ = experiment
    wanted = {"output": "first", "against": "prompt", "track": "drums", "metric": "onset_drum"}
    found = similarity(results, **wanted, quarter=None)
    assert found["n"] + found["missing"] == len(found["values"]) == results["styles"] == 2
    rows = [
        row
        for row in measured.similarities
        if row["quarter"] is None and all(row[key] == wanted[key] for key in wanted)
    ]
    for style, value in zip(("march", "waltz-like"), found["values"], strict=True):
        known = [
            r["similarity"] for r in rows if r["style"] == style and r["similarity"] is not None
        ]
        assert value == (pytest.approx(np.mean(known)) if known else None)


def test_copies_and_diversity(experiment):
    _, measured, results, _ = experiment
    found = {(row["output"], row["measure"]): row for row in results["variety"]}
    assert found["prompt looped", "copied_share"]["mean"] > 0.9
    assert found["first", "copied_share"]["mean"] < 0.1
    assert found["first", "diversity"]["mean"] > 0.5
    assert ("prompt looped", "diversity") not in found
    assert {row["output"] for row in measured.diversities} == {"first", "second"}
    assert all(
        found[name, "tokens"]["mean"] == found["the piece itself", "tokens"]["mean"]
        for name in ("first", "second", "prompt looped")
    )


def test_statistics_are_laid_beside_those_of_the_pieces(experiment):
    prompts, _, results, _ = experiment
    rows = [row for row in results["statistics"] if row["output"] == "first"]
    assert [row["statistic"] for row in rows] == list(STATISTICS)
    assert {row["output"] for row in results["statistics"]} == {"first", "second", "prompt looped"}
    for row in rows:
        assert row["outputs"]["n"] + row["outputs"]["missing"] == len(prompts) * PLAN.samples
        assert row["real"]["n"] + row["real"]["missing"] == len(prompts)
        assert row["wasserstein"] is None or row["wasserstein"] >= 0
    notes = next(row for row in rows if row["statistic"] == "notes_a_bar")
    assert notes["real"]["mean"] > 10
    assert (notes["over"], notes["groups"]) == ("style", 2)
    assert notes["floor"] > 0
    assert 0 <= notes["low"] <= notes["wasserstein"] <= notes["high"]


def test_results_are_plain_and_name_the_models(experiment):
    _, _, results, _ = experiment
    assert json.loads(json.dumps(results, allow_nan=False)) == results
    assert [model["sha256"] for model in results["models"]] == [f"{0:064x}", f"{1:064x}"]
    assert results["settings"]["temperature"] == 0.6
    assert (results["prompts"], results["styles"]) == (4, 2)


def test_the_piece_itself_is_like_itself(experiment):
    prompts, _, _, _ = experiment
    prompt = prompts[0]
    rows = list(compared(prompt, excerpt(prompt.piece, prompt.start_ticks)))
    whole = [r["similarity"] for r in rows if r["against"] == "piece" and r["quarter"] is None]
    assert min(whole) > 0.9


def test_silence_has_no_similarity(experiment):
    prompts, _, _, _ = experiment
    rows = list(compared(prompts[0], trio([(0, 1, 36, DRUMS)])))
    assert {row["similarity"] for row in rows if row["track"] != "drums"} == {None}
    drums = [row["similarity"] for row in rows if row["track"] == "drums"]
    assert [value is None for value in drums] == 2 * [False, False, True, True, True]


def test_a_model_may_be_measured_alone(experiment, tmp_path: Path):
    prompts, _, _, _ = experiment
    model, plan = playable(), replace(PLAN, samples=1)
    write_samples(model, prompts[:1], plan, tmp_path / "samples")
    measured = measure([model], prompts[:1], plan, tmp_path)
    assert measured.diversities == []
    assert {row["output"] for row in measured.passages} == {
        "small", "prompt looped", "the piece itself",
    }  # fmt: skip


def test_the_figure_has_a_box_a_model_and_quarter(experiment):
    _, _, results, _ = experiment
    with figure() as drawn:
        axes = boxes(drawn.subplots(), results, "prompt", "onset_drum")
    rows = [
        row
        for row in results["similarity"]
        if (row["against"], row["metric"]) == ("prompt", "onset_drum") and row["quarter"]
    ]
    shown = sum(row["n"] > 0 for row in rows if row["output"] in ("first", "second"))
    assert len(axes.patches) == shown > 0
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1st", "2nd", "3rd", "4th"]


def test_the_figure_is_drawn(experiment):
    _, _, results, _ = experiment
    drawn = continuation(results)
    assert [axes.get_title(loc="left") for axes in drawn.axes[:3]] == [
        "onset–duration", "time–pitch", "onset–drum",
    ]  # fmt: skip
    assert drawn.axes[0].get_ylabel() == "similarity to the prompt (cosine)"
    assert [text.get_text() for text in drawn.legends[0].get_texts()] == [
        "first", "second", *REFERENCE_PASSAGES.values(),
    ]  # fmt: skip
    assert png(drawn).startswith(b"\x89PNG")


@pytest.mark.parametrize("metrics", [{"onset_drum"}, {"onset_duration", "time_pitch"}])
def test_the_explanation_of_a_narrow_figure_stays_inside(experiment, metrics: set):
    _, _, results, _ = experiment
    similarity = [row for row in results["similarity"] if row["metric"] in metrics]
    drawn = continuation({**results, "similarity": similarity})
    drawn.draw_without_rendering()
    [title] = drawn.texts
    extent = title.get_window_extent()
    assert extent.x0 >= 0
    assert extent.x1 <= drawn.bbox.width
