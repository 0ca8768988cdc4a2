"""A run may begin with a trained model, which learns on from other pieces."""

import shutil
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch

from musicgen.storage.checkpoint import load, read_card
from musicgen.storage.library import shipped
from tests.training.makers import Heard, Stopper, prepared_set, toy_config, toy_run
from tokenization.prepared import Prepared
from tokenization.remi.language import Remi, RemiInEveryMetre
from training.config import RunConfig, find, read
from training.initial_model import first_model, model_config
from training.results.publish import _origin

METRE = {"bars": [1, 2], "remembers": [2, 4], "features": 2}


@pytest.fixture
def trained(pianos: Path, tmp_path: Path) -> Path:
    """Return the run of a toy that has learned."""
    run = toy_run(toy_config(tmp_path / "trained", pianos))
    run.fit(Heard())
    return run.folder


def on_from(trained: Path, data: Path, folder: Path, **changes: object) -> RunConfig:
    config = toy_config(folder, data, start=str(trained), **changes)
    return replace(config, model=changes.get("model"))


def test_it_begins_with_the_weights_and_learns_on(trained: Path, tmp_path: Path):
    data = prepared_set(tmp_path / "other", "remi", train=3)
    config = on_from(trained, data, tmp_path, model={"dropout": 0.25}, optimiser={"steps": 10})
    run = toy_run(config)
    learned, card = load(trained / "model")
    assert run.model.config == replace(learned.config, dropout=0.25)
    for name, tensor in learned.state_dict().items():
        assert torch.equal(run.model.state_dict()[name], tensor), name
    heard = Heard()
    run.fit(heard)
    fresh = toy_run(toy_config(tmp_path / "fresh", data, optimiser={"steps": 10}))
    fresh.fit(Heard())
    assert run.state.best_loss is not None
    assert fresh.state.best_loss is not None
    assert run.state.best_loss < fresh.state.best_loss - 0.1
    told = load(run.folder / "model")[1].training["start"]
    assert (told["sha256"], told["licence"], told["start"]) == (card.sha256, "MIT", None)
    again = toy_run(replace(config, start=str(run.folder), run=str(tmp_path / "again")))
    again.fit(Heard())
    chain = load(again.folder / "model")[1].training["start"]
    assert [name for name, _ in _origin(chain)] == ["began as", "began as"]


def test_what_it_began_as_may_be_gone_before_it_ends(trained: Path, pianos: Path, tmp_path: Path):
    run = toy_run(on_from(trained, pianos, tmp_path, optimiser={"steps": 5}))
    began = load(trained / "model")[1].sha256
    trained.rename(tmp_path / "elsewhere")
    run.fit(Heard())
    assert load(run.folder / "model")[1].training["start"]["sha256"] == began


def test_it_goes_on_from_its_own_checkpoint(trained: Path, pianos: Path, tmp_path: Path):
    config = on_from(
        trained, pianos, tmp_path, model={"metre": METRE, "layers": 2}, optimiser={"steps": 5}
    )
    run = toy_run(config)
    run.fit(Heard())
    trained.rename(tmp_path / "elsewhere")  # all that is needed is in the checkpoint
    later = toy_run(config)
    assert later.resume()
    assert later.origin == run.origin
    for name, tensor in run.model.state_dict().items():
        assert torch.equal(later.model.state_dict()[name], tensor), name


@pytest.mark.parametrize("stopped_at", [3, 5])  # before and after the first validation
def test_a_run_that_goes_on_tells_what_it_began_as_and_not_what_has_that_name_now(
    stopped_at: int, trained: Path, pianos: Path, tmp_path: Path
):
    settings = {"optimiser": {"steps": 10}, "validation": {"every": 5}}
    config = on_from(trained, pianos, tmp_path, **settings)
    run = toy_run(config)
    run.fit(Stopper(run, stopped_at))
    assert run.state.step == stopped_at
    began = load(trained / "model")[1].sha256
    other = toy_run(toy_config(tmp_path / "other", pianos, seed=2))
    other.fit(Heard())
    shutil.rmtree(trained)
    shutil.copytree(other.folder, trained)
    later = toy_run(config)
    assert later.resume()
    assert later.origin is not None
    assert later.origin["sha256"] == began


def test_what_cannot_be_begun_with_is_a_sentence(
    trained: Path, pianos: Path, grooves: Path, tmp_path: Path
):
    remi, groove = ({"language": name, "tokens": 9} for name in ("remi", "groove"))
    config = on_from(trained, grooves, tmp_path)
    with pytest.raises(ValueError, match=r"speaks remi \(\d+ tokens\), but the data are in groove"):
        first_model(config, groove)
    with pytest.raises(
        ValueError, match=r"speaks remi \(\d+ tokens\), but the data are in remi \(9"
    ):
        first_model(config, remi)
    language = load(trained / "model")[1].language
    wider = replace(config, model={"width": 32})
    with pytest.raises(ValueError, match=r"model\.width is that of .*only dropout, "):
        model_config(wider, language)
    for layers in (0, "many"):
        with pytest.raises(
            ValueError, match=rf"layers is {layers!r}.* grows deeper, not shallower"
        ):
            model_config(replace(config, model={"layers": layers}), language)
    after = toy_run(toy_config(tmp_path / "post", pianos, model={"norm": "post"}))
    after.fit(Heard())
    deeper = on_from(after.folder, pianos, tmp_path / "deeper", model={"layers": 2})
    with pytest.raises(ValueError, match=r"model\.layers .*normalises after each branch"):
        model_config(deeper, language)
    with pytest.raises(FileNotFoundError, match=r"there is no model 'pop-pino'.*'pop-piano'"):
        first_model(replace(config, start="pop-pino"), language)


def test_a_model_is_given_metric_heads_that_first_say_nothing_and_then_learn(
    trained: Path, pianos: Path, tmp_path: Path
):
    config = on_from(trained, pianos, tmp_path, model={"metre": METRE}, optimiser={"steps": 5})
    run = toy_run(config)
    learned = load(trained / "model")[0]
    assert run.model.config == replace(
        learned.config, metre=run.model.config.metre, clock=run.model.config.clock
    )
    clock = run.model.config.clock
    assert clock is not None
    assert asdict(clock)["moves"] == tuple(map(tuple, Remi().clock()["moves"]))
    tokens = torch.from_numpy(Prepared.open(pianos).ids(0)[:60].astype("int64"))[None]
    with torch.no_grad():
        before, at_first = (
            m.eval()(tokens, m.begin(torch.Generator().manual_seed(0)))
            for m in (learned, run.model)
        )
    torch.testing.assert_close(at_first, before, rtol=0, atol=1e-5)
    new = run.model.state_dict()["blocks.0.attention.metre.qkv.weight"].clone()
    run.fit(Heard())
    assert not torch.equal(new, run.model.state_dict()["blocks.0.attention.metre.qkv.weight"])
    later = toy_run(config)
    assert later.resume()
    again = on_from(run.folder, pianos, tmp_path / "again", model={"metre": METRE})
    assert first_model(again, load(run.folder / "model")[1].language).config == run.model.config
    other = {**METRE, "bars": [1, 4]}
    twice = on_from(run.folder, pianos, tmp_path / "twice", model={"metre": other})
    with pytest.raises(ValueError, match=r"model\.metre is that of .*which the run starts with"):
        first_model(twice, load(run.folder / "model")[1].language)


def test_a_model_learns_the_later_version_of_its_language(
    trained: Path, pianos: Path, tmp_path: Path
):
    first = toy_run(on_from(trained, pianos, tmp_path / "metre", model={"metre": METRE}))
    first.fit(Heard())
    data = prepared_set(tmp_path / "later", "remi-2", train=3)
    run = toy_run(on_from(first.folder, data, tmp_path / "on", optimiser={"steps": 5}))
    learned = load(first.folder / "model")[0]
    clock = run.model.config.clock
    assert clock is not None
    assert (run.model.config.vocabulary_size, clock.bar_ticks) == (432, 24)
    tokens = torch.from_numpy(Prepared.open(pianos).ids(0)[:60].astype("int64"))[None]
    with torch.no_grad():
        before, at_first = (
            m.eval()(tokens, m.begin(torch.Generator().manual_seed(0)))
            for m in (learned, run.model)
        )
    torch.testing.assert_close(at_first[..., :362], before, rtol=0, atol=1e-5)
    average = before.mean(-1, keepdim=True).expand(*before.shape[:-1], 70)
    torch.testing.assert_close(at_first[..., 362:], average, rtol=0, atol=1e-5)
    run.fit(Heard())
    assert load(run.folder / "model")[1].language["language"] == "remi-2"


def test_a_model_is_told_of_goals_where_its_language_has_them(
    trained: Path, pianos: Path, tmp_path: Path
):
    told = {"model": {"goals": True}, "optimiser": {"steps": 5}}
    with pytest.raises(ValueError, match=r"model\.goals is true, but remi has no tokens for goals"):
        toy_run(on_from(trained, pianos, tmp_path, **told))
    data = prepared_set(tmp_path / "later", "remi-2", train=3)
    run = toy_run(on_from(trained, data, tmp_path / "on", **told))
    assert run.model.config.goals == tuple(RemiInEveryMetre().goal_tokens())
    run.fit(Heard())
    later = toy_run(on_from(trained, data, tmp_path / "on", **told))
    assert later.resume()
    again = on_from(run.folder, data, tmp_path / "again", optimiser={"steps": 5})
    assert toy_run(again).model.config == run.model.config


def test_the_shipped_configuration_takes_any_shipped_model():
    for name, folder in shipped().items():
        config = replace(read(find("finetune")), start=name)
        trained, card = read_card(folder)
        assert model_config(config, card.language) == trained
        assert config.data.length <= card.trained_length
