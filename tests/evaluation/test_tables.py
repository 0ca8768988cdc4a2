"""Tables of results: only comparable values are emphasised, and gaps are named."""

from evaluation.tables import extrapolation_table, positions_table


def model_losses(name: str, trained: int, mean: float, stop: int = 64) -> dict:
    rest = {"deviation": 0.1, "pieces": 3}
    parts = {
        "trained": {"start": 0, "stop": trained, "mean": mean, **rest},
        "far": {"start": 24, "stop": stop, "mean": mean + 1, **rest},
    }
    facts = dict.fromkeys(("sha256", "encoding", "language"), "")
    return {"model": name, "trained_length": trained, "parts": parts, "drift": {}, **facts}


def test_the_lowest_loss_at_the_same_positions_is_emphasised():
    models = [model_losses("a", 16, 2.0), model_losses("b", 16, 1.0)]
    assert {*extrapolation_table({"models": models}).best} == {(1, 1), (1, 2)}
    assert extrapolation_table({"models": models[:1]}).best == []
    models[1] = model_losses("b", 32, 1.0)
    assert {*extrapolation_table({"models": models}).best} == {(1, 2)}
    models[1] = model_losses("learned", 16, 1.0, stop=32)  # its maximum length
    found = extrapolation_table({"models": models})
    assert found.head[1:3] == ["trained: 1 … 16", "beyond"]
    assert [row[1].partition(" ")[0] for row in found.rows] == ["2.000", "1.000"]
    assert [row[2].partition(": ")[2] for row in found.rows] == ["25 … 64", "25 … 32"]
    assert {*found.best} == {(1, 1)}
    models[0]["parts"]["far"] = None
    assert extrapolation_table({"models": models}).head[2] == "25 … 32"
    assert extrapolation_table({"models": models[:1]}).head[2] == "beyond"


def model_probes(name: str, *values: float | None) -> dict:
    rows = [
        {"start": 8 * i, "stop": 8 * i + 8, "offset": 4, "tokens": 5}
        | dict.fromkeys(("translation", "monotonicity"), value)
        for i, value in enumerate(values)
    ]
    return {"model": name, "probes": {"length": 16, "best_table": rows}}


def test_every_range_has_a_column_and_models_without_position_are_named():
    """The model "learned" has a maximum length, and thus fewer ranges; "none" comes first and has no values."""
    none, short = model_probes("none", None, None), model_probes("learned", 0.1, 0.2)
    table = positions_table({"models": [none, short, model_probes("sine", 0.3, 0.1, 0.2)]})
    assert table.head[2:] == ["1 … 8\n< 4", "9 … 16\n< 4", "17 … 24\n< 4"]
    assert {len(row) for row in table.rows} == {len(table.head)}
    assert {row[0]: row[2:] for row in table.rows if row[0]} == {
        "none": ["–", "–", "–"],
        "learned": ["0.100", "0.200", "–"],
        "sine": ["0.300", "0.100", "0.200"],
    }
    assert {*table.best} == {(2, 2), (3, 2), (4, 3), (5, 3), (4, 4), (5, 4)}
    assert "The first layer's weights of none are equal at all offsets" in table.caption
    assert "are equal at all offsets" not in positions_table({"models": [short]}).caption
