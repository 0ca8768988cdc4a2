"""What the experiments say where some of their jobs fail, or what stands beside is missing."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from evaluation import likelihood
from evaluation.metrics.estimates import estimate
from evaluation.study import ablation as parts
from evaluation.study.ablation import ablation
from evaluation.study.accompaniment import accompanied, accompaniment
from evaluation.study.experiments import HeldOut, conduct, held_out
from evaluation.study.form_and_infilling import _table, form, infilling
from evaluation.study.losses import extrapolation, realisations
from evaluation.study.models import models_of
from evaluation.study.piece_jobs import Choice
from musicgen.storage import checkpoint
from musicgen.storage.checkpoint import Card
from tests.app.toy_models import write_model
from tests.evaluation.toys import toy_performer
from tests.training.makers import prepared_set
from tokenization.language import language
from tokenization.prepared import TOKENS_FILE

MADE = {"extrapolation": extrapolation, "realisations": realisations, "ablation": ablation}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("losses")
    prepared_set(folder / "remi", "remi", held_out=7)
    write_model(folder / "ape", "remi", "absolute")
    write_model(folder / "sine", "remi", "sine_spe")
    return folder


@pytest.fixture
def pieces(place: Path) -> HeldOut:
    return held_out(place / "remi", 40, 7, "validation", 0)


def conducted(
    kind: str, names: str, pieces: HeldOut, **more: bool
) -> tuple[dict[str, Any], list[str]]:
    """Return what comes of an experiment with models of these names, which lie beside the pieces."""
    place = pieces.prepared.folder.parent
    playables = models_of([str(place / name) for name in names.split()], "cpu")
    found, failures = conduct({kind: MADE[kind](playables, pieces, seed=0, device="cpu", **more)})
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


def test_models_are_compared_over_the_pieces_that_all_have_read(pieces, monkeypatch):
    others = replace(pieces, rows=pieces.rows[4:])
    alone, none = conducted("extrapolation", "ape sine", others)
    assert none == []
    fails(monkeypatch, range(1))  # a job reads four pieces, and the first piece ends it
    found, (failure,) = conducted("extrapolation", "ape sine", pieces)
    names = [pieces.prepared.name(row) for row in pieces.rows[:4]]
    assert failure == (
        f"{', '.join(names[:3])} and {names[3]} are left out of extrapolation for sine: a fault"
    )
    assert found["data"]["pieces"] == 3
    assert found["data"]["rows"] == alone["data"]["rows"]
    for one, other in zip(found["models"], alone["models"], strict=True):
        assert {**one, "seconds": 0} == {**other, "seconds": 0}
        assert one["apart"][0]["pieces"] == 3


def test_a_control_reads_what_lies_past_the_trained_length_once_more(pieces):
    [model] = conducted("extrapolation", "sine", pieces, control=True)[0]["models"]
    [without] = conducted("extrapolation", "sine", pieces)[0]["models"]
    assert model["control"]["pieces"] == 7
    assert model["control"]["deviation"] > 0
    assert "control" not in without
    assert model["parts"] == without["parts"]


def test_a_model_that_reads_nothing_is_left_out_and_takes_no_piece_from_the_others(
    pieces, monkeypatch
):
    fails(monkeypatch, range(99))
    found, failures = conducted("extrapolation", "ape sine", pieces)
    assert failures == ["sine is left out of extrapolation: a fault"]
    [ape] = found["models"]
    assert (ape["model"], ape["parts"]["trained"]["pieces"]) == ("ape", 7)
    assert "apart" not in ape


def test_tests_and_parts_of_a_model_are_over_the_pieces_that_it_read_in_all_of_them(
    pieces, monkeypatch
):
    fails(monkeypatch, range(5, 6))  # the second job of the first number
    found, (failure,) = conducted("realisations", "sine", pieces)
    assert "are left out of realisations for sine: a fault" in failure
    [model] = found["models"]
    assert [(test["pieces"], test["change"]["pieces"]) for test in model["tests"]] == [
        (4, 4)
    ] * len(model["tests"])
    fails(monkeypatch, range(1))
    found, (failure,) = conducted("ablation", "sine", pieces)
    assert "are left out of ablation for sine: a fault" in failure
    assert [model["pieces"]["within"] for model in found["models"]] == [3] * 4


@pytest.mark.parametrize(("measure", "shares"), [("end: tonic", True), ("leap", False)])
def test_only_the_signs_of_an_end_are_shares_of_pieces(measure: str, shares: bool):
    values = [0.0, 1.0, 1.0, None]
    rows = [
        {"piece": str(number), "measure": measure, "written": value, "real": value}
        for number, value in enumerate(values)
    ]
    expected = vars(estimate(values, shares=shares))
    assert _table(rows) == [{"measure": measure, "written": expected, "real": expected}]


@pytest.mark.parametrize(
    "make",
    [
        partial(form, prompt_bars=1, bars=1),
        partial(infilling, gap=1),
        partial(accompaniment, hide=["bass"], bars=2),
    ],
)
def test_of_damaged_tokens_nothing_is_kept_under_the_checksum_of_whole_ones(
    make: Callable[..., object], tmp_path: Path
):
    data = prepared_set(tmp_path / "data", "ensemble", held_out=2)
    models = models_of(["untrained:tiny:ensemble"], "cpu")
    choice = Choice(data=str(data), pieces=2, split="validation", seed=0, device="cpu")
    make(models, choice)
    tokens = bytearray((data / TOKENS_FILE).read_bytes())
    tokens[-2] ^= 1  # still a token
    (data / TOKENS_FILE).write_bytes(tokens)
    with pytest.raises(ValueError, match="is damaged: its checksum is not the one"):
        make(models, replace(choice))


@pytest.mark.parametrize(("bars", "after"), [(2, True), (3, False), (6, False)])
def test_music_that_a_piece_does_not_have_is_none_and_no_silence(
    bars: int, after: bool, tmp_path: Path
):
    """Each has 4 bars, with 4 notes of the bass a bar."""
    speaker = language("ensemble")
    card = Card(name="toy", language=speaker.spec(), trained_length=32)
    checkpoint.save(tmp_path / "model", toy_performer(speaker), card)
    data = prepared_set(tmp_path / "data", speaker.name, train=2, held_out=2)
    places = {"model": str(tmp_path / "model"), "data": str(data), "device": "cpu"}
    rows = {"row": 0, "same": 2, "other": None}
    measuring = accompanied(**places, **rows, hide=["bass"], bars=bars, seed=1)
    for work in next(measuring):
        work.finish()
    with pytest.raises(StopIteration) as done:
        next(measuring)
    found = {row["metric"]: row for row in done.value.value}
    notes = found["notes_a_bar"]
    assert (notes["real"], notes["same"], notes["other"]) == (4, 4, None)
    assert notes["next"] == (4 if after else None)
    assert (found["time_pitch"]["next"] is not None) == after
