"""What results say, in sentences: only what their spread allows to say."""

from __future__ import annotations

from collections.abc import Sequence

from evaluation.tables.losses import of_one_stretch
from evaluation.tables.table import Result, signed
from musicgen.common.intervals import half_interval
from tokenization.wording import listed


def extrapolation(result: Result) -> list[str]:
    """Say which model predicts best inside and past the trained length, and whose loss grows more than others'."""
    models, found = result["models"], []
    for part, where in (("trained", "Within the trained length"), ("far", "Furthest out")):
        if known := of_one_stretch(models, part):
            best = min(known, key=lambda name: known[name])
            found.append(
                f"{where}, {best} has the lowest loss: {known[best]:.3f} nats a token "
                f"(the highest: {max(known.values()):.3f})."
            )
    found += _grown(models)
    if len(models) == 1 and models[0]["drift"].get("far"):
        drift, end = models[0]["drift"]["far"], models[0]["parts"]["far"]["stop"]
        found.append(
            f"From its trained length to {end} tokens, {models[0]['model']} costs "
            f"{signed(drift)} nats a token against what it costs within (n = {drift['pieces']} pieces)."
        )
    for model in models:
        if (control := model.get("control")) and _is_sure(control):
            helps = "less than" if control["mean"] < 0 else "more than"
            found.append(
                f"Past its trained length, {model['model']} costs {helps} where it is given the last tokens alone: "
                f"{signed(control)} nats a token (n = {control['pieces']} pieces)."
            )
    return found


def _grown(models: Sequence[Result]) -> list[str]:
    known = {m["model"]: m["growth"] for m in models if m.get("growth")}
    if not known:
        return []
    pieces = next(iter(known.values()))["pieces"]
    if pieces == 1:
        return ["One piece does not tell whose loss grows more past the trained length."]
    sure = {name: row for name, row in known.items() if _is_sure(row)}
    more = [f"{name} ({signed(row)})" for name, row in sure.items() if row["mean"] > 0]
    less = [f"{name} ({signed(row)})" for name, row in sure.items() if row["mean"] < 0]
    if not sure:
        return [
            "Past the trained length the losses of all models grow alike, as far as these pieces can tell."
        ]
    found = []
    if more:
        found.append(
            "Past the trained length the loss grows more than that of the models on average, with 0 outside the "
            f"95 % interval, for {listed(more)}, in nats a token, paired by piece, n = {pieces}."
        )
    if less:
        found.append(f"It grows less for {listed(less)}.")
    return found


def realisations(result: Result) -> list[str]:
    """Say for each model whether another number of realisations than trained with makes a sure difference."""
    found = []
    for model in result["models"]:
        others = [t for t in model["tests"] if t["realisations"] != model["trained"]]
        sure = [t for t in others if _is_sure(t["change"])]
        if not others or others[0]["change"]["pieces"] == 1:  # one piece does not tell
            continue
        tried = f"{model['model']}, trained with R = {model['trained']}"
        if sure:
            rows = [f"R = {t['realisations']} ({signed(t['change'])})" for t in sure]
            found.append(
                f"{tried}: the loss changes, with 0 outside the 95 % interval, at {listed(rows)}."
            )
        else:
            numbers = f"from {others[0]['realisations']} to {others[-1]['realisations']}"
            found.append(
                f"{tried}: at no R {numbers} does the 95 % interval of the change leave 0 out."
            )
    return found


def positions(result: Result) -> list[str]:
    """Say which encodings keep their properties past the trained length."""
    found = []
    for model in result["models"]:
        rows = [r for r in model["probes"]["best_table"] if r["translation"] is not None]
        length = model["probes"]["length"]
        inside = [r["translation"] for r in rows if r["stop"] <= length]
        past = [r["translation"] for r in rows if r["start"] >= length]
        if not inside or not past:
            reason = (
                "within the trained length or past it weights do not depend on position, or there are no positions."
                if inside or past
                else "no position is held in the first layer's weights, which are equal at all offsets."
            )
            found.append(f"{model['model']}: {reason}")
            continue
        within, after = (sum(values) / len(values) for values in (inside, past))
        found.append(
            f"{model['model']}: translation invariance is {within:.3f} on average within the trained "
            f"length, {after:.3f} past it."
        )
    return found


def continuation(result: Result) -> list[str]:
    """Say, a model and metric, how similarity to the prompt changes from the first quarter to the last."""
    found = []
    wanted = [
        r
        for r in result["similarity"]
        if r["against"] == "prompt" and r["track"] in ("pitched", "drums")
    ]
    for model in (m["name"] for m in result["models"]):
        for metric in dict.fromkeys(r["metric"] for r in wanted):
            rows = {
                r["quarter"]: r for r in wanted if (r["output"], r["metric"]) == (model, metric)
            }
            first, last = rows.get(1), rows.get(4)
            if first and last and first["mean"] is not None and last["mean"] is not None:
                what = metric.replace("_", "–")
                found.append(
                    f"{model}, {what}: {first['mean']:.3f} in the first quarter, {last['mean']:.3f} in the "
                    f"last (n = {last['n']} styles)."
                )
    return found


def _is_sure(row: Result) -> bool:
    """Say whether a mean change over pieces is more than its spread allows for; of one piece it never is."""
    half = half_interval(row["deviation"], row["pieces"])
    return half is not None and abs(row["mean"]) > half
