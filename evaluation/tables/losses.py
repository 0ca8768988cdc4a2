"""The tables of the loss past the trained length, and with other numbers of realisations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evaluation.tables.table import Result, Table, lowest, named, signed, spread

EXTRAPOLATION = "Loss in nats a token: mean ± deviation over pieces (n); differences ± standard error, paired by piece."
REALISATIONS = (
    "Loss within the trained length in nats a token, mean ± deviation over pieces (n), by R at the test; "
    "← as trained."
)
WORDS = {"trained": "trained", "near": "to 1.5 × trained", "far": "further"}
Row = dict[str, Any]


def extrapolation_table(result: Result) -> Table:
    """Return the loss of each part of the piece (table 6), and by how much it grows past the trained length."""
    models = result["models"]
    parts = [part for part in ("trained", "near", "far") if any(part in m["parts"] for m in models)]
    shared = {part: _shared_range(models, part) for part in parts}
    head = ["model", *(shared[part] or WORDS[part] for part in parts)]
    compared = any(model.get("growth") for model in models)
    head += ["further − trained", *(["growth against all"] if compared else [])]
    controlled = any(model.get("control") for model in models)
    head += ["all before − the last alone"] if controlled else []
    rows = [
        [
            model["model"],
            *(_part(model["parts"].get(part), bool(shared[part])) for part in parts),
            signed(model["drift"].get("far")),
            *([signed(model.get("growth"))] if compared else []),
            *([signed(model.get("control"))] if controlled else []),
        ]
        for model in models
    ]
    best = [
        place
        for column, part in enumerate(parts, start=1)
        if (of_part := of_one_stretch(models, part))
        for place in lowest([of_part.get(m["model"]) for m in models], column)
    ]
    return Table(head=head, rows=rows, caption=EXTRAPOLATION, best=best)


def of_one_stretch(models: Sequence[Result], part: str) -> dict[str, float]:
    """Return the losses of models in a part that can be compared: of two or more, at the same positions."""
    rows = {model["model"]: row for model in models if (row := model["parts"].get(part))}
    stretches = {(row["start"], row["stop"]) for row in rows.values()}
    comparable = len(rows) > 1 and len(stretches) == 1
    return {name: row["mean"] for name, row in rows.items()} if comparable else {}


def realisations_table(result: Result) -> Table:
    """Return the loss by model and number of realisations, the trained one marked."""
    numbers = sorted({t["realisations"] for m in result["models"] for t in m["tests"]})
    rows = []
    for model in result["models"]:
        tests = {test["realisations"]: test for test in model["tests"]}
        cells = [spread(tests.get(n)) + (" ←" if n == model["trained"] else "") for n in numbers]
        rows.append([f"{model['model']} (R = {model['trained']})", *cells])
    head = ["model", *(f"R = {n}" for n in numbers)]
    return Table(head=head, rows=rows, caption=REALISATIONS)


def extrapolation_rows(result: Result) -> list[Row]:
    """Return a row a model and part of the piece, its drift from the trained part, and its growth."""
    found: list[Row] = []
    for model in result["models"]:
        rows = [{"part": part, **row} for part, row in model["parts"].items() if row]
        rows += [{"part": f"drift {part}", **row} for part, row in model["drift"].items() if row]
        rows += [{"part": part, **model[part]} for part in ("growth", "control") if model.get(part)]
        found += [{**named(model), "data": result["data"]["checksum"], **row} for row in rows]
    return found


def position_rows(result: Result) -> list[Row]:
    """Return a row a model and stretch of positions."""
    data = result["data"]["checksum"]
    return [
        {**named(model), "data": data, **row}
        for model in result["models"]
        for row in model["positions"]
    ]


def realisation_rows(result: Result) -> list[Row]:
    """Return a row a model and number of realisations."""
    data = result["data"]["checksum"]
    return [
        {**named(model), "data": data, "trained": model["trained"], **test}
        for model in result["models"]
        for test in model["tests"]
    ]


def _part(row: Result | None, alike: bool) -> str:
    """Return the loss of a part, and where it lies if no title says so."""
    return spread(row) + ("" if alike or row is None else f": {_range(row)}")


def _shared_range(models: Sequence[Result], part: str) -> str:
    """Return where a part lies, in tokens where all models were trained alike and read as far; else nothing."""
    ranges = {_range(row) for model in models if (row := model["parts"].get(part))}
    trained = {model["trained_length"] for model in models}
    if len(trained) > 1 or len(ranges) != 1:
        return ""
    prefix = "trained: " if part == "trained" and trained != {0} else ""
    return prefix + ranges.pop()


def _range(row: Result) -> str:
    return f"{row['start'] + 1:,} … {row['stop']:,}"
