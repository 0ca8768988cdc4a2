"""The report: results (JSON) rendered as one HTML page."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from pathlib import Path, PurePath
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from matplotlib.figure import Figure

from evaluation import figures
from evaluation.tables import KINDS, Result, Table, models_table, table_of
from tokenization.wording import filled, sentence

# What each section is about, and what its figure shows.

LEADS = {
    "page": """Loss past the trained length, properties of the position encodings, attention maps, and the style of
        continuations: the measurements of the papers, repeated with these models.""",
    "extrapolation": """The model reads pieces and predicts each next token. If its position encoding extrapolates, the
        loss stays low after the dashed line, where the trained length ends.""",
    "ablation": """The loss on the same pieces with one part of the model removed. Open gates let no position through;
        with the decay off, heads forget nothing. If the loss does not change, the model does not use the part. How well
        a model trained without it would do can only be found by training one (`musicgen compare`).""",
    "positions": """The model reads one token over and over, so that only position distinguishes the copies. Translation
        invariance: do attention weights depend only on the offset? Monotonicity: do they decrease with it? 0 is
        perfect. Below, what the encodings have learned, and attention in pieces that the models generated past their
        trained length.""",
    "continuation": """The first bars of real pieces are continued several times. If a model does not drift, the last
        quarter is as similar to the prompt as the first.""",
    "form": """Do continuations return to earlier material, and do they end? Real pieces are continued from their first
        bars and compared with the same bars of the originals.""",
    "infilling": """Some bars of real pieces are removed and written again, given the bars before and after.""",
    "accompaniment": """The parts of real pieces are hidden, one at a time, and written again, given the others.""",
    "benchmark": """An experiment with small models: {what}. Variants of one model, with different position encodings or
        components, are trained on the same examples in the same order. The models above are not involved.""",
}
CAPTIONS = {
    "extrapolation": """Mean loss over the pieces in steps of 1/16 of the trained length; shaded: 95 % interval.""",
    "positions": """Translation invariance and monotonicity of the best head of the first layer, for keys up to 1/16 of
        the trained length before the query; error bars: standard error (jackknife over four groups of tokens).""",
    "attention": """{model}: mean attention over {pieces} generated pieces of {length} tokens; white: the trained
        length. Colour: (a / {full:.3g})^0.4, the scale of the paper adjusted for the length.""",
    "templates": """{model}: weights that the first layer has learned for each lag, for some heads and features, and
        their approximation by one realisation of the noise.""",
}
BENCHMARK_CAPTION = (
    "Means over n seeds with 95 % intervals (Student's t), best first; below them, baselines without a model, and "
    "results of papers that were not reproduced here. The papers used other models, data and budgets: compare their "
    "results only within a column."
)
FIGURES: dict[str, Callable[[Result], Figure]] = {
    "extrapolation": figures.extrapolation,
    "positions": figures.probes,
}


# The parts of the page; the macros of report.html give their markup and escape what they are filled with.

WIDE = 8  # columns above which a table is set in smaller type

_PAGE = Environment(
    loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined
).get_template("report.html")
_EMPTY = {
    "sections": (),
    "models": "",
    "lead": "",
    "results": dict.fromkeys(("command", "made", "machine")),
}
_parts: Any = _PAGE.make_module(_EMPTY)
Section = tuple[str, str, Markup]  # anchor, title, content
Part = Callable[..., Markup]
paragraph: Part = _parts.paragraph  # (text)
remarks: Part = _parts.remarks  # (sentences): a list that stands out
method: Part = _parts.method  # (sentences, command): how something was measured


def document(models: str, lead: str, sections: Sequence[Section], results: Any) -> str:
    """Return the whole page."""
    return _PAGE.render(models=models, lead=lead, sections=sections, results=results)


def picture(drawn: Figure, caption: str) -> Markup:
    """Return a figure with its caption, which also describes it to screen readers."""
    return _parts.picture(base64.b64encode(figures.png(drawn)).decode(), caption)


def table(content: Table) -> Markup:
    """Return a table with its caption."""
    return _parts.table(content.head, content.rows, content.caption, len(content.head) > WIDE)


# The sections of the page, made from the results.

MODELS_IN_TITLE = 3


def page(results: Result) -> str:
    """Return the HTML page of the results."""
    left_out = [sentence(text) for text in results["left_out"]]
    content = table(models_table(results["models"])) + remarks(left_out)
    sections = [("models", "Models", content)]
    for number, result in enumerate(results["experiments"]):
        if result["models"]:
            kind, data = result["kind"], result.get("data")
            title = KINDS[kind] + (f": {PurePath(data).name}" if data else "")
            sections.append((f"{kind}-{number}", title, _experiment(kind, result)))
    for number, result in enumerate(results["benchmarks"]):
        title = f"Benchmark: {PurePath(result['folder']).name}"
        sections.append((f"benchmark-{number}", title, _benchmark(result)))
    labels = [model["label"] for model in results["models"]]
    models = ", ".join(labels) if len(labels) <= MODELS_IN_TITLE else f"{len(labels)} models"
    return document(models, filled(LEADS["page"]), sections, results)


def _experiment(kind: str, result: Result) -> Markup:
    """Return a section's introduction, figures and tables, and how it was measured."""
    content = paragraph(filled(LEADS[kind]))
    if kind in FIGURES:
        content += picture(FIGURES[kind](result), filled(CAPTIONS[kind]))
    content += table(table_of(kind, result))
    for model in result["models"] if kind == "positions" else ():
        facts = {"model": model["model"], **model["attention"]}
        for name, drawn in figures.pictures(model).items():
            content += picture(drawn, filled(CAPTIONS[name], **facts))
    where = (
        [f"{result['pieces']} pieces of the {result['split']} split of {result['data']}."]
        if "split" in result
        else []
    )
    return content + method(where, result["command"])


def _benchmark(result: Result) -> Markup:
    """Return the table of a benchmark, and how its models were trained."""
    head, *lines = result["table"]
    settings = ", ".join(f"{name} {value}" for name, value in result["training"].items())
    trained = f"Trained on {result['machine']}: {settings}."
    return (
        paragraph(filled(LEADS["benchmark"], what=result["what"]))
        + table(Table(head=head, rows=lines, caption=BENCHMARK_CAPTION))
        + method([result["about"], *map(sentence, result["remarks"]), trained], result["command"])
    )
