"""Any folder of MIDI, MusicXML and ABC files."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from tokenization.midi.limits import GENEROUS
from tokenization.notation.abc.reading import tunes_of
from training.data.sources.source import Found, Listing, Piece, Source, shown, split_by_name


class MidiFolder(Source):
    """Files of music by their endings, in any case and at any depth."""

    name = "midi"
    title = "a folder of MIDI, MusicXML or ABC files"
    shape = "files that end in .mid, .midi, .kar, .mxl, .musicxml, .xml or .abc"
    language = "ensemble"
    licence = "not stated: that of the files"

    def fits(self, listing: Listing) -> bool:
        return bool(listing.music_files)

    def find(self, listing: Listing, validation: float) -> Found:
        pieces, of_name = [], {}  # many keep a piece in several formats, side by side
        for file in listing.music_files:
            tunes = _tunes(listing.path(file)) if file.lower().endswith(".abc") else 1
            for tune in range(tunes):
                name = file if tunes == 1 else f"{file}#{tune + 1}"
                stem = str(PurePosixPath(file).with_suffix("")) if tunes == 1 else name
                split = of_name.setdefault(stem, split_by_name(name, validation=validation))
                path, number = listing.path(file), tune if tunes > 1 else None
                pieces.append(
                    Piece(name=shown(name), path=path, split=split, work=shown(stem), tune=number)
                )
        return Found(pieces=pieces)


def _tunes(path: Path) -> int:
    """Return how many tunes a file holds; one that cannot be read is said so when it is."""
    try:
        with path.open("rb") as file:
            return len(tunes_of(file.read(GENEROUS.bytes))[1])
    except OSError:
        return 1
