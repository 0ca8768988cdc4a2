"""The bench of speed and memory: every task runs in a process of its own, so that tasks do not affect each other.

Tasks run in turns, and each keeps its best time, since other programs can only slow it down.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from musicgen.attention import attend
from musicgen.config import ModelConfig
from musicgen.eager import network_of
from musicgen.kernel.lanes import Lanes
from musicgen.kernel.network import STATE_AT, KernelNetwork
from musicgen.performer import Performer
from musicgen.playable import load
from tokenization.workers import UNBOUNDED, Failed, Worker


def names(only: Iterable[str]) -> list[str]:
    """Return the tasks that can run here, restricted to the prefixes in `only` if there are any."""
    has_kernel = find_spec("fast_transformers") is not None
    found = [name for name in WORKLOADS if has_kernel or not name.endswith("-ft")]
    chosen = [name for name in found if name.startswith(tuple(only) or "")]
    if not chosen:
        raise ValueError(f"there is no such task; choose from {', '.join(found)}")
    return chosen


def bench(
    only: Iterable[str], rounds: int, show: Callable[[int, int], None]
) -> list[dict[str, Any]]:
    """Measure tasks, and return one row for each: work, size, seconds, spread, peak_bytes, ratio, n."""
    chosen = names(only)
    measured: dict[str, list[dict[str, Any]]] = {name: [] for name in chosen}
    for turn in range(rounds):
        for number, name in enumerate(chosen):
            measured[name].append(_in_child(name))
            show(turn * len(chosen) + number + 1, rounds * len(chosen))
    return [_row(name, measured) for name in chosen]


def measure(name: str) -> dict[str, Any]:
    """Run one task in this process, and return the seconds of each repeat and the peak memory."""
    work = WORKLOADS[name]
    timed = work.set_up()
    seconds = []
    for _ in range(work.repeats + 1):  # the first is a warm-up
        start = time.perf_counter()
        timed()
        seconds.append((time.perf_counter() - start) / work.per)
    return {"seconds": seconds[1:], "peak_bytes": _peak_bytes()}


def _in_child(name: str) -> dict[str, Any]:
    worker = Worker(measure, UNBOUNDED, threads=None)
    found = worker.ask(name)
    worker.stop()
    if isinstance(found, Failed):
        raise ValueError(f"measuring {name} failed: {found.reason}")
    return found


def _row(name: str, measured: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    work = WORKLOADS[name]
    seconds = _seconds(measured[name])
    ratio = None
    if work.against in measured:
        ratio = min(_seconds(measured[work.against])) / min(seconds)
    return {
        "name": name,
        "work": work.title,
        "size": work.size,
        "seconds": min(seconds),
        "spread": statistics.stdev(seconds) if len(seconds) > 1 else 0.0,
        "n": len(seconds),
        "peak_bytes": min(run["peak_bytes"] for run in measured[name]),
        "ratio": ratio,
        "against": work.against if ratio is not None else None,
    }


def _seconds(runs: list[dict[str, Any]]) -> list[float]:
    return [second for run in runs for second in run["seconds"]]


def _peak_bytes() -> int:
    """Return the peak memory of this process."""
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


VOCABULARY = 333  # that of the authors' pop piano data
TOKENS = 8  # per timing: a single one is too short to be timed
PROMPT = 1024
Timed = Callable[[], Any]


@dataclass(frozen=True, kw_only=True)
class Workload:
    """One task of the bench. Its ratio is the time of the task `against`, divided by its own."""

    title: str
    size: str
    set_up: Callable[[], Timed]
    against: str | None = None
    repeats: int = 3
    per: int = 1  # units of work per call; times are per unit


def six_layers(*, bfloat16: bool = False) -> Timed:
    """Return a training step, forward, backward and AdamW, of six layers of the paper's width at N = 1024, B = 1."""
    model = paper(layers=6).train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(model.config.vocabulary_size, (1, 1025))

    def step() -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
            logits = model(tokens[:, :-1], model.begin(generator))
        F.cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].flatten()).backward()
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)

    return step


def paper(**changes: Any) -> Performer:
    """Return the paper's model with gated sineSPE, with changes to its configuration."""
    values = {"vocabulary_size": VOCABULARY, "position": "sine_spe", **changes}
    return Performer(ModelConfig.preset("paper", **values))


def in_kernel(network: Any) -> KernelNetwork:
    """Return the instance of the kernel, or the first one, of a network that must have one."""
    own = network.lanes[0] if isinstance(network, Lanes) else network
    assert isinstance(own, KernelNetwork), "the bench measures the kernel"
    return own


def generation_step(position: int, rows: int = 1) -> Timed:
    """Return the generation of tokens by the paper's model in the kernel from a position on, in `rows` rows."""
    return tokens_after(in_kernel(network_of(paper())), rows, TOKENS, position)


def shipped_step(rows: int, count: int = 32) -> Timed:
    """Return the generation of `count` tokens by `ensemble` in the kernel."""
    return tokens_after(in_kernel(load("ensemble").network), rows, count)


def tokens_after(network: KernelNetwork, rows: int, count: int, position: int = 8) -> Timed:
    """Return the generation of `count` tokens per row; each call continues where the last one ended."""
    state = network.begin(0)
    network.advance([state] * 8, np.zeros(8, np.int64))
    state.span.write(np.array(position, "<i4"), STATE_AT["position"])
    states, tokens = [state.copy() for _ in range(rows)], np.zeros(rows, np.int64)

    def steps() -> None:
        for _ in range(count):
            network.advance(states, tokens)

    return steps


def shipped_prompt() -> Timed:
    """Return the reading of a prompt by `ensemble` in the kernel."""
    network = in_kernel(load("ensemble").network)
    tokens = np.random.default_rng(0).integers(0, network.config.vocabulary_size, PROMPT)
    return lambda: network.advance([network.begin(0)] * PROMPT, tokens)


def shipped_torch(rows: int = 2, count: int = 32) -> Timed:
    """Return the generation of `count` tokens by `ensemble` with torch, on one thread."""
    torch.set_num_threads(1)
    model = load("ensemble").performer
    prompt, tokens = torch.zeros(rows, 8, dtype=torch.long), torch.zeros(rows, dtype=torch.long)
    state = model.prefill(prompt, model.start(torch.Generator()))[1]

    def steps() -> None:
        nonlocal state
        for _ in range(count):
            state = model.step(tokens, state)[1]

    return steps


def weight_reading() -> Timed:
    """Return the sum of all weights in the matrices of the paper's model, to measure the memory's bandwidth."""
    weights = [m.weight for m in paper().modules() if isinstance(m, nn.Linear)]

    def read() -> None:
        with torch.inference_mode():
            for weight in weights * TOKENS:
                weight.sum()

    return read


def weight_streaming() -> Timed:
    """Return F.linear with all matrices of the paper's model, once per token, and nothing else."""
    linear = [m for m in paper().modules() if isinstance(m, nn.Linear)]
    inputs = [torch.randn(1, m.in_features) for m in linear]

    def stream() -> None:
        with torch.inference_mode():
            for layer, x in [*zip(linear, inputs, strict=True)] * TOKENS:
                F.linear(x, layer.weight, layer.bias)

    return stream


def attention(backend: str) -> Timed:
    """Return attention, forward and backward, at N = 2048, B = 1, H = 8, M = 128, D = 64."""
    features = [torch.rand(1, 2048, 8, 128, requires_grad=True) for _ in range(2)]
    values = torch.randn(1, 2048, 8, 64, requires_grad=True)

    def both() -> None:
        inputs: list[Tensor] = [*features, values]
        out, _ = attend(*inputs, backend=backend)
        torch.autograd.grad(out.sum(), inputs)

    return both


SIX = "6 layers of the paper's width, N 1024, B 1"
PAPER = "24 layers, 76 M parameters"
ATTENTION = "N 2048, B 1, H 8, M 128, D 64"
ONE_THREAD = "one thread"
WORKLOADS: dict[str, Workload] = {
    "train-sine": Workload(title="training step, sineSPE", size=SIX, set_up=six_layers),
    "train-sine-bf16": Workload(title="training step, sineSPE, bfloat16", size=SIX, against="train-sine",
                                set_up=lambda: six_layers(bfloat16=True)),
    "read": Workload(title="sum of all weights", size=PAPER, set_up=weight_reading, per=TOKENS, repeats=5),
    "stream": Workload(title="all weights through F.linear", size=PAPER, per=TOKENS, repeats=5,
                       set_up=weight_streaming),
    "token": Workload(title="one token at position 256", size=PAPER, against="read", per=TOKENS, repeats=5,
                      set_up=lambda: generation_step(256)),
    "token-far": Workload(title="… at position 8192", size=PAPER, against="token", per=TOKENS, repeats=5,
                          set_up=lambda: generation_step(8192)),
    "token-8": Workload(title="… in 8 rows at position 256", size=PAPER, against="token", per=TOKENS, repeats=5,
                        set_up=lambda: generation_step(256, 8)),
    **{
        f"shipped-{rows}": Workload(title=f"one token of ensemble in {rows} row{'s' * (rows > 1)}", size=ONE_THREAD,
                                    against="shipped-ensemble-torch" if rows == 2 else None,
                                    per=TOKENS if rows > 2 else 32,
                                    set_up=partial(shipped_step, rows, TOKENS if rows > 2 else 32))
        for rows in (1, 2, 8, 32)
    },
    "shipped-prompt": Workload(title="one token of a prompt of ensemble", size=f"{PROMPT:,} tokens, one thread",
                               per=PROMPT, set_up=shipped_prompt),
    "shipped-ensemble-torch": Workload(title="one token of ensemble in 2 rows, by torch", size=ONE_THREAD, per=32,
                                       set_up=shipped_torch),
    "attention": Workload(title="attention, forward and backward", size=ATTENTION, against="attention-ft",
                          set_up=lambda: attention("chunked")),
    "attention-ft": Workload(title="… by the kernel of fast-transformers", size=ATTENTION,
                             set_up=lambda: attention("fast-transformers")),
}  # fmt: skip
