"""Commands that write music do what their help says, and preserve the file that they edit."""

import json
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from app.web.offered_models import example
from tests.tokenization.midi.test_keeping import band, check_kept, sounding
from tests.tokenization.notation.musicxml.test_writing import heard, written
from tests.tokenization.remi.cases import score_of
from tokenization.formats import read_file, write_score
from tokenization.language import language
from tokenization.midi.reading import read_midi

SEEDS = Path(__file__).parents[2] / "seeds"
SONG = SEEDS / "pop909_001.mid"
UNTRAINED = ["--model", "untrained:tiny"]
ONE_BAR = [*UNTRAINED, "--prompt-bars", 1, "--bars", 1]


def test_continue_writes_the_continuation_the_whole_piece_and_provenance(tmp_path, command):
    words = ("continue", SONG, *UNTRAINED, "--prompt-bars", 2, "--bars", 2, "-o", tmp_path)
    results = json.loads(command(*words, "--json", "--variations", 2, "--seed", 5).out)
    known = {"midi", "tokens", "seconds", "seed", "model"}
    assert [set(result) for result in results] == [known, known]
    assert [result["seed"] for result in results] == [5, 5]
    for number, result in enumerate(results):
        names = (f"pop909_001.{kind}_{number}.mid" for kind in ("prompt_cont", "cont"))
        whole, new = (read_midi(tmp_path / name) for name in names)
        assert Path(result["midi"]).name == f"pop909_001.prompt_cont_{number}.mid"  # the whole
        assert 0 < len(new.notes) < len(whole.notes)
        assert new.notes.onset_ticks.max() < 2 * 4 * new.ticks_per_beat
        assert whole.notes.onset_ticks.max() < 4 * 4 * whole.ticks_per_beat
        facts = json.loads((tmp_path / f"pop909_001.prompt_cont_{number}.json").read_text())
        assert (facts["seed"], facts["variation"], facts["prompt_bars"]) == (5, number, [1, 2])
        assert (facts["sampling"]["temperature"], facts["sampling"]["min_p"]) == (1, 0.01)
        assert b"musicgen {" in Path(result["midi"]).read_bytes()


def test_the_same_seed_gives_the_same_bytes_and_nothing_is_overwritten(tmp_path, command):
    words = ("generate", *UNTRAINED, "--tokens", 60, "-o", tmp_path)
    first, second, third = (Path(command(*words, "--seed", seed).out.strip()) for seed in (0, 0, 1))
    assert (first.name, second.name) == ("idea_0.mid", "idea_1.mid")
    assert first.read_bytes() == second.read_bytes() != third.read_bytes()


def test_models_lists_given_folders(model, command, refused, monkeypatch):
    row = json.loads(command("models", model, "--json").out)[-1]
    found = row["name"], row["encoding"], row["trained_length"]
    assert found == ("model", "sine_spe", 16)
    monkeypatch.chdir(model)
    assert json.loads(command("models", ".", "--json").out)[-1] == row
    shown = command("models", model).out
    assert all(len(line) <= 80 for line in shown.splitlines())
    for said in ("can continue, end, rewrite, accompany", "trained length 16", "POP909"):
        assert said in shown
    assert "untrained models are made when they are used" in refused("models", "untrained:tiny")


def test_each_command_does_its_job(tmp_path, command, refused):
    trio, whole = tmp_path / "trio.mid", read_midi(example("trio-jazz"))
    three_bars = whole.notes.onset_ticks < 12 * whole.ticks_per_beat
    write_score(trio, replace(whole, notes=whole.notes[three_bars]))
    band = ("--model", "untrained:tiny:ensemble", "--seed", 3, "-o", tmp_path, "--json")
    for name, words, wanted in (
        ("end", ["--bars", 1], {}),
        ("rewrite", ["--range", "2-2"], {"written_bars": [2, 2]}),
        (
            "rewrite",
            ["--range", "2", "--parts", "Other", "+violin"],
            {"written_bars": [2, 2], "written_parts": ["Other", "+violin"]},
        ),
        ("harmonise", [], {"written_parts": ["+nylon guitar"]}),
        ("accompany", ["--write", "chords"], {"written_parts": ["chords"]}),
        (
            "accompany",
            ["--write", "bass", "--write", "drums"],
            {"written_parts": ["bass", "drums"]},
        ),
    ):
        shown = command(name, trio, *words, *band)
        [row] = json.loads(shown.out)
        facts = json.loads(Path(row["midi"]).with_suffix(".json").read_text())
        assert facts.items() >= wanted.items()
        if name == "end":
            assert facts["length"]["ends"]
            assert "1 bar in" in shown.err
    assert "required: --write" in refused("accompany", trio, *band)


def test_a_waltz_is_continued_to_its_end_over_given_chords(tmp_path, command):
    rest = [row for n in range(1, 6) for row in ((12 * n, 4, 47 + n, 80), (12 * n + 4, 2, 64, 80))]
    write_score(tmp_path / "waltz.mid", score_of([(0, 12, 48, 80), *rest], meters=[(0, 3, 4)]))
    words = ("continue", tmp_path / "waltz.mid", "--model", "untrained:tiny:ensemble", "--end")
    more = ("--bars", 3, "--chords", "C/E | Am F", "--top-k", 60, "--seed", 2)
    out, _ = command(*words, *more, "--json", "-o", tmp_path / "out")
    [result] = json.loads(out)
    facts = json.loads(Path(result["midi"]).with_suffix(".json").read_text())
    assert facts["chords"] == [["C/E"], ["Am", "F"]]
    whole = read_midi(tmp_path / "out" / "waltz.prompt_cont_0.mid")
    ensemble = language("ensemble")
    assert len(ensemble.bars(ensemble.encode(ensemble.arrange(whole)).ids)) == 9
    ends = whole.notes.onset_ticks + whole.notes.duration_ticks
    assert ends.max() <= 27 * whole.ticks_per_beat  # nothing rings past the last bar


def test_unreadable_files_are_named_before_anything_is_written(tmp_path, command):
    bad, font = tmp_path / "bad.mid", tmp_path / "none.sf2"
    bad.write_text("no music at all")
    font.write_text("no soundfont")
    how = (*ONE_BAR, "-o", tmp_path / "out", "--soundfont", font)
    said = command("continue", bad, SONG, bad, SEEDS / "groove.mid", *how, code=2).err
    assert f"{SEEDS / 'groove.mid'}: Left out: Drums.\n" in said
    said = said.splitlines()[-1]
    assert said.startswith("musicgen: 2 of 4 files cannot be used: ")
    assert said.count("bad.mid is not a MIDI file") == 2
    assert not (tmp_path / "out").exists()
    out, err = command("continue", SONG, SONG, *how, "--json", code=2)
    assert err.splitlines()[-1].startswith("musicgen: the renderer could not play")
    assert all(Path(row["midi"]).is_file() for row in json.loads(out))  # what is written is said


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("continue {} --model nowhere", "there is no model 'nowhere'"),
        ("continue {} --prompt-bars ²", "--prompt-bars: '²' is neither a number of bars nor all"),
        ("continue {} --device abacus", "there is no device 'abacus'"),
        ("continue .", "musicgen: . is a folder"),
        ("generate --seed 9223372036854775808", "less than 2**63"),
        ("rewrite {} --range 98-99", "bars 98 to 99 cannot be filled in a piece that has"),
        ("rewrite {} --range 3-2", "--range: '3-2' is not a first and a last bar"),
        ("continue {} --tracks violin", "there is no track 'violin'; the score has"),
        ("generate --model untrained:tiny:ensemble --form 'B A'", "names B before A"),
        ("continue {} --end --tokens 9", "an end needs a length in bars"),
    ],
)
def test_a_wrong_input_is_reported_in_one_line(words: str, sentence: str, tmp_path, refused):
    name, *given = shlex.split(words.format(SONG))
    model = ["--model", "untrained:tiny:ensemble"] if name == "rewrite" else UNTRAINED
    assert sentence in refused(name, *model, *given, "-o", tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_file_is_not_taken_for_the_folder_to_write_to(tmp_path, refused):
    assert "-o names a folder" in refused("continue", SONG, *ONE_BAR, "-o", tmp_path / "new.mid")
    assert not list(tmp_path.iterdir())


# Commands return the source file with the new music in it.


MODEL = "untrained:tiny:ensemble"


@pytest.fixture
def made(tmp_path, command):
    """Return a function that runs a command, and returns the MIDI file of its first take and the remarks."""

    def run(*words: object) -> tuple[Path, str]:
        out, err = command(*words, "-o", tmp_path / "out", "--json", "--seed", 3)
        return Path(json.loads(out)[0]["midi"]), err

    return run


@pytest.fixture
def song(tmp_path: Path) -> Path:
    path = tmp_path / "song.mid"
    path.write_bytes(band(1, 96))
    return path


@pytest.mark.parametrize("more", [[], ["--end"]])
def test_a_continuation_keeps_the_file_up_to_the_seam(song, made, more):
    seam = 16 * 96
    words = ("continue", song, "--prompt-bars", 4, "--bars", 2, "--model", MODEL, *more)
    path, said = made(*words)
    whole = path.with_name(path.name.replace(".cont_", ".prompt_cont_")).read_bytes()
    assert "notes alone" not in said
    check_kept(song.read_bytes(), whole, seam)
    later = [note[2] - seam for note in sounding(whole) if note[2] >= seam]
    assert 0 <= min(later) <= max(later) < 8 * 96


def test_a_musicxml_file_gets_musicxml_back(tmp_path, made):
    path = tmp_path / "song.musicxml"
    path.write_bytes(written())
    midi, _ = made("continue", path, "--bars", 2, "--model", MODEL)
    [text] = (tmp_path / "out").glob("*.musicxml")
    assert b"Caf" in text.read_bytes()
    assert not heard(written()) - heard(text.read_bytes())
    both = [read_file(file).rescaled(12).notes for file in (text, midi)]
    onsets = [sorted(zip(n.onset_ticks.tolist(), n.pitch.tolist(), strict=True)) for n in both]
    assert onsets[0] == onsets[1]


@pytest.mark.parametrize(
    ("words", "bars"),
    [
        (("continue", "--prompt-bars", 4, "--bars", 2, "--chords", "Dm | G7 C"), {4, 5, 5.5}),
        (("rewrite", "--range", "3-4"), set()),
        (("accompany", "--write", "flute"), set()),
    ],
)
def test_musicxml_has_the_known_chords(song, tmp_path, made, words, bars):
    command, *more = words
    made(command, song, *more, "--model", MODEL, "--score")
    text = next(path for path in (tmp_path / "out").glob("*.musicxml") if ".cont_" not in path.name)
    found = read_file(text)
    chords = {m.onset_ticks / found.ticks_per_beat / 4: m.text for m in found.markers}
    assert {*chords} == bars
    assert not bars or [*chords.values()] == ["D_m", "G_7", "C_M"]


def test_words_and_titles_of_formats_that_are_only_read_are_kept(tmp_path, command):
    tune = tmp_path / "tune.abc"
    tune.write_text(
        "X:1\nT:The Kesh\nC:Anna\nM:4/4\nL:1/4\nK:Eb\nG A B c|d c B A|\nw:now I walk the long way\n"
    )
    command("continue", tune, *ONE_BAR, "--score", "-o", tmp_path)
    for ending, title in ((".mid", "The Kesh"), (".musicxml", "The Kesh")):
        (found,) = tmp_path.glob(f"*prompt_cont*{ending}")
        score = read_file(found)
        texts = score.texts
        assert (texts.title, texts.composer, score.key_signature) == (title, "Anna", (-3, False))
        assert [one.text for one in texts.lyrics] == ["now", "I", "walk", "the"]  # of the prompt
        assert read_file(tmp_path / f"tune.cont_0{ending}").texts.title == title
