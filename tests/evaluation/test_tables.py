"""Tables of results: every cell is comparable, and gaps are shown."""

from evaluation.tables import extrapolation_table, positions_table


def model_losses(name: str, trained: int, mean: float) -> dict:
    rest = {"deviation": 0.1, "pieces": 3}
    parts = {
        "trained": {"start": 0, "stop": trained, "mean": mean, **rest},
        "far": {"start": 24, "stop": 64, "mean": mean + 1, **rest},
    }
    return {"model": name, "trained_length": trained, "parts": parts, "drift": {}}


def test_losses_have_their_positions():
    found = extrapolation_table({"models": [model_losses("a", 16, 2.0)]})
    assert found.head[1:4] == ["trained", "up to 1.5 × trained", "beyond"]
    assert found.rows[0][1:4] == ["2.000 ± 0.100 (3): 1 … 16", "–", "3.000 ± 0.100 (3): 25 … 64"]


def model_probes(name: str, *values: float | None) -> dict:
    rows = [
        {"start": 8 * i, "stop": 8 * i + 8, "offset": 4, "tokens": 5}
        | dict.fromkeys(("translation", "monotonicity"), value)
        for i, value in enumerate(values)
    ]
    return {"model": name, "probes": {"length": 16, "best_table": rows}}


def test_every_range_has_a_column():
    """The model "learned" has a maximum length, and thus fewer ranges; "none" comes first and has no values."""
    none, short = model_probes("none", None, None), model_probes("learned", 0.1, 0.2)
    table = positions_table({"models": [none, short, model_probes("sine", 0.3, 0.1, 0.2)]})
    assert table.head[2:] == ["0 … 0.5\n< 0.25", "0.5 … 1\n< 0.25", "1 … 1.5\n< 0.25"]
    assert {len(row) for row in table.rows} == {len(table.head)}
    assert {row[0]: row[2:] for row in table.rows if row[0]} == {
        "none": ["–", "–", "–"],
        "learned": ["0.100", "0.200", "–"],
        "sine": ["0.300", "0.100", "0.200"],
    }
