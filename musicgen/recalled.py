"""The recall of one request: from all that is known of the piece, except the bars that are being replaced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from musicgen.generation.recall.habits import Habits
from musicgen.generation.recall.memory import ORDER
from musicgen.generation.recall.recalling import Recall
from musicgen.generation.sampling import Sampling
from tokenization.language import Language


class Known(NamedTuple):
    """What is known of a piece beside a prompt: ids."""

    elsewhere: Sequence[int] = ()
    replaced: Sequence[int] = ()  # what stood where writing begins


def recall_of(
    habits: Habits | None,
    language: Language,
    sampling: Sampling,
    prompt: np.ndarray,
    known: Known | None,
    passes_over: bool = True,
) -> Recall | None:
    """Return what a model's music recalls; nothing where that was not learned, or the likeliest is always taken.

    `known` is given where bars between others are written, which go with those: then no phrase is decided on.
    """
    if habits is None or not sampling.recall or not sampling.temperature:
        return None
    phrasing = habits.phrasing if known is None else None
    known = known or Known()
    passing = frozenset(language.passing_tokens())
    before, replaced = (
        [token for token in map(int, ids) if token not in passing]
        for ids in (prompt[-2 * ORDER :], known.replaced)
    )
    return Recall(
        weights=habits.weights,
        goals=frozenset(language.goal_tokens()) - passing,
        passing=passing,
        elsewhere=tuple(map(int, known.elsewhere)),
        unlike=(*before[-ORDER:], *replaced) if replaced else (),
        strength=sampling.recall,
        bars=frozenset(map(int, language.bars(prompt))),
        limits=habits.limits,
        phrasing=phrasing,
        passes_over=passes_over,
        kinds=language.kinds(),
        contrast=None if phrasing is None else habits.contrast,
        notes=language.note_tokens(),
    )
