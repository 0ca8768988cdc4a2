"""OpenScore (Gotham and Jonas, MEC 2022): songs for voice and piano, and string quartets, as compressed MusicXML."""

from __future__ import annotations

import re
from html import unescape
from itertools import islice

from tokenization.language import Language
from tokenization.limits import GENEROUS
from tokenization.notation.musicxml.document import unzipped
from tokenization.score import Score, Track
from training.data.sources.source import (
    NamedByWork,
    Piece,
    joined,
    read,
)
from training.data.sources.works import title

VOICE = 52  # the program of a choir; the scores use an oboe or a piano for singers
_KEYBOARDS = (*range(8), *range(16, 24))
_SUNG = re.compile(
    r"voice|voix|chant|canto|gesang|sing|stimme|sopran|mezzo|\balt|contralt|tenor|tén|t[eé]nor|barit|bar[iy]ton"
    r"|\bbas+[eos]?\b|chor|cor[io]\b|vocal|solo|^[satb]\b",
    re.IGNORECASE,
)
_PLAYED = re.compile(
    r"piano|klavier|forte|organ|harmoni|harp|guitar|flut|flöt|oboe|clarin|klarin|horn|viol|cello|bass[oi]?on|fagott"
    r"|trump|tromb|drum|timp|tambour|triang|string",
    re.IGNORECASE,
)
_STAFF = re.compile(r" \(staff \d+\)$")
_HEAD_BYTES = 1 << 16  # of a score; the titles are in them


class OpenScore(NamedByWork):
    """Scores with a composer, the title of the work, and often that of the movement."""

    language = "ensemble"
    by_movement = False  # whether the movements of a work can be held out separately

    def titles(self, piece: Piece) -> list[str]:
        composer, work, movement = _titles(piece)
        return title(composer, (movement or work) if self.by_movement else work)


class Lieder(OpenScore):
    """Songs, named lcNNN."""

    name = "lieder"
    title = "OpenScore Lieder"
    shape = "scores named lcNNN.mxl"
    languages = ("ensemble",)
    licence = "CC0, OpenScore Lieder Corpus"
    style = "song"
    file = re.compile(r"(?:^|.*/)(lc\d+)\.mxl")
    by_movement = True

    def scores(self, piece: Piece, language: Language) -> list[Score]:
        if language.name != "ensemble":
            return super().scores(piece, language)
        score = language.arrange(sung(read(piece, staves=True)))
        tracks = range(len(score.tracks))
        one_piano = joined(score, [tracks], Track("Piano", 0))
        return [score, *joined(score, _by_player(score)), *one_piano]


class Quartets(OpenScore):
    """String quartets, named sqNNN: whole or one movement per file."""

    name = "quartets"
    title = "OpenScore String Quartets"
    shape = "scores named sqNNN.mxl"
    licence = "CC0, OpenScore String Quartet Corpus"
    style = "quartet"
    file = re.compile(r"(?:^|.*/)(sq\d+)\.mxl")


def sung(score: Score) -> Score:
    """Return the score with a voice as the program of singers' tracks.

    Singers are recognised by their names; if there are none, the first track that is not a keyboard is one.
    """
    tracks = score.tracks
    singers = {index for index, track in enumerate(tracks) if _sings(track)}
    others = (index for index, track in enumerate(tracks) if track.program not in _KEYBOARDS)
    singers = singers or {*islice(others, 1)}
    return score.replace(
        tracks=tuple(
            Track(track.name, VOICE) if index in singers else track
            for index, track in enumerate(tracks)
        )
    )


def _sings(track: Track) -> bool:
    name = _STAFF.sub("", track.name)
    if track.is_drum or _PLAYED.search(name):
        return False
    return track.program not in _KEYBOARDS or bool(_SUNG.search(name))


def _by_player(score: Score) -> list[list[int]]:
    """Return the tracks grouped by part, whose staves are separate tracks."""
    groups: dict[str, list[int]] = {}
    result = []
    for index, track in enumerate(score.tracks):
        name = _STAFF.sub("", track.name)
        if name == track.name or name not in groups:
            groups[name] = []
            result.append(groups[name])
        groups[name].append(index)
    return result


def _titles(piece: Piece) -> tuple[str, str, str]:
    """Return the composer, the title of the work and that of the movement, empty if not given."""
    data = unzipped(piece.path.read_bytes(), 16 * GENEROUS.bytes)[:_HEAD_BYTES]
    head = data.decode("utf-8", "replace")
    patterns = (
        r'<creator type="composer">(.*?)</creator>',
        r"<work-title>(.*?)</work-title>",
        r"<movement-title>(.*?)</movement-title>",
    )
    found = (re.search(pattern, head, re.DOTALL) for pattern in patterns)
    composer, work, movement = (unescape(one[1]) if one else "" for one in found)
    return composer, work, movement
