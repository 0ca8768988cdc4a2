"""What encodings know of position, of models of which some have a longest sequence."""

from collections.abc import Sequence

from evaluation.tables import positions_table


def model(name: str, values: Sequence[float | None]) -> dict:
    rows = [
        {"start": 8 * i, "stop": 8 * i + 8, "offset": 4, "tokens": 5, "translation": value,
         "monotonicity": value}
        for i, value in enumerate(values)
    ]  # fmt: skip
    return {"model": name, "probes": {"length": 16, "best_table": rows}}


def test_every_column_has_its_title_whoever_comes_first():
    short, long = model("learned", [0.1, 0.2]), model("sine", [0.3, 0.1, 0.2])
    for models in ([short, long], [long, short]):
        table = positions_table({"models": models})
        assert table.head[2:] == ["1 … 8\n< 4", "9 … 16\n< 4", "17 … 24\n< 4"]
        assert {len(row) for row in table.rows} == {len(table.head)}
        cells = {row[0]: row[2:] for row in table.rows if row[0]}
        assert cells == {"learned": ["0.100", "0.200", "–"], "sine": ["0.300", "0.100", "0.200"]}
        best = {table.rows[i - i % 2][0] for i, column in table.best if column == 4}
        assert best == {"sine"}


def test_who_holds_no_position_is_named_and_is_not_the_best():
    models = [model("none", [None, None]), model("sine", [0.0, 0.2]), model("both", [None, 0.3])]
    table = positions_table({"models": models})
    assert table.rows[0][2:] == ["–", "–"]
    assert "No position is held in the first layer's weights of none, which" in table.caption
    assert {(i, column) for i, column in table.best if i < 2} == set()
    assert "No position is held" not in positions_table({"models": models[1:]}).caption
