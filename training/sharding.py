"""A model in shards over the devices (FSDP), and whole again to be saved; what is not in shards passes unchanged.

Every process calls these functions, in the same order: those that make something whole gather it from all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor

from musicgen.model.performer import Performer
from training.fabric_model import FabricModel

if TYPE_CHECKING:
    from lightning_fabric.strategies.model_parallel import ModelParallelStrategy


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
