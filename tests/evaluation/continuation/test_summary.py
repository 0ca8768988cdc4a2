"""Sums of the groove experiment, on rows made by hand."""

from evaluation.continuation.summary import by_style


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
