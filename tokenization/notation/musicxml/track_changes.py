"""Changes of the parts of a MusicXML score: instrument, volume, name, order, and deleting them."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from itertools import takewhile

from tokenization import changes
from tokenization.edit import NotKept
from tokenization.notation.musicxml.elements import POSITIONING, OpenScore, tree, value
from tokenization.notation.musicxml.note_changes import remove
from tokenization.notation.musicxml.sign_changes import move_chords, put

LOUDEST = 127
# The order of the children of `midi-instrument`.
MIDI = (
    "midi-channel", "midi-name", "midi-bank", "midi-program", "midi-unpitched", "volume", "pan", "elevation",
)  # fmt: skip


def _instruments(score: OpenScore, source: int) -> list[ET.Element]:
    """Return the MIDI instruments of a track, which are added if there are none."""
    part = score.part_of(source)
    entry, track = score.entries[score.parts[part].get("id")], score.track(source)
    found = entry.findall("midi-instrument")
    own = [
        one for one in found
        if track.is_drum or round(value(one.find("midi-program")) or 1) - 1 == track.program
    ]  # fmt: skip
    if own or found:
        return own or found[:1]
    instruments = entry.findall("score-instrument")
    if not instruments:
        key = f"{entry.get('id')}-I1"
        instruments = [tree("score-instrument", ("instrument-name", track.name or "Music"), id=key)]
        entry.append(instruments[0])
    made = ET.SubElement(entry, "midi-instrument", id=instruments[0].get("id", ""))
    return [made]


def _set(instrument: ET.Element, tag: str, text: str) -> None:
    """Set a value of a MIDI instrument."""
    for old in instrument.findall(tag):
        instrument.remove(old)
    place = sum(one.tag in MIDI[: MIDI.index(tag)] for one in instrument)
    made = tree(tag)
    made.text = text
    instrument.insert(place, made)


def set_program(score: OpenScore, change: changes.Program) -> None:
    """Give a part another instrument."""
    for source in sorted(score.sources_of([change.track])):
        for instrument in _instruments(score, source):
            _set(instrument, "midi-program", str(change.program + 1))
        entry = score.entries[score.parts[score.part_of(source)].get("id")]
        for named in entry.findall("score-instrument"):  # a sound that would contradict it
            for sound in named.findall("instrument-sound"):
                named.remove(sound)
    score.find()


def set_volume(score: OpenScore, change: changes.Volume) -> None:
    """Set the volume of a part."""
    for source in sorted(score.sources_of([change.track])):
        for instrument in _instruments(score, source):
            _set(instrument, "volume", f"{round(100 * change.volume / LOUDEST, 2):g}")


def add_controllers(score: OpenScore, change: changes.Controllers) -> None:
    """Raise NotKept, as a score has no controllers."""
    raise NotKept("a score has no pitch bends and no pedal but signs for it")


def set_name(score: OpenScore, change: changes.Name) -> None:
    """Name a part."""
    for source in sorted(score.sources_of([change.track])):
        entry = score.entries[score.parts[score.part_of(source)].get("id")]
        name = entry.find("part-name")
        if name is None:
            entry.insert(0, name := ET.Element("part-name"))
        name.text = change.name
        for tag in ("part-name-display", "part-abbreviation", "part-abbreviation-display"):
            for old in entry.findall(tag):
                entry.remove(old)
    score.find()


def reorder(score: OpenScore, change: changes.Order) -> None:
    """Reorder the parts; raises NotKept if they are in groups."""
    if sorted(change.tracks) != [*range(len(score.reading.sources))]:
        raise ValueError(
            f"the order must name each of the {len(score.reading.sources)} tracks once"
        )
    listed = score.root.find("part-list")
    if listed is None or listed.find("part-group") is not None:
        raise NotKept("its parts are in groups, which have an order")
    sources = [sorted(score.reading.sources[track]) for track in change.tracks]
    ordered = [score.part_of(source) for some in sources for source in some]
    numbers = [*dict.fromkeys([*ordered, *range(len(score.parts))])]
    entries = listed.findall("score-part")
    parts = [*score.parts]
    for one in parts:
        score.root.remove(one)
    listed[:] = [entries[number] for number in numbers]
    score.root.extend(parts[number] for number in numbers)
    # The tracks of the file are numbered in its order.
    moved = [source for number in numbers for source in score.sources_in(number)]
    score.reading = score.reading.with_tracks(change.tracks).renumbered(moved)
    score.find()


def drop(score: OpenScore, change: changes.Drop) -> None:
    """Delete parts; chord symbols and tempos above them move to the first that is left."""
    gone = score.sources_of(change.tracks)
    for note in [note for note in score.notes if note.source in gone]:
        remove(score, note)
    silent = [
        number for number in range(len(score.parts))
        if {*score.sources_in(number)} <= gone
    ]  # fmt: skip
    left = [number for number in range(len(score.parts)) if number not in silent]
    if not left:
        raise ValueError("no notes would be left; keep at least one part")
    listed = score.root.find("part-list")
    for number in silent:
        _keep_signs(score, number, left[0])
        score.root.remove(score.parts[number])
        if listed is not None:
            listed.remove(score.entries[score.parts[number].get("id")])
    kept = [n for n in range(len(score.reading.sources)) if n not in change.tracks]
    sources = [source for number in left for source in score.sources_in(number)]
    score.reading = score.reading.with_tracks(kept).renumbered(sources)
    score.find()


def _keep_signs(score: OpenScore, number: int, to: int) -> None:
    """Move the tempos at the starts of the bars of a part and its chord symbols to another, unless that has some."""
    if score.parts[to].find("measure/harmony") is None:
        move_chords(score, number, to)
    for old, new in zip(score.measures[number], score.measures[to], strict=True):
        head = takewhile(lambda one: one.tag not in POSITIONING, old)
        tempos = [one for one in head if one.find("sound[@tempo]") is not None]
        for one in reversed(tempos if new.find("direction") is None else []):
            put(new, one)
