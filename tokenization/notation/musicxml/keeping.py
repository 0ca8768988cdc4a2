"""Write new music into the MusicXML score that it continues, changes or accompanies, and keep the rest of its text.

Text is only inserted and removed: bars at the end, notes in rewritten bars, new parts. New bars have 24 divisions per
beat. Ties across a cut are removed. A compressed score becomes an uncompressed one.

A score with repeats is shorter as written than as played. It is kept only if the new music continues all of it, so that
the new bars follow its last one. Otherwise the played music is written out without repeats.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from itertools import accumulate
from math import inf
from xml.sax.saxutils import quoteattr

import numpy as np

from tokenization.analysis.chords import named
from tokenization.edit import Bar, Edit, NotKept, new_bars
from tokenization.midi.limits import GENEROUS
from tokenization.notation.musicxml.harmony import Symbol, harmony, symbols_of
from tokenization.notation.musicxml.reading import read_written, xml_of
from tokenization.notation.musicxml.text import Element, Measure, PartText, ScoreText
from tokenization.notation.musicxml.writing import (
    DIVISIONS,
    Key,
    PartWriter,
    key_of,
    write_entry,
)
from tokenization.notation.played import bar_layout, played
from tokenization.notation.written import TICKS_PER_BEAT
from tokenization.score import Notes, Score, Track

NAME = "the score"
MIDDLE_FIFTH = 2  # D, the middle of the C major scale on the line of fifths
Change = tuple[int, int, bytes]  # the byte range to remove, and its replacement


class KeptMusicXml:
    """A score that new music is written into; call `edited` once."""

    def __init__(self, edit: Edit) -> None:
        """Locate the bars of the score; raises NotKept if it cannot be kept."""
        self.edit, self.heard = edit, edit.heard
        xml = xml_of(edit.original, GENEROUS)
        self.written = read_written(xml, GENEROUS, NAME)
        self.layout = bar_layout(self.written)
        self.read = played(self.written, self.layout)
        self.text = ScoreText(xml)
        if [len(part.measures) for part in self.text.parts] != [
            len(p.bars) for p in self.written.parts
        ]:
            raise NotKept("its parts are not written one after the other")
        tracks = [len(part.tracks) for part in self.written.parts]
        self._first_track = [0, *accumulate(tracks)]
        self._has_repeats = self.layout.order != [*range(len(self.written.bars))]
        self._changes: list[Change] = []
        self._symbols: Sequence[Symbol] = ()  # the chords of the new music

    def edited(self, score: Score, texts: Sequence[str] = ()) -> bytes:
        """Return the text with the new notes of a score, and with texts as comments at its end.

        A continuation is written into new bars after the seam. Otherwise the new notes replace those of the parts that
        the model read in the new bars, or those of the new tracks.
        """
        edit, layout = self.edit, self.layout
        first, stop, order = 0, len(self.written.bars), layout.order
        bars: list[Bar] = []
        if edit.is_continuation:
            kept = self._bars_before(edit.start)
            if self._has_repeats and kept != len(order):
                raise NotKept("it has repeats, which are kept only if all of it is continued")
            last, order = order[kept - 1], order[:kept]
            bars = [
                new._replace(
                    start=int(self._divisions(new.start)), stop=int(self._divisions(new.stop))
                )
                for new in new_bars(score, edit.start, layout.times[last], 0.0)
            ]
            first = stop = stop if self._has_repeats else last + 1
            end = layout.starts[kept - 1] + layout.lengths[last]
            for part in self.text.parts:
                self._cut_after(part, stop, max(0, int(edit.tick_of(edit.start)) - end))
        elif self._has_repeats:
            change = "bars are rewritten" if edit.stop is not None else "parts are added"
            raise NotKept(f"it has repeats, which are lost if {change}")
        elif edit.stop is not None:
            first, stop = self._bars_before(edit.start), self._bars_before(edit.stop)
        new = edit.new_in(score).timed(self._divisions)
        if self._has_new_chords(score):
            self._symbols = symbols_of(new, int(self._divisions(edit.start)))
        self._write(new, bars, first, stop)
        return self._checked(texts, order, stop + len(bars))

    # Times and positions.

    def _divisions(self, ticks: np.ndarray | int) -> np.ndarray:
        """Convert ticks of the score to divisions of the played score."""
        return np.rint(self.edit.tick_of(ticks) * DIVISIONS / TICKS_PER_BEAT).astype(np.int64)

    def _has_new_chords(self, score: Score) -> bool:
        """Return whether to write chords: the file has some or they were requested, and they are new or changed."""
        edit = self.edit
        if edit.tracks is not None or not (named(self.read) or edit.over_chords):
            return False
        stop = inf if edit.stop is None else edit.stop
        old, new = (
            [marker for marker in music.markers if edit.start <= marker.onset_ticks < stop]
            for music in (self.heard, score)
        )
        return edit.is_continuation or old != new

    def _bars_before(self, ticks: int) -> int:
        """Return the number of bars played before a tick; raises NotKept if it is not on a bar line."""
        at, starts, last = int(self.edit.tick_of(ticks)), self.layout.starts, self.layout.order[-1]
        top, low = self.layout.times[last]
        end = starts[-1] + max(self.layout.lengths[last], 4 * TICKS_PER_BEAT * top // low)
        count = int(np.searchsorted([*starts, end], at - 1))  # tolerates rounding
        if at > 0 and (count > len(starts) or abs([*starts, end][count] - at) > 1):
            raise NotKept("its bar lines differ from those of the new music")
        return count

    def _part_of(self, source: int) -> int:
        return next(n for n, first in enumerate(self._first_track[1:]) if source < first)

    # Changes.

    def _write(self, score: Score, bars: list[Bar], first: int, stop: int) -> None:
        """Write the notes of a score into the new bars, into bars first … stop − 1 of replaced parts, and new parts."""
        replaced = {self._part_of(source) for source in self.edit.replaced}
        by_part: dict[int, list[Notes]] = {}
        added: list[tuple[Track, Notes]] = []
        pitches = {
            source: self.read.notes.pitch[self.read.notes.track == track]
            for track, read in enumerate(self.read.tracks)
            for source in read.sources
        }
        sources = {source: track for track in self.read.tracks for source in track.sources}
        for track, source, notes in self.edit.assign(score, sources, pitches):
            if source is None:
                added.append((track, notes))
            else:
                by_part.setdefault(self._part_of(source), []).append(notes)
        for number, part in enumerate(self.text.parts):
            own = Notes.concatenate(by_part.get(number, []))
            writer = self._writer(number, part, own, stop)
            if bars:
                measures = [writer.measure(number, bar) for number, bar in enumerate(bars, stop)]
                self._number(measures, part.measures[stop - 1].number)
                text = b"".join(_text(measure) for measure in measures)
                self._changes.append((part.end, part.end, text))
            if number in replaced and first < stop:
                self._replace(part, writer, first, stop)
        for track, notes in added:
            self._add_part(track, notes, bars, stop)

    def _writer(self, number: int, part: PartText, notes: Notes, stop: int) -> PartWriter:
        tracks = self.written.parts[number].tracks
        track = next((track for track in tracks if track.is_drum), tracks[0])
        fifths = max(-7, min(7, round(part.in_force("fifths", stop - 1, 0))))
        key, staves = (
            Key(fifths, fifths + MIDDLE_FIFTH),
            round(part.in_force("staves", stop - 1, 1)),
        )
        writer = PartWriter(track, notes, key, part.id, staves=staves)
        writer.first = stop
        writer.transposed = round(part.in_force("transposed", stop - 1, 0))
        writer.drums = self.text.drums[part.id]
        writer.symbols = self._symbols if number == self._chord_part() else ()
        if track.is_drum:
            self._add_drums(part, np.unique(notes.pitch).tolist())
        return writer

    def _chord_part(self) -> int:
        """Return the part to write chords above: the first that has some, or else the first pitched part."""

        def rank(number: int) -> tuple[bool, bool]:
            measures = self.text.parts[number].measures
            has_chords = any(e.tag == "harmony" for measure in measures for e in measure.elements)
            return not has_chords, all(track.is_drum for track in self.written.parts[number].tracks)

        return min(range(len(self.text.parts)), key=rank)

    def _add_drums(self, part: PartText, pitches: list[int]) -> None:
        """Add instruments for the drums that a part lacks."""
        drums = self.text.drums[part.id]
        new = [pitch for pitch in pitches if pitch not in drums]
        midi, end = self.text.entries.get(part.id, (0, 0))
        if not new or not end:
            return
        instruments, midi_instruments = b"", b""
        for pitch in new:
            drums[pitch] = f"{part.id}-new-{pitch}"
            key = quoteattr(drums[pitch]).encode("ascii", "xmlcharrefreplace")
            instruments += (
                b"<score-instrument id=%s><instrument-name>drum %d</instrument-name></score-instrument>"
                % (key, pitch)
            )
            midi_instruments += (
                b"<midi-instrument id=%s><midi-channel>10</midi-channel>"
                b"<midi-unpitched>%d</midi-unpitched></midi-instrument>" % (key, pitch + 1)
            )
        self._changes += [(midi, midi, instruments), (end, end, midi_instruments)]

    def _number(self, measures: Sequence[ET.Element], last: str) -> None:
        """Continue the bar numbers after the last one."""
        if last.isdecimal() and len(last) < 9:
            for number, measure in enumerate(measures, int(last) + 1):
                measure.set("number", str(number))

    def _cut_after(self, part: PartText, stop: int, rest: int) -> None:
        """Drop the bars from `stop` on, and complete the last kept bar with a rest of `rest` ticks."""
        last = part.measures[stop - 1]
        self._untie(last)
        if rest and stop:
            divisions = part.in_force("divisions", stop - 1, 1)
            missing = round(rest * divisions / TICKS_PER_BEAT)
            filling = b"<note><rest/><duration>%d</duration></note>" % missing
            if gap := round(last.length - last.at_end):
                filling = b"<forward><duration>%d</duration></forward>%s" % (gap, filling)
            if missing > 0:
                last.check_has_content()
                self._changes.append((last.end, last.end, filling))
        if stop < len(part.measures):
            self._changes.append((last.stop, part.end, b"\n"))

    def _untie(self, measure: Measure) -> None:
        self._changes += [(start, stop, b"") for start, stop in measure.ties]

    def _replace(self, part: PartText, writer: PartWriter, first: int, stop: int) -> None:
        """Replace the notes of bars first … stop − 1; their other elements keep their positions."""
        if first:
            self._untie(part.measures[first - 1])
        for number in range(first, stop):
            measure = part.measures[number]
            measure.check_has_content()
            if sum(bar == number for bar, _ in part.changes["divisions"]) > 1:
                raise NotKept("a bar of it changes its divisions")
            divisions = part.in_force("divisions", number, 1)
            writer.first = number  # each of these bars states its divisions
            bar = self._bar(number, self.layout.starts[number], shows_time=False)
            notes = writer.measure(number, bar)
            begin, amid, end = [], [], []
            for element in measure.elements:
                if element.tag == "harmony" and writer.symbols:
                    continue  # replaced by the new chords
                kept = self.text.bytes[element.start : element.stop]
                if element.start > measure.last_note > 0:
                    end.append(kept)
                elif not element.at:
                    begin.append(kept)
                else:
                    amid.append(_placed(element, kept))
            restored = b"<attributes><divisions>%s</divisions></attributes>" % _plain(divisions)
            content = b"".join((*begin, *amid, *(_text(note) for note in notes), restored, *end))
            self._changes.append((measure.content, measure.end, content))
        if writer.symbols and stop < len(part.measures):
            self._restore_chord(part.measures[stop], writer, self.layout.starts[stop])

    def _restore_chord(self, measure: Measure, writer: PartWriter, start: int) -> None:
        """Write the chord in force at the start of the bar after rewritten ones, unless it states one."""
        scale = self.read.ticks_per_beat / TICKS_PER_BEAT
        before = [m.text for m in named(self.read) if m.onset_ticks <= start * scale]
        if before and not any(e.tag == "harmony" and not e.at for e in measure.elements):
            text = _text(harmony(before[-1], writer.tone))
            self._changes.append((measure.content, measure.content, text))

    def _bar(self, number: int, start: int, *, shows_time: bool) -> Bar:
        """Return a bar of the score, in divisions, that starts at a tick of the played score."""
        stop, scale = start + self.layout.lengths[number], DIVISIONS / TICKS_PER_BEAT
        return Bar(round(start * scale), round(stop * scale), self.layout.times[number], shows_time)

    def _add_part(self, track: Track, notes: Notes, bars: list[Bar], stop: int) -> None:
        """Add a part, with rests where it has no notes; notes before a pickup are lost."""
        known = {part.id for part in self.text.parts}
        number = next(n for n in range(len(known) + 1, 2 * len(known) + 2) if f"P{n}" not in known)
        key, entry = f"P{number}", ET.Element("part-list")
        write_entry(entry, key, track, notes, number)
        text = b"".join(_text(child) for child in entry)
        self._changes.append((self.text.list_end, self.text.list_end, text))
        starts = self.layout.starts
        if self._has_repeats:  # the written bars, shifted to end where the played music does
            starts = [0, *accumulate(self.layout.lengths)][:-1]
            shift = self.layout.starts[-1] - starts[-1]
            starts = [start + shift for start in starts]
        times = [None, *self.layout.times]
        old = [
            self._bar(bar, starts[bar], shows_time=times[bar] != times[bar + 1])
            for bar in range(stop)
        ]
        writer = PartWriter(track, notes, key_of(self.read), key)
        part = ET.Element("part", id=key)
        part.extend(writer.measure(index, bar) for index, bar in enumerate([*old, *bars]))
        for measure, other in zip(part, self.text.parts[0].measures, strict=False):
            measure.set("number", other.number)
        self._number([*part][stop:], self.text.parts[0].measures[stop - 1].number)
        self._changes.append((self.text.end, self.text.end, _text(part)))

    # The result.

    def _checked(self, texts: Sequence[str], order: list[int], bars: int) -> bytes:
        """Apply the changes; raises NotKept unless the result plays the old bars in order and then the new ones."""
        comments = b"".join(b"<!-- %s -->" % _comment(text) for text in texts)
        self._changes.append((self.text.end, self.text.end, comments + b"\n"))
        pieces, at = [], 0
        for start, stop, text in sorted(self._changes, key=lambda change: change[:2]):
            if start < at:
                raise NotKept("its text has an unexpected structure")
            pieces += [self.text.bytes[at:start], text]
            at = stop
        new = b"".join((*pieces, self.text.bytes[at:]))
        try:
            found = bar_layout(read_written(new, GENEROUS, NAME)).order
        except ValueError:
            raise NotKept("its text has an unexpected structure") from None
        first = len(self.written.bars) if self._has_repeats else len(order)
        if found != [*order, *range(first, bars)]:
            raise NotKept("bars after its repeats would not be played")
        return new


def _text(element: ET.Element) -> bytes:
    return ET.tostring(element, encoding="us-ascii") + b"\n"


def _plain(value: float) -> bytes:
    """Format a number without an exponent."""
    return (f"{value:.0f}" if value == round(value) else f"{value:.6f}").encode()


def _placed(element: Element, text: bytes) -> bytes:
    """Wrap an element in moves to its position in the bar and back to the start."""
    at = b"<duration>%s</duration>" % _plain(element.at)
    return b"<forward>%s</forward>%s<backup>%s</backup>" % (at, text, at)


def _comment(text: str) -> bytes:
    """Escape a text for an XML comment."""
    return text.replace("--", "-\\u002d").encode("ascii", "xmlcharrefreplace")
