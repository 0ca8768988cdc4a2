"""The table of losses past the trained length: what stands out is what can be compared."""

from evaluation.tables import extrapolation_rows, extrapolation_table


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


def test_a_control_has_a_column_and_rows_of_its_own():
    models = [model("a", 16, 2.0), model("b", 16, 1.0)]
    assert "all before − the last alone" not in extrapolation_table({"models": models}).head
    control = {"mean": -0.5, "deviation": 0.1, "pieces": 3}
    models[1]["control"] = control
    found = extrapolation_table({"models": models})
    assert found.head[-1] == "all before − the last alone"
    assert found.rows[1][-1].startswith("−0.500 ± 0.058")
    knows = {"sha256": "", "encoding": "", "language": ""}
    result = {"models": [{**one, **knows} for one in models], "data": {"checksum": "c"}}
    rows = extrapolation_rows(result)
    assert [row["part"] for row in rows] == ["trained", "far", "trained", "far", "control"]
    assert rows[-1].items() >= control.items()


def test_where_a_part_ends_elsewhere_each_cell_says_where():
    models = [model("none", 16, 2.0), model("learned", 16, 1.0)]
    models[1]["parts"]["far"]["stop"] = 32  # its longest sequence
    found = extrapolation_table({"models": models})
    assert found.head[1:3] == ["trained: 1 … 16", "further"]
    assert [row[1].partition(" ")[0] for row in found.rows] == ["2.000", "1.000"]
    ends = [row[2].partition(": ")[2] for row in found.rows]
    assert ends == ["25 … 64", "25 … 32"]
    assert {*found.best} == {(1, 1)}
    models[0]["parts"]["far"] = None
    assert extrapolation_table({"models": models}).head[2] == "25 … 32"
    assert extrapolation_table({"models": models[:1]}).head[2] == "further"
