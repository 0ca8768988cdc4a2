"""Write a part as MusicXML bar by bar: attributes, voices, note values, ties, tuplets and chord symbols."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence

import numpy as np

from tokenization.analysis.spelling import Key, spelled
from tokenization.edit import Bar
from tokenization.notation.musicxml import DRUM_CHANNEL, DRUM_PLACES, FORTE
from tokenization.notation.musicxml.harmony import Symbol, harmony
from tokenization.notation.musicxml.instruments import CLEFS, Layout, drum_name
from tokenization.notation.musicxml.marks import Marks, add, write_marks
from tokenization.notation.musicxml.rhythm import DIVISIONS, Value, values_in
from tokenization.notation.musicxml.voices import Chord
from tokenization.score import Notes, Track

PITCHED_CHANNELS = (*range(1, 10), *range(11, 17))
CROSSED = {37, 42, 44, 46, 49, 51, 52, 53, 55, 57, 59}  # cymbals and sticks have × noteheads
VOICES_A_STAFF = 4
Staff = Sequence[Sequence[Chord]]  # its voices
Segment = tuple[int, int, Chord | None]  # start, stop, and a chord or a rest


def write_entry(part_list: ET.Element, key: str, track: Track, notes: Notes, number: int) -> None:
    """Add a part with its instruments to the list of parts; a kit has one instrument per drum."""
    part = add(part_list, "score-part", id=key)
    name = track.name
    add(part, "part-name", name)
    drums = np.unique(notes.pitch).tolist() if track.is_drum else [None]
    for drum in drums:
        instrument = add(part, "score-instrument", id=instrument_id(key, drum))
        add(instrument, "instrument-name", name if drum is None else drum_name(drum))
    channel = DRUM_CHANNEL if track.is_drum else PITCHED_CHANNELS[(number - 1) % 15]
    for drum in drums:
        midi = add(part, "midi-instrument", id=instrument_id(key, drum))
        add(midi, "midi-channel", channel)
        add(midi, "midi-program", track.program + 1)
        if drum is not None:
            add(midi, "midi-unpitched", drum + 1)


def instrument_id(key: str, drum: int | None) -> str:
    """Return the id of a part's instrument, or of one of its drums."""
    return f"{key}-I{1 if drum is None else drum}"


class PartWriter:
    """Writes a part bar by bar."""

    def __init__(
        self, track: Track, staves: Sequence[Staff], keys: Sequence[tuple[int, Key]], name: str, layout: Layout | None
    ) -> None:  # fmt: skip
        """Take the voices of each staff, and the keys as written from their ticks on.

        `layout` is that of a new part, None for an existing one, whose clefs and keys stand in its score.
        """
        self._track, self._keys, self._name, self._layout = track, keys, name, layout
        self._staves = staves
        self.transposed = (
            layout.transposed if layout else 0
        )  # semitones from written to sounding pitch

    drums: Mapping[int, str] = {}  # pitch → instrument id, for drums of an existing part
    first = 0  # the bar in which the divisions are written
    symbols: Sequence[Symbol] = ()  # chords above the part
    marks = Marks()

    def _key_at(self, at: int) -> Key:
        return self._keys[max(0, bisect_right(self._keys, at, key=lambda one: one[0]) - 1)][1]

    def tone(self, pitch_class: int) -> tuple[str, int]:
        """Return the step and alteration of a sounding pitch class as written in this part."""
        return spelled(pitch_class - self.transposed, self._keys[0][1].centre)[:2]

    def measure(self, index: int, bar: Bar) -> ET.Element:
        """Return a bar as an element."""
        measure = ET.Element("measure", number=str(index + 1))
        if bar.is_pickup:
            measure.set("implicit", "yes")
        self._attributes(measure, index, bar)
        write_marks(measure, self.marks, bar, len(self._staves))
        self._symbols(measure, bar)
        is_first = True
        for number, staff in enumerate(self._staves, 1):
            voices = [self._segments(voice, bar) for voice in staff]
            sounding = [(n, some) for n, some in enumerate(voices) if any(one[2] for one in some)]
            stems = _stems([some for _, some in sounding])
            for place, (voice, segments) in enumerate(sounding or [(0, voices[0])]):
                if not is_first:
                    add(add(measure, "backup"), "duration", bar.stop - bar.start)
                is_first = False
                where = ((number - 1) * VOICES_A_STAFF + voice + 1, number, stems[place])
                self._voice(measure, bar, segments, where, shows_rests=not place)
        return measure

    def _attributes(self, measure: ET.Element, index: int, bar: Bar) -> None:
        """Write divisions, key, time signature, clefs and transposition where they change."""
        is_first, layout = index == self.first, self._layout
        key = self._key_at(bar.start)
        new_key = bool(layout) and not self._track.is_drum
        new_key = new_key and (is_first or key.fifths != self._key_at(bar.start - 1).fifths)
        if not (is_first or bar.shows_time or new_key):
            return
        attributes = add(measure, "attributes")
        if is_first:
            add(attributes, "divisions", DIVISIONS)
        if new_key:
            add(add(attributes, "key"), "fifths", key.fifths)
        if bar.shows_time:
            time = add(attributes, "time")
            add(time, "beats", bar.time[0])
            add(time, "beat-type", bar.time[1])
        if layout is None or not is_first:
            return
        if len(layout.clefs) > 1:
            add(attributes, "staves", len(layout.clefs))
        for number, name in enumerate(layout.clefs, 1):
            sign, line, octave = CLEFS[name]
            clef = add(attributes, "clef", number=str(number))
            add(clef, "sign", sign)
            if line:
                add(clef, "line", line)
            if octave:
                add(clef, "clef-octave-change", octave)
        if self.transposed:
            self._transpose(attributes)

    def _transpose(self, attributes: ET.Element) -> None:
        """Write the transposition; its steps follow from the keys, as C♯ and D♭ differ."""
        transpose = add(attributes, "transpose")
        octaves = int(self.transposed / 12)
        semitones = self.transposed - 12 * octaves
        add(transpose, "diatonic", round(semitones * 7 / 12 + (-0.01 if semitones < 0 else 0.01)))
        add(transpose, "chromatic", semitones)
        if octaves:
            add(transpose, "octave-change", octaves)

    def _segments(self, voice: Sequence[Chord], bar: Bar) -> list[Segment]:
        """Return the chords of a voice within a bar, cut at the bar lines, and the rests between them."""
        at, end = bar.start, bar.stop
        # The chords of a voice do not overlap, so both starts and ends are sorted.
        first = bisect_right(voice, at, key=lambda chord: chord.end)
        last = bisect_left(voice, end, key=lambda chord: chord.start)
        found: list[Segment] = []
        for chord in voice[first:last]:
            start, stop = max(chord.start, at), min(chord.end, end)
            if at < start:
                found.append((at, start, None))
            found.append((start, stop, chord))
            at = stop
        if at < end:
            found.append((at, end, None))
        return found

    def _voice(
        self, measure: ET.Element, bar: Bar, segments: Sequence[Segment], where: tuple[int, int, str], *,
        shows_rests: bool,
    ) -> None:  # fmt: skip
        """Write a voice within a bar; only the first one of a staff shows its rests."""
        if len(segments) == 1 and segments[0][2] is None:
            note = add(measure, "note")
            add(note, "rest", measure="yes")
            add(note, "duration", bar.stop - bar.start)
            self._place(note, where)
            return
        spans = [(start, stop, chord is None) for start, stop, chord in segments]
        full = 4 * DIVISIONS * bar.time[0] // bar.time[1]
        grid = bar._replace(start=bar.stop - full) if bar.is_pickup else bar
        for (start, stop, chord), values in zip(segments, values_in(spans, grid), strict=True):
            if chord is None and not shows_rests and not any(value.is_triplet for value in values):
                add(add(measure, "forward"), "duration", stop - start)
                continue
            for value in values:
                if chord is None:
                    note = add(measure, "note")
                    add(note, "rest")
                    add(note, "duration", value.stop - value.start)
                    self._value(note, value, where)
                    self._notations(note, [], value.tuplet, value)
                else:
                    self._chord(measure, chord, value, where)

    def _symbols(self, measure: ET.Element, bar: Bar) -> None:
        """Write the chord symbols of a bar, before its notes, so that they do not divide note values."""
        ends = (bisect_left(self.symbols, (tick, "")) for tick in (bar.start, bar.stop))
        for tick, name in self.symbols[slice(*ends)]:
            since = tick - bar.start
            if since:
                add(add(measure, "forward"), "duration", since)
            measure.append(harmony(name, self.tone))
            if since:
                add(add(measure, "backup"), "duration", since)

    def _chord(
        self, measure: ET.Element, chord: Chord, value: Value, where: tuple[int, int, str]
    ) -> None:
        """Write the notes of a chord for one note value, with ties to its other values."""
        tied_on, tied_from = value.stop < chord.end, value.start > chord.start
        for index, (pitch, velocity) in enumerate(sorted(chord.notes)):
            note = add(measure, "note", dynamics=f"{100 * velocity / FORTE:.2f}")
            if index:
                add(note, "chord")
            self._pitch(note, pitch - self.transposed, value.start)
            add(note, "duration", value.stop - value.start)
            ties = ["stop"] * tied_from + ["start"] * tied_on
            for kind in ties:
                add(note, "tie", type=kind)
            if self._track.is_drum:
                drum = self.drums.get(pitch, instrument_id(self._name, pitch))
                add(note, "instrument", id=drum)
            crossed = self._track.is_drum and pitch in CROSSED
            self._value(note, value, where, "x" if crossed else "")
            self._notations(note, ties, "" if index else value.tuplet, value)
            syllable = self.marks.syllables.get(chord.start)
            if syllable and not index and not tied_from and where[1] == 1:
                lyric = add(note, "lyric", number="1")
                add(lyric, "syllabic", syllable.syllabic)
                add(lyric, "text", syllable.text)

    def _notations(self, note: ET.Element, ties: Sequence[str], tuplet: str, value: Value) -> None:
        if not ties and not tuplet:
            return
        notations = add(note, "notations")
        for kind in ties:
            add(notations, "tied", type=kind)
        if tuplet:
            add(notations, "tuplet", type=tuplet, number="1")

    def _pitch(self, note: ET.Element, pitch: int, at: int) -> None:
        if self._track.is_drum:
            unpitched = add(note, "unpitched")
            step, octave = DRUM_PLACES.get(pitch, ("E", 5))
            add(unpitched, "display-step", step)
            add(unpitched, "display-octave", octave)
            return
        element = add(note, "pitch")
        step, alter, octave = spelled(pitch, self._key_at(at).centre)
        add(element, "step", step)
        if alter:
            add(element, "alter", alter)
        add(element, "octave", octave)

    def _value(
        self, note: ET.Element, value: Value, where: tuple[int, int, str], head: str = ""
    ) -> None:
        """Write the voice, note value, stem and staff of a note or rest."""
        add(note, "voice", where[0])
        add(note, "type", value.type)
        for _ in range(value.dots):
            add(note, "dot")
        if value.is_triplet:
            ratio = add(note, "time-modification")
            add(ratio, "actual-notes", 3)
            add(ratio, "normal-notes", 2)
            if value.unit:
                add(ratio, "normal-type", value.unit)
        is_note = note.find("rest") is None
        if where[2] and is_note:
            add(note, "stem", where[2])
        if head:
            add(note, "notehead", head)
        if len(self._staves) > 1:
            add(note, "staff", where[1])

    def _place(self, note: ET.Element, where: tuple[int, int, str]) -> None:
        add(note, "voice", where[0])
        if len(self._staves) > 1:
            add(note, "staff", where[1])


def _stems(voices: Sequence[Sequence[Segment]]) -> list[str]:
    """Return the direction of the stems of each voice of a staff in a bar: up for the highest, if there are several."""
    if len(voices) < 2:
        return [""] * max(1, len(voices))
    means = [
        float(np.mean([pitch for _, _, chord in voice if chord for pitch, _ in chord.notes]))
        for voice in voices
    ]
    highest = max(range(len(means)), key=lambda n: means[n])
    return ["up" if n == highest else "down" for n in range(len(means))]
