"""The score inside compressed MusicXML (`.mxl`): a zip archive whose container names it."""

from __future__ import annotations

import io
import xml.etree.ElementTree as ET
import zipfile
import zlib

from tokenization.notation.musicxml.xml_stream import Unreadable, stream

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
        raise Unreadable("is a zip archive that is damaged: get it again") from None
    except (RuntimeError, NotImplementedError):  # a password, or a method that is not known
        raise Unreadable("is an archive with a password or of an unknown kind") from None


def _score_name(archive: zipfile.ZipFile, names: list[str]) -> str:
    """Return which file of the archive is the score: the first that the container names."""
    found: list[str] = []

    def take(_: list[ET.Element], rootfile: ET.Element) -> None:
        found.append(rootfile.get("full-path", ""))

    if CONTAINER in names:
        stream(_read(archive, CONTAINER, 1 << 16), {2: {"rootfile"}}, set(), take)
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
