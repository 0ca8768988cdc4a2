from pathlib import Path

import pytest

from tests.training.makers import Heard, toy_config, toy_run
from training.results.comparison import (
    Compared,
    compared,
    draw_comparison,
    tabulated,
    write_comparison,
)


def test_a_run_is_what_it_came_to_at_its_last_step(pianos: Path, tmp_path: Path):
    run = toy_run(toy_config(tmp_path, pianos, optimiser={"steps": 6}))
    run.fit(Heard())
    row = compared(run.folder)
    assert (row.name, row.steps, row.failed) == ("run", 6, "")
    assert (row.inside, row.beyond) == (run.state.validation_loss, run.state.validation_beyond)
    assert row.parameters == sum(p.numel() for p in run.model.parameters())
    assert row.tokens_per_second > 0
    assert draw_comparison({"run": [run.folder]}, tmp_path, 32).read_bytes().startswith(b"\x89PNG")


def test_without_a_checkpoint_there_is_nothing_to_compare(tmp_path: Path):
    with pytest.raises(ValueError, match="holds no checkpoint"):
        compared(tmp_path)


def test_the_table_is_ranked_and_failures_come_last(tmp_path: Path):
    rows = [
        Compared(name="broken", failed="the loss was not finite"),
        Compared(name="b", inside=2.0, beyond=2.5, parameters=12345, steps=10),
        Compared(name="a", inside=1.0, tokens_per_second=2345.6, parameters=9, steps=10),
    ]
    write_comparison(rows, tmp_path)
    lines = (tmp_path / "comparison.md").read_text(encoding="utf-8").splitlines()
    assert lines[2] == "| a | 9 | 10 | 1.0000 | – | 2,346 |  |"
    assert lines[3] == "| b | 12,345 | 10 | 2.0000 | 2.5000 | – |  |"
    assert lines[4].endswith("| the loss was not finite |")
    table = (tmp_path / "comparison.csv").read_text(encoding="utf-8").splitlines()
    assert table[0] == "name,parameters,steps,inside,beyond,tokens_per_second,failed"
    assert table[1] == "a,9,10,1.0,,2345.6,"
    assert tabulated(tmp_path) == {"a": None, "b": None, "broken": None}
    write_comparison(rows[1:], tmp_path)
    assert "failed" not in (tmp_path / "comparison.md").read_text(encoding="utf-8")


def test_another_programs_table_is_none_of_a_comparison(tmp_path: Path):
    assert tabulated(tmp_path) == {}
    for text in ("a,b\n1,2\n", "name,seeds\nrope\n", "name,seeds\nrope,many\n"):
        (tmp_path / "comparison.csv").write_text(text)
        with pytest.raises(ValueError, match=r"comparison\.csv is no table of a comparison; move"):
            tabulated(tmp_path)
