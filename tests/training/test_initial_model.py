"""Runs that start from a trained model."""

from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch

from musicgen.checkpoint import load
from musicgen.performer import Performer
from tests.musicgen.toys import whole_of
from tests.training.makers import RecordingListener, fitted, toy_config, toy_run
from tokenization.language import language
from tokenization.prepared import Prepared
from tokenization.remi.language import Remi
from training.config import RunConfig
from training.initial_model import first_model, model_config
from training.loop import Run

METRE = {"bars": [1, 2], "remembers": [2, 4], "features": 2}


def started_from(start: Path, data: Path, folder: Path, **changes: object) -> RunConfig:
    config = toy_config(folder, data, **{"start": str(start), "optimiser": {"steps": 5}, **changes})
    return replace(config, model=changes.get("model"))


def origin_of(run: Run) -> dict:
    return load(run.folder / "model")[1].training["start"]


def logits(model: Performer, data: Path) -> torch.Tensor:
    tokens = torch.from_numpy(Prepared.open(data).ids(0)[:60].astype("int64"))[None]
    return whole_of(model.eval(), tokens)


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


def test_unsuitable_start_is_refused(trained, pianos, grooves, tmp_path: Path):
    remi, groove = ({"language": name, "tokens": 9} for name in ("remi", "groove"))
    config = started_from(trained, grooves, tmp_path)
    for data, says in ((groove, "groove"), (remi, r"remi \(9")):
        with pytest.raises(ValueError, match=rf"remi \(\d+ tokens\), but the data .* {says}"):
            first_model(config, data)
    spec = load(trained / "model")[1].language
    with pytest.raises(ValueError, match=r"model\.width is fixed by .*only dropout, "):
        model_config(replace(config, model={"width": 32}), spec)
    with pytest.raises(FileNotFoundError, match=r"there is no model 'ensembel'.*'ensemble'"):
        first_model(replace(config, start="ensembel"), spec)
    with pytest.raises(ValueError, match=r"model\.goals is true, but remi has no tokens for goals"):
        toy_run(started_from(trained, pianos, tmp_path, model={"goals": True}))


def test_added_metric_heads_keep_the_logits_and_then_learn(
    trained: Path, pianos: Path, tmp_path: Path
):
    config = started_from(trained, pianos, tmp_path, model={"metre": METRE})
    run = toy_run(config)
    learned, clock = load(trained / "model")[0], run.model.config.clock
    assert run.model.config == replace(learned.config, metre=run.model.config.metre, clock=clock)
    assert asdict(clock)["moves"] == tuple(map(tuple, Remi().clock()["moves"]))
    before, at_first = (logits(model, pianos) for model in (learned, run.model))
    torch.testing.assert_close(at_first, before, rtol=0, atol=1e-5)
    name = "blocks.0.attention.metre.qkv.weight"
    new = run.model.state_dict()[name].clone()
    run.fit(RecordingListener())
    assert not torch.equal(new, run.model.state_dict()[name])
    assert toy_run(config).resume()
    spec = load(run.folder / "model")[1].language
    again = started_from(run.folder, pianos, tmp_path / "again", model={"metre": METRE})
    assert first_model(again, spec).config == run.model.config
    more = {**METRE, "bars": [1, 2, 4], "remembers": [2, 4, 8]}
    twice = started_from(run.folder, pianos, tmp_path / "more", model={"metre": more})
    said = (logits(model, pianos) for model in (first_model(twice, spec), run.model))
    torch.testing.assert_close(*said, rtol=1e-5, atol=1e-5)
    other = started_from(run.folder, pianos, tmp_path, model={"metre": {**METRE, "bars": [1, 4]}})
    with pytest.raises(
        ValueError, match=r"model\.metre must begin with the heads of .*which the run starts from"
    ):
        first_model(other, spec)


def test_goal_embeddings_can_be_added_to_a_trained_model(bands: Path, tmp_path: Path):
    base = fitted(toy_config(tmp_path, bands, optimiser={"steps": 2}))
    config = started_from(base.folder, bands, tmp_path / "on", model={"goals": True})
    run = fitted(config)
    assert run.model.config.goals == tuple(language("ensemble").goal_tokens())
    assert toy_run(config).resume()
    again = started_from(run.folder, bands, tmp_path / "again")
    assert toy_run(again).model.config == run.model.config
