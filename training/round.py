"""A round of training on a GPU machine without network (docs/gpu-round.md).

python -m training.round pack CONFIG … build/round [--set KEY=VALUE …]
python3 build/round/run.py --seconds 580 --out OUT
python -m training.round unpack OUT runs/NAME
python -m training.round table RUN …

A round of several configurations trains them one after the other, and has a subfolder for each.
A run travels in both directions as a split tar archive of its folder: the tables, the model, and the newest checkpoint
with weights of a short type and without the optimiser's averages.
"""

from __future__ import annotations

import argparse
import gc
import io
import shutil
import signal
import sys
import tarfile
import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import wasmtime

from musicgen.checkpoint import CONFIG as MODEL_CONFIG
from musicgen.common.machine import machine
from musicgen.weights import load, save
from tokenization.processes import processors
from tokenization.records import from_plain, json_of
from tokenization.whole_file import write_json, write_text, write_whole
from training import run_folder
from training.config import RunConfig, read_named
from training.data.batches import Batches
from training.devices import Devices, with_precision
from training.initial_model import language_of, model_config
from training.log import TABLES
from training.loop import MODEL, STOPPED, Progress, Run

ROUND, RUN = "round.json", "run.tar"
MOST_BYTES = 4 << 30  # of a run's parts
PACKAGES = ("tokenization", "musicgen", "training")
LAUNCHER = '''"""Run this round: python3 run.py --seconds 580 --out OUT (docs/gpu-round.md)."""

import sys
import tarfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "code"))
if not (HERE / "code/wasmtime").is_dir():  # which runs the kernel
    with tarfile.open(HERE / "wasmtime.tar.xz") as archive:
        archive.extractall(HERE / "code", filter="data")

if __name__ == "__main__":
    from training.round import main

    sys.exit(main(["run", str(HERE), *sys.argv[1:]]))
'''


def write_run(
    newest: Path, state: run_folder.RunState, folder: Path, weights: str, part_bytes: int
) -> None:
    """Write a run to a folder in parts, run.tar.1, 2, …, given its newest checkpoint and the state to store."""
    run = newest.parents[1]
    packed = io.BytesIO()
    with tempfile.TemporaryDirectory() as temporary:
        copy = Path(temporary)
        model, card = load(newest)
        state.began = state.step
        short = run_folder.save(copy, model, card, {}, state)
        save(short, model, card, weights)
        if (run / MODEL / MODEL_CONFIG).is_file():
            save(copy / MODEL, *load(run / MODEL), "bfloat16")
        for table in (f"{name}.csv" for name in TABLES):
            if (run / table).is_file():
                shutil.copyfile(run / table, copy / table)
        with tarfile.open(fileobj=packed, mode="w") as archive:
            archive.add(copy, ".", filter=_without_owner)
    data = packed.getvalue()
    parts = [data[start : start + part_bytes] for start in range(0, len(data), part_bytes)]
    for number, part in enumerate(parts, 1):
        write_whole(folder / f"{RUN}.{number}", part)
    for path in _parts(folder)[len(parts) :]:  # of an earlier, larger archive
        path.unlink()


def read_run(folder: Path, run: Path) -> None:
    """Extract a run that `write_run` wrote; raises ValueError if it is damaged."""
    parts = _parts(folder)
    if (size := sum(path.stat().st_size for path in parts)) > MOST_BYTES:
        raise ValueError(f"the parts of {folder / RUN} have {size:,} bytes, more than any run")
    data = b"".join(path.read_bytes() for path in parts)
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:  # without compression
            members = archive.getmembers()
            if any(member.issparse() for member in members):
                raise tarfile.TarError("it has sparse files")
            archive.extractall(run, members, filter="data")
    except (tarfile.TarError, EOFError, UnicodeError) as error:
        raise ValueError(f"the parts of {folder / RUN} are damaged: {error}") from None


def rescale(state: run_folder.RunState, batch: int, other: int) -> None:
    """Convert the number of batches of a run from size `batch` to size `other`, to continue in the same data."""
    batches = state.step if state.batches is None else state.batches
    state.batches, state.window = -(-batches * batch // other), ()


def _parts(folder: Path) -> list[Path]:
    """Return the parts of a run in order."""
    parts = [part for part in folder.glob(f"{RUN}.*") if part.suffix[1:].isdecimal()]
    return sorted(parts, key=lambda part: int(part.suffix[1:]))


def pack(
    configs: Sequence[RunConfig], folder: Path, part_bytes: int, weights: str = "bfloat16"
) -> int:
    """Pack runs on the same data, each with its newest checkpoint if it has one; return the folder's size in bytes."""
    for config in configs:
        if config.start is not None and run_folder.newest(Path(config.run)) is None:
            raise ValueError(
                "a round cannot start from a trained model; train this run for one step first, then pack its folder"
            )
        if config.optimiser.schedule != "hold":
            raise ValueError("a round is a timed run: add --set optimiser.schedule=hold")
    first, names = configs[0].data, [Path(config.run).name for config in configs]
    if len({config.data.folders for config in configs}) > 1 or len({*names}) < len(names):
        raise ValueError(
            "the runs of a round need the same data, in the same order, and distinct names"
        )
    shards = Batches(first, configs[0].seed).shards
    shards.verify()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    _copy_code(folder / "code")
    with tarfile.open(folder / "wasmtime.tar.xz", "w:xz") as archive:
        archive.add(Path(wasmtime.__file__).parent, "wasmtime", filter=_without_owner)
    for number, data in enumerate(first.folders):
        with tarfile.open(folder / f"data-{number}.tar.xz", "w:xz") as archive:
            archive.add(Path(data).resolve(), ".", filter=_without_owner)
    for name, config in zip(names, configs, strict=True):
        own = folder if len(configs) == 1 else folder / name
        own.mkdir(exist_ok=True)
        # The machine need not have a YAML parser, which presets would need.
        model = model_config(config, language_of(config, shards)).plain()
        write_json(own / ROUND, {"config": run_folder.plain(config), "model": model})
        if (newest := run_folder.newest(Path(config.run))) is not None:
            write_run(newest, run_folder.read_state(newest), own, weights, part_bytes)
    write_text(folder / "run.py", LAUNCHER)
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _without_owner(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Remove the owner from a member; leave out locks and hidden files."""
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    name = Path(info.name).name
    return None if (name.startswith(".") and info.name != ".") or name == "__pycache__" else info


def _copy_code(to: Path) -> None:
    """Copy the packages that training needs, without the shipped models."""
    root = Path(__file__).resolve().parents[1]
    ignored = shutil.ignore_patterns("__pycache__", "*.pyc", "pretrained", "configs", "*.md")
    for package in PACKAGES:
        shutil.copytree(root / package, to / package, ignore=ignored)


def _each(folder: Path) -> list[str]:
    """Return the subfolders with the runs of a round, in a folder that was packed or came back; "" for its only one."""
    return sorted(path.parent.name for path in folder.glob(f"*/{ROUND}")) or [""]


def _content(folder: Path) -> dict[str, Any]:
    """Return the description of a run in a folder that was packed or came back."""
    if not (folder / ROUND).is_file():
        raise ValueError(f"{folder} holds no round and no results of one: it has no {ROUND}")
    content = json_of(folder / ROUND)
    if not isinstance(content, dict) or "config" not in content:
        raise ValueError(f"{folder / ROUND} does not describe a round")
    return content


def unpack(folder: Path, run: Path) -> dict[str, Any]:
    """Unpack the results of a round into the folder of a run; return a summary."""
    content = _content(folder)
    config = from_plain(RunConfig, content.pop("config"), str(folder / ROUND))
    before = run_folder.newest(run)
    if before is None and run.is_dir() and any(run.iterdir()):
        raise ValueError(f"{run} is not empty and has no run; choose another folder")
    with tempfile.TemporaryDirectory() as temporary:
        found = Path(temporary)
        read_run(folder, found)
        held = run_folder.newest(found)
        if held is None:
            raise ValueError(f"{folder} has no checkpoint")
        if before is not None and before.name >= held.name:
            raise ValueError(
                f"{run} is already at step {int(before.name)}; the round ended at step {int(held.name)}"
            )
        for model in (held, found / MODEL):
            if model.exists():
                load(model)  # raises ValueError if it is damaged
        shutil.copytree(found, run, dirs_exist_ok=True)
    run_folder.write_config(replace(config, run=str(run)))
    return content


LAST_SECONDS = 25.0  # reserved for the final validation and writing
EVERY_SECONDS, SAID_SECONDS = 60.0, 3.0  # between writings of the results, and between lines
FAILED = "failed"


class Round:
    """A run of a round on the GPU machine, from the packed folder to the results; the Listener of the run.

    The results are written once a minute, before the tail, and at the end, so that they hold recent weights whatever
    happens: a failing compiler, a full GPU, the end of the time, a signal.
    """

    def __init__(self, options: argparse.Namespace, name: str, seconds: float) -> None:
        self.began, self.seconds = time.monotonic(), seconds
        self.options, self.packed = options, options.folder.resolve()
        self.folder = self.packed / name
        self.content = _content(self.folder)
        self.out = options.out.resolve() / name
        self.out.mkdir(parents=True, exist_ok=True)
        self.config = self._local_config()
        self.batch = self.config.data.batch
        self.packed_batch: int = self.content["config"]["data"]["batch"]
        self.saved_batch = self.packed_batch  # the size of the batches that the checkpoint counts
        self.current: Run | None = None
        self.tokens, self.progressed = 0, ""
        self._in_tail, self._said, self._wrote = False, 0.0, self.began
        self._has_results = False

    def run(self) -> str:
        """Train; return how it ended."""
        for name in (signal.SIGTERM, signal.SIGINT):
            signal.signal(name, lambda *_: self.current.stop() if self.current else None)
        self.say(f"{machine()}, precision {self.config.device.precision}")
        ending = self._train()
        self.write(ending)
        kept = f"the results are in {self.out}" if self._has_results else "there are no results"
        self.say(f"{ending}: {'; '.join(filter(None, (self.progressed, kept)))}")
        return ending

    def say(self, text: str) -> None:
        """Print a line with the seconds since the start."""
        print(f"[{time.monotonic() - self.began:6.1f} s] {text}", flush=True)

    def stepped(self, step: int, steps: int) -> None:
        """Count the tokens; write the results when the tail begins and once a minute before it."""
        assert self.current is not None, "called by the run"
        self.tokens += self.batch * self.config.data.length
        self.saved_batch = self.batch
        before, self._in_tail = self._in_tail, self.current.schedule.in_tail
        is_due = time.monotonic() - self._wrote > EVERY_SECONDS
        if self._in_tail != before or (is_due and not before):
            self.write("running")

    def progress(self, progress: Progress) -> None:
        """Print a line every few seconds."""
        known = progress.validation
        validation = (
            "" if known is None else f", validation {known:.4f} of step {progress.validated:,}"
        )
        tail = ", tail" if self._in_tail else ""
        self.progressed = (
            f"step {progress.step:,} of about {progress.steps:,}: loss {progress.loss:.4f}{validation}, "
            f"{progress.tokens_per_second:,.0f} tokens/s{tail}"
        )
        if time.monotonic() - self._said > SAID_SECONDS:
            self._said = time.monotonic()
            self.say(self.progressed)

    def write(self, ending: str) -> None:
        """Write the results: the run, its log, and a summary."""
        run = self.current
        if run is None:
            return
        self._wrote = time.monotonic()
        if not run.schedule.in_tail:
            run.save()
        held = run_folder.newest(run.folder)
        if held is None:  # before the first step
            return
        state = run_folder.read_state(held)
        rescale(state, self.saved_batch, self.packed_batch)
        part_bytes = int(self.options.part_mb * 1e6)
        write_run(held, state, self.out, self.options.weights, part_bytes)
        write_json(
            self.out / ROUND,
            {
                "config": self.content["config"],
                "machine": machine(),
                "ending": ending,
                "batch": self.batch,
                "tokens": self.tokens,
                "seconds": round(time.monotonic() - self.began, 1),
                "held": int(held.name),
                "step": run.state.step,
                "validation_loss": run.state.validation_loss,
            },
        )
        shutil.copyfile(run.folder / "train.csv", self.out / "log.csv")
        self._has_results = True

    def _local_config(self) -> RunConfig:
        """Unpack the data and return the configuration for this machine."""
        content, options = self.content, self.options
        config = from_plain(RunConfig, {**content["config"], "model": content["model"]}, ROUND)
        work = self.folder / "work"
        shutil.rmtree(work, ignore_errors=True)
        folders = []
        for number in range(len(config.data.folders)):
            folders.append(str(work / f"data-{number}"))
            with tarfile.open(self.packed / f"data-{number}.tar.xz") as archive:
                archive.extractall(folders[-1], filter="data")
        workers = config.data.workers
        if torch.cuda.is_available():
            workers = workers or max(1, min(8, processors() - 2))
        data = replace(
            config.data, folder=config.data.with_folders(folders), workers=workers,
            batch=options.batch or config.data.batch,
        )  # fmt: skip
        validation = replace(config.validation, patience=None)
        config = replace(
            config, run=str(work / "run"), start=None, data=data, log_every=10,
            save_every=1 << 40, keep=1, validation=validation,
        )  # fmt: skip
        return with_precision(config)

    def _train(self) -> str:
        """Train for the time that is left, with half the batch whenever the GPU is full; return how it ended."""
        while True:
            try:
                run = self._prepared()
                spent = time.monotonic() - self.began
                run.schedule.seconds = self.seconds - LAST_SECONDS - spent
                if run.schedule.seconds <= 0:
                    seconds = self.options.seconds
                    self.say(_too_short(seconds, seconds / self.seconds, spent))
                    return FAILED
                return run.fit(self)
            except torch.OutOfMemoryError:
                if self.batch == 1:
                    self.say("GPU memory is full at batch 1")
                    return FAILED
            except Exception:
                traceback.print_exc()
                return FAILED
            self.say(f"GPU memory is full at batch {self.batch}; continuing with {self.batch // 2}")
            self.write("running")
            self.batch //= 2
            self.current = None
            gc.collect()
            torch.cuda.empty_cache()  # does nothing without a GPU

    def _prepared(self) -> Run:
        """Return a run with the current batch size, resumed if it has a checkpoint, and compiled if possible."""
        data = replace(self.config.data, batch=self.batch)
        config = replace(self.config, data=data)
        folder = Path(config.run)
        if run_folder.newest(folder) is None and _parts(self.folder):
            read_run(self.folder, folder)
        batches = Batches(data, config.seed)
        self.current = Run(config, Devices(config.device), batches, self.seconds)
        self.current.resume()
        rescale(self.current.state, self.saved_batch, self.batch)
        for remark in self.current.compile():
            self.say(remark)
        return self.current


def _too_short(seconds: float, runs: float, spent: float = 0.0) -> str:
    """Say that a round is too short, given its runs and the seconds that one needs before it can train."""
    least = (spent + LAST_SECONDS) * runs * 1.1 + 5
    return (
        f"--seconds is {seconds:g}, which leaves no time to train: of each run, {LAST_SECONDS:g} are for the last "
        f"validation and writing, and some for unpacking; give {least:.0f} or more"
    )


def run_all(options: argparse.Namespace) -> int:
    """Run each run of a round for an equal share of the time, until one is stopped; return the exit status."""
    names, endings = _each(options.folder), []
    share = options.seconds / len(names)
    if share <= LAST_SECONDS:
        raise ValueError(_too_short(options.seconds, len(names)))
    for name in names:
        endings.append(Round(options, name, share).run())
        if endings[-1] == STOPPED:
            break
        gc.collect()
        torch.cuda.empty_cache()
        torch.compiler.reset()  # the layers of the next run are others
    return int(FAILED in endings)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    given = _parser().parse_args(arguments)
    try:
        if given.command == "run":
            return run_all(given)
        if given.command == "pack":
            configs = [read_named(name, given.changes) for name in given.configs]
            size = pack(configs, given.folder, int(given.part_mb * 1e6), given.weights)
            print(f"{given.folder}: {size / 1e6:.1f} MB")
        elif given.command == "table":
            from training.comparison import loss_by_position  # which the GPU machine cannot import

            print(loss_by_position(given.runs))
        else:
            for name in _each(given.folder):
                for key, value in unpack(given.folder / name, given.run / name).items():
                    print(f"{key}: {value}")
        return 0
    except (ValueError, OSError) as error:
        print(f"round: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m training.round", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    pack = commands.add_parser("pack", help="make the folder to copy to the GPU machine")
    pack.add_argument(
        "configs", nargs="+", metavar="config",
        help="configurations, or folders of runs to continue; several share the time",
    )  # fmt: skip
    pack.add_argument("folder", type=Path)
    pack.add_argument("--set", action="append", default=[], dest="changes", metavar="KEY=VALUE")
    run = commands.add_parser("run", help="train on the GPU machine")
    run.add_argument("folder", type=Path)
    run.add_argument("--out", type=Path, required=True, help="folder for the results")
    run.add_argument("--seconds", type=float, default=580.0, help="for everything together")
    run.add_argument("--batch", type=int, help="sequences per step; halved until they fit")
    for parts in (pack, run):
        parts.add_argument("--part-mb", type=float, default=15.0, help="largest file of the run")
        parts.add_argument(
            "--weights", choices=["bfloat16", "int8"], default="bfloat16",
            help="type of the checkpoint's weights",
        )  # fmt: skip
    unpack = commands.add_parser("unpack", help="turn the results into a run")
    unpack.add_argument("folder", type=Path)
    unpack.add_argument("run", type=Path)
    table = commands.add_parser("table", help="print the losses of runs by position")
    table.add_argument("runs", type=Path, nargs="+")
    return parser


if __name__ == "__main__":
    sys.exit(main())
