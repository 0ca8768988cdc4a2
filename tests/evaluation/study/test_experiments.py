"""What the experiments say where some of their jobs fail, or the tokens are damaged."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from evaluation import likelihood
from evaluation.study import ablation as parts
from evaluation.study.ablation import ablation
from evaluation.study.accompaniment import accompaniment
from evaluation.study.experiments import HeldOut, conduct, held_out, models_of
from evaluation.study.form_and_infilling import form, infilling
from evaluation.study.losses import extrapolation, realisations
from evaluation.study.piece_jobs import Choice
from tests.app.toy_models import write_model
from tests.training.makers import prepared_set
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
