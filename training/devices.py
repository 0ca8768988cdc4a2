"""Devices, processes and precision of a run: Lightning Fabric, or for one device what the loop needs of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.optim import Optimizer

from musicgen.common.processes import multiplies_bfloat16
from musicgen.performer import Performer
from tokenization.records import yaml_of
from training.config import CONFIG, DeviceConfig, RunConfig

if TYPE_CHECKING:
    from lightning_fabric import Fabric


class FabricModel(nn.Module):
    """A model as Lightning Fabric runs it, whatever is computed with it.

    Fabric converts the tensors that a module is given and gives, looks for them inside dataclasses too, and refuses
    frozen ones. A code and a state belong to the model, which made them in the precision it wants: they go unseen.
    """

    def __init__(self, model: Performer) -> None:
        super().__init__()
        self.model = model

    def forward(self, compute: Callable[[Performer], Tensor]) -> Tensor:
        """Return what is computed with the model."""
        return compute(self.model)


# A model in shards over the devices (FSDP), and whole again to be saved; what is not in shards passes unchanged.
#
# Every process calls these functions, in the same order: those that make something whole gather it from all.


def _shard(module: nn.Module, mesh: Any) -> nn.Module:
    """Cut a FabricModel: each block by itself, so that one at a time is whole while it computes."""
    from torch.distributed.fsdp import fully_shard

    assert isinstance(module, FabricModel), "the loop wraps its model"
    for block in module.model.blocks:
        fully_shard(block, mesh=mesh["data_parallel"])
    return fully_shard(module, mesh=mesh["data_parallel"])  # type: ignore[return-value]


def whole(tensor: Tensor) -> Tensor:
    """Return a tensor with all its parts."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def laid_out_like(tensor: Tensor, other: Tensor) -> Tensor:
    """Return a whole tensor on another's device, and in its parts if it has some."""
    tensor = tensor.to(other.device)
    if not isinstance(other, DTensor):
        return tensor
    return distribute_tensor(tensor, other.device_mesh, other.placements)


@torch.no_grad()
def whole_model(model: Performer) -> Performer:
    """Return a model as it would be on one device: itself, or a copy on the CPU."""
    if not any(isinstance(parameter, DTensor) for parameter in model.parameters()):
        return model
    copy = Performer(model.config, seed=None)
    copy.load_state_dict({name: whole(x).cpu() for name, x in model.state_dict().items()})
    return copy.train(model.training)


def start_fabric(device: DeviceConfig) -> Fabric:
    """Return Fabric with its processes running, or say which device is missing.

    Where Fabric is not installed, one device does without it.
    """
    check_device(device)
    if torch.cuda.is_available() and device.precision == "bf16-mixed":
        torch.set_float32_matmul_precision("high")  # what is left of float32 may be rounded, too
    if find_spec("lightning_fabric") is None:
        alone: Any = OneDevice(device)
        return alone
    from lightning_fabric import Fabric

    strategy: Any = device.strategy
    if device.strategy == "fsdp":  # which gives each process a part of every weight
        from lightning_fabric.strategies.model_parallel import ModelParallelStrategy

        size = device.devices * device.nodes
        strategy = ModelParallelStrategy(_shard, data_parallel_size=size, tensor_parallel_size=1)
    fabric = Fabric(
        accelerator=device.accelerator,
        devices=device.devices,
        num_nodes=device.nodes,
        strategy=strategy,
        precision=device.precision,  # type: ignore[arg-type]
    )
    fabric.launch()
    return fabric


def is_first_process() -> bool:
    """Tell whether this is the run's first process, which alone writes and speaks; also before Fabric starts."""
    names = ("RANK", "SLURM_PROCID", "NODE_RANK", "GROUP_RANK", "LOCAL_RANK")
    return all(os.environ.get(name, "0") == "0" for name in names)


def check_device(device: DeviceConfig) -> None:
    """Raise ValueError where a device is wanted that this machine does not have."""
    if device.strategy == "fsdp" and device.devices * device.nodes == 1:
        raise ValueError("fsdp shares a model among several devices; give --devices 2 or more")
    found = torch.cuda.device_count()
    if device.accelerator == "cuda" and not found:
        raise ValueError("no GPU is at hand; --set device.accelerator=cpu trains without one")
    if device.accelerator == "mps" and not torch.backends.mps.is_available():
        raise ValueError(
            "this machine has no Apple GPU; --set device.accelerator=cpu trains without one"
        )
    on_gpu = device.accelerator == "cuda" or (device.accelerator == "auto" and found > 0)
    if on_gpu and device.devices > found:
        raise ValueError(
            f"{device.devices} GPUs are wanted and {found} {'is' if found == 1 else 'are'} at hand; "
            f"--devices {found} would work"
        )


def to_device(tokens: np.ndarray, device: torch.device) -> Tensor:
    """Return tokens as a tensor on a device."""
    tensor = torch.from_numpy(tokens)
    if device.type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


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
        module = module.to(self.device)
        if self.mixed:
            module.forward = torch.autocast(self.device.type, torch.bfloat16)(module.forward)
        return module

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


# The precision that `auto` stands for: bfloat16 where the device multiplies it.


def with_precision(config: RunConfig, *, resume: bool) -> tuple[RunConfig, list[str]]:
    """Return a run with its precision decided where it is `auto`, and a remark on what was chosen and why.

    A run goes on in the precision that it began with, on whatever machine.
    """
    if config.device.precision != "auto":
        return config, []
    precision, reason = fastest(config.device.accelerator)
    if resume:
        with suppress(OSError, ValueError, TypeError, KeyError):  # of what nothing is saved
            began = yaml_of(Path(config.run) / CONFIG)["device"]["precision"]
            precision, reason = str(began), "as this run began"
    config = replace(config, device=replace(config.device, precision=precision))
    return config, [f"Precision {precision}: {reason}."]


def fastest(accelerator: str) -> tuple[str, str]:
    """Return bf16-mixed where the device multiplies bfloat16, else 32-true; and why."""
    if accelerator in ("auto", "cuda") and torch.cuda.is_available():
        if torch.cuda.is_bf16_supported(including_emulation=False):
            return "bf16-mixed", "this GPU multiplies bfloat16"
        return "32-true", "this GPU has no bfloat16"
    if accelerator == "mps" or (accelerator == "auto" and torch.backends.mps.is_available()):
        return "32-true", "on an Apple GPU bfloat16 is not tried"
    if found := multiplies_bfloat16():
        return "bf16-mixed", f"this processor multiplies bfloat16 ({found})"
    return "32-true", "this processor would have to imitate bfloat16"
