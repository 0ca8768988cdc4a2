"""Devices, processes and precision of a run: Lightning Fabric, started."""

from __future__ import annotations

import torch
from lightning_fabric import Fabric

from training.config import DeviceConfig


def start_fabric(device: DeviceConfig) -> Fabric:
    """Return Fabric with its processes running, or say which device is missing."""
    _check(device)
    fabric = Fabric(
        accelerator=device.accelerator,
        devices=device.devices,
        num_nodes=device.nodes,
        strategy=device.strategy,
        precision=device.precision,  # type: ignore[arg-type]
    )
    fabric.launch()
    return fabric


def _check(device: DeviceConfig) -> None:
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
