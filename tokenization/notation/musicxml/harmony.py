"""Convert MusicXML harmony elements to chord names and back."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from itertools import pairwise

from tokenization.analysis.chords import (
    LETTERS,
    NO_CHORD,
    ROOTS,
    named,
    parse,
    pitch_class,
    symbol_of,
)
from tokenization.score import Score

Symbol = tuple[int, str]  # a tick, and a chord, or its symbol if that says more: C_m7, C/E, F7#9
Spelling = Callable[[int], tuple[str, int]]  # pitch class → step, alteration

# MusicXML kind → quality; the first kind of each quality is the one written.
_QUALITIES = {
    **{"major": "M", "minor": "m", "augmented": "+", "diminished": "o", "dominant": "7"},
    **{"major-seventh": "M7", "minor-seventh": "m7", "diminished-seventh": "o7"},
    **{"half-diminished": "/o7", "suspended-second": "sus2", "suspended-fourth": "sus4"},
    **{"augmented-seventh": "+", "major-minor": "m", "major-sixth": "M", "minor-sixth": "m"},
    **{"major-ninth": "M7", "minor-ninth": "m7", "major-11th": "M7", "minor-11th": "m7"},
    **{"major-13th": "M7", "minor-13th": "m7", "power": "M"},
    **{"dominant-ninth": "7", "dominant-11th": "7", "dominant-13th": "7"},
}
_KINDS = {quality: kind for kind, quality in reversed(_QUALITIES.items())}
_BASS = re.compile(r"/([A-G])([#♯b♭]{0,2})$")
_KIND = re.compile(r"[A-G][♯♭]*(.*?)(?:/[A-G][♯♭]*)?$")


def chord_in(element: ET.Element, transpose: int) -> str | None:
    """Return the chord of a harmony element, transposed by semitones; None if it is unknown."""
    kind = (element.findtext("kind") or "").strip()
    if kind == "none":
        return "N"
    root, bass = (_tone(element, name, transpose) for name in ("root", "bass"))
    if root is None or kind not in _QUALITIES:
        return None
    name, low = _name(root, _QUALITIES[kind], bass), f"/{bass}" if bass else ""
    stated = element.find("kind")
    kind = "" if stated is None else stated.get("text", "")
    symbol = symbol_of(f"{root}{kind}")  # F7#9
    return symbol + low if symbol and parse(symbol) == parse(name) else name


def _tone(element: ET.Element, name: str, transpose: int) -> str | None:
    """Return the name of the root or the bass, transposed; None if it is missing or invalid."""
    if (tone := element.find(name)) is None:
        return None
    step = (tone.findtext(f"{name}-step") or "").strip()
    alter = (tone.findtext(f"{name}-alter") or "0").strip()
    if step not in LETTERS or not re.fullmatch(r"[+-]?[012](\.0*)?", alter):
        return None
    altered = int(float(alter))
    if transpose % 12:
        return ROOTS[(LETTERS[step] + altered + transpose) % 12]
    return step + ("", "#", "##", "bb", "b")[altered]


def _name(root: str, quality: str, bass: str | None) -> str:
    if bass is None or bass == root:
        return f"{root}_{quality}"
    return f"{root}_{'m7b5' if quality == '/o7' else quality}/{bass}"  # avoid two slashes


def symbols_of(score: Score, start: int = 0) -> list[Symbol]:
    """Return the chord changes of a score from a tick on, without guesses."""
    rows = sorted(
        {
            one.onset_ticks: one.symbol or one.text
            for one in named(score)
            if one.onset_ticks >= start and not one.is_guess
        }.items()
    )
    return rows[:1] + [row for before, row in pairwise(rows) if row[1] != before[1]]


def harmony(name: str, spelling: Spelling) -> ET.Element:
    """Convert a chord name to a harmony element."""
    element = ET.Element("harmony")
    if name == NO_CHORD:
        ET.SubElement(element, "function")  # unlike a root without text, MuseScore 3 omits it
        ET.SubElement(element, "kind", text="N.C.").text = "none"
        return element
    root, _, quality = (parse(name) or name).partition("_")
    _add_tone(element, "root", spelling(ROOTS.index(root)))
    ET.SubElement(element, "kind").text = _KINDS[quality]
    if (symbol := symbol_of(name)) and (written := _KIND.match(symbol)) and written[1]:
        element[-1].set("text", written[1])
    if bass := _BASS.search(name):
        _add_tone(element, "bass", spelling(pitch_class(*bass.groups())))
    return element


def _add_tone(element: ET.Element, name: str, tone: tuple[str, int]) -> None:
    step, alter = tone
    parent = ET.SubElement(element, name)
    ET.SubElement(parent, f"{name}-step").text = step
    if alter:
        ET.SubElement(parent, f"{name}-alter").text = str(alter)
