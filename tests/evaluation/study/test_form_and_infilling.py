"""Whole pieces: which rows of their tables are shares of pieces, and which data they are taken from."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from evaluation.metrics.estimates import estimate
from evaluation.study.accompaniment import accompaniment
from evaluation.study.form_and_infilling import _table, form, infilling
from evaluation.study.models import models_of
from evaluation.study.piece_jobs import Choice
from tests.training.makers import prepared_set
from tokenization.prepared import TOKENS_FILE


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
    again = Choice(data=str(data), pieces=2, split="validation", seed=0, device="cpu")
    with pytest.raises(ValueError, match="is damaged: its checksum is not the one"):
        make(models, again)
