"""Some bars and parts of a MusicXML score as a score of their own, to be pasted into another one."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Collection

# What would double signs of the score into which the bars are pasted.
LEFT_OUT = ("direction", "sound", "print", "barline", "comment")
# The children of `attributes` in their order; those in force at the first bar are repeated there.
IN_FORCE = (
    "divisions", "key", "time", "staves", "part-symbol", "instruments", "clef", "staff-details", "transpose",
)  # fmt: skip


def cut(root: ET.Element, bars: range, parts: Collection[int], *, with_chords: bool) -> None:
    """Leave only some bars of some parts, from 0, in a score; chord symbols only if they are wanted."""
    out = {*LEFT_OUT, *(() if with_chords else ("harmony",))}
    listed = root.find("part-list")
    for number, part in enumerate(root.findall("part")):
        if number not in parts:
            root.remove(part)
            for entry in listed.findall("score-part") if listed is not None else ():
                if listed is not None and entry.get("id") == part.get("id"):
                    listed.remove(entry)
            continue
        measures = part.findall("measure")
        begun = _attributes(measures[: bars.start + 1])
        for index, measure in enumerate(measures):
            if index not in bars:
                part.remove(measure)
                continue
            for child in [*measure]:
                if child.tag in out or not isinstance(child.tag, str):
                    measure.remove(child)
        for old in measures[bars.start].findall("attributes")[:1]:
            measures[bars.start].remove(old)
        measures[bars.start].insert(0, begun)
    for group in listed.findall("part-group") if listed is not None else ():
        if listed is not None:
            listed.remove(group)


def _attributes(measures: list[ET.Element]) -> ET.Element:
    """Return the attributes in force in the last of some measures, from its first on."""
    last: dict[tuple[str, str], ET.Element] = {}
    for measure in measures:
        every = measure.findall("attributes")
        for attributes in every[:1] if measure is measures[-1] else every:
            for child in attributes:
                last[child.tag, child.get("number", "1")] = child
    found = ET.Element("attributes")
    for (tag, _), child in sorted(last.items(), key=lambda one: one[0][1]):
        if tag in IN_FORCE:
            found.append(child)
    found[:] = sorted(found, key=lambda child: IN_FORCE.index(child.tag))
    return found
