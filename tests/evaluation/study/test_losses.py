"""What the experiments on losses say where some of their jobs fail."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evaluation import ablation as parts
from evaluation import likelihood
from evaluation.study.ablation import ablation
from evaluation.study.experiments import Experiment, HeldOut, conduct, held_out
from evaluation.study.losses import extrapolation, realisations
from evaluation.study.models import models_of
from tests.app.toy_models import write_model
from tests.training.makers import prepared_set

MADE = {"extrapolation": extrapolation, "realisations": realisations, "ablation": ablation}
LENGTH = 40


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("losses")
    prepared_set(folder / "remi", "remi", held_out=7)
    write_model(folder / "ape", "remi", "absolute")
    write_model(folder / "sine", "remi", "sine_spe")
    return folder


@pytest.fixture
def pieces(place: Path) -> HeldOut:
    return held_out(place / "remi", LENGTH, 7, "validation", 0)


def conducted(
    kind: str, place: Path, pieces: HeldOut, *names: str
) -> tuple[dict[str, Any], list[str]]:
    playables = models_of([str(place / name) for name in names], "cpu")
    experiment: Experiment = MADE[kind](playables, pieces, seed=0, device="cpu")
    found, failures = conduct({kind: experiment})
    return found[kind], failures


def fails(monkeypatch: pytest.MonkeyPatch, calls: range, *models: str) -> None:
    """Let reading some pieces fail, counted from 0, by the models of these encodings."""
    read = likelihood.piece_loss
    counts = dict.fromkeys(models, -1)

    def piece_loss(model: Any, *arguments: Any) -> Any:
        if (name := model.config.position_name) in counts:
            counts[name] += 1
            if counts[name] in calls:
                raise ValueError("a fault")
        return read(model, *arguments)

    monkeypatch.setattr(likelihood, "piece_loss", piece_loss)
    monkeypatch.setattr(parts, "piece_loss", piece_loss)


def test_models_are_compared_over_the_pieces_that_all_have_read(place, pieces, monkeypatch):
    whole, none = conducted("extrapolation", place, pieces, "ape", "sine")
    assert none == []
    fails(monkeypatch, range(1), "sine_spe")  # a job reads four pieces, and the first piece ends it
    found, failures = conducted("extrapolation", place, pieces, "ape", "sine")
    names = [pieces.prepared.name(row) for row in pieces.rows[:4]]
    assert failures == [
        f"{', '.join(names[:3])} and {names[3]} are left out of extrapolation for sine: a fault"
    ]
    assert [model["model"] for model in found["models"]] == ["ape", "sine"]
    assert found["data"]["pieces"] == 3
    assert found["data"]["rows"] != whole["data"]["rows"]
    for model in found["models"]:
        assert model["parts"]["trained"]["pieces"] == 3
        assert model["apart"][0]["pieces"] == 3
    others = replace(pieces, rows=pieces.rows[4:])
    alone, _ = conducted("extrapolation", place, others, "ape", "sine")
    for one, other in zip(found["models"], alone["models"], strict=True):
        assert {**one, "seconds": 0} == {**other, "seconds": 0}


def test_a_control_reads_what_lies_past_the_trained_length_once_more(place, pieces):
    playables = models_of([str(place / "sine")], "cpu")
    assert playables[0].trained_length < LENGTH
    made = extrapolation(playables, pieces, seed=0, device="cpu", control=True)
    found, failures = conduct({"extrapolation": made})
    assert failures == []
    [model], [plain] = (
        result["models"]
        for result in (found["extrapolation"], conducted("extrapolation", place, pieces, "sine")[0])
    )
    assert model["control"]["pieces"] == 7
    assert model["control"]["deviation"] > 0
    assert "control" not in plain
    assert model["parts"] == plain["parts"]


def test_a_model_that_reads_nothing_is_left_out_and_takes_no_piece_from_the_others(
    place, pieces, monkeypatch
):
    fails(monkeypatch, range(99), "sine_spe")
    found, failures = conducted("extrapolation", place, pieces, "ape", "sine")
    assert failures == ["sine is left out of extrapolation: a fault"]
    [ape] = found["models"]
    assert (ape["model"], ape["parts"]["trained"]["pieces"]) == ("ape", 7)
    assert "apart" not in ape


def test_tests_of_a_model_are_over_the_pieces_that_it_read_in_all_of_them(
    place, pieces, monkeypatch
):
    fails(monkeypatch, range(5, 6), "sine_spe")  # the second job of the first number
    found, failures = conducted("realisations", place, pieces, "sine")
    assert len(failures) == 1
    assert "are left out of realisations for sine: a fault" in failures[0]
    [model] = found["models"]
    assert len(model["tests"]) > 2
    assert {test["pieces"] for test in model["tests"]} == {4}
    assert {test["change"]["pieces"] for test in model["tests"]} == {4}


def test_parts_are_taken_away_over_the_pieces_that_could_be_read(place, pieces, monkeypatch):
    fails(monkeypatch, range(1), "sine_spe")
    found, failures = conducted("ablation", place, pieces, "sine")
    assert "are left out of ablation for sine: a fault" in failures[0]
    assert len(found["models"]) > 2
    assert {model["pieces"]["within"] for model in found["models"]} == {3}
