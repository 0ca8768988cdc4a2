"""The text of ABC, the notation of folk tunes (ABC standard 2.1): the tokens of its music, and its fields."""

from __future__ import annotations

import re
from fractions import Fraction

# The tokens of ABC music: notes, rests, bar lines and other signs (ABC standard 2.1, section 4).

_LENGTH = r"(\d{0,4})(/{0,6})(\d{0,4})"
_NOTE = r"(\^\^|\^|__|_|=)?([A-Ga-g])([,']{0,6})" + _LENGTH
NOTE = re.compile(_NOTE)
# Lengths are bounded, because unclosed brackets would otherwise take quadratic time.
TOKEN = re.compile(
    r"(?P<field>\[[A-Za-z]:[^\]\n]{0,200}\])"
    r"|(?P<bar>[:|\[\]]{0,6}\|[:|\]]*|::+)(?P<times>\d{1,2}(?:[,-]\d{1,2})*)?"
    r"|(?P<ending>\[\d{1,2}(?:[,-]\d{1,2})*)"
    rf"|(?P<note>{_NOTE})"
    rf"|(?P<rest>[zx]{_LENGTH})"
    r"|(?P<bars>[ZX]\d{0,4})"
    rf"|(?P<chord>\[[^\[\]|\n]{{0,200}}\]{_LENGTH})"
    r"|(?P<tie>-)"
    r"|(?P<broken>[<>]{1,3})"
    r"|(?P<tuplet>\(\d(?::\d?){0,2})"
    r"|(?P<grace>\{[^{}\n]{0,200}\})"
    r'|(?P<text>"[^"\n]{0,200}")'
    r"|(?P<sign>![^!\n]{1,40}!|\+[A-Za-z.]{1,20}\+)"
    r"|(?P<overlay>&)"
)


def times_of(text: str) -> frozenset[int]:
    """Return the passes of an ending given as 1, 1,3 or 1-3."""
    times: set[int] = set()
    for part in text.split(","):
        numbers = part.split("-")
        times.update(range(int(numbers[0]), int(numbers[-1]) + 1))
    return frozenset(times)


def length_of(text: str) -> Fraction:
    """Return the length of a note in units, given as 3, 3/2, /, //, /4 or nothing."""
    found = re.match(_LENGTH, text)
    assert found is not None, "the expression also matches the empty text"
    above, slashes, below = found.groups()
    divisor = int(below) if below and slashes else 2 ** len(slashes)
    return Fraction(int(above or 1), max(1, divisor * (2 ** (len(slashes) - 1) if below else 1)))


# The fields of an ABC tune: key, metre, tempo, unit note length, transposition (ABC standard 2.1).

_SHARPS = "FCGDAEB"
_TONICS = {letter: place - 1 for place, letter in enumerate(_SHARPS)}  # fifths above C
_MODES = {
    **{"": 0, "maj": 0, "ion": 0, "m": -3, "min": -3, "aeo": -3, "mix": -1, "dor": -2, "phr": -4},
    **{"lyd": 1, "loc": -5},
}
_KEY = re.compile(r"([A-G])([#b]?)\s*([A-Za-z]*)(?![A-Za-z]*=)")
_EXPLICIT = re.compile(r"(?<!\S)(\^\^|\^|__|_|=)([A-Ga-g])(?!\S)")
ALTERS = {"^^": 2, "^": 1, "=": 0, "_": -1, "__": -2}
_FRACTION = re.compile(r"(\d{1,4})/(\d{1,4})")
_SHIFT = re.compile(r"\b(octave|transpose)=([-+]?\d{1,2})")
_CLEF_OCTAVE = re.compile(
    r"\b(?:treble|bass|alto|tenor|soprano|mezzo|baritone|perc|[GFC]\d?)([-+]8)\b"
)


def key_of(text: str) -> dict[str, int] | None:
    """Return the alterations of a key in semitones by letter; None if a field states no key but only a clef, say."""
    if text.startswith(("HP", "Hp")):  # Great Highland bagpipes
        return {"F": 1, "C": 1}
    found = _KEY.match(text)
    explicit = {letter.upper(): ALTERS[sign] for sign, letter in _EXPLICIT.findall(text)}
    if not found and not explicit and text and not text.lower().startswith("none"):
        return None
    fifths = 0
    if found and not found[3].lower().startswith("exp"):
        mode = found[3].lower()
        fifths = _TONICS[found[1]] + 7 * {"#": 1, "b": -1, "": 0}[found[2]]
        fifths += _MODES.get(mode if mode == "m" else mode[:3], 0)
    altered = dict.fromkeys(_SHARPS[: max(0, fifths)], 1)
    altered |= dict.fromkeys(_SHARPS[::-1][: max(0, -fifths)], -1)
    return altered | explicit


def signature_of(text: str) -> tuple[int, bool] | None:
    """Return the key signature of a key field, and whether it says minor; None if it states none."""
    if text.startswith(("HP", "Hp")):
        return 2, False
    found = _KEY.match(text)
    if not found or found[3].lower().startswith("exp"):
        return None
    mode = found[3].lower()
    mode = mode if mode == "m" else mode[:3]
    fifths = _TONICS[found[1]] + 7 * {"#": 1, "b": -1, "": 0}[found[2]] + _MODES.get(mode, 0)
    return (fifths, mode in ("m", "min", "aeo")) if abs(fifths) <= 7 else None


_WORDS = re.compile(r"\||\*|_|(?:[^\s\-_*|\\]|\\.)+-?|-")


def syllables_of(text: str) -> list[tuple[str, bool]]:
    """Return the syllables of a line of words, and whether their word goes on.

    `_` holds the last syllable for a note, `*` leaves a note without one, and `|` goes on in the next bar.
    """
    found: list[tuple[str, bool]] = []
    for word in _WORDS.findall(text):
        if word == "-":  # apart from its syllable: one more note of the word
            found.append(("_", True))
            continue
        continues = word.endswith("-") and not word.endswith("\\-")
        found.append((word.removesuffix("-").replace("~", " ").replace("\\", ""), continues))
    return found


def shift_of(text: str) -> int | None:
    """Return the transposition in semitones stated by a key or voice field; None if there is none."""
    shifts = [
        int(amount) * {"octave": 12, "transpose": 1}[what] for what, amount in _SHIFT.findall(text)
    ]
    shifts += [12 if octave == "+8" else -12 for octave in _CLEF_OCTAVE.findall(text)]
    return sum(shifts) if shifts else None


def metre_of(text: str) -> tuple[int, int] | None:
    """Parse a metre; None if it is missing or unknown."""
    text = text.strip().replace(" ", "")
    if text in ("C", "C|"):
        return (4, 4) if text == "C" else (2, 2)
    found = re.fullmatch(r"\(?(\d{1,3}(?:\+\d{1,3}){0,8})\)?/(\d{1,2})", text)
    if not found or int(found[2]) not in (1, 2, 4, 8, 16, 32, 64):
        return None
    beats = sum(map(int, found[1].split("+")))
    return (beats, int(found[2])) if 0 < beats < 256 else None


def unit_of(text: str) -> Fraction | None:
    """Parse the unit note length, in whole notes; None if it is invalid."""
    found = _FRACTION.match("1/1" if text == "1" else text)
    top, low = map(int, found.groups()) if found else (0, 0)
    return Fraction(top, low) if top and low else None


def usual_unit(metre: tuple[int, int] | None) -> Fraction:
    """Return the default unit note length of a metre."""
    return Fraction(1, 16) if metre and Fraction(*metre) < Fraction(3, 4) else Fraction(1, 8)


def tempo_of(text: str, unit: Fraction) -> float | None:
    """Parse a tempo in quarters per minute; None if it consists of words only."""
    text = re.sub(r'"[^"]*"', " ", text)
    notes, equals, number = text.rpartition("=")
    found = re.search(r"\d{1,4}(?:\.\d{1,3})?", number if equals else text)
    if not found:
        return None
    lengths = _FRACTION.findall(notes)[:8]
    beat = sum((Fraction(int(n), int(d)) for n, d in lengths if int(d)), Fraction(0)) or unit
    return float(found[0]) * float(4 * beat)
