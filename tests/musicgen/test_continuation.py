"""What is continued, and bars that are written anew, without a page or a command around it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from musicgen.continuation import Continuation
from musicgen.generation.request import Request
from musicgen.model.config import ModelConfig
from musicgen.model.performer import Performer
from musicgen.pieces import read_piece
from musicgen.playable import load

GROOVE_FILE = Path(__file__).parent.parent / "seeds" / "groove.mid"
LONGEST = [7, 1, 30]
PROMPT_BARS = 2


def test_a_groove_keeps_to_its_prompt_and_to_notes_as_long_as_its_model_knows():
    model = replace(load("untrained:tiny:groove"), longest_ticks=LONGEST)
    prompt = read_piece(model.language, GROOVE_FILE, name="groove.mid").prompt(PROMPT_BARS)
    closed = model.language.close(prompt.ids, PROMPT_BARS)
    heard = np.maximum(model.language.longest([closed]), prompt.score.ticks_per_beat)
    assert (heard < LONGEST).any()
    work = Continuation(model, prompt, Request(bars=6, variations=3, seed=0))
    assert list(work)
    for take in work.takes():
        notes = take.continuation.notes
        assert len(notes) > 9
        assert (notes.duration_ticks <= np.minimum(LONGEST, heard)[notes.track]).all()
        before = take.score.notes[take.score.notes.onset_ticks < prompt.ticks]
        for name in ("onset_ticks", "pitch", "track"):
            found, written = (getattr(x.sorted(), name) for x in (before, prompt.score.notes))
            np.testing.assert_array_equal(found, written)


@pytest.mark.parametrize("name", ["groove", "ensemble"])
def test_a_length_that_is_none_is_refused(name: str):
    """And nothing is taken from the prompt instead."""
    model = load(f"untrained:tiny:{name}")
    prompt = read_piece(model.language, GROOVE_FILE, name="groove.mid").prompt(PROMPT_BARS)
    for none in (0, -1):
        with pytest.raises(ValueError, match=f"bars is {none}; to continue at all it is 1 or more"):
            Continuation(model, prompt, Request(bars=none))
    with pytest.raises(ValueError, match="give bars and not tokens"):
        Continuation(model, prompt, Request(tokens=9, ends=True))
    with pytest.raises(ValueError, match="tokens is 0"):
        Continuation(model, prompt, Request(tokens=0)).finish()


def test_music_that_meets_a_bound_of_its_encoding_stands_and_says_so():
    made = load("untrained:tiny:groove")
    config = ModelConfig(
        vocabulary_size=len(made.language.vocabulary), layers=1, width=16, heads=2, feedforward=16,
        position={"name": "learned", "max_length": 60},
    )  # fmt: skip
    model = replace(made, weights=lambda: Performer(config).eval())
    takes = model.continue_(bars=200, variations=10)
    assert [take.tokens for take in takes] == [60] * 10
    for take in takes:
        assert len(take.score.notes)
        [remark] = take.score.remarks
        assert remark.startswith("the music ends before its length: the sequence reaches 61 tokens")
