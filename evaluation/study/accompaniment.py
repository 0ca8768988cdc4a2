"""Accompaniment: one part of a real piece is hidden, written again to the others, and compared with the hidden one.

Likeness is the cosine of style profiles (metrics/style.py): by onset and drum for drums, by onset and duration and by
time and pitch for pitched parts. References are parts that nobody wrote for these bars:

    next     the same piece's own part in the bars that follow
    same     the part of another piece of the style
    other    the part of a piece of another style

A written part without notes that a profile counts has likeness 0; a reference has none. Of the hidden part, too, are
measured (`real`): the share of a pitched part's notes that are tones of the chord where they begin, notes a bar, and
notes that sound at a time. From StreamMUSE (https://github.com/StreamMUSE/eval) come the Jensen–Shannon divergence, in
nats, of pitches and of onsets (64 bins over the bars) from the hidden part's, and the share of the other parts' time
with a note of the part at a consonant interval, and with none at all.

Chords come with the other parts; those of files without chords were recognised in all parts, the hidden one too.
With `hear_chords` they are recognised in the other parts alone. A style counts once, by the mean over its pieces; a
piece without a style counts by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np

from evaluation.metrics.estimates import estimate, grouped, means
from evaluation.metrics.statistics import HARMONY, NOTES_A_BAR, SOUNDING, in_harmony
from evaluation.metrics.style import cosine, onset_drum, onset_duration, time_pitch
from evaluation.study.experiments import Experiment, models_for_language
from evaluation.study.form_and_infilling import held_out_piece
from evaluation.study.piece_jobs import Choice, Measure, draw_pieces, model_of, piece_experiment
from musicgen.completion import WholeIds
from musicgen.generation.request import Request
from musicgen.playable import Playable
from tokenization.analysis.chords import recognise
from tokenization.analysis.metres import bar_count, bar_lines
from tokenization.prepared import Prepared
from tokenization.score import Notes, Score, Track, excerpt

WRITTEN = "written"
REAL = "real"
BESIDE = (REAL, "next", "same", "other")
ROLES = ("bass", "drums", "other")
_BASSES = range(32, 40)  # General MIDI programs
_CONSONANCES = (0, 3, 4, 7, 8, 9)  # semitones, of the other part's note above the part's, modulo 12
_ONSET_BINS = 64
Row = dict[str, Any]
Others = Mapping[str, Notes | None]  # a part of other music, moved to begin at 0


def role(track: Track) -> str:
    """Return what a track does in a piece."""
    if track.is_drum:
        return "drums"
    return "bass" if track.program in _BASSES else "other"


def some_bars(score: Score, bars: int, start: int = 0) -> Score | None:
    """Return what begins in some bars, moved to begin at 0, and ends at their end; None where there are fewer."""
    if bar_count(score) < start + bars:
        return None
    line, end = bar_lines(score, start + bars)[[start, -1]]
    score = excerpt(score, int(line), int(end))
    notes = score.notes
    lasts = np.minimum(notes.end_ticks, end - line) - notes.onset_ticks
    return score.replace(notes=notes.replace(duration_ticks=lasts))


def hidden_parts(piece: Score) -> dict[str, int]:
    """Return the tracks that can be hidden, the busiest of each role, where another track plays too."""
    notes = np.bincount(piece.notes.track, minlength=len(piece.tracks))
    if np.count_nonzero(notes) < 2:
        return {}
    found: dict[str, int] = {}
    for track in np.argsort(-notes, kind="stable").tolist():
        if notes[track]:
            found.setdefault(role(piece.tracks[track]), track)
    return {name: found[name] for name in ROLES if name in found}


def with_chords_of_others(piece: Score, track: int) -> Score:
    """Return a piece with the chords that are recognised without a track."""
    others = piece.replace(notes=piece.notes[piece.notes.track != track])
    return piece.replace(markers=recognise(others))


def part_of(score: Score | None, track: int | None) -> Notes | None:
    """Return the notes of a track."""
    return None if score is None or track is None else score.notes[score.notes.track == track]


def compared(piece: Score, track: int, others: Others) -> list[Row]:
    """Return the likeness of a part in other music to that of a piece, a row a metric, and its share in harmony."""
    true, beat = piece.notes[piece.notes.track == track], piece.ticks_per_beat
    drums = piece.tracks[track].is_drum
    melodic = {"onset_duration": onset_duration, "time_pitch": time_pitch}
    profiles = {"onset_drum": onset_drum} if drums else melodic
    expected = {metric: profile(true, beat) for metric, profile in profiles.items()}

    def likeness(metric: str, own: Notes) -> float | None:
        return cosine(expected[metric], profiles[metric](own, beat))

    rows = _rows({metric: partial(likeness, metric) for metric in profiles}, others)
    rows = [_zero_where_lacking(row, bool(expected[row["metric"]].any())) for row in rows]
    if not drums:
        measure = {HARMONY: lambda own: in_harmony(own, piece.pitched, beat)}
        (row,) = _rows(measure, {REAL: true, **others})
        rows.append(_zero_where_lacking(row, row[REAL] is not None))
    return rows


def _rows(measures: Mapping[str, Callable[[Notes], float | None]], parts: Others) -> list[Row]:
    """Return a row a measure, with what it is of each part that there is."""
    return [
        {"metric": metric}
        | {name: None if notes is None else measure(notes) for name, notes in parts.items()}
        for metric, measure in measures.items()
    ]


def _zero_where_lacking(row: Row, wanted: bool) -> Row:
    """Return a row in which what was written, but has nothing that the hidden part has, counts as 0."""
    return {**row, WRITTEN: 0.0} if wanted and row.get(WRITTEN, 0) is None else row


def density(piece: Score, track: int, bars: int, others: Others) -> list[Row]:
    """Return how many notes a part has a bar and at a time, in a piece of so many bars and in other music as long."""
    ticks = int(bar_lines(piece, bars)[-1])
    measures = {
        NOTES_A_BAR: lambda own: len(own) / bars,
        SOUNDING: lambda own: float(own.duration_ticks.sum()) / ticks,
    }
    return _rows(measures, {REAL: part_of(piece, track), **others})


def streamed(piece: Score, track: int, bars: int, others: Others) -> list[Row]:
    """Return how far a pitched part's notes diverge from the hidden one's, and how it supports the other parts."""
    true = part_of(piece, track)
    if true is None or piece.tracks[track].is_drum:
        return []
    ticks = int(bar_lines(piece, bars)[-1])
    pitched = piece.pitched
    melody = pitched[pitched.track != track]

    def onsets(notes: Notes) -> np.ndarray:
        return np.minimum(notes.onset_ticks * _ONSET_BINS // ticks, _ONSET_BINS - 1)

    divergences = {
        "pitch_divergence": lambda own: _divergence(own.pitch, true.pitch, 128),
        "onset_divergence": lambda own: _divergence(onsets(own), onsets(true), _ONSET_BINS),
    }
    support = {
        name: (None, None) if own is None else _support(melody, own)
        for name, own in {REAL: true, **others}.items()
    }
    rows = _rows(divergences, others)
    for number, metric in enumerate(("consonant", "unsupported")):
        rows.append({"metric": metric, **{name: both[number] for name, both in support.items()}})
    return rows


def _divergence(ours: np.ndarray, true: np.ndarray, bins: int) -> float:
    """Return the Jensen–Shannon divergence of two sets of bins, 0 to ln 2; that of no notes is ln 2."""
    from scipy.spatial.distance import jensenshannon  # takes a second to import

    if not len(ours):
        return float(np.log(2))
    one, other = (np.bincount(places, minlength=bins) for places in (ours, true))
    return float(jensenshannon(one, other)) ** 2


def _support(melody: Notes, part: Notes) -> tuple[float | None, float | None]:
    """Return the share of a melody's time in notes with a consonant note of a part, and in notes with none at all."""
    time = melody.duration_ticks
    if not time.sum():
        return None, None
    together = (part.end_ticks > melody.onset_ticks[:, None]) & (
        part.onset_ticks < melody.end_ticks[:, None]
    )
    fits = np.isin((melody.pitch[:, None] - part.pitch) % 12, _CONSONANCES)
    shares = (together & fits).any(axis=1), ~together.any(axis=1)
    consonant, unsupported = (float(time[share].sum() / time.sum()) for share in shares)
    return consonant, unsupported


def summary(rows: Iterable[Row]) -> list[Row]:
    """Return for each part and metric the estimates over styles, and in how many styles the written one is likest."""
    result = []
    for (part, metric), own in grouped(rows, "part", "metric").items():
        by_style = {name: means(own, "style", name) for name in (WRITTEN, *BESIDE)}
        pairs = zip(by_style[WRITTEN], by_style["same"], strict=True)
        both = [(a, b) for a, b in pairs if a is not None and b is not None]
        result.append(
            {
                "part": part,
                "metric": metric,
                "pieces": len(own),
                **{name: asdict(estimate(values)) for name, values in by_style.items()},
                "above_same": sum(a > b for a, b in both),
                "of": len(both),
            }
        )
    return result


def accompaniment(
    playables: Sequence[Playable],
    choice: Choice,
    *,
    hide: Sequence[str],
    bars: int,
    hear_chords: bool = False,
) -> Experiment:
    """Have models write hidden parts of pieces, a job a model and piece."""
    able, left_out = models_for_language(playables, "ensemble", "accompaniment")
    chosen = _chosen(choice)
    if not chosen:
        raise ValueError(f"{choice.data} has no piece in {choice.place}; another --split may have")
    arguments = {"hide": list(hide), "bars": bars, "hear_chords": hear_chords}
    return piece_experiment(accompanied, able, choice, chosen, summary, left_out, **arguments)


def _chosen(choice: Choice) -> list[dict[str, Any]]:
    """Return pieces, each with one of its style and one of another, if there are."""
    random = np.random.default_rng(choice.seed)
    rows, places = draw_pieces(choice, random)
    styles = choice.prepared.pieces.style[rows]
    chosen = []
    for place in places[: choice.pieces]:
        same = np.flatnonzero((styles == styles[place]) & (np.arange(len(rows)) != place))
        other = np.flatnonzero(styles != styles[place])
        chosen.append(
            {
                "row": int(rows[place]),
                "same": int(rows[random.choice(same)]) if len(same) else None,
                "other": int(rows[random.choice(other)]) if len(other) else None,
            }
        )
    return chosen


def accompanied(
    *,
    model: str,
    data: str,
    device: str,
    row: int,
    same: int | None,
    other: int | None,
    hide: Sequence[str],
    bars: int,
    hear_chords: bool,
    seed: int,
) -> Measure:
    """Return how what a model writes for each hidden part of a piece compares with it and with the references."""
    loaded, prepared = model_of(model, device), Prepared.open(data)
    speaker = loaded.language
    whole = held_out_piece(data, row, speaker)
    bars = min(bars, whole.bars)  # the others are as long as the piece

    def music(number: int | None) -> Score | None:
        score = None if number is None else held_out_piece(data, number, speaker).score
        return None if score is None else some_bars(score, bars)

    piece, found = some_bars(whole.score, bars), []
    if piece is None:
        return []
    ids = speaker.encode(speaker.arrange(piece)).ids
    piece = speaker.decode(ids)
    names = speaker.part_names(ids)
    hidden = {name: track for name, track in hidden_parts(piece).items() if name in hide}
    works = []
    for track in hidden.values():
        if hear_chords:
            heard = speaker.arrange(with_chords_of_others(piece, track))
            ids = speaker.encode(heard).ids
        goal = speaker.accompanying(ids, [names[track]])
        works.append(WholeIds(loaded, goal, Request(seed=seed)))
    yield works
    following, others = some_bars(whole.score, bars, bars), [music(same), music(other)]
    title, style = prepared.name(row), int(prepared.pieces.style[row])
    about = {"piece": title, "style": style if style >= 0 else title}
    for (name, track), work in zip(hidden.items(), works, strict=True):
        beside: dict[str, Notes | None] = {
            "written": part_of(speaker.decode(work.whole()), track),
            "next": part_of(following, track),
        }
        for label, score in zip(("same", "other"), others, strict=True):
            there = None if score is None else hidden_parts(score).get(name)
            beside[label] = part_of(score, there)
        rows = compared(piece, track, beside) + density(piece, track, bars, beside)
        rows += streamed(piece, track, bars, beside)
        found += [{**about, "part": name, **one} for one in rows]
    return found
