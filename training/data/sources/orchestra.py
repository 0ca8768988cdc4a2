"""OpenScore Orchestra (Gotham et al.): movements for orchestra, as compressed MusicXML.

The scores have up to 41 parts. Parts are merged until they fit: first those that double another part in unison or
octaves at most of their notes, then those with the fewest notes of their own. The part with the highest note most often
is never merged into another, and no highest note is lost.
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

_TIMPANI = int(INSTRUMENT_OF[47])


class Orchestra(OpenScore):
    """Movements, named COMPOSER_OPUS_MOVEMENT."""

    name = "orchestra"
    title = "OpenScore Orchestra"
    shape = "scores named COMPOSER_OPUS_MOVEMENT.mxl, such as Brahms_Op.68_3.mxl"
    licence = "CC0, OpenScore Orchestra; changed: at most 15 parts, others merged"
    style = "orchestra"
    file = re.compile(
        r"(?:^|.*[/_])([A-Z][a-z]+_(?:[A-Z][A-Za-z]*\.)?\d+|D.un_matin)[^/]*(?<!_melody)\.mxl"
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
    highest = _highest(score, parts)
    melody = int(np.bincount(notes.track[highest]).argmax())
    in_unison = notes.onset_ticks * 128 + notes.pitch
    in_octaves = notes.onset_ticks * 12 + notes.pitch % 12
    track, kept = notes.track.copy(), np.ones(len(notes), dtype=bool)
    own: dict[
        tuple[int, int], int
    ] = {}  # the number of a part's notes that another does not double

    def doubled(part: int, other: int) -> np.ndarray:
        """Return the notes of a part that another doubles; not in octaves if they are the highest."""
        mine, theirs = (kept & (track == one) for one in (part, other))
        same = [np.isin(sound, sound[theirs]) for sound in (in_unison, in_octaves)]
        return mine & np.where(highest, *same)

    def compare(part: int, other: int) -> None:
        own[part, other] = int((kept & (track == part) & ~doubled(part, other)).sum())

    def order(pair: tuple[int, int]) -> tuple[bool, bool, int]:
        part, other = pair
        count = int((kept & (track == part)).sum())
        return 2 * own[pair] > count, instrument[part] != instrument[other], own[pair]

    for part in parts:
        for other in parts:
            if part not in (other, melody) and instrument[other] != _TIMPANI:
                compare(part, other)
    while len(parts) > max(room, 1):
        part, other = min(own, key=order)
        kept &= ~doubled(part, other)
        track[track == part] = other
        parts.remove(part)
        own = {pair: count for pair, count in own.items() if part not in pair}
        for third in parts:
            for pair in ((third, other), (other, third)):
                if pair in own:
                    compare(*pair)
    return score.replace(notes=notes.replace(track=track)[kept].sorted())


def _highest(score: Score, parts: list[int]) -> np.ndarray:
    """Return which notes are the highest of some parts at their onset."""
    notes = score.notes
    onset, place = np.unique(notes.onset_ticks, return_inverse=True)
    highest, is_in = np.zeros(len(onset), dtype=np.int64), np.isin(notes.track, parts)
    np.maximum.at(highest, place[is_in], notes.pitch[is_in])
    return is_in & (notes.pitch == highest[place])
