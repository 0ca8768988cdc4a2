"""What models write, how it is kept, and what is not written again."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from evaluation.continuation import experiment
from evaluation.continuation.plan import Plan
from evaluation.continuation.prompts import PromptedPiece, read_prompts
from evaluation.study.models import of_one_language
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


def test_an_interrupted_prompt_leaves_none(prompts, tmp_path: Path, monkeypatch):
    def break_off(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(experiment, "write_score", break_off)
    with pytest.raises(KeyboardInterrupt):
        experiment.write_samples(MODEL, prompts[:1], PLAN, tmp_path)
    with pytest.raises(FileNotFoundError, match="has not continued"):
        experiment.read_samples(MODEL, prompts[0], PLAN, tmp_path)


@pytest.mark.long
def test_two_processes_write_what_one_does(prompts, tmp_path: Path):
    experiment.write_samples(MODEL, prompts[:2], PLAN, tmp_path, workers=2)
    for prompt in prompts[:2]:
        kept = experiment.read_samples(MODEL, prompt, PLAN, tmp_path)
        np.testing.assert_array_equal(kept, alone(prompt))


def test_names_of_files_stay_apart(prompts, tmp_path: Path):
    twins = [replace(prompts[0], name=name) for name in ("a/b.mid", "a-b.mid", "ä" * 300)]
    experiment.write_samples(playable("../x y"), twins, PLAN, tmp_path)
    (home,) = tmp_path.glob("*-*")
    assert home.name.startswith("x-y-")
    assert len(list(home.glob("*.json"))) == 3


def test_a_plan_is_checked_and_models_of_another_language_are_left_out():
    for wrong, said in (({"samples": 0}, "samples is 0; it must be"), ({"seed": -1}, "seed is -1")):
        with pytest.raises(ValueError, match=said):
            Plan(**wrong)
    remi = replace(playable("b"), language=language("remi"))
    kept, (told,) = of_one_language([playable("a"), remi, playable("c")])
    assert [model.name for model in kept] == ["a", "c"]
    assert told.startswith(
        "b uses the language remi, but a groove: one table compares models of one language"
    )
