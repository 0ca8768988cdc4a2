from pathlib import Path
from typing import Any

import pytest
from matplotlib.axes import Axes

from musicgen import weights
from tests.training.makers import on_disk
from training.comparison import draw_runs, ranked, run_results, write_comparison
from training.run_folder import newest, read_state


def test_results_of_a_run_are_those_of_its_last_step(trained: Path, tmp_path: Path):
    row, state = run_results(trained), read_state(newest(trained))
    assert row["steps"] == 20
    assert (row["inside"], row["beyond"]) == (state.validation_loss, state.validation_beyond)
    model, _ = weights.load(trained / "model")
    assert row["parameters"] == sum(p.numel() for p in model.parameters())
    assert row["tokens_per_second"] > 0
    picture = draw_runs({"run": [trained] * 2}, tmp_path / "runs.png", 32, by_time=True)
    assert picture.read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match="has no checkpoint"):
        run_results(tmp_path)


def run(name: str, inside: float | None = None, seed: int = 1, **more) -> dict:
    beyond = None if inside is None else inside + 1
    known = {"inside": inside, "beyond": beyond, "parameters": 7, "steps": 3}
    return {"name": name, "seed": seed, **known, **more}


def runs(name: str, *losses: float) -> list[dict]:
    return [run(name, loss, seed) for seed, loss in enumerate(losses, 1)]


FAILED = "the loss was not finite"


def test_rows_are_ranked_with_failures_last(tmp_path: Path):
    found = [
        {"name": "broken", "seed": 1, "failed": FAILED},
        *(run("b", 2.0, seed, beyond=2.5, parameters=12345, steps=10) for seed in (1, 2)),
        run("a", 1.0, beyond=None, parameters=9, steps=10, tokens_per_second=2345.6),
    ]
    write_comparison(ranked(found, None), tmp_path)
    lines = (tmp_path / "comparison.md").read_text(encoding="utf-8").splitlines()
    assert lines[2] == "| a | 1 | 9 | 10 | 1.0000 | – | 2,346 |  |"
    assert lines[3] == "| b | 2 | 12,345 | 10 | 2.0000 ± 0.0000 | 2.5000 ± 0.0000 | – |  |"
    assert lines[4].endswith(f"| {FAILED} |")
    write_comparison(ranked(found[1:], None), tmp_path)
    assert "failed" not in (tmp_path / "comparison.md").read_text(encoding="utf-8")


def test_intervals_are_students_and_changes_are_paired_by_seed():
    found = [*runs("none", 1.0, 2.0, 3.0), *runs("rope", 0.9, 1.8, 3.0)]
    rope, none = ranked(found, "none")
    assert (none["seeds"], none["inside"], none["beyond"]) == (3, 2.0, 3.0)
    t = 4.302653  # of two degrees of freedom
    assert none["inside_interval"] == pytest.approx(t / 3**0.5)
    assert none["change"] is None
    assert rope["change"] == pytest.approx(-0.1)
    assert rope["change_interval"] == pytest.approx(t * 0.1 / 3**0.5)
    assert rope["change_beyond"] == pytest.approx(-0.1)
    (one,) = ranked(runs("rope", 1.5), None)
    assert (one["inside"], one["inside_interval"]) == (1.5, None)


def test_seeds_with_a_failed_run_are_not_paired():
    broken = {"name": "rope", "seed": 2, "failed": FAILED}
    found = [*runs("none", 1, 2, 3), run("rope", 1, 1), broken, run("rope", 5, 3)]
    rope = ranked(found, "none")[1]
    assert (rope["seeds"], rope["inside"], rope["change"]) == (2, 3.0, 1.0)
    assert rope["failed"] == FAILED
    (alone,) = ranked([broken], None)
    assert (alone["seeds"], alone["inside"], alone["failed"]) == (0, None, FAILED)


TABLES = {
    "train": "step,loss,processor_seconds\n1,3.0,60\n2,2.0,60\n3,1.0,60\n",
    "validation": "step,inside,beyond\n2,2.5,\n3,1.5,\n",
    "positions": "step,from,to,loss,deviation\n2,0,8,9,9\n3,0,8,1,0.5\n3,8,16,2,0.5\n",
}


@pytest.mark.parametrize(("by_time", "at"), [(False, [0, 15, 30, 40]), (True, [0, 1.5, 3, 3])])
def test_every_validation_is_drawn(tmp_path: Path, monkeypatch, by_time: bool, at: list[float]):
    tables = {
        "train": "step,loss,processor_seconds\n10,3.0,60\n30,2.0,120\n",
        "validation": "step,inside,beyond\n0,4,\n15,3,\n30,2,\n40,1,\n",
        "positions": TABLES["positions"],
    }
    for name, text in tables.items():
        (tmp_path / f"{name}.csv").write_text(text)
    drawn: list[tuple[list[float], list[float]]] = []
    plot = Axes.plot

    def noted(axes: Axes, *given: Any, **look: Any) -> Any:
        if look.get("fillstyle") == "none" and len(given[0]):
            drawn.append(([*given[0]], [*given[1]]))
        return plot(axes, *given, **look)

    monkeypatch.setattr(Axes, "plot", noted)
    draw_runs({"run": [tmp_path]}, tmp_path / "curves.png", 8, by_time=by_time)
    assert drawn == [(pytest.approx(at), [4, 3, 2, 1])]


@pytest.mark.parametrize("rows", [1, 9])
def test_curves_are_drawn_for_any_name_and_length(tmp_path: Path, rows: int):
    run = tmp_path / on_disk("$\\foo$\x1b\u202e")  # not mathematics
    run.mkdir()
    for name, text in TABLES.items():
        (run / f"{name}.csv").write_text("\n".join(text.splitlines()[:rows]) + "\n")
    picture = draw_runs({run.name: [run]}, run / "curves.png", 8)
    assert picture.read_bytes().startswith(b"\x89PNG")
