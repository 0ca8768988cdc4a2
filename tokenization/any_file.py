"""Read any file of music to a score: MIDI, MusicXML or ABC, recognised by its content."""

from __future__ import annotations

import re
from pathlib import Path

from tokenization.midi.chunks import ZIP, refuse_foreign
from tokenization.midi.limits import GENEROUS, Limits, MidiError
from tokenization.midi.reading import bytes_of, printable, read_midi
from tokenization.score import Score

MIDI_ENDINGS = (".mid", ".midi", ".kar")
NOTATION_ENDINGS = (".mxl", ".musicxml", ".xml", ".abc")
ENDINGS = (*MIDI_ENDINGS, *NOTATION_ENDINGS)
_XML = re.compile(rb"(?:\xef\xbb\xbf|\s)*<(?:\?xml|!DOCTYPE\s+score|!--|score-)")
_XML_16 = (b"\xff\xfe<\x00", b"\xfe\xff\x00<", b"<\x00?\x00", b"\x00<\x00?")
_ABC = re.compile(rb"^K:", re.MULTILINE)
_ABC_BYTES = 1 << 16  # as far as a tune's key is looked for


def read_file(
    source: bytes | str | Path,
    *,
    limits: Limits = GENEROUS,
    name: str | None = None,
    suffix: str | None = None,
    tune: int | None = None,
    staves: bool = False,
) -> Score:
    """Read a file, or a file's bytes, which errors call by `name`; a MidiError says what is wrong.

    What it is, its bytes say, or where they do not, the `suffix` of its name: by default that of `name`.
    Of an ABC file with several tunes one is read, by default the first. With `staves`, each staff of a part in
    MusicXML is a track.
    """
    path = "" if isinstance(source, bytes) else Path(source)
    name = printable(name or (Path(path).name or str(path) or "this file"))
    data = source if isinstance(source, bytes) else bytes_of(Path(source), limits, name)
    kind = kind_of(data, Path(path or name).suffix if suffix is None else suffix)
    if kind == "midi":
        return read_midi(data, limits=limits, name=name)
    limits.check_bytes(name, len(data))
    if not data.strip():
        raise MidiError(f"{name} is empty ({len(data)} bytes): choose a file with notes")
    # Imported where they are needed: most files are MIDI.
    if kind == "abc":
        refuse_foreign(data, name, "an ABC file")
        from tokenization.notation.abc.reading import read_abc

        return read_abc(data, limits, name, tune)
    from tokenization.notation.musicxml.reading import read_musicxml

    if not data.startswith(ZIP) and not _is_xml(data):
        refuse_foreign(data, name, "a score")
    return read_musicxml(data, limits, name, staves=staves)


def kind_of(data: bytes, suffix: str = "") -> str:
    """Return midi, musicxml or abc: by the first bytes, and by the suffix of a name where they do not say."""
    ending = suffix.lower()
    if data.startswith(b"MThd") or ending in MIDI_ENDINGS:
        return "midi"
    if data.startswith(ZIP) or _is_xml(data):
        return "musicxml"
    begins = data[:_ABC_BYTES]
    if ending == ".abc" or (b"\x00" not in begins and _ABC.search(begins)):
        return "abc"
    return "musicxml" if ending in NOTATION_ENDINGS else "midi"


def is_midi(data: bytes) -> bool:
    """Say whether a file that could be read is a MIDI file."""
    return kind_of(data) == "midi"


def _is_xml(data: bytes) -> bool:
    return bool(_XML.match(data)) or data.startswith(_XML_16)
