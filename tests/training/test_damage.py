"""Damaged checkpoints and prepared sets are refused with a clear message."""

import hashlib
import json
import os
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

from app.cli import main
from tests.training.makers import toy_config, toy_run
from tokenization.prepared import META_FILE, PIECES_FILE, TOKENS_FILE, Prepared
from training import run_folder
from training.data.writer import _save
from training.run_folder import OPTIMISER, STATE

WEIGHTS = "model.safetensors"


def flip(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 4
    path.write_bytes(data)


def change(path: Path, **values: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.fixture(scope="module")
def learner(pianos: Path, tmp_path_factory: pytest.TempPathFactory):
    return toy_run(toy_config(tmp_path_factory.mktemp("learner"), pianos))


def with_averages(found: Path, altered) -> None:
    averages = altered(safetensors.torch.load((found / OPTIMISER).read_bytes()))
    (found / OPTIMISER).write_bytes(safetensors.torch.save(averages))


DAMAGE = {
    "no averages": lambda found: with_averages(found, lambda averages: {}),
    "an average less": lambda found: with_averages(found, lambda x: dict([*x.items()][1:])),
    "other shapes": lambda found: with_averages(found, lambda x: {k: torch.zeros(1) for k in x}),
    "a bit of the averages": lambda found: flip(found / OPTIMISER, -5),
    "a bit of the weights": lambda found: flip(found / WEIGHTS, -5),
    "odd sums": lambda found: change(found / STATE, checksums=[1]),
    "no mapping": lambda found: (found / STATE).write_text("[]"),
    "nested": lambda found: (found / STATE).write_text("[" * 200_000),
    "no tensors": lambda found: (found / OPTIMISER).write_bytes(b"x" * 9),
    "a pipe for averages": lambda found: pipe(found / OPTIMISER),
    "a pipe for a state": lambda found: pipe(found / STATE),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_checkpoint_is_refused(damage: str, trained: Path, tmp_path: Path, learner):
    newest = run_folder.newest(trained)
    saved = shutil.copytree(newest, tmp_path / "run" / run_folder.CHECKPOINTS / newest.name)
    run_folder.restore(saved, learner.model, learner.optimiser)
    DAMAGE[damage](saved)
    with pytest.raises((ValueError, OSError), match=str(saved)):
        run_folder.restore(saved, learner.model, learner.optimiser)


@pytest.fixture
def copied(grooves: Path, tmp_path: Path) -> Path:
    return shutil.copytree(grooves, tmp_path / "set")


@pytest.mark.parametrize(
    ("column", "damage"),
    [
        ("start", lambda x: x[::-1]),
        ("start", lambda x: x[:-1]),
        ("start", lambda x: x.astype(np.uint64)),
        ("length", lambda x: np.where(np.arange(len(x)) == 0, -x, x)),
        ("length", lambda x: x[:, None]),
        ("bar_start", lambda x: x + 1),
        ("bar_start", lambda x: x[::-1]),
        ("bars", lambda x: x + 10**6),
        ("file", lambda x: x + 99),
        ("split", lambda x: x.astype(np.int64) - 1),
        ("style", lambda x: x + 99),
        ("style", lambda x: x - 99),
        ("names", lambda x: np.arange(len(x))),
    ],
)
def test_inconsistent_columns_are_refused(column: str, damage, copied: Path):
    with np.load(copied / PIECES_FILE) as stored:
        columns = dict(stored)
    _save(copied / PIECES_FILE, {**columns, column: damage(columns[column])})
    with pytest.raises(ValueError, match=r"pieces\.npz does not match the tokens of the set"):
        Prepared.open(copied)


@pytest.mark.parametrize(
    "meta",
    [
        {"tokens": "many"},
        {"source": None},
        {"losses": {"cut": -1}},
        {"remarks": [7]},
        {"counts": {"train": 1, "validation": 1, "test": 1}},
        {"language": {"language": "groove", "tokens": None}},
    ],
)
def test_malformed_description_is_refused(meta: dict, copied: Path):
    change(copied / META_FILE, **meta)
    with pytest.raises(ValueError, match=r"meta\.json is not the description|needs"):
        Prepared.open(copied)


def test_any_damaged_byte_of_the_columns_is_refused_or_harmless(copied: Path):
    path = copied / PIECES_FILE
    whole, refused = path.read_bytes(), 0
    for place in range(0, len(whole), max(1, len(whole) // 300)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        try:
            Prepared.open(copied)
        except ValueError as error:
            refused += "pieces.npz" in str(error)
    assert refused > 100


def test_columns_from_a_pipe_or_a_zip_bomb_are_not_read(copied: Path):
    path = copied / PIECES_FILE
    with (
        zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive,
        archive.open("more.npy", "w", force_zip64=True) as file,
    ):
        for _ in range(320):
            file.write(bytes(1 << 20))
    assert path.stat().st_size < 1 << 19
    with pytest.raises(ValueError, match=r"pieces\.npz is missing or damaged"):
        Prepared.open(copied)
    pipe(path)
    with pytest.raises(ValueError, match=r"pieces\.npz is missing or damaged"):
        Prepared.open(copied)


def test_sets_with_a_changed_language_or_damaged_tokens_are_refused(copied: Path, capsys):
    run = copied.with_name("run")
    words = ["train", "groove-sine-spe", "--set", f"data.folder={copied}", "--set", f"run={run}"]

    def message() -> str:
        assert main(words) == 2
        return capsys.readouterr().err

    language = json.loads((copied / META_FILE).read_text())["language"]
    change(copied / META_FILE, language={**language, "language": "remi"})
    assert "the language remi differs from that of this program" in message()
    change(copied / META_FILE, language=language)
    flip(copied / TOKENS_FILE, 100)
    assert "tokens.bin is damaged" in message()
    tokens = np.fromfile(copied / TOKENS_FILE, dtype="<u2")
    tokens[50] = 60_000
    tokens.tofile(copied / TOKENS_FILE)
    change(copied / META_FILE, checksum=hashlib.sha256(tokens.tobytes()).hexdigest())
    assert "contains token 60000" in message()
    assert not run.exists()
