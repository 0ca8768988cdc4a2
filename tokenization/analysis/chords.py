"""Chord names, the chords among a score's markers, progressions as typed, and the key."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from math import inf

import numpy as np

from tokenization.score import Marker, Score, steps_of
from tokenization.wording import listed

# Chords are named `ROOT_QUALITY`, such as `C_M7` or `F#_sus4`; `N_N` is no chord. Richer chords are reduced to one of
# 11 qualities, by which models know them: the triad and its seventh are kept; extensions (6, 9, 11, 13), alterations
# and the bass are left to the symbol of a marker.

ROOTS = ("C", "C#", "D", "D#", "E", "F", "F#", "G", "G#", "A", "A#", "B")
FLAT_ROOTS = ("C", "Db", "D", "Eb", "E", "F", "Gb", "G", "Ab", "A", "Bb", "B")
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
CHORD_INDEX = {name: index for index, name in enumerate(CHORDS)}

LETTERS = {"C": 0, "D": 2, "E": 4, "F": 5, "G": 7, "A": 9, "B": 11}  # semitones above C
_PLAIN = str.maketrans("♯♭", "#b")
_ACCIDENTALS = {"#": 1, "♯": 1, "b": -1, "♭": -1}
# Names of each quality; after the `|`, richer chords that are reduced to it.
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
# How each quality is written for musicians, as in app/assets/music/keys.js.
SIGNS = {"M": "", "o": "°", "M7": "maj7", "o7": "°7", "/o7": "ø7"}
# The case of roots and flats matters, since "add" and "bridge" are words; only the prefix "chord" is case-insensitive.
_NAME = re.compile(r"(?i:chord[-_: ]*)?([A-G])([#♯b♭]{0,2})([_:]?)(.*)", re.DOTALL)
_NONE = re.compile(r"(?:chord[-_: ]*)?(?:N|N_N|N:N|N\.C\.?|NC|none)", re.IGNORECASE)
_BASS = re.compile(r"/([A-G])([#♯b♭]{0,2})$")
LONGEST_NAME = 32


@lru_cache(maxsize=1024)
def parse(name: str) -> str | None:
    """Return the chord of the vocabulary for a name, or None if it is not a chord name.

    Supported are `C_M7` and `Chord-A_m7`; the syntax of chord annotations (Harte et al., ISMIR 2005), such as
    `Bb:min7`, `F:maj/3`, `A:sus4(b7)` and `N`; and that of lead sheets, such as `F#m7b5`, `Bbsus4` and `G/B`.
    """
    name = name.strip()
    if len(name) > LONGEST_NAME:
        return None
    if _NONE.fullmatch(name):
        return NO_CHORD
    found = _NAME.fullmatch(name)
    if not found:
        return None
    rest = found[4].translate(_PLAIN)
    quality = _QUALITY_OF.get(found[3] + rest) or _quality(rest)
    if quality is None:
        return None
    return f"{ROOTS[pitch_class(found[1], found[2])]}_{quality}"


@lru_cache(maxsize=1024)
def symbol_of(name: str) -> str:
    """Return a chord name for musicians if it says more than the chord of the vocabulary: F7#9, B♭13, F7/A; else ""."""
    found = _NAME.fullmatch(name.strip())
    if parse(name) in (None, NO_CHORD) or not found or found[3] == ":":  # degrees: Bb:min/b3
        return ""
    letter, accidentals, separator, rest = found.groups()
    bass = _BASS.search(rest := rest.translate(_PLAIN))
    kind = rest[: bass.start()] if bass else rest
    if bass and pitch_class(*bass.groups()) == pitch_class(letter, accidentals):
        bass = None
    if not bass and kind not in _RICHER and (separator or kind in _QUALITY_OF or not kind):
        return ""
    kind = SIGNS.get(kind, kind) if separator else kind
    return signed(letter + accidentals) + kind + (f"/{signed(bass[0][1:])}" if bass else "")


def signed(tone: str) -> str:
    """Return the name of a note with ♯ and ♭."""
    return tone[0] + tone[1:].replace("#", "♯").replace("b", "♭")


def pitch_class(letter: str, accidentals: str) -> int:
    """Return the pitch class of a letter with accidentals, such as B and ♭."""
    return (LETTERS[letter] + sum(_ACCIDENTALS[sign] for sign in accidentals)) % 12


def transposed(chord: str, semitones: int) -> str:
    """Transpose a chord of the vocabulary."""
    root, _, quality = chord.partition("_")
    if root not in ROOTS:
        return chord
    return f"{ROOTS[(ROOTS.index(root) + semitones) % 12]}_{quality}"


def moved_by(text: str, semitones: int, *, flats: bool = False) -> str:
    """Transpose the root and the bass of a chord symbol of any spelling; other text stays as it is.

    The new root has a flat rather than a sharp if the old one has, or with `flats`.
    """
    found = _NAME.fullmatch(text.strip())
    if not semitones or found is None or parse(text.rstrip("?")) in (None, NO_CHORD):
        return text

    def tone(letter: str, accidentals: str) -> str:
        number = (pitch_class(letter, accidentals) + semitones) % PITCH_CLASSES
        return (FLAT_ROOTS if flats or set(accidentals) & {"b", "♭"} else ROOTS)[number]

    letter, accidentals, separator, rest = found.groups()
    quality, slash, bass = rest.rpartition("/")
    if slash and (low := re.fullmatch(r"([A-G])([#♯b♭]{0,2})(\??)", bass)):
        rest = f"{quality}/{tone(low[1], low[2])}{low[3]}"
    return text[: found.start(1)] + tone(letter, accidentals) + separator + rest


def _quality(text: str) -> str | None:
    """Return the quality for a name: as written, else without the bass, else without extensions."""
    without_bass = text if text.startswith("/o") else text.partition("/")[0]
    without_extensions = re.sub(r"\(.*?\)", "", without_bass)
    for candidate in (text, without_bass, without_extensions):
        if not candidate:
            return "M"
        if candidate in _QUALITY_OF:
            return _QUALITY_OF[candidate]
    return None


PITCH_CLASSES = 12
NONE = CHORDS.index(NO_CHORD)


def _tones(first: int) -> np.ndarray:
    found = np.zeros((len(CHORDS), PITCH_CLASSES), dtype=bool)
    for number, name in enumerate(CHORDS):
        if name != NO_CHORD:
            root, quality = name.split("_", 1)
            found[
                number,
                (ROOTS.index(root) + np.array(QUALITIES[quality][first:], int)) % PITCH_CLASSES,
            ] = True
    return found


TONES = _tones(0)  # the pitch classes of each chord: (133, 12)
SEVENTHS = _tones(3)  # of them, its seventh, if it has one


def named(score: Score) -> tuple[Marker, ...]:
    """Return the markers that are chord names, as chords of the vocabulary.

    If all of them name sections, there are none.
    """
    return tuple(
        Marker(m.onset_ticks, parse(m.text) or "", m.is_guess, m.symbol or symbol_of(m.text))
        for m, is_symbol in zip(score.markers, are_symbols(score.markers), strict=True)
        if is_symbol
    )


def are_symbols(markers: Sequence[Marker]) -> list[bool]:
    """Return which markers are chord symbols: those that name chords, unless the given ones of these name sections."""
    chords = [parse(one.text) is not None for one in markers]
    given = [
        m.text for m, is_chord in zip(markers, chords, strict=True) if is_chord and not m.is_guess
    ]
    named_sections = are_sections(given)
    return [
        is_chord and (one.is_guess or not named_sections)
        for one, is_chord in zip(markers, chords, strict=True)
    ]


def are_sections(texts: Sequence[str]) -> bool:
    """Return whether texts are bare letters of which each new one follows the last new one, as in A A B A C."""
    letters = [*dict.fromkeys(text.strip() for text in texts)]
    return all(len(one) == 1 for one in letters) and all(
        ord(after) == ord(one) + 1 for one, after in pairwise(letters)
    )


def in_steps(score: Score, steps_per_beat: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the step and the index of each chord among the markers; the last of several on one step counts."""
    chords = [(m.onset_ticks, CHORD_INDEX[m.text]) for m in score.markers if m.text in CHORD_INDEX]
    ticks, number = np.array(chords, dtype=np.int64).reshape(-1, 2).T
    order = np.argsort(ticks, kind="stable")
    step = np.maximum(steps_of(ticks[order], score.ticks_per_beat, steps_per_beat), 0)
    last = np.diff(step, append=-1) != 0
    return step[last], number[order][last]


def like_given(markers: Iterable[Marker], given: Iterable[Marker]) -> tuple[Marker, ...]:
    """Return markers that are guesses where the given chords in force are, and have the symbols of equal ones."""
    known = sorted(given, key=lambda one: one.onset_ticks)
    ticks = [one.onset_ticks for one in known]
    found: list[Marker] = []
    for marker in markers:
        at = bisect_right(ticks, marker.onset_ticks) - 1
        if at < 0:
            found.append(replace(marker, is_guess=True))
            continue
        symbol = known[at].symbol if known[at].text == marker.text else ""
        found.append(replace(marker, is_guess=known[at].is_guess, symbol=symbol))
    return tuple(found)


def as_asked(
    markers: Iterable[Marker], lines: np.ndarray, chords: Sequence[Sequence[str]]
) -> list[Marker]:
    """Return chords with the symbols of those that were asked for in the bars from the lines on, cyclically."""
    found: list[Marker] = []
    for marker in markers:
        bar = int(np.searchsorted(lines, marker.onset_ticks, side="right")) - 1
        names = chords[bar % len(chords)] if chords else ()
        symbols = [symbol_of(name) for name in names if parse(name) == marker.text]
        found.append(replace(marker, symbol=next(iter(symbols), "")))
    return found


def with_locked(new: Iterable[Marker], given: Sequence[Marker]) -> tuple[Marker, ...]:
    """Return new chords, with given ones that are no guesses in their places until the next given one."""
    ends = [*[one.onset_ticks for one in given[1:]], inf]
    locked = [(one, end) for one, end in zip(given, ends, strict=True) if not one.is_guess]
    found = {one.onset_ticks: one for one in new}
    ticks = sorted(found)
    for one, end in locked:
        inside = [tick for tick in ticks if one.onset_ticks <= tick < end]
        before = bisect_right(ticks, end) - 1
        if end < inf and before >= 0:  # what was in force at its end returns there
            found.setdefault(int(end), found[ticks[before]].at(int(end)))
        for tick in inside:
            del found[tick]
        found[one.onset_ticks] = one
        ticks = sorted(found)
    return tuple(found[tick] for tick in ticks)


def marker_in(onset_ticks: int, text: str, *, is_guess: bool = False) -> Marker:
    """Return the marker for a text of a file; earlier versions wrote a question mark after guessed chords."""
    if text.endswith("?") and parse(text[:-1]) is not None:
        return Marker(onset_ticks, text[:-1], is_guess=True)
    return Marker(onset_ticks, text, is_guess)


# The key is the one whose profile correlates best with the total duration of each pitch class (Krumhansl and Kessler
# 1982, as in Krumhansl 1990).

_MAJOR = (6.35, 2.23, 3.48, 2.33, 4.38, 4.09, 2.52, 5.19, 2.39, 3.66, 2.29, 2.88)
_MINOR = (6.33, 2.68, 3.52, 5.38, 2.60, 3.53, 2.54, 4.75, 3.98, 2.69, 3.34, 3.17)
_KEYS = np.array([np.roll(mode, tonic) for mode in (_MAJOR, _MINOR) for tonic in range(12)])


def tonic(pitch: np.ndarray, weight: np.ndarray) -> int:
    """Return the pitch class of the tonic of the most probable key."""
    return key(pitch, weight) % 12


WITHIN_SCALE = (
    0.75  # of the notes that a key signature must fit; one left at its default often does not
)


# What a key gains if its tonic is the bass that begins every bar, the first one, and the last one. On validation songs
# (68 of POP909, 70 Lieder) this raises the share of keys that are right from .93 and .73 to 1.00 and .77.
BASS_SHARE, FIRST_BASS, LAST_BASS = 0.3, 0.1, 0.1
KEY_BEFORE = 0.1  # what a key gains that was known before: enough between relative keys, not against a modulation


def key(
    pitch: np.ndarray,
    weight: np.ndarray,
    bass: np.ndarray | None = None,
    signature: tuple[int, bool] | None = None,
    *,
    before: int = -1,
) -> int:
    """Return the most probable key: the pitch class of its tonic, plus 12 in minor.

    `bass` are the pitches that begin the bars, if known. A signature, of sharps and whether it says minor, is followed
    if the notes fit its scale. As major is often written for minor too, the more probable of the two is taken unless it
    says minor. The key `before` stays unless the notes clearly have another one.
    """
    classes = np.bincount(pitch % 12, weights=weight, minlength=12)
    profiles = _KEYS - _KEYS.mean(1, keepdims=True)
    apart = classes - classes.mean()
    length = np.sqrt((profiles**2).sum(1) * (apart**2).sum())
    scores = profiles @ apart / np.where(length > 0, length, 1)
    if bass is not None and len(bass):
        tonics = np.arange(24) % 12
        scores += BASS_SHARE * np.bincount(bass % 12, minlength=12)[tonics] / len(bass)
        scores += FIRST_BASS * (bass[0] % 12 == tonics) + LAST_BASS * (bass[-1] % 12 == tonics)
    if before >= 0:
        scores[before] += KEY_BEFORE
    if signature is not None:
        major, says_minor = 7 * signature[0] % 12, signature[1]
        minor = 12 + (major + 9) % 12
        scale = (major + np.array([0, 2, 4, 5, 7, 9, 11])) % 12
        if classes[scale].sum() >= WITHIN_SCALE * classes.sum():
            stated = [minor] if says_minor else [major, minor]
            scores[~np.isin(np.arange(24), stated)] = -np.inf
    return int(
        scores.round(9).argmax()
    )  # the last bits depend on the processor, and would decide ties


MOST_SHARPS = 7  # of a key signature, and most flats
_KEY = re.compile(r"([A-Ga-g])([#♯b♭]?)\s*(?:(m|-|(?i:min|minor))|M|(?i:maj|major))?")


def read_key(name: str) -> int:
    """Return the key of a name such as Am, F♯m, Bb, G minor or Eb major: its tonic, plus 12 in minor."""
    root, accidental, is_minor = _key_named(name)
    return pitch_class(root, accidental) + 12 * is_minor


def read_signature(name: str) -> tuple[int, bool]:
    """Return the key signature of such a name: sharps, or flats if negative, and whether it is minor."""
    root, accidental, is_minor = _key_named(name)
    natural = (7 * LETTERS[root] + 1) % 12 - 1  # from F = −1 to B = 5
    fifths = natural + 7 * _ACCIDENTALS.get(accidental, 0) - 3 * is_minor
    return fifths - 12 * (fifths > MOST_SHARPS) + 12 * (fifths < -MOST_SHARPS), is_minor


def _key_named(name: str) -> tuple[str, str, bool]:
    """Return the letter and accidental of a key's tonic, and whether it is minor."""
    if not (found := _KEY.fullmatch(name.strip())):
        raise ValueError(f"there is no key {name!r}; keys are written as Am, F#m, Bb or 'G minor'")
    return found[1].upper(), found[2], bool(found[3])


# A chord progression given by the user, with bar lines: `C | G7 | Am F | C`. A double bar line, `||`, counts as one. An
# empty bar, `| |`, continues the previous chord. The progression is repeated as often as needed.

MOST_A_BAR = 4


def read_chords(text: str, first: int = 1) -> list[list[str]]:
    """Return the names of the chords of each bar of a progression; raise ValueError for an unknown chord.

    `first` is the number of its first bar.
    """
    single = re.sub(r"\|+", "|", text.strip())
    bars = single.removeprefix("|").removesuffix("|").split("|")
    line = []
    for number, bar in enumerate(bars, first):
        names = bar.split()
        if unknown := [name for name in names if parse(name) is None]:
            raise ValueError(
                f"{unknown[0]!r} in bar {number} is not a chord; "
                "examples are C, Am7, F#m7b5, F7/A and Bbsus4; N means no chord"
            )
        if len(names) > MOST_A_BAR:
            raise ValueError(f"bar {number} has {len(names)} chords; the limit is {MOST_A_BAR}")
        line.append(names)
    if not any(line):
        raise ValueError("the progression has no chords; an example is 'C | G7 | Am F | C'")
    return line


def taken_as(line: Iterable[Iterable[str]]) -> str:
    """Return a sentence on the chords of which a model takes only a part; "" if there are none."""
    names = dict.fromkeys(name for bar in line for name in bar if symbol_of(name))
    kinds = {quality: SIGNS.get(quality, quality) for quality in QUALITIES}
    pairs = []
    for name in names:
        root, quality = re.match(r"[A-G][#♯b♭]*", name), (parse(name) or "").partition("_")[2]
        pairs.append(f"{name} as {root[0] if root else ''}{kinds.get(quality, '')}")
    return f"The model takes {listed(pairs)}; the symbols stay as written." if pairs else ""
