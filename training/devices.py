"""Devices, processes and precision of a run: Lightning Fabric, started."""

from __future__ import annotations

import os

import torch
from lightning_fabric import Fabric

from training.config import DeviceConfig


def start_fabric(device: DeviceConfig) -> Fabric:
    """Return Fabric with its processes running, or say which device is missing."""
    check_device(device)
    fabric = Fabric(
        accelerator=device.accelerator,
        devices=device.devices,
        num_nodes=device.nodes,
        strategy=device.strategy,
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
