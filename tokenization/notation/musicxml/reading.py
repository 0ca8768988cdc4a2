"""MusicXML, partwise or timewise, compressed or not, to a score (MusicXML 4.0, W3C 2021)."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

from tokenization.midi.chunks import ZIP
from tokenization.midi.limits import Limits, MidiError
from tokenization.notation.musicxml import DRUM_CHANNEL
from tokenization.notation.musicxml.compressed import unzipped
from tokenization.notation.musicxml.part import PartReader
from tokenization.notation.musicxml.repeats import LineReader
from tokenization.notation.musicxml.xml_stream import Unreadable, stream
from tokenization.notation.played import played
from tokenization.notation.written import Line, Written
from tokenization.score import Score, Track

UNPACKED = 16  # times as large as the file that is given may be what it unpacks to
_SCORES = ("score-partwise", "score-timewise")
_WANTED = {1: {"part-list"}, 2: {"measure", "part"}}
_IGNORED = {
    *("notations", "lyric", "beam", "stem", "type", "voice", "notehead", "accidental", "print"),
    *("figured-bass", "listening", "play", "identification", "part-name-display"),
}


def read_musicxml(data: bytes, limits: Limits, name: str, *, staves: bool = False) -> Score:
    """Return the score; a MidiError says in one sentence what is wrong with the file.

    With `staves`, each staff of a part is a track, such as the right and the left hand of a piano.
    """
    reader = _Reader(limits, name, staves)
    try:
        if data.startswith(ZIP):
            data = unzipped(data, UNPACKED * limits.bytes)
        stream(data, _WANTED, _IGNORED if staves else _IGNORED | {"staff"}, reader.take)
    except Unreadable as error:
        raise MidiError(f"{name} {error}") from None
    return played(reader.written(), limits, name)


class _Reader:
    """Takes the list of parts, then bar by bar."""

    def __init__(self, limits: Limits, name: str, staves: bool) -> None:
        self._limits, self._name, self._staves = limits, name, staves
        self._parts: dict[str, PartReader] = {}
        self._lines: list[Line] = []
        self._line_reader = LineReader()
        self._notes = self._bars = 0

    def take(self, ancestors: list[ET.Element], element: ET.Element) -> None:
        """Read an element, which is whole."""
        root = ancestors[0].tag
        if root not in _SCORES:
            raise Unreadable(f"is an XML document, but no MusicXML score: it holds <{root[:40]}>")
        if element.tag == "part-list":
            for part in element.findall("score-part"):
                reader = PartReader(*_instruments(part), self._staves)
                self._parts.setdefault(part.get("id", ""), reader)
                self._limits.check(self._name, "tracks", len(self._parts))
            return
        outer = ancestors[1]  # the part of a measure, or the measure of a part
        holder, measure = (outer, element) if root == "score-partwise" else (element, outer)
        nameless = PartReader([Track()], {}, self._staves)
        part = self._parts.setdefault(holder.get("id", ""), nameless)
        number = len(part.bars)
        self._limits.check(self._name, "beats", number)
        self._bars += 1
        self._limits.check(self._name, "bars", self._bars)
        if number == len(self._lines):
            self._lines.append(Line())
        try:
            part.take(element, self._lines[number])
            # Repeats and jumps are the same in all parts, and some programs write them into one alone.
            self._line_reader.take(element, self._lines[number], number)
        except ValueError as error:
            shown = (measure.get("number") or str(number + 1))[:8]
            raise Unreadable(f"is damaged in bar {shown}: {error}") from None
        self._notes += len(part.bars[-1].notes)
        self._limits.check(self._name, "notes", self._notes)

    def written(self) -> Written:
        """Return all that was taken."""
        if not self._lines:
            raise MidiError(f"{self._name} holds no MusicXML score: choose a file with music in it")
        self._line_reader.close(self._lines)
        return Written(parts=[part.part for part in self._parts.values()], lines=self._lines)


def _instruments(part: ET.Element) -> tuple[list[Track], dict[str, tuple[int, int | None]]]:
    """Return a part's tracks, and by the name of each instrument its track and the drum it is."""
    name = _text(part, "part-name")
    by_id = {one.get("id", ""): one for one in part.findall("midi-instrument")}
    tracks: list[Track] = []
    instruments: dict[str, tuple[int, int | None]] = {}
    for one in part.findall("score-instrument") or [ET.Element("score-instrument")]:
        key = one.get("id", "")
        midi = by_id.get(key)
        if midi is None:
            midi = (
                next(iter(by_id.values()), ET.Element("midi-instrument"))
                if not key
                else ET.Element("x")
            )
        drum = _number(midi, "midi-unpitched")
        is_drum = _number(midi, "midi-channel") == DRUM_CHANNEL or drum is not None
        program = min(max(_number(midi, "midi-program") or 1, 1), 128) - 1
        track = Track(name or _text(one, "instrument-name"), program, is_drum)
        if is_drum:  # a kit has an instrument for each drum: they are one track
            track = next((t for t in tracks if t.is_drum), track)
        if track not in tracks:
            tracks.append(track)
        instruments[key] = (tracks.index(track), None if drum is None else drum - 1)
    return tracks, instruments


def _text(element: ET.Element, path: str) -> str:
    return " ".join((element.findtext(path) or "").split())[:80]


def _number(element: ET.Element, path: str) -> int | None:
    text = (element.findtext(path) or "").strip()
    return int(text) if re.fullmatch(r"\d{1,4}", text) else None
