"""The training loop, and nothing else.

All randomness is a function of (seed, step, purpose): batch, draw of a stochastic encoding, dropout, and when
the random features are drawn anew. So a run that goes on from a checkpoint continues bit for bit, and R processes with a
share of the batch each see what one process with the whole batch sees. The loop never waits for the device except where
it logs; there it also looks whether every loss since was finite.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from lightning_fabric import Fabric
from torch import Tensor

from musicgen.checkpoint import Card
from musicgen.model import Performer
from training import saving
from training.config import RunConfig
from training.data import Batches, Loader
from training.logs import Log
from training.loss import IGNORED, next_token_loss
from training.schedule import learning_rate
from training.validation import Validation

# Purposes of randomness, so that no two draws share a stream.
CODE, DROPOUT, REDRAW, VALIDATE = range(4)


class Diverged(ValueError):
    """The loss was not finite; the last checkpoint is from before."""


@dataclass(frozen=True, kw_only=True)
class Progress:
    """What the person at the terminal sees while a run goes on."""

    step: int
    steps: int
    loss: float
    tokens_per_second: float
    validation: float | None


class Listener(Protocol):
    """Who is told of the run."""

    def progress(self, progress: Progress) -> None:
        """Hear where the run stands, at each logged step."""
        ...

    def validated(self, model: Performer, step: int) -> None:
        """Hear that a validation is done: the moment to write samples of music."""
        ...


def seed_of(*parts: int) -> int:
    """Return one seed for a tuple of numbers."""
    return int(np.random.SeedSequence(parts).generate_state(1, np.uint64)[0] >> 1)


class Run:
    """One training run: what it was given, and where it stands."""

    def __init__(
        self, config: RunConfig, fabric: Fabric, batches: Batches, card: Callable[[Run], Card]
    ) -> None:
        self.config, self.fabric, self.batches, self.card = config, fabric, batches, card
        self.folder = Path(config.run)
        self.steps = batches.steps(config.optimiser.steps, config.optimiser.epochs)
        self.state = saving.RunState(data=batches.checksum)
        model_config = config.model_config(batches.vocabulary_size)
        self.model = Performer(model_config, seed=config.seed)
        self.raw_optimiser = _optimiser(config, self.model, fabric)
        self.validation = Validation(config, batches)
        self.last_validation: float | None = None

    def resume(self) -> bool:
        """Go to the newest checkpoint, if there is one."""
        found = saving.newest(self.folder)
        if found is None:
            return False
        state = saving.restore(found, self.model, self.raw_optimiser)
        if state.data != self.batches.checksum:
            raise ValueError(
                f"{found} was trained on other data than {self.config.data.folder} holds now; "
                "prepare the same data again, or begin a new run"
            )
        self.state = state
        return True

    def fit(self, listener: Listener) -> None:
        """Train to the last step, to the end of patience, or to an interruption (which saves first)."""
        module, optimiser = self.fabric.setup(self.model, self.raw_optimiser)
        if self.config.device.compile:
            module = torch.compile(module)
        log = Log(self.folder, self.state.step, enabled=self.fabric.is_global_zero)
        loader = Loader(self.batches, self.state.step, self.steps, self.config.data.prefetch)
        window = _Window(self.fabric.device)
        try:
            with loader:
                for step, batch in loader:
                    rate = self._learn(module, optimiser, step, batch, window)
                    self.state.step = step + 1
                    if self._due(self.config.log_every):
                        self._log(log, listener, window, rate, loader.share())
                    with window.paused():
                        if self._due(self.config.validation.every):
                            self._validate(module, log, listener)
                        if self._due(self.config.save_every):
                            self._save(window)
                    if self._out_of_patience():
                        break
        except KeyboardInterrupt:
            self._save(window)
            raise
        self._save(window)
        log.close()

    def _learn(
        self, module: Any, optimiser: Any, step: int, batch: np.ndarray, window: _Window
    ) -> float:
        """Take one step: (B, T + 1) tokens of this process; return the learning rate."""
        settings, seed = self.config.optimiser, self.config.seed
        if np.random.default_rng([seed, step, REDRAW]).random() < settings.redraw:
            self.model.redraw(self._generator(step, REDRAW))
        torch.manual_seed(seed_of(seed, step, DROPOUT, self.fabric.global_rank))
        rate = learning_rate(
            step,
            peak=settings.learning_rate,
            floor=settings.learning_rate * settings.final_rate,
            warmup=settings.warmup,
            total=self.steps,
        )
        for group in optimiser.param_groups:
            group["lr"] = rate
        code = self.model.begin(self._generator(step, CODE))
        parts = np.array_split(batch, settings.accumulate)
        for number, part in enumerate(parts):
            tokens = _to_device(part, self.fabric.device)
            waits = number + 1 < len(parts)
            with self.fabric.no_backward_sync(module, enabled=waits):
                loss = next_token_loss(module(tokens[:, :-1].clamp(min=0), code), tokens[:, 1:])
                # Over all positions, padded ones too, so that every token of every process weighs the same.
                self.fabric.backward(loss.sum() / batch[:, 1:].size)
            window.add(loss.detach().sum(), int((part[:, 1:] != IGNORED).sum()), step)
        norm = self.fabric.clip_gradients(
            module, optimiser, max_norm=settings.clip, error_if_nonfinite=False
        )
        window.norm(norm, step)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        return rate

    def _generator(self, *purpose: int) -> torch.Generator:
        generator = torch.Generator(device="cpu")
        return generator.manual_seed(seed_of(self.config.seed, *purpose))

    def _due(self, every: int) -> bool:
        return self.state.step % every == 0 or self.state.step == self.steps

    def _log(
        self, log: Log, listener: Listener, window: _Window, rate: float, share: float
    ) -> None:
        self._check(window)
        loss, norm, tokens, seconds = window.take()
        tokens_per_second = tokens * self.fabric.world_size / seconds
        self.state.seconds += seconds
        log.train(
            step=self.state.step,
            loss=loss,
            learning_rate=rate,
            gradient_norm=norm,
            tokens_per_second=tokens_per_second,
            loader_share=share,
        )
        listener.progress(
            Progress(
                step=self.state.step,
                steps=self.steps,
                loss=loss,
                tokens_per_second=tokens_per_second,
                validation=self.last_validation,
            )
        )

    def _validate(self, module: Any, log: Log, listener: Listener) -> None:
        self.model.eval()
        with torch.no_grad():
            result = self.validation.measure(
                self.fabric, module, self.model.begin(self._generator(VALIDATE))
            )
        self.model.train()
        log.validation(self.state.step, result)
        self.last_validation = result.inside
        if self.state.best_loss is None or result.inside < self.state.best_loss:
            self.state.best_loss, self.state.best_step = result.inside, self.state.step
            self.state.stale = 0
            if self.fabric.is_global_zero:
                self.export(self.folder / "model")
        else:
            self.state.stale += 1
        if self.fabric.is_global_zero:
            listener.validated(self.model, self.state.step)
        self.fabric.barrier()

    def export(self, folder: Path) -> None:
        """Write the model as it stands, as a model folder."""
        saving.checkpoint.save(folder, self.model, self.card(self))

    def _save(self, window: _Window) -> None:
        self._check(window)
        if self.fabric.is_global_zero and self.state.step:
            card = self.card(self)
            saving.save(self.folder, self.model, card, self.raw_optimiser, self.state)
            saving.prune(self.folder, self.config.keep)
        self.fabric.barrier()

    def _check(self, window: _Window) -> None:
        bad = window.first_bad_step()
        if bad is not None:
            good = saving.newest(self.folder)
            kept = f"the last good state is {good}" if good else "no state was saved before it"
            raise Diverged(
                f"the loss was not finite at step {bad}; {kept}. A lower learning_rate or longer warmup often helps"
            )

    def _out_of_patience(self) -> bool:
        patience = self.config.validation.patience
        return patience is not None and self.state.stale >= patience


class _Window:
    """Sums over the steps since the last log, on the device."""

    def __init__(self, device: torch.device) -> None:
        self.zero = torch.zeros((), device=device)
        self.bad = torch.full((), torch.inf, device=device)
        self._reset()

    def _reset(self) -> None:
        self.loss, self.gradient = self.zero, self.zero
        self.tokens, self.steps, self.began = 0, 0, time.perf_counter()

    def add(self, loss: Tensor, tokens: int, step: int) -> None:
        self.loss = self.loss + loss.float()
        self.tokens += tokens
        self._watch(loss, step)

    def norm(self, norm: Tensor | None, step: int) -> None:
        self.steps += 1
        if norm is not None:
            self.gradient = self.gradient + norm.float()
            self._watch(norm, step)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave the time inside out of the speed."""
        began = time.perf_counter()
        yield
        self.began += time.perf_counter() - began

    def _watch(self, value: Tensor, step: int) -> None:
        self.bad = torch.where(torch.isfinite(value), self.bad, self.bad.clamp(max=float(step)))

    def take(self) -> tuple[float, float, int, float]:
        """Return mean loss, mean gradient norm, tokens and seconds, and begin anew."""
        loss, gradient = torch.stack([self.loss, self.gradient]).tolist()
        result = (
            loss / max(1, self.tokens),
            gradient / max(1, self.steps),
            self.tokens,
            time.perf_counter() - self.began,
        )
        self._reset()
        return result

    def first_bad_step(self) -> int | None:
        """Return the first step whose loss or gradient was not finite; waits for the device."""
        bad = self.bad.item()
        return None if bad == torch.inf else int(bad)


def _to_device(tokens: np.ndarray, device: torch.device) -> Tensor:
    tensor = torch.from_numpy(tokens)
    if device.type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def _optimiser(config: RunConfig, model: Performer, fabric: Fabric) -> torch.optim.Optimizer:
    """Return Adam with decoupled weight decay on matrices alone."""
    settings = config.optimiser
    matrices = [p for p in model.parameters() if p.ndim > 1]
    rest = [p for p in model.parameters() if p.ndim <= 1]
    return torch.optim.AdamW(
        [
            {"params": matrices, "weight_decay": settings.weight_decay},
            {"params": rest, "weight_decay": 0.0},
        ],
        lr=settings.learning_rate,
        betas=(settings.beta1, settings.beta2),
        fused=fabric.device.type == "cuda",
    )


def fabric_of(config: RunConfig) -> Fabric:
    """Return Fabric, started: devices, processes and precision as the run says."""
    device = config.device
    if device.accelerator in ("cuda", "gpu") and not torch.cuda.is_available():
        raise ValueError("no GPU is at hand; --set device.accelerator=cpu trains without one")
    fabric = Fabric(
        accelerator=device.accelerator,
        devices=device.devices,
        num_nodes=device.nodes,
        strategy=device.strategy,
        precision=device.precision,  # type: ignore[arg-type]
    )
    fabric.launch()
    return fabric
