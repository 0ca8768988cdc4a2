"""The bench names its works, times them in a child, and compares within one run."""

from dataclasses import replace

import pytest

from evaluation.speed.bench import bench, gpu_facts, names
from evaluation.speed.workloads import WORKLOADS, step_profile
from musicgen.model.config import ModelConfig
from musicgen.model.performer import Performer
from tests.musicgen.metre.toys import CLOCK, METRE


def test_every_comparison_is_with_a_work_of_the_bench():
    assert {work.against for work in WORKLOADS.values() if work.against} <= set(WORKLOADS)


def test_a_row_has_times_memory_and_a_ratio_with_its_partner():
    shown = []
    rows = bench(["attention-512"], rounds=1, show=lambda done, total: shown.append((done, total)))
    assert shown[-1][0] == shown[-1][1] == len(rows)
    for row in rows:
        assert row["seconds"] > 0
        assert row["n"] == 3
        assert row["peak_bytes"] > 50e6
    partners = {row["name"]: row for row in rows}
    ours = partners["attention-512"]
    if "attention-512-ft" in partners:
        expected = partners["attention-512-ft"]["seconds"] / ours["seconds"]
        assert ours["ratio"] == pytest.approx(expected)
    else:
        assert ours["ratio"] is None


def test_an_unknown_work_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match=r"no such work.*token-far"):
        names(["tokne"])


def test_the_share_of_a_gpu_is_what_it_computes_over_what_it_can():
    rows = [
        {"name": "gpu-product", "seconds": 2 * 8192**3 / 1e15},
        {"name": "gpu-train", "seconds": 0.1},
    ]
    facts = gpu_facts(rows)
    assert facts["tokens_per_second"] == pytest.approx(8 * 2048 / 0.1)
    assert facts["share_of_peak"] == pytest.approx(6 * 76e6 * 163840 / 1e15)
    assert gpu_facts([]) == {}


TINY = ModelConfig.preset("tiny", vocabulary_size=20, position="sine_spe")


@pytest.mark.parametrize("config", [TINY, replace(TINY, metre=METRE, clock=CLOCK)])
def test_the_profile_of_a_token_accounts_for_all_of_its_time(config: ModelConfig):
    model = Performer(config)
    rows = {row["part"]: row for row in step_profile(model, tokens=4)}
    whole = rows.pop("whole")
    assert whole["share"] == 1
    assert sum(row["seconds"] for row in rows.values()) == pytest.approx(whole["seconds"])
    assert all(row["seconds"] > 0 and row["n"] == 4 for row in rows.values())
    assert "cover_rows" not in vars(model.position), "the model is left as it was"
