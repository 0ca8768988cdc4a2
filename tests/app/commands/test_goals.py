"""`musicgen accompany`, `infill` and `continue --end` keep their promises with an untrained model, or say why not."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from app.cli import main
from musicgen.completion import Completion
from musicgen.continuation import Take
from tests.tokenization.grammar_cases import ids_of
from tests.tokenization.groove.cases import trio_of
from tests.tokenization.quantised import quantised
from tokenization.formats import write_score
from tokenization.language import language
from tokenization.midi.reading import read_midi
from tokenization.score import Score

BARS, BEAT = 3, 12
GROOVE = language("groove-2")
MODEL = ["--model", "untrained:tiny:groove-2"]
# Bass and drums by turns, and a note a bar that rings into the next one.
PIECE = trio_of(
    [(4 * BEAT * n, 9, 40 + n % 3, 90, 0) for n in range(BARS)]
    + [(4 * BEAT * n + 30, 2, 42, 90, 1) for n in range(BARS)]
    + [(4 * BEAT * n, 50, 60 + n, 75, 2) for n in range(BARS - 1)]
)


@pytest.fixture
def band(tmp_path: Path) -> Path:
    path = tmp_path / "band.mid"
    write_score(path, PIECE)
    return path


def run(*words: object) -> int:
    return main([str(word) for word in words])


def kept(score: Score, rows: np.ndarray) -> list[tuple[int, ...]]:
    """Return some of a score's notes, on the grid, without velocities."""
    on_grid = score.rescaled(BEAT).notes[rows]
    columns = on_grid.onset_ticks, on_grid.duration_ticks, on_grid.pitch, on_grid.track
    return sorted(zip(*(column.tolist() for column in columns), strict=True))


@pytest.mark.parametrize("write", [["drums"], ["bass", "other"]])
def test_accompany_keeps_the_given_parts_and_writes_the_rest(band, tmp_path, capsys, write):
    command = ("accompany", band, "--write", *write, *MODEL, "--top-k", 40, "-o", tmp_path / "out")
    assert run(*command, "--json", "--variations", 2, "--seed", 3) == 0
    results = json.loads(capsys.readouterr().out)
    assert [Path(result["midi"]).name for result in results] == [
        "band.accompany_0.mid",
        "band.accompany_1.mid",
    ]
    given = [i for i, part in enumerate(GROOVE.parts) if part not in write]
    for result in results:
        score = read_midi(result["midi"])
        is_given = np.isin(score.notes.track, given)
        assert kept(score, is_given) == kept(PIECE, np.isin(PIECE.notes.track, given))
        assert (~is_given).sum() > 0
        assert score.end_ticks <= BARS * 4 * score.ticks_per_beat
        facts = json.loads(Path(result["midi"]).with_suffix(".json").read_text())
        assert (facts["written_parts"], facts["piece"]) == (write, "band.mid")
    assert run(*command, "--seed", 3) == 0
    alone = capsys.readouterr().out.strip()
    assert Path(alone).name == "band.accompany_2.mid"
    assert Path(alone).read_bytes() == Path(results[0]["midi"]).read_bytes()


def test_an_infill_that_only_takes_notes_away_is_a_take(band, tmp_path, monkeypatch):
    takes = Completion.takes

    def emptied(work: Completion) -> list[Take]:
        found = []
        for take in takes(work):
            bar = take.score.notes.onset_ticks // (4 * take.score.ticks_per_beat)
            score = take.score.replace(notes=take.score.notes[bar != 1])
            nothing = take.continuation.replace(notes=take.continuation.notes[:0])
            found.append(replace(take, score=score, continuation=nothing))
        return found

    monkeypatch.setattr(Completion, "takes", emptied)
    assert run("infill", band, "--range", "2", *MODEL, "-o", tmp_path / "out", "--seed", 1) == 0
    (path,) = (tmp_path / "out").glob("*.mid")
    score = read_midi(path)
    assert 1 not in set((score.notes.onset_ticks // (4 * score.ticks_per_beat)).tolist())


def test_infill_writes_the_bars_and_keeps_every_note_outside(band, tmp_path, capsys):
    assert run("infill", band, "--range", "2", *MODEL, "-o", tmp_path, "--seed", 1) == 0
    score = read_midi(capsys.readouterr().out.strip())
    line = 4 * score.ticks_per_beat
    inside = (score.notes.onset_ticks >= line) & (score.notes.onset_ticks < 2 * line)
    was = (PIECE.notes.onset_ticks >= 48) & (PIECE.notes.onset_ticks < 96)
    assert kept(score, ~inside) == kept(PIECE, ~was)
    assert kept(score, inside) != kept(PIECE, was)
    assert inside.any()
    assert (score.notes.end_ticks[inside] <= 2 * line).all()


@pytest.mark.parametrize("bars", [1, 2])
def test_continue_comes_to_its_end_in_so_many_bars(band, tmp_path, bars):
    command = ("continue", band, "--prompt-bars", 1, "--bars", bars, "--end", *MODEL)
    assert run(*command, "-o", tmp_path) == 0
    whole = read_midi(tmp_path / "band.prompt_cont_0.mid")
    line = 4 * whole.ticks_per_beat
    assert -(-whole.end_ticks // line) == 1 + bars


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("infill", "--range", "3-4"), "bars 3 to 4 cannot be filled in a piece that has 3 bars"),
        (
            ("infill", "--range", "x"),
            "--range is 'x'; it must be the first and the last bar, as 9-12",
        ),
        (("infill", "--range", "3-2"), "--range is '3-2'; it must be the first and the last bar"),
        (("accompany", "--write", "flute"), "there is no part flute; a groove has bass, drums and"),
        (("accompany", "--write", "bass", "drums", "other"), "cannot all be written; choose one"),
        (("continue", "--end", "--tokens", "9"), "--end takes --bars, in which to come to the end"),
    ],
)
def test_what_cannot_be_is_said_in_one_line_and_nothing_is_written(
    band, tmp_path, capsys, words, says
):
    command, *options = words
    out = tmp_path / "out"
    assert run(command, band, *options, *MODEL, "-o", out) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    [line] = [line for line in captured.err.splitlines() if line.startswith("musicgen: ")]
    assert says in line
    assert not out.exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("infill", "--range", "2"), "speaks groove, in which no gap can be filled"),
        (("accompany", "--write", "drums"), "speaks groove, in which no part can be written to"),
        (("continue", "--end"), "speaks groove, in which an end cannot be asked for; leave --end"),
    ],
)
def test_an_older_model_says_what_it_cannot(band, tmp_path, capsys, words, says):
    command, *options = words
    assert run(command, band, *options, "--model", "untrained:tiny:groove", "-o", tmp_path) == 2
    assert says in capsys.readouterr().err.splitlines()[-1]
    assert [path.name for path in tmp_path.iterdir()] == ["band.mid"]


def test_a_piece_without_the_given_parts_is_told(tmp_path, capsys):
    path = tmp_path / "bass.mid"
    write_score(path, PIECE.replace(notes=PIECE.notes[PIECE.notes.track == 0]))
    assert run("accompany", path, "--write", "bass", *MODEL, "-o", tmp_path / "out") == 2
    assert "nothing to accompany: the piece has no drums and no other" in capsys.readouterr().err


PIANO = language("remi-2")
WALTZ = "begin bar metre_3/4 subbeat_0 pitch_48 volume_9 duration_12 " + " ".join(
    f"bar subbeat_0 pitch_{48 + n} volume_9 duration_4 subbeat_4 pitch_64 volume_9 duration_2"
    for n in range(5)
)


@pytest.fixture
def waltz(tmp_path: Path) -> Path:
    path = tmp_path / "waltz.mid"
    write_score(path, PIANO.decode(ids_of(PIANO, f"{WALTZ} end")))
    return path


def test_infill_keeps_a_waltz_outside_its_gap(waltz, tmp_path, capsys):
    model = ["--model", "untrained:tiny:remi-2"]
    command = ("infill", waltz, "--range", "3-4", *model, "--seed", 5, "--top-k", 40)
    assert run(*command, "--json", "-o", tmp_path / "out") == 0
    [result] = json.loads(capsys.readouterr().out)
    whole, piece = (quantised(PIANO, read_midi(path)) for path in (result["midi"], waltz))
    assert whole.meters == piece.meters
    assert (whole.meters.numerator.tolist(), whole.meters.denominator.tolist()) == ([3], [4])
    for score in (whole, piece):
        assert score.ticks_per_beat == 8
    outside = [
        s.notes[(s.notes.onset_ticks < 48) | (s.notes.onset_ticks >= 96)] for s in (whole, piece)
    ]
    assert outside[0] == outside[1]
    assert len(whole.notes) > len(outside[0])
    assert run("infill", waltz, "--range", "6-9", *model, "-o", tmp_path / "none") == 2
    assert "bars 6 to 9 cannot be filled in a piece that has 6 bars" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


def test_a_waltz_goes_on_ends_with_its_bar_and_keeps_to_its_chords(waltz, tmp_path, capsys):
    command = ("continue", waltz, "--model", "untrained:tiny:remi-2", "--bars", 3, "--end")
    chords = ("--chords", "C/E | Am F", "--top-k", 60, "--seed", 2)
    assert run(*command, *chords, "--json", "-o", tmp_path / "out") == 0
    said = capsys.readouterr()
    assert "Basses and extensions of chords are left out: C/E as C_M." in said.err
    [result] = json.loads(said.out)
    facts = json.loads(Path(result["midi"]).with_suffix(".json").read_text())
    assert facts["chords"] == [["C_M"], ["A_m", "F_M"]]
    score = read_midi(tmp_path / "out" / "waltz.prompt_cont_0.mid")
    ids = PIANO.encode(quantised(PIANO, score)).ids
    assert len(PIANO.bars(ids)) == 9


def test_chords_are_kept_to_by_the_models_that_ship(waltz, tmp_path, capsys):
    command = ("continue", waltz, "--bars", 2, "--chords", "Dm | G7", "-o", tmp_path / "out")
    assert run(*command) == 0
    markers = [m.text for m in read_midi(tmp_path / "out" / "waltz.cont_0.mid").markers]
    assert markers[-2:] == ["D_m", "G_7"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("continue", "--chords", "C | X"), "'X' in bar 2 of the chords is no chord"),
        (("continue", "--chords", "C", *MODEL), "speaks groove-2, which names no chords"),
        (
            ("continue", "--end", "--model", "pop-piano"),
            "speaks remi, in which an end cannot be asked for",
        ),
        (
            ("infill", "--range", "1-2", "--model", "pop-piano"),
            "speaks remi, in which no gap can be filled",
        ),
    ],
)
def test_what_cannot_be_asked_for_is_said_in_a_sentence(waltz, tmp_path, capsys, words, says):
    assert run(words[0], waltz, *words[1:], "-o", tmp_path / "out") == 2
    err = capsys.readouterr().err
    assert says in err
    assert not (tmp_path / "out").exists()
