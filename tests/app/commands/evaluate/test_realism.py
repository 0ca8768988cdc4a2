"""`musicgen evaluate realism` prints how well written bars are told from real ones, or one line on what cannot be."""

import json
from pathlib import Path

import pytest

from evaluation.study import realism as telling_apart
from evaluation.study.realism import ALL
from tests.training.makers import prepared_set

MODEL = "untrained:tiny:remi"


def test_the_command_prints_a_table(tmp_path: Path, command, monkeypatch):
    monkeypatch.setattr(telling_apart, "TREES", 10)
    monkeypatch.setattr("evaluation.study.realism.WINDOW", 2)
    data = prepared_set(tmp_path / "data", "remi", train=2)
    words = ("evaluate", "realism", MODEL, "--data", data, "--split", "validation")
    words = (*words, "--prompt-bars", 1, "--bars", 4, "--workers", 1, "-o", tmp_path / "out")
    found = json.loads(command(*words, "--json").out)
    assert (found["prompt_bars"], found["bars"], found["split"]) == (1, 4, "validation")
    [model] = found["models"]
    assert {row["bar"] for row in model["rows"]} == {1, 3}
    assert {row["side"] for row in model["rows"]} == {"written", "real"}
    assert len({row["piece"] for row in model["rows"]}) == found["pieces"]
    assert json.loads((tmp_path / "out" / "realism.json").read_text()) == found
    assert ALL in (tmp_path / "out" / "realism.csv").read_text()
    out, err = command(*words)
    assert out.startswith("How often a written window")
    _, model, *lines = out.splitlines()[out.splitlines().index("") :]
    assert model == MODEL
    assert lines[0].split() == ["told", "by", "AUC", "written", "real", "n"]
    assert lines[1].startswith("all statistics")
    assert max(map(len, out.splitlines())) <= 80
    assert f"pieces of {data}." in err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (f"{MODEL} --bars 7", "--bars is 7; 8 or more are told apart, 8 at a time"),
        (f"{MODEL} --bars 500", "has no piece of 508 bars in its validation split"),
        (f"{MODEL} --pieces 0", "--pieces is 0; it must be 1 or more"),
        ("untrained:tiny:groove", "name a model that uses remi"),
    ],
)
def test_what_cannot_be_told_apart_is_said_in_a_line(words: str, says: str, shared_set, refused):
    data = shared_set("remi")
    assert says in refused(
        "evaluate", "realism", *words.split(), "--data", data, "--split", "validation"
    )
