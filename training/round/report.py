"""What is heard of a round while it runs, and what comes back of it."""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from musicgen.model.performer import Performer
from musicgen.storage import checkpoint
from training import run_folder
from training.loop import MODEL, Progress, Run
from training.round.pack import ROUND
from training.round.parts import write_parts
from training.run_folder import card_of

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
            model, card = (
                run.model,
                card_of(
                    run.config,
                    run.batches,
                    run.state,
                    run.origin,
                    run.schedule.held if in_tail else None,
                ),
            )
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
