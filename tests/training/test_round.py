"""Rounds are packed, run, unpacked and continued; whatever happens, the results hold the latest weights."""

import io
import json
import shutil
import signal
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from musicgen.weights import load
from tests.training.makers import prepared_set, toy_file
from training import optimiser, round, run_folder
from training.config import read
from training.data.batches import Batches
from training.loop import Run
from training.round import main
from training.run_folder import TAIL_FROM, check_data

HOLD = {"schedule": "hold", "method": "muon", "steps": 1000}


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Restore the signal handlers that a round replaces."""
    before = {name: signal.getsignal(name) for name in (signal.SIGTERM, signal.SIGINT)}
    yield
    for name, handler in before.items():
        signal.signal(name, handler)


@pytest.fixture(scope="module", autouse=True)
def small_wasmtime(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Pack an empty package instead of wasmtime, whose compression takes long."""
    file = tmp_path_factory.mktemp("wasmtime") / "wasmtime" / "__init__.py"
    file.parent.mkdir()
    file.touch()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(round, "wasmtime", SimpleNamespace(__file__=str(file)))
        yield


@pytest.fixture(scope="module")
def packed_once(pianos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the packed round of a toy run, which tests must not change."""
    folder = tmp_path_factory.mktemp("packed")
    changes = {"optimiser": HOLD, "validation": {"every": 1000}, "model": {"layers": 2}}
    file = toy_file(folder, pianos, **changes)
    assert main(["pack", str(file), str(folder / "round")]) == 0
    return folder / "round"


@pytest.fixture
def packed(packed_once: Path, tmp_path: Path) -> Path:
    """Return a copy of the packed round."""
    return Path(shutil.copytree(packed_once, tmp_path / "round"))


@pytest.fixture(autouse=True)
def steps(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[Run, Any], None]]:
    """Make each step take one second; return a list to which functions to be called before a step can be added."""
    ticks, take_step, before = [0.0], Run._take_step, []

    def timed_step(self: Run, number, tokens, sums):
        for function in before:
            function(self, tokens)
        ticks[0] += 1
        return take_step(self, number, tokens, sums)

    monkeypatch.setattr(Run, "_take_step", timed_step)
    for module in (optimiser, round):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: ticks[0]))
    monkeypatch.setattr(round, "LAST_SECONDS", 0.0)
    return before


def run(packed: Path, seconds: float = 10, *more: str) -> tuple[int, Path]:
    """Run a round for a number of one-second steps; return its exit status and the folder of its results."""
    out = packed.with_name("out")
    given = ["--seconds", str(seconds), "--out", str(out), *more]
    return main(["run", str(packed), *given]), out


@pytest.mark.parametrize("weights", [pytest.param("bfloat16", marks=pytest.mark.long), "int8"])
def test_round_is_unpacked_and_continued(packed: Path, weights: str, capsys):
    assert not (packed / "code" / "musicgen" / "pretrained").exists()
    status, out = run(packed)
    assert status == 0
    said = capsys.readouterr().out
    assert "finished: " in said
    content = json.loads((out / "round.json").read_text())
    assert content["batch"] == 4
    home = packed.with_name("home")
    assert main(["unpack", str(out), str(home)]) == 0
    held = run_folder.newest(home)
    card = load(home / "model")[1].training
    assert (card[TAIL_FROM], int(held.name), card["steps"]) == (8, 8, 10)
    state = run_folder.read_state(held)
    assert (state.began, state.batches) == (state.step, state.step)
    assert main(["unpack", str(out), str(home)]) == 2  # a second time
    assert "is already at step" in capsys.readouterr().err

    assert main(["pack", str(home), str(packed), "--weights", weights]) == 0
    assert run(packed, 10, "--batch", "8")[0] == 0
    assert main(["unpack", str(out), str(home)]) == 0
    later = run_folder.newest(home)
    state = run_folder.read_state(later)
    assert (state.step, state.batches, state.began) == (16, 8 + 2 * 8, 16)
    assert read(home / "config.yaml").data.batch == 4


def test_runs_of_a_round_share_its_time_and_make_one_table(pianos: Path, tmp_path: Path, capsys):
    files = []
    for position in ("none", "rope"):
        changes = {"run": str(tmp_path / position), "model": {"position": position}}
        changes |= {"optimiser": HOLD, "validation": {"every": 1000, "length": 64}}
        files.append(str(toy_file(tmp_path / f"{position}-file", pianos, **changes)))
    assert main(["pack", *files, str(tmp_path / "round")]) == 0
    assert len([*(tmp_path / "round").glob("data-*")]) == 1
    status, out = run(tmp_path / "round", 20)
    assert status == 0
    home = tmp_path / "home"
    assert main(["unpack", str(out), str(home)]) == 0
    runs = [home / "none", home / "rope"]
    assert [load(one / "model")[1].training["steps"] for one in runs] == [10, 10]
    capsys.readouterr()
    assert main(["table", *map(str, runs)]) == 0
    head, _, *rows = capsys.readouterr().out.splitlines()
    assert "| 32–" in head
    assert [row.split(" | ")[0] for row in rows] == ["| none", "| rope"]
    last = (runs[1] / "positions.csv").read_text().splitlines()[-1].split(",")
    assert rows[1].split(" | ")[-2].startswith(f"{float(last[3]):.3f} ± ")


def test_several_sets_travel_with_their_weights(tmp_path: Path):
    folders = [
        prepared_set(tmp_path / name, "ensemble", first=20 * n) for n, name in enumerate("ab")
    ]
    weights = dict(zip(map(str, folders), (2.0, 0.5), strict=True))
    file = toy_file(tmp_path, folders[0], data={"folder": weights}, optimiser=HOLD)
    assert main(["pack", str(file), str(tmp_path / "round")]) == 0
    (tmp_path / "home").mkdir()
    for folder in folders:  # the other machine does not have them
        shutil.move(folder, tmp_path / "home" / folder.name)
    status, out = run(tmp_path / "round")
    assert status == 0
    for folder in folders:
        shutil.move(tmp_path / "home" / folder.name, folder)
    assert main(["unpack", str(out), str(tmp_path / "unpacked")]) == 0
    config = read(tmp_path / "unpacked" / "config.yaml")
    assert config.data.folder == weights
    check_data(run_folder.newest(tmp_path / "unpacked"), Batches(config.data, config.seed))


def test_runs_of_a_round_need_the_same_data(pianos: Path, tmp_path: Path, capsys):
    files = [str(toy_file(tmp_path / name, pianos, optimiser=HOLD)) for name in "ab"]
    assert main(["pack", *files, str(tmp_path / "round")]) == 2  # both have the same name
    assert "need the same data, in the same order, and distinct names" in capsys.readouterr().err
    assert not (tmp_path / "round").exists()


def packed_as(mode: str, name: str, size: int = 1, **headers: str) -> bytes:
    """Return an archive of a file of zeros."""
    archive, info = io.BytesIO(), tarfile.TarInfo(name)
    info.size, info.pax_headers = size, headers
    with tarfile.open(fileobj=archive, mode=mode, format=tarfile.PAX_FORMAT) as file:
        file.addfile(info, io.BytesIO(bytes(size)))
    return archive.getvalue()


SPARSE = {"GNU.sparse.size": str(3 << 30), "GNU.sparse.map": f"{(3 << 30) - 1},1"}


@pytest.mark.parametrize("data", [
    pytest.param(packed_as("w:xz", "junk", 1 << 20), id="compressed"),
    pytest.param(packed_as("w", "junk", **SPARSE), id="sparse"),
    pytest.param(packed_as("w", "../junk"), id="outside its folder"),
    pytest.param(packed_as("w", "junk", 4000)[:1500], id="half"),
    pytest.param(b"", id="nothing"),
])  # fmt: skip
def test_round_unpacks_only_plain_archives_into_its_folder(data: bytes, tmp_path: Path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "run.tar.1").write_bytes(data)
    with pytest.raises(ValueError, match=r"the parts of .*run\.tar are damaged"):
        round.read_run(tmp_path / "out", tmp_path / "home")
    assert sum(path.stat().st_size for path in tmp_path.rglob("junk")) < 2000


def test_a_round_that_is_too_short_claims_no_results(packed: Path, monkeypatch, capsys):
    monkeypatch.setattr(round, "LAST_SECONDS", 25.0)
    status, out = run(packed, 25)
    assert (status, out.exists()) == (2, False)
    assert "25 are for the last validation and writing" in (said := capsys.readouterr().err)
    assert said.endswith("and some for unpacking; give 32 or more\n")
    init = round.Round.__init__

    def slow(self: round.Round, *given: Any) -> None:
        init(self, *given)
        self.began -= 10

    monkeypatch.setattr(round.Round, "__init__", slow)
    assert run(packed, 32)[0] == 1
    said = capsys.readouterr().out
    assert "give 44 or more" in said
    assert said.endswith("failed: there are no results\n")


def test_what_is_no_round_and_no_run_is_refused_in_a_sentence(tmp_path: Path, capsys):
    for words, says in (
        (
            ["unpack", tmp_path, tmp_path / "home"],
            "holds no round and no results of one: it has no",
        ),
        (["run", tmp_path, "--out", tmp_path / "out"], "holds no round and no results of one"),
        (["table", tmp_path / "none"], "is no run with a validation: it has no positions.csv"),
    ):
        assert main([*map(str, words)]) == 2
        assert says in capsys.readouterr().err
    assert not [*tmp_path.iterdir()]


def test_round_needs_a_description(tmp_path: Path, capsys):
    for text in ("[]", "{}"):
        (tmp_path / "round.json").write_text(text)
        assert main(["unpack", str(tmp_path), str(tmp_path / "home")]) == 2
        assert capsys.readouterr().err.endswith("does not describe a round\n")


def test_round_continues_with_half_the_batch_when_memory_is_full(packed: Path, steps, capsys):
    seen = []

    def fill(self: Run, tokens):
        batch, step = len(tokens), self.state.step
        seen.append((batch, step))
        if batch == 8 or (batch == 4 and step == 15):
            raise torch.OutOfMemoryError("full")

    steps.append(fill)
    status, out = run(packed, 30, "--batch", "8")
    assert status == 0
    said = capsys.readouterr().out
    assert "GPU memory is full at batch 8; continuing with 4" in said
    assert "GPU memory is full at batch 4; continuing with 2" in said
    assert (2, 15) in seen  # no step is lost
    content = json.loads((out / "round.json").read_text())
    assert (content["batch"], content["ending"]) == (2, "finished")


def test_failed_round_leaves_the_latest_weights(packed: Path, steps):
    def fail(self: Run, tokens):
        if self.state.step == 20:
            raise RuntimeError("a cable was pulled")

    steps.append(fail)
    status, out = run(packed, 40)
    assert status == 1
    home = packed.with_name("home")
    assert main(["unpack", str(out), str(home)]) == 0
    held = run_folder.newest(home)
    assert int(held.name) == 20
