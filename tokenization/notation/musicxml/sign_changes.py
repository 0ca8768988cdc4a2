"""Changes of the signs of a MusicXML score, tempo, key and metre, and of its time: bars that are cut out."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from copy import deepcopy

import numpy as np

from tokenization import changes
from tokenization.analysis.chords import NO_CHORD, parse
from tokenization.analysis.spelling import MIDDLE, spelled
from tokenization.edit import NotKept
from tokenization.notation.musicxml.elements import (
    ATTRIBUTES,
    BEFORE_MUSIC,
    REPEATS,
    OpenScore,
    chord_part,
    head_of,
    placed_in,
    put_attribute,
    tree,
    untie,
    value,
)
from tokenization.notation.musicxml.harmony import chord_in, harmony
from tokenization.notation.written import TICKS_PER_BEAT, bar_ticks, played

USUAL_TEMPO = 120.0  # before the first


def tempo_mark(bpm: float) -> ET.Element:
    """Return a tempo mark in quarter notes per minute."""
    mark = tree("metronome", ("beat-unit", "quarter"), ("per-minute", f"{bpm:g}"))
    sound = tree("sound", tempo=f"{bpm:g}")
    return tree("direction", tree("direction-type", mark), sound, placement="above")


def _tempo_at(score: OpenScore, tick: float) -> float:
    """Return the tempo at a tick."""
    music = played(score.written, score.layout)
    onsets = music.tempos.onset_ticks * (TICKS_PER_BEAT / music.ticks_per_beat)
    row = int(np.searchsorted(onsets, tick, side="right")) - 1
    return float(music.tempos.beats_per_minute[row]) if row >= 0 else USUAL_TEMPO


def set_tempo(score: OpenScore, change: changes.Tempo) -> None:
    """Set or scale tempos from a bar on."""
    first, stop = score.bars(change)
    starts, part = score.layout.starts, score.measures[0]
    before = _tempo_at(score, starts[first])
    after = _tempo_at(score, starts[stop]) if stop < len(part) else None
    if change.bpm is not None:
        for measures in score.measures:
            for measure in measures[first:stop]:
                _remove_tempos(measure)
        put(part[first], tempo_mark(change.bpm))
    else:
        times = change.times or 1.0
        states_one = any(_states_tempo(measures[first]) for measures in score.measures)
        for measures in score.measures:
            for measure in measures[first:stop]:
                _scale_tempos(measure, times)
        if not states_one:
            put(part[first], tempo_mark(round(before * times, 2)))
    if after is not None and not any(_states_tempo(measures[stop]) for measures in score.measures):
        put(part[stop], tempo_mark(round(after, 2)))
    score.find()


def put(measure: ET.Element, direction: ET.Element) -> None:
    """Put a direction at the start of a bar."""
    measure.insert(head_of(measure), direction)


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
    starts, part = score.layout.starts, chord_part(score.parts, score.written)
    old = [
        (starts[bar] + since, element, measures[bar])
        for measures in score.measures for bar, since, element in harmonies(measures)
    ]  # fmt: skip
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
    for tick, text in new:
        put_chord(score, part, *score.place(tick), text)
    if kept is not None:
        _put_at(score, part, *score.place(int(last)), kept)
    score.find()


def put_chord(score: OpenScore, part: int, bar: int, since: int, name: str) -> None:
    """Write a chord symbol above a part, as it is written there, at ticks since the start of a bar."""
    fifths = round(score.in_force(part, bar, "key/fifths", 0))
    by = score.transposed(part, bar)
    tones = [spelled(tone - by, fifths + MIDDLE)[:2] for tone in range(12)]
    name = NO_CHORD if parse(name) == NO_CHORD else name
    _put_at(score, part, bar, since, harmony(name, tones.__getitem__))


def move_chords(score: OpenScore, part: int, to: int) -> None:
    """Move the chord symbols of a part to another."""
    for bar, since, element in [*harmonies(score.measures[part])]:
        by = score.transposed(part, bar)
        name = chord_in(element, by) if by != score.transposed(to, bar) else None
        if name is None:
            _put_at(score, to, bar, since, element)
        else:
            put_chord(score, to, bar, since, name)


def harmonies(measures: list[ET.Element]) -> Iterator[tuple[int, int, ET.Element]]:
    """Yield the chord symbols of a part with their bars and the ticks since the start of these."""
    divisions = 1.0
    for number, measure in enumerate(measures):
        for element, at in placed_in(measure):
            if element.tag == "attributes":
                divisions = value(element.find("divisions")) or divisions
            elif element.tag == "harmony":
                offset = at + value(element.find("offset"))
                yield number, round(offset * TICKS_PER_BEAT / divisions), element


def _put_at(score: OpenScore, part: int, bar: int, since: int, element: ET.Element) -> None:
    """Put an element without a length into a bar, at ticks since its start."""
    measure = score.measures[part][bar]
    for offset in element.findall("offset"):
        element.remove(offset)
    units = since * score.in_force(part, bar, "divisions", 1) / TICKS_PER_BEAT
    place = head_of(measure, *BEFORE_MUSIC, "harmony")
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
    tempo = _tempo_at(score, score.layout.starts[stop]) if stop < count else 0.0
    before = _tempo_at(score, score.layout.starts[first]) if stop < count else 0.0
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
        put(score.measures[0][stop], tempo_mark(round(tempo, 2)))
    if stop < count:
        score.reading = score.reading.without(change.start, change.stop or 0)
    score.find()


def _untie(score: OpenScore, first: int, stop: int) -> None:
    """Remove the ties between bars that stay and bars that go."""
    for note in score.notes:
        for (bar, one), (other, following) in zip(note.elements, note.elements[1:], strict=False):
            if (first <= bar < stop) != (first <= other < stop):
                untie(one, "start")
                untie(following, "stop")


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
