"""The bench: every piece of work in a process of its own, so that times and memory do not mix.

Works that are compared run by turns, and each row keeps its best time, since another program can only make it slower.
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
from musicgen.common.processes import module_command
from musicgen.config import ModelConfig
from musicgen.generation.batch import Batch, EagerBatch, batch_of
from musicgen.performer import Performer, State
from musicgen.playable import load
from musicgen.position.base import Position
from musicgen.position.spe.convolutional import ConvSpe
from musicgen.position.spe.sine import SineSpe


def names(only: Iterable[str]) -> list[str]:
    """Return the works that can run here, or those of them that begin like one of `only`."""
    found = [*WORKLOADS, *(GPU_WORKLOADS if torch.cuda.is_available() else ())]
    if find_spec("fast_transformers") is None:
        found = [name for name in found if not name.endswith("-ft")]
    chosen = [name for name in found if name.startswith(tuple(only) or "")]
    if not chosen:
        raise ValueError(f"there is no such work to measure; there are {', '.join(found)}")
    return chosen


def bench(
    only: Iterable[str], rounds: int, show: Callable[[int, int], None]
) -> list[dict[str, Any]]:
    """Measure, and return a row a work: work, size, seconds, spread, peak_bytes, ratio, n."""
    chosen = names(only)
    measured: dict[str, list[dict[str, Any]]] = {name: [] for name in chosen}
    for turn in range(rounds):
        for number, name in enumerate(chosen):
            measured[name].append(_in_child(name))
            show(turn * len(chosen) + number + 1, rounds * len(chosen))
    return [_row(name, measured) for name in chosen]


def measure(name: str) -> dict[str, Any]:
    """Time one work in this process: seconds of each repeat, and the peak of memory."""
    work = {**WORKLOADS, **GPU_WORKLOADS}[name]
    timed = work.set_up()
    on_gpu = name in GPU_WORKLOADS
    seconds = []
    for _ in range(work.repeats + 1):  # the first warms up
        began = time.perf_counter()
        timed()
        if on_gpu:
            torch.cuda.synchronize()
        seconds.append((time.perf_counter() - began) / work.per)
    peak = torch.cuda.max_memory_allocated() if on_gpu else _peak_bytes()
    return {"seconds": seconds[1:], "peak_bytes": peak}


def gpu_facts(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Return tokens a second of the GPU's training step, and its share of what the chip reaches."""
    seconds = {row["name"]: row["seconds"] for row in rows}
    if not {"gpu-product", "gpu-train"} <= seconds.keys():
        return {}
    tokens = GPU_BATCH * GPU_LENGTH / seconds["gpu-train"]
    # A multiplication and an addition a weight, forward and twice backward.
    operations = 6 * 76e6 * tokens
    return {
        "tokens_per_second": tokens,
        "share_of_peak": operations / (2 * GPU_SIDE**3 / seconds["gpu-product"]),
    }


def _in_child(name: str) -> dict[str, Any]:
    command = module_command("evaluation.bench", name)
    child = subprocess.run(command, capture_output=True, text=True, check=False)
    if child.returncode:
        said = child.stderr.strip().splitlines() or ["it was ended, perhaps for want of memory"]
        raise ValueError(f"measuring {name} failed: {said[-1]}")
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
    """Return the most memory that this process has held."""
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


# Stochastic positional encoding as its authors published it, to compare with.
#
# The code of all positions is a tensor (1, T, H, D, R) a side; every layer makes a gated copy of it and multiplies it
# with its queries and keys before summing over D. Parameters, draws and results are those of musicgen/position. What
# decides the time is as published too: the layouts in memory and the length of the filtered noise. So it takes as long
# as the published code (two layers at N = 512, forward and backward, one thread: within 5 %).
#
# T time, H heads, D head width, K sines, P taps, R realisations.


@dataclass(frozen=True)
class Materialised:
    """One draw: ε, and the code of both sides once it is made."""

    gate_noise: Tensor  # (H, D, R)
    sides: tuple[Tensor, Tensor] | None = None  # (1, T, H, D, R) each, 1 for the batch


class PublishedSpe(Position):
    """A gated encoding that layers share, computed the authors' way with the parameters of ours."""

    def __init__(self, ours: SineSpe | ConvSpe) -> None:
        if not (ours.config.gated and ours.config.shared):
            raise ValueError("the authors' way is written for gated encodings that layers share")
        super().__init__(ours.config, ours.shape)
        self.ours = ours

    @property
    def qk_width(self) -> int:
        """As ours."""
        return self.ours.qk_width

    def begin(self, generator: Generator) -> Materialised:
        """Draw ε; the noise follows when the length is known."""
        size = (self.shape.heads, self.shape.head_width, self.ours.realisations)
        return Materialised(torch.randn(size, generator=generator) * self.ours.scale)

    def cover(
        self, code: Materialised, start: int, stop: int, times: Tensor | None = None
    ) -> Materialised:
        """Make the code of all positions."""
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
        """Gate a copy of the code for this layer and contract: (B, T, H, D) → (B, T, H, R)."""
        share = torch.sigmoid(self.ours.gates[layer]).unsqueeze(-1)  # (H, D, 1)
        gated = [(1 - share).sqrt() * c + share.sqrt() * code.gate_noise for c in code.sides]
        q_placed, k_placed = (
            (c * x.unsqueeze(-1)).sum(-2) for x, c in zip((q, k), gated, strict=True)
        )
        return q_placed, k_placed


def sine_code(ours: SineSpe, noise: Tensor, start: int, stop: int) -> tuple[Tensor, Tensor]:
    """Return q̄ and k̄ of noise (H, D, 2K, R): waves times gains times noise."""
    frequencies, offsets, gains = ours.frequencies[0].to(noise), ours.offsets[0], ours.gains[0]
    positions = torch.arange(start, stop).unsqueeze(-1)  # (T, 1)
    weights = gains.repeat_interleave(2, -1).unsqueeze(-1) * noise / math.sqrt(noise.shape[2])

    def side(offset: Tensor | float) -> Tensor:
        angles = 2 * math.pi * frequencies.unsqueeze(2) * positions + offset  # (H, D, T, K)
        waves = torch.stack([angles.cos(), angles.sin()], -1).flatten(-2)  # (H, D, T, 2K)
        return (waves @ weights).permute(2, 0, 1, 3).unsqueeze(0) * ours.scale

    return side(offsets.unsqueeze(2)), side(0.0)


def conv_code(ours: ConvSpe, noise: Tensor, length: int) -> tuple[Tensor, Tensor]:
    """Return q̄ and k̄ of noise (R, H·D, T + 4P): a convolution by groups a side.

    All of the noise is filtered, and T positions of it are kept, from the P-th on: so it is in the reference vectors of
    convSPE, q̄[n] = Σ_p filter_q[p] noise[n + P + p], whose noise is T + 4P long.
    """
    _, _, heads, width, taps = ours.filters.shape

    def side(filters: Tensor) -> Tensor:
        filtered = F.conv1d(noise, filters.reshape(heads * width, 1, taps), groups=heads * width)
        kept = filtered[..., taps : taps + length].unflatten(1, (heads, width))
        return kept.permute(3, 1, 2, 0).unsqueeze(0) * ours.scale

    q, k = ours.filters[0].unbind()
    return side(q), side(k)


VOCABULARY = 333  # as the authors' pop piano
LENGTHS = (512, 2048, 8192, 16384)
TOKENS = 8  # at a time: one alone is too short to be timed
Timed = Callable[[], Any]


@dataclass(frozen=True, kw_only=True)
class Workload:
    """One row of the bench; `against` names the row its ratio is taken with, that row's time over this one's."""

    title: str
    size: str
    set_up: Callable[[], Timed]
    against: str | None = None
    repeats: int = 3
    per: int = 1  # the timed function does so many of them


def training_step(
    model: Performer, length: int, *, device: str = "cpu", batch: int = 1, bfloat16: bool = False
) -> Timed:
    """Return one step of training: forward, backward, Adam."""
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
    """Return the paper's model with gated sineSPE, or a change of it."""
    values = {"vocabulary_size": VOCABULARY, "position": "sine_spe", **changes}
    return Performer(ModelConfig.preset("paper", **values))


def six_layers(encoding: str, *, authors: bool = False, bfloat16: bool = False) -> Timed:
    """Return a training step of six layers of the paper's size at N = 1024, B = 1."""
    model = paper(layers=6, position=encoding)
    if authors:
        model.position = PublishedSpe(model.position)  # type: ignore[arg-type]
    return training_step(model, 1024, bfloat16=bfloat16)


def products_alone(step: Timed) -> Timed:
    """Return the matrix products of a step without the rest: its time cannot be less."""
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiled:
        step()
    products = [
        (PRODUCTS[event.name], [torch.randn(shape) for shape in event.input_shapes if shape])
        for event in profiled.events() or ()
        if event.name in PRODUCTS
    ]

    def again() -> None:
        with torch.inference_mode():
            for product, operands in products:
                product(*operands)

    return again


def generation_step(position: int, rows: int = 1) -> Timed:
    """Return generated tokens of the paper's model from a position on, for so many variations."""
    model = paper().eval()
    state = replace(short_prompt(model), position=position)
    return tokens_after(batch_of(model), rows, state, TOKENS)


def short_prompt(model: Performer) -> State:
    """Return where a model stands after eight tokens."""
    prompt = torch.zeros(1, 8, dtype=torch.long)
    return model.prefill(prompt, model.start(torch.Generator()))[1]


def tokens_after(batch: Batch, rows: int, state: State, count: int) -> Timed:
    """Return so many tokens a row that go on from a state, and each time from where the last one ended."""
    tokens, numbers = torch.zeros(rows, dtype=torch.long), batch.join(state, rows)

    def steps() -> None:
        for _ in range(count):
            batch.step(numbers, tokens)

    return steps


def shipped_step(name: str, *, loops: bool, rows: int = 2, count: int = 32) -> Timed:
    """Return `count` tokens of a model that comes along, on one thread as on the page, by loops or by torch."""
    torch.set_num_threads(1)
    model = load(name).performer
    batch = batch_of(model) if loops else EagerBatch(model)
    return tokens_after(batch, rows, short_prompt(model), count)


def weight_reading() -> Timed:
    """Return adding up all numbers of the paper model's matrices: what memory gives at its best."""
    weights = [m.weight for m in paper().modules() if isinstance(m, nn.Linear)]

    def read() -> None:
        with torch.inference_mode():
            for weight in weights * TOKENS:
                weight.sum()

    return read


def weight_streaming() -> Timed:
    """Return reading all the paper model's matrices once a token through F.linear, and nothing else."""
    linear = [m for m in paper().modules() if isinstance(m, nn.Linear)]
    inputs = [torch.randn(1, m.in_features) for m in linear]

    def stream() -> None:
        with torch.inference_mode():
            for layer, x in [*zip(linear, inputs, strict=True)] * TOKENS:
                F.linear(x, layer.weight, layer.bias)

    return stream


def attention(length: int, backend: str) -> Timed:
    """Return attention forward and backward at B = 1, H = 8, M = 128, D = 64."""
    features = [torch.rand(1, length, 8, 128, requires_grad=True) for _ in range(2)]
    values = torch.randn(1, length, 8, 64, requires_grad=True)

    def both() -> None:
        inputs: list[Tensor] = [*features, values]
        out, _ = attend(*inputs, backend=backend)
        torch.autograd.grad(out.sum(), inputs)

    return both


def large_product() -> Timed:
    """Return a bfloat16 matrix product on the GPU: what the chip reaches at its best."""
    a = torch.randn(GPU_SIDE, GPU_SIDE, device="cuda", dtype=torch.bfloat16)

    def product() -> None:
        torch.mm(a, a)

    return product


SIX = "6 layers of paper size, N 1024, B 1"
PAPER = "24 layers, 76 M parameters"
WORKLOADS: dict[str, Workload] = {
    "train-sine": Workload(title="training step, sineSPE", size=SIX, against="train-sine-authors",
                       set_up=lambda: six_layers("sine_spe")),
    "train-sine-authors": Workload(title="… the authors' way", size=SIX, repeats=2,
                               set_up=lambda: six_layers("sine_spe", authors=True)),
    "train-sine-products": Workload(title="… its matrix products alone", size=SIX, against="train-sine-authors",
                                set_up=lambda: products_alone(six_layers("sine_spe"))),
    "train-conv": Workload(title="training step, convSPE", size=SIX, against="train-conv-authors",
                       set_up=lambda: six_layers("conv_spe")),
    "train-conv-authors": Workload(title="… the authors' way", size=SIX, repeats=1,
                               set_up=lambda: six_layers("conv_spe", authors=True)),
    "train-sine-bf16": Workload(title="training step, sineSPE, bfloat16", size=SIX, against="train-sine",
                            set_up=lambda: six_layers("sine_spe", bfloat16=True)),
    "train-paper": Workload(title="training step, activations recomputed", size=f"{PAPER}, N 2048, B 1", repeats=2,
                        set_up=lambda: training_step(paper(checkpoint_activations=True), 2048)),
    "read": Workload(title="all weights added up", size=PAPER, set_up=weight_reading, per=TOKENS, repeats=5),
    "stream": Workload(title="all weights through F.linear", size=PAPER, per=TOKENS, repeats=5,
                   set_up=weight_streaming),
    "token": Workload(title="one token at position 256", size=PAPER, against="read", per=TOKENS, repeats=5,
                  set_up=lambda: generation_step(256)),
    "token-far": Workload(title="one token at position 8192", size=PAPER, against="token", per=TOKENS, repeats=5,
                      set_up=lambda: generation_step(8192)),
    "token-8": Workload(title="8 variations at position 256", size=PAPER, against="token", per=TOKENS, repeats=5,
                    set_up=lambda: generation_step(256, 8)),
}  # fmt: skip
WORKLOADS["shipped-ensemble"] = Workload(
    title="a token of ensemble, loops compiled", size="two variations, one thread", per=32,
    against="shipped-ensemble-torch", set_up=lambda: shipped_step("ensemble", loops=True),
)  # fmt: skip
WORKLOADS["shipped-ensemble-torch"] = Workload(
    title="… by torch", size="two variations, one thread", per=32,
    set_up=lambda: shipped_step("ensemble", loops=False),
)  # fmt: skip
for _rows in (8, 32):
    WORKLOADS[f"shipped-crowd-{_rows}"] = Workload(
        title=f"a token of {_rows} rows of ensemble", size="one thread", per=TOKENS,
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
        title="… fast-transformers' kernel", size=_size,
        set_up=lambda n=_length: attention(n, "fast-transformers"),
    )  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1])))
