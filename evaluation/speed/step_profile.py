"""Where the time of one generated token goes: the parts of the model's step, each under a stopwatch."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

from musicgen.generation.fast_steps import ReadyCalls
from musicgen.model.performer import Performer

KINDS = ("matrices", "positions", "features", "attention state", "norms", "activation")
AHEAD = "positions, made ahead"
REST = "rest: sums, the interpreter"


class Stopwatch:
    """Seconds by kind since the last reset."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys([*KINDS, AHEAD], 0.0)

    def over(self, kind: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function, its time added to a kind's; what is of no kind is left alone."""
        if kind not in self.seconds:
            return function

        def timed(*arguments: Any) -> Any:
            began = time.perf_counter()
            result = function(*arguments)
            self.seconds[kind] += time.perf_counter() - began
            return result

        return timed

    def read_and_reset(self) -> dict[str, float]:
        """Return the seconds so far."""
        read = self.seconds
        self.seconds = dict.fromkeys(read, 0.0)
        return read


def step_profile(model: Performer, tokens: int = 40, position: int = 256) -> list[dict[str, Any]]:
    """Generate so many tokens at batch 1 and return a row a kind: its seconds a token, their spread, its share."""
    model.eval()
    watch, encoding = Stopwatch(), vars(model.position)
    encoding["cover_rows"] = watch.over(AHEAD, model.position.cover_rows)
    try:
        runs = _runs(model, watch, tokens, position)
    finally:
        del encoding["cover_rows"]
    whole = statistics.fmean(run["whole"] for run in runs)
    rows = []
    for kind in [*KINDS, AHEAD, REST, "whole"]:
        seconds = [run[kind] for run in runs]
        mean = statistics.fmean(seconds)
        rows.append({
            "part": kind, "seconds": mean, "spread": statistics.stdev(seconds),
            "n": len(seconds), "share": mean / whole,
        })  # fmt: skip
    return rows


def _runs(model: Performer, watch: Stopwatch, tokens: int, position: int) -> list[dict[str, float]]:
    with torch.inference_mode():
        prompt = torch.zeros(1, 8, dtype=torch.long)
        _, state = model.prefill(prompt, model.start(torch.Generator().manual_seed(0)))
        calls = ReadyCalls(model, state.layers, watch.over)
        codes, times, runs, token = [state.code], state.times, [], prompt[:, 0]
        for number in range(tokens + 8):  # the first 8 warm up
            watch.read_and_reset()
            began = time.perf_counter()
            _, codes, times = calls(token, codes, [position + number], times)
            whole = time.perf_counter() - began
            parts = watch.read_and_reset()
            runs.append({**parts, REST: whole - sum(parts.values()), "whole": whole})
        return runs[8:]
