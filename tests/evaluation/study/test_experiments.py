"""What the experiments say where some of their jobs fail, or the tokens are damaged."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evaluation import likelihood
from evaluation.study.accompaniment import accompaniment
from evaluation.study.experiments import HeldOut, conduct, held_out, models_of
from evaluation.study.form_and_infilling import form, infilling
from evaluation.study.losses import extrapolation
from evaluation.study.piece_jobs import Choice, drawn
from tests.app.toy_models import write_model
from tests.training.makers import prepared_set
from tokenization.prepared import TOKENS_FILE, Prepared


def test_models_are_compared_over_the_pieces_that_all_have_read(tmp_path: Path, monkeypatch):
    data = prepared_set(tmp_path / "remi", "remi", held_out=7)
    kinds = {"ape": "absolute", "sine": "sine_spe"}
    folders = [write_model(tmp_path / name, "remi", kind) for name, kind in kinds.items()]
    pieces = held_out(data, 40, 7, "validation", 0)
    read, begun = likelihood.piece_loss, []

    def compared(pieces: HeldOut) -> tuple[dict[str, Any], list[str]]:
        made = extrapolation(models_of(folders, "cpu"), pieces, seed=0, device="cpu")
        found, failures = conduct({"extrapolation": made})
        return found["extrapolation"], failures

    def piece_loss(model: Any, *arguments: Any) -> Any:
        if model.config.position_name == "sine_spe":
            begun.append(model)
            if len(begun) == 1:
                raise ValueError("a fault")
        return read(model, *arguments)

    alone, none = compared(replace(pieces, rows=pieces.rows[4:]))
    assert none == []
    # A job reads four pieces, and the first piece ends it.
    monkeypatch.setattr(likelihood, "piece_loss", piece_loss)
    found, (failure,) = compared(pieces)
    names = [pieces.prepared.name(row) for row in pieces.rows[:4]]
    assert failure == (
        f"{', '.join(names[:3])} and {names[3]} are left out of extrapolation for sine: a fault"
    )
    assert found["data"]["pieces"] == 3
    assert found["data"]["rows"] == alone["data"]["rows"]
    for one, other in zip(found["models"], alone["models"], strict=True):
        assert {**one, "seconds": 0} == {**other, "seconds": 0}
        assert one["apart"][0]["pieces"] == 3


def test_pieces_that_are_skipped_are_the_same_for_any_length(tmp_path: Path, monkeypatch):
    data = prepared_set(tmp_path / "data", "ensemble", held_out=0, tested=9)
    choice = Choice(data=str(data), pieces=9, split="test", seed=0, device="cpu")

    def taken(skip: int, fewest_bars: int = 0) -> list[int]:
        chosen, random = replace(choice, skip=skip), np.random.default_rng(0)
        rows, places = drawn(chosen, random, fewest_bars=fewest_bars)
        return chosen.prepared.pieces.file[rows[places]].tolist()

    every = taken(0)
    assert sorted(every) == list(range(8, 17))  # training pieces come first
    assert taken(4) == every[4:]
    bars, short = Prepared.bars, (every[1], every[5])

    def shortened(prepared: Prepared, row: int) -> np.ndarray:
        return bars(prepared, row)[: 1 if prepared.pieces.file[row] in short else None]

    monkeypatch.setattr(Prepared, "bars", shortened)
    assert taken(4, fewest_bars=2) == [file for file in every[4:] if file not in short]
    assert taken(9) == []


@pytest.mark.parametrize(
    "make",
    [
        partial(form, prompt_bars=1, bars=1),
        partial(infilling, gap=1),
        partial(accompaniment, hide=["bass"], bars=2),
    ],
)
def test_of_damaged_tokens_nothing_is_kept_under_the_checksum_of_whole_ones(make, tmp_path: Path):
    data = prepared_set(tmp_path / "data", "ensemble", held_out=2)
    models = models_of(["untrained:tiny:ensemble"], "cpu")
    choice = Choice(data=str(data), pieces=2, split="validation", seed=0, device="cpu")
    make(models, choice)
    tokens = bytearray((data / TOKENS_FILE).read_bytes())
    tokens[-2] ^= 1  # still a token
    (data / TOKENS_FILE).write_bytes(tokens)
    with pytest.raises(ValueError, match="is damaged: its checksum is not the one"):
        make(models, replace(choice))
