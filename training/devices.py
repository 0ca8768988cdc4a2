"""Devices, processes and precision of a run: Lightning Fabric, started."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor

from musicgen.model.performer import Performer
from training.config import DeviceConfig
from training.course.one_device import OneDevice

if TYPE_CHECKING:
    from lightning_fabric import Fabric
    from lightning_fabric.strategies.model_parallel import ModelParallelStrategy


# The model as Lightning Fabric runs it: the code of a stochastic encoding passes through untouched.
#
# Fabric converts the tensors in a module's arguments to the run's precision, looks for them inside dataclasses too,
# and refuses frozen ones. A code belongs to the model, which made it in the precision it wants.


class Sealed:
    """Something that is not looked into."""

    def __init__(self, content: Any) -> None:
        self.content = content


class FabricModel(nn.Module):
    """A model that takes its code sealed."""

    def __init__(self, model: Performer) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, tokens: Tensor, code: Sealed, state: Sealed | None = None
    ) -> Tensor | tuple[Tensor, Sealed]:
        """Return the logits of what follows each token, (B, T) → (B, T, V); after a state, the next one too."""
        if state is None:
            return self.model(tokens, code.content)
        logits, after = self.model.follow(tokens, self.model.go_on(state.content, code.content))
        return logits, Sealed(after)


# A model in shards over the devices (FSDP), and whole again to be saved; what is not in shards passes unchanged.
#
# Every process calls these functions, in the same order: those that make something whole gather it from all.


def sharded_strategy(processes: int) -> ModelParallelStrategy:
    """Return the strategy that gives each process a part of every weight."""
    from lightning_fabric.strategies.model_parallel import ModelParallelStrategy

    return ModelParallelStrategy(_shard, data_parallel_size=processes, tensor_parallel_size=1)


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

    fabric = Fabric(
        accelerator=device.accelerator,
        devices=device.devices,
        num_nodes=device.nodes,
        strategy=_strategy(device),
        precision=device.precision,  # type: ignore[arg-type]
    )
    fabric.launch()
    return fabric


def _strategy(device: DeviceConfig) -> str | ModelParallelStrategy:
    if device.strategy == "fsdp":
        return sharded_strategy(device.devices * device.nodes)
    return device.strategy


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
