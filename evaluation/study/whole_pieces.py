"""All experiments with whole pieces that models can take part in: form, gaps filled in, parts written to others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from evaluation.study.accompaniment import accompaniment
from evaluation.study.experiments import Experiment
from evaluation.study.pieces import form, infilling
from musicgen.playable import Playable
from tokenization.groove.tokens import TRACKS
from tokenization.prepared import Prepared

Found = tuple[str, list[Playable], Experiment, dict[str, Any]]


def whole_pieces(
    subjects: Sequence[Playable], data: str, *, pieces: int, split: str, seed: int, device: str
) -> Iterator[Found]:
    """Yield the kind of each, who takes part, the experiment, and what is to be said of it."""
    spoken = Prepared.open(data).language
    can_end = [s for s in subjects if s.language.name == spoken.name and spoken.can_end()]
    parts = tuple(track.casefold() for track in TRACKS)
    possible = {
        # The songs of piano music are long enough to return.
        "form": (
            [s for s in subjects if s.language.family == spoken.family == "remi"],
            partial(form, prompt_bars=8, bars=56),
        ),
        "infilling": (can_end, partial(infilling, gap=4)),
        "accompaniment": (
            [s for s in subjects if s.language.parts and spoken.family == "groove"],
            partial(accompaniment, hide=parts, bars=8),
        ),
    }
    for kind, (able, make) in possible.items():
        if not able:
            continue
        try:
            experiment, facts = make(
                able, data, pieces=pieces, split=split, seed=seed, device=device
            )
        except ValueError:  # no piece has so many bars
            continue
        yield kind, able, experiment, facts
