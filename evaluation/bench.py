"""The bench of speed and memory: every task runs in a process of its own, so that tasks do not affect each other.

Tasks run in turns, and each keeps its best time, since other programs can only slow it down.
"""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn
from torch.profiler import ProfilerActivity, profile

from musicgen.attention import attend
from musicgen.config import ModelConfig
from musicgen.generation.batch import Batch, EagerBatch, batch_of
from musicgen.performer import Performer, State
from musicgen.playable import load
from musicgen.position.base import Position
from musicgen.position.spe.convolutional import ConvSpe
from musicgen.position.spe.sine import SineSpe


def names(only: Iterable[str]) -> list[str]:
    """Return the tasks that can run here, restricted to the prefixes in `only` if there are any."""
    found = [*WORKLOADS, *(GPU_WORKLOADS if torch.cuda.is_available() else ())]
    if find_spec("fast_transformers") is None:
        found = [name for name in found if not name.endswith("-ft")]
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
    work = {**WORKLOADS, **GPU_WORKLOADS}[name]
    timed = work.set_up()
    on_gpu = name in GPU_WORKLOADS
    seconds = []
    for _ in range(work.repeats + 1):  # the first is a warm-up
        start = time.perf_counter()
        timed()
        if on_gpu:
            torch.cuda.synchronize()
        seconds.append((time.perf_counter() - start) / work.per)
    peak = torch.cuda.max_memory_allocated() if on_gpu else _peak_bytes()
    return {"seconds": seconds[1:], "peak_bytes": peak}


def gpu_facts(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Return the tokens per second of the GPU's training step, and the fraction of the chip's peak that it reaches."""
    seconds = {row["name"]: row["seconds"] for row in rows}
    if not {"gpu-product", "gpu-train"} <= seconds.keys():
        return {}
    tokens = GPU_BATCH * GPU_LENGTH / seconds["gpu-train"]
    # One multiplication and one addition per weight, once forward and twice backward.
    operations = 6 * 76e6 * tokens
    return {
        "tokens_per_second": tokens,
        "share_of_peak": operations / (2 * GPU_SIDE**3 / seconds["gpu-product"]),
    }


def _in_child(name: str) -> dict[str, Any]:
    # With -P, no module of the current folder is imported.
    command = [sys.executable, "-P", "-m", "evaluation.bench", name]
    child = subprocess.run(command, capture_output=True, text=True, check=False)
    if child.returncode:
        messages = child.stderr.strip().splitlines() or ["it was killed, perhaps out of memory"]
        raise ValueError(f"measuring {name} failed: {messages[-1]}")
    return json.loads(child.stdout.splitlines()[-1])


def _row(name: str, measured: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    work = {**WORKLOADS, **GPU_WORKLOADS}[name]
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


# Stochastic positional encoding as its authors published it, for comparison.
#
# The code of all positions is one tensor (1, T, H, D, R) for queries and one for keys. Every layer makes a gated copy
# and multiplies it with its queries and keys before summing over D. Parameters, draws and results are those of
# musicgen/position. The memory layouts and the length of the filtered noise, which determine the speed, are those of
# the published code, so it takes the same time (two layers at N = 512, forward and backward, one thread: within 5 %).
#
# T time, H heads, D head width, K sines, P taps, R realisations.


@dataclass(frozen=True)
class Materialised:
    """One draw: ε, and the codes of queries and keys once they are computed."""

    gate_noise: Tensor  # (H, D, R)
    sides: tuple[Tensor, Tensor] | None = None  # (1, T, H, D, R) each, 1 for the batch


class PublishedSpe(Position):
    """A gated encoding shared by all layers, computed as its authors do, with the parameters of ours."""

    def __init__(self, ours: SineSpe | ConvSpe) -> None:
        if not (ours.config.gated and ours.config.shared):
            raise ValueError("the published algorithm needs gated encodings that layers share")
        super().__init__(ours.config, ours.shape)
        self.ours = ours

    @property
    def qk_width(self) -> int:
        """The width of queries and keys after the encoding."""
        return self.ours.qk_width

    def begin(self, generator: Generator) -> Materialised:
        """Draw ε; the other noise is drawn when the length is known."""
        size = (self.shape.heads, self.shape.head_width, self.ours.realisations)
        return Materialised(torch.randn(size, generator=generator) * self.ours.scale)

    def cover(
        self, code: Materialised, start: int, stop: int, times: Tensor | None = None
    ) -> Materialised:
        """Compute the codes of all positions."""
        heads, width, realisations = code.gate_noise.shape
        if isinstance(self.ours, SineSpe):
            noise = torch.randn(heads, width, 2 * self.ours.config.sines, realisations)
            sides = sine_code(self.ours, noise, start, stop)
        else:
            taps = self.ours.config.taps
            noise = torch.randn(realisations, heads * width, stop - start + 4 * taps)
            sides = conv_code(self.ours, noise, stop - start)
        return Materialised(code.gate_noise, sides)

    def qk(self, q: Tensor, k: Tensor, code: Any, start: int, layer: int) -> tuple[Tensor, Tensor]:
        """Contract with a gated copy of the code for this layer: (B, T, H, D) → (B, T, H, R)."""
        gate = torch.sigmoid(self.ours.gates[layer]).unsqueeze(-1)  # (H, D, 1)
        gated = [(1 - gate).sqrt() * c + gate.sqrt() * code.gate_noise for c in code.sides]
        q_placed, k_placed = (
            (c * x.unsqueeze(-1)).sum(-2) for x, c in zip((q, k), gated, strict=True)
        )
        return q_placed, k_placed


def sine_code(ours: SineSpe, noise: Tensor, start: int, stop: int) -> tuple[Tensor, Tensor]:
    """Return q̄ and k̄ from noise (H, D, 2K, R): waves times gains times noise."""
    frequencies, offsets, gains = ours.frequencies[0].to(noise), ours.offsets[0], ours.gains[0]
    positions = torch.arange(start, stop).unsqueeze(-1)  # (T, 1)
    weights = gains.repeat_interleave(2, -1).unsqueeze(-1) * noise / math.sqrt(noise.shape[2])

    def side(offset: Tensor | float) -> Tensor:
        angles = 2 * math.pi * frequencies.unsqueeze(2) * positions + offset  # (H, D, T, K)
        waves = torch.stack([angles.cos(), angles.sin()], -1).flatten(-2)  # (H, D, T, 2K)
        return (waves @ weights).permute(2, 0, 1, 3).unsqueeze(0) * ours.scale

    return side(offsets.unsqueeze(2)), side(0.0)


def conv_code(ours: ConvSpe, noise: Tensor, length: int) -> tuple[Tensor, Tensor]:
    """Return q̄ and k̄ from noise (R, H·D, T + 4P), by a grouped convolution each.

    The convolution covers all of the noise, and T positions are kept, from the P-th on, as in the reference vectors of
    convSPE: q̄[n] = Σ_p filter_q[p] noise[n + P + p].
    """
    _, _, heads, width, taps = ours.filters.shape

    def side(filters: Tensor) -> Tensor:
        filtered = F.conv1d(noise, filters.reshape(heads * width, 1, taps), groups=heads * width)
        kept = filtered[..., taps : taps + length].unflatten(1, (heads, width))
        return kept.permute(3, 1, 2, 0).unsqueeze(0) * ours.scale

    q, k = ours.filters[0].unbind()
    return side(q), side(k)


VOCABULARY = 333  # that of the authors' pop piano data
LENGTHS = (512, 2048, 8192, 16384)
TOKENS = 8  # per timing: a single one is too short to be timed
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


def training_step(
    model: Performer, length: int, *, device: str = "cpu", batch: int = 1, bfloat16: bool = False
) -> Timed:
    """Return a training step: forward, backward and AdamW."""
    model.train().to(device)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(model.config.vocabulary_size, (batch, length + 1), device=device)

    def step() -> None:
        with torch.autocast(device, torch.bfloat16, enabled=bfloat16):
            logits = model(tokens[:, :-1], model.begin(generator))
        F.cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].flatten()).backward()
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)

    return step


PRODUCTS = {"aten::mm": torch.mm, "aten::addmm": torch.addmm, "aten::bmm": torch.bmm}


def paper(**changes: Any) -> Performer:
    """Return the paper's model with gated sineSPE, with changes to its configuration."""
    values = {"vocabulary_size": VOCABULARY, "position": "sine_spe", **changes}
    return Performer(ModelConfig.preset("paper", **values))


def six_layers(encoding: str, *, authors: bool = False, bfloat16: bool = False) -> Timed:
    """Return a training step of six layers of the paper's width at N = 1024, B = 1."""
    model = paper(layers=6, position=encoding)
    if authors:
        model.position = PublishedSpe(model.position)  # type: ignore[arg-type]
    return training_step(model, 1024, bfloat16=bfloat16)


def products_alone(step: Timed) -> Timed:
    """Return only the matrix products of a step, as a lower bound of its time."""
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiled:
        step()
    products = [
        (PRODUCTS[event.name], [torch.randn(shape) for shape in event.input_shapes if shape])
        for event in profiled.events() or ()
        if event.name in PRODUCTS
    ]

    def multiply() -> None:
        with torch.inference_mode():
            for product, operands in products:
                product(*operands)

    return multiply


def generation_step(position: int, rows: int = 1) -> Timed:
    """Return the generation of tokens by the paper's model from a position on, in `rows` rows."""
    model = paper().eval()
    state = replace(short_prompt(model), position=position)
    return tokens_after(batch_of(model), rows, state, TOKENS)


def short_prompt(model: Performer) -> State:
    """Return a model's state after eight tokens."""
    prompt = torch.zeros(1, 8, dtype=torch.long)
    return model.prefill(prompt, model.start(torch.Generator()))[1]


def tokens_after(batch: Batch, rows: int, state: State, count: int) -> Timed:
    """Return the generation of `count` tokens per row after a state; each call continues where the last one ended."""
    tokens, numbers = torch.zeros(rows, dtype=torch.long), batch.join(state, rows)

    def steps() -> None:
        for _ in range(count):
            batch.step(numbers, tokens)

    return steps


def shipped_step(name: str, *, loops: bool, rows: int = 2, count: int = 32) -> Timed:
    """Return the generation of `count` tokens by a shipped model, on one thread as on the page, by loops or torch."""
    torch.set_num_threads(1)
    model = load(name).performer
    batch = batch_of(model) if loops else EagerBatch(model)
    return tokens_after(batch, rows, short_prompt(model), count)


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


def attention(length: int, backend: str) -> Timed:
    """Return attention, forward and backward, at B = 1, H = 8, M = 128, D = 64."""
    features = [torch.rand(1, length, 8, 128, requires_grad=True) for _ in range(2)]
    values = torch.randn(1, length, 8, 64, requires_grad=True)

    def both() -> None:
        inputs: list[Tensor] = [*features, values]
        out, _ = attend(*inputs, backend=backend)
        torch.autograd.grad(out.sum(), inputs)

    return both


def large_product() -> Timed:
    """Return a bfloat16 matrix product on the GPU, to measure the chip's peak."""
    a = torch.randn(GPU_SIDE, GPU_SIDE, device="cuda", dtype=torch.bfloat16)

    def product() -> None:
        torch.mm(a, a)

    return product


SIX = "6 layers of the paper's width, N 1024, B 1"
PAPER = "24 layers, 76 M parameters"
WORKLOADS: dict[str, Workload] = {
    "train-sine": Workload(title="training step, sineSPE", size=SIX, against="train-sine-authors",
                       set_up=lambda: six_layers("sine_spe")),
    "train-sine-authors": Workload(title="… by the authors' algorithm", size=SIX, repeats=2,
                               set_up=lambda: six_layers("sine_spe", authors=True)),
    "train-sine-products": Workload(title="… only its matrix products", size=SIX, against="train-sine-authors",
                                set_up=lambda: products_alone(six_layers("sine_spe"))),
    "train-conv": Workload(title="training step, convSPE", size=SIX, against="train-conv-authors",
                       set_up=lambda: six_layers("conv_spe")),
    "train-conv-authors": Workload(title="… by the authors' algorithm", size=SIX, repeats=1,
                               set_up=lambda: six_layers("conv_spe", authors=True)),
    "train-sine-bf16": Workload(title="training step, sineSPE, bfloat16", size=SIX, against="train-sine",
                            set_up=lambda: six_layers("sine_spe", bfloat16=True)),
    "train-paper": Workload(title="training step, activations recomputed", size=f"{PAPER}, N 2048, B 1", repeats=2,
                        set_up=lambda: training_step(paper(checkpoint_activations=True), 2048)),
    "read": Workload(title="sum of all weights", size=PAPER, set_up=weight_reading, per=TOKENS, repeats=5),
    "stream": Workload(title="all weights through F.linear", size=PAPER, per=TOKENS, repeats=5,
                   set_up=weight_streaming),
    "token": Workload(title="one token at position 256", size=PAPER, against="read", per=TOKENS, repeats=5,
                  set_up=lambda: generation_step(256)),
    "token-far": Workload(title="one token at position 8192", size=PAPER, against="token", per=TOKENS, repeats=5,
                      set_up=lambda: generation_step(8192)),
    "token-8": Workload(title="one token in 8 rows at position 256", size=PAPER, against="token", per=TOKENS, repeats=5,
                    set_up=lambda: generation_step(256, 8)),
}  # fmt: skip
WORKLOADS["shipped-ensemble"] = Workload(
    title="one token of ensemble, by compiled loops", size="two rows, one thread", per=32,
    against="shipped-ensemble-torch", set_up=lambda: shipped_step("ensemble", loops=True),
)  # fmt: skip
WORKLOADS["shipped-ensemble-torch"] = Workload(
    title="… by torch", size="two rows, one thread", per=32,
    set_up=lambda: shipped_step("ensemble", loops=False),
)  # fmt: skip
for _rows in (8, 32):
    WORKLOADS[f"shipped-crowd-{_rows}"] = Workload(
        title=f"one token of ensemble in {_rows} rows", size="one thread", per=TOKENS,
        set_up=lambda rows=_rows: shipped_step("ensemble", loops=True, rows=rows, count=TOKENS),
    )  # fmt: skip
GPU_BATCH, GPU_LENGTH, GPU_SIDE = 8, 2048, 8192
GPU_WORKLOADS: dict[str, Workload] = {
    "gpu-product": Workload(title="matrix product, bfloat16", size=f"{GPU_SIDE} cubed", repeats=10,
                        set_up=large_product),
    "gpu-train": Workload(title="training step, bfloat16", size=f"{PAPER}, N {GPU_LENGTH}, B {GPU_BATCH}", repeats=5,
                      set_up=lambda: training_step(paper(), GPU_LENGTH, device="cuda", batch=GPU_BATCH, bfloat16=True)),
}  # fmt: skip
for _length in LENGTHS:
    _size = f"N {_length}, B 1, H 8, M 128, D 64"
    WORKLOADS[f"attention-{_length}"] = Workload(
        title="attention, forward and backward", size=_size, against=f"attention-{_length}-ft",
        set_up=lambda n=_length: attention(n, "chunked"),
    )  # fmt: skip
    WORKLOADS[f"attention-{_length}-ft"] = Workload(
        title="… by the kernel of fast-transformers", size=_size,
        set_up=lambda n=_length: attention(n, "fast-transformers"),
    )  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1])))
