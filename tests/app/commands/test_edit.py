"""`musicgen edit` changes what its options name, and keeps everything else in the file."""

import json
from pathlib import Path

import pytest

import musicgen
from app.cli import main
from tests.tokenization.midi.all_events import all_events
from tests.tokenization.midi.test_changing import gone_and_new
from tests.tokenization.midi.test_keeping import band
from tests.tools.page.own_files import lead_sheet
from tokenization.formats import read_file


def edited(folder: Path, *options: str) -> bytes:
    (source := folder / "song.mid").write_bytes(band())
    assert main(["edit", str(source), *options, "--force"]) == 0
    return (folder / "song_edited.mid").read_bytes()


@pytest.mark.parametrize(("options", "kinds"), [
    ("--transpose 2 --parts Bass --bars 3-4", {"note"}), ("--velocity 80% --parts drums", {"note"}),
    ("--velocity +5 --bars 2-", {"note"}), ("--delete --parts 3 --bars 8", {"note"}),
    ("--tempo 96 --bars 5-6", {"set_tempo"}), ("--speed 1.1", {"set_tempo"}),
    ("--metre 3/4", {"time_signature"}), ("--instrument violin --parts Bass", {"program_change"}),
    ("--volume 50 --parts Piano", {"control_change"}),
])  # fmt: skip
def test_only_what_is_named_changes(options, kinds, tmp_path):
    gone, new = gone_and_new(band(), edited(tmp_path, *options.split()))
    assert {event.kind for event in gone | new} == kinds
    bars = {"3-4": (3840, 7680), "8": (7 * 1920, 8 * 1920), "2-": (1920, 1 << 20)}
    low, high = bars.get(options.split()[-1], (0, 1 << 20))
    assert all(low <= event.tick < high for event in gone if event.kind == "note")


def test_key_cut_and_tracks(tmp_path):
    assert read_file(edited(tmp_path, "--key", "G minor")).key_signature == (-2, True)
    score = read_file(edited(tmp_path, "--only", "Bass", "Kit", "--cut", "3-4", "--order", "Kit"))
    assert [track.name for track in score.tracks] == ["Kit", "Bass"]
    assert 6 < score.end_ticks / score.ticks_per_beat <= 8
    score = read_file(edited(tmp_path, "--name", "Lead", "--parts", "Flute", "--drop", "Piano"))
    assert [track.name for track in score.tracks] == ["Lead", "Bass", "Kit", ""]


def test_changes_as_json_for_a_score(tmp_path, capsys):
    (source := tmp_path / "sheet.musicxml").write_bytes(lead_sheet())
    rows = [[[0, 480, 72, 80, 0], [0, 480, 79, 80, 0]]]
    (told := tmp_path / "changes.json").write_text(json.dumps([{"change": "notes", "rows": rows}]))
    out = tmp_path / "out.musicxml"
    assert main(["edit", str(source), "--changes", str(told), "-o", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"file": str(out), "changes": 1}
    assert read_file(out).notes.pitch[0] == 79
    assert b"<text>sing</text>" in out.read_bytes()


def test_the_library_edits_files(tmp_path):
    (source := tmp_path / "song.mid").write_bytes(band())
    out = musicgen.edit(source, [{"change": "velocity", "times": 0.5}])
    assert {event.kind for event in all_events(band()) - all_events(out)} == {"note"}


@pytest.mark.parametrize(("options", "said"), [
    ("", "nothing to edit"), ("--transpose 100", "would have the pitch"), ("--bars 99 --delete", "not within the 8"),
    ("--parts Oboe --delete", "no part Oboe"), ("--key H", "key is 'H'"), ("--velocity loud", "velocity is 'loud'"),
    ("--instrument drums", "is no instrument"), ("--metre 3", "metre is '3'"), ("--bars x --delete", "bars are 'x'"),
    ("--metre 3/5", "unit is 5"), ("--tempo 9999", "bpm is 9999"),
])  # fmt: skip
def test_wrong_options_are_refused_in_a_sentence(options, said, tmp_path, capsys):
    (source := tmp_path / "song.mid").write_bytes(band())
    assert main(["edit", str(source), *options.split()]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "song_edited.mid").exists()


def test_an_existing_file_is_not_replaced(tmp_path, capsys):
    edited(tmp_path, "--transpose", "1")
    assert main(["edit", str(tmp_path / "song.mid"), "--transpose", "2"]) == 2
    assert "song_edited.mid" in capsys.readouterr().err
