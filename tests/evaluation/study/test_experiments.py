"""What the experiments say where some of their jobs fail, or what stands beside is missing."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from evaluation import ablation as parts
from evaluation import likelihood
from evaluation.metrics.estimates import estimate
from evaluation.study.ablation import ablation
from evaluation.study.accompaniment import accompanied, accompaniment
from evaluation.study.experiments import Experiment, HeldOut, conduct, held_out
from evaluation.study.form_and_infilling import _table, form, infilling
from evaluation.study.losses import extrapolation, realisations
from evaluation.study.models import models_of
from evaluation.study.piece_jobs import Choice
from musicgen.storage import checkpoint
from musicgen.storage.checkpoint import Card
from tests.app.toy_models import write_model
from tests.evaluation.toys import toy_performer
from tests.training.makers import prepared_set
from tokenization.groove_2.language import Groove2
from tokenization.prepared import TOKENS_FILE

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
    kind: str, place: Path, pieces: HeldOut, *names: str, **more: bool
) -> tuple[dict[str, Any], list[str]]:
    playables = models_of([str(place / name) for name in names], "cpu")
    experiment: Experiment = MADE[kind](playables, pieces, seed=0, device="cpu", **more)
    found, failures = conduct({kind: experiment})
    return found[kind], failures


def fails(monkeypatch: pytest.MonkeyPatch, calls: range) -> None:
    """Let reading some pieces fail, counted from 0, by sine."""
    read, count = likelihood.piece_loss, -1

    def piece_loss(model: Any, *arguments: Any) -> Any:
        nonlocal count
        if model.config.position_name == "sine_spe":
            count += 1
            if count in calls:
                raise ValueError("a fault")
        return read(model, *arguments)

    monkeypatch.setattr(likelihood, "piece_loss", piece_loss)
    monkeypatch.setattr(parts, "piece_loss", piece_loss)


def test_models_are_compared_over_the_pieces_that_all_have_read(place, pieces, monkeypatch):
    whole, none = conducted("extrapolation", place, pieces, "ape", "sine")
    assert none == []
    fails(monkeypatch, range(1))  # a job reads four pieces, and the first piece ends it
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
    controlled, failures = conducted("extrapolation", place, pieces, "sine", control=True)
    plain, _ = conducted("extrapolation", place, pieces, "sine")
    assert failures == []
    [model], [without] = controlled["models"], plain["models"]
    assert model["trained_length"] < LENGTH
    assert model["control"]["pieces"] == 7
    assert model["control"]["deviation"] > 0
    assert "control" not in without
    assert model["parts"] == without["parts"]


def test_a_model_that_reads_nothing_is_left_out_and_takes_no_piece_from_the_others(
    place, pieces, monkeypatch
):
    fails(monkeypatch, range(99))
    found, failures = conducted("extrapolation", place, pieces, "ape", "sine")
    assert failures == ["sine is left out of extrapolation: a fault"]
    [ape] = found["models"]
    assert (ape["model"], ape["parts"]["trained"]["pieces"]) == ("ape", 7)
    assert "apart" not in ape


def test_tests_of_a_model_are_over_the_pieces_that_it_read_in_all_of_them(
    place, pieces, monkeypatch
):
    fails(monkeypatch, range(5, 6))  # the second job of the first number
    found, failures = conducted("realisations", place, pieces, "sine")
    assert len(failures) == 1
    assert "are left out of realisations for sine: a fault" in failures[0]
    [model] = found["models"]
    assert len(model["tests"]) > 2
    for test in model["tests"]:
        assert (test["pieces"], test["change"]["pieces"]) == (4, 4)


def test_parts_are_taken_away_over_the_pieces_that_could_be_read(place, pieces, monkeypatch):
    fails(monkeypatch, range(1))
    found, failures = conducted("ablation", place, pieces, "sine")
    assert "are left out of ablation for sine: a fault" in failures[0]
    assert len(found["models"]) > 2
    assert {model["pieces"]["within"] for model in found["models"]} == {3}


@pytest.mark.parametrize(
    ("measure", "shares"), [("end: tonic", True), ("leap", False), ("returns", False)]
)
def test_only_the_signs_of_an_end_are_shares_of_pieces(measure: str, shares: bool):
    values = [0.0, 1.0, 1.0, None]
    rows = [
        {"piece": str(number), "measure": measure, "written": value, "real": value}
        for number, value in enumerate(values)
    ]
    [row] = _table(rows)
    expected = vars(estimate(values, shares=shares))
    assert row == {"measure": measure, "written": expected, "real": expected}


@pytest.mark.parametrize(
    "make",
    [
        partial(form, prompt_bars=1, bars=1),
        partial(infilling, gap=1),
        partial(accompaniment, hide=["bass"], bars=2),
    ],
    ids=["form", "infilling", "accompaniment"],
)
def test_of_damaged_tokens_nothing_is_kept_under_the_checksum_of_whole_ones(
    make: Callable[..., object], tmp_path: Path
):
    data = prepared_set(tmp_path / "data", "groove-2", held_out=2)
    models = models_of(["untrained:tiny:groove-2"], "cpu")
    choice = Choice(data=str(data), pieces=2, split="validation", seed=0, device="cpu")
    make(models, choice)
    tokens = bytearray((data / TOKENS_FILE).read_bytes())
    tokens[-2] ^= 1  # still a token
    (data / TOKENS_FILE).write_bytes(tokens)
    with pytest.raises(ValueError, match="is damaged: its checksum is not the one"):
        make(models, replace(choice))


@pytest.mark.parametrize(("bars", "after"), [(2, True), (3, False), (4, False), (6, False)])
def test_music_that_a_piece_does_not_have_is_none_and_no_silence(
    bars: int, after: bool, tmp_path: Path
):
    """Each has 4 bars, with 4 notes of the bass a bar."""
    language = Groove2()
    card = Card(name="toy", language=language.spec(), trained_length=32)
    checkpoint.save(tmp_path / "model", toy_performer(language), card)
    data = prepared_set(tmp_path / "data", language.name, train=2, held_out=2)
    measuring = accompanied(
        model=str(tmp_path / "model"), data=str(data), device="cpu", row=0, same=2, other=None,
        hide=["bass"], bars=bars, seed=1,
    )  # fmt: skip
    for work in next(measuring):
        work.finish()
    with pytest.raises(StopIteration) as done:
        next(measuring)
    rows = {row["metric"]: row for row in done.value.value}
    notes = rows["notes_a_bar"]
    assert (notes["real"], notes["same"], notes["other"]) == (4, 4, None)
    assert notes["next"] == (4 if after else None)
    assert (rows["time_pitch"]["next"] is not None) == after
