"""Evaluations on whole pieces print their tables."""

import json
from pathlib import Path

import pytest

PIANO, REMI, GROOVE = (f"untrained:tiny:{name}" for name in ("ensemble", "remi", "groove"))


@pytest.fixture
def evaluate(command, shared_set, tmp_path: Path):
    """Return a function that runs an evaluation on a set of a language, and returns results, output and remarks."""

    def run(name: str, spoken: str, *words: object, train: int = 2):
        given = (name, *words, "--data", shared_set(spoken, train=train), "--workers", 1)
        out, err = command("evaluate", *given, "-o", tmp_path / "out")
        assert "--json" in words or max(map(len, out.splitlines())) <= 80
        return json.loads((tmp_path / "out" / f"{name}.json").read_text()), out, err

    return run


def test_form_is_compared_with_the_real_piece(evaluate):
    how = ("--prompt-bars", 1, "--bars", 3)
    found, out, _ = evaluate("form", "ensemble", PIANO, *how)
    table = {row["measure"]: row for row in found["models"][0]["table"]}
    assert (found["prompt_bars"], found["bars"], found["split"]) == (1, 3, "validation")
    assert table["notes"]["written"]["n"] == found["pieces"]
    assert table["notes"]["real"]["mean"] > 0
    assert table["end: all"]["middle"]["n"] + table["end: all"]["middle"]["missing"] > 0
    assert "real piece" in out
    free, *_ = evaluate("form", "ensemble", PIANO, *how, "--no-plan")
    rows = free["models"][0]["table"]
    assert free["planned"] is False
    assert not any(row["measure"].startswith("end: ") for row in rows)
    assert [row["real"] for row in rows] == [table[row["measure"]]["real"] for row in rows]
    assert [row["written"] for row in rows] != [table[row["measure"]]["written"] for row in rows]
    found, out, _ = evaluate("form", "remi", REMI, *how, "--json")
    assert json.loads(out) == found
    assert '"end: ' not in out  # this language cannot end a piece


@pytest.mark.long  # generates nine times
def test_a_plan_is_compared_with_music_without_guidance_and_without_a_plan(evaluate):
    how = ("--split", "train", "--pieces", 1, "--prompt-bars", 1, "--bars", 8)
    found, *_ = evaluate("plan", "ensemble", PIANO, *how)
    table = {row["measure"]: row for row in found["models"][0]["table"]}
    assert set(table) == {"density", "register", "loudness", "return"}
    assert len({table["density"][side]["mean"] for side in ("written", "unguided", "free")}) == 3


def test_infilling_measures_the_value_of_the_bars_after_a_gap(evaluate):
    found, *_ = evaluate("infilling", "ensemble", PIANO, GROOVE, "--gap", 1)
    table = {row["measure"]: row for row in found["models"][0]["table"]}
    assert set(table) == {"loss", "f1", "likeness"}
    assert table["loss"]["written"]["mean"] != table["loss"]["alone"]["mean"]
    left = f"left out of infilling, which uses the language ensemble: {GROOVE} (groove)"
    assert found["left_out"] == [left]


def test_gaps_are_filled_in_a_melody_alone_and_with_others(evaluate, monkeypatch):
    monkeypatch.setattr("evaluation.study.gaps.RETURNING", 0)
    monkeypatch.setattr("evaluation.study.gaps.CHORDS", 1)
    found, out, _ = evaluate("gaps", "ensemble", PIANO, "--gap", 1, "--pieces", 1)
    table = {row["measure"]: row for row in found["models"][0]["table"]}
    assert {measure.partition(":")[0] for measure in table} == {"melody alone", "melody and others"}
    scores = table["melody alone: note F1"]
    assert scores["best"]["mean"] >= scores["before"]["mean"]
    assert "\nmelody alone: note F1 " in out


def test_parts_are_counted_before_and_after_the_seam(evaluate):
    found, out, _ = evaluate("tracks", "ensemble", PIANO, "--prompt-bars", 1, "--bars", 2)
    table = {row["measure"]: row for row in found["models"][0]["table"]}
    assert set(table) == {"busiest", "playing parts go on", "silent parts enter", "notes by part"}
    assert 0 < table["notes by part"]["written"]["mean"] <= 1
    assert table["silent parts enter"]["without"]["mean"] in (0, None)
    assert "\nplaying parts go on " in out


def test_each_hidden_part_has_a_row_with_its_references(evaluate):
    how = ("--split", "validation", "--bars", 1, "--hide", "drums", "--hear-chords")
    found, out, err = evaluate("accompaniment", "groove", PIANO, GROOVE, *how)
    assert (found["pieces"], found["bars"], found["hear_chords"]) == (2, 1, True)
    row, bar, at_once = found["models"][0]["table"]
    assert (bar["measure"], at_once["measure"]) == ("drums: notes per bar", "drums: polyphony")
    assert bar["real"]["mean"] > 0
    assert (row["measure"], row["pieces"]) == ("drums: onset–drum", 2)
    assert 0 <= row["written"]["mean"] <= 1
    assert (row["same"]["n"], row["written"]["n"]) == (2, 2)  # without a style, a piece is its own
    assert out.startswith("onset–duration, time–pitch, onset–drum: similarity of style to the")
    assert "\ndrums: onset–drum " in out
    assert f": {GROOVE} (groove)\n" in err


@pytest.fixture
def quick_critics(monkeypatch):
    """Let small critics judge short windows."""
    monkeypatch.setattr("evaluation.study.critics.TREES", 5)
    monkeypatch.setattr("evaluation.study.critics.EPOCHS", 1)
    monkeypatch.setattr("evaluation.study.realism.WINDOW", 2)
    monkeypatch.setattr("evaluation.study.realism.SPARE", 0)


@pytest.mark.usefixtures("quick_critics")
def test_realism_keeps_takes_and_judges_held_out_pieces(evaluate, tmp_path):
    how = ("--split", "validation", "--prompt-bars", 1, "--bars", 4)
    found, out, _ = evaluate("realism", "remi", REMI, *how)
    row, *others = found["models"][0]["table"]
    assert (row["measure"], row["windows"]) == ("statistics, boosting", 4 * row["pieces"])
    assert row["pieces"] == found["pieces"]
    controls = [one for one in others if one["measure"].startswith("control")]
    assert len(controls) == 2
    for one in controls:  # they have real music only
        assert one["windows"] == row["windows"] / 2
    assert out.startswith("AUC of critics that tell generated")
    kept = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out/.results").iterdir()}
    assert len(kept) == found["pieces"] + found["lessons"]
    assert evaluate("realism", "remi", REMI, *how)[0]["models"] == found["models"]
    assert kept == {
        path.name: path.stat().st_mtime_ns for path in (tmp_path / "out/.results").iterdir()
    }


@pytest.mark.usefixtures("quick_critics")
def test_training_pieces_are_judged_by_critics_of_others(evaluate, tmp_path, monkeypatch):
    monkeypatch.setattr("tokenization.prepared.Prepared.teaches", lambda _, row: row % 2)
    how = ("--split", "train", "--prompt-bars", 1, "--bars", 4)
    found, *_ = evaluate("realism", "remi", REMI, *how, train=6)
    assert min(found["pieces"], found["lessons"]) > 1
    assert len([*(tmp_path / "out/.results").iterdir()]) == found["pieces"] + found["lessons"]


def test_originality_prints_a_table_and_the_closest_cases(evaluate, monkeypatch):
    monkeypatch.setattr("evaluation.study.originality.LEAST_NOTES", 1)
    how = ("--split", "train", "--prompt-bars", 1, "--bars", 4, "--recall", 0.5)
    monkeypatch.setattr("app.output.QUIET_SECONDS", 0)
    found, out, err = evaluate("originality", "remi", REMI, *how)
    assert err.startswith("Indexing training pieces: 0 of 2\n")
    assert "Indexing" not in evaluate("originality", "remi", REMI, *how)[2]  # all is stored
    same = next(row for row in found["models"][0]["table"] if row["measure"] == "the same")
    assert found["recall"] == 0.5
    assert same["real"]["mean"] == 1  # these pieces are the training pieces
    assert same["written"]["mean"] < 1
    assert out.startswith("Every two bars are compared")
    head, *cases = out.partition(f"Closest passages of {REMI}\n")[2].splitlines()
    assert head.split()[:2] == ["similarity", "piece"]
    similarities = [line.split()[0] for line in cases]
    assert similarities == sorted(similarities, reverse=True)
