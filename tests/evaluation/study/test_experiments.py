"""Jobs run once, are stored whole and resume; failures are reported in a sentence."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evaluation.study import experiments as jobs_module
from evaluation.study import extrapolation as losses
from evaluation.study.accompaniment import accompanied
from evaluation.study.experiments import Measurement, conduct, job_of, models_of, run
from evaluation.study.piece_jobs import Choice, draw_pieces, held_out, piece_experiment
from musicgen.critic import FIELDS, Critic
from musicgen.playable import find
from tests.evaluation.toys import write_model
from tests.training.makers import prepared_set
from tokenization.prepared import TOKENS_FILE, Prepared


def test_the_pieces_of_a_job_that_fails_are_left_out(tmp_path: Path, monkeypatch):
    data = prepared_set(tmp_path / "remi", "remi", held_out=7)
    models = models_of([write_model(tmp_path / "sine", "remi", "sine_spe")], "cpu")
    choice = Choice(data=str(data), pieces=7, split="validation", seed=0, device="cpu")
    _, rows, _ = held_out(models, choice, 40)
    read, begun = losses.piece_loss, []

    def measured(choice: Choice) -> tuple[dict[str, Any], list[str]]:
        made = losses.extrapolation(models, choice, length=40)
        found, failures = conduct({"extrapolation": made})
        return found["extrapolation"], failures

    def piece_loss(*arguments: Any) -> Any:
        begun.append(arguments)
        if len(begun) == 1:
            raise ValueError("a fault")
        return read(*arguments)

    alone, none = measured(replace(choice, skip=1))
    assert none == []
    monkeypatch.setattr(losses, "piece_loss", piece_loss)
    found, (failure,) = measured(choice)
    left = choice.prepared.name(rows[0])
    assert failure == f"{left} is left out of extrapolation for sine: a fault"
    assert found["models"] == alone["models"]
    assert found["models"][0]["parts"]["trained"]["pieces"] == 6


def test_the_same_pieces_are_skipped_for_any_length(tmp_path: Path, monkeypatch):
    data = prepared_set(tmp_path / "data", "ensemble", held_out=0, tested=9)
    choice = Choice(data=str(data), pieces=9, split="test", seed=0, device="cpu")

    def taken(skip: int, fewest_bars: int = 0) -> list[int]:
        chosen, random = replace(choice, skip=skip), np.random.default_rng(0)
        rows, places = draw_pieces(chosen, random, fewest_bars=fewest_bars)
        return chosen.prepared.pieces.file[rows[places]].tolist()

    every = taken(0)
    assert sorted(every) == list(range(8, 17))  # training pieces come first
    assert taken(4) == every[4:]
    bars, short = Prepared.bars, (every[1], every[5])

    def shortened(prepared: Prepared, row: int) -> np.ndarray:
        return bars(prepared, row)[: 1 if prepared.pieces.file[row] in short else None]

    monkeypatch.setattr(Prepared, "bars", shortened)
    assert taken(4, fewest_bars=2) == [file for file in every[4:] if file not in short]
    assert taken(9) == []


def test_damaged_tokens_are_refused(tmp_path: Path):
    make = partial(piece_experiment, "accompaniment", accompanied, hide=["bass"], bars=2)
    data = prepared_set(tmp_path / "data", "ensemble", held_out=2)
    models = models_of(["untrained:tiny:ensemble"], "cpu")
    choice = Choice(data=str(data), pieces=2, split="validation", seed=0, device="cpu")
    make(models, choice)
    tokens = bytearray((data / TOKENS_FILE).read_bytes())
    tokens[-2] ^= 1  # still a token
    (data / TOKENS_FILE).write_bytes(tokens)
    with pytest.raises(ValueError, match="is damaged: its checksum is not the one"):
        make(models, replace(choice))


def recorded(*, value: int, where: str) -> int:
    """Record the call and return the square; raise ValueError for negative values."""
    with Path(where).open("a") as file:
        file.write(f"{value}\n")
    if value < 0:
        raise ValueError(f"{value} is\nnegative")
    return value**2


def job(value: int, where: object, **more: dict) -> Measurement:
    places = {"where": str(where)}
    return Measurement(measure=recorded, arguments={"value": value}, places=places, **more)


def test_finished_jobs_are_not_repeated_and_failed_ones_do_not_stop_the_rest(tmp_path: Path):
    jobs, told = [job(value, tmp_path / "ran") for value in (2, -1, 3)], []
    for _ in range(2):
        found = run(jobs, folder=tmp_path / "kept", progress=lambda *now: told.append(now))
        assert [done.result for done in found] == [4, None, 9]
        assert found[1].error == "-1 is negative"
    assert told == [(0, 3), (1, 3), (2, 3), (3, 3), (2, 3), (3, 3)]
    assert (tmp_path / "ran").read_text().split() == ["2", "-1", "3", "-1"]
    # A damaged result is measured again.
    kept = tmp_path / "kept" / f"{jobs[0].key}.json"
    kept.write_text('{"done": {"resu')
    assert run(jobs[:1], folder=tmp_path / "kept")[0].result == 4
    assert json.loads(kept.read_text())["arguments"] == {"value": 2}


def test_the_key_of_a_result_does_not_depend_on_paths():
    assert job(2, "a").key == job(2, "b").key
    assert len({one.key for one in (job(2, "a"), job(3, "a"), job(2, "a", identity={"w": 1}))}) == 3


def test_music_is_kept_for_the_code_that_wrote_it(monkeypatch):
    toy = find("untrained:tiny")
    keys = [job_of(toy, generating, "cpu", value=2)[1].key]
    monkeypatch.setattr(jobs_module, "version", lambda *, chooses: "another")
    keys += [job_of(toy, generating, "cpu", value=2)[1].key]
    assert keys[0] != keys[1]
    assert "code" not in job_of(toy, recorded, "cpu", value=2)[1].identity
    names = {
        path.name for folder in ("musicgen", "tokenization") for path in Path(folder).rglob("*.py")
    }
    assert names > {*jobs_module.JUDGES}


def test_music_that_a_critic_chooses_is_kept_for_that_critic():
    critics = [Critic(dict.fromkeys(FIELDS, np.full((1, 1), value))) for value in (1.0, 2.0)]
    toys = [replace(find("untrained:tiny"), read_critic=lambda own=own: own) for own in critics]
    for draw, count in ((1, 1), (2, 2)):
        keys = {job_of(toy, generating, "cpu", draw=draw)[1].key for toy in toys}
        assert len(keys) == count


def generating(*, value: int):
    """Yield one generation, and a second one if the value is odd."""
    if value == 3:
        raise ValueError("3 cannot be measured")
    yield [value]
    if value % 2:
        yield [-value]
    if value == 4:
        raise OSError("the result for 4 cannot be read")
    return value**2


def test_the_generations_of_several_jobs_run_in_one_batch(monkeypatch: pytest.MonkeyPatch):
    written: list[list[int]] = []
    monkeypatch.setattr(jobs_module, "run_together", lambda works: iter([written.append([*works])]))
    told: list[int] = []
    jobs = [Measurement(measure=generating, arguments={"value": value}) for value in range(10)]
    found = run(jobs, progress=lambda done, _: told.append(done))
    assert [done.result for done in found] == [0, 1, 4, None, None, 25, 36, 49, 64, 81]
    assert found[3].error == "3 cannot be measured"
    assert found[4].error == "the result for 4 cannot be read"
    assert written == [[0, 1, 2, 4, 5, 6, 7], [-1, -5, -7], [8, 9], [-9]]
    assert told == [0, 8, 10]
    for workers, sizes in ((0, [8, 2]), (2, [5, 5]), (4, [3, 3, 3, 1])):
        assert [*map(len, jobs_module._batches(jobs, workers))] == sizes
