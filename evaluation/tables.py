"""The tables of results: how numbers are written, with their spread and with n, and a table for each evaluation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evaluation.metrics.statistics import HARMONY, NOTES_A_BAR, SOUNDING
from evaluation.metrics.style import METRICS
from tokenization.wording import filled, listed

Result = Mapping[str, Any]
Row = dict[str, Any]
NONE = "–"


@dataclass(frozen=True, kw_only=True)
class Table:
    """Cells under titles, which may have several lines, and what is to be known of them."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str
    best: Sequence[tuple[int, int]] = ()  # the places (row, column) of what is to stand out


def number(value: float | None) -> str:
    """Return a number with three digits after the point, or with one where it is large."""
    if value is None:
        return NONE
    return f"{value:.3f}" if abs(value) < 10 else f"{value:.1f}"


def interval(
    mean: float | None,
    low: float | None,
    high: float | None,
    written: Callable[[float], str] = number,
) -> str:
    """Return a mean with its interval, if it has one."""
    if mean is None:
        return NONE
    return written(mean) + (
        "" if low is None or high is None else f" [{written(low)}, {written(high)}]"
    )


def estimated(row: Result | None) -> str:
    """Return a mean, the interval of it, and over how many."""
    if row is None or row["mean"] is None:
        return NONE
    return f"{interval(row['mean'], row['low'], row['high'])} ({row['n']})"


def described(row: Result) -> str:
    """Return the mean of values, their deviation, and how many they are."""
    if row["mean"] is None:
        return NONE
    return f"{with_error(row['mean'], row['deviation'], number)} ({row['n']})"


def spread(row: Result | None) -> str:
    """Return a mean over pieces, their deviation, and how many they are."""
    return NONE if row is None else f"{with_error(row['mean'], row['deviation'])} ({row['pieces']})"


def signed(row: Result | None) -> str:
    """Return a mean change over pieces with its 95 % interval, which one piece does not have."""
    if row is None:
        return NONE
    change = interval(row["mean"], row["low"], row["high"], "{:+.3f}".format)
    return change.replace("-", "−")


def with_error(
    value: float | None, error: float | None, written: Callable[[float], str] = "{:.3f}".format
) -> str:
    """Return a number and its standard error or deviation, if it has one."""
    if value is None:
        return NONE
    return written(value) + ("" if error is None else f" ± {written(error)}")


def lowest(values: Sequence[float | None], column: int) -> list[tuple[int, int]]:
    """Return the places of the lowest values of a column, as far as three digits tell them apart."""
    shown = [None if value is None else round(value, 3) for value in values]
    least = min((value for value in shown if value is not None), default=None)
    return [(i, column) for i, value in enumerate(shown) if value is not None and value == least]


def named(model: Result) -> dict[str, Any]:
    """Return what a row of a CSV file says of its model."""
    return {
        key: model[key] for key in ("model", "sha256", "encoding", "language", "trained_length")
    }


# The table of the models under evaluation, and of what is known of each.

MODELS_HEAD = (
    "model", "encoding", "language", "trained length", "parameters", "data", "validation loss", "hash",
)  # fmt: skip
MODELS_CAPTION = "The hash is the beginning of the SHA-256 of the weights; every number below belongs to these weights."


def models_table(models: Sequence[Result]) -> Table:
    """Return a row a model."""
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

EXTRAPOLATION = "Loss in nats a token: mean ± deviation over pieces (n); differences [95 % interval], paired by piece."
WORDS = {"trained": "trained", "near": "to 1.5 × trained", "far": "further"}


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


def extrapolation_rows(result: Result) -> list[Row]:
    """Return a row a model and part of the piece, its drift from the trained part, and its growth."""

    def parts(model: Result) -> list[Row]:
        compared = [(part, model.get(part)) for part in ("growth", "control")]
        drift = [(f"drift {part}", row) for part, row in model["drift"].items()]
        every = [*model["parts"].items(), *drift, *compared]
        return [{"part": part, **row} for part, row in every if row]

    return _rows(result, parts)


def position_rows(result: Result) -> list[Row]:
    """Return a row a model and stretch of positions."""
    return _rows(result, lambda model: model["positions"])


def _rows(result: Result, of_model: Callable[[Result], Sequence[Row]]) -> list[Row]:
    """Return the rows of each model, which name it and the data."""
    data = result["data"]["checksum"]
    models = result["models"]
    return [{**named(model), "data": data, **row} for model in models for row in of_model(model)]


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


# The table of what models rely on: by how much the loss changes without each part of them.

ABLATION_CAPTION = "Change of the loss in nats a token, mean [95 % interval] over pieces."


def ablation_table(result: Result) -> Table:
    """Return by how much the loss changes without each part of each model."""
    rows = [
        [
            row["model"],
            row["part"],
            *(
                interval(row[part], *row["interval"][part], written="{:+.4f}".format)
                for part in ("within", "past")
            ),
            str(row["pieces"]["within"]),
        ]
        for row in result["models"]
    ]
    head = ["model", "without", "within the trained length", "past it", "pieces"]
    return Table(head=head, rows=rows, caption=ABLATION_CAPTION)


def ablation_rows(result: Result) -> list[Row]:
    """Return a row a model and part that was taken away, for a CSV file."""
    rows = []
    for one in result["models"]:
        row = {"model": one["model"], "part": one["part"]}
        for place in ("within", "past"):
            low, high = one["interval"][place]
            row |= {place: one[place], f"{place}_low": low, f"{place}_high": high}
            row[f"{place}_n"] = one["pieces"][place]
        rows.append(row)
    return rows


# The table of what encodings know of position (table 7 of the SPE paper).

PROBES = """T: translation invariance, M: monotonicity; best head ± standard error, over {tokens} tokens, for queries
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
        caption=filled(PROBES, tokens=tokens, without=_without(values["translation"], result)),
        best=best if len(result["models"]) > 1 else (),
    )


def probe_rows(result: Result) -> list[Row]:
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


# The tables of whole pieces: their form, gaps filled in, and parts written to others.

KINDS = {
    "form": "Form of continuations, and endings",
    "infilling": "Gaps filled in",
    "accompaniment": "Parts written to others",
    "originality": "What of it stands in the training pieces",
    "plan": "Plans that are asked for",
}
ACCOMPANIMENT_METRICS = {
    **METRICS, HARMONY: "in harmony", NOTES_A_BAR: "notes a bar", SOUNDING: "notes at a time",
    "pitch_divergence": "divergence of pitches", "onset_divergence": "divergence of onsets",
    "consonant": "consonant", "unsupported": "unsupported",
}  # fmt: skip
# What stands side by side in a table of each kind, and what it is called there.
SIDES = {
    "form": {"written": "written", "real": "the real piece", "middle": "where nothing ends"},
    "infilling": {"written": "written", "real": "the true bars", "alone": "without the bars after"},
    "accompaniment": {
        "written": "written",
        "real": "the hidden part",
        "next": "its next bars",
        "same": "another piece",
        "other": "another style",
    },
    "originality": {"written": "written", "real": "the real piece"},
    "plan": {"written": "as asked", "unguided": "without guidance", "free": "written freely"},
}
CAPTIONS = {
    "form": """Returns: the share of bars that have most of an earlier bar; repeats: all of one; phrases: how like each
        8 bars are to earlier ones (all 0 to 1); circles: the longest run of bars that repeat each other; contrast and
        swell: by how many semitones and by which share phrases differ in height and in notes; loudness: the share of
        notes of the commonest; collapses: the share of pieces that become twice as dense or repeat one high note. End:
        the share of pieces whose last bar shows a sign of one. Mean ± deviation [95 % interval: Student's, of shares of
        pieces Wilson's] over n pieces.""",
    "infilling": """Loss: of the true bars, in nats a token; f1: how many of the true notes were written; likeness: of
        the style to the bars around; leap: semitones into the bar after. Mean ± deviation [95 % interval] over n
        pieces.""",
    "accompaniment": """Likeness of the style to the hidden part's, 0 to 1; in harmony: the share of notes that are
        tones of the piece's chord; notes a bar and at a time; divergence: Jensen–Shannon, in nats, from the hidden
        part; consonant, unsupported: the share of the other parts' time with a consonant note of the part, and with
        none. Mean ± deviation [95 % interval] over n styles, and in
        how many what was written is above another piece.""",
    "originality": """Each two bars beside the most similar two bars of the training pieces, in any key: which share of
        all notes of both they share; of how many passages they share half or more, and all. Mean ± deviation
        [95 % interval] over n pieces.""",
    "plan": """How what is asked of each bar correlates with what is written, −1 to 1; return: the share of bars asked
        to return that have most of the bar that is named. Written freely: the same of music of which nothing was
        asked. Mean ± deviation [95 % interval] over n pieces.""",
}


def whole_pieces_table(kind: str, result: Result) -> Table:
    """Return a row a model and measure: what was written, and what stands for good and for bad."""
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
    """Return a row a model, measure and side, for a CSV file."""
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


def _value(found: Result | None, of_row: int) -> str:
    """Return an estimate, with its n where that is not the row's: what a piece does not have is in no mean."""
    if found is None or found["mean"] is None:
        return NONE
    deviating = with_error(found["mean"], found["deviation"], "{:.2f}".format)
    between = "" if found["low"] is None else f" [{found['low']:.2f}, {found['high']:.2f}]"
    of_its_own = "" if found["n"] == of_row else f" (n {found['n']})"
    return deviating + between + of_its_own


# The table of how well written bars are told from real ones.

REALISM_CAPTION = """How often a written window of 8 bars is told from a real one by its statistics, songs held apart
    (AUC; 0.5: indistinguishable) [95 % interval over songs]; overlap: of the distances between written and real
    windows with those among real ones (mean of the statistics; 1: equally far); of the statistics that tell most,
    chosen on these windows and thus favoured, by the value alone, and its mean of either side. n: songs /
    windows."""


def realism_table(result: Result) -> Table:
    """Return a row a model and test, then one for each statistic that gives it away."""
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
    head = ["model", "told by", "AUC", "overlap", "written", "real", "n"]
    return Table(head=head, rows=rows, caption=filled(REALISM_CAPTION))


def realism_rows(result: Result) -> list[Row]:
    """Return a row a model and test or statistic, for a CSV file."""
    return [
        {"data": result["data"], "model": model["model"], **row}
        for model in result["models"]
        for row in model["table"]
    ]


# The table of each experiment by its kind, and the rows of its CSV file.

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
    """Return the rows of an experiment's result for a CSV file."""
    return _TABLES[kind][1](result) if kind in _TABLES else whole_pieces_rows(kind, result)
