"""Run a round on the GPU machine: find the largest useful batch, train, and write the results.

Whatever happens (a failing compiler, a full GPU, the end of the time, a signal), the results hold the latest weights:
they are written once a minute, before the tail, and at the end.
"""

from __future__ import annotations

import argparse
import gc
import json
import shutil
import signal
import tarfile
import time
import traceback
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from musicgen import checkpoint
from musicgen.common.processes import processors
from musicgen.performer import Performer
from tokenization.records import from_plain
from tokenization.whole_file import write_json, write_text
from training import run_folder
from training.config import RunConfig
from training.data.batches import Batches
from training.devices import Devices
from training.loop import MODEL, Progress, Run
from training.round.pack import ROUND, START, join_parts, rescale, write_checkpoint, write_parts

FILLED = 0.85  # largest fraction of the GPU's memory that a larger batch is expected to take
LAST_SECONDS = 25.0  # reserved for the final validation and writing
TRIAL_STEPS = 20  # the second half, from one log entry to the next, is timed
EVERY_SECONDS, SAID_SECONDS = 60.0, 3.0  # between writings of the weights, and between lines
FAILED = "failed"


class Round:
    """One round, from the packed folder to the results; the Listener of its own training run."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.began = time.monotonic()
        self.options, self.folder, self.out = (
            options,
            options.folder.resolve(),
            options.out.resolve(),
        )
        self.out.mkdir(parents=True, exist_ok=True)
        self.content: dict[str, Any] = json.loads((self.folder / ROUND).read_text(encoding="utf-8"))
        self.total_seconds = options.within or options.seconds + 100
        self.config = self._local_config()
        self.device = Devices(self.config.device).device
        self.on_gpu = self.device.type == "cuda"
        self.device_name = torch.cuda.get_device_name(self.device) if self.on_gpu else "CPU"
        self.current: Run | None = None
        self.is_trial, self.trained_from = True, self.began
        self.batch, self.tokens, self.speed, self.loss = 0, 0, 0.0, float("nan")
        self.held: dict[str, str] | None = None  # entry on the weights before the tail
        self._said, self._wrote = 0.0, self.began

    def run(self) -> int:
        """Train; return the exit status."""
        for name in (signal.SIGTERM, signal.SIGINT):
            signal.signal(name, lambda *_: self.current.stop() if self.current else None)
        precision = self.config.device.precision
        self.say(f"{self.device_name}, torch {torch.__version__}, precision {precision}")
        batch, speed = self._best_batch()
        if not batch:
            return 1
        self.say(f"batch {batch}: {speed:,.0f} tokens/s; training starts")
        self.is_trial, self.trained_from = False, time.monotonic()
        ending = self._train(batch)
        if self.current is not None:
            self.write(ending)
        tokens, seconds = self.tokens / 1e6, time.monotonic() - self.trained_from
        trained = f"{tokens:.2f} million tokens in {seconds:.0f} s, loss {self.loss:.4f}"
        self.say(f"{ending}: {trained}; the results are in {self.out}")
        return 0 if ending != FAILED else 1

    def say(self, text: str) -> None:
        """Print a line with the seconds since the start."""
        print(f"[{time.monotonic() - self.began:6.1f} s] {text}", flush=True)

    def stepped(self, step: int, steps: int) -> None:
        """Count the tokens; write the results when the tail begins and once a minute."""
        if self.is_trial or self.current is None:
            return
        self.tokens += self.batch * self.config.data.length
        tail_begins = self.current.schedule.in_tail and self.held is None
        if tail_begins or time.monotonic() - self._wrote > EVERY_SECONDS:
            self.write("running")

    def progress(self, progress: Progress) -> None:
        """Print a line every few seconds."""
        self.speed, self.loss = progress.tokens_per_second, progress.loss
        if not self.is_trial and time.monotonic() - self._said > SAID_SECONDS:
            self._said = time.monotonic()
            tail = ", tail" if self.current and self.current.schedule.in_tail else ""
            known = progress.validation
            validation = "" if known is None else f", validation {known:.4f}"
            self.say(
                f"step {progress.step:,} of about {progress.steps:,}: loss {progress.loss:.4f}{validation}, "
                f"{progress.tokens_per_second:,.0f} tokens/s{tail}"
            )

    def write(self, ending: str) -> None:
        """Write the results: weights, tables and their description."""
        run = self.current
        assert run is not None, "called only with a run"
        self._wrote = time.monotonic()
        in_tail, state = run.schedule.in_tail, run.state
        is_done = in_tail and ending not in ("running", FAILED)
        if is_done and (run.folder / MODEL / checkpoint.CONFIG).is_file():
            model, card = checkpoint.load(run.folder / MODEL)
        else:
            model, card = run.model, run.card(of_tail=in_tail)
        texts = {"model": self._write_parts("model", model, card, "bfloat16")}
        if in_tail:
            before = run_folder.newest(run.folder)
            assert before is not None, "a run saves when its tail begins"
            state = run_folder.read_state(before)
            if self.held is None:
                self.held = self._write_held(before)
            texts |= self.held
        names = ("train.csv", "validation.csv", "tail/train.csv", "tail/validation.csv")
        existing = [name for name in names if (run.folder / name).is_file()]
        tables = {name: (run.folder / name).read_text() for name in existing}
        seconds = time.monotonic() - self.trained_from
        content = {
            "config": self.content["config"],
            "batch": self.batch,
            "state": {**asdict(state), "window": ()},
            "device": self.device_name,
            "tokens": self.tokens,
            "tokens_per_second": round(self.tokens / seconds),
            "seconds": round(seconds, 1),
            "ending": ending,
            "tables": {name: text for name, text in tables.items() if "/" not in name},
            **texts,
        }
        write_json(self.out / ROUND, content)
        joined = "".join(f"# {name}\n{text}" for name, text in tables.items())
        write_text(self.out / "log.csv", joined)

    def _write_held(self, held: Path) -> dict[str, str]:
        """Write the weights before the tail, in the most precise type that fits the size limits; return their entry."""
        options = self.options
        sizes = [path.stat().st_size for path in self.out.glob("model.*")]
        model, card = checkpoint.load(held)
        numbers = sum(x.numel() for x in model.state_dict().values())
        for dtype, width in (("bfloat16", 2), ("int8", 1)):
            size = int(numbers * width * 1.03)
            files = 2 + len(sizes) + -(-size // int(options.part_mb * 1e6))
            if sum(sizes) + size < options.total_mb * 1e6 and files <= options.files:
                return {"hold": self._write_parts("hold", model, card, dtype)}
        self.say("the weights from before the tail exceed --total-mb or --files and are left out")
        return {}

    def _write_parts(self, name: str, model: Performer, card: checkpoint.Card, dtype: str) -> str:
        return write_parts(self.out, name, model, card, dtype, int(self.options.part_mb * 1e6))

    def _local_config(self) -> RunConfig:
        """Unpack the data and return the configuration for this machine."""
        content, options = self.content, self.options
        config = from_plain(RunConfig, {**content["config"], "model": content["model"]}, ROUND)
        work = self.folder / "work"
        shutil.rmtree(work, ignore_errors=True)
        folders = []
        for number in range(content["data"]):
            to = work / f"data-{number}"
            with tarfile.open(self.folder / f"data-{number}.tar.xz") as archive:
                archive.extractall(to, filter="data")
            folders.append(str(to))
        workers = options.workers
        if workers is None:
            on_gpu = torch.cuda.is_available() and options.device in ("auto", "cuda")
            workers = max(1, min(8, processors() - 2)) if on_gpu else 0
        data = replace(config.data, folder=config.data.with_folders(folders), workers=workers)
        compiles = {"auto": None, "yes": True, "no": False}[options.compile]
        device = replace(
            config.device, accelerator=options.device, precision=options.precision, compile=compiles
        )
        validation = replace(config.validation, patience=None)
        return replace(
            config, run=str(work / "run"), start=None, data=data, device=device, log_every=10,
            save_every=1 << 40, keep=1, validation=validation,
        )  # fmt: skip

    def _best_batch(self) -> tuple[int, float]:
        """Return the fastest batch size that fits and its tokens per second, found by trials; 0 if none fits."""
        batch, best = self.options.batch or self.config.data.batch, (0, 0.0)
        while batch:
            try:
                speed, filled = self._trial(batch)
            except torch.OutOfMemoryError:
                self.say(f"batch {batch} does not fit")
                self._free_memory()
                if best[0]:
                    return best
                batch //= 2
                continue
            self._free_memory()
            if speed <= best[1]:
                return best
            best = (batch, speed)
            spent = time.monotonic() - self.began
            if (
                self.options.batch
                or not 0 < filled * 2 < FILLED
                or 2 * batch > self.options.most_batch
                or spent > 0.5 * (self.total_seconds - self.options.seconds)
            ):
                return best
            batch *= 2
        return best

    def _trial(self, batch: int) -> tuple[float, float]:
        """Take some steps; return their tokens per second and the fraction of the GPU's memory that they used."""
        folder = Path(self.config.run).with_name("trial")
        shutil.rmtree(folder, ignore_errors=True)
        filled = 0.0
        if self.on_gpu:
            torch.cuda.reset_peak_memory_stats()
        self.current = self._run(batch, folder, None)
        self.current.fit(self)
        if self.on_gpu:
            total = torch.cuda.get_device_properties(self.device).total_memory
            filled = torch.cuda.max_memory_allocated() / total
        shutil.rmtree(folder, ignore_errors=True)
        self.say(f"trial: batch {batch}, {self.speed:,.0f} tokens/s, {filled:.0%} of GPU memory")
        return self.speed, filled

    def _train(self, batch: int) -> str:
        """Train for the time that is left, halving the batch when the GPU's memory is full; return how it ended."""
        seconds = self.options.seconds
        while True:
            spent = time.monotonic() - self.began
            seconds = min(seconds, self.total_seconds - spent - LAST_SECONDS)
            if seconds <= 0:
                self.say("no time is left")
                return FAILED
            run = self._run(batch, Path(self.config.run), seconds)
            self.current, self.batch = run, batch
            started = time.monotonic()
            try:
                return run.fit(self)
            except torch.OutOfMemoryError:
                if batch == 1:
                    self.say("GPU memory is full at batch 1")
                    return FAILED
                self.say(f"GPU memory is full at batch {batch}; continuing with {batch // 2}")
                self.write("running")
                rescale(run.state, batch, batch // 2)
                run.save()
                seconds, batch = seconds - (time.monotonic() - started), batch // 2
                del run
                self._free_memory()
            except Exception:
                traceback.print_exc()
                return FAILED

    def _run(self, batch: int, folder: Path, seconds: float | None) -> Run:
        """Return a run with a batch size, resumed if it has a checkpoint; without `seconds` it is a trial."""
        data, optimiser = replace(self.config.data, batch=batch), self.config.optimiser
        if seconds is None:
            optimiser = replace(optimiser, steps=TRIAL_STEPS, epochs=None)
        config = replace(self.config, run=str(folder), data=data, optimiser=optimiser)
        if seconds is not None and self.content.get("start") and run_folder.newest(folder) is None:
            self._write_start(config)
        run = Run(config, Devices(config.device), Batches(data, config.seed), seconds)
        if seconds is not None:
            run.resume()
        for remark in run.compile():
            self.say(remark)
        return run

    def _write_start(self, config: RunConfig) -> None:
        """Write the checkpoint that the round starts from."""
        start = Path(config.run).with_name(START)
        join_parts(self.folder, START, self.content["start"], start)
        state = from_plain(run_folder.RunState, self.content["state"], ROUND)
        rescale(state, self.content["config"]["data"]["batch"], config.data.batch)
        write_checkpoint(Path(config.run), start, state)

    def _free_memory(self) -> None:
        """Drop the current run and free its memory."""
        self.current = None
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
