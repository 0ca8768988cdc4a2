"""A style of one's own: what little a model changes to learn a musician's files, kept in their home under a name.

The work in progress is a hidden folder beside the styles, with the prepared files and the run, so that it resumes.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import torch

from musicgen.checkpoint import (
    LONGEST_NAME_BYTES,
    UP,
    Card,
    folder_of,
    read_card,
    shipped,
    styles_folder,
)
from musicgen.common.learning import generator_of
from musicgen.performer import Performer
from musicgen.weights import load, save
from tokenization.prepared import Prepared
from tokenization.wording import counted
from training.config import CONFIGS, RunConfig, read
from training.data.archive import unpacked
from training.data.batches import Batches
from training.data.prepare import PrepareOptions, Progress, prepare
from training.data.sources import SOURCES
from training.data.sources.source import list_files
from training.devices import Devices
from training.loop import MODEL
from training.validation import Validation

SOURCE = "midi"  # the kind of data set that a musician's files are
FEWEST, MOST = 5, 200  # files
HELD_OUT = 0.2  # of the works
VALIDATE = 0  # purpose of random draws
# Of the changes that were learned: nearly all of the gain, at little cost to other music.
STRENGTH = 0.7


@dataclass(frozen=True)
class Learning:
    """A style that is being learned: its name, and where its parts are."""

    name: str

    @property
    def style(self) -> Path:
        """The folder of the style."""
        return styles_folder() / self.name

    @property
    def work(self) -> Path:
        """The folder of the work in progress."""
        return styles_folder() / f".{self.name}"

    @property
    def data(self) -> Path:
        """The prepared files."""
        return self.work / "data"

    def config(self, start: str, seed: int) -> RunConfig:
        """Return the configuration of the run."""
        found = read(CONFIGS / "learn.yaml")
        if read_card(folder_of(start))[1].base:
            raise ValueError(f"{start} is a style; start from the model that it was learned from")
        start = start if start in shipped() else str(folder_of(start).resolve())
        data = replace(found.data, folder=str(self.data))
        return replace(found, run=str(self.work / "run"), start=start, data=data, seed=seed)


def check_name(name: str) -> None:
    """Raise ValueError unless a style can have this name."""
    if name in shipped():
        raise ValueError(f"{name} is a model of the package; give the style another --name")
    usual = name.isprintable() and not set(name) & set('/\\:*?"<>|') and name == name.strip()
    if not usual or name[:1] in ("", ".", "-") or len(name.encode()) > LONGEST_NAME_BYTES:
        raise ValueError(
            f"a style cannot be called {name!r:.80}; give a --name of letters, digits, spaces or dashes"
        )
    if Learning(name).style.exists():
        raise ValueError(
            f"there is already a style {name}: give another --name, or remove it with "
            f"`musicgen learn --remove {name}`"
        )


def remove(name: str) -> None:
    """Delete a style, or the work of one that was not finished."""
    of = Learning(name)
    inside = of.style.parent == styles_folder() and name not in ("", ".", "..")
    found = [folder for folder in (of.style, of.work) if inside and folder.is_dir()]
    if not found:
        raise FileNotFoundError(
            f"there is no style {name!r}; `musicgen models` lists those there are"
        )
    for folder in found:
        shutil.rmtree(folder)


def prepare_files(
    files: Path, learning: Learning, start: str, progress: Progress
) -> dict[str, Any]:
    """Prepare a musician's files with one work in five held out, and return the description of the set."""
    with unpacked(files) as (root, _):
        count = len(SOURCES[SOURCE].find(list_files(root), 0).pieces)
    if count > MOST:
        raise ValueError(
            f"{files} has {counted(count, 'piece')}, too many for a style: give {FEWEST} to {MOST}, or train a model "
            "with `musicgen train finetune`"
        )
    spoken = read_card(folder_of(start))[1].language["language"]
    options = PrepareOptions(language=spoken, validation=HELD_OUT, exactly=True, replace=True)
    enough = f"a style is learned from {FEWEST} to {MOST}"
    if count < FEWEST:
        raise ValueError(f"{files} has {counted(count, 'piece')} of music; {enough}")
    meta = prepare(SOURCE, files, learning.data, options, progress)
    if (read := sum(split["files"] for split in meta["counts"].values())) < FEWEST:
        first = meta["skipped"][0]
        raise ValueError(
            f"only {counted(read, 'piece')} of the {count} in {files} could be read; {enough}; "
            f"{first['name']}: {first['reason']}"
        )
    if not meta["counts"]["train"]["files"]:
        raise ValueError(f"all pieces of {files} begin alike and count as one work; add others")
    return meta


@dataclass(frozen=True, kw_only=True)
class Gain:
    """The mean loss of each held-out piece, in nats per token, before and after: (pieces,)."""

    before: np.ndarray
    after: np.ndarray
    tokens: np.ndarray

    @property
    def means(self) -> tuple[float, float]:
        """The means over all tokens."""
        return tuple(
            float(np.average(one, weights=self.tokens)) for one in (self.before, self.after)
        )  # type: ignore[return-value]


def learned(config: RunConfig) -> tuple[Performer, Card]:
    """Return the model of a run, with its changes as strong as in a style, and its card."""
    model, card = load(Path(config.run) / MODEL)
    with torch.no_grad():
        for name, part in model.named_parameters():
            if name.endswith(f".{UP}"):
                part.mul_(STRENGTH)
    return model, card


def gain_of(config: RunConfig) -> Gain:
    """Measure the loss on the held-out pieces of a run, of the model that it started from and of the style."""
    assert config.start is not None, "a style has a base"
    batches, devices, means = Batches(config.data, config.seed), Devices(config.device), []
    counts = np.zeros(0)
    for model, _ in (load(folder_of(config.start)), learned(config)):
        model.to(devices.device)
        validation = Validation(config, batches, model)
        with torch.no_grad():
            code = model.begin(generator_of(config.seed, VALIDATE))
            losses, told = validation.losses(devices, devices.module_of(model), code)
        counts = told.sum(1)
        means.append(losses.sum(1) / counts)
    return Gain(before=means[0], after=means[1], tokens=counts)


def write_style(learning: Learning, config: RunConfig, gain: Gain) -> dict[str, Any]:
    """Write the style of a finished run, and return what its card says of it."""
    assert config.start is not None, "a style has a base"
    base_config, base = read_card(folder_of(config.start))
    model, card = learned(config)
    own = [name for name, part in model.named_parameters() if part.requires_grad]
    model.config = base_config
    before, after = gain.means
    prepared = Prepared.open(learning.data)
    told = {
        "of": base.name,
        "files": len(prepared.pieces.names),
        "held_out": len(gain.before),
        "learned": date.today().isoformat(),
        "steps": card.training["steps"],
        "loss_before": round(before, 4),
        "loss_after": round(after, 4),
    }
    card = replace(
        card,
        name=learning.name,
        trained_length=base.trained_length,
        training={**card.training, "validation_loss": after, "style": told},
        base={"name": config.start, "sha256": base.sha256},
    )
    part = learning.work / "style"  # complete before it has its name
    shutil.rmtree(part, ignore_errors=True)
    told["bytes"] = save(part, model, card, only=own).bytes
    part.rename(learning.style)
    shutil.rmtree(learning.work)
    return told
