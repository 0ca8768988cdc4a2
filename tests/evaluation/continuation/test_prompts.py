"""Prompts from a folder of MIDI files."""

from pathlib import Path

import numpy as np
import pytest

from evaluation.continuation.prompts import read_prompts, style_of
from tests.evaluation.continuation.toys import FILES, piece, write_pieces
from tokenization.formats import write_score
from tokenization.language import language

GROOVE = language("groove")


def test_the_first_bars_of_every_piece(tmp_path: Path):
    write_pieces(tmp_path)
    prompts, refused = read_prompts(tmp_path, GROOVE, bars=2, tokens=300)
    assert refused == []
    assert [prompt.name for prompt in prompts] == sorted(FILES)
    assert [prompt.style for prompt in prompts] == ["waltz-like", "march", "waltz-like", "march"]
    for prompt in prompts:
        assert prompt.start_ticks == 2 * 4 * 12
        assert prompt.score.notes.onset_ticks.max() < prompt.start_ticks
        assert (prompt.piece.notes.onset_ticks < prompt.start_ticks).sum() == len(
            prompt.score.notes
        )
        np.testing.assert_array_equal(prompt.piece_ids[: len(prompt.ids)], prompt.ids)
        assert GROOVE.validate(prompt.ids) is None


@pytest.mark.parametrize("name", ["groove", "remi"])
def test_a_piece_goes_on_from_its_prompt(tmp_path: Path, name: str):
    speaker = language(name)
    (prompt, *_), _ = read_prompts(write_pieces(tmp_path), speaker, bars=2, tokens=500)
    passage = prompt.passage(speaker, prompt.piece_ids)
    assert passage.begun == len(prompt.ids)
    assert len(passage.ids) == passage.begun + len(passage.new_ids)
    assert passage.score == prompt.piece
    before = speaker.decode(prompt.ids, prompt.setting).notes.onset_ticks
    assert before.max() < passage.start_ticks == prompt.start_ticks


def test_bad_files_are_told_and_the_rest_is_taken(tmp_path: Path):
    write_pieces(tmp_path)
    (tmp_path / "rubbish.mid").write_bytes(b"no music")
    (tmp_path / "notes.txt").write_text("not looked at")
    (tmp_path / "tune.abc").write_text("X:1\nK:C\nc|")  # one bar
    write_score(tmp_path / "short.mid", piece("march", 40, bars=2))
    prompts, refused = read_prompts(tmp_path, GROOVE, bars=2, tokens=300)
    assert len(prompts) == 4
    assert refused[0].startswith("rubbish.mid is not a MIDI file")
    assert refused[1:] == [
        "short.mid has 2 bars, and more than the 2 of the prompt are needed",
        "tune.abc has 1 bars, and more than the 2 of the prompt are needed",
    ]
    _, refused = read_prompts(tmp_path, GROOVE, bars=2, tokens=80)
    assert sum("which leaves none of 80 to write" in sentence for sentence in refused) == 2


def test_nothing_to_take(tmp_path: Path):
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        read_prompts(tmp_path / "none", GROOVE, bars=2, tokens=300)
    with pytest.raises(ValueError, match="holds no MIDI files"):
        read_prompts(tmp_path, GROOVE, bars=2, tokens=300)
    (tmp_path / "rubbish.mid").write_bytes(b"no music")
    with pytest.raises(ValueError, match=r"none of the 1 files in .* gives a prompt: rubbish\.mid"):
        read_prompts(tmp_path, GROOVE, bars=2, tokens=300)


def test_a_limit_takes_the_same_files_each_time(tmp_path: Path):
    write_pieces(tmp_path)
    done = []
    some, _ = read_prompts(
        tmp_path, GROOVE, bars=2, tokens=300, limit=2, progress=lambda *now: done.append(now)
    )
    assert len(some) == 2
    assert done == [(1, 2), (2, 2)]
    more, _ = read_prompts(tmp_path, GROOVE, bars=2, tokens=300, limit=3)
    assert {prompt.name for prompt in some} < {prompt.name for prompt in more}
    many, _ = read_prompts(tmp_path, GROOVE, bars=2, tokens=300, limit=99)
    assert len(many) == 4


def test_the_style_is_in_the_name():
    assert style_of("pop032.ska_ska1sus.mid") == "ska_ska1sus"
    assert style_of("a/b/CHART.STYLE_SUB.MID") == "STYLE_SUB"
    assert style_of("deep.er/song.mid") == "song"
