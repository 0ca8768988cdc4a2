"""The passages that frame the scores."""

from pathlib import Path

import numpy as np
import pytest

from evaluation.continuation.prompts import PromptedPiece, looped, read_prompts, reference_passages
from evaluation.metrics.style import copied_share, cosine, onset_drum, onset_duration
from tests.evaluation.continuation.toys import write_pieces
from tokenization.language import language
from tokenization.score import excerpt


@pytest.fixture(params=["groove", "remi"])
def speaker(request: pytest.FixtureRequest):
    return language(request.param)


@pytest.fixture
def prompts(tmp_path: Path, speaker) -> list[PromptedPiece]:
    return read_prompts(write_pieces(tmp_path), speaker, bars=2, tokens=200)[0]


def test_all_are_as_long_as_asked_for_and_go_on_after_two_bars(prompts, speaker):
    for prompt in prompts:
        for passage in reference_passages(speaker, prompts, prompt, 140, seed=0).values():
            assert len(passage.ids) == 140
            assert passage.start_ticks == prompt.start_ticks
            before = speaker.bars(passage.ids)[2] + (speaker.bar is not None)
            assert passage.begun == before


def test_the_looped_prompt_repeats_it(prompts, speaker):
    prompt = prompts[0]
    ids = looped(speaker, prompt, 600)
    assert len(ids) > 600
    np.testing.assert_array_equal(ids[: len(prompt.ids)], prompt.ids)
    score = speaker.decode(ids)
    again = excerpt(score, prompt.start_ticks, 2 * prompt.start_ticks)
    np.testing.assert_array_equal(again.notes.pitch, prompt.score.notes.pitch)
    np.testing.assert_array_equal(again.notes.onset_ticks, prompt.score.notes.onset_ticks)
    ticks = score.ticks_per_beat
    for histogram in (onset_duration, onset_drum):
        similarity = cosine(histogram(score.notes, ticks), histogram(prompt.score.notes, ticks))
        assert similarity > 0.98
    assert copied_share(ids[len(prompt.ids) : 600], prompt.ids, run=8) > 0.9


def test_the_other_one_has_another_style(prompts, speaker):
    for prompt in prompts:
        found = reference_passages(speaker, prompts, prompt, 140, seed=0)
        same = reference_passages(speaker, prompts, prompt, 140, seed=0)
        np.testing.assert_array_equal(found["other"].ids, same["other"].ids)
        others = [other for other in prompts if other.style != prompt.style]
        assert any(np.array_equal(found["other"].ids, o.piece_ids[:140]) for o in others)


def test_there_may_be_no_other_style(prompts, speaker):
    prompt = prompts[0]
    assert reference_passages(speaker, [prompt], prompt, 140, seed=0)["other"] is None
