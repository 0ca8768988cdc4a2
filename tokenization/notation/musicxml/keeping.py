"""Write new music into the MusicXML score that it continues, changes or accompanies, and keep its other elements.

Elements are only inserted and removed: bars at the end, notes in rewritten bars, new parts. New bars have 24 divisions
per beat. Ties across a cut are removed, and a final bar line moves to the new end. A compressed score becomes an
uncompressed one.

A score with repeats is shorter as written than as played. New bars follow its last one if all of it is continued and
they would be played there. Otherwise its repeats are written out, with all that is engraved in their bars.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from math import inf

import numpy as np

from tokenization.analysis.chords import named
from tokenization.analysis.spelling import MIDDLE, Key, keys_of
from tokenization.edit import Bar, Edit, NotKept, new_bars
from tokenization.limits import GENEROUS
from tokenization.notation.musicxml.document import tree_of, xml_of
from tokenization.notation.musicxml.elements import (
    POSITIONING,
    chord_part,
    drums_of,
    in_force,
    placed_in,
    plain,
    untie,
    value,
)
from tokenization.notation.musicxml.excerpt import cut
from tokenization.notation.musicxml.harmony import Symbol, harmony, symbols_of
from tokenization.notation.musicxml.instruments import Layout, layout_of, name_of
from tokenization.notation.musicxml.part_writing import PartWriter, write_entry
from tokenization.notation.musicxml.reading import written_of
from tokenization.notation.musicxml.rhythm import DIVISIONS
from tokenization.notation.musicxml.unfolding import unfold
from tokenization.notation.musicxml.writing import Part, staves_of, write_final_bar_line
from tokenization.notation.written import TICKS_PER_BEAT, SharedBar, bar_layout, play_order, played
from tokenization.score import Notes, Score, Track

NAME = "the score"


class KeptMusicXml:
    """A score that new music is written into; call `edited` once."""

    def __init__(self, edit: Edit, *, exact: bool = False) -> None:
        """Locate the bars of the score; raises NotKept if it cannot be kept.

        `exact`: whether new notes keep their lengths to 24ths of a beat.
        """
        self.edit, self.heard, self.exact = edit, edit.heard, exact
        self.root = tree_of(xml_of(edit.original, GENEROUS), GENEROUS.elements)
        self._locate()
        if self._has_repeats and not self._continues_as_written():
            sizes = [sum(1 for _ in bar.iter()) for bars in self.measures for bar in bars]
            bars = len(self.written.bars)
            played_size = sum(sum(sizes[number::bars]) for number in self.layout.order)
            if played_size > GENEROUS.elements:
                raise NotKept("its repeats make it too long")
            unfold(self.root, self.layout.order)
            self._locate()

    def _continues_as_written(self) -> bool:
        """Return whether all of the score is continued, and bars after its last one would be played at its end."""
        order, bars = self.layout.order, self.written.bars
        if not self.edit.is_continuation or self._bars_before(self.edit.start) != len(order):
            return False
        after = [*bars, SharedBar()]
        return play_order(after, GENEROUS.beats + 1) == [*order, len(bars)]

    def _locate(self) -> None:
        self.written = written_of(self.root, GENEROUS, NAME)
        self.layout = bar_layout(self.written)
        self.read = played(self.written, self.layout)
        self.parts = self.root.findall("part")
        self.measures = [part.findall("measure") for part in self.parts]
        listed = self.root.findall("part-list/score-part")
        if [part.get("id") for part in listed] != [part.get("id") for part in self.parts]:
            raise NotKept("its parts are not those of its list of parts")
        if {len(bars) for bars in self.measures} != {len(self.written.bars)}:
            raise NotKept("its parts have different numbers of bars")
        tracks = [len(part.tracks) for part in self.written.parts]
        self._first_track = [0, *accumulate(tracks)]
        self._has_repeats = self.layout.order != [*range(len(self.written.bars))]
        self._symbols: Sequence[Symbol] = ()  # the chords of the new music

    def edited(self, score: Score, texts: Sequence[str] = (), *, alone: bool = False) -> bytes:
        """Return the file with the new notes of a score, and texts as comments; `alone`, only the new bars and parts.

        A continuation is written into new bars after the seam. Otherwise the new notes replace those of the new tracks,
        or of all that the model read, in the new bars.
        """
        edit, layout = self.edit, self.layout
        first, stop, order = 0, len(self.written.bars), layout.order
        bars: list[Bar] = []
        is_closed = False
        if edit.is_continuation:
            kept = self._bars_before(edit.start)
            last, order = order[kept - 1], order[:kept]
            bars = [
                new._replace(
                    start=int(self._divisions(new.start)), stop=int(self._divisions(new.stop))
                )
                for new in new_bars(score, edit.start, layout.times[last], on_bar_line=True)
            ]
            first = stop = stop if self._has_repeats else last + 1
            end = layout.starts[kept - 1] + layout.lengths[last]
            if bars:
                lines = [_open(part[bar]) for part in self.measures for bar in (stop - 1, -1)]
                is_closed = any(lines)
            for number in range(len(self.parts)):
                self._cut_after(number, stop, max(0, int(edit.tick_of(edit.start)) - end))
        elif edit.stop is not None:
            first, stop = self._bars_before(edit.start), self._bars_before(edit.stop)
        new = edit.new_in(score).timed(self._divisions)
        if self._has_new_chords(score):
            end = inf if edit.stop is None else int(self._divisions(edit.stop))
            found = symbols_of(new, int(self._divisions(edit.start)))
            self._symbols = [symbol for symbol in found if symbol[0] < end]
        written = self._write(new, bars, first, stop)
        for part in self.root.iterfind("part") if is_closed else ():
            write_final_bar_line(part[-1])
        whole = self._checked(texts, order, stop + len(bars))
        if not alone:
            return whole
        cut(self.root, range(first, stop + len(bars)), written, with_chords=bool(bars))
        return ET.tostring(self.root, encoding="UTF-8", xml_declaration=True) + b"\n"

    # Times and positions.

    def _divisions(self, ticks: np.ndarray | int) -> np.ndarray:
        """Convert ticks of the score to divisions of the played score."""
        return np.rint(self.edit.tick_of(ticks) * DIVISIONS / TICKS_PER_BEAT).astype(np.int64)

    def _has_new_chords(self, score: Score) -> bool:
        """Return whether to write chords: the file has some or they were requested, and they are new or changed."""
        edit = self.edit
        if not (edit.over_chords or (named(self.read) and edit.tracks is None)):
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

    def _write(self, score: Score, bars: list[Bar], first: int, stop: int) -> set[int]:
        """Write the notes of a score into the new bars, into bars first … stop − 1 of replaced parts, and new parts.

        Return the parts that were written.
        """
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
        lines = [*self._old_bars(stop), *bars]
        for number, part in enumerate(self.parts):
            own = Notes.concatenate(by_part.get(number, []))
            writer = self._writer(number, own, stop, lines)
            if bars:
                measures = [writer.measure(number, bar) for number, bar in enumerate(bars, stop)]
                _number_bars(measures, self.measures[number][stop - 1])
                part.extend(measures)
            if number in replaced and first < stop:
                self._replace(self.measures[number], writer, first, stop)
            elif writer.symbols and not bars:
                self._replace_symbols(self.measures[number], writer, first, stop)
        whole = stop if self.edit.is_continuation else len(self.written.bars)
        for track, notes in added:
            self._add_part(track, notes, [*self._old_bars(whole), *bars], whole)
        old = range(len(self.parts)) if bars else {*replaced, *by_part}
        return {*old, *range(len(self.parts), len(self.parts) + len(added))}

    def _old_bars(self, stop: int) -> list[Bar]:
        """Return the bars before `stop`, which show their time signatures where they change."""
        times = [None, *self.layout.times]
        if self._has_repeats:  # new music follows them, so that their places do not matter
            return []
        return [
            self._bar(bar, self.layout.starts[bar], shows_time=times[bar] != times[bar + 1])
            for bar in range(stop)
        ]

    def _writer(self, number: int, notes: Notes, stop: int, bars: Sequence[Bar]) -> PartWriter:
        tracks, before = self.written.parts[number].tracks, self.measures[number][:stop]
        track = next((track for track in tracks if track.is_drum), tracks[0])
        fifths = max(-7, min(7, round(in_force(before, "key/fifths", 0))))
        key, staves = Key(fifths, fifths + MIDDLE), round(in_force(before, "staves", 1))
        name = self.parts[number].get("id", "")
        clefs = ("treble", "bass") if staves > 1 else layout_of(track, notes).clefs[:1]
        layout = Layout(clefs, is_single=layout_of(track, notes).is_single)
        voices = staves_of(Part(track, (0,), notes, layout), bars, exact=self.exact)
        writer = PartWriter(track, voices, [(0, key)], name, None)
        writer.first = stop
        for transpose in [one for bar in before for one in bar.iterfind("attributes/transpose")][
            -1:
        ]:
            octaves = value(transpose.find("octave-change"))
            writer.transposed = round(value(transpose.find("chromatic")) + 12 * octaves)
        writer.symbols = self._symbols if number == chord_part(self.parts, self.written) else ()
        if track.is_drum:
            writer.drums = self._drums(name, np.unique(notes.pitch).tolist())
        return writer

    def _drums(self, name: str, pitches: list[int]) -> dict[int, str]:
        """Return the instrument of each drum of a part, after adding those that it lacks."""
        entries = self.root.iterfind("part-list/score-part")
        entry = next(entry for entry in entries if entry.get("id") == name)
        drums = drums_of(entry)
        for pitch in pitches:
            if pitch not in drums:
                drums[pitch] = f"{name}-new-{pitch}"
                instrument = ET.Element("score-instrument", id=drums[pitch])
                ET.SubElement(instrument, "instrument-name").text = f"drum {pitch}"
                tags = [child.tag for child in entry]
                midi = [
                    n for n, tag in enumerate(tags) if tag in ("midi-device", "midi-instrument")
                ]
                entry.insert([*midi, len(tags)][0], instrument)
                sound = ET.SubElement(entry, "midi-instrument", id=drums[pitch])
                ET.SubElement(sound, "midi-channel").text = "10"
                ET.SubElement(sound, "midi-unpitched").text = str(pitch + 1)
        return drums

    def _cut_after(self, number: int, stop: int, rest: int) -> None:
        """Drop the bars from `stop` on, and complete the last kept bar with a rest of `rest` ticks."""
        measures = self.measures[number]
        last = measures[stop - 1]
        _untie(last)
        missing = round(rest * in_force(measures[:stop], "divisions", 1) / TICKS_PER_BEAT)
        if missing > 0:
            positions = [0.0, *(at for _, at in placed_in(last))]
            if gap := round(max(positions) - positions[-1]):
                ET.SubElement(ET.SubElement(last, "forward"), "duration").text = str(gap)
            note = ET.SubElement(last, "note")
            ET.SubElement(note, "rest")
            ET.SubElement(note, "duration").text = str(missing)
        for measure in measures[stop:]:
            self.parts[number].remove(measure)

    def _replace(
        self, measures: list[ET.Element], writer: PartWriter, first: int, stop: int
    ) -> None:
        """Replace the notes of bars first … stop − 1; their other elements keep their positions."""
        if first:
            _untie(measures[first - 1])
        divisions = in_force(measures[:first], "divisions", 1)
        for number in range(first, stop):
            measure = measures[number]
            if len(measure.findall("attributes/divisions")) > 1:
                raise NotKept("a bar of it changes its divisions")
            divisions = in_force([measure], "divisions", divisions)
            writer.first = number  # each of these bars states its divisions
            bar = self._bar(number, self.layout.starts[number], shows_time=False)
            notes = [*writer.measure(number, bar)]
            begin, amid, end = [], [], []
            for element, at in placed_in(measure):
                if element.tag in POSITIONING or (element.tag == "harmony" and writer.symbols):
                    continue
                if element.tag == "barline" and element.get("location") != "left":
                    end.append(element)
                elif not at:
                    begin.append(element)
                else:
                    amid += [_move("forward", at), element, _move("backup", at)]
            restored = ET.Element("attributes")
            ET.SubElement(restored, "divisions").text = plain(divisions)
            measure[:] = [*begin, *amid, *notes, restored, *end]
        if writer.symbols and stop < len(measures):
            self._restore_chord(measures[stop], writer, self.layout.starts[stop])

    def _replace_symbols(
        self, measures: list[ET.Element], writer: PartWriter, first: int, stop: int
    ) -> None:
        """Replace the chord symbols of bars first … stop − 1, whose notes stay."""
        for number in range(first, stop):
            measure = measures[number]
            for element in measure.findall("harmony"):
                measure.remove(element)
            divisions = in_force(measures[: number + 1], "divisions", 1)
            bar = self._bar(number, self.layout.starts[number], shows_time=False)
            # After the attributes, which state the divisions.
            heads = [n for n, one in enumerate(measure, 1) if one.tag in ("attributes", "print")]
            at = heads[-1] if heads and heads[-1] <= 2 else 0
            for tick, text in writer.symbols:
                if bar.start <= tick < bar.stop:
                    since = (tick - bar.start) * divisions / DIVISIONS
                    symbol = harmony(text, writer.tone)
                    new = (
                        [_move("forward", since), symbol, _move("backup", since)]
                        if since
                        else [symbol]
                    )
                    measure[at:at] = new
                    at += len(new)
        if stop < len(measures):
            self._restore_chord(measures[stop], writer, self.layout.starts[stop])

    def _restore_chord(self, measure: ET.Element, writer: PartWriter, start: int) -> None:
        """Write the chord in force at the start of the bar after rewritten ones, unless it states one."""
        scale = self.read.ticks_per_beat / TICKS_PER_BEAT
        before = [m.text for m in named(self.read) if m.onset_ticks <= start * scale]
        if before and not any(e.tag == "harmony" and not at for e, at in placed_in(measure)):
            measure.insert(0, harmony(before[-1], writer.tone))

    def _bar(self, number: int, start: int, *, shows_time: bool) -> Bar:
        """Return a bar of the score, in divisions, that starts at a tick of the played score."""
        stop, scale = start + self.layout.lengths[number], DIVISIONS / TICKS_PER_BEAT
        return Bar(round(start * scale), round(stop * scale), self.layout.times[number], shows_time)

    def _add_part(self, track: Track, notes: Notes, bars: Sequence[Bar], stop: int) -> None:
        """Add a part, with rests where it has no notes."""
        known = {part.get("id") for part in self.root.iterfind("part")}
        number = next(n for n in range(len(known) + 1, 2 * len(known) + 2) if f"P{n}" not in known)
        key = f"P{number}"
        layout = layout_of(track, notes)
        track = replace(track, name=name_of(track, layout))
        write_entry(next(self.root.iterfind("part-list")), key, track, notes, number)
        voices = staves_of(Part(track, (0,), notes, layout), bars, exact=self.exact)
        keys = [
            (at, one.transposed(layout.transposed))
            for at, one in keys_of(self.read.rescaled(DIVISIONS))
        ]
        writer = PartWriter(track, voices, keys, key, layout)
        part = ET.SubElement(self.root, "part", id=key)
        part.extend(writer.measure(index, bar) for index, bar in enumerate(bars))
        for measure, other in zip(part, self.measures[0], strict=False):
            measure.set("number", other.get("number", ""))
        _number_bars([*part][stop:], self.measures[0][stop - 1])

    # The result.

    def _checked(self, texts: Sequence[str], order: list[int], bars: int) -> bytes:
        """Encode the score; raises NotKept unless it plays the old bars in order and then the new ones."""
        try:
            found = bar_layout(written_of(self.root, GENEROUS, NAME)).order
        except ValueError:
            raise NotKept("its text has an unexpected structure") from None
        first = len(self.written.bars) if self._has_repeats else len(order)
        if found != [*order, *range(first, bars)]:
            raise NotKept("bars after its repeats would not be played")
        for text in texts:
            escaped = text.replace("--", "-\\u002d")
            self.root.append(ET.Comment(f" {escaped} "))
        return ET.tostring(self.root, encoding="UTF-8", xml_declaration=True) + b"\n"


def _open(measure: ET.Element) -> bool:
    """Remove the final line of a bar, unless it belongs to a repeat; return whether there was one."""
    lines = [one for one in measure.iterfind("barline") if one.get("location") != "left"]
    final = [one for one in lines if one.findtext("bar-style", "").strip() == "light-heavy"]
    for line in final:
        if line.find("repeat") is None:
            line[:] = [one for one in line if one.tag != "bar-style"]
        if not len(line):
            measure.remove(line)
    return bool(final)


def _untie(measure: ET.Element) -> None:
    """Remove the ties from a bar into the next one: those that the last note of each pitch starts."""
    last = {
        tuple(note.findtext(f"pitch/{name}") for name in ("step", "alter", "octave")): note
        for note in measure.iterfind("note")
    }
    for note in last.values():
        untie(note, "start")


def _number_bars(measures: Sequence[ET.Element], before: ET.Element) -> None:
    """Continue the bar numbers after a bar."""
    last = before.get("number", "")
    if last.isdecimal() and len(last) < 9:
        for number, measure in enumerate(measures, int(last) + 1):
            measure.set("number", str(number))


def _move(tag: str, divisions: float) -> ET.Element:
    """Return an element that moves the position in the bar."""
    move = ET.Element(tag)
    ET.SubElement(move, "duration").text = plain(divisions)
    return move
