import resource
from pathlib import Path

import pytest
import torch

from tests.training.makers import Heard, outcome, toy_config, toy_run
from training import run_folder
from training.run_folder import card_of


@pytest.fixture
def trained(pianos: Path, tmp_path: Path):
    run = toy_run(toy_config(tmp_path, pianos, optimiser={"steps": 3}, validation={"every": 3}))
    run.fit(Heard())
    return run


def save(run, folder: Path) -> Path:
    card = card_of(run.config, run.batches, run.state)
    averages = run_folder.averages_of(run.model, run.raw_optimiser)
    return run_folder.save(folder, run.model, card, averages, run.state)


def test_a_checkpoint_holds_all_that_a_run_is(trained, pianos: Path, tmp_path: Path):
    again = toy_run(toy_config(tmp_path, pianos, seed=5))
    state = run_folder.restore(run_folder.newest(trained.folder), again.model, again.raw_optimiser)
    assert state == trained.state
    for (name, value), other in zip(
        trained.model.state_dict().items(), again.model.state_dict().values(), strict=True
    ):
        assert torch.equal(value, other), name
    for one, other in zip(trained.model.parameters(), again.model.parameters(), strict=True):
        old, new = trained.raw_optimiser.state[one], again.raw_optimiser.state[other]
        assert old.keys() == new.keys() == {"step", "exp_avg", "exp_avg_sq"}
        assert all(torch.equal(old[key], new[key]) for key in old)


def test_the_same_state_gives_the_same_bytes(trained, tmp_path: Path):
    save(trained, tmp_path / "a"), save(trained, tmp_path / "b")
    assert outcome(tmp_path / "a") == outcome(tmp_path / "b")


def test_a_full_disk_leaves_no_half_checkpoint(trained, tmp_path: Path):
    least, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, most))  # stands for a disk that is full
    try:
        with pytest.raises(OSError, match="too large"):
            save(trained, tmp_path / "full")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (least, most))
    assert list((tmp_path / "full" / "checkpoints").iterdir()) == []
    assert run_folder.newest(tmp_path / "full") is None


def test_the_newest_are_kept_and_leavings_go(trained, tmp_path: Path):
    for step in (5, 20, 100, 3):
        trained.state.step = step
        save(trained, tmp_path)
    folder = tmp_path / "checkpoints"
    (folder / ".00000100.new").mkdir()
    (folder / ".00000001.old").mkdir()
    run_folder.prune(tmp_path, 2)
    assert sorted(path.name for path in folder.iterdir()) == ["00000020", "00000100"]
    assert run_folder.newest(tmp_path) == folder / "00000100"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "state.json",
            r"state\.json cannot be read .* no checkpoint lies before it: delete .*00000003 to begin anew",
        ),
        ("optimiser.safetensors", r"optimiser\.safetensors cannot be read .* delete"),
        ("model.safetensors", r"model\.safetensors has 9 bytes of"),
    ],
)
def test_a_damaged_checkpoint_is_named(trained, name: str, message: str):
    folder = run_folder.newest(trained.folder)
    (folder / name).write_bytes(b"x" * 9)
    with pytest.raises(ValueError, match=message):
        run_folder.restore(folder, trained.model, trained.raw_optimiser)
