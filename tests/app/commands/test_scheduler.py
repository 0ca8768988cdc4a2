"""Commands give the same results on several machines, here two worker processes of a dask scheduler."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.app.commands.test_compare import two  # noqa: F401
from tests.training.data.sources import on_disk as disk

WORKER = "from distributed.cli.dask_worker import main; main()"
SCHEDULER = "from distributed.cli.dask_scheduler import main; main()"
OWN_PORT = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard"]


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of a scheduler with two workers."""
    folder, environment = (
        tmp_path_factory.mktemp("scheduler"),
        {**os.environ, "OMP_NUM_THREADS": "1"},
    )
    with ExitStack() as stack:

        def start(code: str, *words: str) -> None:
            process = subprocess.Popen(
                [sys.executable, "-c", code, *words], env=environment, stderr=subprocess.DEVNULL
            )
            stack.callback(process.wait)
            stack.callback(process.terminate)

        where = folder / "scheduler.json"
        start(SCHEDULER, *OWN_PORT, "--scheduler-file", str(where))
        for _ in range(2):
            start(WORKER, "--scheduler-file", str(where), "--nthreads", "1", "--no-dashboard",
                  "--local-directory", str(folder))  # fmt: skip
        from distributed import Client

        with Client(scheduler_file=str(where), timeout=60) as client:
            client.wait_for_workers(2, timeout=60)
        yield json.loads(where.read_text())["address"]


@pytest.mark.long
def test_a_set_is_prepared_to_the_same_bytes(scheduler: str, tmp_path: Path, command):
    source = disk.midi_folder(tmp_path / "source", 20)
    (source / "bad.mid").touch()
    here = json.loads(
        command("data", "midi", source, tmp_path / "here", "--workers", 2, "--json").out
    )
    prepare = ("data", "midi", source, tmp_path / "there", "--scheduler", scheduler, "--json")
    there = json.loads(command(*prepare).out)
    assert there["skipped"] == here["skipped"] != []
    assert {**there, "folder": ""} == {**here, "folder": ""}
    for path in (tmp_path / "here").iterdir():
        assert (tmp_path / "there" / path.name).read_bytes() == path.read_bytes()


@pytest.mark.long
def test_an_evaluation_has_the_same_results(scheduler: str, tmp_path: Path, shared_set, command):
    evaluate = ("evaluate", "form", "untrained:tiny:ensemble", "--prompt-bars", 1, "--bars", 3,
                "--data", shared_set("ensemble", train=2))  # fmt: skip
    command(*evaluate, "-o", tmp_path / "here", "--workers", 2)
    command(*evaluate, "-o", tmp_path / "there", "--scheduler", scheduler)
    here, there = ((tmp_path / name / "form.json").read_text() for name in ("here", "there"))
    assert json.loads(there)["models"] == json.loads(here)["models"]


@pytest.mark.long
def test_a_comparison_has_the_same_results(scheduler: str, tmp_path: Path, two, command):  # noqa: F811
    losses = []
    for where in ((), ("--scheduler", scheduler)):
        rows = json.loads(
            command("compare", *two, *where, "-o", tmp_path / f"{len(where)}", "--json").out
        )
        losses.append({row["name"]: (row["inside"], row["seeds"]) for row in rows})
    assert losses[0] == losses[1] != {}
    assert all(seeds == 2 for _, seeds in losses[0].values())


def test_a_missing_scheduler_is_one_sentence(tmp_path: Path, refused, monkeypatch):
    monkeypatch.setattr("app.options.SCHEDULER_SECONDS", 1)
    disk.midi_folder(tmp_path / "source")
    prepare = ("data", "midi", tmp_path / "source", tmp_path / "set", "--scheduler")
    assert "no scheduler answers at tcp://127.0.0.1:9" in refused(*prepare, "tcp://127.0.0.1:9")
    assert "no scheduler answers at nowhere" in refused(*prepare, "nowhere")
    archive = ("data", "midi", tmp_path / "source" / "song0.mid", tmp_path / "set", "--scheduler")
    assert "SOURCE as a folder" in refused(*archive, "tcp://127.0.0.1:9")
