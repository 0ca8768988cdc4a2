"""What is known of a model that comes out of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from musicgen.storage.checkpoint import CONFIG, Card
from training.config import RunConfig
from training.data.batches import Batches
from training.storage.saving import RunState, read_card, read_state

TAIL_FROM = "tail_from"  # of a card: the step before the tail that the model comes from


def learned_from(folder: Path, batches: Batches) -> bool:
    """Say whether the run of a checkpoint learned from this data: the same tokens, of which the same were held out."""
    if read_state(folder).data != batches.shards.checksum:
        return False
    counts = batches.shards.counts
    return read_card(folder)[1].training.get("counts", counts) == counts


def has_tail(model: Path) -> bool:
    """Say whether a run's model comes from a tail: no model of a held rate takes its place."""
    return (model / CONFIG).is_file() and TAIL_FROM in read_card(model)[1].training


def card_of(
    config: RunConfig,
    batches: Batches,
    state: RunState,
    start: dict[str, Any] | None = None,
    held: int | None = None,
) -> Card:
    """Return the card of the model as it stands, which began as `start`; nothing depends on the machine's speed.

    One from a tail says which step was held before it.
    """
    return Card(
        name=Path(config.run).name,
        language=batches.language,
        trained_length=config.data.trained_length,
        training={
            "data": batches.shards.described("title"),
            "licence": batches.shards.described("licence"),
            "checksum": batches.shards.checksum,
            "counts": batches.shards.counts,
            "longest_ticks": batches.longest_ticks,
            "steps": state.step,
            "sequences_a_step": config.data.batch,
            "tokens_a_sequence": config.data.trained_length,
            "optimiser": config.optimiser.method,
            "learning_rate": config.optimiser.learning_rate,
            "seed": config.seed,
            "precision": config.device.precision,
            "validation_loss": state.validation_loss,
            "validation_loss_beyond": state.validation_beyond,
            **({} if start is None else {"start": start}),
            **({} if held is None else {TAIL_FROM: held}),
        },
    )
