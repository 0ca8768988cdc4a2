import shutil
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
import yaml

from musicgen.storage import checkpoint
from tests.musicgen.toys import toy_model
from tests.training.makers import Heard, prepared_set, toy_config, toy_run
from training.data.batches import Batches
from training.results.publish import Blend, Stored, _as_long, _copy_beside, blended, choose, publish
from training.validation import Measured, Validation


def stored(dtype: str, size: int, inside: float, beyond: float | None = None) -> Stored:
    measured = Measured(inside=inside, beyond=beyond, sequences=1, rows=[])
    return Stored(dtype=dtype, bytes=size, measured=measured)


def test_the_smallest_weights_that_cost_next_to_nothing_are_taken():
    whole, half = stored("float32", 4, 2.0, 3.0), stored("bfloat16", 2, 2.001, 3.001)
    assert choose([whole, half, stored("int8", 1, 2.009, 3.009)]).dtype == "int8"
    assert choose([whole, half, stored("int8", 1, 2.011, 3.0)]).dtype == "bfloat16"
    assert choose([whole, half, stored("int8", 1, 2.0, 3.02)]).dtype == "bfloat16"
    assert choose([whole, stored("bfloat16", 2, 2.1, 3.0)]).dtype == "float32"


def test_a_run_becomes_a_model_with_a_readme_of_facts(pianos: Path, tmp_path: Path):
    metre = {"bars": [1, 2], "remembers": [2, 4], "features": 2}
    config = toy_config(tmp_path, pianos, model={"metre": metre})
    run = toy_run(config)
    run.fit(Heard())
    (run.folder / "config.yaml").write_text(yaml.safe_dump(asdict(config)))
    (run.folder / "curves.png").touch()
    target = tmp_path / "toy-model"
    target.mkdir()
    (target / "encodings.md").write_text("| run | loss |\n")
    ways = publish(run.folder, target)
    _, card = checkpoint.load(target)
    whole = next(way for way in ways if way.dtype == "float32")
    assert whole.measured.inside == pytest.approx(run.state.best_loss, abs=1e-6)
    assert (card.name, card.dtype) == ("toy-model", ways[0].dtype)
    assert card.training["validation_loss"] == ways[0].measured.inside
    text = (target / "README.md").read_text(encoding="utf-8")
    for fact in (
        "# toy-model",
        f"{card.parameters:,} parameters",
        "| licence of the data | MIT |",
        "test pieces: 8 pieces",
        "| metric heads | at the same place of every so many bars (and how many times): 1 (2), 2 (4) |",
        f"SHA-256 {card.sha256[:16]}",
        f"{whole.measured.inside:.4f}",
        "| run | loss |",
    ):
        assert fact in text
    assert (target / "curves.png").exists()


def test_a_model_with_a_longest_sequence_is_published(pianos: Path, tmp_path: Path):
    """It is measured, and what it recalls is fitted, no further than it reads."""
    config = toy_config(tmp_path, pianos, optimiser={"steps": 5})
    model = {**config.model, "position": {"name": "learned", "max_length": 40}}
    config = replace(config, model=model)
    run = toy_run(config)
    run.fit(Heard())
    (run.folder / "config.yaml").write_text(yaml.safe_dump(asdict(config)))
    publish(run.folder, tmp_path / "toy-model")
    assert len(checkpoint.read_card(tmp_path / "toy-model")[1].training["recall"]) == 4
    blend = Blend(model=str(run.folder / "model"), share=0.5)
    again = replace(config, data=replace(config.data, length=16))
    (run.folder / "config.yaml").write_text(yaml.safe_dump(asdict(again)))
    publish(run.folder, tmp_path / "blend", blend)
    assert checkpoint.read_card(tmp_path / "blend")[1].trained_length == 32


def test_the_readme_tells_of_the_weights_and_not_of_the_checkpoint(pianos: Path, tmp_path: Path):
    config = toy_config(tmp_path, pianos, keep=9)
    run = toy_run(config)
    run.fit(Heard())
    (run.folder / "config.yaml").write_text(yaml.safe_dump(asdict(config)))
    best = checkpoint.load(run.folder / "model")[1].training["steps"]
    for saved in (run.folder / "checkpoints").iterdir():
        if int(saved.name) >= best and int(saved.name) > 5:  # killed before it was saved
            shutil.rmtree(saved)
    publish(run.folder, tmp_path / "toy-model")
    training = checkpoint.load(tmp_path / "toy-model")[1].training
    assert (training["steps"], training["steps_of_the_run"]) == (best, best)


def test_an_untrained_run_is_refused(pianos: Path, tmp_path: Path):
    config = toy_config(tmp_path, pianos)
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(asdict(config)))
    with pytest.raises(ValueError, match="holds no checkpoint; train it first"):
        publish(tmp_path, tmp_path / "model")


def test_a_run_whose_data_are_others_by_now_is_refused(pianos: Path, tmp_path: Path):
    """Its card would say that it had learned from them, and with what loss."""
    data = tmp_path / "data"
    shutil.copytree(pianos, data)
    config = toy_config(tmp_path, data, optimiser={"steps": 5})
    run = toy_run(config)
    run.fit(Heard())
    (run.folder / "config.yaml").write_text(yaml.safe_dump(asdict(config)))
    for sizes in ({"train": 9}, {"train": 6, "held_out": 4}):
        shutil.rmtree(data)
        prepared_set(data, "remi", **sizes)
        with pytest.raises(ValueError, match="was trained on other data than"):
            publish(run.folder, tmp_path / "toy-model")
    assert not (tmp_path / "toy-model").exists()


def test_the_licences_of_all_sets_stay_with_the_model(tmp_path: Path):
    data = [tmp_path / name for name in "abc"]
    for folder, text in zip(data, ("CC BY 4.0", None, "MIT"), strict=True):
        folder.mkdir()
        if text:
            (folder / "LICENSE").write_text(text)
    _copy_beside(tmp_path, [*data, data[0]], tmp_path)
    assert (tmp_path / "DATA-LICENSE").read_text() == "CC BY 4.0\n\nMIT"
    _copy_beside(tmp_path, data[2:], tmp_path)
    assert (tmp_path / "DATA-LICENSE").read_text() == "MIT"


def test_between_two_models_lies_one_that_is_told_of_goals_more_loudly(
    pianos: Path, tmp_path: Path
):
    data = prepared_set(tmp_path / "later", "remi-2", train=3)
    first = toy_run(toy_config(tmp_path / "first", data))
    first.fit(Heard())
    config = toy_config(tmp_path / "second", data)
    config = replace(config, start=str(first.folder), model={"goals": True})
    run = toy_run(config)
    run.fit(Heard())
    (run.folder / "config.yaml").write_text(yaml.safe_dump(asdict(config)))
    before, after = (checkpoint.load(one.folder / "model")[0] for one in (first, run))
    wanted = after.state_dict()["embedding.weight"].lerp(before.embedding.weight, 0.25)
    goals = 2 * after.state_dict()["goals.vectors.weight"]
    mean = blended(after, before, 0.25, 2).state_dict()
    torch.testing.assert_close(mean["embedding.weight"], wanted)
    torch.testing.assert_close(mean["goals.vectors.weight"], goals)
    blend = Blend(model=str(first.folder / "model"), share=0.25, louder=2.0)
    publish(run.folder, tmp_path / "blend", blend)
    card = checkpoint.read_card(tmp_path / "blend")[1]
    known = checkpoint.read_card(first.folder / "model")[1]
    assert card.training["blend"]["sha256"] == known.sha256
    assert len(card.training["recall"]) == 4
    text = (tmp_path / "blend" / "README.md").read_text(encoding="utf-8")
    assert "25% of each weight is" in text
    assert "## What it recalls" in text
    with pytest.raises(ValueError, match="share of the earlier model is 2"):
        blended(after, before, 2)


def test_what_tells_of_goals_is_louder_and_no_mean_where_the_earlier_model_was_not_told():
    before, after = toy_model(goals=(5, 6, 7)), toy_model(goals=(5, 6, 7))
    assert before.goals is not None
    assert after.goals is not None
    with torch.no_grad():
        before.goals.vectors.weight[0] = 1.0
        after.goals.vectors.weight[:] = 3.0
    told = blended(after, before, 0.25, 2).state_dict()["goals.vectors.weight"]
    assert told[:, 0].tolist() == [5.0, 6.0, 6.0]


def test_layers_are_blended_with_none_of_another_number():
    """A model that has grown has its layers from others than those of their own number."""
    later, before = toy_model(1, layers=2), toy_model(2)
    wanted = "has 1 layer and this one 2; only models of as many layers can be blended"
    with pytest.raises(ValueError, match=wanted):
        blended(later, before, 0.5)
    torch.testing.assert_close(later.state_dict(), toy_model(1, layers=2).state_dict())


def test_what_was_drawn_stays_the_later_model_s():
    """The mean of two random projections is none: it is shorter."""
    features = {"name": "relu", "features": 8}
    later, before = (toy_model(seed, features=features) for seed in (1, 2))
    own, other = later.state_dict(), before.state_dict()
    drawn = [name for name in own if name.endswith("omega")]
    assert drawn == ["blocks.0.attention.features.omega"]
    wanted = {
        name: weight.clone() if name in drawn else weight.lerp(other[name], 0.25)
        for name, weight in own.items()
    }
    assert not torch.equal(own[drawn[0]], other[drawn[0]])
    torch.testing.assert_close(blended(later, before, 0.25).state_dict(), wanted, rtol=0, atol=0)


def test_what_is_partly_a_longer_model_is_measured_at_its_length(pianos: Path, tmp_path: Path):
    config = toy_config(tmp_path, pianos)
    assert _as_long(config, config.data.trained_length) is config
    longer = _as_long(replace(config, validation=replace(config.validation, length=40)), 500)
    batches = Batches(config.data, config.seed)
    assert longer.data.trained_length == 500
    assert Validation(longer, batches, toy_model()).length == 750
    limited = toy_model(position={"name": "learned", "max_length": 600})
    assert Validation(longer, batches, limited).length == 600
