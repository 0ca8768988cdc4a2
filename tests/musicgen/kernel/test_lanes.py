"""Several instances of the kernel compute what one does."""

import numpy as np
import pytest

from musicgen.eager import network_of
from musicgen.kernel.lanes import Lanes, LaneState
from musicgen.kernel.network import KernelNetwork
from tests.musicgen.kernel.test_network import KNOWN, in_8_bits
from tests.musicgen.toys import stirred, toy_model, toy_tokens


def read(states: list[LaneState]) -> np.ndarray:
    """Return the logits of states, as they are drawn from in the first lane: (B, V)."""
    lanes = states[0]._lanes
    size = lanes.config.vocabulary_size
    return np.stack([
        lanes.kernel.machine.read(state.logits_at, 4 * size).view(np.float32) for state in states
    ])  # fmt: skip


@pytest.mark.parametrize("name", ["all", "conv", "metric heads", "no encoding"])
def test_lanes_compute_what_one_instance_does(name: str):
    """Rows that are copied, go on in steps of several sizes, and end, so that others move to their lanes."""
    model = in_8_bits(stirred(toy_model(layers=2, **KNOWN[name])))
    one, made = network_of(model), []
    assert isinstance(one, KernelNetwork)

    def make() -> KernelNetwork:
        network = network_of(model)
        assert isinstance(network, KernelNetwork)
        made.append(network)
        return network

    several, random = Lanes(make, most=3), np.random.default_rng(0)
    assert len(made) == 1
    prompt = toy_tokens(1, 30)[0].numpy()
    alone, apart = one.begin(3), several.begin(3)
    one.advance([alone] * 30, prompt)
    several.advance([apart] * 30, prompt)
    assert len(made) == 1  # the others are made for more sequences
    wanted, found = [alone.copy() for _ in range(7)], [apart.copy() for _ in range(7)]
    for step in range(30):
        some = np.sort(random.permutation(len(found))[: random.integers(1, len(found) + 1)])
        tokens = random.integers(0, 11, len(some))
        recalled = None
        if one.config.recall is not None:
            recalled = random.integers(0, 2, (len(some), 4)).astype(np.int16)
        one.advance([wanted[n] for n in some], tokens, recalled)
        several.advance([found[n] for n in some], tokens, recalled)
        now = [found[n] for n in some]
        np.testing.assert_array_equal(read(now), np.stack([wanted[n].logits() for n in some]))
        used = np.bincount([state.lane for state in now], minlength=3)
        assert used.max() - used.min() <= 1
        if step % 7 == 6:  # all go on from one, as after a choice
            best = int(random.integers(len(found)))
            wanted = [wanted[best].copy() for _ in wanted]
            found = [found[best].copy() for _ in found]
    assert len(made) == 3
    del wanted, found, now, alone, apart
    assert all(network.free_blocks == network.blocks_taken for network in made)


@pytest.mark.parametrize(("asked", "most"), [("1", 1), ("2", 2), ("", 3), ("none", 3), ("0", 3)])
def test_there_are_as_many_lanes_as_processors_and_as_threads_that_the_user_lets(
    asked: str, most: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OMP_NUM_THREADS", asked)
    monkeypatch.setattr("tokenization.processes.processors", lambda: 3)
    model = toy_model()
    assert Lanes(lambda: network_of(model)).most == most  # type: ignore[arg-type, return-value]
