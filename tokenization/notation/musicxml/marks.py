"""What stands above and below the notes of a part: tempos, swing, dynamics, pedals and words."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import NamedTuple

import numpy as np

from tokenization.edit import Bar
from tokenization.notation.musicxml.rhythm import EIGHTH, QUARTER, is_compound
from tokenization.notation.musicxml.voices import Chord
from tokenization.notation.written import DYNAMICS
from tokenization.score import Score, merged_spans

NOTICED = 0.03  # the least change of tempo that is shown
NEAR = QUARTER  # divisions from a syllable to its note
SHOWN = ("pp", "p", "mp", "mf", "f", "ff")
LOUDER = (
    12  # the least difference of velocities from the dynamics in force for which others are written
)
HELD = 2  # bars in which the music is so at least


class Tempo(NamedTuple):
    """A tempo in quarters per minute; those of a ritardando are only played."""

    at: int
    per_minute: float
    is_shown: bool


class Syllable(NamedTuple):
    """A syllable, and how it belongs to its word: single, begin, middle or end."""

    text: str
    syllabic: str


@dataclass
class Marks:
    """The marks of a part; times are in divisions."""

    tempos: Sequence[Tempo] = ()
    words: Sequence[tuple[int, str]] = ()
    dynamics: Sequence[tuple[int, str]] = ()
    pedals: Sequence[tuple[int, str]] = ()  # start or stop
    syllables: Mapping[int, Syllable] = field(default_factory=dict)  # by the onset of their notes


def tempos_of(score: Score, bars: Sequence[Bar], *, exact: bool) -> list[Tempo]:
    """Return the tempos of a score; only those that last are shown, unless it is exact."""
    rows = [*zip(*(column.tolist() for column in score.tempos.columns), strict=True)]
    starts, shown, found = [bar.start for bar in bars], 0.0, []
    for (at, bpm), following in zip_longest(rows, rows[1:]):
        at = max(at, bars[0].start)
        bar = bars[max(0, bisect_left(starts, at + 1) - 1)]
        lasts = following is None or following[0] - at >= bar.stop - bar.start
        is_shown = exact or not shown or (lasts and abs(bpm / shown - 1) >= NOTICED)
        shown = bpm if is_shown else shown
        if at < bars[-1].stop:
            found.append(Tempo(at, bpm, is_shown))
    return found


def marks_of(
    score: Score,
    tracks: Sequence[int],
    staves: Sequence[Sequence[Sequence[Chord]]],
    bars: Sequence[Bar],
) -> Marks:
    """Return the words, dynamics and pedals of a part, which plays some tracks of the score."""
    onsets = sorted({chord.start for voice in staves[0] for chord in voice})
    sources = {source for n in tracks for source in score.tracks[n].sources or (n,)}
    return Marks(
        syllables=_syllables(score, sources, onsets),
        dynamics=[*_dynamics(score, tracks, bars)],
        pedals=_pedals(score, tracks, bars),
    )


def _syllables(score: Score, sources: set[int], onsets: Sequence[int]) -> dict[int, Syllable]:
    found: dict[int, Syllable] = {}
    continued = False
    for one in score.texts.lyrics:
        if one.source not in sources or not onsets:
            continue
        place = bisect_left(onsets, one.onset_ticks)
        nearest = min(
            onsets[max(0, place - 1) : place + 1], key=lambda at: abs(at - one.onset_ticks)
        )
        if abs(nearest - one.onset_ticks) > NEAR:
            continue
        kind = {
            (False, False): "single",
            (False, True): "begin",
            (True, True): "middle",
            (True, False): "end",
        }
        found.setdefault(nearest, Syllable(one.text, kind[continued, one.continues]))
        continued = one.continues
    return found


def _dynamics(
    score: Score, tracks: Sequence[int], bars: Sequence[Bar]
) -> Iterator[tuple[int, str]]:
    """Yield the dynamics of a part at the bars from which it is louder or softer; none if all of it is equally loud."""
    notes = score.notes[np.isin(score.notes.track, tracks)]
    if len(np.unique(notes.velocity)) < 2:
        return
    place = np.searchsorted([bar.start for bar in bars], notes.onset_ticks, side="right") - 1
    numbers, in_force = np.unique(place).tolist(), ""
    loud = np.array([notes.velocity[place == number].mean() for number in numbers])
    for n, number in enumerate(numbers):
        following = loud[n : n + HELD]
        louder = following - DYNAMICS[in_force] if in_force else np.array([np.inf])
        if (louder > LOUDER).all() or (louder < -LOUDER).all():
            name = min(SHOWN, key=lambda one: abs(DYNAMICS[one] - following.mean()))
            first = int(notes.onset_ticks[place == number].min())
            if name != in_force:
                yield max(first, bars[max(0, number)].start), name
            in_force = name


def _pedals(score: Score, tracks: Sequence[int], bars: Sequence[Bar]) -> list[tuple[int, str]]:
    """Return where the pedal goes down and up, on eighths; a short release between two is a change of pedal."""
    pedals = score.pedals[np.isin(score.pedals.track, tracks)]
    if not len(pedals):
        return []
    ends = pedals.onset_ticks + pedals.duration_ticks
    spans: list[tuple[int, int]] = []
    for down, up in zip(
        *(one.tolist() for one in merged_spans(pedals.onset_ticks, ends)), strict=True
    ):
        start, stop = EIGHTH * round(down / EIGHTH), EIGHTH * round(up / EIGHTH)
        if bars[0].start <= start < stop <= bars[-1].stop and (not spans or start >= spans[-1][1]):
            spans.append((start, stop))
    return [mark for start, stop in spans for mark in ((start, "start"), (stop, "stop"))]


# Elements.


def add(parent: ET.Element, tag: str, text: object = None, **attributes: str) -> ET.Element:
    """Add an element to another; characters that XML does not allow are dropped."""
    element = ET.SubElement(parent, tag, attributes)
    if text is not None:
        element.text = "".join(c for c in str(text) if c.isprintable() or c in "\n\t")
    return element


def write_marks(measure: ET.Element, marks: Marks, bar: Bar, staves: int) -> None:
    """Write the directions of a bar, before its notes."""
    for tempo in marks.tempos:
        if bar.start <= tempo.at < bar.stop:
            _write_tempo(measure, tempo, bar)
    for at, words in marks.words:
        if bar.start <= at < bar.stop:
            direction = _direction(measure, "above", at - bar.start)
            add(direction[0], "words", words, **{"font-weight": "bold"})
    for at, name in marks.dynamics:
        if bar.start <= at < bar.stop:
            direction = _direction(measure, "below", at - bar.start)
            add(add(direction[0], "dynamics"), name)
    for at, kind in marks.pedals:
        # A release on the bar line belongs to the bar before it.
        if bar.start <= at < bar.stop if kind == "start" else bar.start < at <= bar.stop:
            _move(measure, "forward", at - bar.start)
            direction = _direction(measure, "below", 0)
            add(direction[0], "pedal", type=kind, line="yes")
            if staves > 1:
                add(direction, "staff", staves)
            _move(measure, "backup", at - bar.start)


def _move(measure: ET.Element, tag: str, divisions: int) -> None:
    if divisions:
        add(add(measure, tag), "duration", divisions)


def _direction(measure: ET.Element, placement: str, offset: int) -> ET.Element:
    direction = add(measure, "direction", placement=placement)
    add(direction, "direction-type")
    if offset:
        add(direction, "offset", offset)
    return direction


def _write_tempo(measure: ET.Element, tempo: Tempo, bar: Bar) -> None:
    if not tempo.is_shown:
        _move(measure, "forward", tempo.at - bar.start)
        direction = _direction(measure, "above", 0)
        add(direction[0], "words", " ")  # without words, MuseScore shows the tempo
        add(direction, "sound", tempo=f"{tempo.per_minute:g}")
        _move(measure, "backup", tempo.at - bar.start)
        return
    unit, dots, quarters = beat_of(bar.time)
    direction = _direction(measure, "above", 0)
    metronome = add(direction[0], "metronome")
    add(metronome, "beat-unit", unit)
    if dots:
        add(metronome, "beat-unit-dot")
    add(metronome, "per-minute", f"{tempo.per_minute / quarters:.0f}")
    if tempo.at > bar.start:
        add(direction, "offset", tempo.at - bar.start, sound="yes")
    add(direction, "sound", tempo=f"{tempo.per_minute:g}")


def beat_of(time: tuple[int, int]) -> tuple[str, bool, float]:
    """Return the note value of the beat of a metre, whether it has a dot, and its length in quarters."""
    if is_compound(time):
        return "quarter", True, 1.5
    kinds = {1: "whole", 2: "half", 4: "quarter", 8: "eighth", 16: "16th", 32: "32nd"}
    return kinds.get(time[1], "quarter"), False, 4 / time[1] if time[1] in kinds else 1.0
