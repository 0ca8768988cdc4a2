"""What is read back is checked: a damaged state is refused in a sentence, and nothing is trained on or from it."""

import hashlib
import json
import os
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

from app.cli import main
from tests.training.makers import Heard, toy_config, toy_run
from tokenization.prepared import META_FILE, PIECES_FILE, TOKENS_FILE, Prepared
from training import run_folder
from training.data.prepare import _save
from training.initial_model import model_config


@pytest.fixture
def trained(pianos: Path, tmp_path: Path) -> Path:
    run = toy_run(toy_config(tmp_path, pianos, optimiser={"steps": 3}, validation={"every": 3}))
    run.fit(Heard())
    found = run_folder.newest(run.folder)
    assert found is not None
    return found


def restore(found: Path, pianos: Path, tmp_path: Path) -> None:
    again = toy_run(toy_config(tmp_path, pianos))
    run_folder.restore(found, again.model, again.raw_optimiser)


def flip(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 4
    path.write_bytes(data)


def change(path: Path, **values: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


DAMAGE = {
    "a bit of the averages": lambda found: flip(found / run_folder.OPTIMISER, -5),
    "no averages": lambda found: (found / run_folder.OPTIMISER).write_bytes(
        safetensors.torch.save({})
    ),
    "one average less": lambda found: _without_one(found / run_folder.OPTIMISER),
    "another step": lambda found: change(found / run_folder.STATE, step=2),
    "a digit": lambda found: change(found / run_folder.STATE, best_loss=0.5),
    "no mapping": lambda found: (found / run_folder.STATE).write_text("[]"),
    "odd sums": lambda found: change(found / run_folder.STATE, checksums=[1]),
    "nested": lambda found: (found / run_folder.STATE).write_text("[" * 200_000),
    "a bit of the weights": lambda found: flip(found / "model.safetensors", -5),
    "a pipe for averages": lambda found: _pipe(found / run_folder.OPTIMISER),
    "a pipe for a state": lambda found: _pipe(found / run_folder.STATE),
}


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _without_one(path: Path) -> None:
    averages = safetensors.torch.load(path.read_bytes())
    averages.popitem()
    path.write_bytes(safetensors.torch.save(averages))


@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_checkpoint_is_refused(how: str, trained: Path, pianos: Path, tmp_path: Path):
    restore(trained, pianos, tmp_path)
    DAMAGE[how](trained)
    with pytest.raises(ValueError, match=str(trained)):
        restore(trained, pianos, tmp_path)


@pytest.mark.parametrize("how", ["no averages", "one average less", "other shapes", "another step"])
def test_so_is_one_from_before_there_were_checksums(
    how: str, trained: Path, pianos: Path, tmp_path: Path
):
    state = json.loads((trained / run_folder.STATE).read_text())
    del state["checksums"]
    (trained / run_folder.STATE).write_text(json.dumps(state))
    restore(trained, pianos, tmp_path)
    if how == "other shapes":
        found = safetensors.torch.load((trained / run_folder.OPTIMISER).read_bytes())
        shapeless = {name: torch.zeros(1) for name in found}
        (trained / run_folder.OPTIMISER).write_bytes(safetensors.torch.save(shapeless))
    else:
        DAMAGE[how](trained)
    with pytest.raises(ValueError, match=str(trained)):
        restore(trained, pianos, tmp_path)


def test_a_damaged_checkpoint_names_the_one_before_it(pianos: Path, tmp_path: Path):
    changes = {"optimiser": {"steps": 4}, "validation": {"every": 4}, "save_every": 2}
    config = toy_config(tmp_path, pianos, **changes)
    run = toy_run(config)
    run.fit(Heard())
    older, newest = sorted((run.folder / run_folder.CHECKPOINTS).iterdir())
    weights = newest / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(ValueError, match="has 1000 bytes of the ") as found:
        toy_run(config).resume()
    assert str(found.value).endswith(
        f"stated in config.json; delete {newest} to go on from the checkpoint before it, {older}"
    )
    (newest / "config.json").write_text("{")
    with pytest.raises(ValueError, match=f"is not JSON .*; delete {newest} to go on from"):
        model_config(replace(config, start="gone"), run.batches.language)
    shutil.rmtree(newest)
    again = toy_run(config)
    assert again.resume()
    assert again.state.step == 2
    (older / "config.json").unlink()
    with pytest.raises(ValueError, match=f"no checkpoint lies before it: delete {older} to begin"):
        toy_run(config)


def columns_of(folder: Path) -> dict[str, np.ndarray]:
    with np.load(folder / PIECES_FILE) as columns:
        return {name: columns[name] for name in columns.files}


@pytest.mark.parametrize(
    ("column", "damage"),
    [
        ("start", lambda x: x + 10**9),
        ("start", lambda x: x[::-1]),
        ("start", lambda x: x[:-1]),
        ("start", lambda x: x.astype(float)),
        ("start", lambda x: x.astype(np.uint64)),
        ("length", lambda x: np.where(np.arange(len(x)) == 0, -x, x)),
        ("length", lambda x: x[:, None]),
        ("bar_start", lambda x: x + 1),
        ("bar_start", lambda x: x[::-1]),
        ("bars", lambda x: x + 10**6),
        ("bars", lambda x: x[:3]),
        ("file", lambda x: x + 99),
        ("file", lambda x: x - 99),
        ("split", lambda x: x + 7),
        ("split", lambda x: x.astype(np.int64) - 1),
        ("style", lambda x: x[:1]),
        ("style", lambda x: x + 99),
        ("style", lambda x: x - 99),
        ("names", lambda x: np.arange(len(x))),
        ("names", lambda x: x[:1]),
        ("notes", lambda x: x.reshape(1, -1)),
        ("notes", lambda x: np.zeros((2, 2), dtype=np.int64)),
        ("length", lambda x: np.array(7)),
    ],
)
def test_columns_that_lead_elsewhere_are_refused(
    column: str, damage, grooves: Path, tmp_path: Path
):
    folder = copied(grooves, tmp_path)
    columns = columns_of(folder)
    Prepared.open(folder)
    _save(folder / PIECES_FILE, {**columns, column: damage(columns[column])})
    with pytest.raises(ValueError, match=r"pieces\.npz does not belong to the tokens beside it"):
        Prepared.open(folder)


def copied(grooves: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "set"
    folder.mkdir()
    for path in grooves.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    return folder


@pytest.mark.parametrize(
    "meta",
    [
        {"tokens": "many"}, {"tokens": -4}, {"tokens": True}, {"language": []}, {"checksum": 7}, {"counts": {}},
        {"counts": {"train": 1, "validation": 1, "test": 1}}, {"language": {"language": "groove", "tokens": None}},
        {"source": None}, {"source": {"title": 1}}, {"styles": 3}, {"styles": {"a": 1}}, {"notes": "said"},
        {"losses": []}, {"losses": {"cut": "a"}}, {"remarks": [7]}, {"remarks": {}}, {"skipped": [{"name": "a"}]},
        {"skipped": None}, {"losses": {"cut": -1}}, {"vocabulary": None}, {"vocabulary": []},
        {"vocabulary": [{"name": "a"}]},
        {"vocabulary": [{"name": "all", "start": 0, "stop": 10**12, "tokens": []}]},
    ],
)  # fmt: skip
def test_an_odd_description_is_refused(meta: dict, grooves: Path, tmp_path: Path):
    folder = copied(grooves, tmp_path)
    change(folder / META_FILE, **meta)
    with pytest.raises(ValueError, match=r"meta\.json is not the description|needs"):
        Prepared.open(folder)


def test_a_set_of_another_language_than_it_says_is_not_trained_on(
    grooves: Path, tmp_path: Path, capsys
):
    folder = copied(grooves, tmp_path)
    language = json.loads((folder / META_FILE).read_text())["language"]
    change(folder / META_FILE, language={**language, "language": "remi"})
    run = tmp_path / "run"
    words = ["train", "groove-sine-spe", "--set", f"data.folder={folder}", "--set", f"run={run}"]
    assert main(words) == 2
    assert "this remi differs from the one at hand" in capsys.readouterr().err
    assert not run.exists()


def test_columns_that_are_a_pipe_are_not_waited_for(grooves: Path, tmp_path: Path):
    path = copied(grooves, tmp_path) / PIECES_FILE
    _pipe(path)
    with pytest.raises(ValueError, match=r"pieces\.npz is missing or damaged"):
        Prepared.open(path.parent)


def test_columns_that_unpack_to_more_than_any_set_are_not_unpacked(grooves: Path, tmp_path: Path):
    path = copied(grooves, tmp_path) / PIECES_FILE
    with (
        zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive,
        archive.open("more.npy", "w", force_zip64=True) as file,
    ):
        for _ in range(320):
            file.write(bytes(1 << 20))
    assert path.stat().st_size < 1 << 19
    with pytest.raises(ValueError, match=r"pieces\.npz is missing or damaged"):
        Prepared.open(path.parent)


def test_tokens_that_are_damaged_or_unknown_are_not_trained_on(
    grooves: Path, tmp_path: Path, capsys
):
    folder = copied(grooves, tmp_path)
    words = [
        "train",
        "groove-sine-spe",
        "--set",
        f"data.folder={folder}",
        "--set",
        f"run={tmp_path / 'run'}",
    ]
    flip(folder / TOKENS_FILE, 100)
    assert main(words) == 2
    assert "tokens.bin is damaged" in capsys.readouterr().err
    tokens = np.fromfile(folder / TOKENS_FILE, dtype="<u2")
    tokens[50] = 60_000
    tokens.tofile(folder / TOKENS_FILE)
    change(folder / META_FILE, checksum=hashlib.sha256(tokens.tobytes()).hexdigest())
    assert main(words) == 2
    assert "has a token 60000" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
