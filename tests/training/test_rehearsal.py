"""A run that rehearses stays near its start on the start's own takes; that it resumes is in test_learn.py."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from musicgen.common.learning import generator_of
from musicgen.performer import Performer
from musicgen.weights import load
from tests.evaluation.toys import write_model
from tests.training.makers import RecordingListener, fitted, prepared_set, toy_config
from tokenization.ensemble.tokens import BAR as ENSEMBLE_BAR
from tokenization.ensemble.tokens import PART
from tokenization.remi.language import BAR
from training import run_folder
from training.config import RehearsalConfig, RunConfig
from training.data.batches import Batches
from training.devices import Devices
from training.log import StepSums
from training.loop import Run
from training.rehearsal import CODE, PARTS, TAKES, RehearsalRun, draw, forget_others, kept

ASKED = {"takes": 3, "bars": 2, "length": 24}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepared_set(tmp_path_factory.mktemp("data") / "set", "remi")


@pytest.fixture(scope="module")
def start(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = toy_config(tmp_path_factory.mktemp("start"), data, model={"dropout": 0.0})
    return fitted(config).folder / "model"


def rehearsed(folder: Path, data: Path, start: Path, weight: float) -> tuple[RunConfig, float]:
    """Return the configuration of a run, and its divergence from the start on the takes."""
    asked = {**ASKED, "weight": weight}
    config = toy_config(folder, data, start=str(start), model=None, rehearsal=asked)
    config = replace(config, model={"rank": 2})
    Path(config.run).mkdir()
    draw(config, lambda done, total: None)
    run = RehearsalRun(config, Devices(config.device), Batches(config.data, config.seed))
    run.fit(RecordingListener())
    run.model.eval()
    with torch.no_grad():
        now = [take(run.model) for take in run.takes]
    pairs = zip(run.foreseen, now, strict=True)
    return config, float(sum((old.exp() * (old - new)).sum(-1).mean() for old, new in pairs))


def after_first_bar(model: Performer, ids: list[int], bar: int, seed: int) -> torch.Tensor:
    """Return what a model foresees after each token of a take from its first bar on."""
    first = ids.index(bar)
    tokens = torch.tensor([ids[: first + ASKED["length"] + 1]])
    code = model.begin(generator_of(seed, CODE))
    return model(tokens[:, :-1], code)[0].log_softmax(-1)[first:]


def test_a_run_that_rehearses_stays_near_its_start(data: Path, start: Path, tmp_path: Path):
    _, free = rehearsed(tmp_path / "free", data, start, 1e-6)
    _, held = rehearsed(tmp_path / "held", data, start, 30.0)
    assert 0 < held < free / 2


def test_the_targets_are_what_the_start_foresees_in_its_takes(data: Path, start: Path, tmp_path):
    config, _ = rehearsed(tmp_path, data, start, 1.0)
    takes = json.loads((Path(config.run) / TAKES).read_text())
    assert len(takes) == ASKED["takes"]
    assert len({*map(tuple, takes)}) == ASKED["takes"]
    resumed = RehearsalRun(config, Devices(config.device), Batches(config.data, config.seed))
    assert resumed.resume()  # the weights now differ from those of the start
    model = load(start)[0]
    for ids, targets in zip(takes, resumed.foreseen, strict=True):
        expected = after_first_bar(model, ids, BAR, config.seed).detach()
        assert np.allclose(targets, expected, atol=1e-5)


def test_what_a_take_has_before_its_first_bar_is_not_rehearsed(tmp_path: Path):
    data = prepared_set(tmp_path / "data", "ensemble")
    start = write_model(tmp_path / "base", "ensemble", "sine_spe")
    config, _ = rehearsed(tmp_path / "run", data, Path(start), 5.0)
    run = RehearsalRun(config, Devices(config.device), Batches(config.data, config.seed))
    run.resume()
    run.model.eval()
    ids, sums = json.loads((run.folder / TAKES).read_text())[1], StepSums(torch.device("cpu"))
    assert ids.index(ENSEMBLE_BAR) > PARTS[0]

    def gradient(learn: Callable[[], None]) -> torch.Tensor:
        run.model.zero_grad()
        learn()
        parts = [one.grad for one in run.model.parameters() if one.grad is not None]
        return torch.cat([part.flatten() for part in parts])

    def expected() -> None:
        old, new = (
            after_first_bar(model, ids, ENSEMBLE_BAR, config.seed)
            for model in (load(start)[0], run.model)
        )
        (5.0 * (old.exp() * (old - new)).sum(-1).mean()).backward()

    both = gradient(lambda: run.learn_from(1, run.batches[1], sums))
    alone = gradient(lambda: Run.learn_from(run, 1, run.batches[1], sums))
    wanted = gradient(expected)
    assert wanted.abs().max() > 0
    assert torch.allclose(both - alone, wanted, atol=1e-3 * float(wanted.abs().max()))


def test_every_second_take_is_for_parts_of_any_kind(data: Path, tmp_path: Path):
    base = write_model(tmp_path / "base", "ensemble", "sine_spe")
    config = toy_config(tmp_path, data, start=base, model=None, rehearsal={**ASKED, "takes": 6})
    Path(config.run).mkdir()
    draw(config, lambda done, total: None)
    takes = [np.array(ids) for ids in json.loads((Path(config.run) / TAKES).read_text())]
    parts = [len({*ids[PART.holds(ids)].tolist()}) for ids in takes[1::2]]
    assert min(parts) >= PARTS[0]
    assert len({*parts}) > 1


def test_takes_that_are_interrupted_resume_as_if_drawn_at_once(data: Path, start: Path, tmp_path):
    begun: list[int] = []

    def progress(done: int, total: int) -> None:
        begun.append(done)
        if begun == [0, 1, 2, 0, 1]:
            raise KeyboardInterrupt

    def drawn(name: str, seed: int = 1) -> list[list[int]]:
        config = toy_config(tmp_path / name, data, start=str(start), model=None, rehearsal=ASKED)
        config = replace(config, seed=seed)
        Path(config.run).mkdir(parents=True, exist_ok=True)
        forget_others(config)
        run_folder.write_config(config)
        draw(config, progress)
        return kept(Path(config.run))

    whole = drawn("whole")
    with pytest.raises(KeyboardInterrupt):
        drawn("cut")
    assert drawn("cut") == whole
    assert begun == [0, 1, 2, 0, 1, 1, 2]
    assert drawn("cut") == drawn("cut", seed=2) == whole  # seeds matter only to parts
    assert begun == [0, 1, 2, 0, 1, 1, 2, 0, 1, 2]


def test_a_rehearsal_needs_a_start(data: Path, tmp_path: Path):
    with pytest.raises(ValueError, match="a rehearsal needs a trained model, --start MODEL"):
        toy_config(tmp_path, data, rehearsal=ASKED)
    with pytest.raises(ValueError, match="weight is 0; it must be above 0"):
        RehearsalConfig(weight=0)
