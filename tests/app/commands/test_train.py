import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from app import output
from app.cli import main
from musicgen import checkpoint, weights
from tests.evaluation.toys import write_model
from tests.training.makers import outcome, prepared_set, toy_file
from training import optimiser, run_folder
from training.comparison import read_table
from training.run_folder import TAIL_FROM

ROOT = Path(__file__).parents[3]
QUICK = {"optimiser": {"steps": 4}, "validation": {"every": 2}}


@pytest.fixture
def toy(shared_set, tmp_path: Path) -> Path:
    return toy_file(tmp_path, shared_set("remi"), **QUICK)


@pytest.fixture(scope="module")
def finished(shared_set, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run of four steps, which tests must not change."""
    folder = tmp_path_factory.mktemp("finished")
    assert main(["train", str(toy_file(folder, shared_set("remi"), **QUICK))]) == 0
    return folder / "run"


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    """Return a copy of a finished run, in the place of the toy configuration's run."""
    return shutil.copytree(finished, tmp_path / "run")


def test_a_run_writes_its_folder(toy: Path, command):
    out, err = command("train", toy, "--json")
    result = json.loads(out)
    run = toy.parent / "run"
    assert (result["run"], result["step"], result["ending"]) == (str(run), 4, "finished")
    _, card = weights.load(result["model"])
    assert card.training["validation_loss"] == result["validation_loss"]
    assert {path.name for path in run.iterdir()} == {
        *("config.yaml", "train.csv", "validation.csv", "positions.csv", "curves.png"),
        *("checkpoints", "model", "tensorboard"),
    }
    assert err.startswith("Starting from step 0 of 4.\nstep 1 of 4")  # without numbers
    assert "step 4 of 4: loss " in err


def test_a_line_says_of_which_step_older_numbers_are(toy: Path, command, monkeypatch):
    monkeypatch.setattr(output.Lines, "is_due", lambda *_: True)
    changes = ("optimiser.steps=7", "log_every=2", "validation.every=3")
    said = command("train", toy, *(word for one in changes for word in ("--set", one))).err
    lines = [line for line in said.splitlines() if line.startswith("step ")]
    losses = [re.findall(r"(loss|validation) [\d.]+( of step \d)?", line) for line in lines]
    found = {line.split()[1]: dict(one) for line, one in zip(lines, losses, strict=True)}
    assert found == {
        "1": {},
        "2": {"loss": ""},
        "3": {"loss": " of step 2"},  # before its validation
        "4": {"loss": "", "validation": " of step 3"},
        "5": {"loss": " of step 4", "validation": " of step 3"},
        "6": {"loss": "", "validation": ""},
        "7": {"loss": "", "validation": ""},
    }


def test_a_model_of_another_size_is_trained(toy: Path, command):
    command("train", toy, "--preset", "tiny", "--set", "model.layers=1")
    assert "preset: tiny" in (toy.parent / "run" / "config.yaml").read_text()


def test_a_timed_run_resumes_from_before_its_tail(shared_set, tmp_path: Path, command, monkeypatch):
    clock = itertools.count()  # so that a step takes as long on any machine
    monkeypatch.setattr(optimiser, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    toy = toy_file(tmp_path, shared_set("ensemble"), **QUICK)
    run = tmp_path / "run"
    sets = ("--set", "optimiser.schedule=hold", "--set", f"run={run}")
    said = command("train", toy, *sets, "--seconds", 20, "--json").out
    assert json.loads(said)["ending"] == "finished"
    at = int(max(path.name for path in (run / "checkpoints").iterdir()))
    assert at == checkpoint.read_card(run / "model")[1].training[TAIL_FROM]
    assert f"Resuming from step {at:,}." in command("train", run, "--resume", "--seconds", 9).err


@pytest.mark.long  # imports scikit-learn and generates
def test_preference_training_draws_takes_and_learns_from_them(tmp_path: Path, command):
    data = prepared_set(tmp_path / "data", "remi", train=10, bars=12)
    start = write_model(tmp_path / "model", "remi", "sine_spe")
    asked = {"prompts": 3, "takes": 2, "prompt_bars": 1, "bars": 8, "layers": 1}
    changes = {"start": start, "model": None, "preference": asked, "data": {"batch": 2}}
    toy = toy_file(tmp_path, data, **{**QUICK, **changes})
    out, err = command("train", toy, "--json")
    assert json.loads(out)["step"] == 4
    for said in ("drawing takes: 3 of 3 prompts", "reading takes: 3 of 3", "pairs of takes/s"):
        assert said in err
    odds = json.loads((tmp_path / "run" / "odds.json").read_text())
    assert {len(one) for one in odds.values()} == {asked["takes"] + 1}
    drawn = [*(tmp_path / "run" / "takes").glob("*.json")]
    assert {path.stem for path in drawn} == {*odds}


def test_a_taken_folder_is_reported_before_errors_in_it(toy, run, refused, monkeypatch):
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


def test_a_run_resumes_from_its_folder_and_reports_changes(run: Path, command, refused):
    moved = run.rename(run.parent / "moved")
    again = ["train", moved, "--resume"]
    before = (moved / "config.yaml").read_bytes()
    said = refused(*again, "--set", "optimiser.steps=6", "--set", "model.width=32")
    assert "holds a model of another configuration" in said
    assert (moved / "config.yaml").read_bytes() == before
    assert command(*again, "--set", "data.batch=2").err.startswith(
        "Resuming from step 4 of 4.\n"
        "The run is over, so this changes nothing: data.batch was 4 and is 2.\n"
    )
    assert (moved / "config.yaml").read_bytes() == before
    said = command(*again, "--set", "data.batch=2", "--set", "optimiser.steps=6").err
    assert "From now on" in said
    assert "optimiser.steps was 4 and is 6" in said
    assert "Resuming from step 4 of 6." in said
    assert "batch: 2" in (moved / "config.yaml").read_text()
    assert run_folder.newest(moved) == moved / "checkpoints" / "00000006"
    assert not run.exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--set data.folder=none", "there is no prepared data set none; `musicgen data`"),
        ("--set model=5 --preset tiny", "model.preset=tiny would replace model=5; leave out one"),
        ("--set model.position=spe", "position 'spe' is unknown"),
        ("--set device.accelerator=cuda", "no GPU is available; train without one: --set"),
    ],
)
def test_an_error_is_reported_in_one_line(toy: Path, options: str, message, refused, monkeypatch):
    monkeypatch.chdir(toy.parent)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert message in refused("train", toy, *options.split())
    assert not (toy.parent / "run").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_before_the_end(toy: Path, number: int, command, monkeypatch):
    before = {name: signal.getsignal(name) for name in (signal.SIGINT, signal.SIGTERM)}
    asked = threading.Event()

    def ask(*_: object) -> None:
        if not asked.is_set():
            asked.set()
            signal.raise_signal(number)

    monkeypatch.setattr("app.commands.train.TrainingProgress.stepped", ask)
    said = command("train", toy, code=130).err
    assert "Saving after this step; interrupt again to stop at once." in said
    assert "Saved at step 1 of 4; continue with --resume." in said
    assert run_folder.newest(toy.parent / "run") == toy.parent / "run" / "checkpoints" / "00000001"
    assert {name: signal.getsignal(name) for name in before} == before
    assert "Resuming from step 1 of 4." in command("train", toy, "--resume").err


TWO_PROCESSES = [
    *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"),
    *("-m", "app.cli"),
]


@pytest.mark.long
def test_two_processes_end_together_by_the_clock_of_the_first_and_save_when_asked(toy: Path):
    checkpoints, single = toy.parent / "run" / "checkpoints", {**os.environ, "OMP_NUM_THREADS": "1"}
    options = ("optimiser.schedule=hold", "log_every=1000000", "save_every=20")
    command = [*TWO_PROCESSES, "train", str(toy), *(x for one in options for x in ("--set", one))]

    def newest() -> int:
        return max(int(path.name) for path in checkpoints.iterdir() if path.name.isdigit())

    timed = subprocess.run(
        [*command, "--seconds", "4"], cwd=ROOT, capture_output=True, text=True, env=single
    )
    assert timed.returncode == 0, timed.stderr
    before = newest()
    assert before > 4  # the configured steps do not limit it
    resumed = subprocess.Popen(
        [*command, "--seconds", "600", "--resume"],
        cwd=ROOT, env=single, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    while newest() == before:
        assert resumed.poll() is None
        time.sleep(0.05)
    resumed.send_signal(signal.SIGTERM)
    said = resumed.communicate()[1]
    assert f"Saved at step {newest()};" in said  # torchrun would kill it after 30 seconds


@pytest.mark.long
def test_two_processes_learn_the_same_as_one(toy, command):
    bound, options = 1e-4, ["--set", "model.dropout=0", "--json"]
    command("train", toy, *options)
    ended = subprocess.run(
        [*TWO_PROCESSES, "train", str(toy), *options, "--set", f"run={toy.parent / 'two'}"],
        cwd=ROOT, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["step"] == 4
    for name in ("train", "validation"):
        one, other = (read_table(toy.parent / run / f"{name}.csv") for run in ("run", "two"))
        for column in {"loss", "gradient_norm", "inside", "beyond"} & {*one}:
            assert other[column].tolist() == pytest.approx(one[column].tolist(), rel=bound)
    one, other = (weights.load(toy.parent / run / "model")[0] for run in ("run", "two"))
    for key, value in one.state_dict().items():
        assert other.state_dict()[key].numpy() == pytest.approx(
            value.numpy(), rel=10 * bound, abs=bound / 100
        )
    command("train", toy.parent / "two", "--resume", "--set", "optimiser.steps=5")
