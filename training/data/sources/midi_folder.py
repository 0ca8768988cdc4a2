"""Any folder of MIDI, MusicXML or ABC files."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from tokenization.limits import GENEROUS
from tokenization.notation.abc import tunes_of
from training.data.sources.source import Found, Listing, Piece, Source, printable, split_of


class MidiFolder(Source):
    """Music files by their extensions, in any case and at any depth."""

    name = "midi"
    title = "a folder of MIDI, MusicXML or ABC files"
    shape = "files that end in .mid, .midi, .kar, .mxl, .musicxml, .xml or .abc"
    language = "ensemble"
    licence = "not stated: that of the files"

    def find(self, listing: Listing, validation: float) -> Found:
        pieces, splits = [], {}  # by stem, since one piece is often stored in several formats
        for file in listing.music_files:
            tunes = _tunes(listing.path(file)) if file.lower().endswith(".abc") else 1
            for tune in range(tunes):
                name = file if tunes == 1 else f"{file}#{tune + 1}"
                stem = str(PurePosixPath(file).with_suffix("")) if tunes == 1 else name
                split = splits.setdefault(stem, split_of(name, {"validation": validation}))
                path, number = listing.path(file), tune if tunes > 1 else None
                names = {"name": printable(name), "work": printable(stem)}
                pieces.append(Piece(**names, path=path, split=split, tune=number))
        return Found(pieces=pieces)


def _tunes(path: Path) -> int:
    """Return the number of tunes in a file; 1 if it cannot be read, which is reported later."""
    try:
        with path.open("rb") as file:
            return len(tunes_of(file.read(GENEROUS.bytes))[1])
    except OSError:
        return 1
