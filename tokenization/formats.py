"""Formats of music: any file read to a score, by its content, and scores written, by how the name of a file ends.

Where music was written to a file of the same format, the file is kept and the new music is written into it.
Scores are also given to pretty_midi and muspy, by way of a MIDI file: notes, tempos, metres and names go with it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenization.edit import Edit, NotKept
from tokenization.midi.chunks import ZIP, refuse_foreign
from tokenization.midi.limits import GENEROUS, Limits, MidiError, opened
from tokenization.score import Score
from tokenization.whole_file import write_whole

if TYPE_CHECKING:
    from muspy import Music
    from pretty_midi import PrettyMIDI

Provenance = Mapping[str, Any]  # how a score was made; its file says so
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
    name, data = opened(source, limits, name)
    path = Path(name if isinstance(source, bytes) else source)
    kind = kind_of(data, path.suffix if suffix is None else suffix)
    if kind == "midi":
        from tokenization.midi.reading import read_midi  # where models train, symusic is missing

        return read_midi(data, limits=limits, name=name)
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


def _is_xml(data: bytes) -> bool:
    return bool(_XML.match(data)) or data.startswith(_XML_16)


def midi(score: Score, title: str = "", provenance: Provenance | None = None) -> bytes:
    """Return a score as a MIDI file, in which a text event holds the provenance."""
    from tokenization.midi.writing import write_midi  # its library is not where models train

    return write_midi(score, texts=_texts(provenance))


def musicxml(score: Score, title: str = "", provenance: Provenance | None = None) -> bytes:
    """Return a score as MusicXML, which names the provenance in its description of the encoding."""
    from tokenization.notation.musicxml.writing import write_musicxml

    made = json.dumps(provenance, ensure_ascii=False, default=_number) if provenance else ""
    return write_musicxml(score, title=title, made=made)


def _texts(provenance: Provenance | None) -> tuple[str, ...]:
    made = json.dumps(provenance, ensure_ascii=True, default=_number)
    return (f"musicgen {made}",) if provenance else ()


def _number(of_numpy: Any) -> Any:
    """Return a number of numpy, such as a seed of a loop over `np.arange`, as one that JSON knows."""
    return of_numpy.item()


Format = Callable[[Score, str, Provenance | None], bytes]
FORMATS: dict[str, Format] = {".mid": midi, ".midi": midi, ".musicxml": musicxml, ".xml": musicxml}


def file_of(
    suffix: str,
    score: Score,
    title: str = "",
    provenance: Provenance | None = None,
    edit: Edit | None = None,
) -> tuple[bytes, str]:
    """Return a score as a file of a suffix, and why the file that it was written to is not kept in it, if it is not.

    It is kept in a file of its own format; in another, the score alone is written.
    """
    write, said = FORMATS[suffix.lower()], ""
    kind = "midi" if write is midi else "musicxml"
    if edit is not None and edit.kind == kind:
        if kind == "midi":
            from tokenization.midi.keeping import KeptMidi as Kept
        else:
            from tokenization.notation.musicxml.keeping import KeptMusicXml as Kept
        try:
            return Kept(edit).edited(score, _texts(provenance)), said
        except NotKept as error:
            said = f"Written from the notes alone, not into your file: {error}."
    return write(score, title, provenance), said


def write_score(
    path: Path,
    score: Score,
    provenance: Provenance | None = None,
    *,
    new: bool = False,
    edit: Edit | None = None,
) -> str:
    """Write a score in the format that the name ends in, under that name as its title.

    With an `edit`, into the file that was edited; what is returned says why it could not be, if so (`file_of`).
    A `new` file takes no other's place: FileExistsError says that there is one.
    """
    if path.suffix.lower() not in FORMATS:
        *most, last = FORMATS
        raise ValueError(
            f"{path} ends in none of {', '.join(most)} and {last}; say so what to write"
        )
    data, said = file_of(path.suffix, score, path.stem, provenance, edit)
    write_whole(path, data, new=new)
    return said


class WithMidi:
    """Music with a MIDI file, of which other libraries make their own objects."""

    @property
    def midi(self) -> bytes:
        """The whole piece as a MIDI file."""
        raise NotImplementedError

    def to_pretty_midi(self) -> PrettyMIDI:
        """Return the whole piece as an object of pretty_midi."""
        from pretty_midi import PrettyMIDI

        return PrettyMIDI(BytesIO(self.midi))

    def to_muspy(self) -> Music:
        """Return the whole piece as an object of muspy, which has to be installed."""
        try:
            from muspy import from_pretty_midi
        except ModuleNotFoundError as error:
            raise ValueError("muspy is not installed: run pip install muspy") from error
        pretty = self.to_pretty_midi()
        music = from_pretty_midi(pretty, resolution=pretty.resolution)
        music.resolution = pretty.resolution  # muspy 0.5 counts in it, and does not say so
        return music


def midi_of(music: Any) -> bytes:
    """Return an object of pretty_midi or muspy as a MIDI file."""
    library, buffer = type(music).__module__.partition(".")[0], BytesIO()
    if library == "pretty_midi" and hasattr(music, "instruments"):
        music.write(buffer)
    elif library == "muspy" and hasattr(music, "tracks"):
        from muspy import to_mido

        to_mido(music).save(file=buffer)
    else:
        raise ValueError(
            f"music is the path or the bytes of a file, a Score, a Piece, or an object of pretty_midi or muspy, "
            f"not of {type(music).__name__}"
        )
    return buffer.getvalue()
