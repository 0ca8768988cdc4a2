"""Read any music file, detecting the format by its content, and write scores in the format given by the file suffix.

Music written for a file is inserted into that file if the formats match; the rest of the file is kept.
Scores are converted to and from pretty_midi and muspy through MIDI: notes, tempos, time signatures and names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from io import BytesIO
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenization.analysis.beats import from_a_bar_line
from tokenization.changes import Change, Reading, changes_from
from tokenization.edit import Edit, NotKept
from tokenization.limits import GENEROUS, ZIP, Limits, MusicFileError, read_source
from tokenization.midi.writing import write_midi
from tokenization.score import Score
from tokenization.whole_file import write_whole

if TYPE_CHECKING:
    from muspy import Music
    from pretty_midi import PrettyMIDI

Provenance = Mapping[str, Any]  # how a score was made, stored in its file
MIDI_ENDINGS = (".mid", ".midi", ".kar")
NOTATION_ENDINGS = (".mxl", ".musicxml", ".xml", ".abc")
ENDINGS = (*MIDI_ENDINGS, *NOTATION_ENDINGS)
_XML = re.compile(rb"(?:\xef\xbb\xbf|\s)*<(?:\?xml|!DOCTYPE\s+score|!--|score-)")
_XML_16 = (b"\xff\xfe<\x00", b"\xfe\xff\x00<", b"<\x00?\x00", b"\x00<\x00?")
_ABC = re.compile(rb"^K:", re.MULTILINE)
_TAKE = re.compile(r"\.(?:prompt_cont|cont|infill|accompany)_\d+$")  # what names of takes end in
_ABC_BYTES = 1 << 16  # searched for the key of a tune


def read_file(
    source: bytes | str | Path,
    *,
    limits: Limits = GENEROUS,
    name: str | None = None,
    suffix: str | None = None,
    tune: int | None = None,
    staves: bool = False,
) -> Score:
    """Read a music file, given as a path or bytes; raises MusicFileError, which calls the file `name`.

    The format is detected from the bytes, or else from `suffix`, by default that of `name`. `tune` selects a tune of
    an ABC file, counted from 0; by default the first is read. With `staves`, each staff of a MusicXML part becomes a
    track.
    """
    name, data = read_source(source, limits, name)
    if not data.strip():
        raise MusicFileError(f"{name} is empty ({len(data)} bytes): choose a file with notes")
    path = Path(name if isinstance(source, bytes) else source)
    kind = kind_of(data, path.suffix if suffix is None else suffix)
    if kind == "midi":
        from tokenization.midi.reading import read_midi

        return read_midi(data, limits=limits, name=name)
    # Imported on demand: most files are MIDI.
    if kind == "abc":
        from tokenization.notation.abc import read_abc

        return read_abc(data, limits, name, tune)
    from tokenization.notation.musicxml.reading import read_musicxml

    return read_musicxml(data, limits, name, staves=staves)


def kind_of(data: bytes, suffix: str = "") -> str:
    """Return "midi", "musicxml" or "abc" from the first bytes and, if they are ambiguous, the suffix."""
    ending = suffix.lower()
    if data.startswith(b"MThd") or ending in MIDI_ENDINGS:
        return "midi"
    if data.startswith(ZIP) or _is_xml(data):
        return "musicxml"
    head = data[:_ABC_BYTES]
    if ending == ".abc" or (b"\x00" not in head and _ABC.search(head)):
        return "abc"
    return "musicxml" if ending in NOTATION_ENDINGS else "midi"


def _is_xml(data: bytes) -> bool:
    return bool(_XML.match(data)) or data.startswith(_XML_16)


def midi(score: Score, title: str = "", provenance: Provenance | None = None) -> bytes:
    """Encode a score as MIDI, with the provenance in a text event."""
    return write_midi(score, texts=_texts(provenance))


def musicxml(
    score: Score, title: str = "", provenance: Provenance | None = None, *, exact: bool = False
) -> bytes:
    """Encode a score as MusicXML, with the provenance in `encoding-description`.

    Rhythms are simplified for reading, unless `exact`.
    """
    from tokenization.notation.musicxml.writing import write_musicxml

    made = json.dumps(provenance, ensure_ascii=False, default=_plain_number) if provenance else ""
    return write_musicxml(score, title=title, made=made, exact=exact)


def notated(
    data: bytes, score: Score, title: str = "", *, suffix: str = "", exact: bool = False
) -> bytes:
    """Return a file, and the score that was read from it, as MusicXML; MusicXML stays as it is."""
    if kind_of(data, suffix) == "musicxml":
        from tokenization.notation.musicxml.document import xml_of

        return xml_of(data, GENEROUS)
    return musicxml(from_a_bar_line(score)[0], title, exact=exact)


def _texts(provenance: Provenance | None) -> tuple[str, ...]:
    made = json.dumps(provenance, ensure_ascii=True, default=_plain_number)
    return (f"musicgen {made}",) if provenance else ()


def _plain_number(value: Any) -> Any:
    """Convert a numpy number, such as a seed taken from `np.arange`, for JSON."""
    return value.item()


Format = Callable[[Score, str, Provenance | None], bytes]
FORMATS: dict[str, Format] = {".mid": midi, ".midi": midi, ".musicxml": musicxml, ".xml": musicxml}


def file_of(
    suffix: str,
    score: Score,
    title: str = "",
    provenance: Provenance | None = None,
    edit: Edit | None = None,
    exact: bool = False,
) -> tuple[bytes, str]:
    """Encode a score in the format of a suffix; return the bytes and a sentence if the edited file could not be kept.

    An `edit` in the same format is written into the edited file, and the edited MIDI file is what MusicXML shows. In
    other cases the score alone is written. `exact`: whether MusicXML has the lengths of notes as played.
    """
    write, why_not_kept = FORMATS[suffix.lower()], ""
    kind = "midi" if write is midi else "musicxml"
    if edit is not None and edit.kind == kind:
        try:
            return _edited(edit, score, provenance, exact=exact), ""
        except NotKept as error:
            why_not_kept = f"Written from the notes alone, not into your file: {error}."
    if edit is not None:
        score = _worded(edit, score)
    if write is midi:
        return midi(score, title, provenance), why_not_kept
    if edit is not None and edit.kind == "midi":
        score = _in_its_file(edit, score)
    return musicxml(score, title, provenance, exact=exact), why_not_kept


def new_alone(score: Score, provenance: Provenance | None, edit: Edit) -> tuple[bytes, str]:
    """Encode the new notes of a score: as MIDI in the tracks and times of the edited file, or as MusicXML of new bars.

    If that is impossible, as MIDI in the times of the score; the sentence says why.
    """
    said = ""
    if edit.kind != "abc":
        try:
            return _edited(edit, score, provenance, exact=False, alone=True), ""
        except NotKept as error:
            said = f"Written in the times of the piece, not in those of your file: {error}."
    return midi(edit.new_in(score), "", provenance), said


def _edited(
    edit: Edit, score: Score, provenance: Provenance | None, *, exact: bool, alone: bool = False
) -> bytes:
    """Return the edited file, or what is new in it alone; raises NotKept."""
    if edit.kind == "midi":
        from tokenization.midi.keeping import KeptMidi

        return KeptMidi(edit).edited(score, _texts(provenance), alone=alone)
    from tokenization.notation.musicxml.keeping import KeptMusicXml

    return KeptMusicXml(edit, exact=exact).edited(score, _texts(provenance), alone=alone)


def _worded(edit: Edit, score: Score) -> Score:
    """Return a score with what its file says besides the notes and keys: title and words."""
    heard, seam = edit.heard, edit.start if edit.is_continuation else inf
    lyrics = tuple(one for one in heard.texts.lyrics if one.onset_ticks < seam)
    known = len(heard.tracks)
    tracks = [
        replace(track, sources=heard.tracks[number].sources) if number < known else track
        for number, track in enumerate(score.tracks)
    ]
    return score.replace(tracks=tuple(tracks), texts=replace(heard.texts, lyrics=lyrics))


def _in_its_file(edit: Edit, score: Score) -> Score:
    """Return a score with the tracks and times of the edited MIDI file, if its beats are those of the score."""
    beats, ticks = edit.heard.file_times.columns
    if len(beats) < 2 or np.ptp(np.diff(ticks) / np.diff(beats)) > 1:
        return score
    try:
        edited = read_file(_edited(edit, score, None, exact=False))
    except (NotKept, MusicFileError):
        return score
    return from_a_bar_line(edited)[0]


def changed(
    data: bytes,
    made: Sequence[Change],
    reading: Reading | None = None,
    *,
    suffix: str = "",
    provenance: Provenance | None = None,
) -> bytes:
    """Return a MIDI or MusicXML file with changes, as `changed_as_read`."""
    return changed_as_read(data, made, reading, suffix=suffix, provenance=provenance)[0]


def changed_as_read(
    data: bytes,
    made: Sequence[Change],
    reading: Reading | None = None,
    *,
    suffix: str = "",
    provenance: Provenance | None = None,
) -> tuple[bytes, Reading]:
    """Return a MIDI or MusicXML file with changes, which alter nothing else in it, and its reading after them.

    `reading` gives the ticks and tracks in which they are stated, by default those of the file. Raises NotKept if the
    file cannot hold them, and ValueError if they are outside the piece. The provenance replaces that in the file.
    """
    kind, texts = kind_of(data, suffix), None if provenance is None else _texts(provenance)
    if kind == "midi":
        from tokenization.midi.changing import changed_midi

        return changed_midi(data, made, reading, texts)
    if kind == "musicxml":
        from tokenization.notation.musicxml.changing import changed_musicxml

        return changed_musicxml(data, made, reading)
    raise NotKept("its format is read only")


def edit(source: bytes | str | Path, changes: Sequence[Mapping[str, Any]]) -> bytes:
    """Return a MIDI or MusicXML file, given as a path or bytes, with changes such as {"change": "transpose", …}.

    They are described in tokenization/changes.py; ticks and tracks are those of the file. Nothing else changes.
    """
    data = read_source(source, GENEROUS, None)[1]
    suffix = "" if isinstance(source, bytes) else Path(source).suffix
    return changed(data, changes_from([*changes]), suffix=suffix)


def write_score(
    path: Path,
    score: Score,
    provenance: Provenance | None = None,
    *,
    new: bool = False,
    edit: Edit | None = None,
    exact: bool = False,
) -> str:
    """Write a score in the format of the suffix, with the file's name as its title unless it has one.

    With an `edit`, the music is written into the edited file; returns a sentence if that is impossible (`file_of`).
    With `new`, raises FileExistsError if the file exists.
    """
    if path.suffix.lower() not in FORMATS:
        *most, last = FORMATS
        raise ValueError(f"{path} has an unknown ending: use {', '.join(most)} or {last}")
    title = _TAKE.sub("", path.stem)
    data, why_not_kept = file_of(path.suffix, score, title, provenance, edit, exact)
    write_whole(path, data, new=new)
    return why_not_kept


class WithMidi:
    """Music with a MIDI encoding, from which it is converted to the objects of other libraries."""

    @property
    def midi(self) -> bytes:
        """The whole piece as a MIDI file."""
        raise NotImplementedError

    def to_pretty_midi(self) -> PrettyMIDI:
        """Convert the whole piece to a PrettyMIDI object."""
        from pretty_midi import PrettyMIDI

        return PrettyMIDI(BytesIO(self.midi))

    def to_muspy(self) -> Music:
        """Convert the whole piece to a muspy Music object; needs muspy installed."""
        try:
            from muspy import from_pretty_midi
        except ModuleNotFoundError as error:
            raise ValueError("muspy is not installed: run pip install muspy") from error
        pretty = self.to_pretty_midi()
        music = from_pretty_midi(pretty, resolution=pretty.resolution)
        music.resolution = pretty.resolution  # muspy 0.5 uses it for times but does not set it
        return music


def midi_of(music: Any) -> bytes:
    """Encode a pretty_midi or muspy object as a MIDI file."""
    library, buffer = type(music).__module__.partition(".")[0], BytesIO()
    if library == "pretty_midi" and hasattr(music, "instruments"):
        music.write(buffer)
    elif library == "muspy" and hasattr(music, "tracks"):
        from muspy import to_mido

        to_mido(music).save(file=buffer)
    else:
        raise ValueError(
            f"music must be the path or the bytes of a file, a Score, a Piece, or an object of pretty_midi or muspy, "
            f"not {type(music).__name__}"
        )
    return buffer.getvalue()
