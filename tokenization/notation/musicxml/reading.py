"""MusicXML, partwise or timewise, compressed or not, to a score (MusicXML 4.0, W3C 2021)."""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as ET
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from xml.parsers import expat

from tokenization.midi.chunks import ZIP
from tokenization.midi.limits import Limits, MidiError
from tokenization.notation.musicxml import DRUM_CHANNEL
from tokenization.notation.musicxml.part import Instruments, PartReader, number
from tokenization.notation.played import played
from tokenization.notation.written import Line, Written
from tokenization.score import Score, Track

# XML from anybody as small trees, one at a time, in bounded memory: nothing is fetched, and no document declares
# entities or attributes of its own, which a few letters would unfold to gigabytes.

DEEPEST = 64
LARGEST_TREE = 200_000  # elements of one bar
LONGEST_TEXT = 10_000  # letters of an element that are kept, and one buffer more


class Unreadable(ValueError):
    """What is wrong with the XML, to go on a sentence that starts with the file's name."""


# Ancestors, from the root on, and the tree that is whole.
Take = Callable[[list[ET.Element], ET.Element], None]


class Stream:
    """Calls `take` with each element of a wanted name at its depth, the root's being 0.

    Such an element comes with all that is in it but the ignored elements. Of all others only names
    and attributes are known, and they are forgotten where they end.
    """

    def __init__(
        self, wanted: Mapping[int, set[str]], ignored: set[str], take: Take, most_elements: int
    ) -> None:
        self._wanted, self._ignored, self._take = wanted, ignored, take
        self._most = most_elements
        self._stack: list[ET.Element] = []
        self._tree_depth = 0  # the depth of the tree that grows at this moment; 0 where none does
        self._skipped = 0  # how many open elements are within one that is ignored
        self._count = self._in_tree = 0

    def read(self, data: bytes) -> None:
        """Read a document."""
        parser = self._parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
        parser.StartDoctypeDeclHandler = _check_document_type
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        try:
            parser.Parse(data, True)
        except expat.ExpatError as error:
            what = expat.ErrorString(error.code)
            raise Unreadable(f"is damaged at line {error.lineno}: {what}") from None
        except (LookupError, ValueError) as error:
            if isinstance(error, ValueError) and not _is_of_encoding(error):
                raise
            raise Unreadable(
                "is written in an encoding that is not known: save it as UTF-8"
            ) from None

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        self._count += 1
        if self._count > self._most:
            raise Unreadable(f"has more than {self._most:,} elements: give a part of it")
        if self._skipped:
            self._skipped += 1
            return
        if ":" in tag:
            tag = tag.rpartition(":")[2]
        stack = self._stack
        if (depth := len(stack)) >= DEEPEST:
            raise Unreadable(f"has elements more than {DEEPEST} deep, as no score has")
        if self._tree_depth:
            if tag in self._ignored:
                self._skipped = 1
                return
            self._in_tree += 1
            if self._in_tree > LARGEST_TREE:
                raise Unreadable(f"has a bar of more than {LARGEST_TREE:,} elements")
            stack.append(ET.SubElement(stack[-1], tag, attributes))
            return
        if tag in self._wanted.get(depth, ()):
            self._tree_depth, self._in_tree = depth, 0
        stack.append(ET.Element(tag, attributes))

    def _end(self, tag: str) -> None:
        if self._skipped:
            self._skipped -= 1
            return
        element = self._stack.pop()
        if self._tree_depth and len(self._stack) == self._tree_depth:
            self._tree_depth = 0
            self._take(self._stack, element)

    def _text(self, text: str) -> None:
        if self._tree_depth and not self._skipped:
            element = self._stack[-1]
            if element.text is None:
                element.text = text
            elif len(element.text) < LONGEST_TEXT:
                element.text += text


def _check_document_type(
    _name: str, _system: str | None, _public: str | None, declares: bool
) -> None:
    if declares:
        raise Unreadable(
            "declares XML of its own (an internal DTD), as no score does: save it without"
        )


def _is_of_encoding(error: ValueError) -> bool:
    """Say whether an error is of how letters are stored: of several bytes a letter, expat knows Unicode's alone."""
    return isinstance(error, UnicodeError) or "multi-byte encodings" in str(error)


# The score inside compressed MusicXML (`.mxl`): a zip archive whose container names it.

CONTAINER = "META-INF/container.xml"
MOST_ENTRIES = 1000
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # those of the MusicXML standard


def unzipped(data: bytes, most_bytes: int) -> bytes:
    """Return the score's bytes; what would be larger, or is no score, raises Unreadable."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = archive.namelist()
            if len(names) > MOST_ENTRIES:
                raise Unreadable(f"is an archive of {len(names):,} files, not one score")
            return _read(archive, _score_name(archive, names), most_bytes)
    except Unreadable:
        raise
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError):
        raise Unreadable("is a zip archive that is damaged: export it again") from None
    except (RuntimeError, NotImplementedError):  # a password, or a method that is not known
        raise Unreadable("is an archive with a password or of an unknown kind") from None


def _score_name(archive: zipfile.ZipFile, names: list[str]) -> str:
    """Return which file of the archive is the score: the first that the container names."""
    found: list[str] = []

    def take(_: list[ET.Element], rootfile: ET.Element) -> None:
        found.append(rootfile.get("full-path", ""))

    if CONTAINER in names:
        stream = Stream({2: {"rootfile"}}, set(), take, MOST_ENTRIES)
        stream.read(_read(archive, CONTAINER, 1 << 16))
    found += [
        n for n in names if n.endswith((".xml", ".musicxml")) and not n.startswith("META-INF")
    ]
    score = next((name for name in found if name in names), None)
    if score is None:
        raise Unreadable("is a zip archive without a score in it")
    return score


def _read(archive: zipfile.ZipFile, name: str, most_bytes: int) -> bytes:
    if archive.getinfo(name).compress_type not in _METHODS:
        raise Unreadable("is an archive with a password or of an unknown kind")
    with archive.open(name) as file:
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise Unreadable(f"unpacks to more than the {most_bytes:,} bytes that can be read")
    return data


# Repeats, endings and jumps of a MusicXML score, bar by bar.

TWICE = 2
_JUMPS = ("dacapo", "dalsegno", "tocoda", "fine", "segno", "coda")


def read_signs(measure: ET.Element, line: Line) -> None:
    """Read what a bar of any part says about where to go on; an ending stands where it opens."""
    for repeat in measure.findall("barline/repeat"):
        if repeat.get("direction") == "forward":
            line.forward = True
        elif repeat.get("direction") == "backward":
            times = repeat.get("times")
            line.backward = TWICE if times is None else max(1, round(number(times, "times")))
    for ending in measure.findall("barline/ending"):
        if ending.get("type") == "start":
            numbers = {int(n) for n in re.findall(r"\d{1,2}", ending.get("number", ""))}
            line.endings = frozenset(numbers - {0}) or frozenset({1})
        else:
            line.is_ended = True
    for mark in ("segno", "coda"):
        if measure.find(f"barline/{mark}") is not None:
            line.marks.add(mark)
    for sound in (*measure.findall("sound"), *measure.findall("direction/sound")):
        line.marks.update(jump for jump in _JUMPS if sound.get(jump) is not None)
    for kind in measure.findall("direction/direction-type/*"):
        if kind.tag in ("segno", "coda") and not line.marks & {"tocoda", "dalsegno"}:
            line.marks.add(kind.tag)


def spread_endings(lines: Sequence[Line]) -> None:
    """Give each bar of an ending the times at which it is played."""
    within: frozenset[int] | None = None
    for line in lines:
        # A last ending need not say where it ends: with the next repeat at the latest.
        within = line.endings or (None if line.forward else within)
        line.endings = within
        if line.is_ended:
            within = None


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
    return played(read_written(data, limits, name, staves=staves))


def read_written(data: bytes, limits: Limits, name: str, *, staves: bool = False) -> Written:
    """Return a score as it is written, before its repeats are played; a MidiError says what is wrong with it."""
    reader = _Reader(limits, name, staves)
    try:
        data = xml_of(data, limits)
        ignored = _IGNORED if staves else _IGNORED | {"staff"}
        Stream(_WANTED, ignored, reader.take, limits.elements).read(data)
    except Unreadable as error:
        raise MidiError(f"{name} {error}") from None
    written = reader.written
    if not written.lines:
        raise MidiError(f"{name} holds no MusicXML score: choose a file with music in it")
    spread_endings(written.lines)
    return written


def xml_of(data: bytes, limits: Limits) -> bytes:
    """Return the bytes of a score, unpacked if they are compressed."""
    return unzipped(data, UNPACKED * limits.bytes) if data.startswith(ZIP) else data


class _Reader:
    """Takes the list of parts, then bar by bar."""

    def __init__(self, limits: Limits, name: str, staves: bool) -> None:
        self.written, self._staves = Written(limits, name), staves
        self._parts: dict[str, PartReader] = {}

    def take(self, ancestors: list[ET.Element], element: ET.Element) -> None:
        """Read an element, which is whole."""
        root = ancestors[0].tag
        if root not in _SCORES:
            raise Unreadable(f"is an XML document, but no MusicXML score: it holds <{root[:40]}>")
        if element.tag == "part-list":
            for part in element.findall("score-part"):
                self._add(part.get("id", ""), *_instruments(part))
            return
        outer = ancestors[1]  # the part of a measure, or the measure of a part
        holder, measure = (outer, element) if root == "score-partwise" else (element, outer)
        key = holder.get("id", "")
        if key not in self._parts:  # it is not in the list of parts
            self._add(key, [Track()], {})
        bars, part = self._parts[key].part.bars, self._parts[key]
        line = self.written.line(len(bars))
        before = len(line.tempos) + len(line.chords)
        try:
            part.take(element, line)
            # Repeats and jumps are the same in all parts, and some programs write them into one alone.
            read_signs(element, line)
        except ValueError as error:
            shown = (measure.get("number") or str(len(bars) + 1))[:8]
            raise Unreadable(f"is damaged in bar {shown}: {error}") from None
        self.written.count("notes", len(bars[-1].notes))
        self.written.count("signs", len(line.tempos) + len(line.chords) - before)

    def _add(self, key: str, tracks: list[Track], instruments: Instruments) -> None:
        """Add a part, unless there is one of that name."""
        self.written.count("tracks", len(tracks))
        if key not in self._parts:
            self._parts[key] = PartReader(tracks, instruments, self._staves)
            self.written.parts.append(self._parts[key].part)


def _instruments(part: ET.Element) -> tuple[list[Track], Instruments]:
    """Return a part's tracks, and by the name of each instrument its track and the drum it is."""
    name = _text(part, "part-name")
    by_id = {one.get("id", ""): one for one in part.findall("midi-instrument")}
    tracks: dict[Track, int] = {}  # and where each stands
    kit: Track | None = None
    instruments: Instruments = {}
    for one in part.findall("score-instrument") or [ET.Element("score-instrument")]:
        key = one.get("id", "")
        none = ET.Element("midi-instrument")
        midi = by_id.get(key, none if key else next(iter(by_id.values()), none))
        drum = _number(midi, "midi-unpitched")
        is_drum = _number(midi, "midi-channel") == DRUM_CHANNEL or drum is not None
        program = min(max(_number(midi, "midi-program") or 1, 1), 128) - 1
        track = Track(name or _text(one, "instrument-name"), program, is_drum)
        if is_drum:  # a kit has an instrument for each drum: they are one track
            track = kit = kit or track
        place = tracks.setdefault(track, len(tracks))
        instruments[key] = (place, None if drum is None else drum - 1)
    return [*tracks], instruments


def _text(element: ET.Element, path: str) -> str:
    return " ".join((element.findtext(path) or "").split())[:80]


def _number(element: ET.Element, path: str) -> int | None:
    text = (element.findtext(path) or "").strip()
    return int(text) if re.fullmatch(r"\d{1,4}", text) else None
