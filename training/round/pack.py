"""Pack a round of training, and unpack its results.

A packed round is a folder with the code, the data, the configuration and the current weights of a run. Unpacking the
results gives a run that can be resumed at its held rate, and its model, as if it had been trained here.
"""

from __future__ import annotations

import json
import shutil
import tarfile
import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from musicgen import checkpoint
from musicgen.performer import Performer
from tokenization.records import from_plain
from tokenization.whole_file import write_json, write_whole
from training import run_folder
from training.config import RunConfig
from training.data.batches import Batches
from training.initial_model import model_config
from training.loop import MODEL
from training.run_folder import plain, write_config


def write_parts(folder: Path, name: str, model: Performer, card: Any, dtype: str, size: int) -> str:
    """Write a model's weights in parts, NAME.safetensors.1, 2, …; return the text of its config.json."""
    with tempfile.TemporaryDirectory() as temporary:
        checkpoint.save(temporary, model, card, dtype)
        text = (Path(temporary) / checkpoint.CONFIG).read_text(encoding="utf-8")
        data = (Path(temporary) / checkpoint.WEIGHTS).read_bytes()
    parts = [data[start : start + size] for start in range(0, len(data), size)]
    for number, part in enumerate(parts, 1):
        write_whole(folder / f"{name}.safetensors.{number}", part)
    for path in _part_paths(folder, name)[len(parts) :]:  # of an earlier, larger model
        path.unlink()
    return text


def join_parts(folder: Path, name: str, text: str, model: Path) -> None:
    """Assemble a model's folder from the parts of its weights and its config.json; raises ValueError on damage."""
    shutil.rmtree(model, ignore_errors=True)
    model.mkdir(parents=True)
    (model / checkpoint.CONFIG).write_text(text, encoding="utf-8")
    weights = b"".join(path.read_bytes() for path in _part_paths(folder, name))
    (model / checkpoint.WEIGHTS).write_bytes(weights)
    checkpoint.load(model)


def write_checkpoint(run: Path, model: Path, state: run_folder.RunState) -> None:
    """Write a checkpoint from a model and the state of its run, without optimiser averages."""
    state.began, state.window = state.step, ()
    run_folder.save(run, *checkpoint.load(model), {}, state)


def rescale(state: run_folder.RunState, batch: int, other: int) -> None:
    """Convert the number of batches of a run from size `batch` to size `other`, to continue in the same data."""
    batches = state.step if state.batches is None else state.batches
    state.batches, state.window = -(-batches * batch // other), ()


def _part_paths(folder: Path, name: str) -> list[Path]:
    """Return the files of a model's weights in order."""
    return sorted(folder.glob(f"{name}.safetensors.*"), key=lambda part: int(part.suffix[1:]))


ROUND, START = "round.json", "start"
PACKAGES = ("tokenization", "musicgen", "training")
LAUNCHER = '''"""Run this round: python3 run.py --seconds 480 --out OUT (docs/gpu-round.md)."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "code"))

if __name__ == "__main__":
    from training.round.__main__ import main

    sys.exit(main(["run", str(HERE), *sys.argv[1:]]))
'''


def unpack(folder: Path, run: Path) -> dict[str, Any]:
    """Unpack the results of a round into the folder of a run; return a summary."""
    content = json.loads((folder / ROUND).read_text(encoding="utf-8"))
    config = replace(from_plain(RunConfig, content["config"], str(folder / ROUND)), run=str(run))
    held = "hold" if content.get("hold") else "model"
    state = from_plain(run_folder.RunState, content["state"], "state")
    before = run_folder.newest(run)
    if before is not None and int(before.name) >= state.step:
        raise ValueError(
            f"{run} is already at step {int(before.name)}; the round ended at step {state.step}"
        )
    if before is None and run.is_dir() and any(run.iterdir()):
        raise ValueError(f"{run} is not empty and holds no run; choose another folder")
    rescale(state, content["batch"], config.data.batch)
    with tempfile.TemporaryDirectory() as temporary:
        join_parts(folder, held, content[held], Path(temporary) / "held")
        write_checkpoint(run, Path(temporary) / "held", state)
    join_parts(folder, "model", content["model"], run / MODEL)
    write_config(config)
    for name, text in content["tables"].items():
        (run / name).write_text(text, encoding="utf-8")
    card = checkpoint.read_card(run / MODEL)[1]
    known = ("device", "batch", "tokens_per_second", "tokens", "seconds", "ending")
    return {
        **{key: content[key] for key in known},
        "held": state.step,
        "step": card.training["steps"],
        "validation_loss": card.training["validation_loss"],
    }


def pack(config: RunConfig, folder: Path, part_bytes: int, weights: str = "bfloat16") -> int:
    """Pack a run, with its newest checkpoint if it has one; return the size of the folder in bytes."""
    if config.start is not None and run_folder.newest(Path(config.run)) is None:
        raise ValueError(
            "a round cannot start from a trained model; train this run for one step first, then pack its folder"
        )
    if config.optimiser.schedule != "hold":
        raise ValueError("a round is a timed run: add --set optimiser.schedule=hold")
    batches = Batches(config.data, config.seed)
    batches.shards.verify()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    _copy_code(folder / "code")
    for number, data in enumerate(config.data.folders):
        with tarfile.open(folder / f"data-{number}.tar.xz", "w:xz") as archive:
            archive.add(Path(data).resolve(), ".", filter=_without_owner)
    content: dict[str, Any] = {
        "config": plain(config),
        "model": model_config(config, batches.language).plain(),
        "data": len(config.data.folders),
    }
    found = run_folder.newest(Path(config.run))
    if found is not None:
        model, card = checkpoint.load(found)
        content["start"] = write_parts(folder, START, model, card, weights, part_bytes)
        content["state"] = asdict(run_folder.read_state(found))
    write_json(folder / ROUND, content)
    (folder / "run.py").write_text(LAUNCHER, encoding="utf-8")
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _without_owner(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Remove the owner from a member; leave out locks and hidden files."""
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    name = Path(info.name).name
    return None if name.startswith(".") and info.name != "." else info


def _copy_code(to: Path) -> None:
    """Copy the packages that training needs, without the shipped models."""
    root = Path(__file__).resolve().parents[2]
    ignored = shutil.ignore_patterns("__pycache__", "*.pyc", "pretrained", "configs", "*.md")
    for package in PACKAGES:
        shutil.copytree(root / package, to / package, ignore=ignored)
