"""Any folder of MIDI files."""

from __future__ import annotations

from tokenization.language import Language
from tokenization.score import Score
from training.sources.listing import Listing, shown
from training.sources.source import Found, Piece, Source, arranged, read
from training.splits import split_by_name


class MidiFolder(Source):
    """Files end in .mid, .midi or .kar, in any case and at any depth."""

    name = "midi"
    title = "a folder of MIDI files"
    shape = "files that end in .mid, .midi or .kar"
    language = "remi-2"
    licence = "not stated: that of the files"

    def fits(self, listing: Listing) -> bool:
        return bool(listing.midi_files)

    def find(self, listing: Listing, validation: float) -> Found:
        return Found(
            pieces=[
                Piece(
                    name=shown(file),
                    path=listing.path(file),
                    split=split_by_name(file, validation=validation),
                )
                for file in listing.midi_files
            ]
        )

    def scores(self, piece: Piece, language: Language) -> list[Score]:
        return arranged(read(piece), language)
