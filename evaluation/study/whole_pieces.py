"""All experiments with whole pieces that models can take part in: form, gaps filled in, parts written to others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from evaluation.study.accompaniment import accompaniment
from evaluation.study.experiments import Experiment
from evaluation.study.form_and_infilling import form, infilling
from evaluation.study.piece_jobs import Choice
from musicgen.playable import Playable
from tokenization.groove.tokens import PARTS

Found = tuple[str, list[Playable], Experiment, dict[str, Any]]


def whole_pieces(playables: Sequence[Playable], choice: Choice) -> Iterator[Found | str]:
    """Yield the kind of each, who takes part, the experiment and its facts; or a sentence for one that cannot be."""
    language = choice.prepared.language
    same = [model for model in playables if model.language.name == language.name]
    can_end = same if language.can_end() else []
    possible = {
        # The songs of piano music are long enough to return.
        "form": (
            [model for model in playables if model.language.family == language.family == "remi"],
            partial(form, prompt_bars=8, bars=56),
        ),
        "infilling": (can_end, partial(infilling, gap=4)),
        "accompaniment": (
            [model for model in playables if model.language.parts and language.family == "groove"],
            partial(accompaniment, hide=PARTS, bars=8),
        ),
    }
    for kind, (able, make) in possible.items():
        if not able:
            continue
        try:
            experiment, facts = make(able, choice)
        except ValueError as error:  # no piece has so many bars
            yield f"{kind} on {choice.data} is left out: {error}"
        else:
            yield kind, able, experiment, facts
