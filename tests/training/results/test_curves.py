from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from tests.names import on_disk
from training.results.curves import (
    draw_losses,
    draw_position_means,
    draw_positions,
    read_table,
    smoothed,
    write_curves,
)

TRAIN = "step,loss\n1,3.0\n2,2.0\n3,1.0\n"
VALIDATION = "step,inside,beyond\n2,2.5,\n3,1.5,\n"
POSITIONS = "step,from,to,loss,deviation\n2,0,8,9,9\n3,0,8,1,0.5\n3,8,16,2,0.5\n"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    for name, text in (("train", TRAIN), ("validation", VALIDATION), ("positions", POSITIONS)):
        (tmp_path / f"{name}.csv").write_text(text)
    return tmp_path


def test_a_table_is_read_by_columns(run: Path):
    table = read_table(run / "validation.csv")
    assert table["step"].tolist() == [2, 3]
    assert np.isnan(table["beyond"]).all()


def test_a_picture_is_written(run: Path):
    assert write_curves(run, 8).read_bytes().startswith(b"\x89PNG")


@pytest.mark.filterwarnings("error")
def test_the_name_of_a_run_is_no_mathematics(run: Path):
    named = run / on_disk("$\\foo$\x1b\u202e")
    named.mkdir()
    for table in run.glob("*.csv"):
        table.rename(named / table.name)
    assert write_curves(named, 8).exists()
    axes = Figure().subplots()
    draw_position_means(axes, {r"$\foo$": read_table(named / "positions.csv")}, 8)
    axes.figure.savefig(run / "means.png")


def test_nothing_logged_yet_is_drawn_too(run: Path):
    for name in ("train", "validation", "positions"):
        path = run / f"{name}.csv"
        path.write_text(path.read_text().splitlines()[0] + "\n")
    assert write_curves(run, 8).exists()


def test_axes_say_what_they_show(run: Path):
    left, right = Figure().subplots(1, 2)
    draw_losses(left, read_table(run / "train.csv"), read_table(run / "validation.csv"))
    draw_positions(right, read_table(run / "positions.csv"), 8)
    assert (left.get_xlabel(), right.get_xlabel()) == ("step", "position (tokens)")
    assert left.get_ylabel() == right.get_ylabel() == "loss (nats a token)"
    names = [text.get_text() for text in right.get_legend().get_texts()]
    assert "trained length" in names
    means, mark = right.get_lines()
    assert means.get_xydata().tolist() == [[4, 1], [12, 2]]  # of the last validation
    assert mark.get_xdata()[0] == 8
    assert len(left.get_lines()) == 3  # nothing was measured past the trained length


def test_smoothing_keeps_ends_and_means():
    values = np.arange(100.0)
    np.testing.assert_allclose(smoothed(values, 0.1), values)
    np.testing.assert_allclose(smoothed(np.array([0.0, 3.0, 0.0]), 0.7), [0, 1, 0])
