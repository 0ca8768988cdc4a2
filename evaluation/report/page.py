"""The report: results (JSON) as one page of HTML; it measures nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import PurePath
from typing import Any

from markupsafe import Markup
from matplotlib.figure import Figure

from evaluation.continuation.plot import continuation as continuation_figure
from evaluation.plots import figures
from evaluation.plots.style import svg
from evaluation.report import findings
from evaluation.report.benchmarks import benchmark_content
from evaluation.report.html import document, folded, how, paragraph, picture, says, table
from evaluation.report.texts import CAPTIONS, HOW, LEADS
from evaluation.tables.ablation import ablation_table
from evaluation.tables.continuation import similarity_tables, statistics_table, variety_table
from evaluation.tables.losses import extrapolation_table, realisations_table
from evaluation.tables.models import models_table
from evaluation.tables.positions import positions_table
from evaluation.tables.table import Result
from evaluation.tables.whole_pieces import KINDS, whole_pieces_table
from tokenization.wording import filled, sentence

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


def _extrapolation(results: Result) -> Iterator[Section]:
    title = "Loss past the trained length"
    if not results["extrapolation"]:
        yield "extrapolation", title, _missing(results, "extrapolation")
    for result in results["extrapolation"]:
        which = result["data"]["checksum"][:8]
        yield (
            f"extrapolation-{which}",
            f"{title}: {_named(result)}",
            paragraph(filled(LEADS["extrapolation"]))
            + says(findings.extrapolation(result))
            + _drawn("extrapolation", result, f"-{which}", "Loss by position", **result["data"])
            + table(extrapolation_table(result))
            + _how("extrapolation", result, **result["data"]),
        )


def _realisations(results: Result) -> Iterator[Section]:
    for result in results["realisations"]:
        if not result["models"]:
            continue
        which = result["data"]["checksum"][:8]
        yield (
            f"realisations-{which}",
            f"Realisations: {_named(result)}",
            paragraph(filled(LEADS["realisations"]))
            + says(findings.realisations(result))
            + _drawn("realisations", result, f"-{which}", "Change of the loss by realisations")
            + table(realisations_table(result)),
        )


def _ablation(results: Result) -> Iterator[Section]:
    for result in results["ablation"]:
        if not result["models"]:
            continue
        which = result["data"]["checksum"][:8]
        yield (
            f"ablation-{which}",
            f"What the models rely on: {_named(result)}",
            paragraph(filled(LEADS["ablation"]))
            + table(ablation_table(result))
            + _how("ablation", result, **result["data"]),
        )


def _positions(results: Result) -> Iterator[Section]:
    result = results["positions"]
    if not result or not result["models"]:
        return
    yield (
        "positions",
        "What the encodings know of position",
        paragraph(filled(LEADS["positions"]))
        + says(findings.positions(result))
        + _drawn("probes", result, "", "Translation invariance and monotonicity by position")
        + table(positions_table(result))
        + _how("positions", result),
    )
    models = Markup().join(
        _pictures(model, number) for number, model in enumerate(result["models"])
    )
    yield "pictures", "Pictures of attention", paragraph(filled(LEADS["pictures"])) + models


def _pictures(model: Result, number: int) -> Markup:
    """Return the pictures of one model; those of the first two are open."""
    name, maps, learned = model["model"], model["attention"], model["templates"]
    facts = {key: maps[key] for key in ("pieces", "length", "full")}
    parts = [
        _drawn("attention", model, f"-{number}", f"Attention maps of {name}", **facts),
        _drawn("look_back", model, f"-{number}", f"Mean distance of attention of {name}"),
    ]
    if learned:
        parts.append(_drawn("templates", model, f"-{number}", f"Learned templates of {name}"))
    if learned and learned["features"] > 1:
        parts.append(_drawn("all_templates", model, f"-{number}", f"All templates of {name}"))
    return folded(f"{name}: {model['encoding']}", Markup("\n").join(parts), is_open=number < 2)


def _continuation(results: Result) -> Iterator[Section]:
    title, result = "Style of continuations", results["continuation"]
    if not result:
        yield "continuation", title, _missing(results, "continuation")
        return
    counts = {key: result[key] for key in ("prompts", "styles")}
    whole = Markup().join(map(table, similarity_tables(result, "piece")))
    yield (
        "continuation",
        title,
        paragraph(filled(LEADS["continuation"], **result["settings"]))
        + says(findings.continuation(result))
        + _drawn("continuation", result, "", "Similarity to prompt and piece by quarter", **counts)
        + Markup().join(map(table, similarity_tables(result, "prompt")))
        + folded("Similarity to the whole piece", whole)
        + table(variety_table(result))
        + table(statistics_table(result))
        + _how("continuation", result),
    )


def _whole_pieces(results: Result) -> Iterator[Section]:
    for result in results["whole_pieces"]:
        kind = result["kind"]
        if not result["models"]:
            continue
        name = PurePath(result["data"]).name
        yield (
            f"{kind}-{result['checksum'][:8]}",
            f"{KINDS[kind]}: {name}",
            paragraph(filled(LEADS[kind]))
            + table(whole_pieces_table(kind, result))
            + _how(kind, result, **{**result, "data": name}),
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
    _extrapolation,
    _realisations,
    _ablation,
    _positions,
    _continuation,
    _whole_pieces,
    _benchmarks,
)
_FIGURES: dict[str, Callable[[Any], Figure]] = {
    "extrapolation": figures.extrapolation,
    "realisations": figures.realisations,
    "probes": figures.probes,
    "attention": figures.attention,
    "look_back": figures.look_back,
    "templates": figures.templates,
    "all_templates": figures.all_templates,
    "continuation": continuation_figure,
}


def _drawn(name: str, result: Result, which: str, described: str, **values: Any) -> Markup:
    """Return a figure with its caption; `which` tells it from others of its name."""
    drawn = svg(_FIGURES[name](result), f"{name}{which}")
    return picture(drawn, filled(CAPTIONS[name], **values), described)


def _how(name: str, result: Result, **values: Any) -> Markup:
    return how([filled(text, **values) for text in HOW[name]], result["command"])


def _named(result: Result) -> str:
    """Return what to call a data set."""
    return f"{PurePath(result['data']['folder']).name} ({result['data']['language']})"


def _missing(results: Result, name: str) -> Markup:
    return paragraph(results["missing"].get(name, "There is no result."), "faint")
