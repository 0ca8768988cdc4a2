"""Write a score as MusicXML for notation programs: as a player reads it, or with its exact lengths."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tokenization.analysis.spelling import keys_of
from tokenization.edit import Bar
from tokenization.limits import GENEROUS
from tokenization.notation.musicxml.as_read import (
    Played,
    drum_voices,
    rounded,
    split_hands,
    staff_voices,
)
from tokenization.notation.musicxml.harmony import symbols_of
from tokenization.notation.musicxml.instruments import (
    MIDDLE_C,
    Layout,
    are_hands,
    hands_name,
    layout_of,
    name_of,
)
from tokenization.notation.musicxml.marks import add, marks_of, tempos_of
from tokenization.notation.musicxml.part_writing import PartWriter, Staff, write_entry
from tokenization.notation.musicxml.rhythm import DIVISIONS, EIGHTH
from tokenization.notation.musicxml.voices import voices_of
from tokenization.notation.written import own_metre
from tokenization.score import Notes, Score, Track

_DOCTYPE = (
    b'<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE score-partwise PUBLIC '
    b'"-//Recordare//DTD MusicXML 4.0 Partwise//EN" "http://www.musicxml.org/dtds/partwise.dtd">\n'
)
# Height of a staff: smaller with more staves, so that two systems fit on a page.
LARGEST_MM, SMALLEST_MM, SYSTEM_MM = 7, 4.5, 42
SIXTEENTH, SHORTEST = DIVISIONS // 4, DIVISIONS // 8  # bars last whole numbers of 32nds


@dataclass(frozen=True)
class Part:
    """A part to write: one track of the score, or the two hands of a keyboard player."""

    track: Track
    tracks: tuple[int, ...]  # of the score
    notes: Notes
    layout: Layout


def write_musicxml(score: Score, *, title: str = "", made: str = "", exact: bool = False) -> bytes:
    """Encode a score as MusicXML, with `made` as its encoding description; `title` is used if it has none.

    Rhythms are simplified for reading. With `exact`, times are only rounded to 24ths of a beat, and each staff has up
    to four voices, the limit of notation programs: a fifth simultaneous note cuts short the one that has sounded
    longest. Known chords are written above the first pitched part.
    """
    if not len(score.notes):
        raise ValueError("there are no notes to write: a score needs at least one")
    fine, score = score, score.rescaled(DIVISIONS)
    parts = _parts(score)
    bars = _bars(score, score.end_ticks)
    if (count := len(bars) * len(parts)) > GENEROUS.bars:
        raise ValueError(
            f"the music has {count:,} bars in all its parts, but a score can have at most {GENEROUS.bars:,}: "
            f"use an excerpt"
        )
    staves, swings = [_exact(part) for part in parts], False
    if not exact:
        bars = _bars(score, score.end_ticks + 1 + bars[-1].stop - bars[-1].start)
        staves, swings = _all_as_read(fine, parts, bars)
        bars = _with_pickup(_as_needed(bars, staves), staves)
    return _encoded(score, parts, staves, bars, (title, made), swings=swings, exact=exact)


def _encoded(
    score: Score, parts: Sequence[Part], staves: Sequence[Sequence[Staff]], bars: Sequence[Bar],
    heading: tuple[str, str], *, swings: bool, exact: bool,
) -> bytes:  # fmt: skip
    root = _head(score, *heading)
    _write_size(root, sum(map(len, staves)))
    part_list = add(root, "part-list")
    keys, symbols = keys_of(score), symbols_of(score)
    symbols = [(max(at, bars[0].start), name) for at, name in symbols]
    bearing = next(
        (n for n, part in enumerate(parts) if not part.track.is_drum), -1
    )  # of chord symbols
    elements = 0
    for number, part in enumerate(parts):
        key = f"P{number + 1}"
        write_entry(part_list, key, part.track, part.notes, number + 1)
        written = [(at, one.transposed(part.layout.transposed)) for at, one in keys]
        writer = PartWriter(part.track, staves[number], written, key, part.layout)
        writer.symbols = symbols if number == bearing else ()
        writer.marks = marks_of(score, part.tracks, staves[number], bars)
        if not number:
            writer.marks.tempos = tempos_of(score, bars, exact=exact)
            writer.marks.words = [(bars[0].start, "Swing")] * swings
        element = add(root, "part", id=key)
        for index, bar in enumerate(bars):
            measure = writer.measure(index, bar)
            measure.set("number", str(index + (not bars[0].is_pickup)))
            element.append(measure)
            elements += sum(1 for _ in measure.iter())
        if elements > GENEROUS.elements:
            raise ValueError(
                f"the score would have over {GENEROUS.elements:,} elements, more than can be read: use an excerpt"
            )
        write_final_bar_line(element[-1])
    ET.indent(root)
    data = _DOCTYPE + ET.tostring(root, encoding="unicode").encode() + b"\n"
    if len(data) > GENEROUS.xml_bytes:
        raise ValueError(
            f"the score would have over {GENEROUS.xml_bytes:,} bytes, more than can be read: use an excerpt"
        )
    return data


def _head(score: Score, title: str, made: str) -> ET.Element:
    """Return the root with the title, the composer and the program."""
    root = ET.Element("score-partwise", version="4.0")
    texts = score.texts
    if texts.title or title:
        add(add(root, "work"), "work-title", texts.title or title)
    identification = add(root, "identification")
    if texts.composer:
        add(identification, "creator", texts.composer, type="composer")
    encoding = add(identification, "encoding")
    add(encoding, "software", "musicgen")
    if made:
        add(encoding, "encoding-description", made)
    return root


def _write_size(root: ET.Element, staves: int) -> None:
    """Write the height of staves if programs would draw so many of them too large."""
    height = max(SYSTEM_MM / staves, SMALLEST_MM)
    if height < LARGEST_MM:
        scaling = add(add(root, "defaults"), "scaling")
        add(scaling, "millimeters", f"{height:.1f}")
        add(scaling, "tenths", "40")


def write_final_bar_line(measure: ET.Element) -> None:
    """Write the line at the end of the music."""
    line = add(measure, "barline", location="right")
    add(line, "bar-style", "light-heavy")


def _parts(score: Score) -> list[Part]:
    """Return the parts of a score: its tracks with notes, those of the two hands of a player together."""
    used = np.unique(score.notes.track).tolist()
    found: list[Part] = []
    for index in used:
        track, notes = score.tracks[index], score.notes[score.notes.track == index]
        if found and len(found[-1].tracks) == 1 and are_hands(found[-1].track, track):
            first = found[-1]
            name = (
                first.track.name
                if track.name.startswith(first.track.name)
                else hands_name(first.track)
            )
            both = replace(first.track, name=name, sources=first.track.sources + track.sources)
            layout = layout_of(replace(both, name="keys"), notes)
            found[-1] = Part(
                both, (*first.tracks, index), Notes.concatenate([first.notes, notes]), layout
            )
        else:
            layout = layout_of(track, notes)
            named = replace(track, name=name_of(track, layout))
            found.append(Part(named, (index,), notes, layout))
    return found


# The voices of all parts.


def staves_of(part: Part, bars: Sequence[Bar], *, exact: bool = False) -> list[Staff]:
    """Return the voices of each staff of a new part, or of new notes: in divisions, with their onsets."""
    if exact:
        return _exact(part)
    return _as_read(part, [rounded(part.notes, bars, keeps_onsets=True)[0]], bars)


def _exact(part: Part) -> list[Staff]:
    """Return the voices of each staff with exact lengths; notes of one track on two staves are divided at middle C."""
    notes, by_staff = part.notes, [part.notes]
    if len(part.tracks) > 1:
        by_staff = [notes[notes.track == track] for track in part.tracks]
    elif len(part.layout.clefs) > 1:
        by_staff = [notes[notes.pitch >= MIDDLE_C], notes[notes.pitch < MIDDLE_C]]
    return [voices_of(some, drums=part.track.is_drum) for some in by_staff]


def _as_read(part: Part, by_staff: Sequence[Sequence[Played]], bars: Sequence[Bar]) -> list[Staff]:
    if part.track.is_drum:
        return [drum_voices(by_staff[0], bars)]
    if len(by_staff) < len(part.layout.clefs):
        by_staff = split_hands(by_staff[0], bars)
    return [staff_voices(some, bars, is_single=part.layout.is_single) for some in by_staff]


def _all_as_read(
    score: Score, parts: Sequence[Part], bars: Sequence[Bar]
) -> tuple[list[list[Staff]], bool]:
    """Return the voices of each staff as a player reads them, and whether eighths swing."""
    per_division = score.ticks_per_beat / DIVISIONS
    rows, swings = rounded(score.notes, bars, per_division, may_swing=True)
    by_track: dict[int, list[Played]] = {}
    for row in rows:
        by_track.setdefault(row.track, []).append(row)
    return [
        _as_read(part, [by_track[track] for track in part.tracks], bars) for part in parts
    ], swings


# The bars.


def _bars(score: Score, end: int) -> list[Bar]:
    """Return the bars of a score up to an end, by its time signatures."""
    changes = {  # rounded to sixteenths, since a rounding error must not become a bar
        SIXTEENTH * round(at / SIXTEENTH): (n, d)
        for at, n, d in zip(*(c.tolist() for c in score.meters.columns), strict=True)
    }
    ticks = sorted(changes)
    bars: list[Bar] = []
    at, time = 0, (4, 4)
    while at < end or not bars:
        passed = bisect_right(ticks, at)
        new = changes[ticks[passed - 1]] if passed else time
        full = 4 * DIVISIONS * new[0] / new[1]
        length = SHORTEST * max(1, round(full / SHORTEST))
        if (
            length != full
        ):  # the time signature must match the length, or all later bars would shift
            new = own_metre(length, (4, 4), DIVISIONS)
        if passed < len(ticks) and ticks[passed] - at < length:  # a change cuts the bar short
            length = ticks[passed] - at
            new = own_metre(length, new, DIVISIONS)
        bars.append(Bar(at, at + length, new, not bars or new != time))
        at, time = at + length, new
    return bars


def _as_needed(bars: Sequence[Bar], staves: Sequence[Sequence[Staff]]) -> list[Bar]:
    """Return the bars up to the last note; notes are cut at their end."""
    chords = [chord for part in staves for staff in part for voice in staff for chord in voice]
    last = max(chord.start for chord in chords)
    end = max(chord.end for chord in chords)
    kept = [bar for bar in bars if bar.start < end or bar.start <= last]
    for chord in chords:
        chord.end = min(chord.end, kept[-1].stop)
    return kept


def _with_pickup(bars: list[Bar], staves: Sequence[Sequence[Staff]]) -> list[Bar]:
    """Shorten the first bar to a pickup if its first half is silent."""
    first, *others = bars
    onset = min(
        chord.start for part in staves for staff in part for voice in staff for chord in voice
    )
    silent = (onset - first.start) // EIGHTH * EIGHTH
    if not others or 2 * silent < first.stop - first.start or onset >= first.stop:
        return bars
    return [first._replace(start=first.start + silent, is_pickup=True), *others]
