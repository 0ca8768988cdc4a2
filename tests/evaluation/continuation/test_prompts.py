"""Prompts from a folder of MIDI files, and reference passages."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evaluation.continuation.prompts import looped, read_prompts, reference_passages
from tests.evaluation.continuation.toys import FILES, piece, write_pieces
from tokenization.formats import write_score
from tokenization.language import language
from tokenization.score import excerpt

GROOVE = language("groove")


@pytest.fixture(params=["groove", "remi"])
def token_language(request: pytest.FixtureRequest):
    return language(request.param)


@pytest.fixture
def prompts(tmp_path: Path, token_language):
    found, refused = read_prompts(write_pieces(tmp_path), token_language, bars=2, tokens=300)
    assert refused == []
    return found


def test_prompts_are_the_first_bars_of_every_piece(prompts, token_language):
    assert [prompt.name for prompt in prompts] == sorted(FILES)
    assert [prompt.style for prompt in prompts] == ["waltz-like", "march", "waltz-like", "march"]
    for prompt in prompts:
        start = prompt.start_ticks
        assert start == 2 * 4 * prompt.score.ticks_per_beat
        assert prompt.score.notes.onset_ticks.max() < start
        assert (prompt.piece.notes.onset_ticks < start).sum() == len(prompt.score.notes)
        np.testing.assert_array_equal(prompt.piece_ids[: len(prompt.ids)], prompt.ids)
        new, _ = prompt.passage(token_language, prompt.piece_ids)
        np.testing.assert_array_equal(new, prompt.piece_ids[len(prompt.ids) :])


def test_unusable_files_are_reported_and_the_others_read(tmp_path: Path):
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        read_prompts(tmp_path / "none", GROOVE, bars=2, tokens=300)
    with pytest.raises(ValueError, match="holds no MIDI files"):
        read_prompts(tmp_path, GROOVE, bars=2, tokens=300)
    (tmp_path / "rubbish.mid").write_bytes(b"no music")
    with pytest.raises(ValueError, match=r"none of the 1 files in .* gives a prompt: rubbish\.mid"):
        read_prompts(tmp_path, GROOVE, bars=2, tokens=300)
    write_pieces(tmp_path)
    (tmp_path / "notes.txt").write_text("ignored")
    write_score(tmp_path / "short.mid", piece("march", 40, bars=2))
    prompts, (rubbish, short) = read_prompts(tmp_path, GROOVE, bars=2, tokens=300)
    assert len(prompts) == 4
    assert rubbish.startswith("rubbish.mid is not a MIDI file")
    assert short == "short.mid has 2 bars; it needs more than the 2 of the prompt"
    _, refused = read_prompts(tmp_path, GROOVE, bars=2, tokens=80)
    assert sum("which leaves none of the 80 to write" in sentence for sentence in refused) == 2


def passages(*asked: Any) -> dict[str, Any]:
    return reference_passages(*asked, 140, seed=0)


def test_reference_passages(prompts, token_language):
    """They have the given length and start after two bars; `other` has another style, if there is one."""
    for prompt in prompts:
        found, same = (
            passages(token_language, prompts, prompt),
            passages(token_language, prompts, prompt),
        )
        for name, ids in (
            ("looped", looped(token_language, prompt, 140)),
            ("piece", prompt.piece_ids),
        ):
            begun = token_language.bars(ids)[2] + (token_language.bar is not None)
            np.testing.assert_array_equal(found[name][0], ids[begun:140])
        new = found["other"][0]
        np.testing.assert_array_equal(new, same["other"][0])
        others = [other for other in prompts if other.style != prompt.style]
        assert any(np.array_equal(new, o.piece_ids[len(o.ids) : 140]) for o in others)
    assert passages(token_language, prompts[:1], prompts[0])["other"] is None


def test_the_looped_prompt_repeats_the_prompt(prompts, token_language):
    prompt = prompts[0]
    ids = looped(token_language, prompt, 600)
    assert len(ids) > 600
    np.testing.assert_array_equal(ids[: len(prompt.ids)], prompt.ids)
    score, notes = token_language.decode(ids), prompt.score.notes
    again = excerpt(score, prompt.start_ticks, 2 * prompt.start_ticks).notes
    np.testing.assert_array_equal(again.pitch, notes.pitch)
    np.testing.assert_array_equal(again.onset_ticks, notes.onset_ticks)
