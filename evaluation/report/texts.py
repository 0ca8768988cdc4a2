"""The words of the report: what is asked, how it was measured, and in sentences what the results say."""

from __future__ import annotations

from collections.abc import Sequence

from evaluation.tables import Result, of_one_stretch, signed
from musicgen.common.intervals import half_interval
from tokenization.wording import listed

LEADS = {
    "page": """Loss past the trained length, properties of the encodings of position, where attention looks, and the
        style of continuations: the measurements of the papers, made again.""",
    "extrapolation": """A model reads pieces and predicts each next token. An encoding that carries over to lengths
        it was not trained with keeps the loss down after the dashed line.""",
    "realisations": """A stochastic encoding draws R realisations of its templates; R can be another at the test than
        in training. The paper finds the number of training best (appendix D.4).""",
    "ablation": """The same pieces, read by the model without a part of it: with the gates of a stochastic encoding
        open, through which no position comes; with its frequencies shuffled or other noise; with all tokens at one
        position; without what its metric heads find; with heads that forget nothing. What the loss does not notice,
        the model does not use.""",
    "positions": """One token over and over: nothing but position tells its copies apart. Translation invariance asks
        whether a weight depends on the offset alone, monotonicity whether it falls with the offset; 0 is perfect in
        both. An encoding whose weights are all equal holds no position and has neither (–).""",
    "pictures": """What the encodings have learned, and where attention looks in music that runs past the trained
        length.""",
    "continuation": """Every prompt, the first {prompt_bars} bars of a piece, is continued {samples} times to {tokens}
        tokens at temperature {temperature:g}. A model that does not drift stays as similar to its prompt in the last
        quarter as in the first.""",
    "form": """Songs come back to what they said, and they end. Real pieces are continued from their first bars;
        compared with the same bars of the real piece.""",
    "infilling": """Some bars of real pieces are taken out and written again between what comes before and after.""",
    "accompaniment": """One part of real pieces after the other is hidden and written again to the other parts.
        Beside it, what nobody wrote for these bars: the part's own next bars, another piece of the style, another
        style.""",
    "benchmark": """An experiment of the papers that is not about music: {what}. The same small model with one encoding
        after the other, trained on the same examples in the same order; nothing here is about the models above.""",
}

CAPTIONS = {
    "extrapolation": """Mean over {pieces} pieces in stretches of a 16th of the trained length; shaded: one standard
        error. Below, where models can be compared: each less the mean of all at that position, paired by piece.""",
    "realisations": """Change of the loss within the trained length against the R of training (ring), paired by piece,
        with its standard error. Another R gives the random features another width: they are redrawn.""",
    "probes": """Best head of the first layer, keys up to a 16th of the trained length back, by the position of the
        query; bars: standard error (jackknife over four groups of tokens).""",
    "attention": """Attention in {pieces} pieces that the model wrote, {length} tokens, their mean; white: the trained
        length. Colour is (a / {full:.3g})^0.4, as in the paper in proportion to the length.""",
    "look_back": "How far back attention looks on average; thin: what equal weights would give.",
    "templates": """What the first layer has learned to weigh lags by, for some of its heads and features, and what one
        draw makes of it.""",
    "all_templates": "All templates of the first layer, a line each; the largest weight of each is ±1.",
    "continuation": """{prompts} prompts in {styles} styles. Lines frame the scores: the prompt looped, the piece
        itself, and a piece of another style.""",
}

HOW = {
    "extrapolation": (
        """Teacher forcing on {pieces} pieces of the {split} split from their beginning, {whole} of them at least as
        long as measured; a stochastic encoding is drawn once a piece. Data: {folder}, checksum {checksum:.16}….""",
        """A piece counts once, by its mean over a stretch. ± is the deviation over pieces, as in table 6 of the SPE
        paper. Growth is by how much more a model's loss grows after its trained length than that of the models on
        average, with its standard error, paired by piece.""",
    ),
    "ablation": (
        """Read are {pieces} pieces of the {split} split of {folder}, paired piece by piece with the whole model. The
        model has not learned to do without the part: what another would come to that learned without it, only
        training says (`musicgen compare`).""",
    ),
    "form": (
        """{pieces} pieces of the {split} split of {data}: {prompt_bars} bars given, {bars} written.""",
    ),
    "infilling": ("""{pieces} pieces of the {split} split of {data}; gaps of {gap} bars.""",),
    "accompaniment": (
        """{bars} bars of {pieces} pieces of the {split} split of {data}, styles by turns.""",
    ),
    "benchmark": (
        """Each of {seeds} seeds: {length} of {batch} examples at a learning rate of {learning_rate:g}, on {machine},
        {threads}; seconds are of one run, and longer where the machine had other work.""",
    ),
    "positions": (
        """Unnormalised attention of the first layer, averaged over sequences of each token of the vocabulary; a
        stochastic encoding is redrawn for each. Ranges are those of table 7 of the SPE paper in proportion to the
        trained length (the paper: 2048; an untrained model: 512).""",
        """Encodings in front of a feature map of the softmax kernel are shown by exp(q·k/√W), as in the paper; those
        after a feature map by the weights that the model computes, both without what heads forget by horizons, which is
        none of the encoding. One in musical time is told that each token takes a sixteenth. Where no more than one
        weight in a hundred differs from the rest, they have neither property (–).""",
    ),
    "continuation": (
        """Similarity is the cosine of style profiles. A style is one value, the mean over its prompts and samples;
        means and their 95 % intervals (Student's) are over styles.""",
        """Statistics of music are compared by the Wasserstein distance of first order. Its interval is Student's, by
        the jackknife over styles, or over pieces where they are of one style. What real pieces are apart is the mean
        of their halves over many halvings, times the root of a half's share of the pieces.""",
    ),
}


# What results say, in sentences: only what their spread allows to say.


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
