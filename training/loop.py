"""The training loop of a run: its steps, and when it validates, logs, saves and ends.

All randomness is a function of (seed, step, purpose): batch, draw of a stochastic encoding, dropout, and when the
random features are redrawn. So a run that goes on from a checkpoint continues bit for bit, and several processes
with a share of the batch each see what one with the whole batch sees. The loop never waits for the device except where
it logs; there it also looks whether every loss since was finite.

Long sequences may be learned from in windows, a step each: attention's state is handed on, as it would be were the
sequence read at once, its gradient is not (truncated backpropagation through time: Williams and Peng 1990). Within a
sequence a stochastic encoding keeps its draw and random features stay. A run saves and stops where a batch of
sequences ends, so that no state of attention is part of a checkpoint. A run by the clock ends with a tail
(optimiser.py), before which it saves and in which it does not.
"""

from __future__ import annotations

import math
import threading
import warnings
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from torch import Tensor

from musicgen import checkpoint
from musicgen.common.learning import generator_of, seed_of
from musicgen.common.processes import full_disk_named
from musicgen.performer import Performer, redraw_features
from training import run_folder
from training.config import RunConfig
from training.data.batches import IGNORED, Batches, Loader, Part, next_token_loss
from training.devices import FabricModel, to_device, whole, whole_model
from training.initial_model import first_model, origin
from training.log import Log, StepSums
from training.optimiser import TIMES, Limit, Schedule, optimiser_of
from training.run_folder import TAIL_FROM, check_data, has_tail
from training.validation import Validation

if TYPE_CHECKING:
    from lightning_fabric import Fabric


@dataclass(frozen=True, kw_only=True)
class Progress:
    """What is known of a run at a logged step."""

    step: int
    steps: int
    loss: float
    tokens_per_second: float
    validation: float | None


class Listener(Protocol):
    """Receives what happens in a run; only the first process reports."""

    def stepped(self, step: int, steps: int) -> None:
        """Hear that a step is done."""

    def progress(self, progress: Progress) -> None:
        """Hear where the run stands, at each logged step."""

    def validated(self, model: Performer, step: int) -> None:
        """Hear that a validation is done, with the model in evaluation mode: the moment to write samples."""


# Purposes of randomness, so that no two draws share a stream.
CODE, DROPOUT, REDRAW, VALIDATE, RECALL = range(5)
FORGETS = 0.1  # of sequences in training, in which nothing is recalled
# How a run may end.
FINISHED, OUT_OF_PATIENCE, STOPPED = "finished", "out of patience", "stopped"
MODEL, TAIL = "model", "tail"  # folders inside the run's: its model, and the tables of tails


class Run:
    """One training run: what it was given, and where it stands."""

    def __init__(
        self, config: RunConfig, fabric: Fabric, batches: Batches, limit: Limit | None = None
    ) -> None:
        self.config, self.fabric, self.batches = config, fabric, batches
        self.folder = Path(config.run)
        self.schedule = Schedule(config.optimiser, batches, limit)
        self.steps = self.schedule.steps
        self.state = run_folder.RunState(data=batches.shards.checksum)
        self.model = first_model(config, batches.language)
        self.origin = origin(config)  # read once: what a run began as may be gone before it ends
        self.module: Any = fabric.setup_module(FabricModel(self.model))
        self.raw_optimiser = optimiser_of(config.optimiser, self.model)  # of the parameters set up
        self.optimiser: Any = fabric.setup_optimizers(self.raw_optimiser)
        self.validation = Validation(config, batches, self.model)
        self._carried: list[Any] = []  # attention's state in each part of a batch
        self._stopping = threading.Event()

    def resume(self) -> bool:
        """Go to the newest checkpoint, if there is one."""
        found = run_folder.newest(self.folder)
        if found is None:
            return False
        check_data(found, self.batches)
        self.state = run_folder.restore(found, self.model, self.raw_optimiser)
        method = run_folder.read_card(found)[1].training.get("optimiser")
        has_averages = self.state.began < self.state.step
        if has_averages and method not in (None, self.config.optimiser.method):
            raise ValueError(
                f"{found} holds the averages of {method}; --set optimiser.method={method} goes on with them"
            )
        return True

    def compile(self) -> list[str]:
        """Compile the layers, one for all, where that is wanted and works; return remarks.

        A layer is what most of a step is. A machine may lack a compiler, or have one that fails on a layer; so one step
        is tried, which learns nothing.
        """
        wanted = self.config.device.compile
        if wanted is False or (wanted is None and self.fabric.device.type != "cuda"):
            return []
        if self.config.data.windows > 1:
            return [
                "Nothing is compiled: sequences in several windows are learned from as they come."
            ]
        for block in self.model.blocks:
            block.forward = torch.compile(block.forward, dynamic=False)
        try:
            with warnings.catch_warnings():  # which a compiler gives of what it looks at
                warnings.simplefilter("ignore")
                first = self.batches[0]
                share = math.ceil(len(first) / self.config.optimiser.accumulate)
                tokens = to_device(first[:share], self.fabric.device)
                code = self.model.begin(generator_of(self.config.seed))
                inputs = tokens[:, :-1].clamp(min=0)
                logits = self.module(partial(Performer.__call__, tokens=inputs, code=code))
                self.fabric.backward(next_token_loss(logits, tokens[:, 1:]).sum())
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # whatever a compiler may run into
            for block in self.model.blocks:
                del block.forward  # the method of its class again
            reason = " ".join(str(error).split())[:200]
            return [f"The layers are not compiled: {type(error).__name__}: {reason}"]
        finally:
            self.model.zero_grad(set_to_none=True)
        return []

    @property
    def is_over(self) -> bool:
        """Whether no step is left to be made."""
        return self.state.step >= self.steps or self._is_out_of_patience()

    def stop(self) -> None:
        """Ask the run to save and end, after the step under way; a signal handler may call it."""
        self._stopping.set()

    def fit(self, listener: Listener) -> str:
        """Train to the last step, to the end of patience or until stopped; return which it was."""
        first = self.fabric.is_global_zero
        self.schedule.start(self.state.step)
        sums = StepSums(self.fabric.device, self.state.window if first else ())
        step = self.state.step
        number = step if self.state.batches is None else self.state.batches
        recall = None if self.model.recall is None else self._recalled
        loader = Loader(self.batches, step, self.steps, number, recall)
        with full_disk_named(self.folder, "go on with --resume when there is some"):
            log = Log(self.folder, step, enabled=first)
            try:
                with loader:
                    ending = self._learn_all(listener, loader, sums, log)
                if self.schedule.in_tail:
                    self._validate(log, listener, sums)
                else:
                    self._save(sums)
            finally:
                log.close()
        return ending

    def _learn_all(self, listener: Listener, loader: Loader, sums: StepSums, log: Log) -> str:
        """Take the steps that are left, with all that is due after each; return how the run ends."""
        if self._is_out_of_patience():  # it was, before it was resumed
            return OUT_OF_PATIENCE
        for part in loader:
            # A step may outlast the tail: then it has no step, and gives the model all the same.
            if part.window == 0 and self.schedule.turns(self.state.step):
                with sums.paused():
                    self._save(sums)
                log.move(self.folder / TAIL, self.state.step)
            if part.window == 0 and self.schedule.is_over:
                return FINISHED
            rate = self._learn(part, sums)
            self.state.step = part.step + 1
            if self.config.data.windows > 1 or self.state.batches is not None:
                self.state.batches = part.number + 1
            if self.fabric.is_global_zero:
                listener.stepped(self.state.step, self.schedule.expected(self.state.step))
            if self._due(self.config.log_every):
                self._log(log, listener, sums, rate, loader.share())
            with sums.paused():
                if self._due(self.config.validation.every):
                    self._validate(log, listener, sums)
                saves = part.is_last and not self.schedule.in_tail
                if saves and self._due(self.config.save_every, since=part.first_step):
                    self._save(sums)
            if part.is_last and self._is_out_of_patience():
                return OUT_OF_PATIENCE
            if part.is_last and self._is_stopped(part.first_step) and self.state.step < self.steps:
                return STOPPED
        return FINISHED

    def _learn(self, part: Part, sums: StepSums) -> float:
        """Take one step with the tokens of this process; return the learning rate."""
        settings, seed = self.config.optimiser, self.config.seed
        step, first, batch = part.step, part.first_step, part.tokens
        drawn = np.random.default_rng([seed, step, REDRAW]).random()
        if step == first and settings.redraws(step, drawn):
            redraw_features(self.model, self._generator(step, REDRAW))
        torch.manual_seed(seed_of(seed, step, DROPOUT, self.fabric.global_rank))
        rate = self.schedule.rate(step, self.state.began)
        for group in self.optimiser.param_groups:
            group["lr"] = rate * group.get(TIMES, 1)
        code = self.model.begin(self._generator(first, CODE))
        shares = np.array_split(batch, min(settings.accumulate, len(batch)))
        if step == first:
            self._carried = [None] * len(shares)
        for number, share in enumerate(shares):
            tokens = to_device(share, self.fabric.device)
            waits = number + 1 < len(shares)
            found = None
            if part.recalled is not None:
                found = to_device(np.array_split(part.recalled, len(shares))[number], tokens.device)
            with self.fabric.no_backward_sync(self.module, enabled=waits):
                inputs = tokens[:, :-1].clamp(min=0)
                if part.windows == 1:
                    compute = partial(Performer.__call__, tokens=inputs, code=code, recalled=found)
                else:
                    compute = partial(self._follow, inputs, code, number)
                logits = self.module(compute)
                loss = next_token_loss(logits, tokens[:, 1:]).sum()
                # Over all positions, padded ones too, so that every token of every process weighs the same.
                self.fabric.backward(loss / batch[:, 1:].size)
            sums.add(loss.detach(), int((share[:, 1:] != IGNORED).sum()), step)
        norm = self.fabric.clip_gradients(
            self.module, self.optimiser, max_norm=settings.clip, error_if_nonfinite=False
        )
        assert norm is not None, "clipping by norm returns the norm"
        sums.add_norm(whole(norm), step)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        return rate

    def _recalled(self, part: Part) -> np.ndarray:
        """Return what is recalled after each token but the last: nothing in some sequences, to do without it too."""
        assert self.model.recall is not None, "it is asked of a model that recalls"
        found = self.model.recall.recalled(part.tokens[:, :-1])
        process = self.fabric.global_rank
        random = np.random.default_rng([self.config.seed, part.number, RECALL, process])
        found[random.random(len(found)) < FORGETS] = 0
        return found

    def _follow(self, tokens: Tensor, code: Any, share: int, model: Performer) -> Tensor:
        """Return what follows each token, (B, T) → (B, T, V), of a share of a batch in its next window."""
        state = model.go_on(self._carried[share], code)
        logits, self._carried[share] = model.follow(tokens, state)
        return logits

    def _generator(self, *purpose: int) -> torch.Generator:
        return generator_of(self.config.seed, *purpose)

    def _due(self, every: int, since: int | None = None) -> bool:
        """Tell whether something is due that comes every so many steps, in the last one or since some step."""
        step = self.state.step
        return step // every > (step - 1 if since is None else since) // every or step == self.steps

    def _log(self, log: Log, listener: Listener, sums: StepSums, rate: float, share: float) -> None:
        self._check(sums)
        loss, gradient, tokens, steps = self._total(sums)
        new_tokens, seconds, processor_seconds = sums.speed()
        sums.restart()
        self.state.seconds += seconds
        values = {
            "loss": loss / max(1.0, tokens),
            "tokens_per_second": new_tokens * self.fabric.world_size / seconds,
        }
        log.train(
            step=self.state.step,
            learning_rate=rate,
            gradient_norm=gradient / max(1.0, steps),
            loader_share=share,
            processor_seconds=processor_seconds,
            **values,
        )
        if self.fabric.is_global_zero:
            step, validation = self.state.step, self.state.validation_loss
            ends = self.schedule.expected(step)
            listener.progress(Progress(step=step, steps=ends, validation=validation, **values))

    def _total(self, sums: StepSums) -> list[float]:
        """Return the sums of all processes; every process calls it."""
        total = self.fabric.all_reduce(sums.total(), reduce_op="sum")
        assert isinstance(total, Tensor), "a tensor is reduced to a tensor"
        return total.tolist()

    def _validate(self, log: Log, listener: Listener, sums: StepSums) -> None:
        self._check(sums)
        self.model.eval()
        with torch.no_grad(), torch.compiler.set_stance("force_eager"):  # of another length
            code = self.model.begin(self._generator(VALIDATE))
            result = self.validation.measure(self.fabric, self.module, code)
        state, model = self.state, whole_model(self.model)
        if not math.isfinite(result.inside):
            raise self._diverged(state.step)  # by its last update
        log.validation(state.step, result)
        state.validation_loss, state.validation_beyond = result.inside, result.beyond
        in_tail = self.schedule.in_tail
        if state.best_loss is None or result.inside < state.best_loss or in_tail:
            state.best_loss, state.best_step, state.stale = result.inside, state.step, 0
            if self.fabric.is_global_zero and (in_tail or not has_tail(self.folder / MODEL)):
                checkpoint.save(self.folder / MODEL, model, self.card(of_tail=in_tail))
        else:
            state.stale += 1
        if self.fabric.is_global_zero:
            listener.validated(model, state.step)
        self.model.train()
        self.fabric.barrier()

    def card(self, *, of_tail: bool = False) -> checkpoint.Card:
        """Return the card of the model as it stands; nothing depends on the machine's speed.

        One of a tail says which step was held before it.
        """
        config, shards, state = self.config, self.batches.shards, self.state
        return checkpoint.Card(
            name=self.folder.name,
            language=self.batches.language,
            trained_length=config.data.trained_length,
            training={
                "data": shards.described("title"),
                "licence": shards.described("licence"),
                "checksum": shards.checksum,
                "counts": shards.counts,
                "longest_ticks": self.batches.longest_ticks,
                "steps": state.step,
                "sequences_a_step": config.data.batch,
                "tokens_a_sequence": config.data.trained_length,
                "optimiser": config.optimiser.method,
                "learning_rate": config.optimiser.learning_rate,
                "seed": config.seed,
                "precision": config.device.precision,
                "validation_loss": state.validation_loss,
                "validation_loss_beyond": state.validation_beyond,
                **({} if self.origin is None else {"start": self.origin}),
                **({TAIL_FROM: self.schedule.held} if of_tail else {}),
            },
        )

    def _save(self, sums: StepSums) -> None:
        self._check(sums)
        self.state.window = tuple(self._total(sums))
        self.save()

    def save(self) -> None:
        """Write a checkpoint of where the run stands; every process calls it."""
        model = whole_model(self.model)
        averages = run_folder.averages_of(self.model, self.raw_optimiser)
        if self.fabric.is_global_zero and self.state.step:
            run_folder.save(self.folder, model, self.card(), averages, self.state)
            run_folder.prune(self.folder, self.config.keep)
        self.fabric.barrier()

    def _check(self, sums: StepSums) -> None:
        bad = sums.first_bad_step()
        if bad is not None:
            raise self._diverged(bad + 1)

    def _diverged(self, step: int) -> ValueError:
        good = run_folder.newest(self.folder)
        kept = f"the last good state is {good}" if good else "no state was saved before it"
        return ValueError(
            f"the loss was not finite at step {step}; {kept}. "
            "A lower learning_rate or longer warmup often helps"
        )

    def _is_out_of_patience(self) -> bool:
        patience = self.config.validation.patience
        if self.schedule.seconds is not None or patience is None:
            return False
        return self.state.stale >= patience

    def _is_stopped(self, since: int) -> bool:
        """Tell whether to stop after a batch that began with a step; processes agree where they wait anyway."""
        asked = self._stopping.is_set()
        if self.fabric.world_size == 1:
            return asked
        if not self._due(self.config.log_every, since=since):
            return False
        someone = torch.tensor(float(asked), device=self.fabric.device)
        total = self.fabric.all_reduce(someone, reduce_op="sum")
        return bool(total)
