"""What the fields of an ABC tune say: key, metre, tempo, length of a note, transposition (ABC standard 2.1)."""

from __future__ import annotations

import re
from fractions import Fraction

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
    """Return by how many semitones a key alters each letter that it alters; None where no key is said, as of a clef."""
    if text.startswith(("HP", "Hp")):  # of the great highland pipes
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


MOST_SECTIONS = 1000


def sections_of(text: str) -> str:
    """Return the order of a tune's sections, `A(AB)2.C` as `AABABC`; empty where it is none, or far too long."""
    opened = [""]
    last = ""  # what a number after it repeats
    for letters, bracket, number in re.findall(r"([A-Z])|([()])|(\d{1,3})", text):
        if bracket == "(":
            opened.append("")
            last = ""
            continue
        if bracket and len(opened) == 1:
            return ""
        last = letters or (opened.pop() if bracket else last * (int(number) - 1))
        opened[-1] += last
        if len(opened[-1]) > MOST_SECTIONS:
            return ""
        last = last if not number else ""
    return opened[0] if len(opened) == 1 else ""


def shift_of(text: str) -> int | None:
    """Return by how many semitones a key or voice sounds above what is written; None where it says nothing."""
    shifts = [
        int(amount) * {"octave": 12, "transpose": 1}[what] for what, amount in _SHIFT.findall(text)
    ]
    shifts += [12 if octave == "+8" else -12 for octave in _CLEF_OCTAVE.findall(text)]
    return sum(shifts) if shifts else None


def metre_of(text: str) -> tuple[int, int] | None:
    """Return a metre; None where there is none, or none that is known."""
    text = text.strip().replace(" ", "")
    if text in ("C", "C|"):
        return (4, 4) if text == "C" else (2, 2)
    found = re.fullmatch(r"\(?(\d{1,3}(?:\+\d{1,3}){0,8})\)?/(\d{1,2})", text)
    if not found or int(found[2]) not in (1, 2, 4, 8, 16, 32, 64):
        return None
    beats = sum(map(int, found[1].split("+")))
    return (beats, int(found[2])) if 0 < beats < 256 else None


def unit_of(text: str) -> Fraction | None:
    """Return the length of a note without a number, in whole notes."""
    found = _FRACTION.match(text.strip())
    if text.strip() == "1":
        return Fraction(1)
    return (
        Fraction(int(found[1]), int(found[2]))
        if found and int(found[1]) and int(found[2])
        else None
    )


def usual_unit(metre: tuple[int, int] | None) -> Fraction:
    """Return the length of a note where a tune does not say it."""
    return Fraction(1, 16) if metre and Fraction(*metre) < Fraction(3, 4) else Fraction(1, 8)


def tempo_of(text: str, unit: Fraction) -> float | None:
    """Return the quarters a minute; None where only words are said."""
    text = re.sub(r'"[^"]*"', " ", text)
    notes, equals, number = text.rpartition("=")
    found = re.search(r"\d{1,4}(?:\.\d{1,3})?", number if equals else text)
    if not found:
        return None
    lengths = _FRACTION.findall(notes)[:8]
    beat = sum((Fraction(int(n), int(d)) for n, d in lengths if int(d)), Fraction(0)) or unit
    return float(found[0]) * float(4 * beat)
