"""Run a round on the machine with the GPU: a trial, the batch that fills the card, the training, and what comes back.

Whatever happens (a compiler that fails, a card that is full, the time that is over, a signal), the last weights stand
in the folder that comes back: they are written once a minute, where the rate is about to fall, and at the end. A report
says how far the round is while it runs.
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
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from musicgen import checkpoint
from musicgen.performer import Performer
from tokenization.records import from_plain
from training import run_folder
from training.config import RunConfig
from training.data.batches import Batches
from training.devices import compiled, start_fabric
from training.loop import MODEL, Progress, Run
from training.optimiser import Limit
from training.round.pack import ROUND, START, join_parts, write_checkpoint, write_parts

FILLED = 0.85  # of a card's memory that a larger batch may be expected to take
LAST_SECONDS = 25.0  # to validate and write, at the end
TRIAL_STEPS, TRIAL_WARM = 20, 5  # of which the first are not timed
EVERY_SECONDS, SAID_SECONDS = 60.0, 3.0  # weights, lines


class Trial:
    """Times some steps, and ends with the last."""

    def __init__(self, run: Run, on_gpu: bool) -> None:
        self.run, self.on_gpu = run, on_gpu
        self.steps, self.speed, self._at = 0, 0.0, 0.0

    def stepped(self, step: int, steps: int) -> None:
        """Time the steps after the first few."""
        self.steps = step
        if step in (TRIAL_WARM, TRIAL_STEPS):
            if self.on_gpu:
                torch.cuda.synchronize()
            now = time.monotonic()
            self.speed = (TRIAL_STEPS - TRIAL_WARM) / max(1e-9, now - self._at)
            self._at = now

    def progress(self, progress: Progress) -> None:
        """Hear nothing."""

    def validated(self, model: Performer, step: int) -> None:
        """Hear nothing."""


class Report:
    """Prints how a run goes, and writes what comes back."""

    def __init__(
        self,
        out: Path,
        content: dict[str, Any],
        given: argparse.Namespace,
        say: Callable[[str], None],
        about: str,
    ) -> None:
        """Take the folder to write to, what was packed, what the command line says, and the device's name."""
        self.out, self.content, self.given, self.say, self.about = out, content, given, say, about
        self.run: Run | None = None
        self.batch, self.tokens, self.speed, self.loss = 0, 0, 0.0, float("nan")
        self._said, self._wrote, self._held = 0.0, time.monotonic(), False
        self._began = time.monotonic()
        self.texts: dict[str, str] = {}

    def begin(self, run: Run, batch: int) -> None:
        """Listen to a run from here on."""
        self.run, self.batch = run, batch

    def stepped(self, step: int, steps: int) -> None:
        """Count; write the weights before the tail, and once a minute."""
        assert self.run is not None
        self.tokens += self.batch * self.run.config.data.length
        if self.run.schedule.in_tail and not self._held:
            self._held = True
            self.write("running")
        elif time.monotonic() - self._wrote > EVERY_SECONDS:
            self.write("running")

    def progress(self, progress: Progress) -> None:
        """Print a line every few seconds."""
        self.speed, self.loss = progress.tokens_per_second, progress.loss
        if time.monotonic() - self._said > SAID_SECONDS:
            self._said = time.monotonic()
            tail = ", tail" if self.run is not None and self.run.schedule.in_tail else ""
            self.say(
                f"step {progress.step:,} of about {progress.steps:,}: loss {progress.loss:.4f}, "
                f"{progress.tokens_per_second:,.0f} tokens/s{tail}"
            )

    def validated(self, model: Performer, step: int) -> None:
        """Print the loss on held-out pieces."""
        assert self.run is not None
        self.say(f"step {step:,}: validation {self.run.state.validation_loss:.4f}")

    def summary(self) -> str:
        """Return the round in a line."""
        seconds = time.monotonic() - self._began
        return f"{self.tokens / 1e6:.2f} million tokens in {seconds:.0f} s, loss {self.loss:.4f}"

    def write(self, ending: str) -> None:
        """Write weights, tables and what is known of them to the folder that comes back."""
        run, given = self.run, self.given
        assert run is not None
        self._wrote = time.monotonic()
        size = int(given.part_mb * 1e6)
        in_tail = run.schedule.in_tail
        done = ending not in ("running", "failed") and in_tail
        if done and (run.folder / MODEL / checkpoint.CONFIG).is_file():
            model, card = checkpoint.load(run.folder / MODEL)
        else:
            model, card = run.model, run.card(of_tail=in_tail)
        texts = {"model": write_parts(self.out, "model", model, card, "bfloat16", size)}
        state = run.state
        if in_tail:
            held = run_folder.newest(run.folder)
            assert held is not None, "a run saves before its tail"
            state = run_folder.read_state(held)
            texts |= self._write_held(held, size)
        state = replace(state, window=())
        tables = {
            name: (run.folder / name).read_text()
            for name in ("train.csv", "validation.csv", "tail/train.csv", "tail/validation.csv")
            if (run.folder / name).is_file()
        }
        content = {
            "config": self.content["config"],
            "batch": self.batch,
            "state": asdict(state),
            "device": self.about,
            "tokens": self.tokens,
            "tokens_per_second": round(self.tokens / (time.monotonic() - self._began)),
            "seconds": round(time.monotonic() - self._began, 1),
            "ending": ending,
            "tables": {name: text for name, text in tables.items() if "/" not in name},
            **texts,
        }
        fresh = self.out / f".{ROUND}.new"
        fresh.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        os.replace(fresh, self.out / ROUND)
        joined = "".join(f"# {name}\n{text}" for name, text in tables.items())
        (self.out / "log.csv").write_text(joined, encoding="utf-8")

    def _write_held(self, held: Path, size: int) -> dict[str, str]:
        """Write the weights from before the tail, as exactly as there is room; once."""
        if "hold" in self.texts:
            return self.texts
        given = self.given
        taken = [path.stat().st_size for path in self.out.glob("model.*")]
        model, card = checkpoint.load(held)
        numbers = sum(x.numel() for x in model.state_dict().values())
        for dtype, width in (("bfloat16", 2), ("int8", 1)):
            more = int(numbers * width * 1.03)
            files = 2 + len(taken) + -(-more // size)
            if sum(taken) + more < given.total_mb * 1e6 and files <= given.files:
                text = write_parts(self.out, "hold", model, card, dtype, size)
                self.texts = {"hold": text}
                return self.texts
        self.say("there is no room for the weights from before the tail")
        return {}


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
        write_checkpoint(Path(config.run), start, state)

    def _keep(self, run: Run, batch: int, smaller: int) -> None:
        """Save a run amid its steps, to go on with a smaller batch."""
        state = run.state
        state.window = ()
        state.batches = -(-(state.batches or state.step) * batch // max(1, smaller))
        averages = run_folder.averages_of(run.model, run.raw_optimiser)
        run_folder.save(run.folder, run.model, run.card(), averages, state)
        self.content["start"] = None

    def _forget(self) -> None:
        """Give memory back."""
        self.current = None
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
