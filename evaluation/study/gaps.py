"""Gaps in music that comes back: bars whose music is elsewhere in the piece, too, are written again.

The melody is the busiest part of one voice. Bars of it are removed that are similar to other bars of the melody, where
it is alone and where the other parts are given, and compared with the true ones by the F1 score of notes (the same
onset and pitch) and of onsets. In whole pieces, all parts of a section that returns are rewritten, and compared with
the passage elsewhere that is most similar.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from evaluation.metrics.estimates import mean
from evaluation.study.piece_jobs import Measure, held_out_piece, model_of
from musicgen.completion import Completion, infilling
from musicgen.generation.request import Request
from musicgen.pieces import Piece, piece_of
from tokenization.analysis.metres import bar_count, bar_lines
from tokenization.analysis.playing import playing_of
from tokenization.ensemble.promises import time_to_next
from tokenization.language import Language
from tokenization.prepared import Prepared
from tokenization.score import Score

GAPS = 2  # per piece and task
RETURNING = 0.7  # the least F1 score with a passage elsewhere of music that comes back
NOTES = 2  # a bar, at least
CHORDS = 0.03  # of the attacks of a melody, at most
SECTION = "section"
SIDES = ("written", "real", "before", "best")
Sides = Mapping[str, float | None]
Cells = list[set[tuple[int, ...]]]  # of each bar: what begins in it, with the step from its line


@dataclass(frozen=True, kw_only=True)
class Gap:
    """Bars start … stop − 1 to write, and the passage elsewhere, of the same length, that is most similar to them."""

    start: int
    stop: int
    best: int  # its first bar


def measure_gaps(*, model: str, data: str, device: str, row: int, gap: int, seed: int) -> Measure:
    """Compare what is written in gaps with the true bars, with the bars before, and with the best passage elsewhere."""
    loaded = model_of(model, device)
    random = np.random.default_rng([seed, row])
    whole, track = _with_melody(data, row, loaded.language)
    alone = _alone(whole, track)
    request = Request(seed=seed)
    tasks: list[tuple[str, Completion, Score, int, Gap]] = []
    for name, piece, own in (("melody alone", alone, 0), ("melody and others", whole, track)):
        for one in drawn(of_bars(piece.score, own), gap, random):
            emptied = _without(piece, own, one)
            parts = None if piece is alone else [own]
            work = infilling(loaded, emptied, (one.start + 1, one.stop), request, parts)
            tasks.append((name, work, piece.score, own, one))
    for one in drawn(of_bars(whole.score), 2 * gap, random)[:1]:
        bars = (one.start + 1, one.stop)
        work = infilling(loaded, whole, bars, request, differs=False)  # as if nothing were there
        tasks.append((SECTION, work, whole.score, track, one))
    yield [work for _, work, *_ in tasks]
    found: dict[str, list[Sides]] = defaultdict(list)
    for name, work, true, own, one in tasks:
        work.check()
        written = work.takes()[0].score
        if name == SECTION:
            measures = compared_section(true, written, one)
        else:
            measures = compared(true, written, own, one)
        for measure, sides in measures.items():
            found[f"{name}: {measure}"].append(sides)
    return [
        {
            "piece": whole.name,
            "measure": measure,
            **{side: mean(sides.get(side) for sides in of_gaps) for side in SIDES},
        }
        for measure, of_gaps in found.items()
    ]


def _with_melody(data: str, row: int, language: Language) -> tuple[Piece, int]:
    """Return the arrangement of a row's piece whose part of one voice is the busiest, and the track of this part."""
    prepared = Prepared.open(data)
    found: list[tuple[int, int, int]] = []
    for other in np.flatnonzero(prepared.pieces.file == prepared.pieces.file[row]).tolist():
        score = held_out_piece(data, other, language).score
        for track, its in enumerate(score.tracks):
            onset = score.notes.onset_ticks[score.notes.track == track]
            attacks = len(np.unique(onset))
            if attacks and not its.is_drum and len(onset) <= attacks * (1 + CHORDS):
                found.append((len(onset), -other, track))
    if not found:
        raise ValueError("it has no part of one voice")
    _, other, track = max(found)
    return held_out_piece(data, -other, language), track


def _alone(piece: Piece, track: int) -> Piece:
    """Return the melody as a piece of its own, which begins with its first bar."""
    own = piece.score.notes[piece.score.notes.track == track]
    score = piece.score.replace(
        notes=own.replace(track=np.zeros_like(own.track)),
        tracks=(piece.score.tracks[track],),
        beats_known=True,
    )
    return _read(piece, score)


def _read(piece: Piece, melody: Score) -> Piece:
    """Return a melody as a piece whose chords are heard in it alone."""
    return piece_of(piece.language, melody.replace(markers=()), piece.name)


def _without(piece: Piece, track: int, gap: Gap) -> Piece:
    """Return a piece without the notes of a track in a gap."""
    score = piece.score
    begin, end = bar_lines(score, gap.stop)[[gap.start, gap.stop]]
    notes = score.notes
    gone = (notes.track == track) & (notes.onset_ticks >= begin) & (notes.onset_ticks < end)
    score = score.replace(notes=notes[~gone])
    if len(score.tracks) == 1:
        return _read(piece, score)
    encoded = piece.language.encode(score)
    heard = piece.language.decode(encoded.ids)
    playing = playing_of(heard, heard, piece.language.onset_steps)
    return replace(piece, encoded=encoded, score=heard, playing=playing)


def of_bars(score: Score, track: int | None = None) -> Cells:
    """Return what begins in each bar of the music, or of one track: sets of step, pitch and track."""
    bars = bar_count(score)
    lines = bar_lines(score, bars)
    found: Cells = [set() for _ in range(bars)]
    notes = score.notes
    events = (column.tolist() for column in (notes.onset_ticks, notes.pitch, notes.track))
    for onset, pitch, own in zip(*events, strict=True):
        if track is None or own == track:
            bar = int(np.searchsorted(lines, onset, side="right")) - 1
            found[bar].add((onset - int(lines[bar]), pitch, own))
    return found


def f1(cells: Cells, others: Cells) -> float:
    """Return the F1 score of two passages of equally many bars."""
    total = sum(map(len, cells)) + sum(map(len, others))
    shared = sum(len(a & b) for a, b in zip(cells, others, strict=True))
    return 2 * shared / total if total else 1.0


def _best(cells: Cells, written: Cells, start: int, stop: int) -> tuple[float, int]:
    """Return the similarity of music at a gap to the most similar passage elsewhere, and that passage's first bar."""
    size = stop - start
    elsewhere = [at for at in range(len(cells) - size + 1) if abs(at - start) >= size]
    return max(((f1(written, cells[at : at + size]), at) for at in elsewhere), default=(0.0, 0))


def drawn(cells: Cells, size: int, random: np.random.Generator) -> list[Gap]:
    """Draw gaps with music before and after, whose music is also elsewhere."""
    found: list[Gap] = []
    for start in random.permutation(np.arange(size, len(cells) - 2 * size + 1)).tolist():
        own = cells[start : start + size]
        similarity, best = _best(cells, own, start, start + size)
        if sum(map(len, own)) >= NOTES * size and similarity >= RETURNING:
            found.append(Gap(start=start, stop=start + size, best=best))
        if len(found) == GAPS:
            break
    return found


def compared(true: Score, written: Score, track: int, gap: Gap) -> dict[str, Sides]:
    """Return the measures of a gap."""
    start, stop = gap.start, gap.stop
    real, ours = of_bars(true, track), of_bars(written, track)[start:stop]
    size = stop - start
    ours += [set()] * (size - len(ours))  # rests at the end of the piece
    sides = {
        "written": ours,
        "real": real[start:stop],
        "before": real[start - size : start],
        "best": real[gap.best : gap.best + size],
    }
    onsets = {side: [{(step,) for step, *_ in bar} for bar in own] for side, own in sides.items()}
    scores: dict[str, dict[str, float | None]] = {
        "note F1": {side: f1(own, sides["real"]) for side, own in sides.items()},
        "onset F1": {side: f1(own, onsets["real"]) for side, own in onsets.items()},
    }
    for found in scores.values():
        found["real"] = None
    counts = {side: sum(map(len, own)) for side, own in sides.items()}
    at_once = {side: counts[side] > sum(map(len, onsets[side])) for side in sides}
    overlaps = {
        "written": _overlaps(written, track, gap), "real": _overlaps(true, track, gap),
    }  # fmt: skip
    return {
        **scores,
        "notes a bar": {side: count / size for side, count in counts.items()},
        "notes at once": {side: float(found) for side, found in at_once.items()},
        "notes overlap": {side: float(found) for side, found in overlaps.items()},
    }


def _overlaps(score: Score, track: int, gap: Gap) -> bool:
    """Return whether a note of a gap sounds on when the next one begins."""
    begin, end = bar_lines(score, gap.stop)[[gap.start, gap.stop]]
    own = score.notes[score.notes.track == track]
    inside = (own.onset_ticks >= begin) & (own.onset_ticks < end)
    return bool((own.duration_ticks > time_to_next(own.onset_ticks))[inside].any())


def compared_section(true: Score, written: Score, gap: Gap) -> dict[str, Sides]:
    """Return the measures of a section that was rewritten."""
    cells, start, stop = of_bars(true), gap.start, gap.stop
    ours = of_bars(written)[start:stop]
    ours += [set()] * (stop - start - len(ours))
    passages = {"written": ours, "real": cells[start:stop]}
    likeness = {side: _best(cells, own, start, stop)[0] for side, own in passages.items()}
    return {
        "similarity to the best passage": likeness,
        "similarity to what was there": {"written": f1(ours, cells[start:stop])},
        "notes a bar": {
            side: sum(map(len, own)) / (stop - start) for side, own in passages.items()
        },
    }
