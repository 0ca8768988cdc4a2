"""Music for choir: the Open Hymnal in ABC, and the Madrigal Project in MusicXML."""

from __future__ import annotations

import re
from dataclasses import replace

from tokenization.language import Language
from tokenization.score import Score, Track
from training.data.sources.openscore import VOICE
from training.data.sources.source import (
    Found,
    Listing,
    NamedByWork,
    Piece,
    Skipped,
    arranged,
    printable,
    read,
)

VOICES = ("Soprano", "Alto", "Tenor", "Bass")


class OpenHymnal(NamedByWork):
    """Hymns, named TITLE-TUNE."""

    name = "open-hymnal"
    title = "Open Hymnal: hymns in four parts"
    shape = "files named TITLE-TUNE.abc"
    language = "ensemble"
    licence = "public domain, Open Hymnal Project (Brian J. Dumont, openhymnal.org)"
    style = "choir"
    file = re.compile(r"(?:^|.*/)[^/-]+-([^/]+)\.abc")

    def scores(self, piece: Piece, language: Language) -> list[Score]:
        score = read(piece)
        if len(score.tracks) != len(VOICES):
            raise ValueError(f"it has {len(score.tracks)} voices, not {len(VOICES)}")
        tracks = tuple(Track(name, VOICE) for name in VOICES)
        return arranged(score.replace(tracks=tracks), language)


class Madrigals(NamedByWork):
    """Madrigals and villotte of the Renaissance, in bars of a breve, which are read in half the note values."""

    name = "madrigals"
    title = "Madrigal Project"
    shape = "scores that end in .musicxml"
    language = "ensemble"
    licence = "CC BY 4.0, the Madrigal Project and its editors (Mayu Egan, Sylvain Margot); changed: note values halved"
    style = "choir"
    file = re.compile(r"(?:^|.*/)([^/]+)\.musicxml")

    def find(self, listing: Listing, validation: float) -> Found:
        found = super().find(listing, validation)
        reason = "it was read from a scan by a program, which puts voices an octave too high"
        scans = [file for file in listing.files if found.pieces and file.endswith(".xml")]
        return replace(found, skipped=[Skipped(printable(scan), reason) for scan in scans])

    def scores(self, piece: Piece, language: Language) -> list[Score]:
        return arranged(halved(read(piece)), language)


def halved(score: Score) -> Score:
    """Return the score in half the note values, at the same speed."""
    meters, tempos = score.meters, score.tempos
    return score.replace(
        ticks_per_beat=2 * score.ticks_per_beat,
        meters=meters.replace(denominator=2 * meters.denominator),
        tempos=tempos.replace(beats_per_minute=tempos.beats_per_minute / 2),
    )
