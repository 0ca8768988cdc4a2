"""Preference training learns from takes of training pieces, resumes bit for bit, and does not forget."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.utils import vector_to_parameters

from musicgen.common.learning import generator_of
from musicgen.critic import NewBars
from musicgen.weights import load
from tests.training.makers import RecordingListener, fitted, outcome, prepared_set, toy_config
from tokenization.prepared import SPLITS, Prepared
from tokenization.score import Score
from training.config import RunConfig
from training.devices import Devices
from training.loop import FINISHED, STOPPED
from training.preference.lessons import CODE, flat, learners, log_probability, path_of, read
from training.preference.run import PreferenceRun, PromptBatches, pair_losses
from training.preference.takes import Takes

LAYERS = 2
ASKED = {"prompts": 4, "takes": 3, "prompt_bars": 2, "bars": 2, "layers": 1}


def few_notes(prompts: Sequence[Sequence[Score]], new: NewBars) -> list[np.ndarray]:
    """Doubt takes that have many new notes."""
    return [np.array([float(new.is_new(one).sum()) for one in takes]) for takes in prompts]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepared_set(tmp_path_factory.mktemp("data") / "set", "remi", train=12, tested=2)


@pytest.fixture(scope="module")
def start(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    changes = {"model": {"layers": LAYERS, "dropout": 0.0}, "optimiser": {"steps": 60}}
    return fitted(toy_config(tmp_path_factory.mktemp("start"), data, **changes)).folder / "model"


@pytest.fixture(scope="module")
def takes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder that keeps takes for several runs."""
    return tmp_path_factory.mktemp("takes")


def asked_for(folder: Path, data: Path, start: Path, takes: Path, **changes: dict) -> RunConfig:
    values = {
        "start": str(start),
        "model": None,
        "data": {"batch": 2},
        "preference": {**ASKED, "folder": str(takes), **changes.pop("preference", {})},
        "optimiser": {
            "learning_rate": 2e-2,
            "steps": 8,
            "redraw": 0,
            **changes.pop("optimiser", {}),
        },
    }
    return toy_config(folder, data, **{**values, **changes})


def prepared_run(config: RunConfig) -> PreferenceRun:
    batches, devices = PromptBatches(config), Devices(config.device)
    batches.prepare(Takes(config, batches.shards), few_notes, devices, lambda *_: None)
    return PreferenceRun(config, devices, batches)


def loss_of(run: PreferenceRun) -> float:
    """Return the mean loss over all pairs."""
    with torch.no_grad():
        found = [
            run.compared(run.model, lesson=read(path_of(run.config, row)), odds=run.odds[str(row)])
            for row in run.batches.prompts
        ]
    assert {len(losses) for losses in found} == {math.comb(ASKED["takes"], 2)}
    return float(torch.cat(found).mean())


def test_a_model_learns_which_takes_are_preferred(data, start, takes, tmp_path: Path):
    run = prepared_run(asked_for(tmp_path, data, start, takes))
    old, before = load(start)[0], loss_of(run)
    new_notes = [run.odds[str(row)] for row in run.batches.prompts]
    assert any(len({*odds[:-1]}) > 1 for odds in new_notes)
    assert run.fit(RecordingListener()) == FINISHED
    assert loss_of(run) < 0.8 * before
    state = run.state
    assert state.validation_loss < state.first_loss + 0.1
    pairs = zip(run.model.named_parameters(), old.parameters(), strict=True)
    learned = {name: one for (name, one), other in pairs if not torch.equal(one, other)}
    assert learned
    assert all(one.ndim == 1 for one in learned.values())  # 8 bits would lose what matrices learn
    assert all(name.startswith((f"blocks.{LAYERS - 1}.", "norm.")) for name in learned)


def test_a_lesson_tells_how_probable_each_take_becomes(data, start, takes, tmp_path: Path):
    config = asked_for(tmp_path, data, start, takes)
    run = prepared_run(config)
    row = run.batches.prompts[0]
    lesson, drawn = read(path_of(config, row)), Takes(config, run.batches.shards)
    change = 1e-3 * torch.randn(lesson.start.shape, generator=torch.Generator().manual_seed(0))
    how = len(drawn.prompt(row).ids), lambda: generator_of(config.seed, CODE, row)
    models = load(start)[0].eval(), load(start)[0].eval()
    learn = learners(models[1], config)
    with torch.no_grad():
        vector_to_parameters(flat(learn) + change, learn)
        old, new = (
            torch.stack(
                [log_probability(one, ids, how[0], how[1]()) for ids in drawn.sequences(row)]
            )
            for one in models
        )
    assert len(old) == ASKED["takes"] + 1
    expected = torch.from_numpy(lesson.gradients) @ change
    torch.testing.assert_close(new - old, expected, rtol=0.05, atol=2e-3)


def test_the_loss_is_least_where_the_change_is_that_of_the_odds():
    odds = torch.tensor([1.5, -0.5, 0.0])
    torch.testing.assert_close(pair_losses(-odds, odds), torch.zeros(3), rtol=0, atol=1e-6)
    assert (pair_losses(torch.zeros(3), odds) > 0.01).all()
    assert (pair_losses(-4 * odds, odds) > 0.01).all()


def test_an_interrupted_run_equals_the_uninterrupted_one(data, start, takes, tmp_path: Path):
    whole = prepared_run(asked_for(tmp_path / "whole", data, start, takes))
    whole.fit(RecordingListener())
    config = asked_for(tmp_path / "pieces", data, start, takes)
    prepared_run(config)
    for stop_at in (3, 6, None):
        run = PreferenceRun(config, Devices(config.device), PromptBatches(config))
        run.resume()
        assert run.fit(RecordingListener(stop_at, run.stop)) == (STOPPED if stop_at else FINISHED)
    final = f"checkpoints/{whole.steps:08d}"
    ended, other = (
        {k: v for k, v in outcome(one.folder).items() if "checkpoints" not in k or final in k}
        for one in (run, whole)
    )
    assert ended == other


def test_takes_are_drawn_once_and_only_from_pieces_that_may_teach(
    data, start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    read_rows: set[int] = set()
    ids = Prepared.ids

    def noted(prepared: Prepared, row: int) -> np.ndarray:
        read_rows.add(row)
        return ids(prepared, row)

    config = asked_for(tmp_path, data, start, tmp_path / "takes", preference={"prompts": 99})
    batches = PromptBatches(config)
    with monkeypatch.context() as patch:
        patch.setattr(Prepared, "ids", noted)
        batches.prepare(
            Takes(config, batches.shards), few_notes, Devices(config.device), lambda *_: None
        )
    prepared = Prepared.open(data)
    assert read_rows == {*batches.prompts}
    assert 2 <= len(read_rows) < 12
    assert {SPLITS[prepared.pieces.split[row]] for row in read_rows} == {"train"}
    assert all(prepared.teaches(row) for row in read_rows)
    made = {path: path.stat().st_mtime_ns for path in (tmp_path / "takes").iterdir()}
    prepared_run(config)
    assert made == {path: path.stat().st_mtime_ns for path in (tmp_path / "takes").iterdir()}


def test_a_model_that_forgets_is_not_kept(data, start, takes, tmp_path: Path):
    changes = {"learning_rate": 0.5, "warmup": 1}
    run = prepared_run(asked_for(tmp_path, data, start, takes, optimiser=changes))
    run.fit(RecordingListener())
    assert run.state.validation_loss > run.state.first_loss + 0.02
    assert run.state.best_step == 0
    kept, old = (load(folder)[0].state_dict() for folder in (run.folder / "model", start))
    assert all(torch.equal(kept[name], old[name]) for name in old)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"takes": 1}, "takes is 1; it must be 2 or more"),
        ({"beta": 0}, "beta is 0.0; it must be above 0"),
        ({"layers": 3}, "preference.layers is 3; .* has 2 layers"),
        (
            {"bars": 60},
            "too few training pieces of more than 62 bars that may teach; ask for fewer",
        ),
        ({"takes": 2}, "holds takes of other takes; name another preference.folder"),
    ],
)
def test_bad_settings_get_one_sentence(data, start, takes, tmp_path: Path, changes, message):
    prepared_run(asked_for(tmp_path / "good", data, start, takes))
    with pytest.raises(ValueError, match=message):
        prepared_run(asked_for(tmp_path, data, start, takes, preference=changes))
    with pytest.raises(ValueError, match="preference training needs a trained model"):
        toy_config(tmp_path / "none", data, preference={})
