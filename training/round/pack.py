"""Pack a round and unpack what it gave.

Packed are code, data, configuration, and the weights that a run stands at, in one folder. What comes back is unpacked:
a run that goes on from its held rate, and its model, as if it had been trained here.
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
    """Write a model's weights as NAME.safetensors.1, 2, …; return the text that describes the model."""
    with tempfile.TemporaryDirectory() as place:
        checkpoint.save(place, model, card, dtype)
        text = (Path(place) / checkpoint.CONFIG).read_text(encoding="utf-8")
        data = (Path(place) / checkpoint.WEIGHTS).read_bytes()
    pieces = [data[start : start + size] for start in range(0, len(data), size)]
    for number, piece in enumerate(pieces, 1):
        write_whole(folder / f"{name}.safetensors.{number}", piece)
    for part in _parts(folder, name)[len(pieces) :]:  # of something larger that stood here
        part.unlink()
    return text


def join_parts(folder: Path, name: str, text: str, model: Path) -> None:
    """Put a model's folder together from its parts and the text that describes it; damage raises ValueError."""
    shutil.rmtree(model, ignore_errors=True)
    model.mkdir(parents=True)
    (model / checkpoint.CONFIG).write_text(text, encoding="utf-8")
    weights = b"".join(part.read_bytes() for part in _parts(folder, name))
    (model / checkpoint.WEIGHTS).write_bytes(weights)
    checkpoint.load(model)


def write_checkpoint(run: Path, model: Path, state: run_folder.RunState) -> None:
    """Write a checkpoint of a run from a model and what is known of the run, without averages."""
    state.began, state.window = state.step, ()
    run_folder.save(run, *checkpoint.load(model), {}, state)


def rescale(state: run_folder.RunState, batch: int, other: int) -> None:
    """Let a run go on with another size of batches where it stands in the music."""
    batches = state.step if state.batches is None else state.batches
    state.batches, state.window = -(-batches * batch // other), ()


def _parts(folder: Path, name: str) -> list[Path]:
    """Return the parts of a model's weights, in order."""
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
    """Put what a round gave into the folder of a run; return what is known of it."""
    content = json.loads((folder / ROUND).read_text(encoding="utf-8"))
    config = replace(from_plain(RunConfig, content["config"], str(folder / ROUND)), run=str(run))
    held = "hold" if content.get("hold") else "model"
    state = from_plain(run_folder.RunState, content["state"], "state")
    before = run_folder.newest(run)
    if before is not None and int(before.name) >= state.step:
        raise ValueError(f"{run} stands at step {int(before.name)}, past {state.step} of the round")
    if before is None and run.is_dir() and any(run.iterdir()):
        raise ValueError(f"{run} holds something that is no run; name another folder")
    rescale(state, content["batch"], config.data.batch)
    with tempfile.TemporaryDirectory() as place:
        join_parts(folder, held, content[held], Path(place) / "held")
        write_checkpoint(run, Path(place) / "held", state)
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
    """Pack a run, from where it stands if it has been trained; return the bytes of the folder."""
    if config.start is not None and run_folder.newest(Path(config.run)) is None:
        raise ValueError(
            "a round goes on with a run or begins one; train a step of this one here, which begins with a model"
        )
    if config.optimiser.schedule != "hold":
        raise ValueError(
            "a round holds its rate and ends with a tail; add --set optimiser.schedule=hold"
        )
    batches = Batches(config.data, config.seed)
    batches.shards.verify()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    _copy_code(folder / "code")
    for number, one in enumerate(config.data.folders):
        with tarfile.open(folder / f"data-{number}.tar.xz", "w:xz") as archive:
            archive.add(Path(one).resolve(), ".", filter=_without_owner)
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
    """Return a member as nobody's; locks and hidden files stay here."""
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    name = Path(info.name).name
    return None if name.startswith(".") and info.name != "." else info


def _copy_code(to: Path) -> None:
    """Copy the packages that training needs, without the models that ship."""
    root = Path(__file__).resolve().parents[2]
    left = shutil.ignore_patterns("__pycache__", "*.pyc", "pretrained", "configs", "*.md")
    for package in PACKAGES:
        shutil.copytree(root / package, to / package, ignore=left)
