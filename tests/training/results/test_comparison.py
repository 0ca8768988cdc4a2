from pathlib import Path

import pytest
from matplotlib.figure import Figure

from musicgen import checkpoint
from tests.names import on_disk
from training.comparison import (
    Compared,
    Repeated,
    compared,
    draw_comparison,
    repeated,
    tabulated,
    write_comparison,
)
from training.run_folder import newest, read_state
from training.validation import draw_position_means, read_table, write_curves


def test_run_is_what_it_came_to_at_its_last_step(trained: Path, tmp_path: Path):
    row, state = compared(trained), read_state(newest(trained))
    assert (row.name, row.steps, row.failed) == ("run", 20, "")
    assert (row.inside, row.beyond) == (state.validation_loss, state.validation_beyond)
    model, _ = checkpoint.load(trained / "model")
    assert row.parameters == sum(p.numel() for p in model.parameters())
    assert row.tokens_per_second > 0
    assert draw_comparison({"run": [trained]}, tmp_path, 32).read_bytes().startswith(b"\x89PNG")
    drawn = Figure().subplots()
    tables = [read_table(trained / "positions.csv")] * 2
    draw_position_means(drawn, {"run": tables[:1]}, 32)
    assert not drawn.collections  # of one run, no interval
    draw_position_means(drawn, {"run": tables}, 32)
    assert len(drawn.collections) == 1
    with pytest.raises(ValueError, match="holds no checkpoint"):
        compared(tmp_path)


def test_table_is_ranked_and_failures_come_last(tmp_path: Path):
    rows = [
        Repeated(name="broken", seeds=0, failed="the loss was not finite"),
        Repeated(name="b", seeds=2, inside=2.0, beyond=2.5, parameters=12345, steps=10),
        Repeated(name="a", seeds=1, inside=1.0, tokens_per_second=2345.6, parameters=9, steps=10),
    ]
    assert tabulated(tmp_path) == {}
    write_comparison(rows, tmp_path)
    lines = (tmp_path / "comparison.md").read_text(encoding="utf-8").splitlines()
    assert lines[2] == "| a | 1 | 9 | 10 | 1.0000 | – | 2,346 |  |"
    assert lines[3] == "| b | 2 | 12,345 | 10 | 2.0000 | 2.5000 | – |  |"
    assert lines[4].endswith("| the loss was not finite |")
    assert tabulated(tmp_path) == {"a": 1, "b": 2, "broken": 0}
    write_comparison(rows[1:], tmp_path)
    assert "failed" not in (tmp_path / "comparison.md").read_text(encoding="utf-8")
    for text in ("a,b\n1,2\n", "name,seeds\nrope\n", "name,seeds\nrope,many\n"):
        (tmp_path / "comparison.csv").write_text(text)
        with pytest.raises(ValueError, match=r"comparison\.csv is no table of a comparison; move"):
            tabulated(tmp_path)


def runs(name: str, *losses: float) -> list[Compared]:
    return [Compared(name=name, inside=x, beyond=x + 1, parameters=7, steps=3) for x in losses]


def test_means_have_students_interval_and_changes_are_paired_by_seed():
    found = {"none": runs("none", 1.0, 2.0, 3.0), "rope": runs("rope", 0.9, 1.8, 3.0)}
    none, rope = repeated(found, {"rope": "none"})
    assert (none.seeds, none.inside, none.beyond, none.against) == (3, 2.0, 3.0, "")
    assert none.inside_interval == pytest.approx(4.302653 / 3**0.5)  # t of two degrees of freedom
    assert none.change is None
    assert rope.against == "none"
    assert rope.change == pytest.approx(-0.1)
    assert rope.change_interval == pytest.approx(4.302653 * 0.1 / 3**0.5)
    assert rope.change_beyond == pytest.approx(-0.1)
    (one,) = repeated({"rope": runs("rope", 1.5)}, {})
    assert (one.inside, one.inside_interval) == (1.5, None)


def test_seed_that_failed_on_either_side_makes_no_pair():
    broken = Compared(name="rope", failed="the loss was not finite")
    found = {"none": runs("none", 1, 2, 3), "rope": [*runs("rope", 1), broken, *runs("rope", 5)]}
    rope = repeated(found, {"rope": "none"})[1]
    assert (rope.seeds, rope.inside, rope.change) == (2, 3.0, 1.0)
    assert rope.failed == "the loss was not finite"
    alone = repeated({"rope": [broken]}, {})[0]
    assert (alone.seeds, alone.inside, alone.failed) == (0, None, "the loss was not finite")


TABLES = {
    "train": "step,loss\n1,3.0\n2,2.0\n3,1.0\n",
    "validation": "step,inside,beyond\n2,2.5,\n3,1.5,\n",
    "positions": "step,from,to,loss,deviation\n2,0,8,9,9\n3,0,8,1,0.5\n3,8,16,2,0.5\n",
}


@pytest.mark.parametrize("rows", [1, 9])
def test_curves_are_drawn_of_a_run_of_any_name_and_length(tmp_path: Path, rows: int):
    run = tmp_path / on_disk("$\\foo$\x1b\u202e")  # which is no mathematics
    run.mkdir()
    for name, text in TABLES.items():
        (run / f"{name}.csv").write_text("\n".join(text.splitlines()[:rows]) + "\n")
    assert write_curves(run, 8).read_bytes().startswith(b"\x89PNG")
    axes = Figure().subplots()
    draw_position_means(axes, {r"$\foo$": [read_table(run / "positions.csv")]}, 8)
    axes.figure.savefig(run / "means.png")
