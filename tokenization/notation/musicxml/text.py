"""Locate the parts, bars and elements of a MusicXML score in its bytes."""

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
_POSITIONING = ("note", "backup", "forward")


@dataclass
class Element:
    """An element of a bar other than notes: its byte range, and its position in the bar in divisions."""

    tag: str
    start: int
    stop: int
    at: float


@dataclass
class Measure:
    """A bar of a part: its bytes, its number, and its elements other than notes."""

    start: int
    number: str
    content: int  # the start of its first element
    end: int  # the start of its end tag
    stop: int
    length: float = 0  # in divisions
    at_end: float = 0  # the position at which its last voice ends
    last_note: int = 0  # the start of the last element that moves the position; 0 if there is none
    elements: list[Element] = field(default_factory=list)
    ties: Sequence[tuple[int, int]] = ()  # the byte ranges of ties into the next bar

    def check_has_content(self) -> None:
        """Raise NotKept if the bar is an empty-element tag, into which nothing can be inserted."""
        if self.content == self.stop:
            raise NotKept("it has empty bars")


@dataclass
class PartText:
    """A part: its bars, and the changes of its attributes, by name as (bar, value)."""

    id: str
    measures: list[Measure] = field(default_factory=list)
    end: int = 0  # the start of its end tag
    changes: dict[str, list[tuple[int, float]]] = field(default_factory=lambda: defaultdict(list))

    def in_force(self, name: str, measure: int, default: float) -> float:
        """Return the value of an attribute at the end of a bar."""
        changes = self.changes[name]
        count = bisect_right(changes, measure, key=lambda change: change[0])
        return changes[count - 1][1] if count else default


class ScoreText(Stream):
    """The text of a partwise score that has been read before, and is therefore within the limits."""

    def __init__(self, xml: bytes) -> None:
        """Locate the elements; raises NotKept if the score is not partwise and complete."""
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
        # The starts of the end tags of the list of parts and of the score.
        self.list_end = self.end = 0
        # By part, drum pitch → instrument id.
        self.drums: dict[str, dict[int, str]] = defaultdict(dict)
        # By part, the start of the MIDI elements of its entry in the list, and of the entry's end tag.
        self.entries: dict[str, tuple[int, int]] = {}
        # By element, the starts of its start and end tags.
        self._tags: dict[ET.Element, tuple[int, int]] = {}
        try:
            self.read(xml)
        except Unreadable:  # elements that the music reader ignores exceed a limit here
            raise NotKept("its text is too large") from None
        if len({len(part.measures) for part in self.parts}) != 1:
            raise NotKept("its parts have different numbers of bars")

    def _after(self, start: int) -> int:
        """Return the end of the tag that starts at a byte."""
        return self.bytes.index(b">", start) + 1

    def _span(self, element: ET.Element) -> tuple[int, int]:
        """Return the byte range of an element."""
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
        midi = [child for child in entry if child.tag in ("midi-device", "midi-instrument")]
        self.entries[key] = self._tags[midi[0]][0] if midi else end, end
        for instrument in midi:
            if (drum := _number(instrument, "midi-unpitched")) is not None:
                self.drums[key][int(drum) - 1] = instrument.get("id", "")

    def _measure(self, tree: ET.Element) -> None:
        (start, stop), end = self._span(tree), self._tags[tree][1]
        measure = Measure(start, tree.get("number", ""), self._after(start), end, stop)
        position = 0.0
        tied: dict[tuple[str | None, ...], list[tuple[int, int]]] = {}
        for element in tree:
            tag, duration = element.tag, _number(element, "duration") or 0.0
            if tag == "attributes":
                self._attributes(element)
            elif tag == "note":
                self._ties(element, tied)
                is_extra = {"grace", "chord"} & {child.tag for child in element}
                position += duration if not is_extra else 0.0
            elif tag in ("forward", "backup"):
                position = max(0.0, position + (duration if tag == "forward" else -duration))
            measure.length = max(measure.length, position)
            if tag in _POSITIONING:
                measure.last_note = self._tags[element][0]
            else:
                measure.elements.append(Element(tag, *self._span(element), position))
        measure.at_end = position
        measure.ties = [span for spans in tied.values() for span in spans]
        self.parts[-1].measures.append(measure)

    def _attributes(self, element: ET.Element) -> None:
        part, bar = self.parts[-1], len(self.parts[-1].measures)
        for name in ("divisions", "staves", "fifths"):
            if (value := _number(element, name)) is not None:
                part.changes[name].append((bar, value))
        if (semitones := _number(element, "chromatic")) is not None:
            semitones += 12 * (_number(element, "octave-change") or 0.0)
            part.changes["transposed"].append((bar, semitones))

    def _ties(
        self, note: ET.Element, tied: dict[tuple[str | None, ...], list[tuple[int, int]]]
    ) -> None:
        """Update the open ties, by pitch, with those of a note."""
        pitch = tuple(note.findtext(f"pitch/{name}") for name in ("step", "alter", "octave"))
        ties = [child for child in note.iter() if child.tag in ("tie", "tied")]
        if any(tie.get("type") == "stop" for tie in ties):
            tied.pop(pitch, None)
        if spans := [self._span(tie) for tie in ties if tie.get("type") == "start"]:
            tied[pitch] = spans


def _number(element: ET.Element, name: str) -> float | None:
    """Return the last number with a tag in an element; 0 if it is invalid, None if it is missing."""
    texts = [found.text or "" for found in element.iter(name)]
    try:
        return number(texts[-1], name) if texts else None
    except ValueError:
        return 0.0
