"""Read MusicXML in parts, compressed or not (MusicXML 4.0, W3C 2021)."""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as ET
import zipfile
import zlib
from collections.abc import Sequence
from xml.parsers import expat

from tokenization.midi.chunks import ZIP
from tokenization.midi.limits import Limits, MidiError
from tokenization.notation.musicxml import DRUM_CHANNEL
from tokenization.notation.musicxml.part import Instruments, PartReader, number
from tokenization.notation.played import played
from tokenization.notation.written import SharedBar, WrittenScore
from tokenization.score import Score, Track

# Parse untrusted XML in bounded memory. Nothing is fetched, and internal DTDs are refused, because entities declared
# there can expand to gigabytes.

DEEPEST = 64


class Unreadable(ValueError):
    """The XML is invalid; the message continues a sentence that starts with the file's name."""


def tree_of(data: bytes, most_elements: int) -> ET.Element:
    """Parse an XML document to its root, with comments and without namespaces; raises Unreadable."""
    builder = ET.TreeBuilder(insert_comments=True)
    count = depth = 0

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal count, depth
        count, depth = count + 1, depth + 1
        if count > most_elements:
            raise Unreadable(f"has more than {most_elements:,} elements: give a part of it")
        if depth > DEEPEST:
            raise Unreadable(f"has elements nested more than {DEEPEST} deep, unlike any score")
        builder.start(tag.rpartition(":")[2], attributes)

    def end(tag: str) -> None:
        nonlocal depth
        depth -= 1
        builder.end(tag)

    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
    parser.StartDoctypeDeclHandler = _check_document_type
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler, parser.CommentHandler = builder.data, builder.comment
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        what = expat.ErrorString(error.code)
        raise Unreadable(f"is damaged at line {error.lineno}: {what}") from None
    except (LookupError, ValueError) as error:
        if isinstance(error, Unreadable):
            raise
        raise Unreadable("has an unknown encoding: save it as UTF-8") from None
    return builder.close()


def _check_document_type(
    _name: str, _system: str | None, _public: str | None, declares: bool
) -> None:
    if declares:
        raise Unreadable("declares XML of its own (an internal DTD): save it without")


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
    if CONTAINER in names:
        container = tree_of(_read(archive, CONTAINER, 1 << 16), MOST_ENTRIES)
        found = [rootfile.get("full-path", "") for rootfile in container.iter("rootfile")]
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


def read_musicxml(data: bytes, limits: Limits, name: str, *, staves: bool = False) -> Score:
    """Read MusicXML to a score with its repeats unfolded; raises MidiError.

    With `staves`, each staff of a part becomes a track, such as the two hands of a piano.
    """
    try:
        root = tree_of(xml_of(data, limits), limits.elements)
        written = written_of(root, limits, name, staves=staves)
    except Unreadable as error:
        raise MidiError(f"{name} {error}") from None
    return played(written)


def xml_of(data: bytes, limits: Limits) -> bytes:
    """Return the XML of a score, decompressing it if necessary; raises Unreadable."""
    return unzipped(data, MOST_EXPANSION * limits.bytes) if data.startswith(ZIP) else data


def written_of(
    root: ET.Element, limits: Limits, name: str, *, staves: bool = False
) -> WrittenScore:
    """Return a score as written, with its repeats not yet unfolded; raises MidiError or Unreadable."""
    if root.tag != "score-partwise":
        raise Unreadable(
            f"is an XML document, but not a score in parts: it holds <{root.tag[:40]}>"
        )
    written = WrittenScore(limits, name)
    readers: dict[str, PartReader] = {}

    def add(key: str, tracks: list[Track], instruments: Instruments) -> None:
        """Add a part unless its id is taken."""
        written.count("tracks", len(tracks))
        if key not in readers:
            readers[key] = PartReader(tracks, instruments, staves)
            written.parts.append(readers[key].part)

    for entry in root.iterfind("part-list/score-part"):
        add(entry.get("id", ""), *_instruments(entry))
    for part in root.iterfind("part"):
        key = part.get("id", "")
        if key not in readers:  # missing from the list of parts
            add(key, [Track()], {})
        for measure in part.iterfind("measure"):
            _read_measure(readers[key], measure, written)
    if not written.bars:
        raise MidiError(f"{name} holds no MusicXML score: choose a file with music in it")
    spread_endings(written.bars)
    return written


def _read_measure(reader: PartReader, measure: ET.Element, written: WrittenScore) -> None:
    bars = reader.part.bars
    shared = written.enter_bar(len(bars))
    before = len(shared.tempos) + len(shared.chords)
    try:
        reader.take(measure, shared)
        # Repeats apply to all parts, and some programs write them into only one.
        read_repeats(measure, shared)
    except ValueError as error:
        shown = (measure.get("number") or str(len(bars) + 1))[:8]
        raise Unreadable(f"is damaged in bar {shown}: {error}") from None
    written.count("notes", len(bars[-1].notes))
    written.count("signs", len(shared.tempos) + len(shared.chords) - before)


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
