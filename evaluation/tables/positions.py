"""The table of what encodings know of position (table 7 of the SPE paper)."""

from __future__ import annotations

from typing import Any

from evaluation.tables.table import NONE, Result, Table, lowest, named, with_error
from tokenization.wording import filled, listed

CAPTION = """T: translation invariance, M: monotonicity; best head ± standard error, over {tokens} tokens, for queries
    at these positions and keys at these offsets before them, in tokens or, where an encoding counts musical time, in
    sixteenths. Asked is the encoding, without what heads forget by horizons. –: all weights there are equal, or no
    sequence may be as long.{without}"""
WITHOUT = """ No position is held in the first layer's weights of {names}, which are equal at all offsets."""


def positions_table(result: Result) -> Table:
    """Return both metrics of the best head by range of queries and offsets."""
    # A model with a longest sequence has no ranges past it.
    furthest = max(result["models"], key=lambda model: len(model["probes"]["best_table"]))
    first = furthest["probes"]["best_table"]
    alike = len({model["probes"]["length"] for model in result["models"]}) == 1
    head = ["model", "", *(_range_title(row, furthest, alike) for row in first)]
    rows: list[list[str]] = []
    values: dict[str, list[list[float | None]]] = {"translation": [], "monotonicity": []}
    for model in result["models"]:
        for metric, letter in (("translation", "T"), ("monotonicity", "M")):
            found = model["probes"]["best_table"]
            cells = [with_error(row[metric], row.get(f"{metric}_error")) for row in found]
            cells += [NONE] * (len(first) - len(found))
            values[metric].append([row[metric] for row in found])
            rows.append([model["model"] if letter == "T" else "", letter, *cells])
    best = []
    for offset, metric in enumerate(values):
        for column in range(len(first)):
            of_models = [v[column] if column < len(v) else None for v in values[metric]]
            best += [(2 * i + offset, j) for i, j in lowest(of_models, column + 2)]
    sizes = {row["tokens"] for m in result["models"] for row in m["probes"]["best_table"]}
    tokens = " or ".join(map(str, sorted(sizes)))
    return Table(
        head=head,
        rows=rows,
        caption=filled(CAPTION, tokens=tokens, without=_without(values["translation"], result)),
        best=best if len(result["models"]) > 1 else (),
    )


def probe_rows(result: Result) -> list[dict[str, Any]]:
    """Return a row a model, head and range, for a CSV file."""
    return [
        {**named(model), "ranges": name, **row}
        for model in result["models"]
        for name in ("table", "figure")
        for row in model["probes"][name]
    ]


def _without(values: list[list[float | None]], result: Result) -> str:
    """Name the models whose weights do not tell positions apart."""
    pairs = zip(result["models"], values, strict=True)
    names = [model["model"] for model, found in pairs if set(found) <= {None}]
    return WITHOUT.format(names=listed(names)) if names else ""


def _range_title(row: Result, model: Result, alike: bool) -> str:
    if alike:
        return f"{row['start'] + 1} … {row['stop']}\n< {row['offset']}"
    length = model["probes"]["length"]
    return f"{row['start'] / length:g} … {row['stop'] / length:g} N\n< {row['offset'] / length:g} N"
