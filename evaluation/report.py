"""The report: results (JSON) rendered as one HTML page."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from matplotlib.figure import Figure

from evaluation import figures
from evaluation.headlines import headlines
from evaluation.metrics.style import QUARTER_NAMES
from evaluation.tables import ABOUT, KINDS, NONE, Result, Table, models_table, table_of
from tokenization.wording import counted, filled, sentence

# What each section is about, and what its figure shows.

LEADS = {
    "page": """Measured on n pieces of the {split} split of {data}, beside the music of these pieces: means, with 95 %
        intervals in brackets.""",
    "benchmark": """An experiment with small models: {what}. Variants of one model, with different position encodings or
        components, are trained on the same examples in the same order. The models above are not involved.""",
}
CAPTIONS = {
    "continuation": """Similarity of style to the prompt and to the piece, by quarter of the continuation: of the
        generated music, of the piece itself, and of another piece.""",
    "extrapolation": """Mean loss in steps of 1/16 of the trained length, from the second step to where half of the
        pieces end; shaded, for five or more pieces: 95 % interval.""",
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
    "continuation": figures.quarters,
    "extrapolation": figures.extrapolation,
    "positions": figures.probes,
}


_PAGE = Environment(
    loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined
).get_template("report.html")
MODELS_IN_TITLE = 3
MOST_COLUMNS = 4  # models side by side
IN_FIGURE = tuple(f", {name}: " for quarter, name in QUARTER_NAMES.items() if quarter is not None)


@dataclass(frozen=True, kw_only=True)
class Section:
    """One section of the page: what it is about, its table and pictures, and how it was measured."""

    anchor: str
    title: str
    table: Table
    lead: str = ""
    pieces: int | None = None
    headlines: Sequence[str] = ()
    # Captions, which also describe them, PNG in base64, and the files to listen to without their suffix, if any.
    pictures: Sequence[tuple[str, str, str]] = ()
    remarks: Sequence[str] = ()
    method: Sequence[str] = ()
    command: str = ""


def page(results: Result) -> str:
    """Return the HTML page of the results."""
    sections = [
        Section(
            anchor="models",
            title="Models",
            table=_upright(models_table(results["models"])),
            remarks=[sentence(text) for text in results["left_out"]],
        )
    ]
    for number, result in enumerate(results["experiments"]):
        if result["models"]:
            sections.append(_experiment(number, result))
    sections += [_benchmark(*numbered) for numbered in enumerate(results["benchmarks"])]
    labels = [model["model"] for model in results["models"]]
    models = ", ".join(labels) if len(labels) <= MODELS_IN_TITLE else f"{len(labels)} models"
    measured = [result for result in results["experiments"] if "data" in result]
    data = " and ".join(dict.fromkeys(PurePath(result["data"]).name for result in measured))
    lead = filled(LEADS["page"], data=data, split=measured[0]["split"]) if measured else ""
    return _PAGE.render(models=models, lead=lead, sections=sections, results=results)


def _experiment(number: int, result: Result) -> Section:
    """Return the section of an experiment."""
    kind, data = result["kind"], result.get("data")
    drawn: list[tuple[str, Figure, str]] = []
    if kind in FIGURES:
        drawn.append((filled(CAPTIONS[kind]), FIGURES[kind](result), ""))
    for model in result["models"] if kind == "positions" else ():
        facts = {"model": model["model"], **model["attention"]}
        for name, one in figures.pictures(model).items():
            drawn.append((filled(CAPTIONS[name], **facts), one, ""))
    for model in result["models"] if kind == "takes" else ():
        for take in model["rows"]:
            caption = f"{model['model']}: {take['piece']}, {take['ability']}"
            drawn.append((caption, figures.roll(take), take["file"]))
    method = ()
    if data:
        method = [f"{counted(result['pieces'], 'piece')} of the {result['split']} split of {data}."]
    return Section(
        anchor=f"{kind}-{number}",
        title=KINDS[kind] + (f": {PurePath(data).name}" if data else ""),
        lead=filled(ABOUT[kind]),
        pieces=result.get("pieces"),
        headlines=headlines(result),
        table=_narrow(table_of(kind, result)),
        pictures=[
            (text, base64.b64encode(figures.png(one)).decode(), file) for text, one, file in drawn
        ],
        method=method,
        command=result["command"],
    )


def _narrow(table: Table) -> Table:
    """Leave out rows that a figure shows, columns without a value, and the name of a single model with several rows."""
    rows = [
        row for row in table.rows if not any(word in cell for word in IN_FIGURE for cell in row[:2])
    ]
    known = [{*column} - {NONE, ""} for column in zip(*rows, strict=True)]
    named = table.head[0] != "model" or len(rows) < 2 or len(known[0]) > 1
    kept = [place for place, cells in enumerate(known) if cells and (place or named)]
    head, *rows = ([row[place] for place in kept] for row in (table.head, *rows))
    return replace(table, head=head, rows=rows)


def _upright(table: Table) -> Table:
    """Return a table of a few models with one column per model."""
    if len(table.rows) > MOST_COLUMNS:
        return table
    head, *rows = zip(table.head, *table.rows, strict=True)
    return replace(table, head=head, rows=rows)


def _benchmark(number: int, result: Result) -> Section:
    """Return the section of a benchmark."""
    head, *lines = result["table"]
    settings = ", ".join(f"{name} {value}" for name, value in result["training"].items())
    trained = f"Trained on {result['machine']}: {settings}."
    return Section(
        anchor=f"benchmark-{number}",
        title=f"Benchmark: {PurePath(result['folder']).name}",
        lead=filled(LEADS["benchmark"], what=result["what"]),
        table=Table(head=head, rows=lines, caption=BENCHMARK_CAPTION),
        method=[result["about"], *map(sentence, result["remarks"]), trained],
        command=result["command"],
    )
