import argparse
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from app.cli import main
from app.commands.train import add, configured
from musicgen.storage import checkpoint
from tests.training.makers import outcome, prepared_set, toy_file
from training import run_folder
from training.config import CONFIGS
from training.results.curves import read_table
from training.run_folder import TAIL_FROM

ROOT = Path(__file__).parents[3]
QUICK = {"optimiser": {"steps": 4}, "validation": {"every": 2, "samples": 1, "sample_tokens": 60}}


@pytest.fixture(scope="session")
def pianos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepared_set(tmp_path_factory.mktemp("pianos") / "set", "remi")


@pytest.fixture
def toy(pianos: Path, tmp_path: Path) -> Path:
    return toy_file(tmp_path, pianos, **QUICK)


def test_a_run_leaves_a_folder_with_all_of_it(toy: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["train", str(toy), "--json"]) == 0
    said = capsys.readouterr()
    result = json.loads(said.out)
    run = toy.parent / "run"
    assert (result["run"], result["step"], result["ending"]) == (str(run), 4, "finished")
    _, card = checkpoint.load(result["model"])
    assert card.training["validation_loss"] == result["validation_loss"]
    assert {path.name for path in run.iterdir()} == {
        *("config.yaml", "train.csv", "validation.csv", "positions.csv", "curves.png"),
        *("checkpoints", "model", "samples", "tensorboard"),
    }
    assert {path.name for path in (run / "samples").iterdir()} == {
        "00000002_0.mid",
        "00000004_0.mid",
    }
    assert "step 4 of 4: loss " in said.err


def test_a_run_by_the_clock_goes_on_from_before_its_tail(
    toy: Path, capsys: pytest.CaptureFixture[str]
):
    quick = ["--set", "validation.samples=0", "--set", "validation.every=1000"]
    hold = [*quick, "--set", "optimiser.schedule=hold", "--seconds", "1"]
    assert main(["train", str(toy), *hold, "--json"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert first["ending"] == "finished"
    run = Path(first["run"])
    held = int(max(path.name for path in (run / "checkpoints").iterdir()))
    assert held == checkpoint.read_card(run / "model")[1].training[TAIL_FROM]
    assert main(["train", str(run), "--resume", *hold[-2:]]) == 0
    assert f"Going on from step {held:,}." in capsys.readouterr().err
    assert main(["train", str(run), "--resume", "--tail", "0.5"]) == 2
    assert "--tail is a share of --seconds; give both" in capsys.readouterr().err


def test_a_run_that_is_there_is_not_overwritten(toy: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["train", str(toy)]) == 0
    before = outcome(toy.parent / "run")
    capsys.readouterr()
    assert main(["train", str(toy), "--set", "seed=5"]) == 2
    said = capsys.readouterr()
    assert said.err.startswith(f"musicgen: {toy.parent / 'run'} already holds a run, at step 4; ")
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert outcome(toy.parent / "run") == before


def test_a_folder_that_is_taken_is_said_before_what_lies_in_it(
    toy: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(toy.parent)
    assert main(["train", str(toy), "--set", "run=base"]) == 0
    start = ["train", str(toy), "--set", "model=null", "--start", "base"]
    assert main(start) == 0
    (run_folder.newest(Path("run")) / "config.json").write_text("{")
    capsys.readouterr()
    assert main([*start, "--set", "data.folder=none"]) == 2
    said = capsys.readouterr().err
    assert f"{toy.parent / 'run'} already holds a run, at step 4; " in said
    assert "--set run=… begins another" in said


def test_a_run_goes_on_from_its_folder_and_says_what_changed(
    toy: Path, capsys: pytest.CaptureFixture[str]
):
    assert main(["train", str(toy)]) == 0
    run = toy.parent / "run"
    run.rename(toy.parent / "moved")
    moved = str(toy.parent / "moved")
    capsys.readouterr()
    assert main(["train", moved, "--resume", "--set", "optimiser.steps=6"]) == 0
    said = capsys.readouterr()
    assert "optimiser.steps was 4 and is 6" in said.err
    assert "Going on from step 4 of 6." in said.err
    assert (
        run_folder.newest(toy.parent / "moved") == toy.parent / "moved" / "checkpoints" / "00000006"
    )
    assert not run.exists()


def test_going_on_that_is_refused_or_has_no_step_to_make_leaves_the_configuration(
    toy: Path, capsys: pytest.CaptureFixture[str]
):
    assert main(["train", str(toy)]) == 0
    run = toy.parent / "run"
    before = (run / "config.yaml").read_bytes()
    again = ["train", str(run), "--resume"]
    capsys.readouterr()
    assert main([*again, "--set", "optimiser.steps=6", "--set", "model.width=32"]) == 2
    said = capsys.readouterr().err
    assert "holds a model of another configuration" in said
    assert "From here on" not in said
    assert (run / "config.yaml").read_bytes() == before
    assert main([*again, "--set", "data.batch=2"]) == 0
    said = capsys.readouterr().err.splitlines()
    assert said[:2] == [
        f"No step is left to be made, and {run} stays as it was trained, without what you change: "
        "data.batch was 4 and is 2.",
        "Going on from step 4 of 4.",
    ]
    assert (run / "config.yaml").read_bytes() == before
    assert main([*again, "--set", "data.batch=2", "--set", "optimiser.steps=5"]) == 0
    assert "From here on" in capsys.readouterr().err
    assert "batch: 2" in (run / "config.yaml").read_text()


def test_a_run_goes_on_without_what_it_began_as_and_without_its_configuration(
    toy: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(toy.parent)
    assert main(["train", str(toy), "--set", "run=base"]) == 0
    start = ["train", str(toy), "--set", "model=null", "--set", "run=later", "--start", "base"]
    assert main(start) == 0
    Path("base").rename("elsewhere")
    assert main(["train", "later", "--resume", "--set", "optimiser.steps=6"]) == 0
    (Path("later") / "config.yaml").write_text("a: [")
    capsys.readouterr()
    again = [*start, "--resume", "--set", "optimiser.steps=8"]
    assert main(again) == 2
    assert "delete it, and --resume goes on as you say now" in capsys.readouterr().err
    (Path("later") / "config.yaml").unlink()
    assert main(again) == 0
    assert "Going on from step 6 of 8." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--set", "data.folder=none"], "there is no prepared data set none; `musicgen data`"),
        (["--set", "data.folder=."], "is not a prepared data set: it has no meta.json"),
        (["--set", "data.lenght=3"], "unknown key 'lenght' (did you mean 'length'?)"),
        (["--set", "model.position=spe"], "position 'spe' is unknown"),
        (["--set", "device.accelerator=cuda"], "no GPU is at hand; --set device.accelerator=cpu"),
        (["--devices", "3"], "data.batch is 4, which does not divide among 3 processes"),
        (["--strategy", "horovod"], "strategy is 'horovod'; it must be one of"),
        (["--strategy", "fsdp"], "fsdp shares a model among several devices; give --devices 2"),
        (["--strategy", "fsdp", "--precision", "64-true"], "fsdp knows no precision 64-true"),
        (["--precision", "8-bit"], "precision is '8-bit'; it must be one of"),
    ],
)
def test_what_is_wrong_is_one_sentence_and_nothing_is_written(
    toy: Path, options: list[str], message: str, capsys: pytest.CaptureFixture[str], monkeypatch
):
    monkeypatch.chdir(toy.parent)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    assert main(["train", str(toy), *options]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1
    assert not (toy.parent / "run").exists()


def test_a_folder_with_the_name_of_a_configuration_is_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "groove-none").mkdir()
    monkeypatch.chdir(tmp_path)
    parser = argparse.ArgumentParser()
    add(parser)
    assert configured(parser.parse_args(["groove-none"])).run == "runs/groove-none"


def test_an_unknown_configuration_is_one_sentence(capsys: pytest.CaptureFixture[str]):
    assert main(["train", "groove-ropes"]) == 2
    said = capsys.readouterr().err
    assert "(did you mean 'groove-rope' or '" in said
    assert said.endswith(f" of the files in {CONFIGS}\n")
    assert len(said) < 400


def test_a_loss_that_is_not_finite_is_one_sentence(toy: Path, capsys: pytest.CaptureFixture[str]):
    options = ["--set", "optimiser.learning_rate=1e30", "--set", "optimiser.warmup=0"]
    assert main(["train", str(toy), *options]) == 2
    assert "the loss was not finite at step 2; no state was saved before" in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_asked_to_end_it_saves_first(
    toy: Path, number: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    before = {name: signal.getsignal(name) for name in (signal.SIGINT, signal.SIGTERM)}
    asked = threading.Event()

    def ask(*_: object) -> None:
        if not asked.is_set():
            asked.set()
            signal.raise_signal(number)

    monkeypatch.setattr("app.training_line.TrainingLine.stepped", ask)
    assert main(["train", str(toy)]) == 130
    said = capsys.readouterr().err
    assert "Saving after the step under way; once more ends at once." in said
    assert "Saved at step 1 of 4; --resume goes on." in said
    assert run_folder.newest(toy.parent / "run") == toy.parent / "run" / "checkpoints" / "00000001"
    assert {name: signal.getsignal(name) for name in before} == before
    assert main(["train", str(toy), "--resume"]) == 0
    assert "Going on from step 1 of 4." in capsys.readouterr().err


def test_samples_that_fail_do_not_end_the_training(
    toy: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr("training.samples.write_samples", fail)
    assert main(["train", str(toy)]) == 0
    assert "No samples of music are written at step 2: out of memory" in capsys.readouterr().err


def test_a_full_disk_is_one_sentence(toy: Path):
    limited = (
        "import sys; sys.dont_write_bytecode = True; "  # which would be cut off, and tripped over
    )
    limited += "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
    limited += "resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000)); "
    limited += "from app.cli import main; sys.exit(main(sys.argv[1:]))"
    child = command(["-c", limited, "train", str(toy)])
    assert child.returncode == 2
    run = toy.parent / "run"
    assert child.stderr.splitlines()[-1] == (
        f"musicgen: the disk of {run} is full; free some space, or go on with --resume when there is some"
    )
    assert "Traceback" not in child.stderr


@pytest.mark.parametrize(
    ("strategy", "precision", "bound"), [("ddp", "64-true", 1e-6), ("fsdp", "32-true", 1e-4)]
)
def test_two_processes_learn_what_one_does(toy: Path, strategy: str, precision: str, bound: float):
    options = ["--set", "model.dropout=0", "--precision", precision, "--json"]
    assert main(["train", str(toy), *options]) == 0
    two = ["--set", f"run={toy.parent / 'two'}", "--devices", "2", "--strategy", strategy]
    child = command(["-m", "app.cli", "train", str(toy), *options, *two])
    assert child.returncode == 0, child.stderr
    assert json.loads(child.stdout)["step"] == 4
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
    assert main(["train", str(toy.parent / "two"), *more]) == 0


def command(arguments: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
