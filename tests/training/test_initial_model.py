"""Runs that start from a trained model."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from musicgen.checkpoint import Card
from musicgen.performer import Performer
from musicgen.weights import load, save
from tests.training.makers import (
    RecordingListener,
    fitted,
    prepared_set,
    toy_config,
    toy_run,
)
from tokenization.language import language
from training.config import RunConfig
from training.data.shards import Shards
from training.initial_model import first_model, language_of, model_config
from training.loop import Run


def started_from(start: Path, data: Path, folder: Path, **changes: object) -> RunConfig:
    config = toy_config(folder, data, **{"start": str(start), "optimiser": {"steps": 5}, **changes})
    return replace(config, model=changes.get("model"))


def origin_of(run: Run) -> dict:
    return load(run.folder / "model")[1].training["start"]


def test_run_starts_from_trained_weights_and_improves(trained: Path, pianos: Path, tmp_path: Path):
    run = toy_run(started_from(trained, pianos, tmp_path, model={"dropout": 0.25}))
    learned, card = load(trained / "model")
    assert run.model.config == replace(learned.config, dropout=0.25)
    begun = run.model.state_dict()
    assert all(torch.equal(begun[name], x) for name, x in learned.state_dict().items())
    run.fit(RecordingListener())
    fresh = fitted(toy_config(tmp_path / "fresh", pianos, optimiser={"steps": 5}))
    assert run.state.best_loss < fresh.state.best_loss - 0.1
    start = origin_of(run)
    assert (start["sha256"], start["licence"], start["start"]) == (card.sha256, "MIT", None)
    again = fitted(replace(run.config, start=str(run.folder), run=str(tmp_path / "again")))
    assert origin_of(again)["start"] == start  # the chain of models


def test_a_start_of_an_earlier_version_keeps_its_language(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    data = prepared_set(tmp_path / "data", "ensemble", train=2)
    [earlier] = language("ensemble").earlier()
    config = toy_config(tmp_path, data)
    model = Performer(config.model_config(len(earlier.vocabulary), earlier))
    save(tmp_path / "old", model, Card(name="old", language=earlier.spec(), trained_length=8))
    run = toy_run(replace(config, start=str(tmp_path / "old"), model=None))
    assert run.card().language == earlier.spec() != language_of(config, run.batches.shards)
    monkeypatch.setattr(Shards, "highest", len(earlier.vocabulary))  # a style that it does not know
    with pytest.raises(ValueError, match=r"ensemble \(702 tokens\), but the data are in ensemble"):
        toy_run(run.config)


def test_unsuitable_start_is_refused(trained, pianos, grooves, tmp_path: Path):
    remi, groove = ({"language": name, "tokens": 9} for name in ("remi", "groove"))
    config = started_from(trained, grooves, tmp_path)
    for data, says in ((groove, "groove"), (remi, r"remi \(9")):
        with pytest.raises(ValueError, match=rf"remi \(\d+ tokens\), but the data .* {says}"):
            first_model(config, data)
    spec = load(trained / "model")[1].language
    with pytest.raises(ValueError, match=r"model\.width is fixed by .*only dropout, "):
        model_config(replace(config, model={"width": 32}), spec)
    with pytest.raises(ValueError, match=r"model\.goals is true, but remi has no tokens for goals"):
        toy_run(toy_config(tmp_path, pianos, model={"goals": True}))
    with pytest.raises(FileNotFoundError, match=r"there is no model 'ensembel'.*'ensemble'"):
        first_model(replace(config, start="ensembel"), spec)
