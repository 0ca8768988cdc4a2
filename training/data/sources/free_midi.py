"""MIDI files under free licences: bands of a game, music for films, Irish dance tunes."""

from __future__ import annotations

import re
from typing import ClassVar

import numpy as np

from tokenization.language import Language
from tokenization.score import Score, Track
from training.data.sources.source import NamedByWork, Piece, arranged, read, sounding


class Bands(NamedByWork):
    """Files of which some tracks only hold texts."""

    language = "ensemble"

    def scores(self, piece: Piece, language: Language) -> list[Score]:
        return arranged(sounding(read(piece)), language)


class Freedoom(Bands):
    """Rock, metal and electronic bands of the game Freedoom, named d_LEVEL."""

    name = "freedoom"
    title = "Freedoom: rock, metal and electronic bands"
    shape = "files named d_LEVEL.mid"
    licence = (
        "BSD-3-Clause, contributors to the Freedoom project (its CREDITS-MUSIC names the composers)"
    )
    style = "rock"
    file = re.compile(r"(?:^|.*/)(d_\w+)\.mid")
    same_works: ClassVar = {"d_map30": "d_dm10"}  # based on it, says CREDITS-MUSIC


class FreeMusic(Bands):
    """Music for films and games by Tanner Helland; NAME (KIND remix) is the same work as NAME."""

    name = "free-music"
    title = "Free original music for games and film"
    shape = "MIDI files"
    licence = "CC BY 4.0, Tanner Helland (github.com/tannerhelland/free-music)"
    style = "film"
    file = re.compile(r"(?:^|.*/)([^/]+?)(?:[ _(]+[a-z]+[ _]remix[_)])?\.mid")


FIDDLE, FLUTE = Track("Fiddle", 40), Track("Flute", 73)
LOWEST_OF_FLUTE = 62


class DanceTunes(NamedByWork):
    """Irish dance tunes for one instrument: a flute, or a fiddle where the flute has no such low notes."""

    name = "dance-tunes"
    title = "Ceol Rince na hÉireann: Irish dance tunes"
    shape = "MIDI files"
    language = "ensemble"
    licence = (
        "CC BY 4.0, Danny Diamond, Abdul Shahid and James McDermott (Ceol Rince na hÉireann corpus, Polifonia), "
        "from Bill Black's transcriptions of Breandán Breathnach's collections; changed: without accompaniment"
    )
    style = "folk"
    file = re.compile(
        r"(?:^|.*/)([^/]+?)(?:(?:single|double|slip)?(?:reel|jig|hornpipe|polka|slide))?\d*(?:the)?\.mid",
        re.IGNORECASE,
    )

    def scores(self, piece: Piece, language: Language) -> list[Score]:
        score = read(piece)
        notes = score.notes[score.notes.track == 0]
        notes = notes.replace(track=np.zeros_like(notes.track))
        track = FIDDLE if notes.pitch.min(initial=128) < LOWEST_OF_FLUTE else FLUTE
        # Made from ABC, so the beats are right.
        score = score.replace(notes=notes, tracks=(track,), beats_known=True)
        return arranged(score, language)
