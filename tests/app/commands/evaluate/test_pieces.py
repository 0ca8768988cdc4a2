"""Evaluations of whole pieces print what they say, or one line on what cannot be."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evaluation.study.realism import ALL
from tests.training.data.sources.on_disk import piano
from tests.training.makers import prepared_set
from tokenization.ensemble.language import Ensemble
from tokenization.score import Meters, Notes
from training.data.prepare import PreparedWriter

PIANO, REMI = "untrained:tiny:ensemble", "untrained:tiny:remi"
FEW_BARS = ("--prompt-bars", 2, "--bars", 3)


@pytest.fixture
def evaluate(command):
    return lambda *words: command("evaluate", *words, "--workers", 1)


@pytest.fixture
def measured(evaluate):
    """Return a function that gives the results of an evaluation, and its table of the first model by measure."""

    def run(*words: object) -> tuple[Any, dict[str, Any]]:
        found = json.loads(evaluate(*words, "--json").out)
        return found, {row["measure"]: row for row in found["models"][0]["table"]}

    return run


@pytest.fixture
def pianos(tmp_path) -> Path:
    steps = np.arange(6 * 8) * 12
    pieces = {f"piece{number}": (steps, 6 + 6 * number) for number in range(3)}
    written(tmp_path / "pianos", pieces)
    return tmp_path / "pianos"


@pytest.fixture
def grooves(shared_set) -> Path:
    return shared_set("groove", train=2)


def written(
    folder: Path, pieces: dict[str, tuple[np.ndarray, Any]], beats_a_bar: int = 4
) -> tuple[object, ...]:
    """Write a set of pieces of onsets and durations in 24ths of a beat, the last for training; return its option."""
    language = Ensemble()
    with PreparedWriter(folder, replace=False) as writer:
        for name, (onset, length) in pieces.items():
            notes = Notes(onset, 0 * onset + length, 0 * onset + 60, 0 * onset + 80, 0 * onset)
            meters = Meters(*np.array([[0, beats_a_bar, 4]]).T)
            score = piano(1).replace(notes=notes, meters=meters, ticks_per_beat=24)
            split = "train" if name == list(pieces)[-1] else "validation"
            writer.add(name, [language.encode(language.arrange(score))], split=split)
        writer.commit(
            {"language": language.spec(), "vocabulary": language.vocabulary.to_json(), "source": {}}
        )
    return "--data", folder


def test_form_stands_beside_that_of_the_piece(pianos, measured, evaluate, shared_set):
    words = ("form", PIANO, "--data", pianos, *FEW_BARS)
    found, table = measured(*words)
    assert (found["prompt_bars"], found["bars"], found["split"]) == (2, 3, "validation")
    assert table["notes"]["written"]["n"] == found["pieces"]
    assert table["notes"]["real"]["mean"] > 0
    assert table["end: all"]["middle"]["n"] + table["end: all"]["middle"]["missing"] > 0
    out = evaluate(*words).out
    assert "the real piece" in out
    assert "end: tonic" in out
    data = ("--data", shared_set("remi", train=2))
    out = evaluate("form", "untrained:tiny:remi", *data, *FEW_BARS).out  # which cannot end a piece
    assert "end:" not in out


def test_infilling_says_what_the_bars_after_a_gap_are_worth(pianos, measured):
    words = ("infilling", PIANO, "untrained:tiny:groove", "--data", pianos, "--gap", 1)
    found, table = measured(*words)
    assert set(table) == {"loss", "f1", "likeness", "leap"}
    assert table["loss"]["written"]["mean"] != table["loss"]["alone"]["mean"]
    assert found["left_out"] == [
        "left out of infilling, which is in ensemble, for speaking groove: untrained:tiny:groove"
    ]


def test_each_hidden_part_has_a_row_with_what_stands_beside_it(grooves, evaluate):
    how = ("--data", grooves, "--split", "validation", "--bars", 1, "--hide", "drums")
    found = json.loads(evaluate("accompaniment", PIANO, *how, "--json").out)
    assert (found["pieces"], found["bars"], found["split"]) == (2, 1, "validation")
    row, bar, at_once = found["models"][0]["table"]
    assert (bar["metric"], at_once["metric"]) == ("notes_a_bar", "sounding")
    assert bar["real"]["mean"] > 0
    assert (row["part"], row["metric"], row["pieces"]) == ("drums", "onset_drum", 2)
    assert 0 <= row["written"]["mean"] <= 1
    assert (row["same"]["n"], row["written"]["n"]) == (
        2,
        2,
    )  # a piece without a style counts by itself
    out, err = evaluate("accompaniment", PIANO, "untrained:tiny:groove", *how)
    assert out.startswith("Likeness of the style to the hidden part's")
    assert f"\n\n{PIANO}\n" in out
    assert "\ndrums: onset–drum " in out
    assert "\ndrums: notes at a time " in out
    assert max(map(len, out.splitlines())) <= 80
    assert "for speaking groove: untrained:tiny:groove\n" in err
    assert f"2 pieces of {grooves}." in err


def test_realism_prints_how_well_each_kind_of_statistic_tells_written_from_real(
    tmp_path: Path, command, monkeypatch
):
    monkeypatch.setattr("evaluation.study.realism.TREES", 10)
    monkeypatch.setattr("evaluation.study.realism.WINDOW", 2)
    data = prepared_set(tmp_path / "data", "remi", train=2)
    words = ("evaluate", "realism", REMI, "--data", data, "--split", "validation")
    words = (*words, "--prompt-bars", 1, "--bars", 4, "--workers", 1, "-o", tmp_path / "out")
    found = json.loads(command(*words, "--json").out)
    assert (found["prompt_bars"], found["bars"], found["split"]) == (1, 4, "validation")
    [model] = found["models"]
    assert {(row["bar"], row["side"]) for row in model["rows"]} == {
        (bar, side) for bar in (1, 3) for side in ("written", "real")
    }
    assert len({row["piece"] for row in model["rows"]}) == found["pieces"]
    assert json.loads((tmp_path / "out" / "realism.json").read_text()) == found
    assert ALL in (tmp_path / "out" / "realism.csv").read_text()
    out, err = command(*words)
    assert out.startswith("How often a written window")
    _, model, *lines = out.splitlines()[out.splitlines().index("") :]
    assert (model, lines[0].split()) == (
        REMI,
        ["told", "by", "AUC", "overlap", "written", "real", "n"],
    )
    assert lines[1].startswith("all statistics")
    assert max(map(len, out.splitlines())) <= 80
    assert f"pieces of {data}." in err


def test_originality_prints_a_table_and_the_closest_cases(tmp_path: Path, command, monkeypatch):
    monkeypatch.setattr("evaluation.study.originality.LEAST_NOTES", 1)
    data = prepared_set(tmp_path / "data", "remi", train=2)
    words = ("evaluate", "originality", REMI, "--data", data, "--split", "train")
    words = (*words, "--prompt-bars", 1, "--bars", 4, "--workers", 1, "-o", tmp_path / "out")
    found = json.loads(command(*words, "--json").out)
    same = next(row for row in found["models"][0]["table"] if row["measure"] == "the same")
    assert same["real"]["mean"] == 1  # these pieces are the training pieces
    assert same["written"]["mean"] < 1
    assert json.loads((tmp_path / "out" / "originality.json").read_text()) == found
    out = command(*words).out
    assert out.startswith("Each two bars")
    head, *cases = out.partition(f"closest passages of {REMI}\n")[2].splitlines()
    assert head.split()[:2] == ["alike", "piece"]
    alike = [line.split()[0] for line in cases]
    assert alike == sorted(alike, reverse=True)


@pytest.mark.parametrize(
    ("words", "spoken", "says"),
    [
        (f"form {PIANO} --bars 500", "ensemble", "has no piece of 508 bars in its validation"),
        ("form untrained:tiny:groove", "ensemble", "name a model that uses ensemble"),
        (f"infilling {PIANO} --gap 17", "ensemble", "--gap is 17; 16 bars at most can be filled"),
        ("accompaniment untrained:tiny:groove", "groove", "name a model that uses ensemble"),
        (f"accompaniment {PIANO} --bars 0", "groove", "--bars is 0; it must be 1 or more"),
        (f"realism {REMI} --bars 7", "remi", "--bars is 7; 8 or more are told apart, 8 at a time"),
        (f"realism {REMI} --pieces 0", "remi", "--pieces is 0; it must be 1 or more"),
        ("realism untrained:tiny:groove", "remi", "name a model that uses remi"),
        (f"originality {REMI} --bars 1", "remi", "--bars is 1; passages of 2 bars"),
    ],
)
def test_what_cannot_be_measured_is_said_in_a_line(
    words: str, spoken: str, says: str, shared_set, refused
):
    sizes = {} if spoken == "remi" else {"train": 2}
    assert says in refused("evaluate", *words.split(), "--data", shared_set(spoken, **sizes))
