"""The tables of the evaluations: numbers formatted with their uncertainty and n, and one table per experiment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tokenization.wording import filled

Result = Mapping[str, Any]
NONE = "–"


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table of text cells under column titles, which may contain line breaks, with a caption."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str


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
    between = "" if low is None or high is None else f" [{text(low)}, {text(high)}]"
    return f"{text(mean)}{between}".replace("-", "−")


def with_interval(row: Result | None) -> str:
    """Format a mean with its interval and n."""
    if row is None or row["mean"] is None:
        return NONE
    return f"{interval(row['mean'], row['low'], row['high'])} ({row['n']})"


def signed(row: Result | None) -> str:
    """Format a mean change over pieces with its 95 % interval; a single piece has no interval."""
    if row is None:
        return NONE
    return interval(row["mean"], row["low"], row["high"], "{:+.3f}".format)


def with_error(
    value: float | None, error: float | None, text: Callable[[float], str] = "{:.3f}".format
) -> str:
    """Format a number with its standard error or deviation, if it has one."""
    if value is None:
        return NONE
    return text(value) + ("" if error is None else f" ± {text(error)}")


# The table of the models under evaluation.

MODELS_HEAD = (
    "model", "encoding", "language", "trained length", "parameters", "data", "validation loss", "hash",
)  # fmt: skip
MODELS_CAPTION = "Hash: the first 12 digits of the SHA-256 of the weights that all numbers below were measured with."


def models_table(models: Sequence[Result]) -> Table:
    """Return one row per model."""
    rows = [
        [
            model["model"],
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

EXTRAPOLATION = """Loss in nats per token: mean ± standard deviation over pieces (n), and positions. Differences: mean
    [95 % interval], paired by piece."""
PARTS = {"trained": "trained", "near": "up to 1.5 × trained", "far": "beyond"}


def extrapolation_table(result: Result) -> Table:
    """Return the loss in each part of the pieces (table 6), and its growth past the trained length."""
    controlled = any(model.get("control") for model in result["models"])
    rows = [
        [
            model["model"],
            *(_part_loss(model["parts"].get(part)) for part in PARTS),
            signed(model["drift"].get("far")),
            *([signed(model.get("control"))] if controlled else []),
        ]
        for model in result["models"]
    ]
    head = ["model", *PARTS.values(), "beyond − trained"]
    head += ["full − truncated context"] if controlled else []
    return Table(head=head, rows=rows, caption=filled(EXTRAPOLATION))


def _part_loss(row: Result | None) -> str:
    """Format the loss in a part, with its positions."""
    if row is None:
        return NONE
    loss = with_error(row["mean"], row["deviation"])
    return f"{loss} ({row['pieces']}): {row['start'] + 1:,} … {row['stop']:,}"


# The table of the ablation: the change of the loss when a part of the model is removed.

ABLATION_CAPTION = "Change of the loss in nats per token: mean [95 % interval] over pieces."


def ablation_table(result: Result) -> Table:
    """Return one row per model and removed part."""
    rows = [
        [
            row["model"],
            row["part"],
            signed(row["within"]),
            signed(row["past"]),
            str(row["within"]["n"]),
        ]
        for row in result["models"]
    ]
    head = ["model", "without", "within the trained length", "past the trained length", "pieces"]
    return Table(head=head, rows=rows, caption=ABLATION_CAPTION)


# The table of the properties of position encodings (table 7 of the SPE paper).

PROBES = """T: translation invariance, M: monotonicity; lower is better. Best head ± standard error, over {tokens}
    tokens. Columns: positions of the queries and, below, the largest offset of the keys, in trained lengths (512 for
    untrained models). The decay of heads with horizons is off. –: all weights in the range are equal, or the model
    cannot read sequences of that length."""


def positions_table(result: Result) -> Table:
    """Return both metrics of the best head for each range of queries and offsets."""
    # A model with a maximum sequence length has no ranges past it.
    furthest = max(result["models"], key=lambda model: len(model["probes"]["best_table"]))
    first, length = furthest["probes"]["best_table"], furthest["probes"]["length"]
    rows = []
    for model in result["models"]:
        found = model["probes"]["best_table"]
        for metric, letter in (("translation", "T"), ("monotonicity", "M")):
            cells = [with_error(row[metric], row.get(f"{metric}_error")) for row in found]
            cells += [NONE] * (len(first) - len(found))
            rows.append([model["model"] if letter == "T" else "", letter, *cells])
    sizes = {row["tokens"] for m in result["models"] for row in m["probes"]["best_table"]}
    tokens = " or ".join(map(str, sorted(sizes)))
    return Table(
        head=["model", "", *(_range_title(row, length) for row in first)],
        rows=rows,
        caption=filled(PROBES, tokens=tokens),
    )


def _range_title(row: Result, length: int) -> str:
    start, stop, offset = (row[name] / length for name in ("start", "stop", "offset"))
    return f"{start:g} … {stop:g}\n< {offset:g}"


# The tables of whole pieces: form, infilling, accompaniment, originality and plans.

KINDS = {
    "extrapolation": "Loss past the trained length",
    "ablation": "Ablation",
    "positions": "Properties of the position encodings",
    "continuation": "Style of continuations",
    "form": "Form and endings of continuations",
    "infilling": "Infilling",
    "gaps": "Gaps in music that comes back",
    "tracks": "Parts after the seam",
    "accompaniment": "Accompaniment",
    "originality": "Overlap with the training pieces",
    "plan": "Adherence to plans",
    "takes": "Listen",
}
# What each experiment does, for the help of its command and the report.
ABOUT = {
    "extrapolation": """The model reads pieces and predicts each next token. The table has the loss in nats per token,
        mean ± deviation over pieces: within the trained length, up to 1.5 times it, and beyond, and the increase of
        the loss past the trained length, paired by piece [95 % interval]. Since later parts of pieces can be harder
        in themselves, with --control, the tokens past the trained length are predicted a second time, from the last
        tokens only: between half and all of the trained length. A difference below 0 means that the full context
        helps, so length does no harm.""",
    "ablation": """The model reads pieces as it is and with a part removed: with the gates of a stochastic encoding
        open, which removes all positions; with all tokens at one position; with the frequencies shuffled among
        features and heads; with new noise, and with a quarter or four times the number of realisations; without the
        output of its metric heads; with heads that never forget. The table has the change of the loss in nats per
        token, within the trained length and past it, with the 95 % interval of the mean over pieces. Since the model
        was not trained without the part, this shows what it relies on, not what the part is worth.""",
    "positions": """The table has translation invariance (T) and monotonicity (M) of the best head of the first layer,
        ± standard error; 0 is perfect. Queries and key offsets are in the proportions of table 7 of the SPE paper.
        Only the encoding is probed, without the heads' decay; an encoding of musical time gets one sixteenth per
        token. – means that the encoding has no effect: all weights are equal. With -o, all heads are written as JSON,
        with figures: the probes by position, learned templates, and attention maps of music that the model writes
        past its trained length.""",
    "continuation": """The first bars of real pieces are continued to a fixed number of tokens, and the style of the
        whole continuation and of its quarters is compared with that of the prompt and of the piece. For reference, so
        are the looped prompt, the piece itself, and other pieces. The table has the mean ± deviation over styles, and
        the number of styles in which the continuation is closer than another piece; also the fraction of tokens
        copied from the prompt, and the diversity of the continuations of one prompt.""",
    "form": """Real pieces are continued from their first bars. The generated bars and the same bars of the piece are
        compared: the fraction of bars that contain most of an earlier bar (returns) or all of it (repeats), the
        similarity of 8-bar phrases to earlier ones, the longest run of bars that repeat each other (circles), the
        differences between phrases in pitch (contrast) and in number of notes (swell), notes and chord changes per
        bar, and bass notes on bar lines. For models that can end a piece, signs of an ending in the last bar are
        compared with the real last bar and with a bar in the middle.""",
    "infilling": """Bars in the middle of real pieces are removed and generated again. The table has the loss of the
        true bars in nats per token, with and without the bars after the gap; the F1 score of the notes against the
        true ones; and the similarity of the style in the gap and around it.""",
    "gaps": """Bars of a melody that are similar to other bars of it are removed and written again, where the melody is
        alone and where the other parts are given; and a section whose music is elsewhere in the piece is rewritten. For
        reference, the table has the true bars, the bars before, and the passage elsewhere that is most similar to the
        true bars.""",
    "tracks": """The first bars of real pieces are continued as a file that has all their tracks, and as one without
        those that are silent in these bars. The table compares which parts play then with the pieces themselves.""",
    "accompaniment": """In each piece, the busiest bass, drums and other part are hidden, one at a time, and written
        again. The style of the new part is compared with that of the hidden part; for reference, so are the next bars
        of the piece, another piece of the same style, and another style. The table has the mean ± deviation over
        styles, and the number of styles in which the written part is closer than another piece.""",
    "plan": """Real pieces are continued from their first bars, once freely and once for each attribute of a plan:
        density, register, loudness (a new value every four bars) and the form A A B A, each with and without
        guidance. The table has the agreement of the plan with the music written for it and, for comparison, with the
        music written freely.""",
    "realism": """Real pieces are continued from their first bars. Critics learn from training pieces, and continuations
        of these, to tell generated from real windows of 8 bars: by about 300 statistics, and by piano rolls. They judge
        other pieces. An AUC of 1 means that they always tell them apart, 0.5 that they cannot. The control is the AUC
        of critics of two halves of the real pieces. Further rows: critics with some of the statistics, and the single
        statistics that discriminate best. With -o, takes are kept for the next time.""",
    "originality": """Real pieces are continued from their first bars. For every two generated bars, and for the same
        bars of the piece, the two bars in the training pieces that share the most notes with them, in any key, are
        found. Since the real pieces are held out, they show how similar songs are by chance. The closest passages are
        listed.""",
    "takes": """One take of each ability per piece, not selected. New notes are coloured, given ones grey.""",
}
# What each table compares, by key, with the column titles.
SIDES = {
    "continuation": {
        "written": "generated",
        "looped": "prompt looped",
        "real": "the piece itself",
        "same": "another piece",
        "other": "another style",
    },
    "form": {"written": "generated", "real": "real piece", "middle": "middle of real piece"},
    "infilling": {"written": "generated", "real": "true bars", "alone": "context before only"},
    "gaps": {
        "written": "generated",
        "real": "true bars",
        "before": "bars before",
        "best": "best passage",
    },
    "tracks": {"written": "generated", "real": "real piece", "without": "without silent tracks"},
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
    "continuation": """Similarity of style, 0 to 1, of the whole continuation and of its quarters to the prompt and to
        the piece; fraction of tokens in passages copied from the prompt; diversity of the continuations of a prompt,
        0 if they are equal. Mean ± standard deviation [95 % interval] over n styles, and the number of styles in which
        the generated music scores above another piece.""",
    "form": """returns: fraction of bars that share over half of their notes with an earlier bar; repeats: of bars
        equal to an earlier one; phrases: similarity of each 8 bars to the most similar earlier 8, 0 to 1; circles: the
        longest run of bars that repeat each other; collapses: fraction of pieces in which 8 bars have twice as many
        notes as the prompt, or mostly repeat their top note; contrast: deviation of the register of phrases, in
        semitones; swell: of the logarithm of their number of notes; notes, changes: notes and chord changes per bar;
        loudness: fraction of notes with the commonest velocity; downbeat: fraction of bars with a bass note on the
        first beat; end: fraction of pieces whose last bar shows this sign of an ending. Mean ± standard deviation
        [95 % interval: Student's t, or Wilson's for fractions of pieces] over n pieces.""",
    "infilling": f"""loss: of the true bars, in nats per token; f1: agreement with the true notes; likeness: similarity
        of style to the rest of the piece, 0 to 1. {OVER_PIECES}""",
    "gaps": f"""F1: of notes with the onset and pitch of true ones, and of onsets alone; notes at once, notes overlap:
        fraction of gaps with such notes; similarity: F1 of the notes of all parts with the most similar passage
        elsewhere, and with the bars that were rewritten. {OVER_PIECES}""",
    "tracks": f"""busiest: fraction of pieces in which the part with the most notes before the seam has them after it;
        playing parts go on, silent parts enter: fraction of these parts that play after the seam; notes by part: the
        agreement of the parts' shares in the notes with those in the real piece, 0 to 1. {OVER_PIECES}""",
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
    above = ["above another piece"] if "same" in sides else []
    rows = [
        [
            model["model"],
            row["measure"],
            *(_value(row.get(side), row["written"]["n"]) for side in sides),
            str(row["written"]["n"]),
            *(f"{row['above_same']} of {row['of']}" if row["of"] else NONE for _ in above),
        ]
        for model in result["models"]
        for row in model["table"]
    ]
    return Table(
        head=["model", "measure", *sides.values(), "n", *above],
        rows=rows,
        caption=filled(CAPTIONS[kind]),
    )


def _value(found: Result | None, row_n: int) -> str:
    """Format an estimate, with its n where that differs from the row's because pieces lack a value."""
    if found is None or found["mean"] is None:
        return NONE
    value = with_error(found["mean"], found["deviation"], "{:.2f}".format)
    between = "" if found["low"] is None else f" [{found['low']:.2f}, {found['high']:.2f}]"
    return f"{value}{between}".replace("-", "−") + (
        "" if found["n"] == row_n else f" (n {found['n']})"
    )


# The table of realism: how well critics tell generated bars from real ones.

REALISM_CAPTION = """AUC of critics that tell generated from real windows of 8 bars, and takes from pieces, by the mean
    over their windows (0.5: indistinguishable) [95 % interval over 6 pieces or more; of the control, the least and the
    greatest].
    Last rows: the statistics that separate best on their own, selected on these windows, so that their AUC is
    optimistic, with their mean on each side. n: pieces / windows.{untaught}{unsure}"""
UNSURE = 0.1
UNTAUGHT_SAID = " –: the critic learned nothing from so few lessons; give more."
UNSURE_SAID = f" The control is more than {UNSURE} from 0.5: so few pieces say little."


def realism_table(result: Result) -> Table:
    """Return one row per model and critic, then one for each of the most revealing statistics."""
    rows = [
        [
            model["model"],
            row["measure"],
            interval(row["auc"], row["low"], row["high"], "{:.2f}".format),
            interval(row["piece_auc"], row["piece_low"], row["piece_high"], "{:.2f}".format),
            number(row["written"]),
            number(row["real"]),
            f"{row['pieces']} / {row['windows']}",
        ]
        for model in result["models"]
        for row in model["table"]
    ]
    head = ["model", "critic", "by window", "by piece", "generated", "real", "n"]
    found = [(row["measure"], row["auc"]) for model in result["models"] for row in model["table"]]
    untaught = any(auc is None for _, auc in found)
    unsure = any(
        name.startswith("control") and auc is not None and abs(auc - 0.5) > UNSURE
        for name, auc in found
    )
    caption = filled(
        REALISM_CAPTION,
        untaught=UNTAUGHT_SAID if untaught else "",
        unsure=UNSURE_SAID if unsure else "",
    )
    return Table(head=head, rows=rows, caption=caption)


def takes_table(result: Result) -> Table:
    """Return the number of takes of each model and ability, and their mean number of new notes."""
    rows = []
    for model in result["models"]:
        by_ability: dict[str, list[int]] = {}
        for take in model["rows"]:
            by_ability.setdefault(take["ability"], []).append(sum(take["new"]))
        for ability, new in by_ability.items():
            rows.append([model["model"], ability, str(len(new)), f"{sum(new) / len(new):.0f}"])
    return Table(head=["model", "ability", "takes", "new notes per take"], rows=rows, caption="")


# The table of each kind of experiment.

_TABLES: dict[str, Callable[[Result], Table]] = {
    "extrapolation": extrapolation_table,
    "ablation": ablation_table,
    "positions": positions_table,
    "realism": realism_table,
    "takes": takes_table,
}


def table_of(kind: str, result: Result) -> Table:
    """Return the table of an experiment's result."""
    return _TABLES[kind](result) if kind in _TABLES else whole_pieces_table(kind, result)
