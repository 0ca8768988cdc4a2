"""OpenScore Orchestra (Gotham et al.): movements for orchestra, as compressed MusicXML.

The scores have up to 41 parts. Parts are merged until they fit: first those that double another part in unison or
octaves at most of their notes, then those with the fewest notes of their own. The melody is never merged into another.
"""

from __future__ import annotations

import re

import numpy as np

from tokenization.analysis.parts import note_counts
from tokenization.ensemble.language import MOST_TRACKS
from tokenization.ensemble.tokens import INSTRUMENT_OF
from tokenization.language import Language
from tokenization.score import Score, Track
from training.data.sources.openscore import VOICE, OpenScore
from training.data.sources.source import Piece, arranged, read, sounding

_SINGER = re.compile(r"(?:soprano|alto|tenor|bass)(?: \d)?(?: solo)?(?: \(sic\))?", re.IGNORECASE)


class Orchestra(OpenScore):
    """Movements, named COMPOSER_OPUS_MOVEMENT."""

    name = "orchestra"
    title = "OpenScore Orchestra"
    shape = "scores named COMPOSER_OPUS_MOVEMENT.mxl, such as Brahms_Op.68_3.mxl"
    licence = "CC0, OpenScore Orchestra; changed: at most 15 parts, others merged"
    style = "orchestra"
    file = re.compile(
        r"(?:^|.*[/_])([A-Z][a-z]+_(?:[A-Z][A-Za-z]*\.)?\d+|D.un_matin)\w*(?<!_melody)\.mxl"
    )

    def scores(self, piece: Piece, language: Language) -> list[Score]:
        score = read(piece)
        tracks = [
            Track(track.name, VOICE) if _SINGER.fullmatch(track.name) else track
            for track in score.tracks
        ]
        fewer = with_fewer_parts(score.replace(tracks=tuple(tracks)))
        return arranged(sounding(fewer), language)


def with_fewer_parts(score: Score, most: int = MOST_TRACKS) -> Score:
    """Return the score with at most this many parts, by merging some into others; the kit is one part."""
    tracks, counts, notes = score.tracks, note_counts(score), score.notes
    parts = [n for n, track in enumerate(tracks) if counts[n] and not track.is_drum]
    room = most - any(track.is_drum for track in tracks)
    instrument = {part: int(INSTRUMENT_OF[tracks[part].program]) for part in parts}
    track, kept = notes.track.copy(), np.ones(len(notes), dtype=bool)
    sounds = notes.onset_ticks * 12 + notes.pitch % 12  # equal in unison and in octaves
    melody = _melody(score, parts)
    own: dict[
        tuple[int, int], int
    ] = {}  # the number of a part's notes that another does not double

    def compare(part: int, other: int) -> None:
        mine, theirs = (sounds[kept & (track == one)] for one in (part, other))
        own[part, other] = int((~np.isin(mine, theirs)).sum())

    def order(pair: tuple[int, int]) -> tuple[bool, bool, int]:
        part, other = pair
        count = int((kept & (track == part)).sum())
        return 2 * own[pair] > count, instrument[part] != instrument[other], own[pair]

    for part in parts:
        for other in parts:
            if part not in (other, melody):
                compare(part, other)
    while len(parts) > max(room, 1):
        part, other = min(own, key=order)
        mine = track == part
        kept &= ~(mine & np.isin(sounds, sounds[kept & (track == other)]))
        track[mine] = other
        parts.remove(part)
        own = {pair: count for pair, count in own.items() if part not in pair}
        for third in parts:
            if third != other:
                for pair in ((third, other), (other, third)):
                    if pair in own:
                        compare(*pair)
    return score.replace(notes=notes.replace(track=track)[kept].sorted())


def _melody(score: Score, parts: list[int]) -> int:
    """Return the part that has the highest note most often."""
    notes = score.notes[np.isin(score.notes.track, parts)]
    order = np.lexsort((-notes.pitch, notes.onset_ticks))
    _, first = np.unique(notes.onset_ticks[order], return_index=True)
    return int(np.bincount(notes.track[order][first]).argmax())
