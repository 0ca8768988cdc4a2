"""The critic of a model is made from its takes, which are kept, and chooses among its takes."""

import sys
from pathlib import Path

import numpy as np
import pytest

import musicgen
from evaluation import critic
from musicgen.critic import FIELDS, FILE
from tests.evaluation.toys import write_model
from tests.training.makers import prepared_set


@pytest.mark.long  # imports scikit-learn and generates
def test_a_critic_is_made_again_from_kept_takes(tmp_path: Path, monkeypatch):
    for name, value in {"PROMPT_BARS": 1, "BARS": 8, "SPARE": 0, "EPOCHS": 2}.items():
        monkeypatch.setattr(critic, name, value)
    model = write_model(tmp_path / "model", "remi", "sine_spe")
    data = prepared_set(tmp_path / "data", "remi", train=8, bars=10)
    words = [model, str(data), "--lessons", "4", "-o", str(tmp_path / "runs")]
    monkeypatch.setattr(sys, "argv", ["critic", *words])
    critic.main()
    takes = [*(tmp_path / "runs").rglob("draw_takes-*.json")]
    kept = {path: path.stat().st_mtime_ns for path in takes}
    first = (tmp_path / "model" / FILE).read_bytes()
    critic.main()
    # Of four lessons, for the first critic and for the one that learns from its choices.
    assert len(kept) == 8
    assert kept == {path: path.stat().st_mtime_ns for path in takes}
    assert (tmp_path / "model" / FILE).read_bytes() == first
    with np.load(tmp_path / "model" / FILE) as arrays:
        assert {*arrays.files} == {*FIELDS}
    take = musicgen.load(model).continue_(bars=2, draw=3)[0]
    assert take.provenance["best_of"] == 3
