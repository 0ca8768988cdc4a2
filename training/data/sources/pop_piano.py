"""The pop piano data of Hsiao et al. (AAAI 2021): transcribed songs with beats and chords.

It exists as MIDI files with chords as markers (`A_m7_A` or `Chord-A_m7`), in several stages of processing, the last of
which is `midi_analyzed`. (The same music as pickled events is not read.)
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

from tokenization.analysis.chords import parse
from tokenization.language import Language
from tokenization.score import Marker, Score
from training.data.sources.source import Found, Listing, Piece, Source, read, split_of

_ROOT = rb"(?:[A-G]#?|N)"
_CHORD_MARKER = re.compile(
    rb"(?:Chord-)?" + _ROOT + rb"_(?:M7?|m7?|/?o7|o|\+|7|sus[24]|N)(?:_" + _ROOT + rb")?"
)
_LAST_STAGE = "midi_analyzed"
_SAMPLED = 8  # files that are examined to recognise the source


class PopPiano(Source):
    """MIDI files with chord markers, at any depth."""

    name = "pop-piano"
    title = "the pop piano data"
    shape = "MIDI files with chord markers"
    language = "remi"
    languages = ("remi",)
    licence = "not stated by its authors; transcriptions of recordings"

    def fits(self, listing: Listing) -> bool:
        files = self._midi_files(listing)
        sample = files[:: max(1, len(files) // _SAMPLED)][:_SAMPLED]
        marked = sum(bool(_CHORD_MARKER.search(_beginning(listing.path(f)))) for f in sample)
        return 2 * marked > len(sample)

    def find(self, listing: Listing, validation: float) -> Found:
        pieces = []
        for file in self._midi_files(listing):
            stem = PurePosixPath(file).stem  # does not depend on the folder that is given
            pieces.append(listing.piece(file, split_of(stem, {"validation": validation})))
        return Found(pieces=pieces)

    def scores(self, piece: Piece, language: Language) -> list[Score]:
        return [language.arrange(with_chords(read(piece)))]

    def _midi_files(self, listing: Listing) -> list[str]:
        """Return the MIDI files of the last stage of processing."""
        files = listing.midi_files
        return [file for file in files if _LAST_STAGE in file.split("/")] or files


def with_chords(score: Score) -> Score:
    """Return the score with only its chord markers, without the bass notes in names such as `A_m7_A`."""
    markers = []
    for marker in score.markers:
        name = "_".join(marker.text.split("_")[:2])
        if "_" in name and (chord := parse(name)):
            markers.append(Marker(marker.onset_ticks, chord))
    return score.replace(markers=tuple(markers))


def _beginning(path: Path) -> bytes:
    """Return the beginning of a file, long enough to hold a marker; empty if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(1 << 20)
    except OSError:
        return b""
