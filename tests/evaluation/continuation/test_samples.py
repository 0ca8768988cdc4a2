"""What models write, how it is kept, and what is not written again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from evaluation.continuation import experiment
from evaluation.continuation.experiment import (
    continuing_work,
    home_of,
    read_samples,
    sequences,
    write_samples,
)
from evaluation.continuation.plan import Plan
from evaluation.continuation.prompts import PromptedPiece, read_prompts
from evaluation.study.models import of_one_language
from musicgen.playable import Playable
from tests.evaluation.continuation.toys import PLAN, playable, write_pieces
from tokenization.language import language
from tokenization.midi.reading import read_midi

GROOVE = language("groove")


@pytest.fixture(scope="module")
def prompts(tmp_path_factory: pytest.TempPathFactory) -> list[PromptedPiece]:
    folder = write_pieces(tmp_path_factory.mktemp("midi"))
    return read_prompts(folder, GROOVE, bars=2, tokens=PLAN.tokens)[0]


def continuations(prompt: PromptedPiece, plan: Plan = PLAN) -> list[np.ndarray]:
    """Return what a prompt gets by itself."""
    return sequences(continuing_work(playable(), prompt, plan).finish(), plan)


def never() -> None:
    raise AssertionError("nothing is left to be written")


def test_samples_are_valid_of_the_planned_length_and_a_function_of_the_seed(prompts):
    found = continuations(prompts[0])
    assert len(found) == PLAN.samples
    for ids in found:
        assert GROOVE.validate(ids) is None
        assert len(ids) == PLAN.tokens
        assert GROOVE.end not in ids
        np.testing.assert_array_equal(ids[: len(prompts[0].ids)], prompts[0].ids)
    assert not np.array_equal(found[0], found[1])
    np.testing.assert_array_equal(found, continuations(prompts[0]))
    assert not np.array_equal(found, continuations(prompts[0], replace(PLAN, seed=1)))


def test_what_is_written_can_be_read_and_heard_and_is_not_written_again(prompts, tmp_path: Path):
    model, told = playable(), []

    def progress(done: int, total: int) -> None:
        told.append((done, total))

    write_samples(model, prompts[:1], PLAN, tmp_path, progress=progress)
    idle: Playable = replace(model, weights=never)  # type: ignore[arg-type]
    write_samples(idle, prompts[:1], PLAN, tmp_path)
    write_samples(model, prompts, PLAN, tmp_path, progress=progress)
    assert told == [(0, 1), (1, 1), (1, 4), (4, 4)]  # the rest in one batch
    alone = continuations(prompts[1])
    np.testing.assert_array_equal(read_samples(model, prompts[1], PLAN, tmp_path), alone)
    home = home_of(model, PLAN, tmp_path)
    assert len(list(home.glob("*.json"))) == 4
    heard = sorted(home.glob("*.prompt_cont_*.mid"))
    assert len(heard) == 8
    assert all(len(read_midi(path).notes) for path in heard)
    assert b'"temperature": 0.6' in heard[0].read_bytes()
    assert not list(home.glob("*.new"))


def test_what_answers_to_something_else_is_written_again(prompts, tmp_path: Path):
    model, prompt = playable(), prompts[0]
    write_samples(model, [prompt], PLAN, tmp_path)
    others = [(model, prompt, replace(PLAN, seed=1))]
    others.append((replace(model, sha256="f" * 64), prompt, PLAN))
    others.append((model, replace(prompt, ids=prompt.ids[:-1]), PLAN))
    for other in others:
        with pytest.raises(FileNotFoundError, match="has not continued"):
            read_samples(*other, tmp_path)
    (path,) = home_of(model, PLAN, tmp_path).glob("*.json")
    for broken in (b"", b"[]", path.read_bytes()[:-30], json.dumps({"prompt": "x"}).encode()):
        path.write_bytes(broken)
        with pytest.raises(FileNotFoundError, match="has not continued"):
            read_samples(model, prompt, PLAN, tmp_path)
    write_samples(model, [prompt], PLAN, tmp_path)
    assert len(read_samples(model, prompt, PLAN, tmp_path)) == 2


def test_an_interrupted_prompt_leaves_none(prompts, tmp_path: Path, monkeypatch):
    model = playable()
    written = []

    def break_off(path, *_):
        if written:
            raise KeyboardInterrupt
        written.append(path)

    monkeypatch.setattr(experiment, "write_score", break_off)
    with pytest.raises(KeyboardInterrupt):
        write_samples(model, prompts[:1], PLAN, tmp_path)
    with pytest.raises(FileNotFoundError, match="has not continued"):
        read_samples(model, prompts[0], PLAN, tmp_path)


@pytest.mark.long
def test_two_processes_write_what_one_does(prompts, tmp_path: Path):
    model, plan = playable(), replace(PLAN, tokens=110)
    for workers in (1, 2):
        write_samples(model, prompts[:2], plan, tmp_path / str(workers), workers=workers)
    for prompt in prompts[:2]:
        one, two = (read_samples(model, prompt, plan, tmp_path / name) for name in "12")
        np.testing.assert_array_equal(one, two)


def test_names_of_files_stay_apart(prompts, tmp_path: Path):
    twins = [replace(prompts[0], name=name) for name in ("a/b.mid", "a-b.mid", "ä" * 300)]
    write_samples(playable("../x y"), twins, PLAN, tmp_path)
    (home,) = tmp_path.glob("*-*")
    assert home.name.startswith("x-y-")
    assert len(list(home.glob("*.json"))) == 3


def test_a_plan_is_checked_and_models_of_another_language_are_left_out():
    with pytest.raises(ValueError, match="samples is 0; it must be 1 or more"):
        Plan(samples=0)
    with pytest.raises(ValueError, match="seed is -1"):
        Plan(seed=-1)
    groove, remi = playable("a"), replace(playable("b"), language=language("remi"))
    kept, told = of_one_language([groove, remi, playable("c")])
    assert [model.name for model in kept] == ["a", "c"]
    assert told == [
        "b speaks remi, but a groove: one table compares models of one language, so it is left out"
    ]
