"""Write out the repeats of a MusicXML score: its bars in the order of playing, each with all that is engraved in it."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator, Sequence
from copy import deepcopy

JUMPS = ("dacapo", "dalsegno", "tocoda", "fine", "segno", "coda", "forward-repeat")
# What the attributes of a bar state, in the order of MusicXML.
_STATED = ("divisions", "key", "time", "staves", "clef", "transpose")
State = dict[tuple[str, str], ET.Element]  # by name, and number of the staff


def unfold(root: ET.Element, order: Sequence[int]) -> None:
    """Replace the bars of each part by those in the order of playing, without the signs of repeats.

    Where the music jumps, the key, metre and clefs in force at the bar are stated again. Of several verses each pass
    keeps its own.
    """
    for part in root.iterfind("part"):
        measures = part.findall("measure")
        before = [*_states(measures)]
        passes: Counter[int] = Counter()
        all_passes = Counter(order)
        in_force: State = {}
        for measure in measures:
            part.remove(measure)
        for place, number in enumerate(order):
            passes[number] += 1
            measure = deepcopy(measures[number])
            _drop_signs(measure, is_last=place + 1 == len(order))
            _choose_verse(measure, passes[number], is_last=passes[number] == all_passes[number])
            if place and number != order[place - 1] + 1:
                _restate(measure, before[number], in_force)
            in_force = before[number] | dict(_stated_in(measure))
            _number(measure, part, place)
            part.append(measure)


def _stated_in(measure: ET.Element) -> Iterator[tuple[tuple[str, str], ET.Element]]:
    for attributes in measure.iterfind("attributes"):
        for one in attributes:
            if one.tag in _STATED:
                yield (one.tag, one.get("number", "")), one


def _states(measures: Sequence[ET.Element]) -> Iterator[State]:
    """Yield what is in force before each bar."""
    state: State = {}
    for measure in measures:
        yield state
        state = state | dict(_stated_in(measure))


def _restate(measure: ET.Element, wanted: State, in_force: State) -> None:
    """State at the start of a bar what differs from the bar that was played before."""
    differing = [
        one for key, one in wanted.items()
        if key not in in_force or ET.tostring(in_force[key]) != ET.tostring(one)
    ]  # fmt: skip
    if not differing:
        return
    attributes = ET.Element("attributes")
    attributes.extend(
        deepcopy(one) for one in sorted(differing, key=lambda one: _STATED.index(one.tag))
    )
    measure.insert(0, attributes)


def _drop_signs(measure: ET.Element, *, is_last: bool) -> None:
    """Remove repeats, endings and jumps from a bar."""
    for line in measure.findall("barline"):
        signs = [one for one in line if one.tag in ("repeat", "ending", "segno", "coda")]
        for sign in signs:
            line.remove(sign)
        if any(one.tag in ("repeat", "ending") for one in signs):
            for style in line.findall("bar-style"):
                line.remove(style)
        if not len(line):
            measure.remove(line)
    for direction in measure.findall("direction"):
        sounds = direction.findall("sound")
        jumps = any(sound.get(name) is not None for sound in sounds for name in JUMPS)
        signs = [one for kind in direction.iterfind("direction-type") for one in kind]
        if jumps or any(one.tag in ("segno", "coda") for one in signs):
            tempo = next((sound for sound in sounds if sound.get("tempo") is not None), None)
            measure.remove(direction)
            if tempo is not None:
                measure.append(ET.Element("sound", tempo=tempo.get("tempo", "")))
    for sound in measure.findall("sound"):
        for name in JUMPS:
            sound.attrib.pop(name, None)
        if not sound.attrib and not len(sound):
            measure.remove(sound)
    if is_last and measure.find("barline") is None:
        line = ET.SubElement(measure, "barline", location="right")
        ET.SubElement(line, "bar-style").text = "light-heavy"


def _choose_verse(measure: ET.Element, number: int, *, is_last: bool) -> None:
    """Keep the verse of a pass if a note has several; the last pass also keeps those that follow."""
    for note in measure.iterfind("note"):
        lyrics = note.findall("lyric")
        numbers = [
            int(verse) if (verse := one.get("number", "1")).isdecimal() else 1 for one in lyrics
        ]
        if number not in numbers:
            continue
        for lyric, verse in zip(lyrics, numbers, strict=True):
            if verse < number or (verse > number and not is_last):
                note.remove(lyric)
            else:
                lyric.set("number", str(verse - number + 1))


def _number(measure: ET.Element, part: ET.Element, place: int) -> None:
    first = part.find("measure")
    number = measure.get("number", "") if first is None else first.get("number", "")
    if number.isdecimal() and len(number) < 9:
        measure.set("number", str(int(number) + place))
