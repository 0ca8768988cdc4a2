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


@pytest.fixture
def prompts(tmp_path: Path) -> list[PromptedPiece]:
    return read_prompts(write_pieces(tmp_path / "midi"), GROOVE, bars=2, tokens=PLAN.tokens)[0]


def continuations(model: Playable, prompt: PromptedPiece, plan: Plan) -> list[np.ndarray]:
    """Return what a prompt gets by itself."""
    return sequences(continuing_work(model, prompt, plan).finish(), plan)


def never() -> None:
    raise AssertionError("nothing is left to be written")


def idle(model: Playable) -> Playable:
    """Return a model that cannot be loaded."""
    return replace(model, weights=never)  # type: ignore[arg-type]


def test_samples_are_valid_of_the_planned_length_and_differ(prompts):
    found = continuations(playable(), prompts[0], PLAN)
    assert len(found) == PLAN.samples
    for ids in found:
        assert GROOVE.validate(ids) is None
        assert len(ids) == PLAN.tokens
        assert GROOVE.end not in ids
        np.testing.assert_array_equal(ids[: len(prompts[0].ids)], prompts[0].ids)
    assert not np.array_equal(found[0], found[1])


def test_samples_depend_on_seed_and_prompt_and_on_nothing_else(prompts):
    first = continuations(playable(), prompts[0], PLAN)
    again = continuations(playable(), prompts[0], PLAN)
    other = continuations(playable(), prompts[0], replace(PLAN, seed=1))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_what_is_written_can_be_read_and_heard(prompts, tmp_path: Path):
    model, told = playable(), []
    write_samples(model, prompts, PLAN, tmp_path, progress=lambda *now: told.append(now))
    assert told == [(0, 4), (4, 4)]  # all in one batch
    expected = continuations(playable(), prompts[1], PLAN)
    np.testing.assert_array_equal(read_samples(model, prompts[1], PLAN, tmp_path), expected)
    home = home_of(model, PLAN, tmp_path)
    assert len(list(home.glob("*.json"))) == 4
    heard = sorted(home.glob("*.prompt_cont_*.mid"))
    assert len(heard) == 8
    assert all(len(read_midi(path).notes) for path in heard)
    assert b'"temperature": 0.6' in heard[0].read_bytes()
    assert not list(home.glob("*.new"))


def test_a_finished_prompt_is_not_written_again(prompts, tmp_path: Path):
    model = playable()
    write_samples(model, prompts[:2], PLAN, tmp_path)
    write_samples(idle(model), prompts[:2], PLAN, tmp_path)
    told = []
    write_samples(model, prompts, PLAN, tmp_path, progress=lambda *now: told.append(now))
    assert told == [(2, 4), (4, 4)]  # both in one batch


def test_what_answers_to_something_else_is_written_again(prompts, tmp_path: Path):
    model, prompt = playable(), prompts[0]
    write_samples(model, [prompt], PLAN, tmp_path)
    for change in ({"seed": 1}, {"temperature": 0.7}, {"tokens": 139}):
        with pytest.raises(FileNotFoundError, match="has not continued"):
            read_samples(model, prompt, replace(PLAN, **change), tmp_path)
    with pytest.raises(FileNotFoundError, match="has not continued"):
        read_samples(replace(model, sha256="f" * 64), prompt, PLAN, tmp_path)
    changed = replace(prompt, ids=prompt.ids[:-1])
    with pytest.raises(FileNotFoundError, match="has not continued"):
        read_samples(model, changed, PLAN, tmp_path)
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
        write_samples(model, prompts, PLAN, tmp_path)
    with pytest.raises(FileNotFoundError, match="has not continued"):
        read_samples(model, prompts[0], PLAN, tmp_path)


def test_two_processes_write_what_one_does(prompts, tmp_path: Path):
    model, plan = playable(), replace(PLAN, tokens=110)
    write_samples(model, prompts[:2], plan, tmp_path / "one", workers=1)
    write_samples(model, prompts[:2], plan, tmp_path / "two", workers=2)
    for prompt in prompts[:2]:
        np.testing.assert_array_equal(
            read_samples(model, prompt, plan, tmp_path / "one"),
            read_samples(model, prompt, plan, tmp_path / "two"),
        )


def test_names_of_files_stay_apart(prompts, tmp_path: Path):
    twins = [replace(prompts[0], name=name) for name in ("a/b.mid", "a-b.mid", "ä" * 300)]
    write_samples(playable("../x y"), twins, PLAN, tmp_path)
    (home,) = tmp_path.glob("*-*")
    assert home.name.startswith("x-y-")
    assert len(list(home.glob("*.json"))) == 3


def test_a_plan_is_checked():
    with pytest.raises(ValueError, match="samples is 0; it must be 1 or more"):
        Plan(samples=0)
    with pytest.raises(ValueError, match="seed is -1"):
        Plan(seed=-1)


def test_models_of_another_language_are_left_out():
    groove, remi = playable("a"), replace(playable("b"), language=language("remi"))
    kept, told = of_one_language([groove, remi, playable("c")])
    assert [model.name for model in kept] == ["a", "c"]
    assert told == [
        "b speaks remi, but a groove: one table compares models of one language, so it is left out"
    ]
