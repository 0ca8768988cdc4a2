"""The training loop of a run: its steps, and when it validates, logs, saves and ends.

All randomness is a function of (seed, step, purpose): the batch, the noise of a stochastic encoding, dropout, and when
the random features are redrawn. A run resumed from a checkpoint therefore continues bit for bit, and several processes
that share a batch train on the same sequences as one. The loop waits for the device only to log, validate or
save; it then also checks that every loss so far was finite.

A timed run ends with a tail (optimiser.py): it saves just before the tail, and not during it.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from musicgen import checkpoint, weights
from musicgen.common.learning import generator_of, seed_of
from musicgen.performer import Performer, redraw_features
from tokenization.whole_file import full_disk_named
from training import run_folder
from training.config import RunConfig
from training.data.batches import IGNORED, Batches, load, next_token_loss
from training.devices import Devices, to_device
from training.initial_model import first_model, language_of, origin
from training.log import Log, StepSums
from training.optimiser import RATE_FACTOR, Schedule, optimiser_of
from training.run_folder import TAIL_FROM, check_data, is_of_tail
from training.validation import Validation


@dataclass(frozen=True, kw_only=True)
class Progress:
    """The figures reported at a logged step."""

    step: int
    steps: int
    loss: float
    tokens_per_second: float
    unit: str
    validation: float | None  # the loss of the latest one in this session …
    validated: int | None  # … and its step


class Listener(Protocol):
    """Callbacks of a run; only the first process calls them."""

    def stepped(self, step: int, steps: int) -> None:
        """Called after each step."""

    def progress(self, progress: Progress) -> None:
        """Called at each logged step."""


# Purposes of random draws; each has a stream of its own.
CODE, DROPOUT, REDRAW, VALIDATE, RECALL = range(5)
RECALL_DROPOUT = 0.1  # fraction of training sequences without recalled tokens
# How a run can end.
FINISHED, OUT_OF_PATIENCE, STOPPED = "finished", "out of patience", "stopped"
MODEL = "model"  # subfolder of the run


class Run:
    """One training run: its configuration, model, optimiser and state."""

    unit = "tokens"  # of which the logged loss is a mean
    judges_start = False  # whether the loss on held-out pieces is measured before the first step

    def __init__(
        self,
        config: RunConfig,
        devices: Devices,
        batches: Batches,
        seconds: float | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self.config, self.devices, self.batches = config, devices, batches
        self.folder = Path(config.run)
        self.schedule = Schedule(config.optimiser, batches, seconds, clock)
        self.steps = self.schedule.steps
        self.state = run_folder.RunState(data=batches.shards.checksum)
        self.language = language_of(config, batches.shards)
        self.model = self.start()
        self.origin = origin(config)  # read now: the starting model may be gone when the run ends
        self.module: Any = devices.module_of(self.model)
        self.optimiser = optimiser_of(config.optimiser, self.model)
        self.validation = Validation(config, batches, self.model)
        self._stopping = False
        self._validated: int | None = None  # the step of the latest validation in this session

    def start(self) -> Performer:
        """Return the model at step 0."""
        return first_model(self.config, self.language)

    def resume(self) -> bool:
        """Restore the newest checkpoint; return whether one exists."""
        found = run_folder.newest(self.folder)
        if found is None:
            return False
        check_data(found, self.batches)
        self.state = run_folder.restore(found, self.model, self.optimiser)
        method = checkpoint.read_card(found)[1].training.get("optimiser")
        has_averages = self.state.began < self.state.step
        if has_averages and method not in (None, self.config.optimiser.method):
            raise ValueError(
                f"{found} holds optimiser state of {method}; continue with --set optimiser.method={method}"
            )
        return True

    def compile(self) -> list[str]:
        """Compile the layers if configured and possible; return remarks.

        Most of a step is spent in the layers. A machine may have no compiler, or one that fails on a layer, so one
        forward and backward pass is tried; it leaves the weights unchanged.
        """
        wanted = self.config.device.compile
        if wanted is False or (wanted is None and self.devices.device.type != "cuda"):
            return []
        for block in self.model.blocks:
            block.forward = torch.compile(block.forward, dynamic=False)
        try:
            with warnings.catch_warnings():  # the compiler warns about code that it inspects
                warnings.simplefilter("ignore")
                batch = self.batches[0]
                rows = math.ceil(len(batch) / self.config.optimiser.accumulate)
                tokens = to_device(batch[:rows], self.devices.device)
                self._loss(tokens, self.model.begin(generator_of(self.config.seed))).backward()
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # a compiler can fail in any way
            for block in self.model.blocks:
                del block.forward  # restores the method of the class
            reason = " ".join(str(error).split())[:200]
            return [f"The layers are not compiled: {type(error).__name__}: {reason}"]
        finally:
            self.model.zero_grad(set_to_none=True)
        return []

    @property
    def is_over(self) -> bool:
        """Whether the run has no steps left to take."""
        return self.state.step >= self.steps or self._is_out_of_patience()

    def stop(self) -> None:
        """Ask the run to save and end after the current step; can be called from a signal handler."""
        self._stopping = True

    def fit(self, listener: Listener) -> str:
        """Train to the last step, until patience runs out or until stopped; return which of them."""
        first = self.devices.is_first
        self.schedule.start(self.state.step)
        sums = StepSums(self.devices.device, self.state.window if first else ())
        with full_disk_named(self.folder, "continue with --resume once there is space"):
            log = Log(self.folder, self.state.step, enabled=first)
            try:
                ending = self._take_steps(listener, sums, log)
                if self.schedule.in_tail:
                    self._validate(log, sums)
                else:
                    self._save(sums)
            finally:
                log.close()
        return ending

    def _take_steps(self, listener: Listener, sums: StepSums, log: Log) -> str:
        """Take the remaining steps, each followed by the actions that are due; return how the run ended."""
        if self._is_out_of_patience():  # already when it was resumed
            return OUT_OF_PATIENCE
        step = self.state.step
        # A low-rank change of a model that was trained before is kept only if it is better than none.
        if (self.judges_start or self.model.config.rank) and not step:
            with sums.paused():
                self._validate(log, sums)
        batches = load(self.batches, step if self.state.batches is None else self.state.batches)
        for number, tokens in islice(batches, max(0, self.steps - step)):
            if self.schedule.enters_tail(self.state.step):
                with sums.paused():
                    self._save(sums)
            # Perhaps at once, if a long step used up the tail's time: the model is written all the same.
            if self.schedule.is_over:
                return FINISHED
            rate = self._take_step(number, tokens, sums)
            self.state.step += 1
            if self.state.batches is not None:
                self.state.batches = number + 1
            if self.devices.is_first:
                listener.stepped(self.state.step, self.schedule.expected_steps(self.state.step))
            if self._is_due(self.config.validation.every):
                with sums.paused():
                    self._validate(log, sums)
            if self._is_due(self.config.log_every):
                self._log(log, listener, sums, rate)
            with sums.paused():
                if self._is_due(self.config.save_every) and not self.schedule.in_tail:
                    self._save(sums)
            if self._is_out_of_patience():
                return OUT_OF_PATIENCE
            asked = self.devices.agree(self._stopping, self.schedule.clock)
            is_stopped, self.schedule.elapsed = asked
            if is_stopped and self.state.step < self.steps:
                return STOPPED
        return FINISHED

    def _take_step(self, number: int, batch: np.ndarray, sums: StepSums) -> float:
        """Take one optimiser step on this process's rows of a numbered batch; return the learning rate."""
        settings, seed, step = self.config.optimiser, self.config.seed, self.state.step
        drawn = np.random.default_rng([seed, step, REDRAW]).random()
        if settings.redraws(step, drawn):
            redraw_features(self.model, self._generator(step, REDRAW))
        torch.manual_seed(seed_of(seed, step, DROPOUT, self.devices.rank))
        rate = self.schedule.rate(step, self.state.began)
        for group in self.optimiser.param_groups:
            group["lr"] = rate * group.get(RATE_FACTOR, 1)
        self.learn_from(number, batch, sums)
        parameters = [p for group in self.optimiser.param_groups for p in group["params"]]
        norm = nn.utils.clip_grad_norm_(parameters, settings.clip)
        sums.add_norm(norm, step)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        return rate

    def learn_from(self, number: int, batch: np.ndarray, sums: StepSums) -> None:
        """Add the gradients of a step on this process's rows of a numbered batch."""
        step = self.state.step
        code = self.model.begin(self._generator(step, CODE))
        recalled = None if self.model.recall is None else self._recalled(number, batch)
        accumulate = self.config.optimiser.accumulate
        micro_batches = np.array_split(batch, min(accumulate, len(batch)))
        count = len(micro_batches)
        for part, rows in enumerate(micro_batches):
            tokens = to_device(rows, self.devices.device)
            recall = None
            if recalled is not None:
                recall = to_device(np.array_split(recalled, count)[part], tokens.device)
            with self.devices.without_sync(self.module, unless=part + 1 == count):
                loss = self._loss(tokens, code, recall)
                # Divided by all positions, padding included, so that every token of every process weighs the same.
                (loss / batch[:, 1:].size).backward()
            sums.add(loss.detach(), int((rows[:, 1:] != IGNORED).sum()), step)

    def _loss(self, tokens: Tensor, code: Any, recalled: Tensor | None = None) -> Tensor:
        """Return the summed loss of some sequences."""
        inputs = tokens[:, :-1].clamp(min=0)
        compute = partial(Performer.__call__, tokens=inputs, code=code, recalled=recalled)
        return next_token_loss(self.module(compute), tokens[:, 1:]).sum()

    def _recalled(self, number: int, batch: np.ndarray) -> np.ndarray:
        """Return what is recalled after each token but the last, (B, T, 4); for some rows nothing: it is optional."""
        assert self.model.recall is not None, "called only for a model with recall"
        found = self.model.recall.recalled(batch[:, :-1])
        process = self.devices.rank
        random = np.random.default_rng([self.config.seed, number, RECALL, process])
        found[random.random(len(found)) < RECALL_DROPOUT] = 0
        return found

    def _generator(self, *purpose: int) -> torch.Generator:
        return generator_of(self.config.seed, *purpose)

    def _is_due(self, every: int) -> bool:
        """Return whether a periodic action is due: at this step, or as the run ends."""
        return self.state.step % every == 0 or self.state.step == self.steps

    def _log(self, log: Log, listener: Listener, sums: StepSums, rate: float) -> None:
        self._check(sums)
        loss, gradient, tokens, steps = self._total(sums)
        new_tokens, seconds, processor_seconds = sums.speed()
        sums.restart()
        self.state.seconds += seconds
        values = {
            "loss": loss / max(1.0, tokens),
            "tokens_per_second": new_tokens * self.devices.count / seconds,
        }
        log.train(
            step=self.state.step,
            learning_rate=rate,
            gradient_norm=gradient / max(1.0, steps),
            processor_seconds=processor_seconds,
            **values,
        )
        if self.devices.is_first:
            step, validated = self.state.step, self._validated
            listener.progress(
                Progress(
                    step=step, steps=self.schedule.expected_steps(step), unit=self.unit, validated=validated,
                    validation=None if validated is None else self.state.validation_loss, **values,
                )
            )  # fmt: skip

    def _total(self, sums: StepSums) -> list[float]:
        """Return the sums over all processes; every process has to call this."""
        return self.devices.sum(sums.total()).tolist()

    def _validate(self, log: Log, sums: StepSums) -> None:
        self._check(sums)
        self.model.eval()
        # Eager, since the layers are compiled for the length of training sequences.
        with torch.no_grad(), torch.compiler.set_stance("force_eager"):
            code = self.model.begin(self._generator(VALIDATE))
            result = self.validation.measure(self.devices, self.module, code)
        state = self.state
        if not math.isfinite(result.inside):
            raise self._diverged(state.step)  # the last update diverged
        log.validation(state.step, result)
        state.validation_loss, state.validation_beyond = result.inside, result.beyond
        self._validated = state.step
        in_tail = self.schedule.in_tail
        if in_tail or self.keeps(result.inside):
            state.best_loss, state.best_step, state.stale = result.inside, state.step, 0
            if self.devices.is_first and (in_tail or not is_of_tail(self.folder / MODEL)):
                weights.save(self.folder / MODEL, self.model, self.card(of_tail=in_tail))
        else:
            state.stale += 1
        if state.first_loss is None:
            state.first_loss = result.inside
        self.model.train()
        self.devices.wait()

    def keeps(self, loss: float) -> bool:
        """Return whether a model of this loss on held-out pieces is kept as that of the run."""
        return self.state.best_loss is None or loss < self.state.best_loss

    def card(self, *, of_tail: bool = False) -> checkpoint.Card:
        """Return the card of the current model; for the model of a tail, with the step at which the tail began.

        It holds nothing that depends on the machine's speed.
        """
        config, shards, state = self.config, self.batches.shards, self.state
        return checkpoint.Card(
            name=self.folder.name,
            language=self.language,
            trained_length=config.data.length,
            training={
                "data": shards.described("title"),
                "licence": shards.described("licence"),
                "checksum": shards.checksum,
                "counts": shards.counts,
                "steps": state.step,
                "sequences_a_step": config.data.batch,
                "tokens_a_sequence": config.data.length,
                "optimiser": config.optimiser.method,
                "learning_rate": config.optimiser.learning_rate,
                "seed": config.seed,
                "precision": config.device.precision,
                "validation_loss": state.validation_loss,
                "validation_loss_beyond": state.validation_beyond,
                **({} if self.origin is None else {"start": self.origin}),
                **({TAIL_FROM: self.schedule.tail_from} if of_tail else {}),
            },
        )

    def _save(self, sums: StepSums) -> None:
        self._check(sums)
        self.state.window = tuple(self._total(sums))
        self.save()

    def save(self) -> None:
        """Write a checkpoint of the current state; every process has to call this."""
        if self.devices.is_first and self.state.step:
            averages = run_folder.averages_of(self.model, self.optimiser)
            run_folder.save(self.folder, self.model, self.card(), averages, self.state)
            run_folder.prune(self.folder, self.config.keep)
        self.devices.wait()

    def _check(self, sums: StepSums) -> None:
        bad = sums.first_bad_step()
        if bad is not None:
            raise self._diverged(bad + 1)

    def _diverged(self, step: int) -> ValueError:
        good = run_folder.newest(self.folder)
        kept = f"the last good state is {good}" if good else "nothing had been saved before"
        return ValueError(
            f"the loss was not finite at step {step}; {kept}. "
            "A lower learning_rate or longer warmup often helps"
        )

    def _is_out_of_patience(self) -> bool:
        patience = self.config.validation.patience
        if self.schedule.seconds is not None or patience is None:
            return False
        return self.state.stale >= patience
