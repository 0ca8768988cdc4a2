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

TABLES = {
    "train": "step,loss\n1,3.0\n2,2.0\n3,1.0\n",
    "validation": "step,inside,beyond\n2,2.5,\n3,1.5,\n",
    "positions": "step,from,to,loss,deviation\n2,0,8,9,9\n3,0,8,1,0.5\n3,8,16,2,0.5\n",
}


@pytest.mark.parametrize("rows", [1, 9])
@pytest.mark.filterwarnings("error")
def test_curves_are_drawn_of_a_run_of_any_name_and_length(tmp_path: Path, rows: int):
    run = tmp_path / on_disk("$\\foo$\x1b\u202e")  # which is no mathematics
    run.mkdir()
    for name, text in TABLES.items():
        (run / f"{name}.csv").write_text("\n".join(text.splitlines()[:rows]) + "\n")
    assert write_curves(run, 8).read_bytes().startswith(b"\x89PNG")
    axes = Figure().subplots()
    draw_position_means(axes, {r"$\foo$": read_table(run / "positions.csv")}, 8)
    axes.figure.savefig(run / "means.png")


def test_axes_say_what_they_show(tmp_path: Path):
    for name, text in TABLES.items():
        (tmp_path / f"{name}.csv").write_text(text)
    train, validation, positions = (read_table(tmp_path / f"{name}.csv") for name in TABLES)
    assert validation["step"].tolist() == [2, 3]
    assert np.isnan(validation["beyond"]).all()
    left, right = Figure().subplots(1, 2)
    draw_losses(left, train, validation)
    draw_positions(right, positions, 8)
    assert (left.get_xlabel(), right.get_xlabel()) == ("step", "position (tokens)")
    assert left.get_ylabel() == right.get_ylabel() == "loss (nats a token)"
    assert "trained length" in [text.get_text() for text in right.get_legend().get_texts()]
    means, mark = right.get_lines()
    assert means.get_xydata().tolist() == [[4, 1], [12, 2]]  # of the last validation
    assert mark.get_xdata()[0] == 8
    assert len(left.get_lines()) == 3  # nothing was measured past the trained length


def test_smoothing_keeps_ends_and_means():
    values = np.arange(100.0)
    np.testing.assert_allclose(smoothed(values, 0.1), values)
    np.testing.assert_allclose(smoothed(np.array([0.0, 3.0, 0.0]), 0.7), [0, 1, 0])
