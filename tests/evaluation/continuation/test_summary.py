"""Sums of the groove experiment, on rows made by hand."""

import numpy as np

from evaluation.continuation.experiment import by_style, summary
from evaluation.continuation.results import statistics_table
from evaluation.metrics.statistics import STATISTICS


def row(style: str, value: float | None, output: str = "model") -> dict:
    return {"output": output, "style": style, "similarity": value}


def test_samples_count_within_their_style_only():
    rows = [row("b", 1.0), row("a", 0.0), row("b", 0.5), row("b", 0.0), row("a", None)]
    (found,) = by_style(rows, ["output"], "similarity")
    assert found["values"] == [0.0, 0.5]
    assert (found["n"], found["missing"], found["mean"]) == (2, 0, 0.25)


def test_a_style_without_a_value_is_missing():
    first, second = by_style(
        [row("a", None), row("b", 0.5), row("a", 0.5, "other")], ["output"], "similarity"
    )
    assert (first["output"], first["values"], first["n"], first["missing"]) == (
        "model", [None, 0.5], 1, 1,
    )  # fmt: skip
    assert (second["output"], second["mean"], second["low"]) == ("other", 0.5, None)


def passages(styles: int) -> list[dict]:
    """Return what is known of passages of 8 prompts in some styles."""
    random, rows = np.random.default_rng(0), []
    beside = {"tokens": 9, "beats": 4.0, "copied_share": 0.1}
    for output, samples in (
        ("model", 3),
        ("prompt looped", 1),
        ("the piece itself", 1),
        ("another style", 1),
    ):
        for prompt in range(8):
            rows += [
                {"output": output, "prompt": str(prompt), "style": str(prompt % styles), **beside,
                 **{name: random.normal() for name in STATISTICS}}
                for _ in range(samples)
            ]  # fmt: skip
    return rows


def test_distances_have_their_interval_their_floor_and_n_and_no_control_of_the_same_pieces():
    for styles, over, groups in ((4, "style", 4), (1, "prompt", 8)):
        found = summary([], passages(styles), [])
        rows = found["statistics"]
        assert {row["output"] for row in rows} == {"model", "prompt looped"}
        assert {(row["over"], row["groups"]) for row in rows} == {(over, groups)}
        assert {row["outputs"]["n"] for row in rows} == {24, 8}
        assert all(0 <= row["low"] <= row["wasserstein"] <= row["high"] for row in rows)
        assert all(row["floor"] > 0 for row in rows)
        table = statistics_table(found)
        assert table.head == [
            "statistic",
            "the piece itself",
            "apart",
            "model",
            "apart",
            "prompt looped",
            "apart",
        ]
        assert "(8)" in table.rows[0][1]
        assert "(24)" in table.rows[0][3]
        assert "[" in table.rows[0][4]
        assert {len(row) for row in table.rows} == {len(table.head)}
        assert f"over {'styles' if over == 'style' else 'pieces'};" in table.caption
