"""The device, precision and processes of a run: gradients are averaged over the processes that torchrun starts."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from musicgen.common.machine import multiplies_bfloat16
from musicgen.performer import Performer
from training.config import DeviceConfig, RunConfig


def processes() -> tuple[int, int]:
    """Return the number of this process and of all processes of the run, as torchrun sets them."""
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


class TrainedModel(nn.Module):
    """A wrapper around a model whose `forward` applies a function to it, in the precision of the run.

    DistributedDataParallel prepares the gradients of one `forward`, whatever it computes.
    """

    def __init__(self, model: Performer, device: torch.device, *, mixed: bool) -> None:
        super().__init__()
        self.model = model.to(device)
        self.autocast = torch.autocast(device.type, torch.bfloat16) if mixed else nullcontext()

    def forward(self, compute: Callable[[Performer], Tensor]) -> Tensor:
        """Apply a function to the model."""
        with self.autocast:
            return compute(self.model)


class Devices:
    """The device of this process, and what the processes of a run do together."""

    def __init__(self, config: DeviceConfig) -> None:
        check_device(config)
        self.rank, self.count = processes()
        self.is_first = self.rank == 0
        self.mixed = config.precision == "bf16-mixed"
        kind = kind_of(config.accelerator)
        self.device = torch.device(kind)
        if kind == "cuda":
            self.device = torch.device(kind, int(os.environ.get("LOCAL_RANK", "0")))
            torch.cuda.set_device(self.device)
            if self.mixed:
                torch.set_float32_matmul_precision("high")  # TF32 for what is left in float32
        if self.count > 1 and not dist.is_initialized():
            dist.init_process_group("nccl" if kind == "cuda" else "gloo")
            atexit.register(dist.destroy_process_group)
        # Over the processors, so that no GPU has to finish its step first.
        self._control = dist.new_group(backend="gloo") if self.count > 1 else None

    def module_of(self, model: Performer) -> nn.Module:
        """Move a model to the device; return the module through which it is trained."""
        module = TrainedModel(model, self.device, mixed=self.mixed)
        if self.count == 1:
            return module
        # The buffers are constants, or drawn with the same seed by every process.
        return DistributedDataParallel(module, broadcast_buffers=False)

    def without_sync(self, module: nn.Module, *, unless: bool) -> AbstractContextManager[Any]:
        """Do not average the gradients that are computed within, unless they are a step's last."""
        is_shared = isinstance(module, DistributedDataParallel)
        return module.no_sync() if is_shared and not unless else nullcontext()

    def sum(self, value: Tensor) -> Tensor:
        """Return the sum of a tensor over all processes; every process has to call this."""
        if self.count > 1:
            value = value.clone()
            dist.all_reduce(value)
        return value

    def agree(self, stopping: bool, elapsed: float) -> tuple[bool, float]:
        """Return whether any process is to stop, and the clock of the first; every process has to call this."""
        if self._control is None:
            return stopping, elapsed
        said = torch.tensor([stopping, elapsed if self.is_first else 0.0], dtype=torch.float64)
        dist.all_reduce(said, group=self._control)
        return bool(said[0]), float(said[1])

    def wait(self) -> None:
        """Wait until all processes have called this."""
        if self.count > 1:
            dist.barrier()


def kind_of(accelerator: str) -> str:
    """Return the kind of device; `auto` is the first GPU that this machine has, or its processor."""
    if accelerator != "auto":
        return accelerator
    has_mps = torch.backends.mps.is_available()
    return "cuda" if torch.cuda.is_available() else "mps" if has_mps else "cpu"


def check_device(config: DeviceConfig) -> None:
    """Raise ValueError if this machine does not have the device of a configuration."""
    has = {"cuda": torch.cuda.is_available, "mps": torch.backends.mps.is_available}
    if config.accelerator in has and not has[config.accelerator]():
        raise ValueError("no GPU is available; train without one: --set device.accelerator=cpu")


def to_device(tokens: np.ndarray, device: torch.device) -> Tensor:
    """Return tokens as a tensor on a device."""
    tensor = torch.from_numpy(tokens)
    if device.type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def with_precision(config: RunConfig) -> RunConfig:
    """Replace the precision `auto` of a run: bf16-mixed if the device multiplies bfloat16, else 32-true."""
    if config.device.precision != "auto":
        return config
    precision = fastest(config.device.accelerator)
    return replace(config, device=replace(config.device, precision=precision))


def fastest(accelerator: str) -> Literal["32-true", "bf16-mixed"]:
    """Return the fastest precision of a device; others emulate bfloat16."""
    kind = kind_of(accelerator)
    if kind == "cuda":
        has_it = torch.cuda.is_available()
        multiplies = has_it and torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        multiplies = kind == "cpu" and multiplies_bfloat16() is not None
    return "bf16-mixed" if multiplies else "32-true"
