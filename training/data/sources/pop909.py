"""POP909 (Wang et al., ISMIR 2020): pop songs as piano arrangements, with beats and chords."""

from __future__ import annotations

import re

from tokenization.language import Language
from tokenization.score import Score, Track
from training.data.sources.annotated_song import BEATS_FILE, CHORDS_FILE, MELODY, read_song
from training.data.sources.listing import Listing, Skipped
from training.data.sources.source import Found, Piece, Source, joined
from training.data.sources.splits import split_by_name
from training.data.sources.works import opening

BRIDGE = "BRIDGE"  # the name of the track of a second melody
_SONG = re.compile(r"(?:^|.*/)((\d{3})/\2)\.mid")


class Pop909(Source):
    """A folder a song, 001 … 909, at any depth."""

    name = "pop909"
    title = "POP909"
    shape = f"a folder NNN a song, with NNN.mid, {BEATS_FILE} and {CHORDS_FILE}"
    language = "remi-2"
    licence = "MIT, copyright 2020 Music X Lab"
    style = "pop"
    by_name = True

    def fits(self, listing: Listing) -> bool:
        files = {*listing.files}
        songs = (file.rpartition("/")[0] for file in files if _SONG.fullmatch(file))
        return any(f"{song}/{BEATS_FILE}" in files for song in songs)

    def find(self, listing: Listing, validation: float) -> Found:
        files = {*listing.files}
        pieces: dict[str, Piece] = {}
        skipped = []
        for file in listing.files:
            if not (song := _SONG.fullmatch(file)):
                continue
            folder, name = file.rpartition("/")[0], song[2]
            missing = [
                part for part in (BEATS_FILE, CHORDS_FILE) if f"{folder}/{part}" not in files
            ]
            if missing:
                skipped.append(Skipped(folder, f"{' and '.join(missing)} is missing"))
            elif name in pieces:
                skipped.append(Skipped(folder, f"another folder holds song {name}, too"))
            else:
                split = split_by_name(name, validation=validation)
                path = listing.path(folder)
                pieces[name] = Piece(name=name, path=path, split=split, work=name)
        return Found(pieces=list(pieces.values()), skipped=skipped)

    def scores(self, piece: Piece, language: Language) -> list[Score]:
        score = language.arrange(read_song(piece.path))
        return in_three_ways(score) if language.family == "ensemble" else [score]

    def works(self, piece: Piece, score: Score) -> list[str]:
        return opening(score)


def in_three_ways(score: Score) -> list[Score]:
    """Return a song with its melodies apart, as one part, and all on one piano, as users play it."""
    tracks = range(len(score.tracks))
    melodies = [index for index in tracks if score.tracks[index].name in (MELODY, BRIDGE)]
    piano = [index for index in tracks if index not in melodies]
    together = joined(score, [melodies, piano])
    return [score, *together, *joined(score, [tracks], Track("Piano", 0))]
