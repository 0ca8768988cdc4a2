import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from app.cli import main
from app.commands.train import add, configured
from musicgen.storage import checkpoint
from tests.training.makers import outcome, toy_file
from training import run_folder
from training.results.curves import read_table
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
    assert "step 4 of 4: loss " in err


def test_a_run_by_the_clock_goes_on_from_before_its_tail(toy: Path, command, refused):
    quick = ["--set", "validation.samples=0", "--set", "validation.every=1000"]
    hold = [*quick, "--set", "optimiser.schedule=hold"]
    first = json.loads(command("train", toy, *hold, "--seconds", 0.5, "--json").out)
    assert first["ending"] == "finished"
    run = Path(first["run"])
    held = int(max(path.name for path in (run / "checkpoints").iterdir()))
    assert held == checkpoint.read_card(run / "model")[1].training[TAIL_FROM]
    said = command("train", run, "--resume", "--seconds", 0.5).err
    assert f"Going on from step {held:,}." in said
    said = refused("train", run, "--resume", "--tail", 0.5)
    assert "--tail is a share of --seconds; give both" in said


def test_a_folder_that_is_taken_is_said_before_what_lies_in_it(
    toy: Path, run: Path, refused, monkeypatch
):
    monkeypatch.chdir(toy.parent)
    before = outcome(run)
    there = f"musicgen: {run} already holds a run, at step 4; "
    assert refused("train", toy, "--set", "seed=5").startswith(there)
    assert outcome(run) == before
    (run / "checkpoints" / "00000004" / "config.json").write_text("{")
    words = ["train", toy, "--set", "model=null", "--start", "base", "--set", "data.folder=none"]
    said = refused(*words)
    assert said.startswith(there)
    assert "--set run=… begins another" in said


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
    assert "From here on" in said
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
        ("--set device.accelerator=cuda", "no GPU is at hand; --set device.accelerator=cpu"),
        ("--strategy fsdp", "fsdp shares a model among several devices; give --devices 2"),
        ("--strategy fsdp --precision 64-true", "fsdp knows no precision 64-true"),
    ],
)
def test_what_is_wrong_is_one_sentence_and_nothing_is_written(
    toy: Path, options: str, message: str, refused, monkeypatch
):
    monkeypatch.chdir(toy.parent)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    assert message in refused("train", toy, *options.split())
    assert not (toy.parent / "run").exists()


def test_a_folder_with_the_name_of_a_configuration_is_no_run(tmp_path: Path, monkeypatch):
    (tmp_path / "groove-none").mkdir()
    monkeypatch.chdir(tmp_path)
    parser = argparse.ArgumentParser()
    add(parser)
    assert configured(parser.parse_args(["groove-none"])).run == "runs/groove-none"


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


SLOW = """
import sys, time, types
import app.commands.train as train
train.LAST_STEP_SECONDS, train.LAST_OPERATION_SECONDS = 1, 1
run = types.SimpleNamespace(stop=lambda: None, fabric=types.SimpleNamespace(is_global_zero=True))
with train._signals(run):
    print("at work", flush=True)
    if sys.argv[1] == "between":
        while True:
            time.sleep(0.01)
    import ctypes
    while True:
        ctypes.CDLL(None).sleep(30)  # hears of no signal, as one long operation of a library
"""


@pytest.mark.parametrize("where", ["between", "within"])
def test_a_step_without_end_is_ended(where: str):
    words = [sys.executable, "-c", SLOW, where]
    with subprocess.Popen(
        words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"at work\n"
        os.kill(child.pid, signal.SIGTERM)
        assert child.wait(120) != 0


def test_samples_that_fail_do_not_end_the_training(toy: Path, command, monkeypatch):
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr("training.validation.write_samples", fail)
    said = command("train", toy).err
    assert "No samples of music are written at step 2: out of memory" in said


def test_a_full_disk_is_one_sentence(toy: Path, refused, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("training.loop.Run._save", full)
    assert refused("train", toy) == (
        f"musicgen: the disk of {toy.parent / 'run'} is full; free some space, or go on with --resume "
        "when there is some"
    )


@pytest.mark.long
@pytest.mark.parametrize(
    ("strategy", "precision", "bound"), [("ddp", "64-true", 1e-6), ("fsdp", "32-true", 1e-4)]
)
def test_two_processes_learn_what_one_does(
    toy: Path, strategy: str, precision: str, bound: float, command
):
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
        for column in {"loss", "gradient_norm", "inside", "beyond"} & one.keys():
            assert other[column] == pytest.approx(one[column], rel=bound)
    one, other = (checkpoint.load(toy.parent / run / "model")[0] for run in ("run", "two"))
    for key, value in one.state_dict().items():
        assert other.state_dict()[key].numpy() == pytest.approx(
            value.numpy(), rel=10 * bound, abs=bound / 100
        )
    more = ["--resume", "--devices", "1", "--strategy", "auto", "--set", "optimiser.steps=5"]
    command("train", toy.parent / "two", *more)
