"""`musicgen accompany`, `infill` and `continue --end` keep their promises with an untrained model, or say why not."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from musicgen.completion import Completion
from musicgen.continuation import Take
from tests.tokenization.groove.cases import trio_of
from tests.tokenization.remi.cases import score_of
from tokenization.formats import write_score
from tokenization.language import language
from tokenization.midi.reading import read_midi
from tokenization.score import Score

BARS, BEAT = 3, 12
ENSEMBLE = language("ensemble")
MODEL = ["--model", "untrained:tiny:ensemble"]
PARTS = ("bass", "drums", "piano")
# Bass and drums by turns, and a note a bar that rings into the next one.
PIECE = trio_of(
    [(4 * BEAT * n, 9, 40 + n % 3, 90, 0) for n in range(BARS)]
    + [(4 * BEAT * n + 30, 2, 42, 90, 1) for n in range(BARS)]
    + [(4 * BEAT * n, 50, 60 + n, 75, 2) for n in range(BARS - 1)]
)
WALTZ = score_of(
    [(0, 12, 48, 80)]
    + [row for n in range(1, 6) for row in ((12 * n, 4, 47 + n, 80), (12 * n + 4, 2, 64, 80))],
    meters=[(0, 3, 4)],
)


@pytest.fixture
def band(tmp_path: Path) -> Path:
    write_score(tmp_path / "band.mid", PIECE)
    return tmp_path / "band.mid"


@pytest.fixture
def waltz(tmp_path: Path) -> Path:
    write_score(tmp_path / "waltz.mid", WALTZ)
    return tmp_path / "waltz.mid"


def kept(score: Score, rows: np.ndarray) -> list[tuple[int, ...]]:
    """Return some of a score's notes, on the grid, without velocities."""
    on_grid = score.rescaled(BEAT).notes[rows]
    columns = on_grid.onset_ticks, on_grid.duration_ticks, on_grid.pitch, on_grid.track
    return sorted(zip(*(column.tolist() for column in columns), strict=True))


@pytest.mark.parametrize("write", [["drums"], ["bass", "piano"]])
def test_accompany_keeps_the_given_parts_and_writes_the_rest(band, tmp_path, command, write):
    words = ("accompany", band, "--write", *write, *MODEL, "--top-k", 40, "-o", tmp_path / "out")
    results = json.loads(command(*words, "--json", "--variations", 2, "--seed", 3).out)
    files = [Path(result["midi"]) for result in results]
    assert [file.name for file in files] == ["band.accompany_0.mid", "band.accompany_1.mid"]
    given = [i for i, part in enumerate(PARTS) if part not in write]
    for file in files:
        score = read_midi(file)
        is_given = np.isin(score.notes.track, given)
        assert kept(score, is_given) == kept(PIECE, np.isin(PIECE.notes.track, given))
        assert (~is_given).sum() > 0
        assert score.notes.onset_ticks.max() < BARS * 4 * score.ticks_per_beat
        facts = json.loads(file.with_suffix(".json").read_text())
        assert (facts["written_parts"], facts["piece"]) == (write, "band.mid")
    alone = Path(command(*words, "--seed", 3).out.strip())
    assert alone.name == "band.accompany_2.mid"
    assert alone.read_bytes() == files[0].read_bytes()


def test_infill_writes_the_bars_and_keeps_every_note_outside(band, tmp_path, command, monkeypatch):
    words = ("infill", band, "--range", 2, *MODEL, "-o", tmp_path, "--seed", 3)
    score = read_midi(command(*words).out.strip())
    line = 4 * score.ticks_per_beat
    inside = (score.notes.onset_ticks >= line) & (score.notes.onset_ticks < 2 * line)
    was = (PIECE.notes.onset_ticks >= 48) & (PIECE.notes.onset_ticks < 96)
    assert kept(score, ~inside) == kept(PIECE, ~was)
    assert kept(score, inside) != kept(PIECE, was)
    assert inside.any()
    takes = Completion.takes

    def only_taken_away(work: Completion) -> list[Take]:
        new = [(take, take.continuation) for take in takes(work)]
        return [replace(t, continuation=s.replace(notes=s.notes[:0])) for t, s in new]

    monkeypatch.setattr(Completion, "takes", only_taken_away)  # which is a take too
    assert Path(command(*words).out.strip()).name == "band.infill_1.mid"


def test_a_waltz_goes_on_ends_with_its_bar_and_keeps_to_its_chords(waltz, tmp_path, command):
    words = ("continue", waltz, "--model", "untrained:tiny:ensemble", "--bars", 3, "--end")
    chords = ("--chords", "C/E | Am F", "--top-k", 60, "--seed", 2)
    out, err = command(*words, *chords, "--json", "-o", tmp_path / "out")
    assert "Basses and extensions of chords are left out: C/E as C_M." in err
    [result] = json.loads(out)
    facts = json.loads(Path(result["midi"]).with_suffix(".json").read_text())
    assert facts["chords"] == [["C_M"], ["A_m", "F_M"]]
    score = read_midi(tmp_path / "out" / "waltz.prompt_cont_0.mid")
    assert len(ENSEMBLE.bars(ENSEMBLE.encode(ENSEMBLE.arrange(score)).ids)) == 9


@pytest.mark.parametrize(
    ("words", "model", "says"),
    [
        ("infill --range 3-4", "ensemble", "bars 3 to 4 cannot be filled in a piece that has 3"),
        ("infill --range 3-2", "ensemble", "--range is '3-2'; it must be the first and the last"),
        ("continue --end --tokens 9", "ensemble", "--end takes --bars, in which to come to the"),
        ("continue --chords C", "groove", "uses the language groove, which names no chords"),
    ],
)
def test_what_cannot_be_is_said_in_one_line_and_nothing_is_written(
    band, tmp_path, refused, words: str, model: str, says: str
):
    name, *options = words.split()
    model = f"untrained:tiny:{model}"
    assert says in refused(name, band, *options, "--model", model, "-o", tmp_path / "out")
    assert not (tmp_path / "out").exists()
