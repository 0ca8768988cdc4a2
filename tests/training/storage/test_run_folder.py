"""The folder of a run is taken by one program at a time and never overwritten."""

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from tests.training.makers import toy_config
from training.config import RunConfig, read
from training.run_folder import run_folder, write_config


def begin(config: RunConfig, *, resume: bool = False) -> list[str]:
    with run_folder(config, resume=resume) as remarks:
        write_config(config)
        return remarks


@pytest.fixture
def config(tmp_path: Path) -> RunConfig:
    return toy_config(tmp_path, tmp_path / "data")


def test_configuration_is_written_whole_and_not_before_a_step_is_to_be_made(config: RunConfig):
    with run_folder(config, resume=False):
        assert list(Path(config.run).iterdir()) == []
    (Path(config.run) / ".0a1b2c3d4e5f.part").write_text("da")  # of a first file, not finished
    assert begin(config) == []
    written = Path(config.run) / "config.yaml"
    assert read(written) == config
    assert yaml.safe_load(written.read_text())["optimiser"]["beta1"] == 0.9


def test_run_is_not_overwritten(config: RunConfig):
    begin(config)
    with pytest.raises(ValueError, match="already holds a run, with nothing saved yet; --resume"):
        begin(config)
    (Path(config.run) / "checkpoints" / "00000030").mkdir(parents=True)
    with pytest.raises(ValueError, match="already holds a run, at step 30; --resume goes on"):
        begin(config)
    assert begin(config, resume=True) == []


def test_what_is_no_run_is_not_written_into(config: RunConfig, tmp_path: Path):
    letter = tmp_path / "other" / "letter.txt"
    letter.parent.mkdir()
    letter.touch()
    with pytest.raises(ValueError, match="is not empty and holds no run"):
        begin(replace(config, run=str(letter.parent)), resume=True)
    with pytest.raises(ValueError, match="is a file"):
        begin(replace(config, run=str(letter)))
    there = letter / "run"
    with pytest.raises(OSError, match=f"folder {there} cannot be made .*; --set run=… names"):
        begin(replace(config, run=str(there)))
    assert [path.name for path in letter.parent.iterdir()] == ["letter.txt"]


def test_two_programs_do_not_train_in_one_folder(config: RunConfig):
    with run_folder(config, resume=False), pytest.raises(ValueError, match="another program is"):
        begin(config, resume=True)
    begin(config, resume=True)
