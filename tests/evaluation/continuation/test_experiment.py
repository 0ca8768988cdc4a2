"""The groove experiment on small models: what is measured, summed up and drawn."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from evaluation.continuation.experiment import by_style, compared, run, summary
from evaluation.continuation.prompts import REFERENCE_PASSAGES, read_prompts
from evaluation.continuation.results import boxes, continuation, statistics_table
from evaluation.metrics.statistics import STATISTICS
from evaluation.plots.style import figure, png
from tests.evaluation.continuation.toys import PLAN, playable, write_pieces
from tests.evaluation.scores import DRUMS, trio
from tokenization.language import language
from tokenization.score import excerpt

GROOVE = language("groove")


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory):
    """Return the prompts, what was measured, the results of two small models, and their folder."""
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
    (row,) = (r for r in results["similarity"] if wanted.items() <= r.items())
    return row


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
        wanted = {"against": "prompt", "track": track, "metric": metric, "quarter": None}
        looped, piece, other = (
            similarity(results, output=name, **wanted)["mean"]
            for name in REFERENCE_PASSAGES.values()
        )
        assert looped > 0.95
        assert piece > 0.8
        # The drums of the two styles are the same; their basses are not.
        assert other < 0.6 if metric == "onset_duration" else other > 0.9


def test_a_style_is_one_value(experiment):
    _, measured, results, _ = experiment
    wanted = {"output": "first", "against": "prompt", "track": "drums", "metric": "onset_drum"}
    wanted = {**wanted, "quarter": None}
    found = similarity(results, **wanted)
    assert found["n"] + found["missing"] == len(found["values"]) == results["styles"] == 2
    rows = [row for row in measured.similarities if wanted.items() <= row.items()]
    for style, value in zip(("march", "waltz-like"), found["values"], strict=True):
        known = [row["similarity"] for row in rows if row["style"] == style]
        known = [value for value in known if value is not None]
        assert value == (pytest.approx(np.mean(known)) if known else None)


def test_means_are_over_styles():
    def row(style: str, value: float | None, output: str = "model") -> dict:
        return {"output": output, "style": style, "similarity": value}

    rows = [row("b", 1.0), row("a", 0.0), row("b", 0.5), row("b", 0.0), row("a", None)]
    (found,) = by_style(rows, ["output"], "similarity")
    assert found["values"] == [0.0, 0.5]
    assert (found["n"], found["missing"], found["mean"]) == (2, 0, 0.25)
    rows = [row("a", None), row("b", 0.5), row("a", 0.5, "other")]
    first, second = by_style(rows, ["output"], "similarity")
    assert (first["output"], first["values"], first["n"]) == ("model", [None, 0.5], 1)
    assert first["missing"] == 1
    assert (second["output"], second["mean"], second["low"]) == ("other", 0.5, None)


def test_copies_and_diversity(experiment):
    _, measured, results, _ = experiment
    found = {(row["output"], row["measure"]): row for row in results["variety"]}
    assert found["prompt looped", "copied_share"]["mean"] > 0.9
    assert found["first", "copied_share"]["mean"] < 0.1
    assert found["first", "diversity"]["mean"] > 0.5
    assert ("prompt looped", "diversity") not in found
    assert {row["output"] for row in measured.diversities} == {"first", "second"}
    lengths = {found[name, "tokens"]["mean"] for name in ("first", "second", "prompt looped")}
    assert lengths == {found["the piece itself", "tokens"]["mean"]}


def test_statistics_are_laid_beside_those_of_the_pieces(experiment):
    prompts, _, results, _ = experiment
    rows = [row for row in results["statistics"] if row["output"] == "first"]
    assert [row["statistic"] for row in rows] == list(STATISTICS)
    for row in rows:
        assert row["outputs"]["n"] + row["outputs"]["missing"] == len(prompts) * PLAN.samples
        assert row["real"]["n"] + row["real"]["missing"] == len(prompts)
    notes = next(row for row in rows if row["statistic"] == "notes_a_bar")
    assert notes["real"]["mean"] > 10


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
    assert "(8)" in table.rows[0][1]
    assert "(24)" in table.rows[0][3]
    assert "[" in table.rows[0][4]
    assert {len(row) for row in table.rows} == {len(table.head)}
    assert f"over {over};" in table.caption


def test_results_are_plain_and_name_the_models(experiment):
    _, _, results, _ = experiment
    assert json.loads(json.dumps(results, allow_nan=False)) == results
    assert [model["sha256"] for model in results["models"]] == [f"{0:064x}", f"{1:064x}"]
    assert results["settings"]["temperature"] == 0.6
    assert (results["prompts"], results["styles"]) == (4, 2)


def test_the_piece_is_like_itself_and_silence_like_nothing(experiment):
    (prompt, *_), _, _, _ = experiment
    rows = list(compared(prompt, excerpt(prompt.piece, prompt.start_ticks)))
    whole = [r["similarity"] for r in rows if r["against"] == "piece" and r["quarter"] is None]
    assert min(whole) > 0.9
    rows = list(compared(prompt, trio([(0, 1, 36, DRUMS)])))
    assert {row["similarity"] for row in rows if row["track"] != "drums"} == {None}
    drums = [row["similarity"] for row in rows if row["track"] == "drums"]
    assert [value is None for value in drums] == 2 * [False, False, True, True, True]


def test_a_model_may_be_measured_alone_with_one_sample(experiment, tmp_path: Path):
    prompts, _, _, _ = experiment
    measured, _ = run([playable()], prompts[:1], replace(PLAN, samples=1), tmp_path)
    assert measured.diversities == []
    outputs = {row["output"] for row in measured.passages}
    assert outputs == {"small", "prompt looped", "the piece itself"}


def test_the_figure_has_a_box_a_model_and_quarter(experiment):
    _, _, results, _ = experiment
    with figure() as drawn:
        axes = boxes(drawn.subplots(), results, "prompt", "onset_drum")
    wanted = {"against": "prompt", "metric": "onset_drum"}
    rows = [row for row in results["similarity"] if wanted.items() <= row.items()]
    shown = sum(
        row["n"] > 0 for row in rows if row["quarter"] and row["output"] in ("first", "second")
    )
    assert len(axes.patches) == shown > 0
    drawn = continuation(results)
    assert [axes.get_title(loc="left") for axes in drawn.axes[:3]] == [
        "onset–duration", "time–pitch", "onset–drum",
    ]  # fmt: skip
    assert [text.get_text() for text in drawn.legends[0].get_texts()] == [
        "first", "second", *REFERENCE_PASSAGES.values(),
    ]  # fmt: skip
    assert png(drawn).startswith(b"\x89PNG")


def test_the_explanation_of_a_narrow_figure_stays_inside(experiment):
    _, _, results, _ = experiment
    narrow = [row for row in results["similarity"] if row["metric"] == "onset_drum"]
    drawn = continuation({**results, "similarity": narrow})
    drawn.draw_without_rendering()
    [title] = drawn.texts
    extent = title.get_window_extent()
    assert extent.x0 >= 0
    assert extent.x1 <= drawn.bbox.width
