"""The parts of a piece after the seam: the first bars are cut to a file, tracks that are silent in them included.

The continuation is compared with the piece's own next bars, and with a continuation of the file without its silent
tracks. Parts are those of the arrangement with the most tracks.
"""

from __future__ import annotations

import numpy as np

from evaluation.study.piece_jobs import Measure, held_out_piece, model_of
from musicgen.continuation import Continuation
from musicgen.generation.request import Request
from musicgen.pieces import Piece, piece_of
from tokenization.analysis.metres import bar_lines
from tokenization.language import Language
from tokenization.prepared import Prepared
from tokenization.score import Notes, excerpt

BUSIEST = "busiest"


def measure_tracks(
    *, model: str, data: str, device: str, row: int, prompt_bars: int, bars: int, seed: int
) -> Measure:
    """Measure which parts play before and after the seam."""
    loaded = model_of(model, device)
    piece = _with_most_tracks(data, row, loaded.language)
    tracks = len(piece.score.tracks)
    lines = bar_lines(piece.score, prompt_bars + bars)
    opening = excerpt(piece.score, 0, int(lines[prompt_bars])).replace(beats_known=True)
    before = _counts(opening.notes, tracks)
    if not before.any():
        raise ValueError(f"its first {prompt_bars} bars have no notes")
    playing = np.flatnonzero(before).tolist()
    request = Request(bars=bars, seed=seed)
    works: dict[str, tuple[Continuation, list[int]]] = {}
    for side, kept in (("written", [*range(tracks)]), ("without", playing)):
        chosen = None if side == "written" else kept
        heard = piece_of(loaded.language, opening, piece.name, chosen)
        works[side] = Continuation(loaded, heard.prompt(), request), kept
    yield [work for work, _ in works.values()]
    onset = piece.score.notes.onset_ticks
    own = piece.score.notes[(onset >= lines[prompt_bars]) & (onset < lines[-1])]
    after = {"real": _counts(own, tracks)}
    for side, (work, kept) in works.items():
        work.check()
        after[side] = np.zeros(tracks)
        after[side][kept] = _counts(work.takes()[0].continuation.notes, len(kept))
    real = after["real"]
    silent = before == 0
    found = {
        BUSIEST: {s: float(x.argmax() == before.argmax()) for s, x in after.items()},
        "playing parts go on": {s: float((x[~silent] > 0).mean()) for s, x in after.items()},
        "silent parts enter": {
            s: float((x[silent] > 0).mean()) if silent.any() else None for s, x in after.items()
        },
        "notes by part": {
            s: None if s == "real" or not real.any() else _shared(x, real) for s, x in after.items()
        },
    }
    return [{"piece": piece.name, "measure": name, **sides} for name, sides in found.items()]


def _with_most_tracks(data: str, row: int, language: Language) -> Piece:
    prepared = Prepared.open(data)
    rows = np.flatnonzero(prepared.pieces.file == prepared.pieces.file[row]).tolist()
    pieces = [held_out_piece(data, other, language) for other in rows]
    return max(pieces, key=lambda piece: len(piece.score.tracks))


def _counts(notes: Notes, tracks: int) -> np.ndarray:
    return np.bincount(notes.track, minlength=tracks)


def _shared(counts: np.ndarray, others: np.ndarray) -> float:
    """Return how far the shares of the parts in the notes agree, 0 to 1."""
    shares = (x / max(x.sum(), 1) for x in (counts, others))
    return float(np.minimum(*shares).sum())
