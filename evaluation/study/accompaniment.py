"""Accompaniment: one part of a real piece is hidden, generated given the others, and compared with the hidden part.

tables.py describes the references and the measures. A generated part without notes in a style profile has likeness 0; a
reference without them has none. The divergences, of onsets in 64 bins over all bars, and the fractions of sounding time
are those of StreamMUSE (https://github.com/StreamMUSE/eval).

Chords are given with the other parts. For files without chords they were recognised in all parts, including the hidden
one; with `hear_chords` they are recognised in the other parts only. A piece without a style counts as a style of its
own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from evaluation.metrics.style import METRICS, profiles, similarities
from evaluation.study.piece_jobs import Measure, TokenCompletion, held_out_piece, model_of, style_of
from musicgen.generation.request import Request
from tokenization.analysis.chords import PITCH_CLASSES, TONES
from tokenization.analysis.hearing import chord_changes_in_four_four, recognise
from tokenization.analysis.metres import bar_count, bar_lines
from tokenization.analysis.parts import role
from tokenization.prepared import Prepared
from tokenization.score import Notes, Score, excerpt

WRITTEN = "written"
REAL = "real"
TITLES = {
    **METRICS,
    "in_harmony": "in harmony",
    "notes_a_bar": "notes per bar",
    "sounding": "polyphony",
    "pitch_divergence": "divergence of pitches",
    "onset_divergence": "divergence of onsets",
    "consonant": "consonant",
    "unsupported": "unsupported",
}
TO_THE_HIDDEN_PART = {*METRICS, "pitch_divergence", "onset_divergence"}
ROLES = ("bass", "drums", "other")
_CONSONANCES = (0, 3, 4, 7, 8, 9)  # semitones from this part up to the other part, modulo 12
_ONSET_BINS = 64
Row = dict[str, Any]


def cut_bars(score: Score, bars: int, start: int = 0) -> Score | None:
    """Return the notes that begin in some bars, shifted to 0 and cut at the end; None if the score is too short."""
    if bar_count(score) < start + bars:
        return None
    line, end = bar_lines(score, start + bars)[[start, -1]]
    score = excerpt(score, int(line), int(end))
    notes = score.notes
    duration = np.minimum(notes.end_ticks, end - line) - notes.onset_ticks
    return score.replace(notes=notes.replace(duration_ticks=duration))


def hidden_parts(piece: Score) -> dict[str, int]:
    """Return the busiest track of each role, to be hidden; none if fewer than two tracks play."""
    notes = np.bincount(piece.notes.track, minlength=len(piece.tracks))
    if np.count_nonzero(notes) < 2:
        return {}
    found: dict[str, int] = {}
    for track in np.argsort(-notes, kind="stable").tolist():
        if notes[track]:
            found.setdefault(role(piece.tracks[track]), track)
    return {name: found[name] for name in ROLES if name in found}


def with_chords_of_others(piece: Score, track: int) -> Score:
    """Return a piece with chords recognised from all tracks but one."""
    others = piece.replace(notes=piece.notes[piece.notes.track != track])
    return piece.replace(markers=recognise(others))


def part_of(score: Score | None, track: int | None) -> Notes | None:
    """Return the notes of a track."""
    return None if score is None or track is None else score.notes[score.notes.track == track]


def compared(piece: Score, track: int, bars: int, parts: Mapping[str, Notes | None]) -> list[Row]:
    """Return one row per measure, with its value for the hidden part (`real`) and for each other part."""
    found = {
        name: {} if notes is None else _measures(piece, track, bars, notes)
        for name, notes in {REAL: part_of(piece, track), **parts}.items()
    }
    rows = []
    for measure, real in found[REAL].items():
        row = {name: values.get(measure) for name, values in found.items()}
        if real is not None and row.get(WRITTEN, 0) is None:
            row[WRITTEN] = 0.0  # a silent part
        if measure in TO_THE_HIDDEN_PART:
            row[REAL] = None
        rows.append({"measure": measure, **row})
    return rows


def _measures(piece: Score, track: int, bars: int, own: Notes) -> dict[str, float | None]:
    """Return the measures of a part that is played instead of a track of a piece."""
    is_drum, ticks = piece.tracks[track].is_drum, int(bar_lines(piece, bars)[-1])
    pitched, hidden = piece.pitched, piece.notes[piece.notes.track == track]
    expected, ours = (
        profiles(piece.replace(notes=notes.replace(track=np.full(len(notes), track))))
        for notes in (hidden, own)
    )
    alike = similarities(expected, ours).items()
    found = {metric: value for metric, value in alike if (metric == "onset_drum") == is_drum}
    found["notes_a_bar"] = len(own) / bars
    found["sounding"] = float(own.duration_ticks.sum()) / ticks
    if is_drum:
        return found

    def onsets(notes: Notes) -> np.ndarray:
        return np.minimum(notes.onset_ticks * _ONSET_BINS // ticks, _ONSET_BINS - 1)

    consonant, unsupported = _support(pitched[pitched.track != track], own)
    return {
        **found,
        "in_harmony": in_harmony(own, pitched, piece.ticks_per_beat),
        "pitch_divergence": _divergence(own.pitch, hidden.pitch, 128),
        "onset_divergence": _divergence(onsets(own), onsets(hidden), _ONSET_BINS),
        "consonant": consonant,
        "unsupported": unsupported,
    }


def in_harmony(part: Notes, pitched: Notes, ticks_per_beat: int) -> float | None:
    """Return the fraction of a part's notes that are tones of the chord of the piece at their onset.

    Chords are recognised from all pitched notes of the real piece, including the hidden part; because of passing notes
    the fraction of the true part stays below 1. Bars have four beats. None if no note begins during a chord.
    """
    if not len(pitched):
        return None
    ticks, chords = chord_changes_in_four_four(pitched, ticks_per_beat)
    change = np.searchsorted(ticks, part.onset_ticks, side="right") - 1
    tones = TONES[chords[np.maximum(change, 0)]]  # (N, 12)
    counted = tones.any(axis=1) & (change >= 0)
    if not counted.any():
        return None
    inside = tones[np.arange(len(part)), part.pitch % PITCH_CLASSES]
    return float(inside[counted].mean())


def _divergence(ours: np.ndarray, true: np.ndarray, bins: int) -> float:
    """Return the Jensen–Shannon divergence of two distributions over bins, 0 … ln 2; ln 2 without notes."""
    from scipy.spatial.distance import jensenshannon  # takes a second to import

    if not (len(ours) and len(true)):
        return float(np.log(2))
    one, other = (np.bincount(values, minlength=bins) for values in (ours, true))
    return float(jensenshannon(one, other)) ** 2


def _support(melody: Notes, part: Notes) -> tuple[float | None, float | None]:
    """Return the fractions of a melody's time in notes that meet a consonant note of a part, and that meet no note."""
    time = melody.duration_ticks
    if not time.sum():
        return None, None
    together = (part.end_ticks > melody.onset_ticks[:, None]) & (
        part.onset_ticks < melody.end_ticks[:, None]
    )
    fits = np.isin((melody.pitch[:, None] - part.pitch) % 12, _CONSONANCES)
    masks = (together & fits).any(axis=1), ~together.any(axis=1)
    consonant, unsupported = (float(time[mask].sum() / time.sum()) for mask in masks)
    return consonant, unsupported


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
    """Compare the parts that a model generates with the hidden parts of a piece and with the references."""
    loaded, prepared = model_of(model, device), Prepared.open(data)
    language = loaded.language
    whole = held_out_piece(data, row, language)
    bars = min(bars, whole.bars)  # the references are cut to the same length

    def music(number: int | None) -> Score | None:
        score = None if number is None else held_out_piece(data, number, language).score
        return None if score is None else cut_bars(score, bars)

    piece, found = cut_bars(whole.score, bars), []
    if piece is None:
        return []
    ids = language.encode(language.arrange(piece)).ids
    piece = language.decode(ids)
    names = language.part_names(ids)
    hidden = {name: track for name, track in hidden_parts(piece).items() if name in hide}
    works = []
    for track in hidden.values():
        if hear_chords:
            ids = language.encode(language.arrange(with_chords_of_others(piece, track))).ids
        goal = language.accompanying(ids, [names[track]])
        works.append(TokenCompletion(loaded, goal, Request(seed=seed)))
    yield works
    following, others = cut_bars(whole.score, bars, bars), [music(same), music(other)]
    about = {"piece": prepared.name(row), "style": style_of(prepared, row)}
    for (name, track), work in zip(hidden.items(), works, strict=True):
        parts: dict[str, Notes | None] = {
            "written": part_of(language.decode(work.whole()), track),
            "next": part_of(following, track),
        }
        for label, score in zip(("same", "other"), others, strict=True):
            their_track = None if score is None else hidden_parts(score).get(name)
            parts[label] = part_of(score, their_track)
        rows = compared(piece, track, bars, parts)
        found += [{**about, **one, "measure": f"{name}: {TITLES[one['measure']]}"} for one in rows]
    return found
