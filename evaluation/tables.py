"""The tables of the evaluations: numbers formatted with their uncertainty and n, and one table per experiment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evaluation.metrics.statistics import HARMONY, NOTES_PER_BAR, SOUNDING
from evaluation.metrics.style import METRICS
from tokenization.wording import filled, listed

Result = Mapping[str, Any]
Row = dict[str, Any]
NONE = "–"


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table of text cells under column titles, which may contain line breaks, with a caption."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str
    best: Sequence[tuple[int, int]] = ()  # (row, column) of the cells to emphasise


def number(value: float | None) -> str:
    """Format a number with three decimals, or with one from 10 on."""
    if value is None:
        return NONE
    return f"{value:.3f}" if abs(value) < 10 else f"{value:.1f}"


def interval(
    mean: float | None,
    low: float | None,
    high: float | None,
    text: Callable[[float], str] = number,
) -> str:
    """Format a mean with its interval, if it has one."""
    if mean is None:
        return NONE
    return text(mean) + ("" if low is None or high is None else f" [{text(low)}, {text(high)}]")


def with_interval(row: Result | None) -> str:
    """Format a mean with its interval and n."""
    if row is None or row["mean"] is None:
        return NONE
    return f"{interval(row['mean'], row['low'], row['high'])} ({row['n']})"


def with_deviation(row: Result) -> str:
    """Format a mean with the standard deviation of the values and n."""
    if row["mean"] is None:
        return NONE
    return f"{with_error(row['mean'], row['deviation'], number)} ({row['n']})"


def spread(row: Result | None) -> str:
    """Format a mean over pieces with their standard deviation and number."""
    return NONE if row is None else f"{with_error(row['mean'], row['deviation'])} ({row['pieces']})"


def signed(row: Result | None) -> str:
    """Format a mean change over pieces with its 95 % interval; a single piece has no interval."""
    if row is None:
        return NONE
    change = interval(row["mean"], row["low"], row["high"], "{:+.3f}".format)
    return change.replace("-", "−")


def with_error(
    value: float | None, error: float | None, text: Callable[[float], str] = "{:.3f}".format
) -> str:
    """Format a number with its standard error or deviation, if it has one."""
    if value is None:
        return NONE
    return text(value) + ("" if error is None else f" ± {text(error)}")


def lowest(values: Sequence[float | None], column: int) -> list[tuple[int, int]]:
    """Return the cells (row, column) of the lowest values of a column; values equal to three decimals tie."""
    shown = [None if value is None else round(value, 3) for value in values]
    least = min((value for value in shown if value is not None), default=None)
    return [(i, column) for i, value in enumerate(shown) if value is not None and value == least]


def model_columns(model: Result) -> dict[str, Any]:
    """Return the columns of a CSV row that identify its model."""
    return {
        key: model[key] for key in ("model", "sha256", "encoding", "language", "trained_length")
    }


# The table of the models under evaluation.

MODELS_HEAD = (
    "model", "encoding", "language", "trained length", "parameters", "data", "validation loss", "hash",
)  # fmt: skip
MODELS_CAPTION = "Hash: the first 12 digits of the SHA-256 of the weights that all numbers below were measured with."


def models_table(models: Sequence[Result]) -> Table:
    """Return one row per model."""
    rows = [
        [
            model["label"],
            model["encoding"],
            model["language"],
            f"{model['trained_length']:,}" if model["trained_length"] else "untrained",
            NONE if model["parameters"] is None else f"{model['parameters']:,}",
            str(model["training"].get("data", NONE)),
            number(model["training"].get("validation_loss")),
            model["sha256"][:12] or NONE,
        ]
        for model in models
    ]
    return Table(head=MODELS_HEAD, rows=rows, caption=MODELS_CAPTION)


# The table of the loss past the trained length.

EXTRAPOLATION = """Loss in nats per token: mean ± standard deviation over pieces (n). Differences: mean
    [95 % interval], paired by piece."""
PART_TITLES = {"trained": "trained", "near": "up to 1.5 × trained", "far": "beyond"}


def extrapolation_table(result: Result) -> Table:
    """Return the loss in each part of the pieces (table 6), and its growth past the trained length."""
    models = result["models"]
    parts = [part for part in ("trained", "near", "far") if any(part in m["parts"] for m in models)]
    shared = {part: _shared_range(models, part) for part in parts}
    head = ["model", *(shared[part] or PART_TITLES[part] for part in parts)]
    compared = any(model.get("growth") for model in models)
    head += ["beyond − trained", *(["growth − mean growth"] if compared else [])]
    controlled = any(model.get("control") for model in models)
    head += ["full − truncated context"] if controlled else []
    rows = [
        [
            model["model"],
            *(_part_loss(model["parts"].get(part), bool(shared[part])) for part in parts),
            signed(model["drift"].get("far")),
            *([signed(model.get("growth"))] if compared else []),
            *([signed(model.get("control"))] if controlled else []),
        ]
        for model in models
    ]
    best = [
        place
        for column, part in enumerate(parts, start=1)
        if (comparable := _comparable_losses(models, part))
        for place in lowest([comparable.get(m["model"]) for m in models], column)
    ]
    return Table(head=head, rows=rows, caption=filled(EXTRAPOLATION), best=best)


def _comparable_losses(models: Sequence[Result], part: str) -> dict[str, float]:
    """Return the models' losses in a part; empty unless two or more were measured at the same positions."""
    rows = {model["model"]: row for model in models if (row := model["parts"].get(part))}
    stretches = {(row["start"], row["stop"]) for row in rows.values()}
    comparable = len(rows) > 1 and len(stretches) == 1
    return {name: row["mean"] for name, row in rows.items()} if comparable else {}


def extrapolation_rows(result: Result) -> list[Row]:
    """Return one row per model and part of the pieces, and the rows of its drift, growth and control."""

    def parts(model: Result) -> list[Row]:
        differences = [(f"drift {part}", row) for part, row in model["drift"].items()]
        differences += [(part, model.get(part)) for part in ("growth", "control")]
        named = [*model["parts"].items(), *differences]
        return [{"part": part, **row} for part, row in named if row]

    return _rows(result, parts)


def position_rows(result: Result) -> list[Row]:
    """Return one row per model and stretch of positions."""
    return _rows(result, lambda model: model["positions"])


def _rows(result: Result, of_model: Callable[[Result], Sequence[Row]]) -> list[Row]:
    """Return the rows of each model with columns for the model and the data."""
    data = result["data"]["checksum"]
    return [
        {**model_columns(model), "data": data, **row}
        for model in result["models"]
        for row in of_model(model)
    ]


def _part_loss(row: Result | None, titled: bool) -> str:
    """Format the loss in a part, with its positions unless the column title gives them."""
    return spread(row) + ("" if titled or row is None else f": {_range(row)}")


def _shared_range(models: Sequence[Result], part: str) -> str:
    """Return a part's range of tokens, or "" unless trained length and range are those of all models."""
    ranges = {_range(row) for model in models if (row := model["parts"].get(part))}
    trained = {model["trained_length"] for model in models}
    if len(trained) > 1 or len(ranges) != 1:
        return ""
    prefix = "trained: " if part == "trained" and trained != {0} else ""
    return prefix + ranges.pop()


def _range(row: Result) -> str:
    return f"{row['start'] + 1:,} … {row['stop']:,}"


# The table of the ablation: the change of the loss when a part of the model is removed.

ABLATION_CAPTION = "Change of the loss in nats per token: mean [95 % interval] over pieces."


def ablation_table(result: Result) -> Table:
    """Return one row per model and removed part."""
    rows = [
        [
            row["model"],
            row["part"],
            *(
                interval(row[part], *row["interval"][part], text="{:+.4f}".format)
                for part in ("within", "past")
            ),
            str(row["pieces"]["within"]),
        ]
        for row in result["models"]
    ]
    head = ["model", "without", "within the trained length", "past the trained length", "pieces"]
    return Table(head=head, rows=rows, caption=ABLATION_CAPTION)


def ablation_rows(result: Result) -> list[Row]:
    """Return one CSV row per model and removed part."""
    rows = []
    for change in result["models"]:
        row = {"model": change["model"], "part": change["part"]}
        for stretch in ("within", "past"):
            low, high = change["interval"][stretch]
            row |= {stretch: change[stretch], f"{stretch}_low": low, f"{stretch}_high": high}
            row[f"{stretch}_n"] = change["pieces"][stretch]
        rows.append(row)
    return rows


# The table of the properties of position encodings (table 7 of the SPE paper).

PROBES = """T: translation invariance, M: monotonicity; lower is better. Best head ± standard error, over {tokens}
    tokens. Columns: positions of the queries and, below, the largest offset of the keys, in tokens, or in sixteenths
    for encodings in musical time. The decay of heads with horizons is off. –: all weights in the range are equal, or
    the model cannot read sequences of that length.{without}"""
WITHOUT = " The first layer's weights of {names} are equal at all offsets and carry no position."


def positions_table(result: Result) -> Table:
    """Return both metrics of the best head for each range of queries and offsets."""
    # A model with a maximum sequence length has no ranges past it.
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
            by_model = [v[column] if column < len(v) else None for v in values[metric]]
            best += [(2 * i + offset, j) for i, j in lowest(by_model, column + 2)]
    sizes = {row["tokens"] for m in result["models"] for row in m["probes"]["best_table"]}
    tokens = " or ".join(map(str, sorted(sizes)))
    return Table(
        head=head,
        rows=rows,
        caption=filled(PROBES, tokens=tokens, without=_without(values["translation"], result)),
        best=best if len(result["models"]) > 1 else (),
    )


def probe_rows(result: Result) -> list[Row]:
    """Return one CSV row per model, head and range."""
    return [
        {**model_columns(model), "ranges": name, **row}
        for model in result["models"]
        for name in ("table", "figure")
        for row in model["probes"][name]
    ]


def _without(values: list[list[float | None]], result: Result) -> str:
    """Name the models whose weights carry no position."""
    pairs = zip(result["models"], values, strict=True)
    names = [model["model"] for model, found in pairs if set(found) <= {None}]
    return WITHOUT.format(names=listed(names)) if names else ""


def _range_title(row: Result, model: Result, alike: bool) -> str:
    if alike:
        return f"{row['start'] + 1} … {row['stop']}\n< {row['offset']}"
    length = model["probes"]["length"]
    return f"{row['start'] / length:g} … {row['stop'] / length:g} N\n< {row['offset'] / length:g} N"


# The tables of whole pieces: form, infilling, accompaniment, originality and plans.

KINDS = {
    "form": "Form and endings of continuations",
    "infilling": "Infilling",
    "accompaniment": "Accompaniment",
    "originality": "Overlap with the training pieces",
    "plan": "Adherence to plans",
}
ACCOMPANIMENT_METRICS = {
    **METRICS, HARMONY: "in harmony", NOTES_PER_BAR: "notes per bar", SOUNDING: "polyphony",
    "pitch_divergence": "divergence of pitches", "onset_divergence": "divergence of onsets",
    "consonant": "consonant", "unsupported": "unsupported",
}  # fmt: skip
# What each table compares, by key, with the column titles.
SIDES = {
    "form": {"written": "generated", "real": "real piece", "middle": "middle of real piece"},
    "infilling": {"written": "generated", "real": "true bars", "alone": "context before only"},
    "accompaniment": {
        "written": "generated",
        "real": "hidden part",
        "next": "next bars",
        "same": "another piece",
        "other": "another style",
    },
    "originality": {"written": "generated", "real": "real piece"},
    "plan": {"written": "as planned", "unguided": "without guidance", "free": "without a plan"},
}
OVER_PIECES = "Mean ± standard deviation [95 % interval] over n pieces."
CAPTIONS = {
    "form": """returns: fraction of bars that share over half of their notes with an earlier bar; repeats: of bars
        equal to an earlier one; phrases: similarity of each 8 bars to the most similar earlier 8, 0 to 1; circles: the
        longest run of bars that repeat each other; contrast: standard deviation of the register of phrases, in
        semitones; swell: of the logarithm of their number of notes; notes, changes: notes and chord changes per bar;
        downbeat: fraction of bars with a bass note on the first beat; loudness: fraction of notes with the most
        frequent velocity; collapses: fraction of pieces that double in density or repeat their highest note; end:
        fraction of pieces whose last bar shows this sign of an ending. Mean ± standard deviation [95 % interval:
        Student's t, or Wilson's for fractions of pieces] over n pieces.""",
    "infilling": f"""loss: of the true bars, in nats per token; f1: agreement with the true notes; likeness: similarity
        of style to the rest of the piece, 0 to 1; leap: semitones from the gap into the next bar. {OVER_PIECES}""",
    "accompaniment": """onset–duration, time–pitch, onset–drum: similarity of style to the hidden part, 0 to 1; in
        harmony: fraction of notes that belong to the current chord; divergence: Jensen–Shannon divergence from the
        hidden part, in nats; consonant, unsupported: fraction of the other parts' sounding time with a consonant note
        of this part, and with no note of it. Mean ± standard deviation [95 % interval] over n styles, and the number
        of styles in which the generated part scores above that of another piece.""",
    "originality": f"""Every two bars are compared with the most similar two bars of the training pieces, in any key.
        closest passage: fraction of the notes of both that they share; most of it alike, the same: fraction of
        passages that share half or more, and all. {OVER_PIECES}""",
    "plan": f"""Correlation of the values planned for the bars with those measured, −1 to 1; return: fraction of bars
        planned to return that share over half of their notes with the bar they return to. Without a plan: the same
        measures of unconstrained continuations. {OVER_PIECES}""",
}


def whole_pieces_table(kind: str, result: Result) -> Table:
    """Return one row per model and measure: the generated music next to its references."""
    sides = SIDES[kind]
    above = ["above another piece"] if kind == "accompaniment" else []
    rows = [
        [
            model["model"],
            _measure(row),
            *(_value(row.get(side), row["written"]["n"]) for side in sides),
            str(row["written"]["n"]),
            *([f"{row['above_same']} of {row['of']}"] if above else []),
        ]
        for model in result["models"]
        for row in model["table"]
    ]
    return Table(
        head=["model", "measure", *sides.values(), "n", *above],
        rows=rows,
        caption=filled(CAPTIONS[kind]),
    )


def whole_pieces_rows(kind: str, result: Result) -> list[Row]:
    """Return one CSV row per model, measure and side of the comparison."""
    return [
        {
            "kind": kind,
            "data": result["data"],
            "model": model["model"],
            "measure": _measure(row),
            "side": side,
            **row[side],
        }
        for model in result["models"]
        for row in model["table"]
        for side in SIDES[kind]
        if row.get(side) is not None
    ]


def _measure(row: Result) -> str:
    if "part" not in row:
        return row["measure"]
    return f"{row['part']}: {ACCOMPANIMENT_METRICS[row['metric']]}"


def _value(found: Result | None, row_n: int) -> str:
    """Format an estimate, with its n where that differs from the row's because pieces lack a value."""
    if found is None or found["mean"] is None:
        return NONE
    value = with_error(found["mean"], found["deviation"], "{:.2f}".format)
    between = "" if found["low"] is None else f" [{found['low']:.2f}, {found['high']:.2f}]"
    return value + between + ("" if found["n"] == row_n else f" (n {found['n']})")


# The table of realism: how well a classifier separates generated bars from real ones.

REALISM_CAPTION = """AUC of a classifier that separates generated from real windows of 8 bars by their statistics, with
    songs held apart (0.5: indistinguishable) [95 % interval over songs]. overlap: of the distances between
    generated and real windows with those among real ones, mean of the statistics (1: equal). Further rows: the
    statistics that separate best on their own, selected on these windows, so that their AUC is optimistic, with their
    mean on each side. n: songs / windows."""


def realism_table(result: Result) -> Table:
    """Return one row per model and test, then one for each of the most revealing statistics."""
    rows = [
        [
            model["model"],
            row["measure"],
            interval(row["auc"], row["low"], row["high"], "{:.2f}".format),
            number(row["overlap"]),
            number(row["written"]),
            number(row["real"]),
            f"{row['songs']} / {row['windows']}",
        ]
        for model in result["models"]
        for row in model["table"]
    ]
    head = ["model", "statistics", "AUC", "overlap", "generated", "real", "n"]
    return Table(head=head, rows=rows, caption=filled(REALISM_CAPTION))


def realism_rows(result: Result) -> list[Row]:
    """Return one CSV row per model and test or statistic."""
    return [
        {"data": result["data"], "model": model["model"], **row}
        for model in result["models"]
        for row in model["table"]
    ]


# The table of each kind of experiment, and the rows of its CSV file.

_TABLES: dict[str, tuple[Callable[[Result], Table], Callable[[Result], list[Row]]]] = {
    "extrapolation": (extrapolation_table, extrapolation_rows),
    "ablation": (ablation_table, ablation_rows),
    "positions": (positions_table, probe_rows),
    "realism": (realism_table, realism_rows),
}


def table_of(kind: str, result: Result) -> Table:
    """Return the table of an experiment's result."""
    return _TABLES[kind][0](result) if kind in _TABLES else whole_pieces_table(kind, result)


def rows_of(kind: str, result: Result) -> list[Row]:
    """Return the CSV rows of an experiment's result."""
    return _TABLES[kind][1](result) if kind in _TABLES else whole_pieces_rows(kind, result)
