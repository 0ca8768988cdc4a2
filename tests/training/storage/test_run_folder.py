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


def saved(config: RunConfig, step: int) -> None:
    (Path(config.run) / "checkpoints" / f"{step:08d}").mkdir(parents=True)


def test_the_configuration_is_written_whole(config: RunConfig):
    assert begin(config) == []
    assert read(Path(config.run) / "config.yaml") == config
    assert (
        yaml.safe_load((Path(config.run) / "config.yaml").read_text())["optimiser"]["beta1"] == 0.9
    )


def test_a_run_is_not_overwritten(config: RunConfig):
    begin(config)
    with pytest.raises(ValueError, match="already holds a run, with nothing saved yet; --resume"):
        begin(config)
    saved(config, 30)
    with pytest.raises(ValueError, match="already holds a run, at step 30; --resume goes on"):
        begin(config)
    assert begin(config, resume=True) == []


def test_what_is_no_run_is_not_written_into(config: RunConfig, tmp_path: Path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letter.txt").touch()
    with pytest.raises(ValueError, match="is not empty and holds no run"):
        begin(replace(config, run=str(tmp_path / "other")), resume=True)
    with pytest.raises(ValueError, match="is a file"):
        begin(replace(config, run=str(tmp_path / "other" / "letter.txt")))
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["letter.txt"]


def test_a_folder_that_cannot_be_made_is_one_sentence(config: RunConfig, tmp_path: Path):
    (tmp_path / "file").touch()
    there = tmp_path / "file" / "run"
    with pytest.raises(OSError, match=f"folder {there} cannot be made .*; --set run=… names"):
        begin(replace(config, run=str(there)))


def test_resuming_what_is_not_there_begins(config: RunConfig):
    [remark] = begin(config, resume=True)
    assert "Nothing is saved in" in remark
    [remark] = begin(config, resume=True)
    assert "begins anew" in remark


def test_a_change_that_matters_is_said_on_resuming(config: RunConfig):
    begin(config)
    saved(config, 30)
    changed = replace(
        config,
        data=replace(config.data, batch=8, prefetch=1),
        log_every=1,
        model={**config.model, "dropout": 0.5},
    )
    [remark] = begin(changed, resume=True)
    assert remark.endswith(
        "trained otherwise than it was begun: data.batch was 4 and is 8; "
        "model.dropout was None and is 0.5."
    )
    assert begin(changed, resume=True) == []  # it is the run's configuration now


def test_a_run_whose_configuration_is_damaged_goes_on_without_it(config: RunConfig):
    begin(config)
    saved(config, 30)
    written = Path(config.run) / "config.yaml"
    written.write_text("a: [")
    with pytest.raises(ValueError, match="delete it, and --resume goes on as you say now"):
        begin(config, resume=True)
    written.unlink()
    with pytest.raises(ValueError, match="already holds a run, at step 30"):
        begin(config)
    [remark] = begin(config, resume=True)
    assert remark == f"{written} is gone: the run goes on as you say now."
    assert read(written) == config


def test_a_run_whose_first_file_was_not_finished_begins(config: RunConfig):
    Path(config.run).mkdir()
    (Path(config.run) / ".0a1b2c3d4e5f.part").write_text("da")
    assert begin(config) == []


def test_nothing_is_written_before_a_step_is_to_be_made(config: RunConfig):
    with run_folder(config, resume=False):
        assert list(Path(config.run).iterdir()) == []
    begin(config)
    saved(config, 30)
    before = (Path(config.run) / "config.yaml").read_bytes()
    with run_folder(replace(config, seed=7), resume=True) as remarks:
        assert "seed was 1 and is 7" in remarks[0]
    assert (Path(config.run) / "config.yaml").read_bytes() == before


def test_what_it_starts_with_is_found_from_anywhere(
    config: RunConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    begin(replace(config, start="base"))
    assert read(Path(config.run) / "config.yaml").start == str(tmp_path / "base")
    saved(config, 30)
    begin(replace(config, start="groove"), resume=True)  # a shipped one
    assert read(Path(config.run) / "config.yaml").start == "groove"


def test_a_setting_that_is_younger_than_the_run_is_no_change(config: RunConfig):
    begin(config)
    saved(config, 30)
    written = Path(config.run) / "config.yaml"
    values = yaml.safe_load(written.read_text())
    del values["data"]["mix_drums"]
    written.write_text(yaml.safe_dump(values))
    assert begin(config, resume=True) == []


def test_two_programs_do_not_train_in_one_folder(config: RunConfig):
    with run_folder(config, resume=False), pytest.raises(ValueError, match="another program is"):
        begin(config, resume=True)
    begin(config, resume=True)
