"""What a model's own critic chooses among the takes of each piece, and what it leaves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from evaluation.study.piece_jobs import held_out_piece
from evaluation.study.takes import roll_of
from musicgen.critic import NewBars, Rank
from musicgen.pieces import decode_partial
from musicgen.playable import Playable
from tokenization.score import Score

SHOWN = 10  # pieces of which the best and the worst take are kept for a picture

Drawn: TypeAlias = Sequence[Mapping[str, Any]]
"""Takes: each with its `row`, its number `take` and its new tokens `ids`."""


@dataclass
class Ranked:
    """The takes of a piece."""

    name: str
    ranks: list[Rank] = field(default_factory=list)
    scores: list[Score] = field(default_factory=list)
    new: list[np.ndarray] = field(default_factory=list)  # which notes are new


def scores_of(
    playable: Playable, data: str, drawn: Drawn, prompt_bars: int, bars: int
) -> Iterator[tuple[int, int, str, Score]]:
    """Yield row, take, name and score of each piece, as take −1, and of its takes: all up to the last new bar."""
    by_row: dict[int, list[Mapping[str, Any]]] = {}
    for take in drawn:
        by_row.setdefault(take["row"], []).append(take)
    for row, takes in by_row.items():
        piece = held_out_piece(data, row, playable.language)
        for number, prompt, new in (
            (-1, piece.prompt(prompt_bars + bars), []),
            *((take["take"], piece.prompt(prompt_bars), take["ids"]) for take in takes),
        ):
            ids = np.append(prompt.ids, np.array(new, prompt.ids.dtype))
            score = decode_partial(playable.language, ids, prompt_bars + bars, prompt.setting)
            yield row, number, piece.name, score


def ranked(
    playable: Playable, data: str, drawn: Drawn, prompt_bars: int, bars: int
) -> dict[int, Ranked]:
    """Return the takes of each piece by its row, as the critic ranks them; nothing without a critic."""
    critic, new = playable.critic, NewBars(begun=prompt_bars, stop=prompt_bars + bars)
    found: dict[int, Ranked] = {}
    for row, number, name, score in (
        scores_of(playable, data, drawn, prompt_bars, bars) if critic else ()
    ):
        if critic and number >= 0:
            piece = found.setdefault(row, Ranked(name))
            piece.ranks.append(critic.rank(score, new))
            piece.scores.append(score)
            piece.new.append(new.is_new(score))
    return found


def best_and_worst(found: Mapping[int, Ranked]) -> list[dict[str, Any]]:
    """Return the rolls of the first and the last take in the critic's order, of the first pieces."""
    pairs = []
    for piece in [piece for piece in found.values() if len(piece.ranks) > 1][:SHOWN]:
        order = sorted(range(len(piece.ranks)), key=lambda number: piece.ranks[number])
        pairs.append({
            "piece": piece.name,
            "of": len(order),
            **{
                side: {
                    "faults": piece.ranks[one][0],
                    "doubt": piece.ranks[one][1],
                    **roll_of(piece.scores[one], piece.new[one]),
                }
                for side, one in (("chosen", order[0]), ("left", order[-1]))
            },
        })  # fmt: skip
    return pairs
