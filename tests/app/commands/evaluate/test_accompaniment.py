"""`musicgen evaluate accompaniment` prints what it says, with n and spread, or one line on what cannot be."""

import json
from pathlib import Path

import pytest

from app.cli import main
from tests.training.makers import prepared_set

MODEL = "untrained:tiny:groove-2"


def run(*words: object) -> int:
    return main(["evaluate", "accompaniment", *(str(word) for word in words), "--workers", "1"])


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepared_set(tmp_path_factory.mktemp("data") / "set", "groove", train=2)


def test_each_hidden_part_has_a_row_with_what_stands_beside_it(data, capsys):
    command = (MODEL, "--data", data, "--split", "validation", "--bars", 1, "--hide", "drums")
    assert run(*command, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["pieces"], found["bars"], found["split"]) == (2, 1, "validation")
    [model] = found["models"]
    row, bar, at_once = model["table"]
    assert (bar["metric"], at_once["metric"]) == ("notes_a_bar", "sounding")
    assert bar["real"]["mean"] > 0
    assert (row["part"], row["metric"], row["pieces"]) == ("drums", "onset_drum", 2)
    assert 0 <= row["written"]["mean"] <= 1
    assert row["same"]["mean"] is not None  # pieces without a style count as one
    assert run(*command) == 0
    out, err = capsys.readouterr()
    caption, header, line, _, last = out.splitlines()
    assert caption.startswith("Likeness of the style to the hidden part's")
    assert header.split()[:2] == ["model", "measure"]
    assert line.split()[:3] == [MODEL, "drums:", "onset–drum"]
    assert last.split()[:6] == [MODEL, "drums:", "notes", "at", "a", "time"]
    assert f"2 pieces of {data}." in err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("untrained:tiny:groove",), "name a model that speaks groove-2"),
        (("untrained:tiny",), "for speaking remi: untrained:tiny; name a model that speaks"),
        ((MODEL, "--bars", 0), "--bars is 0; it must be 1 or more"),
        ((MODEL, "--split", "test"), "has no piece in its test split; another --split may have"),
    ],
)
def test_what_cannot_be_measured_is_said_in_a_line(data, capsys, words, says):
    assert run(*words, "--data", data) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert says in captured.err
    assert "Traceback" not in captured.err


def test_pieces_without_a_part_to_hide_are_no_result(data, capsys, monkeypatch):
    monkeypatch.setattr("evaluation.accompaniment.hidden_parts", lambda piece: [])
    assert run(MODEL, "--data", data, "--split", "validation", "--bars", 1) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert f"in none of the 2 pieces of {data} is there anything to measure" in said.err


def test_data_of_another_language_are_refused(tmp_path, capsys):
    pianos = prepared_set(tmp_path / "pianos", "remi", train=1, held_out=1)
    assert run(MODEL, "--data", pianos) == 2
    assert "is in remi; parts are hidden in a data set of grooves" in capsys.readouterr().err
