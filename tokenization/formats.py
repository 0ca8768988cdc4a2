"""The formats that scores are written in, by how the name of a file ends; any_file.py reads them back, and more.

Where music was written to a file of the same format, the file is kept and the new music is written into it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tokenization.edit import Edit, NotKept
from tokenization.score import Score
from tokenization.whole_file import write_whole

Provenance = Mapping[str, Any]  # how a score was made; its file says so


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


def _kept(edit: Edit, kind: str, score: Score, provenance: Provenance | None) -> bytes:
    """Return the file that music was written to with that music in it."""
    if kind == "midi":
        from tokenization.midi.keeping import KeptMidi as Kept
    else:
        from tokenization.notation.musicxml.keeping import KeptMusicXml as Kept
    kept = Kept(edit)
    write = kept.continued if edit.goes_on else kept.rewritten
    write = write if edit.tracks is None else kept.accompanied
    return write(score, _texts(provenance))


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
        try:
            return _kept(edit, kind, score, provenance), said
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
