"""Pack a round: one folder with code, data, configuration, and the weights that a run stands at."""

from __future__ import annotations

import json
import shutil
import tarfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from musicgen.storage import checkpoint
from training import run_folder
from training.config import RunConfig
from training.data.batches import Batches
from training.initial_model import model_config
from training.round.parts import write_parts
from training.run_folder import plain

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
    (folder / ROUND).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
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
