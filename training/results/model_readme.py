"""The README of a model that ships: facts from its card, its configuration and the measurement of its weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from musicgen.metre.rows import MetreConfig
from musicgen.model.config import ModelConfig
from musicgen.storage.checkpoint import Card
from tokenization.wording import counted, markdown
from training.config import RunConfig
from training.results.recall_fit import COUNTED, TOKENS, Fitted, table
from training.validation import Measured

Losses = Mapping[str, tuple[int, Measured]]  # dtype → bytes, loss

_TITLES = {
    "remi": "continues a piece for piano, bar by bar, with chords",
    "groove": "continues a groove of bass, drums and one more instrument",
}


def model_readme(
    model: ModelConfig, card: Card, run: RunConfig, losses: Losses, recalled: Fitted, encodings: str
) -> str:
    """Return the text; `encodings` is a comparison in Markdown, or empty."""
    family = str(card.language["language"]).split("-")[0]  # without its version
    by_metre = "" if model.metre is None else " and through heads that look back by musical time"
    parts = [
        f"# {card.name}",
        f"This model {_TITLES.get(family, 'continues music')}. It is a causal Transformer with linear attention; "
        f"order enters through `{model.position_name}`{by_metre}. All numbers are printed by `make models`.",
        markdown([("", ""), *_facts(model, card, run)], numbers=False),
        "## Quality",
        "Loss in nats a token on held-out pieces that were not transposed, from their beginnings "
        f"({losses[card.dtype][1].sequences} pieces), by the way the weights are stored; "
        f"the model here is stored as {card.dtype}.",
        markdown([("weights", "MB", "trained length", "past it"), *_costs(losses)]),
        "By position:",
        markdown([("tokens", "loss", "deviation", "pieces"), *_positions(losses[card.dtype][1])]),
        "![Losses of the training](curves.png)",
        *recall_section(recalled),
    ]
    if encodings:
        parts += ["## The encodings, by one budget", encodings.strip()]
    parts += [
        "## Again",
        "`make models POP909=… LIEDER=… GROOVE=… SONGS=… DRUMS=…`, with the raw data as folders or archives, trains "
        "and writes all models.",
    ]
    return "\n\n".join(parts) + "\n"


def recall_section(found: Fitted) -> list[str]:
    """Say what the model's music recalls of itself, and what that is worth."""
    return [
        "## What it recalls",
        "What followed the same notes earlier in a piece is mixed into what the model expects (`recalling.py` of "
        f"`musicgen/generation/recall`), in the first {TOKENS:,} tokens of {found.pieces} held-out pieces; weights "
        "fitted on one half of them are measured on the other, and the change has its 95 % interval. Circling limits "
        "how long music may go on repeating its last bars: as long as nine in ten of these pieces do, counted at six "
        "degrees of likeness (`circling.py`). Phrases are four bars long: begin is the probability that one starts to "
        "repeat an earlier one, stay that the next one goes on with the repetition, and back how often the repeated "
        "one is the phrase before, the one before that, or another (`phrases.py`). Contrast says how differently high "
        f"the others are, in semitones, of up to {COUNTED} held-out pieces (`contrast.py`).",
        table(found),
    ]


def _facts(model: ModelConfig, card: Card, run: RunConfig) -> list[tuple[str, str]]:
    training = card.training
    counts = training["counts"]
    train, held_out = counts["train"], counts["validation"]
    seen = training["steps"] * run.data.batch * run.data.length
    position = ", ".join(f"{key} {value}" for key, value in asdict(model.position).items())
    return [
        ("language", f"{card.language['language']}, {card.language['tokens']} tokens"),
        ("data", f"{training['data']}: {train['files']} pieces, {train['tokens']:,} tokens"),
        ("held out", f"{held_out['files']} pieces, {held_out['tokens']:,} tokens"),
        ("licence of the data", f"{training['licence']}"),
        *_origin(training.get("start")),
        (
            "size",
            f"{model.layers} layers, width {model.width}, {model.heads} heads, "
            f"feed-forward {model.feedforward}: {card.parameters:,} parameters",
        ),
        ("encoding", f"{model.position_name}" + (f" ({position})" if position else "")),
        ("feature map", f"{model.features_name}, {model.shape().features} features"),
        ("heads remember", _memory(model.horizons)),
        *_metric_heads(model.metre),
        *(
            [("goals", "an embedding of the goal in force at every position")]
            if model.goals
            else []
        ),
        ("trained length", f"{card.trained_length} tokens"),
        (
            "training",
            f"{training['steps']:,} steps of {counted(run.data.batch, 'sequence')} ({seen:,} tokens), the best of "
            f"{training['steps_of_the_run']:,}; {training.get('optimiser', 'adam').title()} at "
            f"{training['learning_rate']:g}",
        ),
        *_blend(training.get("blend")),
        ("time", f"{training['seconds'] / 3600:.1f} h on {training['machine']}"),
        ("weights", f"{card.dtype}, {card.bytes / 1e6:.1f} MB, SHA-256 {card.sha256[:16]}…"),
    ]


def _blend(blend: dict[str, Any] | None) -> list[tuple[str, str]]:
    """Say what of the weights is another model's."""
    if blend is None:
        return []
    goals = ("goals", f"embeddings scaled by {blend['louder']:g} after training")
    text = f"{blend['share']:.0%} of each weight is {blend['model']}'s ({blend['sha256'][:16]}…)"
    return [*([("blended", text)] if blend["share"] else []), goals]


def _origin(start: dict[str, Any] | None) -> list[tuple[str, str]]:
    """Say of each model that this one began as what it had learned from."""
    if start is None:
        return []
    learned = f"{start['name']} ({start['sha256'][:16]}…): {start['data']}, {start['licence']}"
    return [("began as", learned), *_origin(start["start"])]


def _memory(horizons: tuple[float, ...] | None) -> str:
    """Say what is asked of the heads; an encoding may have a decay of its own beside."""
    if horizons is None:
        return "everything, or what the encoding lets them"
    return f"{horizons[0]:g} to {horizons[1]:g} tokens"


def _metric_heads(metre: MetreConfig | None) -> list[tuple[str, str]]:
    """Say what heads look back by musical time."""
    if metre is None:
        return []
    pairs = zip(metre.bars, metre.remembers, strict=True)
    periods = ", ".join(f"{bars:g} ({remembers:g})" for bars, remembers in pairs)
    return [
        ("metric heads", f"at the same place of every so many bars (and how many times): {periods}")
    ]


def _costs(losses: Losses) -> list[tuple[str, ...]]:
    return [
        (dtype, f"{size / 1e6:.1f}", loss(measured.inside), loss(measured.beyond))
        for dtype, (size, measured) in losses.items()
    ]


def _positions(measured: Measured) -> list[tuple[str, ...]]:
    return [
        (f"{start} – {stop - 1}", loss(mean), loss(deviation), str(count))
        for start, stop, mean, deviation, count in measured.rows
    ]


def loss(value: float | None) -> str:
    """Return a loss as tables have it."""
    return "–" if value is None else f"{value:.4f}"
