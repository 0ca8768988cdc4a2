"""The folder of a run: taken by one program at a time, never overwritten, and what it was begun with."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from musicgen.storage.library import shipped
from tokenization.records import from_plain, yaml_of
from tokenization.whole_file import make_folder, write_whole
from training.config import RunConfig
from training.disk import full_disk_named, held
from training.storage import saving

CONFIG = "config.yaml"
# What may differ when a run goes on, and it stays the same run.
_FREE = (
    *("run", "log_every", "save_every", "keep", "data.folder", "data.prefetch", "data.workers"),
    *("device.accelerator", "device.devices", "device.nodes", "device.strategy"),
    *("device.compile", "validation.batch", "validation.patience"),
    *("validation.samples", "validation.sample_tokens", "model.checkpoint_activations"),
)


@contextmanager
def run_folder(config: RunConfig, *, resume: bool) -> Iterator[list[str]]:
    """Hold the folder of a run while it goes on; gives remarks on what is resumed.

    A folder that holds anything raises ValueError, unless it is a run and `resume` is said. What the run was begun with
    stands as it did until `write_config` is called.
    """
    folder = Path(config.run)
    remarks = check_folder(config, resume=resume)
    with full_disk_named(folder, "choose another folder with --set run=…"):
        make_folder(folder, "--set run=… names another")
        lock = held(folder, f"another program is training in {folder} at this moment")
        try:
            yield remarks
        finally:
            if lock is not None:
                os.close(lock)


def write_config(config: RunConfig) -> None:
    """Write what a run is trained with from here on: once it is known that it fits, and a step is to be made."""
    import yaml  # here, since a run is read and saved without it

    text = yaml.safe_dump(plain(config), sort_keys=False)
    write_whole(Path(config.run) / CONFIG, text.encode())


def check_folder(config: RunConfig, *, resume: bool) -> list[str]:
    """Return remarks on what is resumed; raises ValueError where a run cannot have its folder. Writes nothing."""
    folder = Path(config.run)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file; --set run=… names a folder for the run")
    known, found = folder / CONFIG, saving.newest(folder)
    if not known.is_file() and found is None:
        if folder.is_dir() and any(not path.match(".*.part") for path in folder.iterdir()):
            raise ValueError(
                f"{folder} is not empty and holds no run; --set run=… names another folder"
            )
        return [f"Nothing is saved in {folder} yet: the run begins."] if resume else []
    if not resume:
        stands = f"at step {int(found.name)}" if found else "with nothing saved yet"
        raise ValueError(
            f"{folder} already holds a run, {stands}; "
            "--resume goes on with it, and --set run=… begins another"
        )
    if found is None:
        return [f"Nothing is saved in {folder} yet: the run begins anew."]
    if not known.is_file():
        return [f"{known} is gone: the run goes on as you say now."]
    try:
        before = yaml_of(known)
    except ValueError as error:
        raise ValueError(f"{error}; delete it, and --resume goes on as you say now") from None
    changes = _differences(before, plain(config))
    if not changes:
        return []
    said = "; ".join(changes)
    return [f"From here on {folder} is trained otherwise than it was begun: {said}."]


def differences(config: RunConfig) -> list[str]:
    """Return what makes a configuration another run than the one that is saved in its folder, if one is."""
    known = Path(config.run) / CONFIG
    if not known.is_file() or saving.newest(Path(config.run)) is None:
        return []
    return _differences(yaml_of(known), plain(config))


def _differences(old: Any, new: dict[str, Any]) -> list[str]:
    """Return the changes of a configuration that make it another run."""
    before = _flat(_completed(old)) if isinstance(old, Mapping) else {}
    after = _flat(new)
    keys = [key for key in {**before, **after} if before.get(key) != after.get(key)]
    return [
        f"{key} was {before.get(key)} and is {after.get(key)}" for key in keys if key not in _FREE
    ]


def _completed(old: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an older configuration with the defaults of settings that have come since."""
    try:
        return plain(from_plain(RunConfig, old, "the run"))
    except ValueError:  # of a setting that is no more
        return old


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def plain(config: RunConfig) -> dict[str, Any]:
    """Return the configuration with its paths made whole, to be read from anywhere."""
    plain = asdict(config)
    plain["run"] = str(Path(config.run).resolve())
    folders = [str(Path(folder).resolve()) for folder in config.data.folders]
    if config.start is not None and config.start not in shipped():
        plain["start"] = str(Path(config.start).resolve())
    plain["data"]["folder"] = folders[0] if isinstance(config.data.folder, str) else folders
    return plain
