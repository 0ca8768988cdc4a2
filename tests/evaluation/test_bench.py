"""The tasks of the bench."""

import numpy as np
import pytest

from evaluation.bench import WORKLOADS, bench, names
from musicgen.kernel.network import KernelNetwork


def test_every_comparison_is_with_another_task():
    assert {work.against for work in WORKLOADS.values() if work.against} <= set(WORKLOADS)
    with pytest.raises(ValueError, match=r"no such task.*token-far"):
        names(["tokne"])
    row = bench(["attention"], 1, lambda done, total: None)[0]
    assert row["n"] == 3
    assert row["seconds"] > 0


@pytest.mark.parametrize(
    ("name", "rows"), [("shipped-1", 1), ("shipped-32", 32), ("shipped-prompt", 1)]
)
def test_a_task_of_the_kernel_computes_as_many_tokens_as_it_counts(
    name: str, rows: int, monkeypatch: pytest.MonkeyPatch
):
    computed, advance = [], KernelNetwork.advance

    def counting(network: KernelNetwork, states: list, tokens: np.ndarray) -> np.ndarray:
        computed.append(len(tokens))
        return advance(network, states, tokens)

    monkeypatch.setattr(KernelNetwork, "advance", counting)
    timed = WORKLOADS[name].set_up()
    computed.clear()
    timed()
    assert sum(computed) == rows * WORKLOADS[name].per
