"""The library: the snippet of the README, the calls of a model, errors, and what works without torch."""

import json
import os
import pickle
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import musicgen
from musicgen.checkpoint import Card
from musicgen.completion import accompaniment, infilling
from musicgen.config import ModelConfig
from musicgen.continuation import Continuation
from musicgen.generation.request import Request
from musicgen.performer import Performer
from musicgen.pieces import read_piece
from musicgen.playable import load
from musicgen.weights import save
from tokenization.formats import write_score
from tokenization.midi.reading import read_midi
from tokenization.score import KeyChanges, Meters, Notes, Score, Tempos, Track

ROOT = Path(__file__).parents[2]
SEEDS = ROOT / "tests" / "seeds"
GROOVE = SEEDS / "groove.mid"


@pytest.fixture(scope="module")
def model():
    return musicgen.load("untrained:tiny:ensemble")


@pytest.fixture(scope="module")
def piece(model):
    return model.read(GROOVE)


@pytest.mark.parametrize("other", ["tokenization.py", "tokenization/__init__.py"])
def test_another_module_named_tokenization_is_reported(tmp_path: Path, other: str):
    (tmp_path / "song.py").write_text("import musicgen")
    for name in ("app.py", "training.py", "evaluation.py"):  # the library does not import these
        (tmp_path / name).write_text("raise SystemError")
    command = [sys.executable, str(tmp_path / "song.py")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    assert subprocess.run(command, env=environment, check=False).returncode == 0
    (tmp_path / other).parent.mkdir(exist_ok=True)
    (tmp_path / other).write_text("raise SystemError")
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    named = str(tmp_path / "tokenization")
    assert f"but Python finds {named}" in found.stderr.splitlines()[-1]


def test_the_snippet_of_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    snippet = re.search(r"```python\n(import musicgen\n.*?)```", text, re.S)
    assert snippet
    monkeypatch.chdir(tmp_path)
    (tmp_path / "song.mid").write_bytes((SEEDS / "pop909_001.mid").read_bytes())
    exec(snippet[1], {})
    said = re.match(r"(\d+) of (\d+) notes are new", capsys.readouterr().out)
    assert said
    new, notes = map(int, said.groups())
    assert 0 < new < notes == len(read_midi(tmp_path / "out.mid").notes)
    assert b'"model": "ensemble"' in (tmp_path / "out.mid").read_bytes()


def test_returns_of_a_form_vary_but_not_those_of_gaps_and_new_parts(model, piece):
    request = Request(bars=4, plan={"form": "A A"})
    form = Continuation(model, piece.prompt(2), request).order()
    assert form.sources
    assert form.varies
    parts = accompaniment(model, piece, ["drums"], Request())
    for work in (parts, infilling(model, piece, (2, 3), Request())):
        assert not work.order().varies


def test_the_seed_decides_the_takes_for_all_types_of_numbers_and_sources(model, piece):
    asked = {"prompt_bars": 2, "bars": 2, "variations": 2, "seed": 7}
    first, second = model.continue_(GROOVE, **asked)
    numbers = {name: np.int64(number) for name, number in asked.items()}
    again, _ = model.continue_(GROOVE, **numbers)
    assert first.midi == again.midi
    assert json.loads(json.dumps(again.provenance)) == first.provenance
    assert first.score.notes != second.score.notes
    for read in (piece, GROOVE.read_bytes()):
        assert model.continue_(read, **asked)[0].score.notes == first.score.notes
    # The score has the velocities and lengths of the language, not those of the file.
    assert np.array_equal(model.continue_(piece.score, **asked)[0].ids, first.ids)
    assert model.infill(piece, (np.int64(2), np.int64(2)))[0].midi.startswith(b"MThd")


def test_provenance_has_all_that_decided_the_music(model):
    """Different requests have different provenance: parts of a groove by name, the input by a digest."""
    asked = [
        {"bars": 1}, {"bars": 2}, {"bars": 2, "ends": True}, {"tokens": 9},
        {"bars": 1, "prompt_bars": 2}, {"bars": 1, "tracks": {"drums": None}}, {"bars": 1, "seed": 3},
    ]  # fmt: skip
    said = [model.continue_(GROOVE, **{"prompt_bars": 1, **one})[0].provenance for one in asked]
    assert len({json.dumps(one) for one in said}) == len(asked)
    assert [one["length"] for one in said[1:4]] == asked[1:4]
    assert said[5]["tracks"] == {"drums": None}
    assert said[0]["heard_sha256"] != said[5]["heard_sha256"]
    assert said[0]["program"].startswith("musicgen ")
    [filled] = model.infill(model.read(GROOVE, tracks={"drums": None}), (2, 2))
    assert filled.provenance["tracks"] == {"drums": None}
    assert len(filled.provenance["heard_sha256"]) == 64


def test_written_notes_count_as_new_even_if_they_equal_the_replaced_ones(model, piece):
    """A repeated bar of one note, for example; a part that comes out unchanged is not an error."""
    [filled] = model.infill(piece, (2, 2), seed=3)
    assert filled.provenance["written_bars"] == [2, 2]
    [again] = model.infill(model.read(filled.score), (2, 2), seed=3)
    # Their velocities are drawn from other given notes.
    for one, other in ((again.score, filled.score), (again.continuation, filled.continuation)):
        assert np.array_equal(one.notes.onset_ticks, other.notes.onset_ticks)
        assert np.array_equal(one.notes.pitch, other.notes.pitch)
    bar = filled.score.notes.onset_ticks // (4 * filled.score.ticks_per_beat)
    assert len(again.continuation.notes) == (bar == 1).sum() > 0
    short = model.read(SEEDS / "groove_short.mid")
    [drummed] = model.accompany(short, ["drums"], seed=1)
    for parts in ("drums", iter(["drums"]), ["drums", "drums"]):
        [same] = model.accompany(short, parts, seed=1)
        assert same.score.notes == drummed.score.notes
        assert same.provenance["written_parts"] == ["drums"]
    [again] = model.accompany(model.read(drummed.score), ["drums"], seed=1)
    assert len(again.continuation.notes) == again.score.on_drums.sum() > 0


def test_the_only_parts_are_named_as_their_player_knows_them(model):
    """A plus adds a part, which could accompany them."""
    notes = Notes([0], [24], [60], [80], [0])
    for track, name in ((Track("Lead"), "Lead"), (Track("", 73), "Flute")):
        piece = model.read(Score(ticks_per_beat=24, notes=notes, tracks=(track,)))
        said = rf"other part that Drums and {name} could accompany: \+\w+ adds .* {name}$"
        with pytest.raises(ValueError, match=said):
            model.accompany(piece, ["drums", 0])


def test_a_take_is_saved_in_the_format_of_its_name_and_threads_are_kept(tmp_path: Path):
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        [take] = musicgen.load("untrained:tiny").continue_(bars=2, seed=3)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    take.save(tmp_path / "out.mid")
    take.save(tmp_path / "out.musicxml")
    assert (tmp_path / "out.mid").read_bytes() == take.midi
    assert (tmp_path / "out.musicxml").read_bytes().startswith(b"<?xml")
    with pytest.raises(ValueError, match=r"out\.wav has an unknown ending: use \.mid, \.midi"):
        take.save(tmp_path / "out.wav")


def test_tempos_and_keys_of_bars_that_are_cut_off_are_not_written(model, tmp_path: Path):
    beats = np.arange(24) * 24
    score = Score(
        ticks_per_beat=24,
        notes=Notes(beats, beats * 0 + 24, 60 + beats % 7, beats * 0 + 80, beats * 0),
        tracks=(Track("Flute", 73),),
        tempos=Tempos([0, 96, 288], [90.0, 120.0, 30.0]),
        key_signature=(0, False),
        key_changes=KeyChanges([288], [3], [False]),
    )
    write_score(tmp_path / "movements.musicxml", score)
    for bars, tempos in ((2, [90, 120]), (1, [90]), (6, [90, 120, 30])):
        [take] = model.continue_(tmp_path / "movements.musicxml", prompt_bars=bars, bars=1, seed=3)
        take.save(tmp_path / "out.mid")
        read = read_midi(tmp_path / "out.mid")
        assert read.tempos.beats_per_minute.round().tolist() == tempos
        assert len(read.key_changes) == (bars == 6)


def test_public_names_exist_and_are_imported_without_torch_where_possible():
    assert {*musicgen.__all__} <= {*dir(musicgen)}
    for name in musicgen.__all__:
        assert getattr(musicgen, name)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        musicgen.nothing  # noqa: B018
    program = (
        "import sys, musicgen; musicgen.Sampling, musicgen.Request, musicgen.Piece, musicgen.Take, musicgen.load\n"
        "from musicgen.playable import language_of; language_of('ensemble'); print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.strip() == "False", done.stderr


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"prompt_bars": 2.5}, "prompt_bars is 2.5; it must be a whole number"),
        ({"bars": "3"}, "bars is '3'; it must be a whole number"),
        ({"seed": 1.5}, "seed is 1.5; it must be a whole number"),
        ({"bars": 1, "variations": 0}, "variations is 0; it must be 1 or more"),
        ({"bars": 0}, "bars is 0; it must be 1 or more"),
        ({"tokens": 0}, "tokens is 0; it must be 1 or more"),
        ({"tokens": 9, "ends": True}, "an end needs a length in bars; give bars instead of tokens"),
    ],
)
def test_invalid_requests_are_refused(model, asked: dict, said: str):
    with pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
        model.continue_(GROOVE, **asked)
    if "seed" in asked:
        with pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
            model.infill(GROOVE, (2, 2), **asked)


def test_requests_that_do_not_fit_the_piece_are_refused(model, piece):
    with pytest.raises(ValueError, match=r"^the piece has \d+ bars, so the prompt cannot be"):
        model.continue_(GROOVE.read_bytes(), prompt_bars=999)
    for bars in (2, (2,), (2, 3, 4)):
        with pytest.raises(ValueError, match=r"give the first and the last bar"):
            model.infill(piece, bars)
    with pytest.raises(ValueError, match=r"^a bar to rewrite is 1\.5; it must be a whole number"):
        model.infill(piece, (1.5, 2))


def test_weights_are_read_when_needed_and_must_be_those_that_were_found(model, tmp_path: Path):
    assert "performer" not in vars(musicgen.find("untrained:tiny"))
    assert len(pickle.dumps(musicgen.load("untrained:tiny"))) < 100_000
    card = Card(name="x", language=model.language.spec(), trained_length=8)
    save(tmp_path, model.performer, card)
    assert musicgen.load(tmp_path).name == "x"
    # A model saved again is refused: files would name the earlier weights.
    found = musicgen.find(str(tmp_path))
    save(tmp_path, Performer(model.performer.config, seed=1), card)
    with pytest.raises(ValueError, match="was saved again after it was found"):
        found.performer  # noqa: B018


def test_music_converts_to_pretty_midi_and_muspy_and_back(model):
    """With a tempo change and a metre other than 4/4."""
    score = Score(
        ticks_per_beat=24,
        notes=Notes([0, 24, 72, 96], [24, 12, 24, 48], [60, 64, 38, 67], [80, 90, 100, 70], [0, 0, 1, 0]),
        tracks=(Track("Flute", 73), Track("Drums", 0, is_drum=True)),
        tempos=Tempos([0, 72], [90.0, 120.0]),
        meters=Meters([0], [3], [4]),
    )  # fmt: skip
    piece = model.read(score)
    for other in (piece.to_pretty_midi(), piece.to_muspy()):
        again, was = model.read(other).score, piece.score
        assert (again.notes, again.meters) == (was.notes, was.meters)
        assert again.tempos.columns[1] == pytest.approx(was.tempos.columns[1], rel=1e-4)
        assert [track.program for track in again.tracks] == [track.program for track in was.tracks]
    pretty = model.continue_(piece.to_pretty_midi(), bars=1, seed=3)[0].to_pretty_midi()
    assert pretty.time_signature_changes[0].numerator == 3
    assert sum(len(one.notes) for one in pretty.instruments) >= len(score.notes)
    with pytest.raises(ValueError, match="muspy, not dict"):
        model.read({})


PROMPT_BARS = 2


def test_a_groove_keeps_its_prompt_and_has_no_longer_notes():
    model = load("untrained:tiny:groove")
    prompt = read_piece(model.language, GROOVE, name="groove.mid").prompt(PROMPT_BARS)
    given = prompt.score.notes
    own = [given.duration_ticks[given.track == track].max() for track in range(3)]
    heard = np.maximum(own, prompt.score.ticks_per_beat)
    work = Continuation(model, prompt, Request(bars=6, variations=3, seed=0))
    for take in work.finish().takes():
        notes = take.continuation.notes
        assert len(notes) > 9
        assert (notes.duration_ticks <= heard[notes.track]).all()
        before = take.score.notes[take.score.notes.onset_ticks < prompt.ticks]
        found, given = (x.sorted().columns[::2] for x in (before, prompt.score.notes))
        np.testing.assert_array_equal(found, given)  # onsets, pitches and tracks


def test_music_cut_short_by_the_encoding_is_kept_with_a_remark():
    made = load("untrained:tiny:groove")
    config = ModelConfig(
        vocabulary_size=len(made.language.vocabulary), layers=1, width=16, heads=2, feedforward=16,
        position={"name": "learned", "max_length": 60},
    )  # fmt: skip
    model = replace(made, read_performer=lambda: Performer(config).eval())
    takes = model.continue_(bars=200, variations=10)
    assert [take.tokens for take in takes] == [60] * 10
    for take in takes:
        assert len(take.score.notes)
        [remark] = take.score.remarks
        assert remark.startswith("the music is shorter than requested: the sequence reaches 61 ")
