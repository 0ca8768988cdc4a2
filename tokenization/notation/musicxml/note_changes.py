"""Changes of the notes of a MusicXML score: insert, delete, move, lengthen, transpose, velocity.

A deleted note becomes a rest, or leaves its chord. An inserted one joins a chord that starts and ends with it, or takes
the place of a rest, or else is written into a voice of its own.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from tokenization import changes
from tokenization.analysis.chords import LETTERS
from tokenization.analysis.spelling import LINE, MIDDLE, at_fifth, spelled
from tokenization.changes import Row
from tokenization.edit import NotKept
from tokenization.notation.musicxml import DRUM_PLACES, FORTE
from tokenization.notation.musicxml.elements import (
    POSITIONING,
    Note,
    OpenScore,
    drums_of,
    head_of,
    in_force,
    length_of,
    lengths_in,
    plain,
    tree,
    value,
)
from tokenization.notation.written import TICKS_PER_BEAT

# What a rest has of a note, in order; what else it had belonged to the note.
OF_RESTS = ("duration", "voice", "type", "dot", "time-modification", "staff")
BEFORE_PITCH = ("grace", "cue", "chord")
OWN_DIVISIONS = 24  # of a beat, in a voice for inserted notes
# Note values in these divisions, the longest first: type, dots, whether a triplet.
VALUES = {
    96: ("whole", 0, False), 72: ("half", 1, False), 48: ("half", 0, False), 36: ("quarter", 1, False),
    24: ("quarter", 0, False), 18: ("eighth", 1, False), 16: ("quarter", 0, True), 12: ("eighth", 0, False),
    9: ("16th", 1, False), 8: ("eighth", 0, True), 6: ("16th", 0, False), 4: ("16th", 0, True),
    3: ("32nd", 0, False), 2: ("32nd", 0, True), 1: ("64th", 0, True),
}  # fmt: skip


def change_notes(score: OpenScore, change: changes.ChangeNotes) -> None:
    """Insert, delete and change notes."""
    befores = [(before, after) for before, after in change.rows if before is not None]
    found = score.reading.notes_of([before for before, _ in befores], score.notes)
    score.check_once(note for some in found for note in some)
    new: list[tuple[Row, Note | None]] = [
        (after, None) for before, after in change.rows if before is None and after is not None
    ]
    for (before, after), notes in zip(befores, found, strict=True):
        if after is not None and (before[:2], before[4]) == (after[:2], after[4]):
            for note in notes:
                _alter(score, note, after[2] - before[2], after[3] - before[3])
        else:
            new += [] if after is None else [(after, notes[0])]
            for note in notes:
                remove(score, note)
    for row, old in new:
        _insert(score, row, old)
    _find_again(score)


def _find_again(score: OpenScore) -> None:
    """Find the changed notes; raises NotKept if bars have other lengths, as all that follows would move."""
    lengths = score.layout.lengths
    score.find()
    if score.layout.lengths != lengths:
        raise NotKept("a bar that is longer than its metre would become shorter")


def remove(score: OpenScore, note: Note) -> None:
    """Remove a note: it becomes a rest, unless it is part of a chord or a single grace note.

    Of two grace notes, the other would be as long as a single one.
    """
    for bar, element in note.elements:
        measure = score.measures[score.part_of(note.source)][bar]
        place = next((n for n, one in enumerate(measure) if one is element), None)
        if place is None or element.find("rest") is not None:  # of a bar that is repeated
            continue
        following = next((one for one in measure[place + 1 :] if one.tag in POSITIONING), None)
        joins = (
            following.findall("chord") if following is not None and following.tag == "note" else []
        )
        before = next((one for one in measure[:place][::-1] if one.tag in POSITIONING), None)
        is_grace = element.find("grace") is not None
        neighbours = [one for one in (before, following) if one is not None]
        if is_grace and any(one.find("grace") is not None for one in neighbours):
            _silence(element)
        elif is_grace or element.find("chord") is not None:
            measure.remove(element)
        elif joins and following is not None:  # which now begins the chord
            for joined in joins:
                following.remove(joined)
            measure.remove(following)
            measure[place] = following
            _move_on(measure, place, length_of(element) - length_of(following))
        else:
            _silence(element)


def _silence(note: ET.Element) -> None:
    """Turn a note into a rest."""
    for name in ("dynamics", "end-dynamics", "attack", "release", "pizzicato"):
        note.attrib.pop(name, None)
    rest = [one for one in note if one.tag in OF_RESTS]
    note[:] = [*note.findall("grace"), ET.Element("rest"), *rest]


def _move_on(measure: ET.Element, place: int, divisions: float) -> None:
    """Move what follows a chord, whose first note is at a place, since that had another length."""
    if divisions:
        others = [one for one in measure[place + 1 :] if one.tag in POSITIONING]
        chord = takewhile(lambda one: one.find("chord") is not None, others)
        last = [*measure].index([measure[place], *chord][-1])
        tag, length = "forward" if divisions > 0 else "backup", plain(abs(divisions))
        measure.insert(last + 1, tree(tag, ("duration", length)))


def _alter(score: OpenScore, note: Note, semitones: int, louder: int) -> None:
    """Transpose a note and change its velocity."""
    if semitones and score.track(note.source).is_drum:
        row = _row_of(score, note)
        remove(score, note)
        _insert(score, (*row[:2], note.pitch + semitones, *row[3:]), note)
        return
    for bar, element in note.elements:
        if semitones:
            part = score.part_of(note.source)
            fifths = round(score.in_force(part, bar, "key/fifths", 0))
            written = note.pitch + semitones - score.transposed(part, bar)
            set_pitch(element, *spelled(written, fifths + MIDDLE))
        if louder:
            set_velocity(element, min(127, max(1, note.velocity + louder)))


def _row_of(score: OpenScore, note: Note) -> Row:
    start, end = (round(float(score.reading.heard(tick))) for tick in (note.start, note.end))
    track = next(n for n, some in enumerate(score.reading.sources) if note.source in some)
    return start, max(1, end - start), note.pitch, note.velocity, track


def set_velocity(element: ET.Element, velocity: int) -> None:
    """Set the velocity of a note."""
    element.set("dynamics", f"{100 * velocity / FORTE:.2f}")


def set_pitch(element: ET.Element, step: str, alter: int, octave: int) -> None:
    """Set the pitch of a note."""
    old = element.find("pitch")
    if old is not None:
        old[:] = pitch_of(step, alter, octave)
    for accidental in element.findall("accidental"):
        element.remove(accidental)


def pitch_of(step: str, alter: int, octave: int) -> list[ET.Element]:
    """Return the children of a pitch."""
    altered = [("alter", alter)] if alter else []
    return [*tree("pitch", ("step", step), *altered, ("octave", octave))]


# Inserted notes.


def _insert(score: OpenScore, row: Row, old: Note | None) -> None:
    """Write a note, with the words and marks of an old one if it is that, moved."""
    onset, duration, pitch, velocity, track = row
    score.reading.check([track])
    sources = score.reading.sources[track]
    if not sources:
        raise NotKept(f"it has no part for the notes of track {track + 1}")
    source = old.source if old is not None and old.source in sources else sources[0]
    part = score.part_of(source)
    start, end = (score.reading.tick_in_file(tick) for tick in (onset, onset + duration))
    end = max(end, start + TICKS_PER_BEAT // OWN_DIVISIONS)
    first, last = score.layout.starts[0], score.end  # a pickup starts after the rest before it
    if start < first - 1 or end > last + 1 or start >= last - 1:
        raise NotKept("a note would be outside its bars")
    at = start
    while at < end - 1:
        bar, since = score.place(at)
        if score.has_repeats and score.layout.order.count(bar) > 1:
            raise NotKept("it has repeats, so that the note would be played in each of them")
        length = min(end - at, score.layout.lengths[bar] - since)
        sound = _sound(score, source, part, bar, pitch)
        ties = ["stop"] * (at > start) + ["start"] * (at + length < end - 1)
        marks = [] if old is None or at > start else _marks(old)
        _write(score, part, bar, since, length, Sound(sound, velocity, ties, marks))
        at += length


@dataclass(frozen=True)
class Sound:
    """What is written of a note besides its time."""

    pitch: list[ET.Element]
    velocity: int
    ties: list[str]
    marks: list[ET.Element]

    def element(self, duration: int, rhythm: Sequence[ET.Element], **changes: Any) -> ET.Element:
        """Return the note, of a chord if `chord` is given; `rhythm`: its voice, type, dots, tuplet and staff."""
        kinds, chord = changes.get("ties", self.ties), changes.get("chord", False)
        note = tree("note", *[tree("chord")] * chord, *self.pitch[:1], ("duration", duration))
        note.extend(tree("tie", type=kind) for kind in kinds)
        note.extend(deepcopy([*self.pitch[1:], *rhythm]))
        if kinds:
            note.append(tree("notations", *(tree("tied", type=kind) for kind in kinds)))
        note.extend(deepcopy(self.marks))
        set_velocity(note, self.velocity)
        return note


def _marks(old: Note) -> list[ET.Element]:
    """Return the words of a note."""
    return [one for one in old.elements[0][1] if one.tag == "lyric"]


def _sound(score: OpenScore, source: int, part: int, bar: int, pitch: int) -> list[ET.Element]:
    """Return the pitch of a note as written and, if its part has several, its instrument."""
    if not score.track(source).is_drum:
        fifths = round(score.in_force(part, bar, "key/fifths", 0))
        name = spelled(pitch - score.transposed(part, bar), fifths + MIDDLE)
        own = (one for note in score.notes if note.source == source for _, one in note.elements)
        instruments = [] if (first := next(own, None)) is None else first.findall("instrument")
        return [tree("pitch", *pitch_of(*name)), *instruments]
    step, octave = DRUM_PLACES.get(pitch, ("E", 5))
    drums = drums_of(score.entries[score.parts[part].get("id")])
    if pitch not in drums:
        raise NotKept(f"its kit has no drum {pitch}")
    place = tree("unpitched", ("display-step", step), ("display-octave", octave))
    return [place, tree("instrument", id=drums[pitch])]


def _write(score: OpenScore, part: int, bar: int, since: int, length: int, sound: Sound) -> None:
    """Write a note into a bar: to a chord, in place of a rest, or in a voice of its own."""
    measure = score.measures[part][bar]
    if _has_a_stray_note(measure):
        raise NotKept("a note that belongs to a chord follows no note of it, and would move")
    divisions = score.in_force(part, bar, "divisions", 1)
    start, duration = (tick * divisions / TICKS_PER_BEAT for tick in (since, length))
    is_whole = all(abs(number - round(number)) < 1e-3 for number in (start, duration))
    head = [one for one in measure[: head_of(measure)] if one.find("divisions") is not None]
    one_scale = len(measure.findall("attributes/divisions")) == len(head) < 2
    if is_whole and one_scale and round(duration) > 0:
        span = round(start), round(start + duration)
        if _join(measure, span, sound) or _fill(measure, span, sound, divisions):
            return
    before = in_force(score.measures[part][:bar], "divisions", 1)
    _add_voice(measure, since, length, sound, (before, divisions))


def _has_a_stray_note(measure: ET.Element) -> bool:
    """Return whether a note of a chord follows none: it would belong to what is inserted before it."""
    before = ""
    for element in measure:
        if element.tag in POSITIONING:
            if before != "note" and element.find("chord") is not None:
                return True
            before = element.tag
    return False


def _timed(measure: ET.Element) -> list[tuple[int, ET.Element, float, float]]:
    """Return the notes and rests that are no grace notes, with their places, starts and ends in divisions."""
    found, at, chord = list[tuple[int, ET.Element, float, float]](), 0.0, 0.0
    for place, element in enumerate(measure):
        length = length_of(element)
        if element.tag in ("backup", "forward"):
            at = max(0.0, at + (length if element.tag == "forward" else -length))
        elif element.tag == "note" and element.find("grace") is None:
            if element.find("chord") is None:
                chord, at = at, at + length
            found.append((place, element, chord, chord + length))
    return found


def _rhythm(note: ET.Element) -> list[ET.Element]:
    return [one for one in note if one.tag in OF_RESTS[1:]]


def _join(measure: ET.Element, span: tuple[int, int], sound: Sound) -> bool:
    """Add a note to a chord of the same time; return whether there is one."""
    alike = [
        (place, note) for place, note, *own in _timed(measure)
        if tuple(own) == span and note.find("rest") is None and note.find("cue") is None
    ]  # fmt: skip
    if not alike or sound.marks:
        return False
    place, note = alike[-1]
    rhythm = [one for one in _rhythm(note) if one.tag != "tuplet"]
    measure.insert(place + 1, sound.element(span[1] - span[0], rhythm, chord=True))
    return True


def _fill(measure: ET.Element, span: tuple[int, int], sound: Sound, divisions: float) -> bool:
    """Put a note in place of a rest or a part of it; return whether there is one."""
    rests = [
        one for one in _timed(measure)
        if one[1].find("rest") is not None and one[2] <= span[0] and span[1] <= one[3]
        and one[1].find("time-modification") is None
    ]  # fmt: skip
    if not rests:
        return False
    place, rest, *own = rests[0]
    pieces = [(round(own[0]), span[0], False), (*span, True), (span[1], round(own[1]), False)]
    written: list[ET.Element] = []
    for start, stop, sounds in pieces:
        lengths = _values(start, stop, divisions)
        if lengths is None:
            return False
        for number, (duration, kind) in enumerate(lengths):
            rhythm = [*_of(rest, "voice"), *kind, *_of(rest, "staff")]
            if not sounds:
                written.append(tree("note", tree("rest"), ("duration", duration), *deepcopy(rhythm)))  # fmt: skip
                continue
            written.append(_tied(sound, duration, rhythm, number, len(lengths)))
    measure.remove(rest)
    for number, element in enumerate(written):
        measure.insert(place + number, element)
    return True


def _of(note: ET.Element, tag: str) -> list[ET.Element]:
    return note.findall(tag)


def _tied(
    sound: Sound, duration: int, rhythm: Sequence[ET.Element], number: int, count: int
) -> ET.Element:
    """Return one of several note values of a note, tied to its neighbours."""
    stops, starts = number > 0 or "stop" in sound.ties, number < count - 1 or "start" in sound.ties
    note = sound.element(duration, rhythm, ties=["stop"] * stops + ["start"] * starts)
    for lyric in note.findall("lyric") if number else ():
        note.remove(lyric)
    return note


def _values(start: int, stop: int, divisions: float) -> list[tuple[int, list[ET.Element]]] | None:
    """Divide a time into note values; None if it has none in these divisions."""
    found: list[tuple[int, list[ET.Element]]] = []
    while start < stop:
        lengths = {length: length * divisions / OWN_DIVISIONS for length in VALUES}
        fitting = [n for n, own in lengths.items() if own == round(own) and 0 < own <= stop - start]
        if not fitting:
            return None
        own, (kind, dots, is_triplet) = lengths[fitting[0]], VALUES[fitting[0]]
        triplet = [tree("time-modification", ("actual-notes", 3), ("normal-notes", 2))]
        rhythm = [tree("type"), *(tree("dot") for _ in range(dots)), *triplet * is_triplet]
        rhythm[0].text = kind
        found.append((round(own), rhythm))
        start += round(own)
    return found


def _add_voice(
    measure: ET.Element, since: int, length: int, sound: Sound, divisions: tuple[float, float]
) -> None:
    """Write a note in a voice of its own at the end of a bar, in divisions of its own.

    `divisions`: those in force before the bar and at its end.
    """
    scale = OWN_DIVISIONS / TICKS_PER_BEAT
    start, stop = (
        round(since * scale),
        max(round((since + length) * scale), round(since * scale) + 1),
    )
    timed = _timed(measure)
    end = _beats(measure, divisions[0])
    voices = {round(value(one.find("voice"))) for _, one, *_ in timed}
    staves = [staff for _, one, *_ in timed for staff in one.findall("staff")]
    voice = tree("voice")
    voice.text = str(max(voices, default=0) + 1)
    written: list[ET.Element] = []
    if end:
        written.append(tree("backup", ("duration", plain(end * divisions[1]))))
    written.append(tree("attributes", ("divisions", OWN_DIVISIONS)))
    if start:
        written.append(tree("forward", ("duration", start)))
    lengths = _values(start, stop, OWN_DIVISIONS) or []
    for number, (duration, kind) in enumerate(lengths):
        rhythm = [voice, *kind, *staves[:1]]
        written.append(_tied(sound, duration, rhythm, number, len(lengths)))
    if rest := round(end * OWN_DIVISIONS) - stop:
        written.append(tree("forward" if rest > 0 else "backup", ("duration", abs(rest))))
    written.append(tree("attributes", ("divisions", plain(divisions[1]))))
    closing = takewhile(
        lambda one: one.tag == "barline" and one.get("location") != "left", reversed(measure)
    )
    place = len(measure) - len([*closing])
    for number, element in enumerate(written):
        measure.insert(place + number, element)


def _beats(measure: ET.Element, divisions: float) -> float:
    """Return the position at the end of a bar, in beats; `divisions` are those in force before it."""
    at = 0.0
    for element, by in lengths_in(measure):
        if element.tag == "attributes":
            divisions = value(element.find("divisions")) or divisions
        at = max(0.0, at + by / divisions)
    return at


# Changes of all notes of some bars and tracks.


def transpose(score: OpenScore, change: changes.Transpose) -> None:
    """Transpose notes by an interval, and with all of them the chord symbols and key signatures."""
    by = change.semitones
    notes = [
        note for note in score.within(change, score.sources_of(change.tracks))
        if not score.track(note.source).is_drum
    ]  # fmt: skip
    if wrong := next((note for note in notes if not 0 <= note.pitch + by < 128), None):
        raise ValueError(
            f"transposed by {by}, a note would have the pitch {wrong.pitch + by}; there are 0 to 127"
        )
    is_whole = change.tracks is None and not change.start and change.stop is None
    shift = _shift(score, by) if is_whole else (7 * by + 6) % 12 - 6
    done = set[int]()
    for note in notes:
        for _, element in note.elements:
            if id(element) not in done and element.find("pitch") is not None:
                done.add(id(element))
                _transpose_element(element, by, shift)
    if change.tracks is None:
        _transpose_signs(score, change, shift, is_whole=is_whole)
    score.find()


def _shift(score: OpenScore, semitones: int) -> int:
    """Return the steps on the line of fifths by which a piece is transposed, so that its key signature is simple."""
    key = score.root.find("part/measure/attributes/key/fifths")
    fifths = round(value(key))
    return (fifths + 7 * semitones + 5) % 12 - 5 - fifths


def _transpose_element(element: ET.Element, semitones: int, shift: int) -> None:
    step = (element.findtext("pitch/step") or "C").strip()
    alter, octave = (round(value(element.find(f"pitch/{name}"))) for name in ("alter", "octave"))
    pitch = 12 * (octave + 1) + LETTERS[step] + alter + semitones
    fifth = LINE.index(step) - 1 + 7 * alter + shift
    while abs((fifth + 1) // 7) > 1:  # no double accidentals that were not there
        fifth += 12 if fifth < 0 else -12
    set_pitch(element, *at_fifth(fifth, pitch))


def _transpose_signs(
    score: OpenScore, change: changes.Transpose, shift: int, *, is_whole: bool
) -> None:
    first, stop = score.bars(change)
    for measures in score.measures:
        for measure in measures[first:stop]:
            for tone in [*measure.iterfind("harmony/root"), *measure.iterfind("harmony/bass")]:
                step = (tone.findtext(f"{tone.tag}-step") or "").strip()
                if step in LETTERS:
                    alter = round(value(tone.find(f"{tone.tag}-alter")))
                    fifth = LINE.index(step) - 1 + 7 * alter + shift
                    while abs((fifth + 1) // 7) > 1:
                        fifth += 12 if fifth < 0 else -12
                    step, alter, _ = at_fifth(fifth, 0)
                    altered = [(f"{tone.tag}-alter", alter)] if alter else []
                    tone[:] = [*tree(tone.tag, (f"{tone.tag}-step", step), *altered)]
            for key in measure.iterfind("attributes/key/fifths") if is_whole else ():
                key.text = str((round(value(key)) + shift + 6) % 12 - 6)


def scale_velocities(score: OpenScore, change: changes.Velocity) -> None:
    """Change velocities."""
    for note in score.within(change, score.sources_of(change.tracks)):
        for _, element in note.elements:
            set_velocity(element, change.of(note.velocity))
    score.find()


def delete(score: OpenScore, change: changes.Delete) -> None:
    """Delete notes."""
    for note in score.within(change, score.sources_of(change.tracks)):
        remove(score, note)
    _find_again(score)
