"""The table of losses past the trained length: what stands out is what can be compared."""

from evaluation.tables.losses import extrapolation_table


def model(name: str, trained: int, mean: float) -> dict:
    parts = {
        "trained": {"start": 0, "stop": trained, "mean": mean, "deviation": 0.1, "pieces": 3},
        "far": {"start": 24, "stop": 64, "mean": mean + 1, "deviation": 0.1, "pieces": 3},
    }
    return {"model": name, "trained_length": trained, "parts": parts, "drift": {}}


def test_the_lowest_of_the_same_positions_stands_out():
    models = [model("a", 16, 2.0), model("b", 16, 1.0)]
    assert {*extrapolation_table({"models": models}).best} == {(1, 1), (1, 2)}
    models = [model("a", 16, 2.0), model("b", 32, 1.0)]
    assert {*extrapolation_table({"models": models}).best} == {(1, 2)}
    assert extrapolation_table({"models": models[:1]}).best == []
