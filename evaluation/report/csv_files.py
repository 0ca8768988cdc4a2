"""The results of a report as rows of CSV files."""

from __future__ import annotations

from typing import Any

from evaluation.report.benchmarks import benchmark_rows
from evaluation.tables.ablation import ablation_rows
from evaluation.tables.losses import extrapolation_rows, position_rows, realisation_rows
from evaluation.tables.positions import probe_rows
from evaluation.tables.table import Result
from evaluation.tables.whole_pieces import whole_pieces_rows


def csv_files(results: Result) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of each file by its name; every row of a model names its weights, and its n."""
    models = [
        {k: v for k, v in m.items() if k not in ("config", "training")} for m in results["models"]
    ]
    weights = {model["label"]: model["sha256"] for model in models}
    losses, continuation = results["extrapolation"], results["continuation"] or {}
    ablated = [row for result in results["ablation"] for row in ablation_rows(result)]
    files = {
        "models": models,
        "extrapolation": [row for result in losses for row in extrapolation_rows(result)],
        "extrapolation_by_position": [row for result in losses for row in position_rows(result)],
        "realisations": [row for r in results["realisations"] for row in realisation_rows(r)],
        "ablation": [{**row, "sha256": weights.get(row["model"])} for row in ablated],
        "whole_pieces": [
            row for r in results["whole_pieces"] for row in whole_pieces_rows(r["kind"], r)
        ],
        "benchmarks": [row for result in results["benchmarks"] for row in benchmark_rows(result)],
        "positions": probe_rows(results["positions"] or {"models": []}),
        **{
            f"continuation_{name}": continuation.get(name, [])
            for name in ("similarity", "variety", "statistics")
        },
    }
    return {name: rows for name, rows in files.items() if rows}
