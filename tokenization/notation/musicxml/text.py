"""A MusicXML score as the bytes that it is written in: where its parts, bars and their elements begin and end."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from tokenization.edit import NotKept
from tokenization.midi.limits import GENEROUS
from tokenization.notation.musicxml.part import number
from tokenization.notation.musicxml.reading import Stream, Unreadable

_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_OF_NOTES = ("note", "backup", "forward")


@dataclass
class Element:
    """An element of a bar that is no note: where it stands in the bytes and, in divisions, in the bar."""

    tag: str
    start: int
    stop: int
    at: float


@dataclass
class Measure:
    """A bar of a part: its bytes, its number, and what in it is no note."""

    start: int
    number: str
    inside: int  # where its first element begins
    end: int  # where its end tag begins
    stop: int
    length: float = 0  # in divisions
    at_end: float = 0  # where its last voice ends
    last_note: int = 0  # where the last element begins that moves time; 0 where there is none
    elements: list[Element] = field(default_factory=list)
    ties: Sequence[tuple[int, int]] = ()  # bytes of those that go on after the bar

    def check_open(self) -> None:
        """Raise where nothing can be put into it."""
        if self.inside == self.stop:
            raise NotKept("it has bars without any content")


@dataclass
class PartText:
    """A part: its bars, and what is in force from some of them on."""

    id: str
    measures: list[Measure] = field(default_factory=list)
    end: int = 0  # where its end tag begins
    said: dict[str, list[tuple[int, float]]] = field(default_factory=lambda: defaultdict(list))

    def in_force(self, name: str, measure: int, usual: float) -> float:
        """Return what was said last before the end of a bar."""
        said = self.said[name]
        place = bisect_right(said, measure, key=lambda one: one[0])
        return said[place - 1][1] if place else usual


class ScoreText(Stream):
    """The text of a partwise score that was read before, and so is within all limits."""

    def __init__(self, xml: bytes) -> None:
        """Find the places; what is no plain partwise score raises NotKept."""
        super().__init__(
            {1: {"part-list"}, 2: {"measure"}}, set(), self._take_tree, GENEROUS.elements
        )
        if xml.startswith(_UTF_16):
            xml = re.sub(
                rb"(<\?xml[^>]*encoding=.)[\w-]+",
                rb"\1UTF-8",
                xml.decode("utf-16").encode(),
                count=1,
            )
        self.bytes = xml
        self.parts: list[PartText] = []
        # Where the end tags of the list of parts and of the score begin.
        self.list_end = self.end = 0
        # Of each part, pitches and instruments.
        self.drums: dict[str, dict[int, str]] = defaultdict(dict)
        # Where a part's MIDI begins, and where its entry ends.
        self.announced: dict[str, tuple[int, int]] = {}
        # Where the first and the last tag of an element begin; of one tag, where that begins and ends.
        self._tags: dict[ET.Element, tuple[int, int]] = {}
        try:
            self.read(xml)
        except Unreadable:  # with what the reader of its music leaves out, it is past a limit
            raise NotKept("its text is larger than can be kept") from None
        if len({len(part.measures) for part in self.parts}) != 1:
            raise NotKept("its parts have different numbers of bars")

    def _after(self, start: int) -> int:
        """Return where the tag that begins at a byte has ended."""
        return self.bytes.index(b">", start) + 1

    def _span(self, element: ET.Element) -> tuple[int, int]:
        """Return the first byte of an element and the one after its last."""
        first, last = self._tags[element]
        after = self._after(first)
        return first, after if self.bytes[after - 2 : after] == b"/>" else self._after(last)

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        if not self._stack and tag != "score-partwise":
            raise NotKept("it is not written part by part")
        super()._start(tag, attributes)
        at = self._parser.CurrentByteIndex
        self._tags[self._stack[-1]] = at, at
        if tag == "part" and len(self._stack) == 2:
            self.parts.append(PartText(attributes.get("id", "")))

    def _end(self, tag: str) -> None:
        element, at = self._stack[-1], self._parser.CurrentByteIndex
        self._tags[element] = self._tags[element][0], at
        super()._end(tag)
        if not self._stack:
            self.end = at
        elif tag == "part" and len(self._stack) == 1:
            self.parts[-1].end = at

    def _take_tree(self, _: list[ET.Element], tree: ET.Element) -> None:
        if tree.tag == "measure":
            self._measure(tree)
        else:
            self.list_end = self._tags[tree][1]
            for entry in tree.findall("score-part"):
                self._entry(entry)
        for element in tree.iter():
            del self._tags[element]

    def _entry(self, entry: ET.Element) -> None:
        key, end = entry.get("id", ""), self._tags[entry][1]
        midi = [one for one in entry if one.tag in ("midi-device", "midi-instrument")]
        self.announced[key] = self._tags[midi[0]][0] if midi else end, end
        for instrument in midi:
            if (drum := _number(instrument, "midi-unpitched")) is not None:
                self.drums[key][int(drum) - 1] = instrument.get("id", "")

    def _measure(self, tree: ET.Element) -> None:
        (start, stop), end = self._span(tree), self._tags[tree][1]
        measure = Measure(start, tree.get("number", ""), self._after(start), end, stop)
        now = 0.0
        tied: dict[tuple[str | None, ...], list[tuple[int, int]]] = {}
        for element in tree:
            tag, duration = element.tag, _number(element, "duration") or 0.0
            if tag == "attributes":
                self._attributes(element)
            elif tag == "note":
                self._ties(element, tied)
                now += duration if not {"grace", "chord"} & {one.tag for one in element} else 0.0
            elif tag in ("forward", "backup"):
                now = max(0.0, now + (duration if tag == "forward" else -duration))
            measure.length = max(measure.length, now)
            if tag in _OF_NOTES:
                measure.last_note = self._tags[element][0]
            else:
                measure.elements.append(Element(tag, *self._span(element), now))
        measure.at_end = now
        measure.ties = [place for waiting in tied.values() for place in waiting]
        self.parts[-1].measures.append(measure)

    def _attributes(self, element: ET.Element) -> None:
        part, bar = self.parts[-1], len(self.parts[-1].measures)
        for name in ("divisions", "staves", "fifths"):
            if (said := _number(element, name)) is not None:
                part.said[name].append((bar, said))
        if (semitones := _number(element, "chromatic")) is not None:
            semitones += 12 * (_number(element, "octave-change") or 0.0)
            part.said["transposed"].append((bar, semitones))

    def _ties(
        self, note: ET.Element, tied: dict[tuple[str | None, ...], list[tuple[int, int]]]
    ) -> None:
        """Remember ties that wait for the note that they lead to."""
        pitch = tuple(note.findtext(f"pitch/{name}") for name in ("step", "alter", "octave"))
        ties = [one for one in note.iter() if one.tag in ("tie", "tied")]
        if any(tie.get("type") == "stop" for tie in ties):
            tied.pop(pitch, None)
        if begun := [self._span(tie) for tie in ties if tie.get("type") == "start"]:
            tied[pitch] = begun


def _number(element: ET.Element, name: str) -> float | None:
    """Return the last number of a name in an element, 0 for what is none; None where it says none."""
    said = [one.text or "" for one in element.iter(name)]
    try:
        return number(said[-1], name) if said else None
    except ValueError:
        return 0.0
