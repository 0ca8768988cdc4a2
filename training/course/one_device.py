"""What the training loop needs of Lightning Fabric, for one device where that is not installed."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from training.config import DeviceConfig


class OneDevice:
    """One process with one device, named as Fabric names it."""

    global_rank, world_size, is_global_zero = 0, 1, True

    def __init__(self, device: DeviceConfig) -> None:
        if device.devices * device.nodes > 1 or device.strategy != "auto":
            raise ValueError("several devices, ddp and fsdp need the package lightning-fabric")
        if device.precision not in ("32-true", "bf16-mixed"):
            raise ValueError(f"precision {device.precision} needs the package lightning-fabric")
        kind = device.accelerator
        if kind == "auto":
            kind = "cuda" if torch.cuda.is_available() else "cpu"
        self.device = torch.device("cuda:0" if kind == "cuda" else kind)
        self.mixed = device.precision == "bf16-mixed"

    def setup_module(self, module: nn.Module) -> nn.Module:
        """Put a module on the device; it computes in the precision of the run."""
        return _Mixed(module.to(self.device), self.device.type, self.mixed)

    def setup_optimizers(self, optimiser: Optimizer) -> Optimizer:
        """Return an optimiser as it is."""
        return optimiser

    def no_backward_sync(self, module: nn.Module, enabled: bool) -> AbstractContextManager[Any]:
        """Do nothing: there is nobody to wait for."""
        return nullcontext()

    def backward(self, loss: Tensor) -> None:
        """Compute gradients."""
        loss.backward()

    def clip_gradients(
        self, module: nn.Module, optimiser: Optimizer, *, max_norm: float, error_if_nonfinite: bool
    ) -> Tensor:
        """Shorten the gradient to a norm; return the one that it had."""
        parameters = [p for group in optimiser.param_groups for p in group["params"]]
        return nn.utils.clip_grad_norm_(parameters, max_norm, error_if_nonfinite=error_if_nonfinite)

    def all_reduce(self, value: Tensor, reduce_op: str) -> Tensor:
        """Return what one process has."""
        return value

    def barrier(self) -> None:
        """Wait for nobody."""


class _Mixed(nn.Module):
    """A module that computes under autocast, and returns float32."""

    def __init__(self, module: nn.Module, device: str, mixed: bool) -> None:
        super().__init__()
        self.module, self.device, self.mixed = module, device, mixed

    def forward(self, *given: Any) -> Any:
        """Return what the module does."""
        with torch.autocast(self.device, torch.bfloat16, enabled=self.mixed):
            found = self.module(*given)
        return found.float() if isinstance(found, Tensor) else (found[0].float(), *found[1:])
