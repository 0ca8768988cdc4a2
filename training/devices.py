"""Devices, processes and precision of a run: Lightning Fabric, started."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import torch

from training.config import DeviceConfig
from training.course.one_device import OneDevice
from training.sharding import sharded_strategy

if TYPE_CHECKING:
    from lightning_fabric import Fabric
    from lightning_fabric.strategies.model_parallel import ModelParallelStrategy


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
