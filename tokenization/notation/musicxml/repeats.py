"""Repeats, endings and jumps of a MusicXML score, bar by bar."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence

from tokenization.notation.musicxml.part import number
from tokenization.notation.written import Line

TWICE = 2
HIGHEST_ENDING = 99
_JUMPS = ("dacapo", "dalsegno", "tocoda", "fine", "segno", "coda")


class LineReader:
    """Collects where endings open and close; `close` says of each bar in which it is."""

    def __init__(self) -> None:
        self._opened: dict[int, frozenset[int]] = {}
        self._closed: set[int] = set()

    def take(self, measure: ET.Element, line: Line, bar: int) -> None:
        """Read what a bar of any part says about where to go on."""
        for barline in measure.findall("barline"):
            repeat, ending = barline.find("repeat"), barline.find("ending")
            if repeat is not None:
                self._repeat(repeat, line)
            if ending is not None:
                self._ending(ending, bar)
            line.marks.update(mark for mark in ("segno", "coda") if barline.find(mark) is not None)
        for sound in (*measure.findall("sound"), *measure.findall("direction/sound")):
            line.marks.update(jump for jump in _JUMPS if sound.get(jump) is not None)
        for kind in measure.findall("direction/direction-type/*"):
            if kind.tag in ("segno", "coda") and not line.marks & {"tocoda", "dalsegno"}:
                line.marks.add(kind.tag)

    def close(self, lines: Sequence[Line]) -> None:
        """Give each bar the times at which it is played."""
        within: frozenset[int] | None = None
        for bar, line in enumerate(lines):
            # A last ending need not say where it ends: with the next repeat at the latest.
            within = self._opened.get(bar, None if line.forward else within)
            line.endings = within
            if bar in self._closed:
                within = None

    def _repeat(self, repeat: ET.Element, line: Line) -> None:
        if repeat.get("direction") == "forward":
            line.forward = True
        elif repeat.get("direction") == "backward":
            times = repeat.get("times")
            line.backward = TWICE if times is None else max(1, round(number(times, "times")))

    def _ending(self, ending: ET.Element, bar: int) -> None:
        if ending.get("type") == "start":
            numbers = [int(n) for n in re.findall(r"\d{1,2}", ending.get("number", ""))]
            times = frozenset(n for n in numbers if 0 < n <= HIGHEST_ENDING)
            self._opened[bar] = times or frozenset({1})
        else:
            self._closed.add(bar)
