"""`musicgen evaluate form` and `infilling` print what they say, real pieces beside, or one line on what cannot be."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.cli import main
from evaluation.metrics.form import form
from tests.app.toy_models import write_model
from tests.training.data.sources.on_disk import piano
from tests.training.makers import prepared_set
from tokenization.remi.language import RemiInEveryMetre
from tokenization.score import Meters, Notes, Score
from training.data.prepare import PreparedWriter

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


def test_more_can_be_written_than_pieces_have(data, capsys):
    words = ("form", MODEL, "--data", data, "--prompt-bars", 2, "--pieces", 2)
    assert run(*words, "--bars", 40, "--piece-bars", 3, "--json") == 0
    longer = json.loads(capsys.readouterr().out)
    assert (longer["bars"], longer["piece_bars"], longer["pieces"]) == (40, 3, 2)
    assert run(*words, "--bars", 3, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["piece_bars"] == 3
    long, short = (
        {row["measure"]: row["written"]["n"] for row in one["models"][0]["table"]}
        for one in (longer, found)
    )
    assert (long["phrases"], short["phrases"]) == (2, 0)  # of 8 bars


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


def test_a_piece_that_fails_is_left_out_and_what_was_measured_is_kept(
    data, tmp_path, capsys, monkeypatch
):
    failed = []

    def fail_once(score: Score, *words: Any) -> Any:
        if not failed:
            failed.append(score)
            raise ValueError("a fault")
        return form(score, *words)

    monkeypatch.setattr("evaluation.metrics.form.form", fail_once)
    command = ("form", MODEL, "--data", data, "--prompt-bars", 2, "--bars", 3, "--json")
    assert run(*command, "-o", tmp_path / "out") == 0
    said = capsys.readouterr()
    found = json.loads(said.out)
    assert re.search(rf"piece\d is left out of form for {MODEL}: a fault", said.err)
    assert len(found["failures"]) == 1
    [model] = found["models"]
    assert {row["measure"]: row for row in model["table"]}["notes"]["written"]["n"] == 1
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        ".results", "form.json", "form.csv"
    }  # fmt: skip
    assert json.loads((tmp_path / "out" / "form.json").read_text()) == found
    assert len(list((tmp_path / "out" / ".results").iterdir())) == 2
    assert "written" in (tmp_path / "out" / "form.csv").read_text()


def test_bars_are_counted_as_the_model_counts_them(tmp_path, capsys):
    """Eight bars of 3/4 are six of 4/4, and silence is not measured as music."""
    language = RemiInEveryMetre()
    with PreparedWriter(tmp_path / "set", replace=False) as writer:
        for name, bars, split in (
            ("a", 8, "validation"),
            ("b", 12, "validation"),
            ("c", 8, "train"),
        ):
            onset = np.arange(3 * bars) * 24
            score = piano(1).replace(
                notes=Notes(onset, 0 * onset + 24, 0 * onset + 60, 0 * onset + 80, 0 * onset),
                meters=Meters(*np.array([[0, 3, 4]]).T), ticks_per_beat=24,
            )  # fmt: skip
            writer.add(name, [language.encode(language.arrange(score))], split=split)
        writer.commit(
            {"language": language.spec(), "vocabulary": language.vocabulary.to_json(), "source": {}}
        )
    options = ("--data", tmp_path / "set", "--prompt-bars", 2, "--bars", 6, "--json")
    assert run("form", "untrained:tiny:remi", *options) == 0
    found = json.loads(capsys.readouterr().out)
    assert {row["piece"] for row in found["models"][0]["rows"]} == {"b"}
    assert run("form", MODEL, *options) == 0
    assert json.loads(capsys.readouterr().out)["pieces"] == 2


def test_the_end_of_a_piece_whose_last_note_rings_on_is_measured(tmp_path, capsys):
    language = RemiInEveryMetre()
    with PreparedWriter(tmp_path / "set", replace=False) as writer:
        for name, split in (("a", "validation"), ("b", "train")):
            onset = np.arange(21) * 24
            length = np.append(0 * onset[:-1] + 24, 8 * 24)  # past the line that its bar ends at
            notes = Notes(onset, length, 0 * onset + 60, 0 * onset + 80, 0 * onset)
            score = piano(1).replace(notes=notes, ticks_per_beat=24)
            writer.add(name, [language.encode(language.arrange(score))], split=split)
        writer.commit(
            {"language": language.spec(), "vocabulary": language.vocabulary.to_json(), "source": {}}
        )
    words = ("--data", tmp_path / "set", "--prompt-bars", 2, "--bars", 3)
    assert run("form", MODEL, *words, "--json") == 0
    [model] = json.loads(capsys.readouterr().out)["models"]
    table = {row["measure"]: row for row in model["table"]}
    assert (table["end: longer"]["real"]["n"], table["end: longer"]["real"]["mean"]) == (1, 1)


def test_a_long_piece_with_silence_where_it_is_cut_is_filled(tmp_path, capsys):
    language = RemiInEveryMetre()
    with PreparedWriter(tmp_path / "set", replace=False) as writer:
        for name, split in (("a", "validation"), ("b", "train")):
            onset = np.delete(np.arange(34), [30, 31]) * 96
            notes = Notes(onset, 0 * onset + 24, 0 * onset + 60, 0 * onset + 80, 0 * onset)
            score = piano(1).replace(notes=notes, ticks_per_beat=24)
            writer.add(name, [language.encode(language.arrange(score))], split=split)
        writer.commit(
            {"language": language.spec(), "vocabulary": language.vocabulary.to_json(), "source": {}}
        )
    assert run("infilling", MODEL, "--data", tmp_path / "set", "--gap", 1, "--json") == 0
    assert json.loads(capsys.readouterr().out)["failures"] == []


def test_who_is_left_out_is_named(data, tmp_path, capsys):
    words = ("untrained:tiny:groove", "--data", data, "--json")
    for kind, *options in (("form", "--prompt-bars", 2, "--bars", 3), ("infilling", "--gap", 1)):
        assert run(kind, MODEL, *words, *options) == 0
        said = capsys.readouterr()
        [sentence] = json.loads(said.out)["left_out"]
        assert sentence == (
            f"left out of {kind}, which is in remi-2, for speaking groove: untrained:tiny:groove"
        )
        assert sentence in said.err
    grooves = prepared_set(tmp_path / "grooves", "groove", train=1, held_out=1)
    options = ("--data", grooves, "--split", "validation", "--bars", 1, "--hide", "drums")
    assert run("accompaniment", "untrained:tiny:groove-2", "untrained:tiny:groove", *options) == 0
    assert "for speaking groove: untrained:tiny:groove\n" in capsys.readouterr().err


def test_in_a_language_without_goals_no_gap_is_filled(tmp_path, capsys):
    plain = prepared_set(tmp_path / "plain", "remi", train=1, held_out=1)
    assert run("infilling", "untrained:tiny:remi", "--data", plain) == 2
    said = capsys.readouterr().err
    assert f"{plain} is in remi, in which no gap is filled; name data in a later version" in said


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("form", MODEL, "--bars", 500), "has no piece of 508 bars in its validation split"),
        (("form", MODEL, "--bars", 0), "--bars is 0; it must be 1 or more"),
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


@pytest.mark.parametrize("kind", ["form", "infilling", "accompaniment", "ablation"])
def test_without_data_that_which_the_model_learned_from_is_looked_for(
    kind: str, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    prepared_set(tmp_path / "data" / "mine", "remi")
    model = write_model(Path("known"), "groove", "absolute", data="test pieces")
    assert run(kind, model) == 2
    assert "known learned from test pieces, which is not among" in capsys.readouterr().err
    if kind in ("form", "ablation"):
        model = write_model(Path("one"), "remi", "sine_spe", data="test pieces")
        few = ("--prompt-bars", 1, "--bars", 1) if kind == "form" else ("--length", 40)
        assert run(kind, model, "--pieces", 1, *few) == 0
