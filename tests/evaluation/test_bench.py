"""The tasks of the bench."""

import pytest

from evaluation.bench import WORKLOADS, bench, names


def test_every_comparison_is_with_another_task():
    assert {work.against for work in WORKLOADS.values() if work.against} <= set(WORKLOADS)
    with pytest.raises(ValueError, match=r"no such task.*token-far"):
        names(["tokne"])
    row = bench(["attention"], 1, lambda done, total: None)[0]
    assert row["n"] == 3
    assert row["seconds"] > 0
