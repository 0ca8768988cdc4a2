"""Changes of the signs of a MusicXML score, tempo, key and metre, and of its time: bars that are cut out."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from copy import deepcopy
from itertools import takewhile

import numpy as np

from tokenization import changes
from tokenization.analysis.chords import NO_CHORD, parse
from tokenization.edit import NotKept
from tokenization.notation.musicxml.elements import (
    ATTRIBUTES,
    BEFORE_MUSIC,
    REPEATS,
    OpenScore,
    put_attribute,
    tree,
    value,
)
from tokenization.notation.musicxml.harmony import harmony
from tokenization.notation.musicxml.note_changes import spelled
from tokenization.notation.written import TICKS_PER_BEAT, bar_ticks, played

USUAL_TEMPO = 120.0  # before the first


def tempo_mark(bpm: float) -> ET.Element:
    """Return a tempo mark in quarter notes per minute."""
    mark = tree("metronome", ("beat-unit", "quarter"), ("per-minute", f"{bpm:g}"))
    sound = tree("sound", tempo=f"{bpm:g}")
    return tree("direction", tree("direction-type", mark), sound, placement="above")


def _in_force(score: OpenScore, tick: float) -> float:
    """Return the tempo at a tick."""
    music = played(score.written, score.layout)
    onsets = music.tempos.onset_ticks * (TICKS_PER_BEAT / music.ticks_per_beat)
    row = int(np.searchsorted(onsets, tick, side="right")) - 1
    return float(music.tempos.beats_per_minute[row]) if row >= 0 else USUAL_TEMPO


def set_tempo(score: OpenScore, change: changes.Tempo) -> None:
    """Set or scale tempos from a bar on."""
    first, stop = score.bars(change)
    starts, part = score.layout.starts, score.measures[0]
    before = _in_force(score, starts[first])
    after = _in_force(score, starts[stop]) if stop < len(part) else None
    if change.bpm is not None:
        for measures in score.measures:
            for measure in measures[first:stop]:
                _remove_tempos(measure)
        _put(part[first], tempo_mark(change.bpm))
    else:
        times = change.times or 1.0
        states_one = any(_states_tempo(measures[first]) for measures in score.measures)
        for measures in score.measures:
            for measure in measures[first:stop]:
                _scale_tempos(measure, times)
        if not states_one:
            _put(part[first], tempo_mark(round(before * times, 2)))
    if after is not None and not any(_states_tempo(measures[stop]) for measures in score.measures):
        _put(part[stop], tempo_mark(round(after, 2)))
    score.find()


def _put(measure: ET.Element, direction: ET.Element) -> None:
    """Put a direction at the start of a bar."""
    place = next(
        (n for n, one in enumerate(measure) if one.tag not in ("print", "attributes", "barline")),
        len(measure),
    )
    measure.insert(place, direction)


def _states_tempo(measure: ET.Element) -> bool:
    """Return whether a bar states a tempo at its start."""
    for element in measure:
        if element.tag in ("note", "backup", "forward"):
            return False
        sounds = element.findall("sound") if element.tag == "direction" else [element]
        marks = element.findall("direction-type/metronome")
        if any(one.get("tempo") for one in sounds) or marks:
            return True
    return False


def _remove_tempos(measure: ET.Element) -> None:
    for element in [one for one in measure if one.tag in ("direction", "sound")]:
        for sound in [element, *element.findall("sound")]:
            sound.attrib.pop("tempo", None)
        for kind in element.findall("direction-type"):
            if kind.find("metronome") is not None:
                element.remove(kind)
        is_empty = not element.findall("direction-type") and not any(s.attrib for s in element)
        if is_empty and (element.tag == "direction" or not element.attrib):
            measure.remove(element)


def _scale_tempos(measure: ET.Element, times: float) -> None:
    for sound in [*measure.iterfind("sound"), *measure.iterfind("direction/sound")]:
        if tempo := sound.get("tempo"):
            sound.set("tempo", f"{round(float(tempo) * times, 4):g}")
    for mark in measure.iterfind("direction/direction-type/metronome/per-minute"):
        mark.text = re.sub(
            r"\d+(?:\.\d+)?",
            lambda found: f"{round(float(found[0]) * times, 2):g}",
            mark.text or "",
        )


def set_key(score: OpenScore, change: changes.Key) -> None:
    """Set the key signature of all pitched parts, as each is written."""
    first, stop = score.bars(change)
    for part, measures in enumerate(score.measures):
        if all(track.is_drum for track in score.written.parts[part].tracks):
            continue
        old = _last(measures[: stop + 1] if stop < len(measures) else [], "key", stop)
        for measure in measures[first:stop]:
            _remove(measure, "key")
        written = change.fifths - 7 * score.transposed(part, first)
        fifths = written if abs(written) <= 7 else (written + 5) % 12 - 5
        mode = "minor" if change.minor else "major"
        put_attribute(score.attributes(part, first), tree("key", ("fifths", fifths), ("mode", mode)))  # fmt: skip
        if stop < len(measures) and measures[stop].find("attributes/key") is None:
            returns = deepcopy(old) if old is not None else tree("key", ("fifths", 0))
            put_attribute(score.attributes(part, stop), returns)
    score.find()


def set_metre(score: OpenScore, change: changes.Metre) -> None:
    """Set the time signature; raises NotKept if its bars would have another length than those that are written."""
    first, stop = score.bars(change)
    new = change.beats, change.unit
    if any(bar_ticks(score.layout.times[bar]) != bar_ticks(new) for bar in range(first, stop)):
        raise NotKept("the bars of a score are written out, and the new metre has other lengths")
    for part, measures in enumerate(score.measures):
        old = _last(measures[: stop + 1] if stop < len(measures) else [], "time", stop)
        for measure in measures[first:stop]:
            _remove(measure, "time")
        time = tree("time", ("beats", change.beats), ("beat-type", change.unit))
        put_attribute(score.attributes(part, first), time)
        if stop < len(measures) and measures[stop].find("attributes/time") is None:
            returns = old if old is not None else tree("time", ("beats", 4), ("beat-type", 4))
            put_attribute(score.attributes(part, stop), deepcopy(returns))
    score.find()


def set_chords(score: OpenScore, change: changes.Chords) -> None:
    """Put chord symbols in place of those of a span; what was in force returns after it."""
    if score.has_repeats:
        raise NotKept(REPEATS)
    first, last = score.reading.span(change)
    old = [one for measures in score.measures for one in _harmonies(score, measures)]
    before = [element for tick, element, _ in sorted(old, key=lambda one: one[0]) if tick < last]
    new = [
        (score.reading.tick_in_file(tick), text)
        for tick, text, is_guess in zip(change.ticks, change.symbols, change.guesses, strict=True)
        if not is_guess
    ]
    returns = before and last < score.end and not any(tick == last for tick, _, _ in old)
    kept = deepcopy(before[-1]) if returns else None
    for tick, element, measure in old:
        if first <= tick < last:
            measure.remove(element)
    part = _chord_part(score)
    for tick, text in new:
        bar, since = score.place(tick)
        fifths = round(score.in_force(part, bar, "key/fifths", 0))
        by = score.transposed(part, bar)
        names = [spelled(tone - by, fifths)[:2] for tone in range(12)]
        name = NO_CHORD if parse(text) == NO_CHORD else text
        _put_at(score, part, bar, since, harmony(name, names.__getitem__))
    if kept is not None:
        _put_at(score, part, *score.place(int(last)), kept)
    score.find()


def _chord_part(score: OpenScore) -> int:
    """Return the part above which chords are written: the first with some, else the first that is pitched."""
    has_chords = [part.find("measure/harmony") is not None for part in score.parts]
    drums = [all(track.is_drum for track in part.tracks) for part in score.written.parts]
    return min(range(len(score.parts)), key=lambda part: (not has_chords[part], drums[part]))


def _harmonies(
    score: OpenScore, measures: list[ET.Element]
) -> Iterator[tuple[int, ET.Element, ET.Element]]:
    """Yield the chord symbols of a part with their ticks and bars."""
    divisions = 1.0
    for number, measure in enumerate(measures):
        at = 0.0
        for element in measure:
            length = value(element.find("duration"))
            if element.tag == "attributes":
                divisions = value(element.find("divisions")) or divisions
            elif element.tag == "harmony":
                offset = at + value(element.find("offset"))
                tick = score.layout.starts[number] + round(offset * TICKS_PER_BEAT / divisions)
                yield tick, element, measure
            elif element.tag in ("backup", "forward"):
                at = max(0.0, at + (length if element.tag == "forward" else -length))
            elif element.tag == "note" and not {"grace", "chord"} & {one.tag for one in element}:
                at += length


def _put_at(score: OpenScore, part: int, bar: int, since: int, element: ET.Element) -> None:
    """Put an element without a length into a bar, at ticks since its start."""
    measure = score.measures[part][bar]
    units = since * score.in_force(part, bar, "divisions", 1) / TICKS_PER_BEAT
    place = sum(1 for _ in takewhile(lambda one: one.tag in BEFORE_MUSIC or one.tag == "harmony", measure))  # fmt: skip
    moves = [tree(tag, ("duration", f"{units:g}")) for tag in ("forward", "backup") if units]
    for number, one in enumerate([*moves[:1], element, *moves[1:]]):
        measure.insert(place + number, one)


def _last(measures: list[ET.Element], tag: str, bar: int) -> ET.Element | None:
    """Return the attribute in force at the start of a bar."""
    found = [one for measure in measures[:bar] for one in measure.iterfind(f"attributes/{tag}")]
    return found[-1] if found else None


def _remove(measure: ET.Element, tag: str) -> None:
    for attributes in measure.findall("attributes"):
        for one in attributes.findall(tag):
            attributes.remove(one)
        if not len(attributes):
            measure.remove(attributes)


def cut(score: OpenScore, change: changes.Cut) -> None:
    """Remove bars; what is in force where they were remains so."""
    first, stop = score.bars(change)
    count = len(score.written.bars)
    if first == 0 and stop == count:
        raise ValueError("no notes would be left; keep at least one bar")
    tempo = _in_force(score, score.layout.starts[stop]) if stop < count else 0.0
    before = _in_force(score, score.layout.starts[first]) if stop < count else 0.0
    _untie(score, first, stop)
    for part, measures in enumerate(score.measures):
        gone, element = measures[first:stop], score.parts[part]
        if stop < count:
            _carry(score, part, first, stop)
        for measure in gone:
            element.remove(measure)
        for measure in measures[stop:]:
            number = measure.get("number", "")
            if number.isdecimal():
                measure.set("number", str(max(0, int(number) - (stop - first))))
    states = (
        any(_states_tempo(measures[stop]) for measures in score.measures) if stop < count else True
    )
    if not states and (tempo != before or not first):
        _put(score.measures[0][stop], tempo_mark(round(tempo, 2)))
    if stop < count:
        score.reading = score.reading.without(change.start, change.stop or 0)
    score.find()


def _untie(score: OpenScore, first: int, stop: int) -> None:
    """Remove the ties between bars that stay and bars that go."""
    for note in score.notes:
        for (bar, one), (other, following) in zip(note.elements, note.elements[1:], strict=False):
            if (first <= bar < stop) != (first <= other < stop):
                _remove_ties(one, "start")
                _remove_ties(following, "stop")


def _remove_ties(note: ET.Element, kind: str) -> None:
    for parent in (note, *note.findall("notations")):
        for tie in [*parent.findall("tie"), *parent.findall("tied")]:
            if tie.get("type") == kind:
                parent.remove(tie)


def _carry(score: OpenScore, part: int, first: int, stop: int) -> None:
    """State at the first bar after a cut what the bars that go set."""
    measures = score.measures[part]
    held: dict[tuple[str, str], ET.Element] = {}
    for measure in measures[first:stop]:
        for one in measure.iterfind("attributes/*"):
            if one.tag in ATTRIBUTES:
                held[one.tag, one.get("number", "")] = one
    attributes = score.attributes(part, stop)
    own = {(one.tag, one.get("number", "")) for one in attributes}
    for key, one in held.items():
        if key not in own:
            put_attribute(attributes, deepcopy(one))
    if not len(attributes):
        measures[stop].remove(attributes)
