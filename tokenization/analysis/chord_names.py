"""The 133 chords of the vocabulary, and how other people's names for chords map to them.

Chords are named `ROOT_QUALITY`, such as `C_M7` or `F#_sus4`, and `N_N` where there is none. A
richer chord becomes the closest of the 11 qualities: extensions (6, 9, 11, 13), alterations and a
bass note go, the triad and its seventh stay.
"""

from __future__ import annotations

import re

ROOTS = ("C", "C#", "D", "D#", "E", "F", "F#", "G", "G#", "A", "A#", "B")
# Quality → semitones above the root.
QUALITIES: dict[str, tuple[int, ...]] = {
    "M": (0, 4, 7),
    "m": (0, 3, 7),
    "o": (0, 3, 6),
    "+": (0, 4, 8),
    "7": (0, 4, 7, 10),
    "M7": (0, 4, 7, 11),
    "m7": (0, 3, 7, 10),
    "o7": (0, 3, 6, 9),
    "/o7": (0, 3, 6, 10),
    "sus2": (0, 2, 7),
    "sus4": (0, 5, 7),
}
NO_CHORD = "N_N"
CHORDS = tuple(f"{root}_{quality}" for root in ROOTS for quality in QUALITIES) + (NO_CHORD,)

LETTERS = {"C": 0, "D": 2, "E": 4, "F": 5, "G": 7, "A": 9, "B": 11}  # semitones above C
_ACCIDENTALS = {"#": 1, "♯": 1, "b": -1, "♭": -1}
# Before the stroke stand names that say just that, after it richer chords, of which this is what stays.
_SYNONYMS: dict[str, str] = {
    "M": "M maj major ma :1 | 5 6 maj6 M6 69 6/9 maj69 add9 add2 add4 add11 maj9no7",
    "m": "m min minor mi - | min6 m6 -6 m69 madd9 minadd9 minmaj7 mmaj7 mM7 minM7 -M7 minmaj9 mM9",
    "o": "o dim ° mb5 minb5 m(b5) min(b5) |",
    "+": "+ aug maj#5 M#5 | +7 aug7 7#5 +M7 augmaj7 maj7#5 M7#5 9#5",
    "7": "7 dom dom7 maj(b7) | 9 11 13 7b9 7#9 7#11 7b5 7b13 7alt alt",
    "M7": "M7 maj7 ma7 major7 Maj7 Δ Δ7 ^7 ^ j7 maj(7) | M9 maj9 M11 maj11 M13 maj13 maj7#11 M7#11",
    "m7": "m7 min7 mi7 minor7 -7 min(b7) | m9 min9 -9 m11 min11 -11 m13 min13",
    "o7": "o7 dim7 °7 |",
    "/o7": "/o7 hdim7 hdim ø ø7 m7b5 min7b5 -7b5 m7-5 m7(b5) min7(b5) | m9b5",
    "sus2": "sus2 | sus9 7sus2 9sus2 sus2(b7)",
    "sus4": "sus4 sus | 7sus 7sus4 9sus 9sus4 13sus 13sus4 sus47 sus4(b7) sus4(b7,9) sus24",
}
_QUALITY_OF = {
    name: quality
    for quality, names in _SYNONYMS.items()
    for name in names.replace("|", " ").split()
}
_RICHER = {name for names in _SYNONYMS.values() for name in names.partition("|")[2].split()}
# "add" or "bridge" are words: only "chord" may be written in either case, neither the root nor its flats.
_NAME = re.compile(r"(?i:chord[-_: ]*)?([A-G])([#♯b♭]{0,2})([_:]?)(.*)", re.DOTALL)
_NONE = re.compile(r"(?:chord[-_: ]*)?(?:N|N_N|N:N|N\.C\.?|NC)", re.IGNORECASE)
LONGEST_NAME = 32


def parse(name: str) -> str | None:
    """Return the chord of the vocabulary that a name means, or None where it names no chord.

    Read are `C_M7` and `Chord-A_m7`; `Bb:min7`, `F:maj/3`, `A:sus4(b7)` and `N` of the chord
    annotations in use (Harte et al., ISMIR 2005); and lead sheets' `F#m7b5`, `Bbsus4`, `G/B`.
    """
    name = name.strip()
    if len(name) > LONGEST_NAME:
        return None
    if _NONE.fullmatch(name):
        return NO_CHORD
    found = _NAME.fullmatch(name)
    if not found:
        return None
    quality = _QUALITY_OF.get(found[3] + found[4]) or _quality(found[4])
    if quality is None:
        return None
    semitones = LETTERS[found[1]] + sum(_ACCIDENTALS[sign] for sign in found[2])
    return f"{ROOTS[semitones % 12]}_{quality}"


def says_more(name: str) -> bool:
    """Say whether a name says more than the chord that it is read as: a bass, an extension or an alteration."""
    found = _NAME.fullmatch(name.strip())
    if found is None or _NONE.fullmatch(name.strip()):
        return False
    for text in (found[3] + found[4], found[4]):
        if text in _QUALITY_OF:
            return text in _RICHER
    return found[4] != ""


def transposed(chord: str, semitones: int) -> str:
    """Return a chord of the vocabulary so many semitones higher."""
    root, _, quality = chord.partition("_")
    if root not in ROOTS:
        return chord
    return f"{ROOTS[(ROOTS.index(root) + semitones) % 12]}_{quality}"


def _quality(text: str) -> str | None:
    """Return the quality a name means: as written, without its bass, then without extensions."""
    without_bass = text if text.startswith("/o") else text.partition("/")[0]
    without_extensions = re.sub(r"\(.*?\)", "", without_bass)
    for candidate in (text, without_bass, without_extensions):
        if not candidate:
            return "M"
        if candidate in _QUALITY_OF:
            return _QUALITY_OF[candidate]
    return None
