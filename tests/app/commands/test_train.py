import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from app.cli import main
from musicgen import checkpoint
from tests.training.makers import outcome, toy_file
from training import optimiser, run_folder
from training.curves import read_table
from training.run_folder import TAIL_FROM

ROOT = Path(__file__).parents[3]
QUICK = {"optimiser": {"steps": 4}, "validation": {"every": 2, "samples": 1, "sample_tokens": 60}}


@pytest.fixture
def toy(shared_set, tmp_path: Path) -> Path:
    return toy_file(tmp_path, shared_set("remi"), **QUICK)


@pytest.fixture(scope="module")
def finished(shared_set, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run of four steps, which nobody may change."""
    folder = tmp_path_factory.mktemp("finished")
    assert main(["train", str(toy_file(folder, shared_set("remi"), **QUICK))]) == 0
    return folder / "run"


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    """Return a finished run that was moved to where the toy's configuration would have one."""
    return shutil.copytree(finished, tmp_path / "run")


def test_a_run_leaves_a_folder_with_all_of_it(toy: Path, command):
    out, err = command("train", toy, "--json")
    result = json.loads(out)
    run = toy.parent / "run"
    assert (result["run"], result["step"], result["ending"]) == (str(run), 4, "finished")
    _, card = checkpoint.load(result["model"])
    assert card.training["validation_loss"] == result["validation_loss"]
    assert {path.name for path in run.iterdir()} == {
        *("config.yaml", "train.csv", "validation.csv", "positions.csv", "curves.png"),
        *("checkpoints", "model", "samples", "tensorboard"),
    }
    samples = {path.name for path in (run / "samples").iterdir()}
    assert samples == {"00000002_0.mid", "00000004_0.mid"}
    assert "No samples" not in err
    assert "step 4 of 4: loss " in err


def test_a_model_of_another_size_is_trained_and_a_rate_that_only_rises_is_mentioned(
    toy: Path, command
):
    words = ("--preset", "tiny", "--set", "model.layers=1", "--set", "optimiser.warmup=4")
    said = command("train", toy, *words).err
    assert "rises to the end: optimiser.warmup is 4 of 4 steps." in said
    assert "preset: tiny" in (toy.parent / "run" / "config.yaml").read_text()


def test_a_run_by_the_clock_goes_on_from_before_its_tail(
    shared_set, tmp_path: Path, command, monkeypatch
):
    clock = itertools.count()  # so that a step takes as long on any machine
    monkeypatch.setattr(optimiser, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    toy = toy_file(tmp_path, shared_set("ensemble"), **QUICK)  # it draws what its model can do
    run = tmp_path / "run"
    sets = ("--set", "optimiser.schedule=hold", "--set", f"run={run}")
    said = command("train", toy, *sets, "--seconds", 20, "--json").out
    assert json.loads(said)["ending"] == "finished"
    at = int(max(path.name for path in (run / "checkpoints").iterdir()))
    assert at == checkpoint.read_card(run / "model")[1].training[TAIL_FROM]
    assert list((run / "samples").glob("*.png"))
    assert f"Going on from step {at:,}." in command("train", run, "--resume", "--seconds", 9).err


def test_a_folder_that_is_taken_is_said_before_what_lies_in_it(toy, run, refused, monkeypatch):
    monkeypatch.chdir(toy.parent)
    before = outcome(run)
    there = f"musicgen: {run} already holds a run, at step 4; "
    assert refused("train", toy, "--set", "seed=5").startswith(there)
    assert outcome(run) == before
    (run / "checkpoints" / "00000004" / "config.json").write_text("{")
    words = ["train", toy, "--set", "model=null", "--start", "base", "--set", "data.folder=none"]
    said = refused(*words)
    assert said.startswith(there)
    assert "start another with --set run=…" in said


def test_a_run_goes_on_from_its_folder_and_says_what_changed(run: Path, command, refused):
    moved = run.rename(run.parent / "moved")
    again = ["train", moved, "--resume"]
    before = (moved / "config.yaml").read_bytes()
    said = refused(*again, "--set", "optimiser.steps=6", "--set", "model.width=32")
    assert "holds a model of another configuration" in said
    assert (moved / "config.yaml").read_bytes() == before
    assert command(*again, "--set", "data.batch=2").err.splitlines()[:2] == [
        f"No step is left to be made, and {moved} stays as it was trained, without what you change: "
        "data.batch was 4 and is 2.",
        "Going on from step 4 of 4.",
    ]
    assert (moved / "config.yaml").read_bytes() == before
    said = command(*again, "--set", "data.batch=2", "--set", "optimiser.steps=6").err
    assert "From now on" in said
    assert "optimiser.steps was 4 and is 6" in said
    assert "Going on from step 4 of 6." in said
    assert "batch: 2" in (moved / "config.yaml").read_text()
    assert run_folder.newest(moved) == moved / "checkpoints" / "00000006"
    assert not run.exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--set data.folder=none", "there is no prepared data set none; `musicgen data`"),
        ("--set model.position=spe", "position 'spe' is unknown"),
        ("--set device.accelerator=cuda", "no GPU is available; train without one: --set"),
        ("--strategy fsdp", "fsdp shards a model over several devices; give --devices 2"),
        ("--tail 0.5", "--tail is a share of --seconds; give both"),
        ("--strategy fsdp --precision 64-true", "fsdp does not support precision 64-true"),
    ],
)
def test_what_is_wrong_is_one_sentence(toy: Path, options: str, message, refused, monkeypatch):
    monkeypatch.chdir(toy.parent)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    assert message in refused("train", toy, *options.split())
    assert not (toy.parent / "run").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_asked_to_end_it_saves_first(toy: Path, number: int, command, monkeypatch):
    before = {name: signal.getsignal(name) for name in (signal.SIGINT, signal.SIGTERM)}
    asked = threading.Event()

    def ask(*_: object) -> None:
        if not asked.is_set():
            asked.set()
            signal.raise_signal(number)

    monkeypatch.setattr("app.commands.train.TrainingLine.stepped", ask)
    said = command("train", toy, code=130).err
    assert "Saving after the step under way; once more ends at once." in said
    assert "Saved at step 1 of 4; --resume goes on." in said
    assert run_folder.newest(toy.parent / "run") == toy.parent / "run" / "checkpoints" / "00000001"
    assert {name: signal.getsignal(name) for name in before} == before
    assert "Going on from step 1 of 4." in command("train", toy, "--resume").err


@pytest.mark.long
@pytest.mark.parametrize(
    ("strategy", "precision", "bound"), [("ddp", "64-true", 1e-6), ("fsdp", "32-true", 1e-4)]
)
def test_two_processes_learn_what_one_does(toy, strategy, precision, bound, command):
    options = ["--set", "model.dropout=0", "--precision", precision, "--json"]
    command("train", toy, *options)
    two = ["--set", f"run={toy.parent / 'two'}", "--devices", "2", "--strategy", strategy]
    ended = subprocess.run(
        [sys.executable, "-m", "app.cli", "train", str(toy), *options, *two],
        cwd=ROOT, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["step"] == 4
    for name in ("train", "validation"):
        one, other = (read_table(toy.parent / run / f"{name}.csv") for run in ("run", "two"))
        for column in {"loss", "gradient_norm", "inside", "beyond"} & {*one}:
            assert other[column].tolist() == pytest.approx(one[column].tolist(), rel=bound)
    one, other = (checkpoint.load(toy.parent / run / "model")[0] for run in ("run", "two"))
    for key, value in one.state_dict().items():
        assert other.state_dict()[key].numpy() == pytest.approx(
            value.numpy(), rel=10 * bound, abs=bound / 100
        )
    more = ["--resume", "--devices", "1", "--strategy", "auto", "--set", "optimiser.steps=5"]
    command("train", toy.parent / "two", *more)
