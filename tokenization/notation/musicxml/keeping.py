"""Write new music into the MusicXML score that it continues, changes or accompanies; the rest of its text is kept.

Text is only inserted and cut out: whole bars at the end, notes in rewritten bars, parts that are added. New bars have
24 divisions of a beat. Ties over a cut are taken away. Of a compressed score the text inside is kept.

Where repeats are written, what is heard is longer than what is written. Such a score is kept only where music goes on
after all of it: the new bars follow its last one. Else what is heard is written out, without repeats.
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
    announce,
    key_of,
)
from tokenization.notation.played import laid_out, played
from tokenization.notation.written import TICKS_PER_BEAT
from tokenization.score import Notes, Score, Track

NAME = "the score"
MIDDLE = (
    2  # on the line of fifths, from a signature of no sharps: the middle of the scale of its major
)
Change = tuple[int, int, bytes]  # first and last byte of what goes, and what comes there


class KeptMusicXml:
    """A score to which music was written; `edited` returns the new text once."""

    def __init__(self, edit: Edit) -> None:
        """Find the bars of the score, or say why it cannot be kept."""
        self.edit, self.heard = edit, edit.heard
        xml = xml_of(edit.original, GENEROUS)
        self.written = read_written(xml, GENEROUS, NAME)
        self.laid = laid_out(self.written)
        self.read = played(self.written, self.laid)
        self.text = ScoreText(xml)
        if [len(part.measures) for part in self.text.parts] != [
            len(p.bars) for p in self.written.parts
        ]:
            raise NotKept("its parts are not written one after the other")
        tracks = [len(part.tracks) for part in self.written.parts]
        self._first_track = [0, *accumulate(tracks)]
        self._is_repeated = self.laid.order != [*range(len(self.written.lines))]
        self._changes: list[Change] = []
        self._symbols: Sequence[Symbol] = ()  # the chords of what is new, from its beginning on

    def edited(self, score: Score, texts: Sequence[str] = ()) -> bytes:
        """Return the text with the new notes of a score.

        Where the piece goes on, they come in new bars after the seam. Elsewhere they take the place of the notes of the
        parts that were heard in these bars, or of those of the rewritten parts.
        """
        edit, laid = self.edit, self.laid
        first, stop, order = 0, len(self.written.lines), laid.order
        bars: list[Bar] = []
        if edit.goes_on:
            kept = self._bars_before(edit.start)
            if self._is_repeated and kept != len(order):
                raise NotKept("its repeats are written out where only a part of it goes on")
            last, order = order[kept - 1], order[:kept]
            bars = [
                new._replace(
                    start=int(self._divisions(new.start)), stop=int(self._divisions(new.stop))
                )
                for new in new_bars(score, edit.start, laid.times[last], 0.0)
            ]
            first = stop = stop if self._is_repeated else last + 1
            end = laid.starts[kept - 1] + laid.lengths[last]
            for part in self.text.parts:
                self._cut_after(part, stop, max(0, int(edit.tick_of(edit.start)) - end))
        elif self._is_repeated:
            where = "bars of it are rewritten" if edit.stop is not None else "parts are added to it"
            raise NotKept(f"its repeats are written out where {where}")
        elif edit.stop is not None:
            first, stop = self._bars_before(edit.start), self._bars_before(edit.stop)
        new = edit.new_in(score).timed(self._divisions)
        if self._has_new_chords(score):
            self._symbols = symbols_of(new, int(self._divisions(edit.start)))
        self._write(new, bars, first, stop)
        return self._checked(texts, order, stop + len(bars))

    # Times and places.

    def _divisions(self, ticks: np.ndarray | int) -> np.ndarray:
        """Return ticks of the score as divisions of the played score."""
        return np.rint(self.edit.tick_of(ticks) * DIVISIONS / TICKS_PER_BEAT).astype(np.int64)

    def _has_new_chords(self, score: Score) -> bool:
        """Say whether new bars have chords: the score names some, and over rewritten bars they are others."""
        edit = self.edit
        if edit.tracks is not None or not (named(self.read) or edit.over_chords):
            return False
        stop = inf if edit.stop is None else edit.stop
        old, new = (
            [one for one in music.markers if edit.start <= one.onset_ticks < stop]
            for music in (self.heard, score)
        )
        return edit.goes_on or old != new

    def _bars_before(self, ticks: int) -> int:
        """Return how many bars are played before a tick, which has to be a bar line of the score."""
        at, starts, last = int(self.edit.tick_of(ticks)), self.laid.starts, self.laid.order[-1]
        top, low = self.laid.times[last]
        end = starts[-1] + max(self.laid.lengths[last], 4 * TICKS_PER_BEAT * top // low)
        count = int(np.searchsorted([*starts, end], at - 1))  # rounding is no other bar line
        if at > 0 and (count > len(starts) or abs([*starts, end][count] - at) > 1):
            raise NotKept("its bars begin elsewhere than those that were written")
        return count

    def _part_of(self, source: int) -> int:
        return next(n for n, first in enumerate(self._first_track[1:]) if source < first)

    # What is written.

    def _write(self, score: Score, bars: list[Bar], first: int, stop: int) -> None:
        """Write the notes of a score into some bars of the parts replaced, and into new ones after all."""
        replaced = {self._part_of(source) for source in self.edit.replaced}
        by_part: dict[int, list[Notes]] = {}
        added: list[tuple[Track, Notes]] = []
        pitches = {
            source: self.read.notes.pitch[self.read.notes.track == track]
            for track, one in enumerate(self.read.tracks)
            for source in one.sources
        }
        played_by = {source: one for one in self.read.tracks for source in one.sources}
        for track, source, notes in self.edit.placed(score, played_by, pitches):
            if source is None:
                added.append((track, notes))
            else:
                by_part.setdefault(self._part_of(source), []).append(notes)
        for number, part in enumerate(self.text.parts):
            own = Notes.concatenate(by_part.get(number, []))
            writer = self._writer(number, part, own, stop)
            if bars:
                texts = [writer.measure(stop + place, bar) for place, bar in enumerate(bars)]
                self._number(texts, part.measures[stop - 1].number)
                self._changes.append((part.end, part.end, b"".join(_text(one) for one in texts)))
            if number in replaced and first < stop:
                self._replace(part, writer, first, stop)
        for track, notes in added:
            self._add_part(track, notes, bars, stop)

    def _writer(self, number: int, part: PartText, notes: Notes, stop: int) -> PartWriter:
        tracks = self.written.parts[number].tracks
        track = next((one for one in tracks if one.is_drum), tracks[0])
        fifths = max(-7, min(7, round(part.in_force("fifths", stop - 1, 0))))
        key, staves = Key(fifths, fifths + MIDDLE), round(part.in_force("staves", stop - 1, 1))
        writer = PartWriter(track, notes, key, part.id, staves=staves)
        writer.first = stop
        writer.transposed = round(part.in_force("transposed", stop - 1, 0))
        writer.drums = self.text.drums[part.id]
        writer.symbols = self._symbols if number == self._with_symbols() else ()
        if track.is_drum:
            self._announce_drums(part, np.unique(notes.pitch).tolist())
        return writer

    def _with_symbols(self) -> int:
        """Return the part over which chords stand: the first that has some, or that is no drums."""

        def rank(number: int) -> tuple[bool, bool]:
            measures = self.text.parts[number].measures
            has = any(one.tag == "harmony" for measure in measures for one in measure.elements)
            return not has, all(track.is_drum for track in self.written.parts[number].tracks)

        return min(range(len(self.text.parts)), key=rank)

    def _announce_drums(self, part: PartText, pitches: list[int]) -> None:
        """Name the drums that a part did not have."""
        drums = self.text.drums[part.id]
        new = [pitch for pitch in pitches if pitch not in drums]
        midi, end = self.text.announced.get(part.id, (0, 0))
        if not new or not end:
            return
        one, two = b"", b""
        for pitch in new:
            drums[pitch] = f"{part.id}-new-{pitch}"
            key = quoteattr(drums[pitch]).encode("ascii", "xmlcharrefreplace")
            one += (
                b"<score-instrument id=%s><instrument-name>drum %d</instrument-name></score-instrument>"
                % (key, pitch)
            )
            two += (
                b"<midi-instrument id=%s><midi-channel>10</midi-channel>"
                b"<midi-unpitched>%d</midi-unpitched></midi-instrument>" % (key, pitch + 1)
            )
        self._changes += [(midi, midi, one), (end, end, two)]

    def _number(self, measures: Sequence[ET.Element], last: str) -> None:
        """Go on with the numbers of the bars."""
        if last.isdecimal() and len(last) < 9:
            for place, measure in enumerate(measures, int(last) + 1):
                measure.set("number", str(place))

    def _cut_after(self, part: PartText, stop: int, rest: int) -> None:
        """Drop the bars after some, fill the last one that stays, and take away its ties to what is dropped."""
        last = part.measures[stop - 1]
        self._untie(last)
        if rest and stop:
            divisions = part.in_force("divisions", stop - 1, 1)
            missing = round(rest * divisions / TICKS_PER_BEAT)
            filled = b"<note><rest/><duration>%d</duration></note>" % missing
            if on := round(last.length - last.at_end):
                filled = b"<forward><duration>%d</duration></forward>%s" % (on, filled)
            if missing > 0:
                last.check_open()
                self._changes.append((last.end, last.end, filled))
        if stop < len(part.measures):
            self._changes.append((last.stop, part.end, b"\n"))

    def _untie(self, measure: Measure) -> None:
        self._changes += [(start, stop, b"") for start, stop in measure.ties]

    def _replace(self, part: PartText, writer: PartWriter, first: int, stop: int) -> None:
        """Put other notes into some bars; what else stands in them keeps its place."""
        if first:
            self._untie(part.measures[first - 1])
        for number in range(first, stop):
            measure = part.measures[number]
            measure.check_open()
            if sum(bar == number for bar, _ in part.said["divisions"]) > 1:
                raise NotKept("a bar of it counts time in two ways")
            divisions = part.in_force("divisions", number, 1)
            writer.first = number  # it says how it counts time
            bar = self._bar(number, self.laid.starts[number], is_said=False)
            notes = writer.measure(number, bar)
            begin, amid, end = [], [], []
            for element in measure.elements:
                if element.tag == "harmony" and writer.symbols:
                    continue  # the chords of the new notes are others
                kept = self.text.bytes[element.start : element.stop]
                if element.start > measure.last_note > 0:
                    end.append(kept)
                elif not element.at:
                    begin.append(kept)
                else:
                    amid.append(_placed(element, kept))
            said = b"<attributes><divisions>%s</divisions></attributes>" % _plain(divisions)
            inner = b"".join((*begin, *amid, *(_text(one) for one in notes), said, *end))
            self._changes.append((measure.inside, measure.end, inner))
        if writer.symbols and stop < len(part.measures):
            self._go_back(part.measures[stop], writer, self.laid.starts[stop])

    def _go_back(self, measure: Measure, writer: PartWriter, start: int) -> None:
        """Name the chord that the bar after rewritten ones begins with, if it does not."""
        scale = self.read.ticks_per_beat / TICKS_PER_BEAT
        before = [one.text for one in named(self.read) if one.onset_ticks <= start * scale]
        if before and not any(one.tag == "harmony" and not one.at for one in measure.elements):
            text = _text(harmony(before[-1], writer.tone))
            self._changes.append((measure.inside, measure.inside, text))

    def _bar(self, number: int, start: int, *, is_said: bool) -> Bar:
        """Return a bar of the score that begins at a tick of it."""
        stop, scale = start + self.laid.lengths[number], DIVISIONS / TICKS_PER_BEAT
        return Bar(round(start * scale), round(stop * scale), self.laid.times[number], is_said)

    def _add_part(self, track: Track, notes: Notes, bars: list[Bar], stop: int) -> None:
        """Add a part with rests where it has no notes; what begins before a pickup has no place in it."""
        known = {part.id for part in self.text.parts}
        number = next(n for n in range(len(known) + 1, 2 * len(known) + 2) if f"P{n}" not in known)
        key, entry = f"P{number}", ET.Element("part-list")
        announce(entry, key, track, notes, number)
        text = b"".join(_text(one) for one in entry)
        self._changes.append((self.text.list_end, self.text.list_end, text))
        starts = self.laid.starts
        if self._is_repeated:  # as they are written, to end where what is played does
            starts = [0, *accumulate(self.laid.lengths)][:-1]
            shift = self.laid.starts[-1] - starts[-1]
            starts = [start + shift for start in starts]
        times = [None, *self.laid.times]  # before and from each bar on
        laid = [
            self._bar(bar, starts[bar], is_said=times[bar] != times[bar + 1]) for bar in range(stop)
        ]
        writer = PartWriter(track, notes, key_of(self.read), key)
        part = ET.Element("part", id=key)
        part.extend(writer.measure(place, bar) for place, bar in enumerate([*laid, *bars]))
        for measure, other in zip(part, self.text.parts[0].measures, strict=False):
            measure.set("number", other.number)
        self._number([*part][stop:], self.text.parts[0].measures[stop - 1].number)
        self._changes.append((self.text.end, self.text.end, _text(part)))

    # The whole.

    def _checked(self, texts: Sequence[str], order: list[int], bars: int) -> bytes:
        """Return the text with its changes, if it is played as it is to be."""
        said = b"".join(b"<!-- %s -->" % _said(text) for text in texts)
        self._changes.append((self.text.end, self.text.end, said + b"\n"))
        pieces, at = [], 0
        for start, stop, text in sorted(self._changes, key=lambda change: change[:2]):
            if start < at:
                raise NotKept("its text is not as it seems")
            pieces += [self.text.bytes[at:start], text]
            at = stop
        new = b"".join((*pieces, self.text.bytes[at:]))
        try:
            found = laid_out(read_written(new, GENEROUS, NAME)).order
        except ValueError:
            raise NotKept("its text is not as it seems") from None
        first = len(self.written.lines) if self._is_repeated else len(order)
        if found != [*order, *range(first, bars)]:
            raise NotKept("what follows its repeats would not be played")
        return new


def _text(element: ET.Element) -> bytes:
    return ET.tostring(element, encoding="us-ascii") + b"\n"


def _plain(value: float) -> bytes:
    """Return a number without an exponent."""
    return (f"{value:.0f}" if value == round(value) else f"{value:.6f}").encode()


def _placed(element: Element, text: bytes) -> bytes:
    """Return an element at its place in a bar, from which time goes back to the beginning."""
    at = b"<duration>%s</duration>" % _plain(element.at)
    return b"<forward>%s</forward>%s<backup>%s</backup>" % (at, text, at)


def _said(text: str) -> bytes:
    """Return a text as it can stand in a comment."""
    return text.replace("--", "-\\u002d").encode("ascii", "xmlcharrefreplace")
