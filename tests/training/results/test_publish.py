"""Models are published from runs, with a README of facts."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from musicgen import checkpoint, weights
from tests.training.makers import fitted, prepared_set, toy_config
from training.config import read
from training.publish import _copy_attachments, check_destination, publish
from training.run_folder import write_config


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
    text = publish(run, target, "int8")
    assert (target / "README.md").read_text(encoding="utf-8") == text
    _, card = weights.load(target)
    assert (card.name, card.dtype) == ("toy-model", "int8")
    measured = card.training["validation_loss"]
    assert measured != best["validation_loss"]
    assert measured == pytest.approx(best["validation_loss"], abs=0.1)
    assert card.training["steps"] == card.training["steps_of_the_run"] == best["steps"]
    for fact in (
        "# toy-model",
        f"| parameters | {card.parameters:,} |",
        "| licence | MIT |",
        "| data | test pieces |",
        "| counts.train.files | 8 |",
        "| model.metre.features | 2 |",
        "| recall | no |",
        f"| validation_loss | {measured:.4f} nats per token, ",
        f"SHA-256 {card.sha256[:16]}",
        f"| int8 | {measured:.4f} |",
        f"| float32 | {best['validation_loss']:.4f} |",
    ):
        assert fact in text
    assert max(map(len, text.splitlines())) < 200
    assert "model.clock" not in text
    assert (target / "curves.png").exists()


def test_untrained_run_and_changed_data_are_refused(trained: Path, pianos: Path, tmp_path: Path):
    config = toy_config(tmp_path, pianos)
    Path(config.run).mkdir()
    write_config(config)
    with pytest.raises(ValueError, match="has no checkpoint; train it first"):
        publish(Path(config.run), tmp_path / "model", "int8")
    # Otherwise its card would claim training on these data, and their loss.
    run, data = tmp_path / "trained", tmp_path / "data"
    shutil.copytree(trained, run)
    config = read(run / "config.yaml")
    write_config(replace(config, run=str(run), data=replace(config.data, folder=str(data))))
    prepared_set(data, "remi", train=9)
    with pytest.raises(ValueError, match="was trained on other data than"):
        publish(run, tmp_path / "model", "int8")
    assert not (tmp_path / "model").exists()


def test_only_a_model_is_replaced_and_only_if_asked(tmp_path: Path):
    taken = tmp_path / "model"
    for asked in (False, True):
        check_destination(taken, replace=asked)
        check_destination(tmp_path, replace=asked)  # empty
    taken.mkdir()
    (taken / "notes.txt").touch()
    with pytest.raises(ValueError, match="is not empty and has no model"):
        check_destination(taken, replace=True)
    with pytest.raises(ValueError, match=r"notes.txt is a file"):
        check_destination(taken / "notes.txt", replace=True)
    (taken / "config.json").touch()
    with pytest.raises(ValueError, match=r"already holds a model; .* replace it with --force"):
        check_destination(taken, replace=False)
    check_destination(taken, replace=True)


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
