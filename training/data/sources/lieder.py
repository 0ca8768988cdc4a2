"""OpenScore Lieder (Gotham and Jonas, MEC 2022): songs for voice and piano in every metre, as compressed MusicXML."""

from __future__ import annotations

import re

from training.data.sources.source import Found, Listing, Piece, Source, shown, split_by_name

_SCORE = re.compile(r"(?:^|.*/)(lc\d+)\.mxl")


class Lieder(Source):
    """A file a song, named by the corpus's own number, at any depth."""

    name = "lieder"
    title = "OpenScore Lieder"
    shape = "scores named lcNNN.mxl"
    language = "remi-2"
    licence = "CC0, OpenScore Lieder Corpus"

    def fits(self, listing: Listing) -> bool:
        files = listing.music_files
        return 2 * sum(bool(_SCORE.fullmatch(file)) for file in files) > len(files)

    def find(self, listing: Listing, validation: float) -> Found:
        songs = [(file, found[1]) for file in listing.files if (found := _SCORE.fullmatch(file))]
        return Found(
            pieces=[
                Piece(
                    name=shown(file),
                    path=listing.path(file),
                    split=split_by_name(song, validation=validation),
                )
                for file, song in songs
            ]
        )
