"""Small prepared sets and short runs for the tests of training."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from tests.training.data.sources.on_disk import band, piano
from tokenization.language import language
from tokenization.score import Score
from training.config import RunConfig, read
from training.data.batches import Batches
from training.data.writer import PreparedWriter
from training.devices import Devices
from training.loop import Progress, Run

TOY = {
    "data": {"length": 32, "batch": 4, "transpose": 2},
    "model": {
        **{"preset": "tiny", "layers": 1, "width": 16, "heads": 2, "feedforward": 24, "chunk": 8},
        "features": {"name": "favor", "features": 8},
        "position": {"name": "sine_spe", "realisations": 4, "sines": 2},
    },
    "optimiser": {"learning_rate": 1e-2, "warmup": 2, "steps": 20, "redraw": 0.3},
    "validation": {"every": 5, "sequences": 3, "batch": 2},
    "device": {"accelerator": "cpu"},
    "log_every": 4,
    "save_every": 5,
}


def prepared_set(folder: Path, name: str, *, train=8, held_out=2, tested=0, first=0, bars=None):
    """Write a prepared set in a language, with toy pieces numbered from `first`."""
    target = language(name)
    splits = ["train"] * train + ["validation"] * held_out + ["test"] * tested
    with PreparedWriter(folder, replace=False) as writer:
        for number, split in enumerate(splits):
            scores = _scores(name, first + number, bars)
            rows = [target.encode(target.arrange(score)) for score in scores]
            writer.add(f"piece{number}", rows, split=split)
        source = {"name": "test", "title": "test pieces", "licence": "MIT"}
        vocabulary = target.vocabulary.to_json()
        writer.commit({"language": target.spec(), "vocabulary": vocabulary, "source": source})
    return folder


def _scores(name: str, number: int, bars: int | None) -> list[Score]:
    if language(name).name == "remi":
        return [piano(number, bars=bars or 6)]
    bands = (("Bass", "Drums", other) for other in ("Piano", "Guitar"))
    return [band(number, names=names, bars=bars or 4) for names in bands]


def toy_file(folder: Path, data: Path, /, **changes: Any) -> Path:
    """Write the toy configuration with changes; mappings are merged."""
    values: dict[str, Any] = {**TOY, "run": str(folder / "run")}
    values["data"] = {**TOY["data"], "folder": str(data)}
    for key, value in changes.items():
        values[key] = {**values.get(key, {}), **value} if isinstance(value, dict) else value
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "toy.yaml"
    path.write_text(yaml.safe_dump(values))
    return path


def toy_config(folder: Path, data: Path, /, **changes: Any) -> RunConfig:
    return read(toy_file(folder, data, **changes))


class RecordingListener:
    """A listener that records its calls, and calls a function after a step."""

    def __init__(self, after: int | None = None, function: Callable[[], object] = list) -> None:
        self.after, self.function = after, function
        self.steps: list[int] = []
        self.progresses: list[Progress] = []

    def stepped(self, step: int, steps: int) -> None:
        self.steps.append(step)
        if step == self.after:
            self.function()

    def progress(self, progress: Progress) -> None:
        self.progresses.append(progress)


def toy_run(config: RunConfig, seconds: float | None = None) -> Run:
    return Run(config, Devices(config.device), Batches(config.data, config.seed), seconds)


def fitted(config: RunConfig) -> Run:
    run = toy_run(config)
    run.fit(RecordingListener())
    return run


def contents(folder: Path) -> dict[str, bytes]:
    """Return the contents of all files below a folder by relative path."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def outcome(run: Path) -> dict[str, Any]:
    """Return the contents of all files of a run by name, without what depends on the clock."""
    files: dict[str, Any] = {}
    for name, data in contents(run).items():
        if name.endswith("state.json"):
            files[name] = {k: v for k, v in json.loads(data).items() if k != "seconds"}
        elif name.endswith("train.csv"):
            files[name] = [line.split(",")[:4] for line in data.decode().splitlines()]
        elif name.endswith("config.json"):
            files[name] = json.loads(data)
            files[name]["card"].pop("name")  # that of the run's folder
        elif "tensorboard" not in name and name != "config.yaml":
            files[name] = data
    return files


def on_disk(name: str) -> str:
    """Return Python's name here for a file with this name in UTF-8: the name, or its escaped bytes."""
    return os.fsdecode(name.encode("utf-8", "surrogateescape"))
