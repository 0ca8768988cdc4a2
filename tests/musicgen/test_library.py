"""The library as the README shows it, and what comes without torch."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import musicgen
from musicgen.model.performer import Performer
from musicgen.storage.checkpoint import Card, save
from tokenization.midi.reading import read_midi

ROOT = Path(__file__).parents[2]
SEEDS = ROOT / "tests" / "seeds"
TINY = "untrained:tiny:groove-2"


def test_the_snippet_of_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    snippet = re.search(r"```python\n(import musicgen\n.*?)```", text, re.S)
    assert snippet
    monkeypatch.chdir(tmp_path)
    (tmp_path / "song.mid").write_bytes((SEEDS / "pop909_001.mid").read_bytes())
    exec(snippet[1], {})
    new, notes = map(
        int, re.match(r"(\d+) of (\d+) notes are new", capsys.readouterr().out).groups()
    )
    assert 0 < new < notes == len(read_midi(tmp_path / "out.mid").notes)
    assert b'"model": "pop-piano-2"' in (tmp_path / "out.mid").read_bytes()


def test_takes_differ_and_the_seed_decides():
    model = musicgen.load(TINY)
    source = SEEDS / "groove.mid"
    first, second = model.continue_(source, prompt_bars=2, bars=2, variations=2, seed=7)
    again, _ = model.continue_(source.read_bytes(), prompt_bars=2, bars=2, variations=2, seed=7)
    assert first.score.notes == again.score.notes
    assert first.score.notes != second.score.notes
    assert first.midi.startswith(b"MThd")


def test_a_piece_that_was_read_is_not_read_again():
    model = musicgen.load(TINY)
    piece = model.read(SEEDS / "groove.mid")
    assert piece.bars > 2
    [take] = model.continue_(piece, prompt_bars=1, bars=1)
    [other] = model.continue_(piece.score, prompt_bars=1, bars=1)
    assert take.score.notes == other.score.notes


@pytest.mark.parametrize(
    ("read_by", "name"), [("groove", "groove-2"), ("groove-2", "groove"), ("remi-2", "remi")]
)
def test_a_piece_that_a_model_of_another_language_read_is_heard_as_its_own_tokens(
    read_by: str, name: str
):
    model = musicgen.load(f"untrained:tiny:{name}")
    piece = musicgen.load(f"untrained:tiny:{read_by}").read(SEEDS / "groove.mid")
    heard = model.read(piece)
    assert model.language.validate(heard.encoded.ids) is None
    assert len(heard.score.notes) == len(piece.score.notes)
    [take] = model.continue_(piece, prompt_bars=2, bars=1)
    [own] = model.continue_(heard, prompt_bars=2, bars=1)
    assert take.score.notes == own.score.notes
    if model.language.can_end():
        [filled] = model.infill(piece, (2, 2), seed=1)
        first = piece.prompt(1).score.notes
        kept = filled.score.notes[filled.score.notes.onset_ticks < piece.prompt(1).ticks]
        assert (kept.pitch == first.pitch).all()


def test_tracks_of_a_piece_that_was_read_cannot_be_others():
    model = musicgen.load(TINY)
    piece = model.read(SEEDS / "groove.mid")
    with pytest.raises(ValueError, match=r"groove\.mid was read with the tracks that it has"):
        model.continue_(piece, tracks={"bass": 0}, bars=1)


def test_a_file_says_all_that_decided_its_music():
    """What is asked for otherwise is written otherwise; the parts of a groove by name, the music heard by a digest."""
    model, source = musicgen.load(TINY), SEEDS / "groove.mid"
    asked = [
        {"bars": 1}, {"bars": 2}, {"bars": 2, "ends": True}, {"bars": 2, "may_end": True}, {"tokens": 9},
        {"bars": 1, "prompt_bars": 2}, {"bars": 1, "tracks": {"drums": None}}, {"bars": 1, "seed": 3},
    ]  # fmt: skip
    said = [model.continue_(source, **{"prompt_bars": 1, **one})[0].provenance for one in asked]
    assert len({json.dumps(one) for one in said}) == len(asked)
    assert [one["length"] for one in said[1:5]] == [
        {"bars": 2}, {"bars": 2, "ends": True}, {"bars": 2, "may_end": True}, {"tokens": 9}
    ]  # fmt: skip
    assert said[6]["tracks"] == {"drums": None}
    assert said[0]["heard_sha256"] != said[6]["heard_sha256"]
    assert said[0]["program"].startswith("musicgen ")
    [filled] = model.infill(model.read(source, tracks={"drums": None}), (2, 2))
    assert filled.provenance["tracks"] == {"drums": None}
    assert len(filled.provenance["heard_sha256"]) == 64


def test_gaps_are_filled_and_parts_are_written():
    model = musicgen.load(TINY)
    piece = model.read(SEEDS / "groove.mid")
    [filled] = model.infill(piece, (2, 2), seed=1)
    assert filled.provenance["written_bars"] == [2, 2]
    [drummed] = model.accompany(piece, ["drums"], seed=1)
    assert drummed.provenance["written_parts"] == ["drums"]
    for parts in ("drums", iter(["drums"]), ["drums", "drums"]):
        [again] = model.accompany(piece, parts, seed=1)
        assert again.score.notes == drummed.score.notes
        assert again.provenance["written_parts"] == ["drums"]


@pytest.mark.parametrize(
    "chosen", [{"Bass", "Drums"}, np.array([0, 1]), iter([0, 1]), [np.int64(0), 1]]
)
def test_tracks_are_said_in_the_file_however_they_are_listed(chosen: object):
    [take] = musicgen.load("untrained:tiny:remi-2").continue_(
        SEEDS / "groove.mid", tracks=chosen, bars=1
    )
    assert sorted(take.provenance["tracks"]) in (["Bass", "Drums"], [0, 1])
    assert take.midi.startswith(b"MThd")


def test_what_was_written_is_new_also_where_it_is_as_before():
    """A bar of one note, say, that comes again: it counts as written, and a part that stays as it was is no failure."""
    model = musicgen.load(TINY)
    piece = model.read(SEEDS / "groove.mid")
    [filled] = model.infill(piece, (2, 2), seed=1)
    [again] = model.infill(model.read(filled.score), (2, 2), seed=1)
    assert again.score.notes == filled.score.notes
    assert again.continuation.notes == filled.continuation.notes
    lines = 48 * np.array([1, 2])
    onsets = filled.score.notes.onset_ticks
    assert len(again.continuation.notes) == ((onsets >= lines[0]) & (onsets < lines[1])).sum() > 0
    [drummed] = model.accompany(piece, ["drums"], seed=1)
    [again] = model.accompany(model.read(drummed.score), ["drums"], seed=1)
    assert len(again.continuation.notes) == (again.score.notes.track == 1).sum() > 0


def test_a_written_part_holds_no_note_for_longer_than_two_bars():
    """Although, in its data, the longest lasts for ten."""
    model = replace(musicgen.load(TINY), longest_ticks=[30, 5, 480])
    piece = model.read(SEEDS / "groove.mid")
    [take] = model.accompany(piece, ["other"], seed=2)
    notes = take.score.notes[take.score.notes.track == 2]
    held = notes.duration_ticks / take.score.ticks_per_beat
    assert 4 < held.max() <= 8


def test_a_take_is_saved_in_the_format_of_its_name(tmp_path: Path):
    [take] = musicgen.load("untrained:tiny").continue_(bars=2, seed=3)
    take.save(tmp_path / "out.mid")
    take.save(tmp_path / "out.musicxml")
    assert (tmp_path / "out.mid").read_bytes() == take.midi
    assert (tmp_path / "out.musicxml").read_bytes().startswith(b"<?xml")
    with pytest.raises(ValueError, match=r"out\.wav ends in none of \.mid, \.midi"):
        take.save(tmp_path / "out.wav")


def test_a_model_leaves_the_threads_of_torch_as_they_are():
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        musicgen.load("untrained:tiny").continue_(bars=1)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_weights_stay_after_where_a_model_goes_to_another_process():
    import pickle

    model = musicgen.load("untrained:tiny")
    assert len(pickle.dumps(model)) < 100_000
    assert "performer" not in vars(musicgen.find("untrained:tiny"))


def test_all_names_are_there_and_none_costs_torch_before_it_is_used():
    assert {*musicgen.__all__} <= {*dir(musicgen)}
    for name in musicgen.__all__:
        assert getattr(musicgen, name)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        musicgen.nothing  # noqa: B018
    program = (
        "import sys, musicgen; musicgen.Sampling, musicgen.Options, musicgen.Piece, musicgen.Take, musicgen.load\n"
        "from musicgen.loading import language_of; language_of('pop-piano'); print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.strip() == "False", done.stderr


def test_what_cannot_be_asked_for_is_said_in_a_sentence():
    model = musicgen.load(TINY)
    with pytest.raises(ValueError, match="variations is 0; it must be 1 or more"):
        model.continue_(bars=1, variations=0)
    with pytest.raises(ValueError, match=r"^the piece has \d+ bars, so the prompt cannot be"):
        model.continue_((SEEDS / "groove.mid").read_bytes(), prompt_bars=999)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"prompt_bars": 2.5}, "prompt_bars is 2.5, where a whole number is wanted"),
        ({"prompt_bars": "x"}, "prompt_bars is 'x', where a whole number is wanted"),
        ({"bars": "3"}, "bars is '3', where a whole number is wanted"),
        ({"bars": 1.5}, "bars is 1.5, where a whole number is wanted"),
        ({"bars": True}, "bars is True, where a whole number is wanted"),
        ({"tokens": 9.0}, "tokens is 9.0, where a whole number is wanted"),
        ({"variations": "2"}, "variations is '2', where a whole number is wanted"),
        ({"seed": "a"}, "seed is 'a', where a whole number is wanted"),
        ({"seed": 1.5}, "seed is 1.5, where a whole number is wanted"),
        ({"bars": 1, "tokens": 5}, "bars is 1 and tokens is 5; give one of them as the length"),
    ],
)
def test_what_is_no_whole_number_or_two_lengths_is_refused(asked: dict, said: str):
    model = musicgen.load(TINY)
    with pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
        model.continue_(SEEDS / "groove.mid", **asked)
    if "seed" in asked:
        with pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
            model.infill(SEEDS / "groove.mid", (2, 2), **asked)


def test_bars_to_fill_are_two_whole_numbers():
    model = musicgen.load(TINY)
    piece = model.read(SEEDS / "groove.mid")
    with pytest.raises(ValueError, match=r"^bars is 2, where the first and the last one are"):
        model.infill(piece, 2)
    for bars in ((2,), (2, 3, 4)):
        with pytest.raises(ValueError, match=r"where the first and the last one are"):
            model.infill(piece, bars)
    with pytest.raises(ValueError, match=r"^a bar to write anew is 1\.5, where a whole number is"):
        model.infill(piece, (1.5, 2))


def test_numbers_may_be_those_of_numpy():
    model = musicgen.load(TINY)
    asked = {"prompt_bars": np.int64(1), "bars": np.int64(1), "seed": np.int64(7)}
    [take] = model.continue_(SEEDS / "groove.mid", **asked)
    [same] = model.continue_(SEEDS / "groove.mid", prompt_bars=1, bars=1, seed=7)
    assert take.midi == same.midi
    assert json.loads(json.dumps(take.provenance)) == same.provenance
    assert model.infill(SEEDS / "groove.mid", (np.int64(2), np.int64(2)))[0].midi


def test_the_folder_of_a_model_may_be_a_path(tmp_path: Path):
    made = musicgen.load(TINY)
    save(tmp_path, made.performer, Card(name="x", language=made.language.spec(), trained_length=8))
    assert musicgen.load(tmp_path).name == "x"


def test_music_never_comes_of_a_model_that_was_saved_since(tmp_path: Path):
    """Its files would name the weights that were there before."""
    made = musicgen.load(TINY)
    card = Card(name="x", language=made.language.spec(), trained_length=8)
    save(tmp_path, made.performer, card)
    found = musicgen.find(str(tmp_path))
    save(tmp_path, Performer(made.performer.config, seed=1), card)
    with pytest.raises(ValueError, match="was saved anew since it was found"):
        found.performer  # noqa: B018
