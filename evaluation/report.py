"""The report: results (JSON) as one page of HTML; it measures nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePath
from textwrap import wrap
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from matplotlib.figure import Figure

from evaluation import figures
from evaluation.benchmarks.run import from_plain, table_with_papers
from evaluation.continuation.results import continuation as continuation_figure
from evaluation.continuation.results import similarity_tables, statistics_table, variety_table
from evaluation.figures import style_sheet, svg
from evaluation.tables import KINDS, Result, Table, models_table, position_rows, rows_of, table_of
from tokenization.wording import counted, filled, sentence

# What is asked, what figures show, and how it was measured.

LEADS = {
    "page": """Loss past the trained length, properties of the encodings of position, where attention looks, and the
        style of continuations: the measurements of the papers, made again.""",
    "extrapolation": """A model reads pieces and predicts each next token. An encoding that carries over to lengths
        it was not trained with keeps the loss down after the dashed line.""",
    "ablation": """The same pieces, read by the model without a part of it. Open gates let no position through; with
        the decay off, heads forget nothing. What the loss does not notice, the model does not use.""",
    "positions": """One token over and over: only position tells its copies apart. Translation invariance measures
        whether a weight depends on the offset alone, monotonicity whether it falls with the offset; 0 is perfect.""",
    "pictures": """What the encodings have learned, and where attention looks in music that runs past the trained
        length.""",
    "continuation": """Every prompt, the first {prompt_bars} bars of a piece, is continued {samples} times to {tokens}
        tokens at temperature {temperature:g}. A model that does not drift stays as similar to its prompt in the last
        quarter as in the first.""",
    "form": """Songs come back to what they said, and they end. Real pieces are continued from their first bars;
        compared with the same bars of the real piece.""",
    "infilling": """Some bars of real pieces are taken out and written again between what comes before and after.""",
    "accompaniment": """The parts of real pieces are hidden, one at a time, and written again to the other parts.""",
    "benchmark": """An experiment with small models: {what}. The same model with one encoding, or another part, after
        the other, trained on the same examples in the same order; nothing here is about the models above.""",
}

PICTURES = {
    "attention": "Attention maps",
    "look_back": "Mean distance of attention",
    "templates": "Learned templates",
    "all_templates": "All templates",
}

CAPTIONS = {
    "extrapolation": """Mean over {pieces} pieces in stretches of a 16th of the trained length; shaded: the 95 %
        interval. Below, where models can be compared: each less the mean of all at that position, paired by piece.""",
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
        """A piece counts once, by its mean over a stretch. Growth is by how much more a model's loss grows after its
        trained length than that of the models on average.""",
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
        after a feature map by the weights that the model computes. Where at most one weight in a hundred differs from
        the rest, they have neither property (–).""",
    ),
    "continuation": (
        """Similarity is the cosine of style profiles. A style is one value, the mean over its prompts and samples;
        means and their 95 % intervals (Student's) are over styles.""",
        """Statistics of music are compared by the Wasserstein distance of first order. Its interval is Student's, by
        the jackknife over styles, or over pieces where they are of one style. What real pieces are apart is the mean
        of their halves over many halvings, times the root of a half's share of the pieces.""",
    ),
}


# The parts of the report as HTML: report.html says how each looks, and escapes what it is filled with.

ENLARGED = 1.62  # pixels a point of a figure, at most: its letters are then as large as the page's
WIDE = 8  # columns, from which on a table is set smaller

_PAGE = Environment(
    loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined
).get_template("report.html")
_parts: Any = _PAGE.make_module({"sections": (), "models": "", "lead": "", "style": "",
                                 "results": {"command": "", "made": "", "machine": {}}})  # fmt: skip
Part = Callable[..., Markup]
paragraph: Part = _parts.paragraph  # of a text, and perhaps its class
says: Part = _parts.says  # what the numbers say, in sentences, set off
folded: Part = _parts.folded  # a title under which content can be opened, or is open
how: Part = _parts.how  # how something was measured, in sentences, and the command that does it


def document(models: str, lead: str, sections: Sequence[Any], results: Any) -> str:
    """Return a whole page; a section is its anchor, its title and its content."""
    style = Markup(style_sheet())
    return _PAGE.render(models=models, lead=lead, sections=sections, results=results, style=style)


def picture(svg: str, caption: str, description: str) -> Markup:
    """Return a figure, with a description for those who do not see it."""
    points = float(svg.split('width="', 1)[1].split("pt", 1)[0])
    named = Markup('<svg role="img" aria-label="{}" style="max-width: {:.0f}px" ').format(
        description, points * ENLARGED
    )
    return _parts.picture(Markup(svg.replace("<svg ", named, 1)), caption)


def table(content: Table) -> Markup:
    """Return a table; the best values stand out."""
    caption = f"{content.caption} Bold: the lowest." if content.best else content.caption
    head = content.head
    return _parts.table(head, content.rows, caption, set(content.best), len(head) > WIDE)


# The papers' other experiments in the report: what `musicgen benchmark` found, and the papers' figures.

CAPTION = (
    "Means over n seeds with their 95 % interval (Student's), the best first; below them rules that need no model, and "
    "what papers report and was not measured here. Models, data and budgets of the papers are others: their columns "
    "compare within themselves."
)
COLUMN = 14  # letters of a title's line, so that the papers' columns stand on a screen too


def benchmark_content(result: Result) -> Markup:
    """Return the table of one benchmark, its failures, and how it was trained."""
    rows = [from_plain(row) for row in result["rows"]]
    head, *lines = table_with_papers(result["task"], rows, result["rules"])
    titles = ["\n".join(wrap(name, COLUMN)) for name in head]
    refused = [f"{row.encoding}: {row.failed}" for row in rows if row.failed]
    training, seeds = result["training"], max((len(row.values) for row in rows), default=0)
    steps, epochs, seconds = (training.get(name) for name in ("steps", "epochs", "seconds"))
    length = counted(steps, "step") if steps else f"{epochs} epochs"
    if seconds:
        length = f"{seconds} seconds of the processor"
    facts = {"length": length, **training, "seeds": seeds, "machine": result["machine"]}
    threads = counted(result["threads"], "thread")
    made = [filled(text, **facts, threads=threads) for text in HOW["benchmark"]]
    return (
        says([sentence(text) for text in refused])
        + table(Table(head=titles, rows=lines, caption=CAPTION))
        + how([result["about"], *map(sentence, result["remarks"]), *made], result["command"])
    )


def benchmark_rows(result: Result) -> list[dict[str, Any]]:
    """Return a row an encoding and measure of one benchmark."""
    return [
        {
            "task": result["task"],
            "encoding": row["encoding"],
            "parameters": row["parameters"],
            "measure": measure,
            "mean": mean,
            "half_interval": row["intervals"][measure],
            "n": row["n"],
            "seconds": row["seconds"],
        }
        for row in result["rows"]
        for measure, mean in row["means"].items()
    ]


# The results of a report as rows of CSV files.


def csv_files(results: Result) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of each file by its name; every row of a model names its weights, and its n."""
    models = [
        {k: v for k, v in m.items() if k not in ("config", "training")} for m in results["models"]
    ]
    weights = {model["label"]: model["sha256"] for model in models}
    by_data = {
        kind: [row for result in results[kind] for row in rows_of(kind, result)]
        for kind in _BY_DATA
    }
    continuation = results["continuation"] or {}
    files = {
        "models": models,
        **by_data,
        "ablation": [{**row, "sha256": weights.get(row["model"])} for row in by_data["ablation"]],
        "extrapolation_by_position": [
            row for result in results["extrapolation"] for row in position_rows(result)
        ],
        "whole_pieces": [
            row for result in results["whole_pieces"] for row in rows_of(result["kind"], result)
        ],
        "benchmarks": [row for result in results["benchmarks"] for row in benchmark_rows(result)],
        "positions": rows_of("positions", results["positions"] or {"models": []}),
        **{
            f"continuation_{name}": continuation.get(name, [])
            for name in ("similarity", "variety", "statistics")
        },
    }
    return {name: rows for name, rows in files.items() if rows}


Section = tuple[str, str, Markup]  # its anchor, its title, its content
NAMED = 3  # models in the title


def page(results: Result, progress: Callable[[int, int], None] = lambda done, total: None) -> str:
    """Return the whole page."""
    made: list[Section] = []
    for done, make in enumerate(_SECTIONS):
        progress(done, len(_SECTIONS))
        made += make(results)
    labels = [model["label"] for model in results["models"]]
    models = ", ".join(labels) if len(labels) <= NAMED else f"{len(labels)} models"
    return document(models, filled(LEADS["page"]), made, results)


def _models(results: Result) -> Iterator[Section]:
    left_out = [sentence(text) for text in results["left_out"]]
    yield "models", "The models", table(models_table(results["models"])) + says(left_out)


# The experiments that are made once a data set: title, and perhaps a figure and what it shows.
_BY_DATA: dict[str, tuple[str, Callable[[Any], Figure] | None, str]] = {
    "extrapolation": (
        "Loss past the trained length", figures.extrapolation, "Loss by position"
    ),
    "ablation": ("What the models rely on", None, ""),
}  # fmt: skip


def _by_data(results: Result) -> Iterator[Section]:
    for kind, (title, draw, shows) in _BY_DATA.items():
        if not results[kind] and kind in results["missing"]:
            yield kind, title, paragraph(results["missing"][kind], "faint")
        for result in results[kind]:
            if not result["models"] and kind != "extrapolation":
                continue
            data, which = result["data"], f"-{result['data']['checksum'][:8]}"
            drawn = _drawn(kind, draw(result), which, shows, **data) if draw else Markup()
            name = f"{PurePath(data['folder']).name} ({data['language']})"
            yield f"{kind}{which}", f"{title}: {name}", _content(kind, result, drawn, **data)


def _whole_pieces(results: Result) -> Iterator[Section]:
    for result in results["whole_pieces"]:
        kind, name = result["kind"], PurePath(result["data"]).name
        if result["models"]:
            content = _content(kind, result, **{**result, "data": name})
            yield f"{kind}-{result['checksum'][:8]}", f"{KINDS[kind]}: {name}", content


def _content(kind: str, result: Result, drawn: str = "", /, **values: Any) -> Markup:
    """Return what is asked, a figure if there is one, the table, and how it was measured."""
    shown = paragraph(filled(LEADS[kind])) + drawn + table(table_of(kind, result))
    return shown + (_how(kind, result, **values) if kind in HOW else "")


def _positions(results: Result) -> Iterator[Section]:
    result = results["positions"]
    if not result or not result["models"]:
        return
    described = "Translation invariance and monotonicity by position"
    drawn = _drawn("probes", figures.probes(result), "", described)
    title = "What the encodings know of position"
    yield "positions", title, _content("positions", result, drawn)
    models = Markup().join(
        _pictures(model, number) for number, model in enumerate(result["models"])
    )
    yield "pictures", "Pictures of attention", paragraph(filled(LEADS["pictures"])) + models


def _pictures(model: Result, number: int) -> Markup:
    """Return the pictures of one model; those of the first two are open."""
    facts = {key: model["attention"][key] for key in ("pieces", "length", "full")}
    parts = [
        _drawn(name, drawn, f"-{number}", f"{PICTURES[name]} of {model['model']}", **facts)
        for name, drawn in figures.pictures(model).items()
    ]
    title = f"{model['model']}: {model['encoding']}"
    return folded(title, Markup("\n").join(parts), is_open=number < 2)


def _continuation(results: Result) -> Iterator[Section]:
    title, result = "Style of continuations", results["continuation"]
    if not result:
        yield "continuation", title, paragraph(results["missing"]["continuation"], "faint")
        return
    counts = {key: result[key] for key in ("prompts", "styles")}
    whole = Markup().join(map(table, similarity_tables(result, "piece")))
    described = "Similarity to prompt and piece by quarter"
    yield (
        "continuation",
        title,
        paragraph(filled(LEADS["continuation"], **result["settings"]))
        + _drawn("continuation", continuation_figure(result), "", described, **counts)
        + Markup().join(map(table, similarity_tables(result, "prompt")))
        + folded("Similarity to the whole piece", whole)
        + table(variety_table(result))
        + table(statistics_table(result))
        + _how("continuation", result),
    )


def _benchmarks(results: Result) -> Iterator[Section]:
    for number, result in enumerate(results["benchmarks"]):
        yield (
            f"benchmark-{number}",
            f"Not music: {PurePath(result['folder']).name}",
            paragraph(filled(LEADS["benchmark"], what=result["what"])) + benchmark_content(result),
        )


_SECTIONS: tuple[Callable[[Result], Iterator[Section]], ...] = (
    _models,
    _by_data,
    _positions,
    _continuation,
    _whole_pieces,
    _benchmarks,
)


def _drawn(name: str, drawn: Figure, which: str, described: str, **values: Any) -> Markup:
    """Return a figure with its caption; `which` tells it from others of its name."""
    return picture(svg(drawn, f"{name}{which}"), filled(CAPTIONS[name], **values), described)


def _how(name: str, result: Result, **values: Any) -> Markup:
    return how([filled(text, **values) for text in HOW[name]], result["command"])
