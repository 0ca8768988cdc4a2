"""Run a round on the machine with the GPU: a trial, the batch that fills the card, the training, and what comes back.

Whatever happens (a compiler that fails, a card that is full, the time that is over, a signal), the last weights stand
in the folder that comes back: they are written once a minute, where the rate is about to fall, and at the end.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import shutil
import signal
import tarfile
import time
import traceback
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from tokenization.records import from_plain
from training import run_folder
from training.compiling import compiled
from training.config import RunConfig
from training.data.batches import Batches
from training.devices import start_fabric
from training.loop import Run
from training.round.pack import ROUND, START
from training.round.parts import join_parts, write_checkpoint
from training.round.report import TRIAL_STEPS, Report, Trial
from training.run_folder import card_of
from training.schedule import Limit

FILLED = 0.85  # of a card's memory that a larger batch may be expected to take
LAST_SECONDS = 25.0  # to validate and write, at the end


class Round:
    """One round, from the folder that was packed to the one that comes back."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.began = time.monotonic()
        self.given, self.folder, self.out = given, given.folder.resolve(), given.out.resolve()
        self.out.mkdir(parents=True, exist_ok=True)
        content = json.loads((self.folder / ROUND).read_text(encoding="utf-8"))
        self.content: dict[str, Any] = content
        self.within = given.within or given.seconds + 100
        self.config = self._configured(content)
        self.current: Run | None = None
        self.phase = "trial"

    def run(self) -> int:
        """Train; return the exit status."""
        for name in (signal.SIGTERM, signal.SIGINT):
            signal.signal(name, lambda *_: self.current.stop() if self.current else None)
        device = start_fabric(self.config.device).device
        about = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
        self.say(f"{about}, torch {torch.__version__}, precision {self.config.device.precision}")
        batch, speed = self._fitting(device)
        if not batch:
            return 1
        self.say(f"batch {batch}: {speed:,.0f} tokens/s; the run begins")
        self.phase = "run"
        report = Report(self.out, self.content, self.given, self.say, about)
        seconds, ending = self.given.seconds, "failed"
        while batch:
            used = time.monotonic() - self.began
            seconds = min(seconds, self.within - used - LAST_SECONDS)
            if seconds <= 0:
                self.say("no time is left")
                break
            run = self._run(batch, Path(self.config.run), Limit(seconds=seconds))
            report.begin(run, batch)
            self.current = run
            started = time.monotonic()
            try:
                ending = run.fit(report)
                break
            except torch.OutOfMemoryError:
                self.say(f"the card is full at batch {batch}; {batch // 2} from here on")
                self._keep(run, batch, batch // 2)
                seconds, batch = seconds - (time.monotonic() - started), batch // 2
                self._forget()
            except Exception:
                traceback.print_exc()
                break
        if report.run is None:
            return 1
        report.write(ending)
        self.say(f"{ending}: {report.summary()}; {self.out} comes back")
        return 0 if ending != "failed" else 1

    def say(self, text: str) -> None:
        """Print a line with the seconds since the start."""
        print(f"[{time.monotonic() - self.began:6.1f} s] {text}", flush=True)

    def _configured(self, content: dict[str, Any]) -> RunConfig:
        """Return the configuration for this machine, with its data unpacked."""
        config = from_plain(RunConfig, {**content["config"], "model": content["model"]}, ROUND)
        work = self.folder / "work"
        shutil.rmtree(work, ignore_errors=True)
        folders = []
        for number in range(content["data"]):
            to = work / f"data-{number}"
            with tarfile.open(self.folder / f"data-{number}.tar.xz") as archive:
                archive.extractall(to, filter="data")
            folders.append(str(to))
        on_gpu = torch.cuda.is_available() and self.given.device in ("auto", "cuda")
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2
        workers = self.given.workers
        if workers is None:
            workers = max(1, min(8, cores - 2)) if on_gpu else 0
        data = replace(config.data, folder=config.data.moved(folders), workers=workers)
        compiles = {"auto": None, "yes": True, "no": False}[self.given.compile]
        device = replace(
            config.device, accelerator=self.given.device, devices=1, nodes=1, strategy="auto",
            precision=self.given.precision, compile=compiles,
        )  # fmt: skip
        validation = replace(config.validation, samples=0, patience=None)
        return replace(
            config, run=str(work / "run"), start=None, data=data, device=device, log_every=10,
            save_every=1 << 40, keep=1, validation=validation,
        )  # fmt: skip

    def _fitting(self, device: torch.device) -> tuple[int, float]:
        """Try steps; return the batch to take and its tokens a second, 0 where nothing fits."""
        batch = self.given.batch or self.config.data.batch
        best = (0, 0.0)
        while batch:
            try:
                speed, filled = self._trial(batch, device)
            except torch.OutOfMemoryError:
                self.say(f"batch {batch} does not fit")
                self._forget()
                if best[0]:
                    return best
                batch //= 2
                continue
            self._forget()
            if speed <= best[1]:
                return best
            best = (batch, speed)
            larger = 2 * batch
            spent = time.monotonic() - self.began
            if (
                self.given.batch
                or not 0 < filled * 2 < FILLED
                or larger > self.given.most_batch
                or spent > 0.5 * (self.within - self.given.seconds)
            ):
                return best
            batch = larger
        return best

    def _trial(self, batch: int, device: torch.device) -> tuple[float, float]:
        """Return the tokens a second of some steps, and the share of the card's memory that they took."""
        on_gpu = device.type == "cuda"
        if on_gpu:
            torch.cuda.reset_peak_memory_stats()
        place = Path(self.config.run).with_name("trial")
        shutil.rmtree(place, ignore_errors=True)
        run = self._run(batch, place, None)
        watch = Trial(run, on_gpu)
        self.current = run
        run.fit(watch)
        shutil.rmtree(place, ignore_errors=True)
        filled = 0.0
        if on_gpu:
            total = torch.cuda.get_device_properties(device).total_memory
            filled = torch.cuda.max_memory_allocated() / total
        speed = watch.speed * batch * self.config.data.length
        self.say(
            f"trial: batch {batch}, {watch.steps} steps, {speed:,.0f} tokens/s, {filled:.0%} of the card"
        )
        return speed, filled

    def _run(self, batch: int, folder: Path, limit: Limit | None) -> Run:
        """Return a run with so many sequences a step, where it stands if it has been saved."""
        data = replace(self.config.data, batch=batch)
        optimiser = self.config.optimiser
        if limit is None:  # a trial
            optimiser = replace(optimiser, steps=TRIAL_STEPS, epochs=None)
        else:
            optimiser = replace(optimiser, schedule="hold")
        config = replace(self.config, run=str(folder), data=data, optimiser=optimiser)
        if limit is not None and self.content.get("start") and run_folder.newest(folder) is None:
            self._begin(config, batch)
        run = Run(config, start_fabric(config.device), Batches(data, config.seed), limit)
        if limit is not None:
            run.resume()
        for remark in compiled(run.model, run.module, run.fabric, config, run.batches):
            self.say(remark)
        return run

    def _begin(self, config: RunConfig, batch: int) -> None:
        """Write the checkpoint at which the run stands."""
        start = Path(config.run).with_name(START)
        join_parts(self.folder, START, self.content["start"], start)
        state = from_plain(run_folder.RunState, self.content["state"], ROUND)
        before = self.content["config"]["data"]["batch"]
        state.batches = -(-(state.batches or state.step) * before // batch)
        write_checkpoint(Path(config.run), start, config.optimiser, state)

    def _keep(self, run: Run, batch: int, smaller: int) -> None:
        """Save a run amid its steps, to go on with a smaller batch."""
        state = run.state
        state.window = ()
        state.batches = -(-(state.batches or state.step) * batch // max(1, smaller))
        card = card_of(run.config, run.batches, state, run.origin)
        run_folder.save(
            run.folder, run.model, card, run_folder.averages_of(run.model, run.raw_optimiser), state
        )
        self.content["start"] = None

    def _forget(self) -> None:
        """Give memory back."""
        self.current = None
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
