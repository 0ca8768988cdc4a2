"""Pieces of music that a model in training writes, to be heard: the loss does not tell all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from musicgen.generation.generate import Request, Stop, generate
from musicgen.generation.sampling import MUSICAL
from musicgen.model.performer import Performer
from tokenization.continuing import continuing
from tokenization.language import language_from_spec


def write_samples(
    model: Performer,
    spec: dict[str, Any],
    folder: Path,
    step: int,
    *,
    count: int,
    tokens: int,
    longest_ticks: Sequence[int] | None = None,
) -> list[Path]:
    """Write `count` pieces from nothing as STEP_0.mid …; one without a note is left out.

    They have the same seed at every step. Raises ImportError where the libraries for MIDI are missing.
    """
    from tokenization.midi.writing import write_midi

    language = language_from_spec(spec)
    request = Request(
        variations=count, sampling=MUSICAL, stop=Stop(tokens=tokens, end=language.end)
    )
    prompt = np.array([language.begin])
    grammar = continuing(language, prompt, may_end=True, longest_ticks=longest_ticks)
    stream = generate(model, prompt, request, grammar=grammar)
    steps = np.array(list(stream)).reshape(-1, count)  # (T, count), −1 behind an end
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for number in range(count):
        new = steps[steps[:, number] >= 0, number]
        score = language.decode(language.close(np.append(prompt, new)))
        if len(score.notes):
            path = folder / f"{step:08d}_{number}.mid"
            write_midi(score, path, texts=(f"musicgen training step {step}, sample {number}",))
            paths.append(path)
    return paths
