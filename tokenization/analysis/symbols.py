"""Chord symbols as musicians write them, and as texts of MIDI files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tokenization.analysis.chords import CHORDS, NO_CHORD, ROOTS, SIGNS, are_sections, parse, signed
from tokenization.analysis.spelling import key_of, spelled
from tokenization.score import Marker, Score


def sign_of(chord: str, centre: int) -> str:
    """Return a chord of the vocabulary as musicians write it in a key: F♯m, B♭7, Csus2, or none."""
    if chord == NO_CHORD:
        return "none"
    root, _, quality = chord.partition("_")
    step, alter, _ = spelled(ROOTS.index(root), centre)
    name = signed(root) if abs(alter) > 1 else step + "♯" * alter + "♭" * -alter
    return name + SIGNS.get(quality, quality)


def chord_texts(score: Score, markers: Sequence[Marker]) -> Iterator[tuple[Marker, str]]:
    """Yield some markers of a score with their texts for a MIDI file, in which chords read back as chords."""
    centre = key_of(score).centre
    texts = [
        one.symbol or (sign_of(one.text, centre) if one.text in CHORDS else one.text)
        for one in markers
    ]
    pairs = [*zip(markers, texts, strict=True)]
    # Major chords could be names of sections.
    more = (
        "maj"
        if are_sections([text for one, text in pairs if parse(text) and not one.is_guess])
        else ""
    )
    for one, text in pairs:
        yield one, text + more if len(text) == 1 and one.text in CHORDS else text
