"""The folder of a run and its checkpoints; one program uses it at a time, and no other run overwrites it.

A checkpoint is a folder that is either complete or absent, and from which a run resumes bit for bit. All randomness of
a run is a function of its seed and the step (loop.py), so a checkpoint holds only the model, the optimiser's averages,
the step and the losses so far.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch.optim import Optimizer

from musicgen import checkpoint, weights
from musicgen.checkpoint import CONFIG as MODEL_CONFIG
from musicgen.checkpoint import named
from musicgen.performer import Performer
from tokenization.records import from_plain, json_of, yaml_of
from tokenization.whole_file import full_disk_named, lock_folder, make_folder, sync, write_whole
from training.config import CONFIG, RunConfig
from training.data.batches import Batches

TAIL_FROM = "tail_from"  # key of a card: the step at which the model's tail began
CHECKPOINTS, OPTIMISER, STATE = "checkpoints", "optimiser.safetensors", "state.json"
# Settings of a model that its weights do not depend on.
CHANGEABLE = ("dropout", "checkpoint_activations", "backend", "chunk")
_COMPLETE = "[0-9]*"  # names of complete checkpoints; hidden ones are being written or deleted


def check_data(folder: Path, batches: Batches) -> None:
    """Raise ValueError if a checkpoint's run was trained on other tokens, or with other pieces held out."""
    trained = read_state(folder).data, checkpoint.read_card(folder)[1].training.get("counts")
    if trained != (batches.shards.checksum, batches.shards.counts):
        raise ValueError(
            f"{folder} was trained on other data than {batches.config.folder} now holds, or with other pieces held "
            "out; prepare the same data again, or start a new run"
        )


def is_of_tail(model: Path) -> bool:
    """Return whether a run's model comes from a tail; models trained at a held rate must not replace it."""
    return (model / MODEL_CONFIG).is_file() and TAIL_FROM in checkpoint.read_card(model)[1].training


@dataclass(kw_only=True)
class RunState:
    """The state of a run, apart from its model and optimiser."""

    step: int = 0  # steps taken
    batches: int | None = None  # trained on; null if each was one step
    began: int = 0  # the step at which the optimiser's averages began: warm-up counts from there
    first_loss: float | None = None  # the first on validation data
    best_loss: float | None = None  # on validation data, within the trained length
    best_step: int = 0
    stale: int = 0  # validations since the best
    validation_loss: float | None = None  # the latest, within the trained length
    validation_beyond: float | None = None  # the latest, past it
    window: tuple[float, ...] = ()  # the sums since the last log
    seconds: float = 0.0  # of computing, over all sessions
    data: str = ""  # checksum of the data
    checksums: dict[str, str] = field(default_factory=dict)  # of the checkpoint's files


def save(
    run: Path,
    model: Performer,
    card: checkpoint.Card,
    averages: dict[str, torch.Tensor],
    state: RunState,
) -> Path:
    """Write a checkpoint atomically, named by its step."""
    target = run / CHECKPOINTS / f"{state.step:08d}"
    if target.exists():  # and is the same, as steps are deterministic
        return target
    fresh = target.with_name(f".{target.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    try:
        fresh.mkdir(parents=True)
        weights.save(fresh, model, card)
        stored = safetensors.torch.save(averages)
        (fresh / OPTIMISER).write_bytes(stored)
        state.checksums = {OPTIMISER: hashlib.sha256(stored).hexdigest()}
        (fresh / STATE).write_text(json.dumps(asdict(state), indent=2) + "\n")
        for path in [*fresh.iterdir(), fresh]:
            sync(path)
        os.replace(fresh, target)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    sync(target.parent)
    return target


def averages_of(model: Performer, optimiser: Optimizer) -> dict[str, torch.Tensor]:
    """Return the optimiser's averages by parameter name and kind."""
    return {
        f"{name}/{key}": value.detach().cpu().contiguous()
        for name, parameter in model.named_parameters()
        for key, value in optimiser.state[parameter].items()
    }


def newest(run: Path) -> Path | None:
    """Return the latest checkpoint of a run; None if it has none."""
    return max((run / CHECKPOINTS).glob(_COMPLETE), default=None)


def prune(run: Path, keep: int) -> None:
    """Delete all but the latest `keep` checkpoints, and the remains of interrupted saves."""
    for folder in sorted((run / CHECKPOINTS).glob(_COMPLETE))[:-keep]:
        os.replace(folder, folder.with_name(f".{folder.name}.old"))
    for folder in (run / CHECKPOINTS).glob(".*"):
        shutil.rmtree(folder, ignore_errors=True)


def read_state(folder: Path) -> RunState:
    """Return the state of the run at a checkpoint."""
    return from_plain(RunState, json_of(folder / STATE), str(folder / STATE))


def restore(folder: Path, model: Performer, optimiser: Optimizer) -> RunState:
    """Load a checkpoint, possibly without optimiser averages, into model and optimiser; return the run's state."""
    path = folder / OPTIMISER
    state = read_state(folder)
    stored, _ = weights.load(folder)
    if not path.is_file():  # reading a pipe would block
        raise FileNotFoundError(f"{path} is not a file")
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != state.checksums.get(OPTIMISER):
        raise ValueError(f"{path} is damaged: its checksum does not match")
    if _fixed_settings(stored) != _fixed_settings(model):
        raise ValueError(
            f"{folder} holds a model of another configuration; "
            "train with the config.yaml of its run, or start a new run"
        )
    averages = safetensors.torch.load(data)
    model.load_state_dict(stored.state_dict())
    for name, parameter in model.named_parameters():
        prefix = f"{name}/"
        optimiser.state[parameter] = {
            # Copied, since a view into the file may be unaligned, and then rounds differently.
            key.removeprefix(prefix): value.clone().to(parameter.device)
            for key, value in averages.items()
            if key.startswith(prefix)
        }
    return state


def _fixed_settings(model: Performer) -> dict[str, object]:
    """Return the settings of a model that cannot change during a run."""
    return {key: value for key, value in model.config.plain().items() if key not in CHANGEABLE}


# Settings that can change between the sessions of a run without a remark.
_UNREMARKED = (
    *("run", "log_every", "save_every", "keep", "data.folder", "data.workers"),
    *("device.accelerator", "device.compile"),
    *("validation.batch", "validation.patience"),
    "model.checkpoint_activations",
)


@contextmanager
def run_folder(folder: Path) -> Iterator[None]:
    """Make and lock the folder of a run, so that no other program trains in it."""
    with full_disk_named(folder, "choose another folder with --set run=…"):
        make_folder(folder, "choose another with --set run=…")
        lock = lock_folder(folder, f"another program is training in {folder}")
        try:
            yield
        finally:
            if lock is not None:
                os.close(lock)


def write_config(config: RunConfig) -> None:
    """Write the configuration to the run's folder; to be called when it is checked and a step will be taken."""
    import yaml  # here, as reading and saving runs do not need it

    text = yaml.safe_dump(plain(config), sort_keys=False)
    write_whole(Path(config.run) / CONFIG, text.encode())


def check_folder(config: RunConfig, *, resume: bool) -> list[str]:
    """Return remarks on resuming a run; raises ValueError if the run cannot use its folder. Writes nothing."""
    folder = Path(config.run)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file; choose a folder for the run with --set run=…")
    saved, found = folder / CONFIG, newest(folder)
    from_start = f"No step is saved in {folder} yet: training starts from the beginning."
    if not saved.is_file() and found is None:
        if folder.is_dir() and any(not path.match(".*.part") for path in folder.iterdir()):
            raise ValueError(
                f"{folder} is not empty and has no run; choose another folder with --set run=…"
            )
        return [from_start] if resume else []
    if not resume:
        progress = f"at step {int(found.name)}" if found else "with nothing saved yet"
        raise ValueError(
            f"{folder} already holds a run, {progress}; "
            "continue it with --resume, or start another with --set run=…"
        )
    if found is None:
        return [from_start]
    changes = "; ".join(differences(config))
    return [f"From now on {folder} is trained with other settings: {changes}."] if changes else []


def differences(config: RunConfig) -> list[str]:
    """Return how a configuration differs from that of the run saved in its folder, apart from _UNREMARKED settings."""
    saved = Path(config.run) / CONFIG
    if not saved.is_file() or newest(Path(config.run)) is None:
        return []
    old = yaml_of(saved)
    before = flat(old) if isinstance(old, Mapping) else {}
    after = flat(plain(config))
    keys = [key for key in {**before, **after} if before.get(key) != after.get(key)]
    return [
        f"{key} was {before.get(key)} and is {after.get(key)}"
        for key in keys
        if key not in _UNREMARKED
    ]


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return the values of nested mappings by dotted keys."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        name = prefix + key
        found |= flat(value, f"{name}.") if isinstance(value, Mapping) else {name: value}
    return found


def plain(config: RunConfig) -> dict[str, Any]:
    """Return the configuration as plain data with absolute paths."""
    plain = asdict(config)
    plain["run"] = str(Path(config.run).resolve())
    folders = [str(Path(folder).resolve()) for folder in config.data.folders]
    if config.start is not None and config.start not in named():
        plain["start"] = str(Path(config.start).resolve())
    absolute = config.data.with_folders(folders)
    plain["data"]["folder"] = [*absolute] if isinstance(absolute, tuple) else absolute
    return plain
