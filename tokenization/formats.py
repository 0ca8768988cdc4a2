"""The formats that scores are written in, by how the name of a file ends; any_file.py reads them back, and more."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tokenization.score import Score
from tokenization.whole_file import write_whole

Provenance = Mapping[str, Any]  # how a score was made; its file says so


def midi(score: Score, title: str = "", provenance: Provenance | None = None) -> bytes:
    """Return a score as a MIDI file, in which a text event holds the provenance."""
    from tokenization.midi.writing import write_midi  # its library is not where models train

    made = json.dumps(provenance, ensure_ascii=True, default=_number)
    return write_midi(score, texts=(f"musicgen {made}",) if provenance else ())


def musicxml(score: Score, title: str = "", provenance: Provenance | None = None) -> bytes:
    """Return a score as MusicXML, which names the provenance in its description of the encoding."""
    from tokenization.notation.musicxml.writing import write_musicxml

    made = json.dumps(provenance, ensure_ascii=False, default=_number) if provenance else ""
    return write_musicxml(score, title=title, made=made)


def _number(of_numpy: Any) -> Any:
    """Return a number of numpy, such as a seed of a loop over `np.arange`, as one that JSON knows."""
    return of_numpy.item()


Format = Callable[[Score, str, Provenance | None], bytes]
FORMATS: dict[str, Format] = {".mid": midi, ".midi": midi, ".musicxml": musicxml, ".xml": musicxml}


def write_score(
    path: Path, score: Score, provenance: Provenance | None = None, *, new: bool = False
) -> None:
    """Write a score in the format that the name ends in, under that name as its title.

    A `new` file takes no other's place: FileExistsError says that there is one.
    """
    write = FORMATS.get(path.suffix.lower())
    if write is None:
        *most, last = FORMATS
        raise ValueError(
            f"{path} ends in none of {', '.join(most)} and {last}; say so what to write"
        )
    write_whole(path, write(score, path.stem, provenance), new=new)
