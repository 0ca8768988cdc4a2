"""The table of the models under evaluation, and of what is known of each."""

from __future__ import annotations

from collections.abc import Sequence

from evaluation.tables.table import NONE, Result, Table, number

HEAD = (
    "model", "encoding", "language", "trained length", "parameters", "data", "validation loss", "hash",
)  # fmt: skip
CAPTION = "The hash is the beginning of the SHA-256 of the weights; every number below belongs to these weights."


def models_table(models: Sequence[Result]) -> Table:
    """Return a row a model."""
    rows = [
        [
            model["label"],
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
    return Table(head=HEAD, rows=rows, caption=CAPTION)
