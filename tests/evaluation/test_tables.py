"""Tables of results: what stands out is what can be compared, and what is missing is said."""

from collections.abc import Sequence

from evaluation.tables import extrapolation_rows, extrapolation_table, positions_table


def of_losses(name: str, trained: int, mean: float) -> dict:
    parts = {
        "trained": {"start": 0, "stop": trained, "mean": mean, "deviation": 0.1, "pieces": 3},
        "far": {"start": 24, "stop": 64, "mean": mean + 1, "deviation": 0.1, "pieces": 3},
    }
    return {"model": name, "trained_length": trained, "parts": parts, "drift": {}}


def test_the_lowest_of_the_same_positions_stands_out():
    models = [of_losses("a", 16, 2.0), of_losses("b", 16, 1.0)]
    assert {*extrapolation_table({"models": models}).best} == {(1, 1), (1, 2)}
    models = [of_losses("a", 16, 2.0), of_losses("b", 32, 1.0)]
    assert {*extrapolation_table({"models": models}).best} == {(1, 2)}
    assert extrapolation_table({"models": models[:1]}).best == []


def test_a_control_has_a_column_and_rows_of_its_own():
    models = [of_losses("a", 16, 2.0), of_losses("b", 16, 1.0)]
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
    models = [of_losses("none", 16, 2.0), of_losses("learned", 16, 1.0)]
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


def of_positions(name: str, values: Sequence[float | None]) -> dict:
    rows = [
        {"start": 8 * i, "stop": 8 * i + 8, "offset": 4, "tokens": 5, "translation": value,
         "monotonicity": value}
        for i, value in enumerate(values)
    ]  # fmt: skip
    return {"model": name, "probes": {"length": 16, "best_table": rows}}


def test_every_column_has_its_title_whoever_comes_first():
    """One model has a longest sequence, and so fewer columns."""
    short, long = of_positions("learned", [0.1, 0.2]), of_positions("sine", [0.3, 0.1, 0.2])
    for models in ([short, long], [long, short]):
        table = positions_table({"models": models})
        assert table.head[2:] == ["1 … 8\n< 4", "9 … 16\n< 4", "17 … 24\n< 4"]
        assert {len(row) for row in table.rows} == {len(table.head)}
        cells = {row[0]: row[2:] for row in table.rows if row[0]}
        assert cells == {"learned": ["0.100", "0.200", "–"], "sine": ["0.300", "0.100", "0.200"]}
        best = {table.rows[i - i % 2][0] for i, column in table.best if column == 4}
        assert best == {"sine"}


def test_who_holds_no_position_is_named_and_is_not_the_best():
    values = {"none": [None, None], "sine": [0.0, 0.2], "both": [None, 0.3]}
    models = [of_positions(name, of_model) for name, of_model in values.items()]
    table = positions_table({"models": models})
    assert table.rows[0][2:] == ["–", "–"]
    assert "No position is held in the first layer's weights of none, which" in table.caption
    assert {(i, column) for i, column in table.best if i < 2} == set()
    assert "No position is held" not in positions_table({"models": models[1:]}).caption
