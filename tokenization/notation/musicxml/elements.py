"""A MusicXML score as elements that can be changed: its bars, and its notes with the elements that write them."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, takewhile

import numpy as np

from tokenization.changes import Change, Reading
from tokenization.edit import NotKept
from tokenization.limits import GENEROUS
from tokenization.notation.musicxml.reading import (
    PartReader,
    number_in,
    tree_of,
    written_of,
    xml_of,
)
from tokenization.notation.written import (
    TICKS_PER_BEAT,
    WrittenNote,
    WrittenScore,
    bar_layout,
    played,
)
from tokenization.score import Track

NAME = "the score"
REPEATS = "it has repeats, so that the change would apply to every time its bars are played"
ATTRIBUTES = (
    "divisions", "key", "time", "staves", "part-symbol", "instruments", "clef", "staff-details", "transpose",
)  # fmt: skip
BEFORE_MUSIC = ("print", "attributes", "barline")  # of a bar
POSITIONING = ("note", "backup", "forward")


@dataclass(slots=True, eq=False)
class Note:
    """A note as played: where it starts and ends, and the elements that write it, tied to each other."""

    source: int  # the track of the file's score
    start: int
    end: int
    pitch: int
    velocity: int
    elements: list[tuple[int, ET.Element]]  # with the numbers of their bars


class Locator(PartReader):
    """A reader that remembers the element of each note."""

    def __init__(self, *settings: object) -> None:
        super().__init__(*settings)  # type: ignore[arg-type]
        self.elements: dict[int, ET.Element] = {}

    def _sounding_note(self, element: ET.Element) -> WrittenNote | None:
        note = super()._sounding_note(element)
        if note is not None:
            self.elements[id(note)] = element
        return note


class OpenScore:
    """A score that is changed."""

    def __init__(self, data: bytes, reading: Reading | None = None) -> None:
        """Find the notes of a score; raises NotKept if it cannot be kept."""
        self.root = tree_of(xml_of(data, GENEROUS), GENEROUS.elements)
        self.find()
        self.reading = reading or Reading.of(played(self.written, self.layout))
        if any(n >= self._first[-1] for some in self.reading.sources for n in some):
            raise NotKept("it has other parts than the piece that was changed")

    def find(self) -> None:
        """Find the parts, bars and notes, at the beginning and after bars or parts have gone."""
        located: list[Locator] = []

        def locate(*settings: object) -> PartReader:
            located.append(Locator(*settings))
            return located[-1]

        self.written = written_of(self.root, GENEROUS, NAME, reader=locate)
        self.layout = bar_layout(self.written)
        self.parts = self.root.findall("part")
        self.measures = [part.findall("measure") for part in self.parts]
        entries = self.root.findall("part-list/score-part")
        self.entries = {entry.get("id"): entry for entry in entries}
        if [part.get("id") for part in self.parts] != [entry.get("id") for entry in entries]:
            raise NotKept("its parts are not those of its list of parts")
        if {len(bars) for bars in self.measures} != {len(self.written.bars)}:
            raise NotKept("its parts have different numbers of bars")
        self._first = [0, *accumulate(len(part.tracks) for part in self.written.parts)]
        self.has_repeats = self.layout.order != [*range(len(self.written.bars))]
        self.notes = [*self._joined(located)]
        self.times: dict[int, int] = defaultdict(int)  # how often each element is played
        for note in self.notes:
            for _, element in note.elements:
                self.times[id(element)] += 1

    def _joined(self, located: Sequence[Locator]) -> Iterator[Note]:
        """Yield the notes as played, with tied ones joined, as `played` does."""
        for number, reader in enumerate(located):
            open_ties: defaultdict[tuple[int, int], list[Note]] = defaultdict(list)
            for bar, at in zip(self.layout.order, self.layout.starts, strict=True):
                for one in reader.part.bars[bar].notes if bar < len(reader.part.bars) else ():
                    start, element = max(0, at + one.ticks), (bar, reader.elements[id(one)])
                    waiting = open_ties[one.pitch, start] if one.tied_from else []
                    if waiting:
                        note = waiting.pop(0)
                        note.end += one.length
                        note.elements.append(element)
                    else:
                        source = self._first[number] + one.instrument
                        note = Note(source, start, start + one.length, one.pitch, one.velocity, [element])  # fmt: skip
                        yield note
                    if one.tied_on:
                        open_ties[one.pitch, note.end].append(note)

    # Times.

    def check(self, change: Change) -> None:
        """Raise ValueError if a change begins after the end of the piece."""
        if change.start and self.reading.in_file(change.start) >= self.end - 1:
            beats = change.start / self.reading.ticks_per_beat
            raise ValueError(f"a change begins at beat {beats:g}, after the end of the piece")

    @property
    def end(self) -> int:
        """The tick at which the last bar ends."""
        return self.layout.starts[-1] + self.layout.lengths[self.layout.order[-1]]

    def bars(self, change: Change) -> tuple[int, int]:
        """Return the first bar of a change and the one after its last; raises NotKept unless these are bar lines."""
        if self.has_repeats and (change.start or change.stop is not None):
            raise NotKept(REPEATS)
        if self.has_repeats:
            return 0, len(self.written.bars)
        lines = [*self.layout.starts, self.end]
        found: list[int] = []
        for tick in (change.start, change.stop):
            at = self.end if tick is None else self.reading.tick_in_file(tick)
            bar = int(np.argmin([abs(line - at) for line in lines]))
            near = TICKS_PER_BEAT / (2 * self.reading.steps) if self.reading.steps else 1
            if tick is not None and at < self.end and abs(lines[bar] - at) > near and at > 0:
                raise NotKept("its bar lines differ from those of the piece")
            found.append(0 if at <= 0 else bar)
        return found[0], found[1]

    def place(self, tick: int) -> tuple[int, int]:
        """Return the written bar that is played at a tick, and the ticks since its start."""
        number = max(0, int(np.searchsorted(self.layout.starts, tick, side="right")) - 1)
        return self.layout.order[number], tick - self.layout.starts[number]

    # Parts and notes.

    def part_of(self, source: int) -> int:
        """Return the number of the part that has a track."""
        return next(n for n, first in enumerate(self._first[1:]) if source < first)

    def track(self, source: int) -> Track:
        """Return a track of the file's score."""
        number = self.part_of(source)
        return self.written.parts[number].tracks[source - self._first[number]]

    def sources_in(self, part: int) -> range:
        """Return the tracks of a part."""
        return range(self._first[part], self._first[part + 1])

    def sources_of(self, tracks: Sequence[int] | None) -> set[int]:
        """Return the tracks of the file's score that some tracks of the piece play; None for all in the file."""
        if tracks is None:
            return {*range(self._first[-1])}
        self.reading.check(tracks)
        return {source for track in tracks for source in self.reading.sources[track]}

    def within(self, change: Change, sources: Iterable[int]) -> list[Note]:
        """Return the notes of some tracks in the span of a change; raises NotKept if they are played elsewhere, too."""
        first, last = self.reading.span(change)
        half = TICKS_PER_BEAT / (2 * self.reading.steps) if self.reading.steps else 0
        low, high, own = (first - half if first else -1), last - half, {*sources}
        found = [note for note in self.notes if note.source in own and low <= note.start < high]
        self.check_once(found)
        return found

    def check_once(self, notes: Iterable[Note]) -> None:
        """Raise NotKept if the elements of some notes are also played by others."""
        notes = [*notes]
        counts: dict[int, int] = defaultdict(int)
        for note in notes:
            for _, element in note.elements:
                counts[id(element)] += 1
        if any(counts[one] != self.times.get(one, count) for one, count in counts.items()):
            raise NotKept(REPEATS)

    def in_force(self, part: int, bar: int, path: str, default: float) -> float:
        """Return the last number that the attributes of a part have at a path up to a bar, with it."""
        return in_force(self.measures[part][: bar + 1], path, default)

    def transposed(self, part: int, bar: int) -> int:
        """Return the semitones from written to sounding pitch."""
        octaves = self.in_force(part, bar, "transpose/octave-change", 0)
        return round(self.in_force(part, bar, "transpose/chromatic", 0) + 12 * octaves)

    def attributes(self, part: int, bar: int) -> ET.Element:
        """Return the attributes at the start of a bar, which are added if there are none."""
        measure = self.measures[part][bar]
        place = head_of(measure)
        if found := [one for one in measure[:place] if one.tag == "attributes"]:
            return found[0]
        measure.insert(place, made := ET.Element("attributes"))
        return made


def value(element: ET.Element | None) -> float:
    """Return the number in an element, or 0 if it is invalid."""
    try:
        return number_in(element, ".") or 0.0
    except ValueError:
        return 0.0


def length_of(element: ET.Element) -> float:
    """Return the duration of a note, rest, backup or forward, in divisions."""
    return max(0.0, value(element.find("duration")))


def in_force(measures: Sequence[ET.Element], path: str, default: float) -> float:
    """Return the last number that the attributes of some bars have at a path."""
    for measure in reversed(measures):
        if found := measure.findall(f"attributes/{path}"):
            return value(found[-1])
    return default


def head_of(measure: ET.Element, *tags: str) -> int:
    """Return the number of elements at the start of a bar with some tags, by default those before its music."""
    return len([*takewhile(lambda one: one.tag in (tags or BEFORE_MUSIC), measure)])


def lengths_in(measure: ET.Element) -> Iterator[tuple[ET.Element, float]]:
    """Yield the elements of a bar with the divisions by which each moves on."""
    for element in measure:
        moves = element.tag in POSITIONING
        if element.tag == "note" and {"grace", "chord"} & {child.tag for child in element}:
            moves = False
        length = length_of(element) if moves else 0.0
        yield element, -length if element.tag == "backup" else length


def placed_in(measure: ET.Element) -> list[tuple[ET.Element, float]]:
    """Return the elements of a bar with their positions in divisions: a note with that of its end."""
    placed, position = [], 0.0
    for element, length in lengths_in(measure):
        position = max(0.0, position + length)
        placed.append((element, position))
    return placed


def chord_part(parts: Sequence[ET.Element], written: WrittenScore) -> int:
    """Return the part to write chords above: the first that has some, or else the first pitched part."""

    def rank(number: int) -> tuple[bool, bool]:
        has_chords = parts[number].find("measure/harmony") is not None
        return not has_chords, all(track.is_drum for track in written.parts[number].tracks)

    return min(range(len(parts)), key=rank)


def drums_of(entry: ET.Element) -> dict[int, str]:
    """Return the instruments of the drums of a part by their pitches."""
    return {
        round(value(midi.find("midi-unpitched"))) - 1: midi.get("id", "")
        for midi in entry.iterfind("midi-instrument")
        if midi.find("midi-unpitched") is not None
    }


def untie(note: ET.Element, kind: str) -> None:
    """Remove the ties that a note starts, or stops."""
    for parent in (note, *note.findall("notations")):
        for tie in [*parent.findall("tie"), *parent.findall("tied")]:
            if tie.get("type") == kind:
                parent.remove(tie)


def plain(number: float) -> str:
    """Format a number without an exponent."""
    return f"{number:.0f}" if number == round(number) else f"{number:.6f}"


def put_attribute(attributes: ET.Element, element: ET.Element) -> None:
    """Put an attribute in its place among others, which MusicXML orders."""
    rank = ATTRIBUTES.index(element.tag)
    places = [
        n for n, one in enumerate(attributes) if one.tag not in ATTRIBUTES[: rank + 1]
    ]  # fmt: skip
    attributes.insert(places[0] if places else len(attributes), element)


def tree(tag: str, *children: ET.Element | tuple[str, object], **attributes: str) -> ET.Element:
    """Make an element from children, or from their tags and texts."""
    made = ET.Element(tag, attributes)
    for child in children:
        if isinstance(child, ET.Element):
            made.append(child)
        else:
            ET.SubElement(made, child[0]).text = None if child[1] is None else str(child[1])
    return made
