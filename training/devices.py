"""Devices, processes and precision of a run: Lightning Fabric, or a minimal substitute for a single device."""

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
    """A wrapper around a model whose `forward` takes a function of the model.

    Fabric converts the tensors among a module's arguments and results, also inside dataclasses, and fails on frozen
    ones. Passing a function hides codes and states, which already have the right precision, from it.
    """

    def __init__(self, model: Performer) -> None:
        super().__init__()
        self.model = model

    def forward(self, compute: Callable[[Performer], Tensor]) -> Tensor:
        """Apply a function to the model."""
        return compute(self.model)


# Sharding a model over devices (FSDP) and gathering it to be saved. Every process has to call these functions, in the
# same order. Tensors that are not sharded pass unchanged.


def _shard(module: nn.Module, mesh: Any) -> nn.Module:
    """Shard a FabricModel block by block, so that only one block at a time is gathered to compute."""
    from torch.distributed.fsdp import fully_shard

    assert isinstance(module, FabricModel), "the loop wraps its model"
    for block in module.model.blocks:
        fully_shard(block, mesh=mesh["data_parallel"])
    return fully_shard(module, mesh=mesh["data_parallel"])  # type: ignore[return-value]


def whole(tensor: Tensor) -> Tensor:
    """Return a tensor gathered from all devices."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def distributed_like(tensor: Tensor, other: Tensor) -> Tensor:
    """Move a whole tensor to the device of another, and shard it if the other is sharded."""
    tensor = tensor.to(other.device)
    if not isinstance(other, DTensor):
        return tensor
    return distribute_tensor(tensor, other.device_mesh, other.placements)


@torch.no_grad()
def whole_model(model: Performer) -> Performer:
    """Return an unsharded model: the model itself, or a gathered copy on the CPU."""
    if not any(isinstance(parameter, DTensor) for parameter in model.parameters()):
        return model
    copy = Performer(model.config, seed=None)
    copy.load_state_dict({name: whole(x).cpu() for name, x in model.state_dict().items()})
    return copy.train(model.training)


def start_fabric(device: DeviceConfig) -> Fabric:
    """Return Fabric with its processes started, or a OneDevice if Fabric is not installed."""
    check_device(device)
    if torch.cuda.is_available() and device.precision == "bf16-mixed":
        torch.set_float32_matmul_precision("high")  # TF32 for the multiplications left in float32
    if find_spec("lightning_fabric") is None:
        substitute: Any = OneDevice(device)
        return substitute
    from lightning_fabric import Fabric

    strategy: Any = device.strategy
    if device.strategy == "fsdp":
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
    """Return whether this is the run's first process, the only one that writes and prints.

    It is known before Fabric starts.
    """
    names = ("RANK", "SLURM_PROCID", "NODE_RANK", "GROUP_RANK", "LOCAL_RANK")
    return all(os.environ.get(name, "0") == "0" for name in names)


def check_device(device: DeviceConfig) -> None:
    """Raise ValueError if this machine does not have the devices of a configuration."""
    if device.strategy == "fsdp" and device.devices * device.nodes == 1:
        raise ValueError("fsdp shards a model over several devices; give --devices 2 or more")
    found = torch.cuda.device_count()
    if device.accelerator == "cuda" and not found:
        raise ValueError("no GPU is available; train without one: --set device.accelerator=cpu")
    if device.accelerator == "mps" and not torch.backends.mps.is_available():
        raise ValueError(
            "no Apple GPU is available; train without one: --set device.accelerator=cpu"
        )
    on_gpu = device.accelerator == "cuda" or (device.accelerator == "auto" and found > 0)
    if on_gpu and device.devices > found:
        raise ValueError(
            f"{device.devices} GPUs were requested, but this machine has {found}; use --devices {found}"
        )


def to_device(tokens: np.ndarray, device: torch.device) -> Tensor:
    """Return tokens as a tensor on a device."""
    tensor = torch.from_numpy(tokens)
    if device.type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


class OneDevice:
    """A single process on a single device, with the part of Fabric's interface that the loop uses."""

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
        """Move a module to the device and set its precision."""
        module = module.to(self.device)
        if self.mixed:
            module.forward = torch.autocast(self.device.type, torch.bfloat16)(module.forward)
        return module

    def setup_optimizers(self, optimiser: Optimizer) -> Optimizer:
        """Return an optimiser unchanged."""
        return optimiser

    def no_backward_sync(self, module: nn.Module, enabled: bool) -> AbstractContextManager[Any]:
        """Do nothing: there are no gradients to synchronise."""
        return nullcontext()

    def backward(self, loss: Tensor) -> None:
        """Compute gradients."""
        loss.backward()

    def clip_gradients(
        self, module: nn.Module, optimiser: Optimizer, *, max_norm: float, error_if_nonfinite: bool
    ) -> Tensor:
        """Clip the gradient to a norm; return its norm before clipping."""
        parameters = [p for group in optimiser.param_groups for p in group["params"]]
        return nn.utils.clip_grad_norm_(parameters, max_norm, error_if_nonfinite=error_if_nonfinite)

    def all_reduce(self, value: Tensor, reduce_op: str) -> Tensor:
        """Return the value unchanged."""
        return value

    def barrier(self) -> None:
        """Do nothing: there are no other processes."""


def with_precision(config: RunConfig, *, resume: bool) -> tuple[RunConfig, list[str]]:
    """Replace the precision `auto` of a run; return the configuration and a remark on the choice.

    A resumed run keeps the precision that it began with, on any machine.
    """
    if config.device.precision != "auto":
        return config, []
    precision, reason = fastest(config.device.accelerator)
    if resume:
        with suppress(OSError, ValueError, TypeError, KeyError):  # no readable config.yaml yet
            began = yaml_of(Path(config.run) / CONFIG)["device"]["precision"]
            precision, reason = str(began), "as this run began"
    config = replace(config, device=replace(config.device, precision=precision))
    return config, [f"Precision {precision}: {reason}."]


def fastest(accelerator: str) -> tuple[str, str]:
    """Return the fastest precision, bf16-mixed if the device multiplies bfloat16, else 32-true; and the reason."""
    if accelerator in ("auto", "cuda") and torch.cuda.is_available():
        if torch.cuda.is_bf16_supported(including_emulation=False):
            return "bf16-mixed", "this GPU multiplies bfloat16"
        return "32-true", "this GPU does not support bfloat16"
    if accelerator == "mps" or (accelerator == "auto" and torch.backends.mps.is_available()):
        return "32-true", "bfloat16 is not used on Apple GPUs"
    if found := multiplies_bfloat16():
        return "bf16-mixed", f"this processor multiplies bfloat16 ({found})"
    return "32-true", "this processor would have to emulate bfloat16"
