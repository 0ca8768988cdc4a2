"""More styles of a groove set's training families over the chords of whole songs: bbNNNN.STYLE.mid, all to train on."""

from __future__ import annotations

import re

from training.data.sources.groove import Groove
from training.data.sources.listing import Listing
from training.data.sources.source import Found

_SONG = re.compile(r"(?:^|.*/)bb\d{4}\.[^/.]+\.midi?", re.IGNORECASE)


class GrooveSongs(Groove):
    """As a groove set; its charts are songs of the McGill Billboard annotations (Burgoyne et al., ISMIR 2011)."""

    name = "groove-songs"
    title = "Groove songs: MMA accompaniments over whole songs"
    shape = "accompaniments named bbNNNN.STYLE.mid"
    licence = (
        "made with MMA (GPL-2.0-or-later) over chords of the McGill Billboard annotations (CC0)"
    )

    def fits(self, listing: Listing) -> bool:
        files = listing.midi_files
        return 2 * sum(bool(_SONG.fullmatch(file)) for file in files) > len(files)

    def find(self, listing: Listing, validation: float) -> Found:
        return super().find(listing, 0.0)
