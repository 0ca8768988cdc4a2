"""The kernel computes what `Performer` computes, and each item gives the same whatever comes with it."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from musicgen.checkpoint import dequantised, quantised
from musicgen.eager import EagerNetwork, network_of
from musicgen.kernel.host import KernelError
from musicgen.kernel.network import KernelNetwork, State
from musicgen.kernel.packing import musical_frequencies
from musicgen.parts import MetreConfig
from musicgen.performer import Performer
from musicgen.position.spe.base import SpeCode, StochasticPosition
from musicgen.position.spe.convolutional import ConvSpe, WhiteNoise
from tests.musicgen.toys import RECALL, kernel_logits, stirred, toy_model, toy_tokens

ROOT = Path(__file__).parents[3]
SEED = 5
METRE = MetreConfig(bars=(1, 2), remembers=(2, 8), features=3)
SPE = {"name": "sine_spe", "realisations": 8}
KNOWN = {
    "gated sine": {"position": SPE},
    "ungated sine": {"position": {**SPE, "gated": False}},
    "sine of each layer": {"position": {**SPE, "shared": False}},
    "conv": {"position": {"name": "conv_spe", "realisations": 8, "taps": 20}},
    "conv of each layer": {"position": {"name": "conv_spe", "realisations": 8, "taps": 5, "shared": False}},
    "sine in music": {"position": {**SPE, "time": "music"}},
    "rotations": {"position": "rope"},
    "rotations in music": {"position": {"name": "rope", "time": "music"}},
    "vectors": {"position": "absolute"},
    "learned vectors": {"position": {"name": "learned", "max_length": 64}},
    "no encoding": {"position": "none"},
    "random relu": {"features": {"name": "relu", "features": 12}},
    "elu": {"features": "elu"},
    "random elu": {"features": {"name": "elu", "features": 40}},
    "favor": {"features": {"name": "favor", "features": 16}},
    "favor far out": {"features": {"name": "favor", "features": 16}, "initial_deviation": 3.0},
    "norms after": {"norm": "post", "activation": "relu"},
    "gelu": {"activation": "gelu"},
    "horizons": {"horizons": (2.0, 20.0)},
    "metric heads": {"metre": METRE},
    "half-bar heads": {"metre": MetreConfig(bars=(0.5, 1), remembers=(3, 2), features=4)},
    "goals and tied": {"goals": (4, 5, 6), "tie_embeddings": True},
    "recall": {"recall": RECALL},
    "all": {"position": {**SPE, "time": "music"}, "metre": METRE, "goals": (7, 9), "recall": RECALL,
            "width": 48, "heads": 4, "feedforward": 100, "horizons": (3.0, 30.0)},
}  # fmt: skip


def in_8_bits(model: Performer) -> Performer:
    """Round a model's matrices to values that 8-bit codes express."""
    for weight in model.parameters():
        if weight.ndim == 2:
            weight.data = torch.from_numpy(dequantised(*quantised(weight.detach().numpy())))
    return model


class KernelNoise(WhiteNoise):
    """The white noise of a state of the kernel, for torch."""

    def __init__(self, state: State, slot: int) -> None:
        self.state, self.slot, self.dtype = state, slot, torch.float32
        f = state.network.fields
        self.shape = tuple(int(f[name]) for name in ("heads", "head_width", "encoded"))

    def window(self, start: int, stop: int) -> torch.Tensor:
        kernel, f = self.state.network.kernel, self.state.network.fields
        heads, head_width, width = self.shape
        channels, own = int(f["slots"]) * heads * head_width, heads * head_width
        found, span = np.zeros((own, stop - start, width), np.float32), kernel.take(4 * width)
        for place in range(start, stop):
            for channel in range(own):
                at = (place * channels + self.slot * own + channel) * width
                kernel.call("normals", SEED, at, span.address, width, 1.0)
                found[channel, place - start] = span.read(np.float32, width)
        return torch.from_numpy(found).view(heads, head_width, stop - start, width)


def code_of(state: State, model: Performer) -> Any:
    """Return the code with the noise of a state of the kernel."""
    position, f = model.position, state.network.fields
    if not isinstance(position, StochasticPosition):
        return None
    names = ("slots", "heads", "head_width", "waves", "encoded")
    slots, heads, head_width, waves, width = (int(f[name]) for name in names)
    sines = slots * heads * head_width * 2 * waves * width
    gates = slots * heads * head_width * width if position.config.gated else 0
    noise = np.zeros(0) if state.noise is None else state.noise.read(np.float32, sines + gates)
    if isinstance(position, ConvSpe):
        drawn: Any = tuple(KernelNoise(state, slot) for slot in range(slots))
    else:
        z = noise[:sines].reshape(slots, heads, head_width, 2 * waves, width)
        drawn = tuple(torch.from_numpy(each.copy()) for each in z)
    gate = None
    if position.config.gated:
        shape = slots, heads, head_width, width
        gate = torch.from_numpy(noise[sines : sines + gates].reshape(shape).copy())
    return SpeCode(noise=drawn, gate_noise=gate)


@pytest.mark.parametrize("changes", KNOWN.values(), ids=KNOWN)
def test_the_kernel_computes_what_torch_does(changes: dict[str, Any]):
    model = in_8_bits(stirred(toy_model(layers=2, **changes)))
    network = network_of(model)
    assert isinstance(network, KernelNetwork)
    ids = toy_tokens(1, 60, seed=1)
    state = network.begin(SEED)
    start = model._start(code_of(network.begin(SEED), model))
    guesses = None
    if model.recall is not None:
        guesses = model.recall.begin().take(ids[0].numpy())
    found = kernel_logits(network, state, ids[0].numpy(), guesses)
    with torch.inference_mode():
        wanted = model.extend(ids, start)[0][0].numpy()
    bound = 2e-3 * np.abs(wanted).max()  # activations have 16 bits
    np.testing.assert_allclose(found, wanted, atol=bound)


@pytest.mark.parametrize("changes", KNOWN.values(), ids=KNOWN)
def test_an_item_gives_the_same_bits_whatever_comes_with_it(changes: dict[str, Any]):
    """A prompt at once or token by token, and copies that go on among others, some of them apart."""
    network = network_of(stirred(toy_model(layers=2, **changes)))
    assert isinstance(network, KernelNetwork)
    ids, random = toy_tokens(1, 40, seed=2)[0].numpy(), np.random.default_rng(0)
    state = network.begin(3)
    alone = np.concatenate([kernel_logits(network, state, ids[at : at + 1]) for at in range(40)])
    np.testing.assert_array_equal(kernel_logits(network, network.begin(3), ids), alone)
    prompt = network.begin(3)
    kernel_logits(network, prompt, ids[:25])
    own, others = (
        prompt.copy(),
        [prompt.copy() for _ in range(9)] + [network.begin(n) for n in range(9)],
    )
    for at in range(25, 40):
        some = [others[n] for n in random.permutation(18)[: random.integers(1, 18)]]
        place = int(random.integers(len(some) + 1))
        states = [*some[:place], own, *some[place:]]
        tokens = random.integers(0, 11, len(states))
        tokens[place] = ids[at]
        network.advance(states, tokens)
        np.testing.assert_array_equal(own.logits(), alone[at])
        if at == 30:
            others = [one.copy() for one in others]
            own = own.copy()
    np.testing.assert_array_equal(kernel_logits(network, prompt, ids[25:26])[0], alone[25])


def test_blocks_of_metric_memory_are_freed_with_their_states():
    network = network_of(toy_model(layers=2, metre=METRE))
    assert isinstance(network, KernelNetwork)
    ids = toy_tokens(1, 40)[0].numpy()
    state = network.begin(0)
    network.advance([state] * 40, ids)
    before = network.free_blocks
    copies = [state.copy() for _ in range(3)]
    assert network.free_blocks == before  # they share
    network.advance(copies, ids[:3])
    assert network.free_blocks < before
    del copies
    assert network.free_blocks == before
    del state
    assert network.free_blocks == network.blocks_taken
    memory = network.kernel.machine.size
    for _ in range(50):
        state = network.begin(0)
        network.advance([state] * 40, ids)
    assert network.kernel.machine.size == memory


def test_networks_and_their_states_are_freed_in_any_order():
    """As parts of a circle, Python frees them in an order of its own."""
    program = """
import gc
from musicgen.eager import network_of
from tests.musicgen.kernel.test_network import METRE
from tests.musicgen.toys import toy_model, toy_tokens
model, ids = toy_model(metre=METRE), toy_tokens(1, 30)[0].numpy()
gc.disable()
for turn in range(20):
    network = network_of(model)
    states = [network.begin(0) for _ in range(5)]
    for state in states:
        network.advance([state] * 30, ids)
        state.copy().circle = states, network
    network.circle = network if turn % 2 else states
    states[-1].circle = states
    del network, states, state
    gc.collect()
network = network_of(model)
state = network.begin(0)  # left to the end
state.circle = state, network
print("freed")
"""
    command = [sys.executable, "-X", "faulthandler", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.stdout, done.stderr, done.returncode) == ("freed\n", "", 0)


@pytest.mark.parametrize("token", [-1, 11])
def test_unknown_tokens_are_refused(token: int):
    network = network_of(toy_model())
    state = network.begin(0)
    with pytest.raises(IndexError, match=f"{token}"):
        network.advance([state] * 3, np.array([0, token, 0]))


def test_frequencies_in_musical_time_are_those_of_torch():
    model = toy_model(position={"name": "sine_spe", "time": "music", "realisations": 8})
    offsets = model.position.learned.offsets.detach().numpy() + 0.25
    with torch.no_grad():
        model.position.learned.offsets += 0.25
        wanted = model.position.learned().numpy()
    found = musical_frequencies(6, offsets, 2)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    ("changes", "lack"),
    [
        ({"position": "permuteformer"}, "encoding permuteformer"),
        ({"position": "flt"}, "encoding flt"),
        ({"attention": "softmax"}, "softmax attention"),
        ({"position": {**SPE, "orthogonal": True}}, "orthogonal noise"),
        ({"feedforward": 30}, "a width that four does not divide"),
    ],
)
def test_other_models_are_computed_by_torch(changes: dict[str, Any], lack: str):
    model = toy_model(**changes)
    assert isinstance(network_of(model), EagerNetwork)
    with pytest.raises(KernelError, match=f"does not know (the )?{lack}"):
        KernelNetwork(model.config, {}, None)  # type: ignore[arg-type]
