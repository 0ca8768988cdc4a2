"""Run a round on the machine with the GPU: a trial, the batch that fills the card, the training, and what comes back.

Whatever happens (a compiler that fails, a card that is full, the time that is over, a signal), the last weights stand
in the folder that comes back: they are written once a minute, where the rate is about to fall, and at the end.
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
from training.devices import start_fabric
from training.loop import MODEL, Progress, Run
from training.optimiser import Limit
from training.round.pack import ROUND, START, join_parts, rescale, write_checkpoint, write_parts

FILLED = 0.85  # of a card's memory that a larger batch may be expected to take
LAST_SECONDS = 25.0  # to validate and write, at the end
TRIAL_STEPS = 20  # of which the second half is timed, from one line of the log to the next
EVERY_SECONDS, SAID_SECONDS = 60.0, 3.0  # weights, lines
FAILED = "failed"


class Round:
    """One round, from the folder that was packed to the one that comes back; it listens to its training."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.began = time.monotonic()
        self.given, self.folder, self.out = given, given.folder.resolve(), given.out.resolve()
        self.out.mkdir(parents=True, exist_ok=True)
        self.content: dict[str, Any] = json.loads((self.folder / ROUND).read_text(encoding="utf-8"))
        self.within = given.within or given.seconds + 100
        self.config = self._configured()
        self.device = start_fabric(self.config.device).device
        self.on_gpu = self.device.type == "cuda"
        self.about = torch.cuda.get_device_name(self.device) if self.on_gpu else "CPU"
        self.current: Run | None = None
        self.is_trial, self.trained_from = True, self.began
        self.batch, self.tokens, self.speed, self.loss = 0, 0, 0.0, float("nan")
        self.held: dict[str, str] | None = None  # describes the weights from before the tail
        self._said, self._wrote = 0.0, self.began

    def run(self) -> int:
        """Train; return the exit status."""
        for name in (signal.SIGTERM, signal.SIGINT):
            signal.signal(name, lambda *_: self.current.stop() if self.current else None)
        precision = self.config.device.precision
        self.say(f"{self.about}, torch {torch.__version__}, precision {precision}")
        batch, speed = self._fitting()
        if not batch:
            return 1
        self.say(f"batch {batch}: {speed:,.0f} tokens/s; the run begins")
        self.is_trial, self.trained_from = False, time.monotonic()
        ending = self._train(batch)
        if self.current is not None:
            self.write(ending)
        tokens, seconds = self.tokens / 1e6, time.monotonic() - self.trained_from
        trained = f"{tokens:.2f} million tokens in {seconds:.0f} s, loss {self.loss:.4f}"
        self.say(f"{ending}: {trained}; {self.out} comes back")
        return 0 if ending != FAILED else 1

    def say(self, text: str) -> None:
        """Print a line with the seconds since the start."""
        print(f"[{time.monotonic() - self.began:6.1f} s] {text}", flush=True)

    def stepped(self, step: int, steps: int) -> None:
        """Count; write the weights before the tail, and once a minute."""
        if self.is_trial or self.current is None:
            return
        self.tokens += self.batch * self.config.data.length
        turns = self.current.schedule.in_tail and self.held is None
        if turns or time.monotonic() - self._wrote > EVERY_SECONDS:
            self.write("running")

    def progress(self, progress: Progress) -> None:
        """Print a line every few seconds."""
        self.speed, self.loss = progress.tokens_per_second, progress.loss
        if not self.is_trial and time.monotonic() - self._said > SAID_SECONDS:
            self._said = time.monotonic()
            tail = ", tail" if self.current and self.current.schedule.in_tail else ""
            self.say(
                f"step {progress.step:,} of about {progress.steps:,}: loss {progress.loss:.4f}, "
                f"{progress.tokens_per_second:,.0f} tokens/s{tail}"
            )

    def validated(self, model: Performer, step: int) -> None:
        """Print the loss on held-out pieces."""
        if not self.is_trial and self.current:
            self.say(f"step {step:,}: validation {self.current.state.validation_loss:.4f}")

    def write(self, ending: str) -> None:
        """Write weights, tables and what is known of them to the folder that comes back."""
        run = self.current
        assert run is not None, "a run is written"
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
            assert before is not None, "a run saves before its tail"
            state = run_folder.read_state(before)
            if self.held is None:
                self.held = self._write_held(before)
            texts |= self.held
        names = ("train.csv", "validation.csv", "tail/train.csv", "tail/validation.csv")
        there = [name for name in names if (run.folder / name).is_file()]
        tables = {name: (run.folder / name).read_text() for name in there}
        seconds = time.monotonic() - self.trained_from
        content = {
            "config": self.content["config"],
            "batch": self.batch,
            "state": {**asdict(state), "window": ()},
            "device": self.about,
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
        """Write the weights from before the tail, as exactly as there is room."""
        given = self.given
        taken = [path.stat().st_size for path in self.out.glob("model.*")]
        model, card = checkpoint.load(held)
        numbers = sum(x.numel() for x in model.state_dict().values())
        for dtype, width in (("bfloat16", 2), ("int8", 1)):
            more = int(numbers * width * 1.03)
            files = 2 + len(taken) + -(-more // int(given.part_mb * 1e6))
            if sum(taken) + more < given.total_mb * 1e6 and files <= given.files:
                return {"hold": self._write_parts("hold", model, card, dtype)}
        self.say("there is no room for the weights from before the tail")
        return {}

    def _write_parts(self, name: str, model: Performer, card: checkpoint.Card, dtype: str) -> str:
        return write_parts(self.out, name, model, card, dtype, int(self.given.part_mb * 1e6))

    def _configured(self) -> RunConfig:
        """Return the configuration for this machine, with its data unpacked."""
        content, given = self.content, self.given
        config = from_plain(RunConfig, {**content["config"], "model": content["model"]}, ROUND)
        work = self.folder / "work"
        shutil.rmtree(work, ignore_errors=True)
        folders = []
        for number in range(content["data"]):
            to = work / f"data-{number}"
            with tarfile.open(self.folder / f"data-{number}.tar.xz") as archive:
                archive.extractall(to, filter="data")
            folders.append(str(to))
        workers = given.workers
        if workers is None:
            on_gpu = torch.cuda.is_available() and given.device in ("auto", "cuda")
            workers = max(1, min(8, processors() - 2)) if on_gpu else 0
        data = replace(config.data, folder=config.data.moved(folders), workers=workers)
        compiles = {"auto": None, "yes": True, "no": False}[given.compile]
        device = replace(
            config.device, accelerator=given.device, devices=1, nodes=1, strategy="auto",
            precision=given.precision, compile=compiles,
        )  # fmt: skip
        validation = replace(config.validation, samples=0, patience=None)
        return replace(
            config, run=str(work / "run"), start=None, data=data, device=device, log_every=10,
            save_every=1 << 40, keep=1, validation=validation,
        )  # fmt: skip

    def _fitting(self) -> tuple[int, float]:
        """Try steps; return the batch to take and its tokens a second, 0 where nothing fits."""
        batch, best = self.given.batch or self.config.data.batch, (0, 0.0)
        while batch:
            try:
                speed, filled = self._trial(batch)
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
            spent = time.monotonic() - self.began
            if (
                self.given.batch
                or not 0 < filled * 2 < FILLED
                or 2 * batch > self.given.most_batch
                or spent > 0.5 * (self.within - self.given.seconds)
            ):
                return best
            batch *= 2
        return best

    def _trial(self, batch: int) -> tuple[float, float]:
        """Return the tokens a second of some steps, and the share of the card's memory that they took."""
        place = Path(self.config.run).with_name("trial")
        shutil.rmtree(place, ignore_errors=True)
        filled = 0.0
        if self.on_gpu:
            torch.cuda.reset_peak_memory_stats()
        self.current = self._run(batch, place, None)
        self.current.fit(self)
        if self.on_gpu:
            total = torch.cuda.get_device_properties(self.device).total_memory
            filled = torch.cuda.max_memory_allocated() / total
        shutil.rmtree(place, ignore_errors=True)
        self.say(f"trial: batch {batch}, {self.speed:,.0f} tokens/s, {filled:.0%} of the card")
        return self.speed, filled

    def _train(self, batch: int) -> str:
        """Train for the time that there is, with a smaller batch where the card is full; return how it ended."""
        seconds = self.given.seconds
        while True:
            spent = time.monotonic() - self.began
            seconds = min(seconds, self.within - spent - LAST_SECONDS)
            if seconds <= 0:
                self.say("no time is left")
                return FAILED
            run = self._run(batch, Path(self.config.run), Limit(seconds=seconds))
            self.current, self.batch = run, batch
            started = time.monotonic()
            try:
                return run.fit(self)
            except torch.OutOfMemoryError:
                if batch == 1:
                    self.say("the card is full at batch 1")
                    return FAILED
                self.say(f"the card is full at batch {batch}; {batch // 2} from here on")
                self.write("running")
                rescale(run.state, batch, batch // 2)
                run.save()  # amid its steps
                seconds, batch = seconds - (time.monotonic() - started), batch // 2
                del run
                self._forget()
            except Exception:
                traceback.print_exc()
                return FAILED

    def _run(self, batch: int, folder: Path, limit: Limit | None) -> Run:
        """Return a run with so many sequences a step, where it stands if it has been saved; a trial has no limit."""
        data, optimiser = replace(self.config.data, batch=batch), self.config.optimiser
        if limit is None:
            optimiser = replace(optimiser, steps=TRIAL_STEPS, epochs=None)
        config = replace(self.config, run=str(folder), data=data, optimiser=optimiser)
        if limit is not None and self.content.get("start") and run_folder.newest(folder) is None:
            self._begin(config)
        run = Run(config, start_fabric(config.device), Batches(data, config.seed), limit)
        if limit is not None:
            run.resume()
        for remark in run.compile():
            self.say(remark)
        return run

    def _begin(self, config: RunConfig) -> None:
        """Write the checkpoint at which the run stands."""
        start = Path(config.run).with_name(START)
        join_parts(self.folder, START, self.content["start"], start)
        state = from_plain(run_folder.RunState, self.content["state"], ROUND)
        rescale(state, self.content["config"]["data"]["batch"], config.data.batch)
        write_checkpoint(Path(config.run), start, state)

    def _forget(self) -> None:
        """Give memory back."""
        self.current = None
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
