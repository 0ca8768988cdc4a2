import hashlib
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch

from app.commands import train
from app.web.offered_models import OfferedModels
from musicgen import checkpoint, weights
from musicgen.checkpoint import (
    CONFIG,
    SCALE,
    WEIGHTS,
    dequantised,
    folder_of,
    read_card,
    tensors_of,
    tensors_of_model,
)
from musicgen.common.learning import generator_of
from musicgen.performer import Performer
from musicgen.playable import find
from tests.app.commands.test_train import ROOT
from tests.evaluation.toys import write_model, write_style
from tests.training.data.sources.on_disk import midi_folder, piano, put
from tests.training.makers import contents, fitted
from training import rehearsal, style
from training.config import read

QUICK = [
    *("data.length=64", "data.batch=2", "log_every=2", "save_every=2"),
    *("optimiser.steps=4", "optimiser.warmup=1", "optimiser.learning_rate=0.05"),
    *("validation.every=2", "validation.length=64", "validation.sequences=3"),
    *("rehearsal.takes=2", "rehearsal.bars=1", "rehearsal.length=32"),
]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own for each test, and a training of four short steps."""
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    monkeypatch.setattr(style, "read", lambda path: read(path, QUICK))
    return tmp_path / "home"


@pytest.fixture
def base(tmp_path: Path) -> str:
    return write_model(tmp_path / "base", "ensemble", "sine_spe")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    return midi_folder(tmp_path / "files", 6)


@pytest.fixture
def mine(base: str, home: Path) -> Path:
    return write_style("mine", base)


@pytest.mark.parametrize("damage", ["", "[]", '{"format": 9}', "language"])
def test_a_damaged_style_is_left_out_in_a_sentence(damage, mine: Path, base, command):
    write_style("whole", base)
    path = mine / "config.json"
    path.write_text(
        path.read_text().replace('"ensemble"', '"klingon"') if damage == "language" else damage
    )
    out, err = command("models")
    assert ("whole" in out, "mine" in out) == (True, False)
    assert [line.split(":")[0] for line in err.splitlines()] == ["The style 'mine' is left out"]
    offered = OfferedModels(base)
    assert {base, "whole"} <= offered.languages.keys()
    assert "mine" not in offered.languages
    assert [said.split(":")[0] for said in offered.left_out] == ["The style 'mine' is left out"]


def test_a_style_is_learned_named_played_and_removed(files, base, command, home: Path):
    (files / "broken.mid").write_bytes(b"MThd")
    out, err = command("learn", files, "--name", "mine", "--start", base, "--json")
    told = json.loads(out)
    assert (told["files"], told["held_out"]) == (6, 1)
    assert "Skipped broken.mid: " in err
    assert "step 4 of 4: loss " in err
    assert told["interval"] is None  # of one piece
    assert told["copied"].keys() == {"passages", "alike", "closest"}
    assert [path.name for path in (home / ".musicgen" / "styles").iterdir()] == ["mine"]
    row = next(row for row in json.loads(command("models", "--json").out) if row["name"] == "mine")
    assert row["style"]["learned"] == told["learned"]
    assert "a style of base, learned from 6 files" in " ".join(command("models").out.split())
    command("generate", "--model", "mine", "--bars", "1", "-o", home / "out")
    assert [*(home / "out").rglob("*.mid")]
    assert command("learn", "--remove", "mine").out == "mine is removed.\n"
    with pytest.raises(FileNotFoundError, match="there is no model 'mine'"):
        folder_of("mine")


def test_a_style_that_is_interrupted_resumes_bit_for_bit(
    files, base, command, home: Path, monkeypatch
):
    command("learn", files, "--name", "whole", "--start", base)
    stepped = train.TrainingProgress.stepped

    def interrupt(self: train.TrainingProgress, step: int, steps: int) -> None:
        stepped(self, step, steps)
        if step == 3:
            os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patched:
        patched.setattr(train.TrainingProgress, "stepped", interrupt)
        err = command("learn", files, "--name", "cut", "--start", base, code=130).err
    assert "Saved at step 3 of 4; continue with the same command." in err
    assert not (home / ".musicgen" / "styles" / "cut").exists()
    assert (
        "Resuming from step 3 of 4."
        in command("learn", files, "--name", "cut", "--start", base).err
    )
    whole, cut = (contents(folder_of(name)) for name in ("whole", "cut"))
    assert whole[WEIGHTS] == cut[WEIGHTS]
    assert json.loads(whole[CONFIG])["card"]["name"] == "whole"


def test_takes_that_are_interrupted_are_kept(files, base, command, home: Path, monkeypatch):
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    ask = ("learn", files, "--name", "mine", "--start", base)
    with monkeypatch.context() as patched:
        patched.setattr(rehearsal, "_parts", interrupt)  # of the second take
        err = command(*ask, code=130).err
    assert "Saved 1 of 2 takes; continue with the same command." in err
    assert len(rehearsal.kept(home / ".musicgen" / "styles" / ".mine" / "run")) == 1
    assert "Starting from step 0 of 4." in command(*ask).err


def test_other_files_than_those_that_a_style_began_with_are_refused(files, base, command, refused):
    learning = style.Learning("mine")
    meta = style.prepare_files(files, learning, base, lambda done, total: None)
    fitted(learning.config(base, 1))
    assert meta["counts"]["train"]["files"] == 5
    put(files / "more.mid", piano(99))
    said = refused("learn", files, "--name", "mine", "--start", base)
    assert "was trained on other data" in said
    assert command("learn", "--remove", "mine").out == "mine is removed.\n"
    assert not learning.work.exists()


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_a_style_is_its_base_with_changes_of_low_rank(
    dtype: str, base: str, home: Path, tmp_path: Path
):
    """The kernel and torch take the same weights, those that the training computed with."""
    trained, card = weights.load(base)
    whole = tmp_path / "whole"
    weights.save(whole, trained, replace(card, name="whole"), dtype)
    trained = weights.load(whole)[0]  # in 8 bits
    folder = write_style("mine", whole)
    config, own = read_card(folder)
    path, tensors = tensors_of_model(folder, config, own)
    style, changes = weights.load(folder)[0], tensors_of(path)
    learned = Performer(replace(config, rank=2)).eval()
    parts = {name: torch.from_numpy(one) for name, one in changes.items()}
    learned.load_state_dict({**trained.state_dict(), **parts})
    ids = torch.arange(24)[None]
    expected, found, before = (
        model(ids, model.begin(generator_of(1))) for model in (learned, style, trained)
    )
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert (found - before).abs().max() > 1e-2
    for name, tensor in style.state_dict().items():
        scale = tensors.get(name + SCALE)
        played = tensors[name] if scale is None else dequantised(tensors[name], scale)
        assert np.array_equal(played, tensor.numpy()), name
    changed = {f"{name.rpartition('.')[0]}.weight" for name in changes}
    assert len(changes) == 2 * len(changed) == 8
    for name, tensor in trained.state_dict().items():
        assert torch.equal(tensor, style.state_dict()[name]) == (name not in changed), name
    assert own.bytes == path.stat().st_size


def test_a_style_has_part_of_the_changes_that_were_learned(files, base, home: Path):
    learning = style.Learning("mine")
    style.prepare_files(files, learning, base, lambda done, total: None)
    config = learning.config(base, 1)
    fitted(config)
    run = weights.load(Path(config.run) / "model")[0].state_dict()
    gain = style.gain_of(config)
    style.write_style(learning, config, gain)
    own = tensors_of(folder_of("mine") / WEIGHTS)
    for name, part in own.items():
        factor = np.float32(style.STRENGTH if name.endswith(".up") else 1)
        assert np.array_equal(part, run[name].numpy() * factor), name
    assert sum(np.abs(part).sum() for name, part in own.items() if name.endswith(".up")) > 0
    assert (gain.after != gain.before).all()


def test_a_style_plays_without_torch(mine: Path):
    program = (
        "import sys, musicgen; musicgen.load('mine').continue_(bars=1, seed=3)\n"
        "assert not {'torch', 'numba'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)


def test_what_cannot_become_a_style_is_refused(files, base, refused, tmp_path: Path):
    few, many = midi_folder(tmp_path / "few", 2), tmp_path / "many"
    for number in range(style.MOST + 1):
        put(many / f"{number}.mid", piano(number, bars=1))
    command = ("learn", "--start", base, "--name")
    assert "has 2 pieces of music; a style is learned from 5 to 200" in refused(*command, "x", few)
    assert "has 201 pieces, too many for a style" in refused(*command, "x", many)
    assert "ensemble is a model of the package" in refused(*command, "ensemble", files)
    for name in ("a/b", "..", "", " x", "-x", "x\n"):
        assert "a style cannot be called" in refused(*command[:-1], f"--name={name}", files)
    assert "there is no style '../..'" in refused("learn", "--remove", "../..")
    assert "there is no style 'x'" in refused("learn", "--remove", "x")
    assert "name the folder with your files" in refused("learn", "--name", "x")
    assert "neither a model of the package" in refused("learn", files, "--name=x", "--start=none")
    for song in [*files.rglob("song*")][:3]:
        song.write_bytes(b"no music")
    assert "only 3 pieces of the 6 in" in refused(*command, "x", files)
    same = tmp_path / "same"
    for number in range(5):
        put(same / f"{number}.mid", piano(7, bars=4 + number))
    assert "count as one work" in refused(*command, "x", same)
    assert not style.Learning("x").style.exists()


def test_a_taken_name_and_a_style_as_a_start_are_refused(files, mine, refused):
    assert "there is already a style mine" in refused("learn", files, "--name", "mine")
    said = refused("learn", files, "--name", "more", "--start", "mine")
    assert "mine is a style; start from the model that it was learned from" in said


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"base": {"name": "base", "sha256": "0"}},
            "learned from the model 'base' with the SHA-256 '0'",
        ),
        ({"base": {}}, "lacks tensor|a SHA|states"),
        ({"bytes": checkpoint.MOST_STYLE_BYTES + 1}, "at most 2,097,152"),
        ({"sha256": "0"}, "is damaged: its SHA-256"),
    ],
)
def test_a_style_whose_card_lies_is_refused(
    change: dict, message: str, mine: Path, tmp_path: Path, monkeypatch
):
    monkeypatch.chdir(tmp_path)  # where the base is
    path = mine / CONFIG
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "card": {**content["card"], **change}}))
    if "bytes" in change:  # no byte of the weights is read
        monkeypatch.setattr(Path, "read_bytes", lambda path: pytest.fail(f"{path} is read"))
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        find("mine").network  # noqa: B018


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"up": torch.ones(17, 2)}, r"in shape \(17, 2\), but config.json says \(16, 2\)"),
        ({"down": torch.ones(2, 17)}, r"in shape \(2, 17\)"),
        ({"down": torch.tensor(1.0)}, r"in shape \(\)"),
        ({"down": torch.full((2, 24), torch.nan)}, "not finite"),
        ({"down": torch.full((2, 24), 3e38), "up": torch.full((16, 2), 3e38)}, "not finite"),
        ({"down": None}, r"lacks, or has a superfluous tensor 'blocks.0.feedforward.output.up'"),
        ({"weight": torch.ones(16, 24)}, "has a superfluous tensor .*output.weight'"),
        ({"more.up": torch.ones(16, 2)}, r"superfluous tensor .*output.more.up'"),
    ],
)
def test_a_style_with_strange_weights_is_refused(change: dict, message: str, mine: Path):
    layer = "blocks.0.feedforward.output"
    tensors = safetensors.torch.load((mine / WEIGHTS).read_bytes())
    tensors |= {f"{layer}.{name}": tensor for name, tensor in change.items()}
    data = safetensors.torch.save({name: one for name, one in tensors.items() if one is not None})
    (mine / WEIGHTS).write_bytes(data)
    content = json.loads((mine / CONFIG).read_text())
    content["card"] |= {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    (mine / CONFIG).write_text(json.dumps(content))
    with pytest.raises(ValueError, match=message):
        find("mine").network  # noqa: B018
