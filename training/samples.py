"""Pieces of music that a model in training writes, to be heard: the loss does not tell all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from musicgen.continuation import Continuation
from musicgen.generation.request import Options
from musicgen.model.performer import Performer
from musicgen.pieces import no_prompt
from musicgen.playable import Playable
from tokenization.language import language_from_spec
from tokenization.whole_file import write_whole


def write_samples(
    model: Performer,
    spec: dict[str, Any],
    folder: Path,
    step: int,
    *,
    count: int,
    tokens: int,
    longest_ticks: list[int] | None = None,
) -> list[Path]:
    """Write `count` pieces from nothing as STEP_0.mid …; one without a note is left out.

    They have the same seed at every step. Raises ImportError where the libraries for MIDI are missing.
    """
    from tokenization.midi.writing import write_midi

    language = language_from_spec(spec)
    player = Playable(
        name=f"step {step}", language=language, weights=lambda: model, longest_ticks=longest_ticks
    )
    options = Options(tokens=tokens, variations=count, may_end=True)
    work = Continuation(player, no_prompt(language), options).finish()
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for take in work.takes():
        if len(take.score.notes):
            path = folder / f"{step:08d}_{take.number}.mid"
            text = f"musicgen training step {step}, sample {take.number}"
            write_whole(path, write_midi(take.score, texts=(text,)))
            paths.append(path)
    return paths
