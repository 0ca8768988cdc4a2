"""The bench: every piece of work in a process of its own, so that times and memory do not mix.

Works that are compared run by turns, and each row keeps its best time, since another program can only make it slower.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from musicgen.common.processes import module_command

ROUNDS = 2


def names(only: Iterable[str] = ()) -> list[str]:
    """Return the works that can run here, or those of them that begin like one of `only`."""
    import torch

    from evaluation.speed.workloads import GPU_WORKLOADS, WORKLOADS

    found = [*WORKLOADS, *(GPU_WORKLOADS if torch.cuda.is_available() else ())]
    if find_spec("fast_transformers") is None:
        found = [name for name in found if not name.endswith("-ft")]
    chosen = [name for name in found if not only or name.startswith(tuple(only))]
    if not chosen:
        raise ValueError(f"there is no such work to measure; there are {', '.join(found)}")
    return chosen


def bench(
    only: Iterable[str] = (),
    rounds: int = ROUNDS,
    show: Callable[[int, int], None] = lambda done, total: None,
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
    import torch

    from evaluation.speed.workloads import GPU_WORKLOADS, WORKLOADS

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
    from evaluation.speed.workloads import GPU_BATCH, GPU_LENGTH, GPU_SIDE

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
    command = module_command("evaluation.speed.bench", name)
    child = subprocess.run(command, capture_output=True, text=True, check=False)
    if child.returncode:
        reason = (
            child.stderr.strip().splitlines() or ["it was ended, perhaps for want of memory"]
        )[-1]
        raise ValueError(f"measuring {name} failed: {reason}")
    return json.loads(child.stdout.splitlines()[-1])


def _row(name: str, measured: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    from evaluation.speed.workloads import GPU_WORKLOADS, WORKLOADS

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


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1])))
