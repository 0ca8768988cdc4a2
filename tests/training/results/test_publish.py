"""Models are published from runs, with a README of facts."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from musicgen import checkpoint
from tests.training.makers import fitted, prepared_set, toy_config
from training.config import read
from training.publish import Stored, _copy_attachments, choose, publish
from training.run_folder import write_config
from training.validation import Measured


def stored(dtype: str, size: int, inside: float, beyond: float | None = None) -> Stored:
    measured = Measured(inside=inside, beyond=beyond, sequences=1, rows=[])
    return Stored(dtype=dtype, bytes=size, measured=measured)


def test_smallest_weights_of_nearly_equal_loss_are_chosen():
    whole, half = stored("float32", 4, 2.0, 3.0), stored("bfloat16", 2, 2.001, 3.001)
    assert choose([whole, half, stored("int8", 1, 2.009, 3.009)]).dtype == "int8"
    assert choose([whole, half, stored("int8", 1, 2.011, 3.0)]).dtype == "bfloat16"
    assert choose([whole, half, stored("int8", 1, 2.0, 3.02)]).dtype == "bfloat16"
    assert choose([whole, stored("bfloat16", 2, 2.1, 3.0)]).dtype == "float32"


def test_run_is_published_with_a_readme_of_facts(pianos: Path, tmp_path: Path):
    metre = {"bars": [1, 2], "remembers": [2, 4], "features": 2}
    changes = {"model": {"metre": metre}, "optimiser": {"steps": 10}, "keep": 9}
    run = fitted(toy_config(tmp_path, pianos, **changes)).folder
    write_config(toy_config(tmp_path, pianos, **changes))
    best = checkpoint.read_card(run / "model")[1].training
    for saved in (run / "checkpoints").iterdir():
        if int(saved.name) >= best["steps"] > 5:  # as if killed before it was saved
            shutil.rmtree(saved)
    (run / "curves.png").touch()
    target = tmp_path / "toy-model"
    ways = publish(run, target)
    _, card = checkpoint.load(target)
    whole = next(way for way in ways if way.dtype == "float32")
    assert whole.measured.inside == pytest.approx(best["validation_loss"], abs=1e-6)
    assert (card.name, card.dtype) == ("toy-model", ways[0].dtype)
    assert card.training["validation_loss"] == ways[0].measured.inside
    assert card.training["steps"] == card.training["steps_of_the_run"] == best["steps"]
    text = (target / "README.md").read_text(encoding="utf-8")
    for fact in (
        "# toy-model",
        f"| parameters | {card.parameters:,} |",
        "| licence | MIT |",
        "| data | test pieces |",
        "| counts.train.files | 8 |",
        "| model.metre.features | 2 |",
        f"SHA-256 {card.sha256[:16]}",
        f"{whole.measured.inside:.4f}",
    ):
        assert fact in text
    assert (target / "curves.png").exists()


def test_untrained_run_and_changed_data_are_refused(trained: Path, pianos: Path, tmp_path: Path):
    config = toy_config(tmp_path, pianos)
    Path(config.run).mkdir()
    write_config(config)
    with pytest.raises(ValueError, match="holds no checkpoint; train it first"):
        publish(Path(config.run), tmp_path / "model")
    # Otherwise its card would claim training on these data, and their loss.
    run, data = tmp_path / "trained", tmp_path / "data"
    shutil.copytree(trained, run)
    config = read(run / "config.yaml")
    write_config(replace(config, run=str(run), data=replace(config.data, folder=str(data))))
    prepared_set(data, "remi", train=9)
    with pytest.raises(ValueError, match="was trained on other data than"):
        publish(run, tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_licences_of_all_sets_are_copied_to_the_model(tmp_path: Path):
    data = [tmp_path / name for name in "abc"]
    for folder, text in zip(data, ("CC BY 4.0", None, "MIT"), strict=True):
        folder.mkdir()
        if text:
            (folder / "LICENSE").write_text(text)
    _copy_attachments(tmp_path, [*data, data[0]], tmp_path)
    assert (tmp_path / "DATA-LICENSE").read_text() == "CC BY 4.0\n\nMIT"
    _copy_attachments(tmp_path, data[2:], tmp_path)
    assert (tmp_path / "DATA-LICENSE").read_text() == "MIT"
