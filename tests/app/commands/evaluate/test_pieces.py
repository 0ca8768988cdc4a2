"""`musicgen evaluate form` and `infilling` print what they say, real pieces beside, or one line on what cannot be."""

import json
from pathlib import Path

import pytest

from app.cli import main
from tests.training.makers import prepared_set

MODEL = "untrained:tiny:remi-2"


def run(kind: str, *words: object) -> int:
    return main(["evaluate", kind, *(str(word) for word in words), "--workers", "1"])


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepared_set(tmp_path_factory.mktemp("data") / "set", "remi-2", train=2)


def test_form_stands_beside_that_of_the_piece(data, capsys):
    command = ("form", MODEL, "--data", data, "--prompt-bars", 2, "--bars", 3)
    assert run(*command, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["prompt_bars"], found["bars"], found["split"]) == (2, 3, "validation")
    [model] = found["models"]
    table = {row["measure"]: row for row in model["table"]}
    assert table["notes"]["written"]["n"] == found["pieces"]
    assert table["notes"]["real"]["mean"] > 0
    assert table["end: all"]["middle"]["n"] + table["end: all"]["middle"]["missing"] > 0
    assert run(*command) == 0
    out = capsys.readouterr().out
    assert "the real piece" in out
    assert "end: tonic" in out


def test_a_model_that_cannot_end_a_piece_is_not_asked_to(data, capsys):
    words = ("form", "untrained:tiny:remi", "--data", data, "--prompt-bars", 2, "--bars", 3)
    assert run(*words) == 0
    assert "end:" not in capsys.readouterr().out


def test_infilling_says_what_the_bars_after_a_gap_are_worth(data, capsys):
    assert run("infilling", MODEL, "--data", data, "--gap", 1, "--json") == 0
    [model] = json.loads(capsys.readouterr().out)["models"]
    table = {row["measure"]: row for row in model["table"]}
    assert set(table) == {"loss", "f1", "likeness", "leap"}
    assert table["loss"]["written"]["mean"] != table["loss"]["alone"]["mean"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("form", MODEL, "--bars", 500), "has no piece of 508 bars in its validation split"),
        (("form", MODEL, "--bars", 0), "--bars is 0; it is 1 or more"),
        (("form", "untrained:tiny:groove"), "name a model that speaks remi-2"),
        (("infilling", "untrained:tiny:remi"), "name a model that speaks remi-2"),
        (("infilling", MODEL, "--gap", 17), "--gap is 17; 16 bars at most can be filled at once"),
    ],
)
def test_what_cannot_be_measured_is_said_in_a_line(data, capsys, words, says):
    assert run(*words, "--data", data) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert says in captured.err
    assert "Traceback" not in captured.err
