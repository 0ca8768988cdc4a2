"""Read MusicXML, partwise or timewise, compressed or not (MusicXML 4.0, W3C 2021)."""

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
from tokenization.notation.written import SharedBar, WrittenScore
from tokenization.score import Score, Track

# Parse untrusted XML as a series of small trees, in bounded memory. Nothing is fetched, and internal DTDs are refused,
# because entities declared there can expand to gigabytes.

DEEPEST = 64
LARGEST_TREE = 200_000  # elements in one bar
LONGEST_TEXT = 10_000  # characters kept of an element's text, give or take one buffer


class Unreadable(ValueError):
    """The XML is invalid; the message continues a sentence that starts with the file's name."""


# Called with the ancestors of an element, from the root on, and the complete element.
Take = Callable[[list[ET.Element], ET.Element], None]


class Stream:
    """Calls `take` with each element of a wanted name at its depth (the root has depth 0).

    Such an element is complete except for the ignored elements. Other elements are kept without
    content, and only until they end.
    """

    def __init__(
        self, wanted: Mapping[int, set[str]], ignored: set[str], take: Take, most_elements: int
    ) -> None:
        self._wanted, self._ignored, self._take = wanted, ignored, take
        self._most = most_elements
        self._stack: list[ET.Element] = []
        self._tree_depth = 0  # the depth of the wanted element being built; 0 if there is none
        self._skipped = 0  # the number of open elements from an ignored one inwards
        self._count = self._in_tree = 0

    def read(self, data: bytes) -> None:
        """Parse a document."""
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
            if isinstance(error, ValueError) and not _is_encoding_error(error):
                raise
            raise Unreadable("has an unknown encoding: save it as UTF-8") from None

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
            raise Unreadable(f"has elements nested more than {DEEPEST} deep, unlike any score")
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
        raise Unreadable("declares XML of its own (an internal DTD): save it without")


def _is_encoding_error(error: ValueError) -> bool:
    """Return whether an error concerns the encoding; expat supports no multi-byte encodings except Unicode."""
    return isinstance(error, UnicodeError) or "multi-byte encodings" in str(error)


# Compressed MusicXML (`.mxl`): a zip archive with a container file that names the score.

CONTAINER = "META-INF/container.xml"
MOST_ENTRIES = 1000
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # allowed by the MusicXML standard


def unzipped(data: bytes, most_bytes: int) -> bytes:
    """Return the bytes of the score in an archive; raises Unreadable if there is none or it is too large."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = archive.namelist()
            if len(names) > MOST_ENTRIES:
                raise Unreadable(f"is an archive of {len(names):,} files, not one score")
            return _read(archive, _score_name(archive, names), most_bytes)
    except Unreadable:
        raise
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError):
        raise Unreadable("is a damaged zip archive: export it again") from None
    except (RuntimeError, NotImplementedError):  # a password or an unknown compression method
        raise Unreadable("is an archive with a password or of an unknown kind") from None


def _score_name(archive: zipfile.ZipFile, names: list[str]) -> str:
    """Return the name of the score in an archive: the first existing file that the container lists."""
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


# Repeats, endings and jumps.

TWICE = 2
_JUMPS = ("dacapo", "dalsegno", "tocoda", "fine", "segno", "coda")


def read_repeats(measure: ET.Element, bar: SharedBar) -> None:
    """Add the repeats, jumps and endings in a part's measure to the shared bar; an ending only to its first bar."""
    for repeat in measure.findall("barline/repeat"):
        if repeat.get("direction") == "forward":
            bar.forward = True
        elif repeat.get("direction") == "backward":
            times = repeat.get("times")
            bar.backward = TWICE if times is None else max(1, round(number(times, "times")))
    for ending in measure.findall("barline/ending"):
        if ending.get("type") == "start":
            numbers = {int(n) for n in re.findall(r"\d{1,2}", ending.get("number", ""))}
            bar.endings = frozenset(numbers - {0}) or frozenset({1})
        else:
            bar.closes_ending = True
    for mark in ("segno", "coda"):
        if measure.find(f"barline/{mark}") is not None:
            bar.marks.add(mark)
    for sound in (*measure.findall("sound"), *measure.findall("direction/sound")):
        bar.marks.update(jump for jump in _JUMPS if sound.get(jump) is not None)
    for kind in measure.findall("direction/direction-type/*"):
        if kind.tag in ("segno", "coda") and not bar.marks & {"tocoda", "dalsegno"}:
            bar.marks.add(kind.tag)


def spread_endings(bars: Sequence[SharedBar]) -> None:
    """Extend each ending from its first bar to all of its bars."""
    current: frozenset[int] | None = None
    for bar in bars:
        # A last ending without a stated end lasts until the next repeat.
        current = bar.endings or (None if bar.forward else current)
        bar.endings = current
        if bar.closes_ending:
            current = None


MOST_EXPANSION = 16  # the largest unpacked size, in multiples of the largest file
_SCORES = ("score-partwise", "score-timewise")
_WANTED = {1: {"part-list"}, 2: {"measure", "part"}}
_IGNORED = {
    *("notations", "lyric", "beam", "stem", "type", "voice", "notehead", "accidental", "print"),
    *("figured-bass", "listening", "play", "identification", "part-name-display"),
}


def read_musicxml(data: bytes, limits: Limits, name: str, *, staves: bool = False) -> Score:
    """Read MusicXML to a score with its repeats unfolded; raises MidiError.

    With `staves`, each staff of a part becomes a track, such as the two hands of a piano.
    """
    return played(read_written(data, limits, name, staves=staves))


def read_written(data: bytes, limits: Limits, name: str, *, staves: bool = False) -> WrittenScore:
    """Read MusicXML to a written score, with its repeats not yet unfolded; raises MidiError."""
    reader = _Reader(limits, name, staves)
    try:
        data = xml_of(data, limits)
        ignored = _IGNORED if staves else _IGNORED | {"staff"}
        Stream(_WANTED, ignored, reader.take, limits.elements).read(data)
    except Unreadable as error:
        raise MidiError(f"{name} {error}") from None
    written = reader.written
    if not written.bars:
        raise MidiError(f"{name} holds no MusicXML score: choose a file with music in it")
    spread_endings(written.bars)
    return written


def xml_of(data: bytes, limits: Limits) -> bytes:
    """Return the XML of a score, decompressing it if necessary."""
    return unzipped(data, MOST_EXPANSION * limits.bytes) if data.startswith(ZIP) else data


class _Reader:
    """Reads the list of parts, then the score measure by measure."""

    def __init__(self, limits: Limits, name: str, staves: bool) -> None:
        self.written, self._staves = WrittenScore(limits, name), staves
        self._parts: dict[str, PartReader] = {}

    def take(self, ancestors: list[ET.Element], element: ET.Element) -> None:
        """Read a list of parts or a measure of a part."""
        root = ancestors[0].tag
        if root not in _SCORES:
            raise Unreadable(
                f"is an XML document, but not a MusicXML score: it holds <{root[:40]}>"
            )
        if element.tag == "part-list":
            for part in element.findall("score-part"):
                self._add(part.get("id", ""), *_instruments(part))
            return
        outer = ancestors[1]  # the part of a measure, or the measure of a part
        holder, measure = (outer, element) if root == "score-partwise" else (element, outer)
        key = holder.get("id", "")
        if key not in self._parts:  # missing from the list of parts
            self._add(key, [Track()], {})
        bars, part = self._parts[key].part.bars, self._parts[key]
        shared = self.written.enter_bar(len(bars))
        before = len(shared.tempos) + len(shared.chords)
        try:
            part.take(element, shared)
            # Repeats apply to all parts, and some programs write them into only one.
            read_repeats(element, shared)
        except ValueError as error:
            shown = (measure.get("number") or str(len(bars) + 1))[:8]
            raise Unreadable(f"is damaged in bar {shown}: {error}") from None
        self.written.count("notes", len(bars[-1].notes))
        self.written.count("signs", len(shared.tempos) + len(shared.chords) - before)

    def _add(self, key: str, tracks: list[Track], instruments: Instruments) -> None:
        """Add a part unless its id is taken."""
        self.written.count("tracks", len(tracks))
        if key not in self._parts:
            self._parts[key] = PartReader(tracks, instruments, self._staves)
            self.written.parts.append(self._parts[key].part)


def _instruments(part: ET.Element) -> tuple[list[Track], Instruments]:
    """Return the tracks of a part, and its instruments by id."""
    name = _text(part, "part-name")
    by_id = {one.get("id", ""): one for one in part.findall("midi-instrument")}
    tracks: dict[Track, int] = {}  # with their indices
    kit: Track | None = None
    instruments: Instruments = {}
    for instrument in part.findall("score-instrument") or [ET.Element("score-instrument")]:
        key = instrument.get("id", "")
        default = ET.Element("midi-instrument")
        midi = by_id.get(key, default if key else next(iter(by_id.values()), default))
        drum = _number(midi, "midi-unpitched")
        is_drum = _number(midi, "midi-channel") == DRUM_CHANNEL or drum is not None
        program = min(max(_number(midi, "midi-program") or 1, 1), 128) - 1
        track = Track(name or _text(instrument, "instrument-name"), program, is_drum)
        if is_drum:  # a kit has one instrument per drum, all in one track
            track = kit = kit or track
        index = tracks.setdefault(track, len(tracks))
        instruments[key] = (index, None if drum is None else drum - 1)
    return [*tracks], instruments


def _text(element: ET.Element, path: str) -> str:
    return " ".join((element.findtext(path) or "").split())[:80]


def _number(element: ET.Element, path: str) -> int | None:
    text = (element.findtext(path) or "").strip()
    return int(text) if re.fullmatch(r"\d{1,4}", text) else None
