"""Parse the XML of scores, compressed or not, in bounded memory."""

from __future__ import annotations

import io
import xml.etree.ElementTree as ET
import zipfile
import zlib
from xml.parsers import expat

from tokenization.limits import ZIP, Limits

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
            raise Unreadable(f"has more than {most_elements:,} elements: use an excerpt")
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


# Compressed MusicXML (`.mxl`): a zip archive whose first XML file outside META-INF is the score.

MOST_ENTRIES = 1000
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # allowed by the MusicXML standard


def unzipped(data: bytes, most_bytes: int) -> bytes:
    """Return the bytes of the score in an archive; raises Unreadable if there is none or it is too large."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = archive.namelist()
            if len(names) > MOST_ENTRIES:
                raise Unreadable(f"is an archive of {len(names):,} files, not one score")
            scores = [
                name
                for name in names
                if name.endswith((".xml", ".musicxml")) and not name.startswith("META-INF")
            ]
            if not scores:
                raise Unreadable("is a zip archive without a score in it")
            return _read(archive, scores[0], most_bytes)
    except Unreadable:
        raise
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, RuntimeError):
        raise Unreadable("is a damaged zip archive or has a password: export it again") from None


def _read(archive: zipfile.ZipFile, name: str, most_bytes: int) -> bytes:
    if archive.getinfo(name).compress_type not in _METHODS:
        raise Unreadable("is an archive with a password or of an unknown kind")
    with archive.open(name) as file:
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise Unreadable(f"unpacks to more than the {most_bytes:,} bytes that can be read")
    return data


MOST_EXPANSION = 16  # the largest unpacked size, in multiples of the largest file


def xml_of(data: bytes, limits: Limits) -> bytes:
    """Return the XML of a score, decompressing it if necessary; raises Unreadable."""
    return unzipped(data, MOST_EXPANSION * limits.bytes) if data.startswith(ZIP) else data
