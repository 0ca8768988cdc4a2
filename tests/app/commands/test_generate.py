"""`musicgen continue`, `generate` and `models` do what their help says, on an untrained model."""

import json
import os
import warnings
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import music21
import pytest

from app.cli import main
from musicgen.loading import load
from musicgen.model.performer import Performer
from musicgen.storage.checkpoint import Card, save
from tests.tokenization.notation.scores import bars, compressed, note, score
from tokenization.midi.reading import read_midi

SEED_FILE = Path(__file__).parents[2] / "seeds" / "pop909_001.mid"
UNTRAINED = ["--model", "untrained:tiny"]


def run(*words: object) -> int:
    return main([str(word) for word in words])


def test_continue_writes_the_continuation_the_whole_and_what_is_known(tmp_path, capsys):
    command = ("continue", SEED_FILE, *UNTRAINED, "--prompt-bars", 2, "--bars", 2, "-o", tmp_path)
    assert run(*command, "--json", "--variations", 2, "--seed", 5) == 0
    results = json.loads(capsys.readouterr().out)
    assert [set(result) for result in results] == [
        {"midi", "tokens", "seconds", "seed", "model"}
    ] * 2
    assert [result["seed"] for result in results] == [5, 5]
    for number, result in enumerate(results):
        new = read_midi(result["midi"])
        whole = read_midi(tmp_path / f"pop909_001.prompt_cont_{number}.mid")
        assert Path(result["midi"]).name == f"pop909_001.cont_{number}.mid"
        assert 0 < len(new.notes) < len(whole.notes)
        bar = 4 * new.ticks_per_beat
        assert new.notes.onset_ticks.max() < 2 * bar
        assert whole.notes.onset_ticks.max() < 4 * whole.ticks_per_beat * 4
        facts = json.loads((tmp_path / f"pop909_001.cont_{number}.json").read_text())
        assert facts["seed"] == 5
        assert facts["variation"] == number
        assert facts["prompt_bars"] == [1, 2]
        assert (facts["sampling"]["temperature"], facts["sampling"]["top_p"]) == (0.8, 0.95)
        assert b"musicgen {" in Path(result["midi"]).read_bytes()


def test_a_score_goes_on_as_a_score(tmp_path, capsys):
    music = bars(note("G", 4, 2), *(note("C", 5, 2) + note("E", 5, 4) for _ in range(5)), beats=3)
    song = tmp_path / "song.mxl"
    song.write_bytes(compressed(score(music)))
    command = ("continue", song, *UNTRAINED, "--prompt-bars", 2, "--bars", 2, "--score")
    assert run(*command, "-o", tmp_path / "out") == 0
    capsys.readouterr()
    for name in ("song.cont_0", "song.prompt_cont_0"):
        midi = read_midi(tmp_path / "out" / f"{name}.mid")
        data = (tmp_path / "out" / f"{name}.musicxml").read_bytes()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            parsed = music21.converter.parseData(data.decode(), format="musicxml")
        found = sorted(
            (round(12 * float(chord.getOffsetInHierarchy(parsed))), one.pitch.midi)
            for chord in parsed.recurse().notes
            for one in (chord.notes if isinstance(chord, music21.chord.Chord) else [chord])
            if one.tie is None or one.tie.type == "start"
        )
        notes = midi.rescaled(12).notes
        assert found == sorted(zip(notes.onset_ticks.tolist(), notes.pitch.tolist(), strict=True))
        assert "musicgen" in ET.fromstring(data).findtext("identification/encoding/software", "")


def test_the_same_seed_gives_the_same_bytes_and_nothing_is_overwritten(tmp_path, capsys):
    command = ("generate", *UNTRAINED, "--tokens", 60, "-o", tmp_path)
    assert run(*command) == run(*command) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert Path(first).name == "untrained-tiny.cont_0.mid"
    assert Path(second).name == "untrained-tiny.cont_1.mid"
    assert Path(first).read_bytes() == Path(second).read_bytes()
    assert run(*command, "--seed", 1) == 0
    third = capsys.readouterr().out.strip()
    assert Path(third).read_bytes() != Path(first).read_bytes()


def test_a_groove_from_nothing_is_a_trio(tmp_path, capsys):
    assert run("generate", "--model", "untrained:tiny:groove", "--tokens", 80, "-o", tmp_path) == 0
    score = read_midi(capsys.readouterr().out.strip())
    assert len(score.notes) > 0
    assert any(track.is_drum for track in score.tracks)


def test_audio_is_not_silent(tmp_path, capsys):
    assert run("generate", *UNTRAINED, "--tokens", 40, "--audio", "-o", tmp_path) == 0
    wave = Path(capsys.readouterr().out.strip()).with_suffix(".wav").read_bytes()
    assert wave.startswith(b"RIFF")
    assert any(wave[44:])


def test_what_is_written_is_said_also_if_it_cannot_be_heard(tmp_path, capsys):
    (tmp_path / "none.sf2").write_text("no soundfont")
    sounded = ("--soundfont", tmp_path / "none.sf2", "-o", tmp_path, "--json")
    assert run("generate", *UNTRAINED, "--tokens", 40, *sounded) == 2
    (row,) = json.loads(capsys.readouterr().out)
    assert Path(row["midi"]).is_file()


def test_models_lists_further_folders(tmp_path, capsys, monkeypatch):
    from musicgen.loading import load
    from musicgen.storage.checkpoint import Card, save

    model = load("untrained:tiny")
    card = Card(
        name="mine", language=model.language.spec(), trained_length=512, training={"data": "x"}
    )
    save(tmp_path / "mine", model.performer, card)
    assert run("models", tmp_path / "mine", "--json") == 0
    row = json.loads(capsys.readouterr().out)[-1]
    assert row["name"] == "mine"
    assert row["encoding"] == "sine_spe"
    assert row["trained_length"] == 512
    monkeypatch.chdir(tmp_path / "mine")
    assert run("models", ".", "--json") == 0
    assert json.loads(capsys.readouterr().out)[-1] == row
    assert run("models", tmp_path / "mine") == 0
    assert "trained length" in capsys.readouterr().out
    assert run("models", "untrained:tiny") == 2
    assert "untrained models are made when they are used" in capsys.readouterr().err


def test_numbers_of_any_file_that_is_there_are_taken(tmp_path, capsys):
    command = ("continue", SEED_FILE, *UNTRAINED, "--prompt-bars", 1, "--bars", 1, "-o", tmp_path)
    (tmp_path / "pop909_001.prompt_cont_4.mid").write_text("mine")
    (tmp_path / "pop909_001.cont_6.wav").write_text("mine")
    (tmp_path / "pop909_0010.cont_9.mid").write_text("another's")
    (tmp_path / os.fsdecode("pop909_001.cont_²".encode())).write_text("no number")
    assert run(*command) == 0
    assert Path(capsys.readouterr().out.strip()).name == "pop909_001.cont_7.mid"
    assert (tmp_path / "pop909_001.prompt_cont_4.mid").read_text() == "mine"


def test_a_name_that_is_no_text_can_be_continued(tmp_path, capsys):
    prompt = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.mid"))
    prompt.write_bytes(SEED_FILE.read_bytes())
    command = ("continue", prompt, *UNTRAINED, "--prompt-bars", 1, "--bars", 1)
    assert run(*command, "-o", tmp_path / "out") == 0
    [facts] = (tmp_path / "out").glob("*.json")
    assert json.loads(facts.read_text())["prompt"] == prompt.name


def test_of_many_files_each_has_its_own_remarks(tmp_path, capsys):
    seeds = SEED_FILE.parent
    command = ("continue", SEED_FILE, seeds / "groove.mid", *UNTRAINED, "--prompt-bars", 1)
    assert run(*command, "--bars", 1, "-o", tmp_path) == 0
    assert f"{seeds / 'groove.mid'}: Left out: Drums.\n" in capsys.readouterr().err


def test_of_many_files_each_that_failed_is_told_and_also_that_none_sounds(tmp_path, capsys):
    bad, font = tmp_path / "bad.mid", tmp_path / "none.sf2"
    bad.write_text("no music at all")
    font.write_text("no soundfont")
    how = (*UNTRAINED, "--prompt-bars", 1, "--bars", 1, "-o", tmp_path / "out", "--soundfont", font)
    assert run("continue", bad, SEED_FILE, bad, SEED_FILE, *how) == 2  # one of them twice
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert said.startswith("musicgen: 2 of 4 files did not go on: bad.mid is not a MIDI file")
    assert said.count("bad.mid") == 2
    assert "; there is no sound: the renderer could not play this piece with none.sf2" in said
    assert len([*(tmp_path / "out").glob("*.cont_*.mid")]) == 2
    assert run("continue", SEED_FILE, SEED_FILE, *how) == 2
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert said.startswith("musicgen: the renderer could not play")


def test_a_file_that_cannot_be_read_is_told_also_where_the_only_other_fails(
    tmp_path, capsys, monkeypatch
):
    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("app.commands.making_music.write_take", fail)
    how = (*UNTRAINED, "--prompt-bars", 1, "--bars", 1, "-o", tmp_path)
    assert run("continue", tmp_path / "none.mid", SEED_FILE, *how) == 2
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert "2 of 2 files did not go on" in said
    assert "none.mid" in said
    assert "pop909_001.mid: [Errno 28] No space" in said


def test_more_of_what_was_asked_for_may_hold_a_note(tmp_path, capsys):
    assert run("generate", *UNTRAINED, "--tokens", 1, "-o", tmp_path) == 2
    assert "wrote no note; more --tokens, another --seed" in capsys.readouterr().err


def test_variations_without_a_note_are_told(tmp_path, capsys):
    command = ("generate", *UNTRAINED, "--tokens", 6, "--variations", 8, "-o", tmp_path)
    assert run(*command) == 0
    out, err = capsys.readouterr()
    written = len(out.splitlines())
    assert 0 < written < 8
    assert f"Without a note, and so not written: {8 - written} of 8 variations." in err


@pytest.mark.parametrize(
    ("folder", "message"),
    [
        ("file", "is a file; give -o a folder"),
        ("closed", "may not be"),
        ("file/below", "file/below cannot be made (Not a directory); give another one with -o"),
    ],
)
def test_a_folder_that_takes_no_files_is_named_before_the_work(
    folder: str, message: str, tmp_path, capsys, monkeypatch
):
    (tmp_path / "file").touch()
    (tmp_path / "closed").mkdir()
    monkeypatch.setattr("app.commands.making_music.os.access", lambda path, mode: False)
    monkeypatch.setattr("musicgen.continuation.together", lambda works: pytest.fail("work"))
    assert run("generate", *UNTRAINED, "-o", tmp_path / folder) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("continue", SEED_FILE, "--model", "nowhere"), "there is no model 'nowhere'"),
        (("continue", SEED_FILE, *UNTRAINED, "--prompt-bars", "0"), "--prompt-bars is '0'"),
        (
            ("continue", SEED_FILE, *UNTRAINED, "--prompt-bars", "999"),
            "so the prompt cannot be its first 999",
        ),
        (("continue", SEED_FILE, *UNTRAINED, "--bars", "0"), "--bars is 0"),
        (("continue", SEED_FILE, *UNTRAINED, "--temperature", "-1"), "temperature is -1"),
        (("continue", SEED_FILE, *UNTRAINED, "--top-p", "7"), "top_p is 7"),
        (("continue", SEED_FILE, *UNTRAINED, "--variations", "0"), "--variations is 0"),
        (("continue", SEED_FILE, *UNTRAINED, "--prompt-bars", "²"), "--prompt-bars is '²'"),
        (("continue", SEED_FILE, *UNTRAINED, "--seed", str(1 << 63)), "less than 2**63"),
        (("generate", *UNTRAINED, "--soundfont", "no.sf2"), "there is no soundfont no.sf2"),
        (("continue", SEED_FILE, *UNTRAINED, "--device", "abacus"), "there is no device 'abacus'"),
        (("continue", "nothing.mid", *UNTRAINED), "nothing.mid"),
        (("generate", "--model", "untrained:gigantic"), "there is no preset 'gigantic'"),
        (("generate", "--model", "untrained:tiny:morse"), "there is no language 'morse'"),
    ],
)
def test_a_wrong_input_is_one_sentence(words, sentence, tmp_path, capsys):
    assert run(*words, "-o", tmp_path) == 2
    errors = capsys.readouterr().err.strip().splitlines()
    assert sentence in errors[-1]
    assert errors[-1].startswith("musicgen: ")
    assert not list(tmp_path.iterdir())


def test_music_that_meets_a_bound_of_its_encoding_is_written(tmp_path, capsys):
    made = load("untrained:tiny")
    position = {"name": "learned", "max_length": 90}
    config = replace(made.performer.config, position=position, layers=1)
    card = Card(name="x", language=made.language.spec(), trained_length=64)
    save(tmp_path / "model", Performer(config), card)
    assert run("generate", "--model", tmp_path / "model", "--bars", 90, "-o", tmp_path) == 0
    said = capsys.readouterr()
    assert "the music ends before its length: the sequence reaches 91 tokens" in said.err
    assert len(read_midi(said.out.strip()).notes)
