"""The report: results (JSON) rendered as one HTML page and as CSV files."""

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

# What each section is about, what its figures show, and how it was measured.

LEADS = {
    "page": """Loss past the trained length, properties of the position encodings, attention maps, and the style of
        continuations: the measurements of the papers, repeated with these models.""",
    "extrapolation": """The model reads pieces and predicts each next token. If its position encoding extrapolates, the
        loss stays low after the dashed line, where the trained length ends.""",
    "ablation": """The loss on the same pieces with one part of the model removed. Open gates let no position through;
        with the decay off, heads forget nothing. If the loss does not change, the model does not use the part.""",
    "positions": """The model reads one token over and over, so that only position distinguishes the copies. Translation
        invariance: do attention weights depend only on the offset? Monotonicity: do they decrease with it? 0 is
        perfect.""",
    "pictures": """What the position encodings have learned, and attention in pieces that the models generated past
        their trained length.""",
    "continuation": """Every prompt, the first {prompt_bars} bars of a piece, is continued {samples} times to {tokens}
        tokens at temperature {temperature:g}. If a model does not drift, the last quarter is as similar to the prompt
        as the first.""",
    "form": """Do continuations return to earlier material, and do they end? Real pieces are continued from their first
        bars and compared with the same bars of the originals.""",
    "infilling": """Some bars of real pieces are removed and written again, given the bars before and after.""",
    "accompaniment": """The parts of real pieces are hidden, one at a time, and written again, given the others.""",
    "benchmark": """An experiment with small models: {what}. Variants of one model, with different position encodings or
        components, are trained on the same examples in the same order. The models above are not involved.""",
}

PICTURES = {
    "attention": "Attention maps",
    "look_back": "Mean attention distance",
    "templates": "Learned templates",
    "all_templates": "All templates",
}

CAPTIONS = {
    "extrapolation": """Mean over {pieces} pieces in steps of 1/16 of the trained length; shaded: 95 % interval. Lower
        panel, if models are comparable: difference from the mean of all models at each position, paired by piece.""",
    "probes": """Best head of the first layer, for keys up to 1/16 of the trained length before the query; error bars:
        standard error (jackknife over four groups of tokens).""",
    "attention": """Mean attention over {pieces} generated pieces of {length} tokens; white: the trained length. Colour:
        (a / {full:.3g})^0.4, the scale of the paper adjusted for the length.""",
    "look_back": "Mean distance from query to key, weighted by attention; thin line: uniform attention.",
    "templates": """Weights that the first layer has learned for each lag, for some heads and features, and their
        approximation by one realisation of the noise.""",
    "all_templates": "All templates of the first layer, one line each, scaled to a largest magnitude of 1.",
    "continuation": """{prompts} prompts in {styles} styles. Grey lines: references for the scores, which are the looped
        prompt, the piece itself, and a piece of another style.""",
}

METHODS = {
    "extrapolation": (
        """Teacher forcing from the beginning of {pieces} pieces of the {split} split, {whole} of which fill the whole
        length; stochastic encodings are drawn once per piece. Data: {folder}, checksum {checksum:.16}….""",
        """Each piece counts once, by its mean over the range. Growth − mean growth: by how much more the loss of a
        model grows past the trained length than it does on average over the models.""",
    ),
    "ablation": (
        """{pieces} pieces of the {split} split of {folder}, paired by piece with the complete model. The models were
        trained with the part; how well a model trained without it would do can only be found by training one
        (`musicgen compare`).""",
    ),
    "form": (
        """{pieces} pieces of the {split} split of {data}: {bars} bars written after a prompt of {prompt_bars}.""",
    ),
    "infilling": ("""{pieces} pieces of the {split} split of {data}; gaps of {gap} bars.""",),
    "accompaniment": (
        """{bars} bars of each of {pieces} pieces of the {split} split of {data}, taken from all styles in turn.""",
    ),
    "benchmark": (
        """Each of {seeds} seeds: {length} of {batch} examples at a learning rate of {learning_rate:g}, on {machine},
        {threads}. Seconds are those of one run, and include interference by other work on the machine.""",
    ),
    "positions": (
        """Unnormalised attention of the first layer, averaged over sequences of each token of the vocabulary;
        stochastic encodings are redrawn for each. The ranges are those of table 7 of the SPE paper, scaled to the
        trained length (2048 in the paper; 512 is assumed for untrained models).""",
        """Encodings applied before a feature map of the softmax kernel are measured by exp(q·k/√W), as in the paper;
        encodings applied after a feature map, by the weights that the model computes. Where at most 1 % of the weights
        differ from the others, neither property is defined (–).""",
    ),
    "continuation": (
        """Similarity is the cosine of style profiles. Each style counts once, by the mean over its prompts and samples;
        means and their 95 % intervals (Student's t) are over styles.""",
        """Music statistics are compared by the first-order Wasserstein distance. Its interval is Student's t by the
        jackknife over styles, or over pieces if all are of one style. The distance expected among real pieces is the
        mean distance between random halves of them, scaled by the square root of the fraction of pieces in a half.""",
    ),
}


# The parts of the page; the macros of report.html give their markup and escape what they are filled with.

PIXELS_PER_POINT = 1.62  # at most, for figures: their text is then as large as the page's
WIDE = 8  # columns above which a table is set in smaller type

_PAGE = Environment(
    loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined
).get_template("report.html")
_parts: Any = _PAGE.make_module({"sections": (), "models": "", "lead": "", "style": "",
                                 "results": {"command": "", "made": "", "machine": {}}})  # fmt: skip
Section = tuple[str, str, Markup]  # anchor, title, content
Part = Callable[..., Markup]
paragraph: Part = _parts.paragraph  # (text, css_class="")
remarks: Part = _parts.remarks  # (sentences): a list that stands out
collapsible: Part = _parts.collapsible  # (title, content, is_open=False)
method: Part = _parts.method  # (sentences, command): how something was measured


def document(models: str, lead: str, sections: Sequence[Section], results: Any) -> str:
    """Return the whole page."""
    style = Markup(style_sheet())
    return _PAGE.render(models=models, lead=lead, sections=sections, results=results, style=style)


def picture(svg: str, caption: str, description: str) -> Markup:
    """Return a figure with its caption, and a description for screen readers."""
    points = float(svg.split('width="', 1)[1].split("pt", 1)[0])
    tag = Markup('<svg role="img" aria-label="{}" style="max-width: {:.0f}px" ').format(
        description, points * PIXELS_PER_POINT
    )
    return _parts.picture(Markup(svg.replace("<svg ", tag, 1)), caption)


def table(content: Table) -> Markup:
    """Return a table with the best values in bold."""
    caption = f"{content.caption} Bold: lowest." if content.best else content.caption
    head = content.head
    return _parts.table(head, content.rows, caption, set(content.best), len(head) > WIDE)


# The benchmarks: results of `musicgen benchmark` next to those of the papers.

CAPTION = (
    "Means over n seeds with 95 % intervals (Student's t), best first; below them, baselines without a model, and "
    "results of papers that were not reproduced here. The papers used other models, data and budgets: compare their "
    "results only within a column."
)
TITLE_WIDTH = 14  # characters per line, so that the columns of the papers fit on a screen


def benchmark_content(result: Result) -> Markup:
    """Return the failures and the table of one benchmark, and how its models were trained."""
    rows = [from_plain(row) for row in result["rows"]]
    head, *lines = table_with_papers(result["task"], rows, result["rules"])
    titles = ["\n".join(wrap(name, TITLE_WIDTH)) for name in head]
    failures = [f"{row.encoding}: {row.failed}" for row in rows if row.failed]
    training, seeds = result["training"], max((len(row.values) for row in rows), default=0)
    steps, epochs, seconds = (training.get(name) for name in ("steps", "epochs", "seconds"))
    length = counted(steps, "step") if steps else f"{epochs} epochs"
    if seconds:
        length = f"{seconds} seconds of processor time"
    facts = {"length": length, **training, "seeds": seeds, "machine": result["machine"]}
    threads = counted(result["threads"], "thread")
    trained = [filled(text, **facts, threads=threads) for text in METHODS["benchmark"]]
    return (
        remarks([sentence(text) for text in failures])
        + table(Table(head=titles, rows=lines, caption=CAPTION))
        + method([result["about"], *map(sentence, result["remarks"]), *trained], result["command"])
    )


def benchmark_rows(result: Result) -> list[dict[str, Any]]:
    """Return one row per encoding and measure of a benchmark."""
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


# The CSV files.


def csv_files(results: Result) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of each CSV file by its name; rows about a model have the SHA-256 of its weights."""
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


# The sections of the page, made from the results.

MODELS_IN_TITLE = 3


def page(results: Result, progress: Callable[[int, int], None] = lambda done, total: None) -> str:
    """Return the HTML page of the results."""
    sections: list[Section] = []
    for done, make in enumerate(_SECTIONS):
        progress(done, len(_SECTIONS))
        sections += make(results)
    labels = [model["label"] for model in results["models"]]
    models = ", ".join(labels) if len(labels) <= MODELS_IN_TITLE else f"{len(labels)} models"
    return document(models, filled(LEADS["page"]), sections, results)


def _models(results: Result) -> Iterator[Section]:
    left_out = [sentence(text) for text in results["left_out"]]
    yield "models", "Models", table(models_table(results["models"])) + remarks(left_out)


# The experiments that are run once per data set: title, and a figure with its description, if any.
_BY_DATA: dict[str, tuple[str, Callable[[Any], Figure] | None, str]] = {
    "extrapolation": (
        "Loss past the trained length", figures.extrapolation, "Loss by position"
    ),
    "ablation": ("Ablation", None, ""),
}  # fmt: skip


def _by_data(results: Result) -> Iterator[Section]:
    for kind, (title, draw, description) in _BY_DATA.items():
        if not results[kind] and kind in results["missing"]:
            yield kind, title, paragraph(results["missing"][kind], "faint")
        for result in results[kind]:
            if not result["models"] and kind != "extrapolation":
                continue
            data, suffix = result["data"], f"-{result['data']['checksum'][:8]}"
            drawn = _drawn(kind, draw(result), suffix, description, **data) if draw else Markup()
            name = f"{PurePath(data['folder']).name} ({data['language']})"
            yield f"{kind}{suffix}", f"{title}: {name}", _content(kind, result, drawn, **data)


def _whole_pieces(results: Result) -> Iterator[Section]:
    for result in results["whole_pieces"]:
        kind, name = result["kind"], PurePath(result["data"]).name
        if result["models"]:
            content = _content(kind, result, **{**result, "data": name})
            yield f"{kind}-{result['checksum'][:8]}", f"{KINDS[kind]}: {name}", content


def _content(kind: str, result: Result, drawn: str = "", /, **values: Any) -> Markup:
    """Return a section's introduction, its figure, if any, its table, and how it was measured."""
    shown = paragraph(filled(LEADS[kind])) + drawn + table(table_of(kind, result))
    return shown + _method(kind, result, **values)


def _positions(results: Result) -> Iterator[Section]:
    result = results["positions"]
    if not result or not result["models"]:
        return
    description = "Translation invariance and monotonicity by position"
    drawn = _drawn("probes", figures.probes(result), "", description)
    title = "Properties of the position encodings"
    yield "positions", title, _content("positions", result, drawn)
    models = Markup().join(
        _pictures(model, number) for number, model in enumerate(result["models"])
    )
    yield "pictures", "Attention and templates", paragraph(filled(LEADS["pictures"])) + models


def _pictures(model: Result, number: int) -> Markup:
    """Return the figures of one model, expanded for the first two models."""
    facts = {key: model["attention"][key] for key in ("pieces", "length", "full")}
    parts = [
        _drawn(name, drawn, f"-{number}", f"{PICTURES[name]} of {model['model']}", **facts)
        for name, drawn in figures.pictures(model).items()
    ]
    title = f"{model['model']}: {model['encoding']}"
    return collapsible(title, Markup("\n").join(parts), is_open=number < 2)


def _continuation(results: Result) -> Iterator[Section]:
    title, result = "Style of continuations", results["continuation"]
    if not result:
        yield "continuation", title, paragraph(results["missing"]["continuation"], "faint")
        return
    counts = {key: result[key] for key in ("prompts", "styles")}
    whole = Markup().join(map(table, similarity_tables(result, "piece")))
    description = "Similarity to prompt and piece by quarter"
    yield (
        "continuation",
        title,
        paragraph(filled(LEADS["continuation"], **result["settings"]))
        + _drawn("continuation", continuation_figure(result), "", description, **counts)
        + Markup().join(map(table, similarity_tables(result, "prompt")))
        + collapsible("Similarity to the whole piece", whole)
        + table(variety_table(result))
        + table(statistics_table(result))
        + _method("continuation", result),
    )


def _benchmarks(results: Result) -> Iterator[Section]:
    for number, result in enumerate(results["benchmarks"]):
        yield (
            f"benchmark-{number}",
            f"Benchmark: {PurePath(result['folder']).name}",
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


def _drawn(name: str, drawn: Figure, suffix: str, description: str, **values: Any) -> Markup:
    """Return a figure with its caption; the suffix keeps its element ids apart from those of its namesakes."""
    return picture(svg(drawn, f"{name}{suffix}"), filled(CAPTIONS[name], **values), description)


def _method(name: str, result: Result, **values: Any) -> Markup:
    return method([filled(text, **values) for text in METHODS[name]], result["command"])
