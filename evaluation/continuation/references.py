"""Reference passages that no model wrote, as long as a model's, which bound the scores of continuations.

looped  the prompt, repeated: the highest score that can be reached
piece   the real continuation of the piece
other   the continuation of a piece of another style, drawn at random: the score of music that ignores the prompt;
        no control of the music's statistics, being the same pieces in another order
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np

from evaluation.continuation.prompts import JudgedPassage, PromptedPiece
from tokenization.language import Language
from tokenization.score import Marker, Notes, Score

REFERENCE_PASSAGES = {
    "looped": "prompt looped",
    "piece": "the piece itself",
    "other": "another style",
}


def reference_passages(
    language: Language,
    prompts: Sequence[PromptedPiece],
    prompt: PromptedPiece,
    tokens: int,
    seed: int,
) -> dict[str, JudgedPassage | None]:
    """Return the passages by name; there is no other style where all prompts share one."""
    other = _other(prompts, prompt, seed)
    sequences = {
        "looped": looped(language, prompt, tokens),
        "piece": prompt.piece_ids,
        "other": None if other is None else other.piece_ids,
    }
    return {
        name: None if ids is None else prompt.passage(language, ids[:tokens])
        for name, ids in sequences.items()
    }


def looped(language: Language, prompt: PromptedPiece, tokens: int) -> np.ndarray:
    """Return the ids of the prompt played until there are more tokens than asked for."""
    times = 2
    while True:
        ids = language.encode(_repeated(prompt.score, prompt.start_ticks, times)).ids
        if len(ids) > tokens:
            return ids
        times *= 2


def _repeated(score: Score, period_ticks: int, times: int) -> Score:
    notes = score.notes
    starts = period_ticks * np.arange(times)
    return score.replace(
        notes=Notes.concatenate(
            notes.replace(onset_ticks=notes.onset_ticks + start) for start in starts
        ).sorted(),
        markers=tuple(
            Marker(marker.onset_ticks + int(start), marker.text)
            for start in starts
            for marker in score.markers
            if marker.onset_ticks < period_ticks
        ),
    )


def _other(
    prompts: Sequence[PromptedPiece], prompt: PromptedPiece, seed: int
) -> PromptedPiece | None:
    """Return a prompt of another style whose own first bars leave room, the same one each time."""
    others = [other for other in prompts if other.style != prompt.style]
    if not others:
        return None
    random = np.random.default_rng([seed, zlib.crc32(prompt.name.encode(errors="replace"))])
    return others[random.integers(len(others))]
