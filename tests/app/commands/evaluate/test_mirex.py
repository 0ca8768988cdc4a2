"""Reading, checking, writing and measuring continuations in the form of MIREX's task."""

import json
from pathlib import Path

import numpy as np
import pytest

import musicgen
from app.output import progress_bar
from evaluation import mirex
from evaluation.mirex import FIRST, GENERATION, LAST, PROMPT
from musicgen.generation.request import Request
from tests.training.makers import prepared_set
from tokenization.score import Notes

MODEL = "untrained:tiny:ensemble"


def note(start: int, pitch: int = 60, duration: int = 4) -> dict[str, int]:
    return {"start": start, "pitch": pitch, "duration": duration}


def given(folder: Path, *notes: dict[str, int], key: str = PROMPT) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{key}.json"
    path.write_text(json.dumps({key: notes}))
    return path


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ({"output": []}, "it needs a list 'generation' of notes with whole numbers"),
        ({GENERATION: []}, "has no note"),
        ({GENERATION: [note(80), note(79)]}, "note 2 of 2 breaks a rule: start in 80 to 271,"),
        ({GENERATION: [note(80, 128)]}, "note 1 of 1 breaks a rule"),
        ({GENERATION: [note(80, 60, 0)]}, "note 1 of 1 breaks a rule"),
        ({GENERATION: [note(80.5)]}, "is not in MIREX's format"),
        ({GENERATION: [note(10**30)]}, "is not in MIREX's format"),
        ({GENERATION: [{"start": 80, "pitch": 60}]}, "is not in MIREX's format"),
        ([1], "is not in MIREX's format"),
    ],
)
def test_a_file_that_breaks_a_rule_is_refused(tmp_path: Path, content, says: str):
    path = tmp_path / "one.json"
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"one\.json") as refused:
        mirex.read(path, GENERATION)
    assert says in str(refused.value)


def test_a_note_is_cut_at_the_end_as_the_task_requires(tmp_path: Path):
    path = given(tmp_path, note(270, 60, 9), key=GENERATION)
    assert mirex.read(path, GENERATION).end_ticks.tolist() == [LAST]


@pytest.mark.parametrize("starts", [(0, 16, 64), (16, 30, 79), (40,)])
def test_a_prompt_is_continued_by_twelve_bars(tmp_path: Path, starts: tuple[int, ...]):
    """With a pickup, without one, and with rests at either end."""
    prompt, out = mirex.read(given(tmp_path, *map(note, starts)), PROMPT), tmp_path / "out.json"
    model, request = musicgen.load(MODEL), Request(seed=1)
    [notes] = mirex.continued(model, [prompt], request, progress_bar)
    mirex.write(out, GENERATION, notes)
    written = mirex.read(out, GENERATION)
    assert written.onset_ticks.min() >= FIRST
    bars = (written.onset_ticks.max() - FIRST) // 16
    assert bars >= 8  # of 12; an untrained model can leave the last ones empty
    keys = written.onset_ticks * 128 + written.pitch
    assert len(np.unique(keys)) == len(keys)


def test_systems_are_measured_next_to_the_real_pieces(tmp_path: Path, command):
    data, folder = prepared_set(tmp_path / "data", "remi", train=3, bars=26), tmp_path / "prompts"
    words = ("evaluate", "mirex", folder, "--data", data, "--split", "train", "--pieces", 2)
    found = json.loads(command(*words, "--models", MODEL, "--json").out)
    label = MODEL.replace(":", "-")
    real, ours = found["table"]
    assert [(row["system"], row["prompts"]) for row in (real, ours)] == [("real", 2), (label, 2)]
    place = mirex.prompts_in(folder)[0]
    prompt = mirex.read(place / "prompt.json", PROMPT)
    again = {GENERATION: [note(FIRST, int(prompt.pitch[0]))]}
    (place / "theirs_01.json").write_text(json.dumps(again))
    assert max(map(len, command("evaluate", "mirex", folder).out.splitlines())) <= 80
    rows = {row["system"]: row for row in mirex.measured(folder)["table"]}
    assert rows["theirs"]["files"] == 1
    assert rows["theirs"]["notes"]["mean"] == pytest.approx(1 / 12)


def test_simultaneous_notes_of_one_pitch_are_merged():
    notes = Notes([0, 1, 6], [6, 12, 6], [60, 60, 60], [80, 80, 80], [0, 0, 0])
    score = mirex.piano(Notes.empty()).replace(ticks_per_beat=24, notes=notes)
    found = mirex.in_sixteenths(score)
    assert found.onset_ticks.tolist() == [0, 1]
    assert found.duration_ticks.tolist() == [2, 1]


def test_a_folder_without_prompts_or_continuations_is_reported(tmp_path: Path, shared_set, refused):
    assert "has no prompts" in refused("evaluate", "mirex", tmp_path)
    short = ("--data", shared_set("ensemble"), "--split", "train")
    said = refused("evaluate", "mirex", tmp_path, *short)
    assert "has no piece of 24 bars of 4/4 in its train split" in said
    given(tmp_path / "one", note(16))
    assert "has no continuations yet" in refused("evaluate", "mirex", tmp_path)
