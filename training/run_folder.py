"""The folder of a run: taken by one program at a time, never overwritten; its checkpoints and its model.

A checkpoint is a folder, complete or absent, from which a run goes on bit for bit.
All randomness of a run is a function of its seed and the step (training/loop.py), so what must be kept is little: the
model, the optimiser's averages, the step and the record of the best loss.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch.optim import Optimizer

from musicgen import checkpoint
from musicgen.checkpoint import CONFIG as MODEL_CONFIG
from musicgen.common.processes import full_disk_named, held
from musicgen.config import ModelConfig
from musicgen.performer import Performer
from musicgen.playable import shipped
from tokenization.records import from_plain, json_of, yaml_of
from tokenization.whole_file import make_folder, sync, write_whole
from training.config import CONFIG, RunConfig
from training.data.batches import Batches
from training.devices import laid_out_like, whole

TAIL_FROM = "tail_from"  # of a card: the step before the tail that the model comes from


def check_data(folder: Path, batches: Batches) -> None:
    """Refuse data that the run of a checkpoint did not learn from: other tokens, or others of them held out."""
    learned = read_state(folder).data, read_card(folder)[1].training.get("counts")
    if learned != (batches.shards.checksum, batches.shards.counts):
        raise ValueError(
            f"{folder} was trained on other data than {batches.config.folder} holds now, or with other pieces held "
            "out; prepare the same data again, or begin a new run"
        )


def has_tail(model: Path) -> bool:
    """Say whether a run's model comes from a tail: no model of a held rate takes its place."""
    return (model / MODEL_CONFIG).is_file() and TAIL_FROM in read_card(model)[1].training


CHECKPOINTS, OPTIMISER, STATE = "checkpoints", "optimiser.safetensors", "state.json"
CHECKSUMS = "checksums"
FREE = ("dropout", "checkpoint_activations", "backend", "chunk")  # what weights do not depend on
_COMPLETE = "[0-9]*"  # the names of whole checkpoints; hidden ones are being written or deleted


@dataclass(kw_only=True)
class RunState:
    """Where a run stands."""

    step: int = 0  # steps done
    batches: int | None = None  # learned from; null where one is a step
    began: int = 0  # the step at which the optimiser had no averages yet: warm-up counts from there
    best_loss: float | None = None  # on the validation data, within the trained length
    best_step: int = 0
    stale: int = 0  # validations since the best
    validation_loss: float | None = None  # the latest, within the trained length
    validation_beyond: float | None = None  # and past it
    window: tuple[float, ...] = ()  # sums of the steps since the last log
    seconds: float = 0.0  # of computing, over all its sessions
    data: str = ""  # checksum of the data set


def save(
    run: Path,
    model: Performer,
    card: checkpoint.Card,
    averages: dict[str, torch.Tensor],
    state: RunState,
) -> Path:
    """Write a checkpoint under its step's name; it appears whole or not at all."""
    target = run / CHECKPOINTS / f"{state.step:08d}"
    if target.exists():  # a step has one outcome
        return target
    fresh = target.with_name(f".{target.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    try:
        fresh.mkdir(parents=True)
        checkpoint.save(fresh, model, card)
        stored = safetensors.torch.save(averages)
        (fresh / OPTIMISER).write_bytes(stored)
        plain = asdict(state)
        sums = {OPTIMISER: hashlib.sha256(stored).hexdigest(), STATE: _sum(plain)}
        (fresh / STATE).write_text(json.dumps({**plain, CHECKSUMS: sums}, indent=2) + "\n")
        for path in [*fresh.iterdir(), fresh]:
            sync(path)
        os.replace(fresh, target)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    sync(target.parent)
    return target


def averages_of(model: Performer, optimiser: Optimizer) -> dict[str, torch.Tensor]:
    """Return what the optimiser keeps of each parameter, by name; every process calls it."""
    return {
        f"{name}/{key}": whole(value.detach()).cpu().contiguous()
        for name, parameter in model.named_parameters()
        for key, value in optimiser.state[parameter].items()
    }


def newest(run: Path) -> Path | None:
    """Return the latest checkpoint of a run, if it has one."""
    return max((run / CHECKPOINTS).glob(_COMPLETE), default=None)


def prune(run: Path, keep: int) -> None:
    """Delete all but the latest `keep` checkpoints, and what an interruption left."""
    for folder in sorted((run / CHECKPOINTS).glob(_COMPLETE))[:-keep]:
        os.replace(folder, folder.with_name(f".{folder.name}.old"))
    for folder in (run / CHECKPOINTS).glob(".*"):
        shutil.rmtree(folder, ignore_errors=True)


def read_card(folder: Path) -> tuple[ModelConfig, checkpoint.Card]:
    """Return configuration and card of a checkpoint's model."""
    with _advised(folder):
        return checkpoint.read_card(folder)


def read_state(folder: Path) -> RunState:
    """Return where a checkpoint's run stood."""
    with _advised(folder):
        return _state_of(folder)[0]


def _state_of(folder: Path) -> tuple[RunState, dict[str, str]]:
    """Return where a checkpoint's run stood, and the checksums that came with it."""
    path = folder / STATE
    plain = json_of(path)
    sums = plain.pop(CHECKSUMS) if isinstance(plain, dict) else {}
    state = from_plain(RunState, plain, str(path))
    if sums[STATE] != _sum(plain):
        raise ValueError(f"{path} is damaged: its checksum is another")
    if str(state.step).zfill(len(folder.name)) != folder.name:
        raise ValueError(f"{path} is of step {state.step}, and not of this one")
    return state, sums


def _sum(plain: dict[str, Any]) -> str:
    # Seconds are what the clock counts, not the run.
    lasting = {k: v for k, v in plain.items() if k != "seconds"}
    return hashlib.sha256(json.dumps(lasting, sort_keys=True).encode()).hexdigest()


def restore(folder: Path, model: Performer, optimiser: Optimizer) -> RunState:
    """Put model and optimiser where a checkpoint left them; of the optimiser there may be nothing yet."""
    path = folder / OPTIMISER
    with _advised(folder):
        state, sums = _state_of(folder)
        stored, _ = checkpoint.load(folder)
        if not path.is_file():  # a pipe would be waited for
            raise FileNotFoundError(f"{path} is no file")
        data = path.read_bytes()
        if hashlib.sha256(data).hexdigest() != sums[OPTIMISER]:
            raise ValueError(f"{path} is damaged: its checksum is another")
    if _weights_of(stored) != _weights_of(model):
        raise ValueError(
            f"{folder} holds a model of another configuration; "
            "train with the one in config.yaml of its run, or begin a new run"
        )
    averages, own = safetensors.torch.load(data), model.state_dict()
    model.load_state_dict({n: laid_out_like(x, own[n]) for n, x in stored.state_dict().items()})
    for name, parameter in model.named_parameters():
        prefix = f"{name}/"
        optimiser.state[parameter] = {
            # Copied, since a view into the file may lie at odd addresses and round differently.
            key.removeprefix(prefix): laid_out_like(value.clone(), parameter)
            for key, value in averages.items()
            if key.startswith(prefix)
        }
    return state


def _weights_of(model: Performer) -> dict[str, object]:
    """Return the configuration without what may change in the middle of a run."""
    return {key: value for key, value in model.config.plain().items() if key not in FREE}


@contextmanager
def _advised(folder: Path) -> Iterator[None]:
    """Let what is wrong with a checkpoint be followed by what to do about it."""
    try:
        yield
    except (OSError, ValueError, LookupError, TypeError) as error:
        found = str(error).removesuffix(checkpoint.AGAIN)
        raise ValueError(f"{folder} cannot be read: {found}; {_advice(folder)}") from None


def _advice(folder: Path) -> str:
    earlier = [path for path in folder.parent.glob(_COMPLETE) if path.name < folder.name]
    if not earlier:
        return f"no checkpoint lies before it: delete {folder} to start over"
    return f"delete {folder} to go on from the checkpoint before it, {max(earlier)}"


# What may differ when a run goes on, and it stays the same run.
_FREE = (
    *("run", "log_every", "save_every", "keep", "data.folder", "data.prefetch", "data.workers"),
    *("device.accelerator", "device.devices", "device.nodes", "device.strategy"),
    *("device.compile", "validation.batch", "validation.patience"),
    *("validation.samples", "validation.sample_tokens", "model.checkpoint_activations"),
)


@contextmanager
def run_folder(folder: Path) -> Iterator[None]:
    """Hold the folder of a run while it goes on: no other program trains in it."""
    with full_disk_named(folder, "choose another folder with --set run=…"):
        make_folder(folder, "--set run=… names another")
        lock = held(folder, f"another program is training in {folder} at this moment")
        try:
            yield
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
    known, found = folder / CONFIG, newest(folder)
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
        return [f"Nothing is saved in {folder} yet: the run starts over."]
    changes = "; ".join(differences(config))
    otherwise = f"From here on {folder} is trained otherwise than it was begun: {changes}."
    return [otherwise] if changes else []


def differences(config: RunConfig) -> list[str]:
    """Return what makes a configuration another run than the one that is saved in its folder, if one is."""
    known = Path(config.run) / CONFIG
    if not known.is_file() or newest(Path(config.run)) is None:
        return []
    old = yaml_of(known)
    before = flat(old) if isinstance(old, Mapping) else {}
    after = flat(plain(config))
    keys = [key for key in {**before, **after} if before.get(key) != after.get(key)]
    return [
        f"{key} was {before.get(key)} and is {after.get(key)}" for key in keys if key not in _FREE
    ]


def flat(values: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Return the values of nested mappings, each under its whole name."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        name = before + key
        found |= flat(value, f"{name}.") if isinstance(value, Mapping) else {name: value}
    return found


def plain(config: RunConfig) -> dict[str, Any]:
    """Return the configuration with its paths made whole, to be read from anywhere."""
    plain = asdict(config)
    plain["run"] = str(Path(config.run).resolve())
    folders = [str(Path(folder).resolve()) for folder in config.data.folders]
    if config.start is not None and config.start not in shipped():
        plain["start"] = str(Path(config.start).resolve())
    moved = config.data.with_folders(folders)
    plain["data"]["folder"] = [*moved] if isinstance(moved, tuple) else moved
    return plain
