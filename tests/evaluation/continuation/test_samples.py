"""What models write, how it is kept, and what is not written again."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from evaluation.continuation import experiment
from evaluation.continuation.plan import Plan
from evaluation.continuation.prompts import PromptedPiece, read_prompts
from tests.evaluation.continuation.toys import PLAN, playable, write_pieces
from tokenization.language import language
from tokenization.midi.reading import read_midi

GROOVE = language("groove")
MODEL = playable()


@pytest.fixture(scope="module")
def prompts(tmp_path_factory: pytest.TempPathFactory) -> list[PromptedPiece]:
    folder = write_pieces(tmp_path_factory.mktemp("midi"))
    return read_prompts(folder, GROOVE, bars=2, tokens=PLAN.tokens)[0]


def alone(prompt: PromptedPiece, plan: Plan = PLAN) -> list[np.ndarray]:
    """Return what a prompt gets by itself."""
    return experiment.sequences(experiment.continuing_work(MODEL, prompt, plan).finish(), plan)


def never() -> None:
    raise AssertionError("nothing is left to be written")


def test_samples_are_valid_of_the_planned_length_and_a_function_of_the_seed(prompts):
    found = alone(prompts[0])
    assert len(found) == PLAN.samples
    for ids in found:
        assert GROOVE.validate(ids) is None
        assert len(ids) == PLAN.tokens
        assert GROOVE.end not in ids
        np.testing.assert_array_equal(ids[: len(prompts[0].ids)], prompts[0].ids)
    assert not np.array_equal(found[0], found[1])
    assert not np.array_equal(found, alone(prompts[0], replace(PLAN, seed=1)))


def test_what_is_written_can_be_read_and_heard_and_is_not_written_again(prompts, tmp_path: Path):
    told = []
    for model, some in (
        (MODEL, prompts[:1]),
        (replace(MODEL, weights=never), prompts[:1]),
        (MODEL, prompts),
    ):
        experiment.write_samples(
            model, some, PLAN, tmp_path, progress=lambda *now: told.append(now)
        )
    assert told == [(0, 1), (1, 1), (1, 1), (1, 4), (4, 4)]  # the rest in one batch
    kept = experiment.read_samples(MODEL, prompts[1], PLAN, tmp_path)
    np.testing.assert_array_equal(kept, alone(prompts[1]))
    home = experiment.home_of(MODEL, PLAN, tmp_path)
    assert len(list(home.glob("*.json"))) == 4
    heard = sorted(home.glob("*.prompt_cont_*.mid"))
    assert len(heard) == 8
    assert all(len(read_midi(path).notes) for path in heard)
    assert b'"temperature": 0.6' in heard[0].read_bytes()
    assert not list(home.glob("*.new"))


def test_what_answers_to_something_else_is_written_again(prompts, tmp_path: Path):
    prompt = prompts[0]
    experiment.write_samples(MODEL, [prompt], PLAN, tmp_path)

    def refused(model=MODEL, prompt=prompt, plan=PLAN) -> None:
        with pytest.raises(FileNotFoundError, match="has not continued"):
            experiment.read_samples(model, prompt, plan, tmp_path)

    refused(plan=replace(PLAN, seed=1))
    refused(model=replace(MODEL, sha256="f" * 64))
    refused(prompt=replace(prompt, ids=prompt.ids[:-1]))
    (path,) = experiment.home_of(MODEL, PLAN, tmp_path).glob("*.json")
    for broken in (b"", b"[]", path.read_bytes()[:-30], json.dumps({"prompt": "x"}).encode()):
        path.write_bytes(broken)
        refused()
    experiment.write_samples(MODEL, [prompt], PLAN, tmp_path)
    assert len(experiment.read_samples(MODEL, prompt, PLAN, tmp_path)) == 2
