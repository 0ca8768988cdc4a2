"""The main numbers of each experiment in a sentence, for the summary of the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evaluation.tables import SIDES, Result, interval, number, signed

# The measures of whole pieces that a summary names, and in its words.
MEASURES = {
    "continuation": {
        "to the prompt, whole: onset–duration": "similarity of its rhythms to the prompt",
        "to the prompt, 4th: onset–duration": "in the last quarter",
    },
    "form": {
        "returns": "bars that return to earlier ones",
        "repeats": "bars repeated exactly",
        "end: all": "endings with all signs",
    },
    "infilling": {"f1": "agreement of filled bars with the true notes (F1)"},
    "accompaniment": {
        "bass: in harmony": "chord tones among the notes of a new bass",
        "other: in harmony": "chord tones among the notes of another new part",
    },
    "originality": {"closest passage": "notes shared with the closest training passage"},
}


def headlines(result: Result) -> list[str]:
    """Return a sentence per model on the main numbers of an experiment, or none if it has no such number."""
    kind, models = result["kind"], result["models"]
    if kind == "ablation":
        return _ablations(models)
    one_of = {"extrapolation": _losses, "positions": _positions}.get(kind)
    if one_of is None:
        told = [(model["model"], _measures(kind, model)) for model in models if "table" in model]
    else:
        told = [(model["model"], one_of(model)) for model in models]
    return [f"{name}: {text}." for name, text in told if text]


def _losses(model: Result) -> str:
    drift, control = model["drift"].get("far"), model.get("control")
    if drift is None:
        return f"the loss is {number(model['parts']['trained']['mean'])} nats per token"
    text = f"past the {model['trained_length']:,} tokens it was trained on, the loss changes by {signed(drift)} nats"
    if control is not None:
        text += f"; the whole piece as context changes it by {signed(control)}"
    return text


def _ablations(rows: Sequence[Result]) -> list[str]:
    """Name the change that costs each model most."""
    names = dict.fromkeys(row["model"] for row in rows)
    most = {
        name: max(
            (row for row in rows if row["model"] == name), key=lambda row: row["within"]["mean"]
        )
        for name in names
    }
    return [
        f"{name}: the loss changes most, by {signed(row['within'])} nats per token, with {row['part']}."
        for name, row in most.items()
    ]


def _positions(model: Result) -> str:
    found = model["probes"]["best_table"]
    first = found[0] if found else {}
    values = [first.get(metric) for metric in ("translation", "monotonicity")]
    if None in values:
        return ""
    shift, order = map(number, values)
    return f"translation invariance {shift} and monotonicity {order} within the trained length (0 is perfect)"


def _measures(kind: str, model: Result) -> str:
    """Say each measure beside that of the real music."""
    rows: Mapping[str, Result] = {row["measure"]: row for row in model["table"]}
    told = []
    for measure, words in MEASURES.get(kind, {}).items():
        found = rows.get(measure, {}).get("written")
        if found is None or found["mean"] is None:
            continue
        beside = rows[measure].get("real")
        text = f"{words} {interval(found['mean'], found['low'], found['high'], '{:.2f}'.format)}"
        if beside is not None and beside["mean"] is not None:
            text += f" ({SIDES[kind]['real']} {beside['mean']:.2f})"
        told.append(text)
    return "; ".join(told)
