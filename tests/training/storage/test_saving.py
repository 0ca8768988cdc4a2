"""A checkpoint is complete or absent, tables continue with their run, and a folder has one program at a time."""

import resource
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from tests.training.makers import fitted, toy_config
from training import run_folder
from training.config import RunConfig, read
from training.log import TABLES, Log
from training.loop import Run
from training.run_folder import write_config
from training.validation import Measured


@pytest.fixture
def learned(pianos: Path, tmp_path: Path) -> Run:
    return fitted(toy_config(tmp_path, pianos, optimiser={"steps": 3}, validation={"every": 3}))


def save(run: Run, folder: Path) -> Path:
    averages = run_folder.averages_of(run.model, run.optimiser)
    return run_folder.save(folder, run.model, run.card(), averages, run.state)


def test_full_disk_leaves_no_partial_checkpoint(learned: Run, tmp_path: Path):
    least, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, most))  # acts like a full disk
    try:
        with pytest.raises(OSError, match="too large"):
            save(learned, tmp_path / "full")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (least, most))
    assert list((tmp_path / "full" / "checkpoints").iterdir()) == []
    assert run_folder.newest(tmp_path / "full") is None


def test_prune_keeps_the_newest_and_removes_remains(learned: Run, tmp_path: Path):
    for step in (5, 20, 100, 3):
        learned.state.step = step
        save(learned, tmp_path)
    folder = tmp_path / "checkpoints"
    (folder / ".00000100.new").mkdir()
    (folder / ".00000001.old").mkdir()
    run_folder.prune(tmp_path, 2)
    assert sorted(path.name for path in folder.iterdir()) == ["00000020", "00000100"]
    assert run_folder.newest(tmp_path) == folder / "00000100"


ROWS = [(0, 8, 2.5, 0.1, 3), (8, 16, 1.5, 0.2, 3)]
MEASURED = Measured(inside=2.0, beyond=None, sequences=3, rows=ROWS)
SPEED = {"learning_rate": 0.1, "gradient_norm": 1.0, "tokens_per_second": 5.0}
SPEED["processor_seconds"] = 1.0


def tables(folder: Path, first: int, last: int) -> dict[str, str]:
    """Log some steps and return the tables."""
    log = Log(folder, first, enabled=True)
    for step in range(first + 1, last + 1):
        log.train(step=step, loss=10 - step, **SPEED)
        log.validation(step, MEASURED)
    log.close()
    return {name: (folder / f"{name}.csv").read_text() for name in TABLES}


def test_tables_have_a_header_and_one_row_per_record(tmp_path: Path):
    found = tables(tmp_path, 0, 2)
    assert found["train"].splitlines()[0].split(",") == list(TABLES["train"])
    assert found["train"].splitlines()[1:] == ["1,9,0.1,1.0,5.0,1.0", "2,8,0.1,1.0,5.0,1.0"]
    assert found["validation"].splitlines()[1] == "1,2.0,,3"
    assert found["positions"].splitlines()[-1] == "2,8,16,1.5,0.2,3"
    assert list((tmp_path / "tensorboard").iterdir())
    log = Log(tmp_path / "none", 0, enabled=False)  # of a process other than the first
    log.validation(1, MEASURED)
    log.close()
    assert not (tmp_path / "none").exists()


def test_resuming_drops_rows_after_the_checkpoint_and_partial_lines(tmp_path: Path):
    tables(tmp_path / "cut", 0, 5)  # the last checkpoint is that of step 3
    with (tmp_path / "cut" / "train.csv").open("a") as file:
        file.write("1")  # could be the start of a row of step 12
    assert tables(tmp_path / "cut", 3, 6) == tables(tmp_path / "whole", 0, 6)


@pytest.mark.parametrize("damage", [b"\xff\n", b"many,2\n", b'"' + b"1" * 200_000 + b"\n"])
def test_damaged_table_is_named(damage: bytes, tmp_path: Path):
    path = tmp_path / "train.csv"
    path.write_bytes(b"step\n" + damage)
    with pytest.raises(ValueError, match=str(path)):
        Log(tmp_path, 1, enabled=True)


def begin(config: RunConfig, *, resume: bool = False) -> list[str]:
    remarks = run_folder.check_folder(config, resume=resume)
    with run_folder.run_folder(Path(config.run)):
        write_config(config)
    return remarks


@pytest.fixture
def config(tmp_path: Path) -> RunConfig:
    return toy_config(tmp_path, tmp_path / "data")


def test_configuration_is_written_whole_and_only_on_request(config: RunConfig):
    with run_folder.run_folder(Path(config.run)):
        assert list(Path(config.run).iterdir()) == []
    (Path(config.run) / ".0a1b2c3d4e5f.part").write_text("da")  # an unfinished first file
    assert begin(config) == []
    written = Path(config.run) / "config.yaml"
    assert read(written) == config
    assert yaml.safe_load(written.read_text())["optimiser"]["beta1"] == 0.9


def test_run_is_not_overwritten(config: RunConfig):
    begin(config)
    with pytest.raises(ValueError, match="holds a run, with nothing saved yet; continue it"):
        begin(config)
    [remark] = begin(config, resume=True)
    assert "No step is saved" in remark


def test_folders_without_a_run_are_left_alone(config: RunConfig, tmp_path: Path):
    letter = tmp_path / "other" / "letter.txt"
    letter.parent.mkdir()
    letter.touch()
    with pytest.raises(ValueError, match="is not empty and has no run"):
        begin(replace(config, run=str(letter.parent)), resume=True)
    with pytest.raises(ValueError, match="is a file"):
        begin(replace(config, run=str(letter)))
    there = letter / "run"
    with pytest.raises(OSError, match=f"{there} cannot be made .*; choose another with --set run"):
        begin(replace(config, run=str(there)))
    assert [path.name for path in letter.parent.iterdir()] == ["letter.txt"]


def test_two_programs_do_not_train_in_one_folder(config: RunConfig):
    with (
        run_folder.run_folder(Path(config.run)),
        pytest.raises(ValueError, match="another program is"),
    ):
        begin(config, resume=True)
    begin(config, resume=True)
