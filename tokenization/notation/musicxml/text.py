"""A MusicXML score as the bytes that it is written in: where its parts, bars and their elements begin and end."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, field
from xml.parsers import expat

from tokenization.edit import NotKept
from tokenization.notation.musicxml.part import number

_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_TEXTS = ("divisions", "staves", "fifths", "chromatic", "octave-change", "duration", "step", "octave", "alter",
          "midi-unpitched")  # fmt: skip
_OF_NOTES = ("note", "backup", "forward")


@dataclass
class Element:
    """An element of a bar that is no note: where it stands in the bytes and, in divisions, in the bar."""

    tag: str
    start: int
    stop: int
    at: float
    notes: int  # that stand before it


@dataclass
class Measure:
    """A bar of a part: its bytes, its number, and what in it is no note."""

    start: int
    number: str
    inside: int = 0  # where its first element begins
    end: int = 0  # where its end tag begins
    stop: int = 0
    length: float = 0  # in divisions
    at_end: float = 0  # where its last voice ends
    notes: int = 0  # with all that moves time
    elements: list[Element] = field(default_factory=list)
    ties: list[tuple[int, int]] = field(
        default_factory=list
    )  # bytes of those that go on after the bar
    divisions_changes: int = 0


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


class ScoreText:
    """The text of a partwise score that was read before, and so is within all limits."""

    def __init__(self, xml: bytes) -> None:
        """Find the places; what is no plain partwise score raises NotKept."""
        if xml.startswith(_UTF_16):
            xml = re.sub(
                rb"(<\?xml[^>]*encoding=.)[\w-]+",
                rb"\1UTF-8",
                xml.decode("utf-16").encode(),
                count=1,
            )
        self.bytes = xml
        self.parts: list[PartText] = []
        self.list_end = self.end = (
            0  # where the end tags of the list of parts and of the score begin
        )
        self.drums: dict[str, dict[int, str]] = defaultdict(
            dict
        )  # of each part, pitches and instruments
        self.announced: dict[
            str, tuple[int, int]
        ] = {}  # where a part's MIDI begins, and where its entry ends
        self._path: list[tuple[str, int]] = []
        self._texts: dict[str, str] = {}
        self._entry = self._instrument = ""
        parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartElementHandler, parser.EndElementHandler = self._start, self._end
        parser.CharacterDataHandler = self._text
        self._parser = parser
        parser.Parse(xml, True)
        if len({len(part.measures) for part in self.parts}) != 1:
            raise NotKept("its parts have different numbers of bars")

    def _after(self, start: int) -> int:
        """Return where the tag that begins at a byte has ended."""
        return self.bytes.index(b">", start) + 1

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        at, depth = self._parser.CurrentByteIndex, len(self._path)
        if not depth and tag != "score-partwise":
            raise NotKept("it is not written part by part")
        self._path.append((tag, at))
        if depth == 1 and tag == "part":
            self.parts.append(PartText(attributes.get("id", "")))
        elif depth == 2 and tag == "measure":
            self._measure = Measure(at, attributes.get("number", ""), inside=self._after(at))
            self.parts[-1].measures.append(self._measure)
            self._now, self._tied = 0.0, {}
        elif depth == 2 and tag == "score-part":
            self._entry = attributes.get("id", "")
            self.announced[self._entry] = (0, 0)
        elif depth == 3 and tag in ("midi-device", "midi-instrument") and self._entry:
            self.announced[self._entry] = (self.announced[self._entry][0] or at, 0)
            self._instrument = attributes.get("id", "")
        elif depth == 3:
            self._texts, self._marks, self._is_chord, self._is_grace = {}, [], False, False
        elif tag in ("tie", "tied") and attributes.get("type") in ("start", "stop"):
            self._marks.append((tag, attributes["type"], at))
        elif tag == "chord":
            self._is_chord = True
        elif tag in ("grace", "cue"):
            self._is_grace = self._is_grace or tag == "grace"
        self._collect = tag if tag in _TEXTS else ""
        if self._collect:
            self._texts[tag] = ""

    def _text(self, text: str) -> None:
        if self._collect and len(self._texts[self._collect]) < 100:
            self._texts[self._collect] += text

    def _number(self, name: str) -> float:
        try:
            return number(self._texts.get(name, "0"), name)
        except ValueError:
            return 0.0

    def _end(self, tag: str) -> None:
        at, depth = self._parser.CurrentByteIndex, len(self._path) - 1
        _, start = self._path.pop()
        self._collect = ""
        if depth == 0:
            self.end = at
        elif depth == 1 and tag == "part-list":
            self.list_end = at
        elif depth == 1 and tag == "part":
            self.parts[-1].end = at
        elif depth == 2 and tag == "score-part":
            self.announced[self._entry] = (self.announced[self._entry][0] or at, at)
            self._entry = ""
        elif depth == 2 and tag == "measure":
            self._measure.end, self._measure.stop = at, self._after(at)
            self._measure.at_end = self._now
            if start == at:
                raise NotKept("it has bars without any content")
            self._measure.ties = [marks for waiting in self._tied.values() for marks in waiting]
        elif depth == 3 and self._path[1][0] == "part":
            self._element(tag, start, self._after(at))
        elif tag == "midi-unpitched" and self._entry:
            self.drums[self._entry][int(self._number(tag)) - 1] = self._instrument

    def _element(self, tag: str, start: int, stop: int) -> None:
        measure, part = self._measure, self.parts[-1]
        if tag == "attributes":
            self._attributes(part, len(part.measures) - 1)
        duration = self._number("duration")
        if tag == "note" and not self._is_grace and not self._is_chord:
            self._now += duration
        elif tag in ("forward", "backup"):
            self._now = max(0.0, self._now + (duration if tag == "forward" else -duration))
        measure.length = max(measure.length, self._now)
        if tag == "note":
            self._ties()
        if tag in _OF_NOTES:
            measure.notes += 1
        else:
            measure.elements.append(Element(tag, start, stop, self._now, measure.notes))

    def _attributes(self, part: PartText, bar: int) -> None:
        for name in ("divisions", "staves", "fifths"):
            if name in self._texts:
                part.said[name].append((bar, self._number(name)))
        self._measure.divisions_changes += "divisions" in self._texts
        if "chromatic" in self._texts:
            semitones = self._number("chromatic") + 12 * self._number("octave-change")
            part.said["transposed"].append((bar, semitones))

    def _ties(self) -> None:
        """Remember ties that wait for the note that they lead to."""
        pitch = tuple(self._texts.get(name, "") for name in ("step", "alter", "octave"))
        kinds = {kind for _, kind, _ in self._marks}
        if "stop" in kinds:
            self._tied.pop(pitch, None)
        if "start" in kinds:
            self._tied[pitch] = [
                (at, self._after_element(tag, at))
                for tag, kind, at in self._marks
                if kind == "start"
            ]

    def _after_element(self, tag: str, start: int) -> int:
        stop = self._after(start)
        if self.bytes[stop - 2 : stop] == b"/>":
            return stop
        return self._after(self.bytes.index(f"</{tag}".encode(), start))
