"""The tables of the report, as HTML and as rows for CSV files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import sqrt
from typing import Any

from markupsafe import Markup

from evaluation.continuation.plot import AGAINST, TOGETHER
from evaluation.metrics.statistics import STATISTICS
from evaluation.metrics.style import METRICS
from evaluation.report.ablation_table import ablation_rows
from evaluation.report.benchmarks import benchmark_rows
from evaluation.report.html import folded, table
from evaluation.report.texts import CAPTIONS, TABLES, filled
from evaluation.report.whole_pieces import whole_pieces_rows

Result = Mapping[str, Any]
Row = dict[str, Any]
NONE = "–"
QUARTERS = {None: "whole", 1: "1st quarter", 2: "2nd", 3: "3rd", 4: "4th"}


def models_table(models: Sequence[Result]) -> Markup:
    """Return what is known of the models."""
    rows = [
        [
            model["label"],
            model["encoding"],
            model["language"],
            f"{model['trained_length']:,}" if model["trained_length"] else "untrained",
            NONE if model["parameters"] is None else f"{model['parameters']:,}",
            str(model["training"].get("data", NONE)),
            _number(model["training"].get("validation_loss")),
            model["sha256"][:12] or NONE,
        ]
        for model in models
    ]
    head = ["model", "encoding", "language", "trained length", "parameters", "data"]
    return table([*head, "validation loss", "hash"], rows, filled(CAPTIONS["models"]))


def extrapolation_table(result: Result) -> Markup:
    """Return the loss of each part of the piece (table 6), and by how much it grows past the trained length."""
    models = result["models"]
    parts = [part for part in ("trained", "near", "far") if any(part in m["parts"] for m in models)]
    borders = {m["trained_length"] for m in models}
    head = ["model", *(_part_title(models[0], part, len(borders) == 1) for part in parts)]
    compared = any(model.get("growth") for model in models)
    head += ["further − trained", *(["growth against all"] if compared else [])]
    rows = [
        [
            model["model"],
            *(_spread(model["parts"].get(part)) for part in parts),
            _signed(model["drift"].get("far")),
            *([_signed(model.get("growth"))] if compared else []),
        ]
        for model in models
    ]
    best = [
        place
        for column, part in enumerate(parts, start=1)
        for place in _lowest([_mean(m["parts"].get(part)) for m in models], column)
    ]
    return table(head, rows, filled(TABLES["extrapolation"]), best if len(models) > 1 else ())


def realisations_table(result: Result) -> Markup:
    """Return the loss by model and number of realisations, the trained one marked."""
    numbers = sorted({t["realisations"] for m in result["models"] for t in m["tests"]})
    rows = []
    for model in result["models"]:
        tests = {test["realisations"]: test for test in model["tests"]}
        cells = [_spread(tests.get(n)) + (" ←" if n == model["trained"] else "") for n in numbers]
        rows.append([f"{model['model']} (R = {model['trained']})", *cells])
    return table(["model", *(f"R = {n}" for n in numbers)], rows, filled(TABLES["realisations"]))


def positions_table(result: Result) -> Markup:
    """Return table 7: both metrics of the best head by range of queries and offsets."""
    first = result["models"][0]["probes"]["best_table"]
    alike = len({model["probes"]["length"] for model in result["models"]}) == 1
    head = ["model", "", *(_range_title(row, result["models"][0], alike) for row in first)]
    rows: list[list[str]] = []
    values: dict[str, list[list[float | None]]] = {"translation": [], "monotonicity": []}
    for model in result["models"]:
        for metric, letter in (("translation", "T"), ("monotonicity", "M")):
            found = model["probes"]["best_table"]
            cells = [_with_error(row[metric], row.get(f"{metric}_error")) for row in found]
            values[metric].append([row[metric] for row in found])
            rows.append([model["model"] if letter == "T" else "", letter, *cells])
    best = []
    for offset, metric in enumerate(values):
        for column in range(len(first)):
            of_models = [v[column] if column < len(v) else None for v in values[metric]]
            best += [(2 * i + offset, j) for i, j in _lowest(of_models, column + 2)]
    sizes = {row["tokens"] for m in result["models"] for row in m["probes"]["best_table"]}
    tokens = " or ".join(map(str, sorted(sizes)))
    caption = filled(TABLES["positions"], tokens=tokens)
    return table(head, rows, caption, best if len(result["models"]) > 1 else ())


def continuation_tables(result: Result) -> Iterator[Markup]:
    """Yield similarity by quarter, variety, and music statistics beside those of the real pieces."""
    yield Markup().join(_similarities(result, "prompt"))
    yield folded("Similarity to the whole piece", Markup().join(_similarities(result, "piece")))
    variety: dict[str, dict[str, str]] = {}
    for row in result["variety"]:
        variety.setdefault(row["output"], {})[row["measure"]] = _interval(row)
    titles = {
        "copied_share": "copied from the prompt",
        "diversity": "diversity of samples",
        "tokens": "tokens",
        "beats": "beats",
    }
    rows = [[name, *(line.get(m, NONE) for m in titles)] for name, line in variety.items()]
    yield table(["output", *titles.values()], rows, filled(TABLES["variety"]))
    yield _statistics(result)


def csv_tables(results: Result) -> dict[str, list[Row]]:
    """Return the rows of each CSV file by its name; every row names its model, its hash and its n."""
    models = [
        {k: v for k, v in m.items() if k not in ("config", "training")} for m in results["models"]
    ]
    losses, continuation = results["extrapolation"], results["continuation"] or {}
    files = {
        "models": models,
        "extrapolation": [row for result in losses for row in extrapolation_rows(result)],
        "extrapolation_by_position": [row for result in losses for row in position_rows(result)],
        "realisations": [row for r in results["realisations"] for row in realisation_rows(r)],
        "ablation": ablation_rows(results),
        "whole_pieces": whole_pieces_rows(results),
        "benchmarks": benchmark_rows(results),
        "positions": probe_rows(results["positions"] or {"models": []}),
        **{
            f"continuation_{name}": continuation.get(name, [])
            for name in ("similarity", "variety", "statistics")
        },
    }
    return {name: rows for name, rows in files.items() if rows}


def extrapolation_rows(result: Result) -> list[Row]:
    """Return a row a model and part of the piece, its drift from the trained part, and its growth."""
    found: list[Row] = []
    for model in result["models"]:
        rows = [{"part": part, **row} for part, row in model["parts"].items() if row]
        rows += [{"part": f"drift {part}", **row} for part, row in model["drift"].items() if row]
        rows += [{"part": "growth", **model["growth"]}] if model.get("growth") else []
        found += [{**_named(model), "data": result["data"]["checksum"], **row} for row in rows]
    return found


def position_rows(result: Result) -> list[Row]:
    """Return a row a model and stretch of positions."""
    data = result["data"]["checksum"]
    return [
        {**_named(model), "data": data, **row}
        for model in result["models"]
        for row in model["positions"]
    ]


def realisation_rows(result: Result) -> list[Row]:
    """Return a row a model and number of realisations."""
    data = result["data"]["checksum"]
    return [
        {**_named(model), "data": data, "trained": model["trained"], **test}
        for model in result["models"]
        for test in model["tests"]
    ]


def probe_rows(result: Result) -> list[Row]:
    """Return a row a model, head and range."""
    return [
        {**_named(model), "ranges": name, **row}
        for model in result["models"]
        for name in ("table", "figure")
        for row in model["probes"][name]
    ]


def _similarities(result: Result, against: str) -> Iterator[Markup]:
    """Yield a table a metric that any output has: outputs down, quarters across."""
    for metric, title in METRICS.items():
        lines: dict[str, dict[Any, str]] = {}
        for row in result["similarity"]:
            if (row["against"], row["metric"]) == (against, metric) and row["track"] in TOGETHER:
                lines.setdefault(row["output"], {})[row["quarter"]] = _interval(row)
        if any(cell != NONE for line in lines.values() for cell in line.values()):
            rows = [[name, *(line.get(q, NONE) for q in QUARTERS)] for name, line in lines.items()]
            caption = filled(TABLES["similarity"], title=title, says=AGAINST[against])
            yield table(["output", *QUARTERS.values()], rows, caption)


def _statistics(result: Result) -> Markup:
    outputs = list(dict.fromkeys(row["output"] for row in result["statistics"]))
    known = {(row["output"], row["statistic"]): row for row in result["statistics"]}
    rows = []
    for name, statistic in STATISTICS.items():
        of_outputs = [known[one, name] for one in outputs if (one, name) in known]
        if not of_outputs:
            continue
        unit = f" ({statistic.unit})" if statistic.unit else ""
        real = of_outputs[0]["real"]
        cells = [
            f"{_number(row['outputs']['mean'])} [{_number(row['wasserstein'])}]"
            for row in of_outputs
        ]
        rows.append(
            [
                statistic.title + unit,
                f"{_number(real['mean'])} ± {_number(real['deviation'])} ({real['n']})",
                *cells,
            ]
        )
    return table(["statistic", "the piece itself", *outputs], rows, filled(TABLES["statistics"]))


def _named(model: Result) -> Row:
    return {
        key: model[key] for key in ("model", "sha256", "encoding", "language", "trained_length")
    }


def _part_title(model: Result, part: str, alike: bool) -> str:
    """Return where a part lies, in tokens where all models were trained alike."""
    if not alike or not model["parts"].get(part):
        return {"trained": "trained", "near": "to 1.5 × trained", "far": "further"}[part]
    row = model["parts"][part]
    says = "trained: " if part == "trained" and model["trained_length"] else ""
    return f"{says}{row['start'] + 1:,} … {row['stop']:,}"


def _range_title(row: Result, model: Result, alike: bool) -> str:
    if alike:
        return f"{row['start'] + 1} … {row['stop']}\n< {row['offset']}"
    length = model["probes"]["length"]
    return f"{row['start'] / length:g} … {row['stop'] / length:g} N\n< {row['offset'] / length:g} N"


def _lowest(values: Sequence[float | None], column: int) -> list[tuple[int, int]]:
    """Return the places of the lowest values of a column, as far as three digits tell them apart."""
    shown = [None if value is None else round(value, 3) for value in values]
    lowest = min((value for value in shown if value is not None), default=None)
    return [(i, column) for i, value in enumerate(shown) if value is not None and value == lowest]


def _mean(row: Result | None) -> float | None:
    return None if row is None else row["mean"]


def _spread(row: Result | None) -> str:
    return NONE if row is None else f"{row['mean']:.3f} ± {row['deviation']:.3f} ({row['pieces']})"


def _signed(row: Result | None) -> str:
    if row is None:
        return NONE
    return f"{row['mean']:+.3f} ± {row['deviation'] / sqrt(row['pieces']):.3f}".replace("-", "−")


def _with_error(value: float | None, error: float | None) -> str:
    if value is None:
        return NONE
    return f"{value:.3f}" if error is None else f"{value:.3f} ± {error:.3f}"


def _interval(row: Result) -> str:
    if row["mean"] is None:
        return NONE
    between = "" if row["low"] is None else f" [{_number(row['low'])}, {_number(row['high'])}]"
    return f"{_number(row['mean'])}{between} ({row['n']})"


def _number(value: float | None) -> str:
    if value is None:
        return NONE
    return f"{value:.3f}" if abs(value) < 10 else f"{value:.1f}"
