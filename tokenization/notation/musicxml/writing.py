"""A score as MusicXML for programs that print music: bars, voices, ties, staves, keys and names of notes by the key."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from tokenization.analysis.chords import LETTERS
from tokenization.edit import Bar
from tokenization.midi.limits import GENEROUS
from tokenization.notation.musicxml import DRUM_CHANNEL, DRUM_PLACES, FORTE
from tokenization.notation.musicxml.harmony import Symbol, harmony, symbols_of
from tokenization.notation.written import own_metre
from tokenization.score import Notes, Score, Tempos, Track

# Lengths as notes can be written: plain, dotted and triplet values, several of them tied where one is not enough.

DIVISIONS = 24  # of a beat: sixteenths are 6, eighths of a triplet 8


@dataclass(frozen=True)
class Value:
    """A written value; lengths are in divisions."""

    length: int
    type: str
    dots: int = 0
    is_triplet: bool = False


_TYPES = ("whole", "half", "quarter", "eighth", "16th", "32nd")
_PLAIN = [Value(4 * DIVISIONS >> n, kind) for n, kind in enumerate(_TYPES)]
_DOTTED = [Value(v.length * 3 // 2, v.type, 1) for v in _PLAIN if v.length % 2 == 0]
_TRIPLETS = [Value(v.length * 2 // 3, v.type, 0, True) for v in _PLAIN[1:]] + [
    Value(1, "64th", 0, True)
]
_BY_LENGTH = {v.length: v for v in (*_TRIPLETS, *_DOTTED, *_PLAIN)}
_LENGTHS = sorted(_BY_LENGTH, reverse=True)


def values_of(length: int, at: int) -> list[Value]:
    """Return the values, end to end, of a length that begins so far into a bar.

    What begins between beats and goes over one is cut there, so that beats can be seen.
    """
    values: list[Value] = []
    while length:
        into = at % DIVISIONS
        most = length if not into or length in _BY_LENGTH else min(length, DIVISIONS - into)
        value = _BY_LENGTH[next(one for one in _LENGTHS if one <= most)]
        values.append(value)
        length, at = length - value.length, at + value.length
    return values


# Notes in voices: each a line of chords that do not overlap, as a staff shows them.

MOST_VOICES = 4  # on a staff: more are not read by the programs in use


@dataclass
class Chord:
    """Notes that begin and end together."""

    start: int
    end: int
    notes: list[tuple[int, int]] = field(default_factory=list)  # pitch and velocity


def voices_of(notes: Notes, *, drums: bool = False) -> list[list[Chord]]:
    """Return the voices of a staff, at least one.

    Drums have one, and each hit is written as long as there is room, a beat at most: how long a drum
    sounds is nobody's choice.
    """
    chords: dict[tuple[int, int], Chord] = {}
    rows = zip(*(column.tolist() for column in notes.columns[:4]), strict=True)
    for onset, duration, pitch, velocity in sorted(rows, key=lambda row: (row[0], -row[1], row[2])):
        end = onset if drums else onset + duration
        chord = chords.setdefault((onset, end), Chord(onset, end))
        if all(pitch != other for other, _ in chord.notes):
            chord.notes.append((pitch, velocity))
    ordered = list(chords.values())
    if drums:
        for chord, following in zip(ordered, [*ordered[1:], None], strict=True):
            chord.end = chord.start + DIVISIONS - chord.start % DIVISIONS
            if following is not None:
                chord.end = min(chord.end, following.start)
    voices: list[list[Chord]] = [[]]
    for chord in ordered:
        _place(voices, chord)
    return voices


def _place(voices: list[list[Chord]], chord: Chord) -> None:
    """Add a chord to the first voice that is free, or to a new one, or in place of the longest held."""
    for voice in voices:
        if not voice or voice[-1].end <= chord.start:
            voice.append(chord)
            return
    if len(voices) < MOST_VOICES:
        voices.append([chord])
        return
    held = min(voices, key=lambda voice: voice[-1].start)
    if held[-1].start < chord.start:
        held[-1].end = chord.start
        held.append(chord)
        return
    # All four begin here: the chord joins the one that is nearest in length.
    same = min((voice[-1] for voice in voices), key=lambda other: abs(other.end - chord.end))
    same.notes += [note for note in chord.notes if all(note[0] != p for p, _ in same.notes)]


# Names of notes by the key.

_LINE = "FCGDAEB"  # of fifths: F is −1, C 0
_SCALE = np.arange(-1, 6)  # of C, by fifths: F C G D A E B
CROSSED = {37, 42, 44, 46, 49, 51, 52, 53, 55, 57, 59}  # cymbals and sticks have an x as their head


class Key(NamedTuple):
    """The key of a piece, for those who write its notes down."""

    fifths: int  # sharps of its signature, flats if negative
    centre: int  # a place on the line of fifths: half of the scale, as heard, lies either side


def key_of(score: Score) -> Key:
    """Return the key, of −5 to 6 sharps, whose scale holds most of the pitched music."""
    notes = score.pitched
    if not len(notes):
        return Key(0, 1)
    weight = np.bincount(notes.pitch % 12, weights=notes.duration_ticks, minlength=12)
    scales = {
        fifths: weight[(7 * (fifths + _SCALE)) % 12] for fifths in sorted(range(-5, 7), key=abs)
    }
    fifths = max(scales, key=lambda fifths: scales[fifths].sum())
    durations = np.cumsum(scales[fifths])
    return Key(fifths, fifths + int(_SCALE[np.searchsorted(durations, durations[-1] / 2)]))


def spelled(pitch: int, centre: int) -> tuple[str, int, int]:
    """Return step, alteration and octave of a pitch in a piece whose key has this centre.

    Twelve neighbours on the line of fifths name the twelve pitches, five below the centre and six above it: B♭ and
    E♭ in G minor, never A♯, and F♯, which leads to its tonic, though the signature is that of B♭ major. So each tone
    outside the scale has the name that the chromatic scales on most tones of the piece give it.
    """
    first = centre - 5
    place = first + (pitch * 7 - first) % 12
    step, alter = _LINE[(place + 1) % 7], (place + 1) // 7
    return step, alter, (pitch - alter - LETTERS[step]) // 12 - 1


_DOCTYPE = (
    b'<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE score-partwise PUBLIC '
    b'"-//Recordare//DTD MusicXML 4.0 Partwise//EN" "http://www.musicxml.org/dtds/partwise.dtd">\n'
)
MIDDLE_C = 60
_CLEFS = {"treble": ("G", "2"), "bass": ("F", "4"), "drums": ("percussion", None)}
SIXTEENTH, SHORTEST = DIVISIONS // 4, DIVISIONS // 8  # a bar is as many 32nds
PITCHED_CHANNELS = (*range(1, 10), *range(11, 17))


def write_musicxml(score: Score, *, title: str = "", made: str = "") -> bytes:
    """Return a score as MusicXML: every note at its tick of a 24th of a beat, tied where it is long.

    The chords that are known stand over the first part that is no drums. Four voices a staff are what programs read: a
    note that would be a fifth shortens the one that has sounded longest. `made` is kept with the file's encoding.
    """
    if not len(score.notes):
        raise ValueError("there are no notes to write: a score needs at least one")
    score = score.rescaled(DIVISIONS)
    root = ET.Element("score-partwise", version="4.0")
    if title:
        _add(_add(root, "work"), "work-title", title)
    encoding = _add(_add(root, "identification"), "encoding")
    _add(encoding, "software", "musicgen")
    if made:
        _add(encoding, "encoding-description", made)
    bars = _bars(score)
    key = key_of(score)
    part_list = _add(root, "part-list")
    used = np.unique(score.notes.track).tolist()
    if (count := len(bars) * len(used)) > GENEROUS.bars:
        raise ValueError(
            f"the music has {count:,} bars in all its parts, and a score holds {GENEROUS.bars:,} at most: "
            f"give a part of it"
        )
    pitched = [index for index in used if not score.tracks[index].is_drum]
    for number, index in enumerate(used, 1):
        track, notes = score.tracks[index], score.notes[score.notes.track == index]
        announce(part_list, f"P{number}", track, notes, number)
        writer = PartWriter(track, notes, key, f"P{number}")
        writer.tempos = score.tempos if number == 1 else Tempos.empty()
        writer.symbols = symbols_of(score) if index in pitched[:1] else ()
        part = _add(root, "part", id=f"P{number}")
        for place, bar in enumerate(bars):
            part.append(writer.measure(place, bar))
    ET.indent(root)
    return _DOCTYPE + ET.tostring(root, encoding="unicode").encode() + b"\n"


def _add(parent: ET.Element, tag: str, text: object = None, **attributes: str) -> ET.Element:
    element = ET.SubElement(parent, tag, attributes)
    if text is not None:
        # Letters that XML cannot hold are left out.
        element.text = "".join(c for c in str(text) if c.isprintable() or c in "\n\t")
    return element


def _bars(score: Score) -> list[Bar]:
    """Return the bars from the start to the last note, by the score's times."""
    changes = {  # at sixteenths: what begins a little off them can be no bar
        SIXTEENTH * round(at / SIXTEENTH): (n, d)
        for at, n, d in zip(*(c.tolist() for c in score.meters.columns), strict=True)
    }
    ticks = sorted(changes)
    bars: list[Bar] = []
    at, time = 0, (4, 4)
    while at < score.end_ticks or not bars:
        passed = bisect_right(ticks, at)
        new = changes[ticks[passed - 1]] if passed else time
        whole = 4 * DIVISIONS * new[0] / new[1]
        length = SHORTEST * max(1, round(whole / SHORTEST))
        if length != whole:  # what it is called is how long it is, or all that follows moves
            new = own_metre(length, (4, 4), DIVISIONS)
        if passed < len(ticks) and ticks[passed] - at < length:  # within what would be a bar
            length = ticks[passed] - at
            new = own_metre(length, new, DIVISIONS)
        bars.append(Bar(at, at + length, new, not bars or new != time))
        at, time = at + length, new
    return bars


def announce(parts: ET.Element, key: str, track: Track, notes: Notes, number: int) -> None:
    """Write what plays a part; a kit has an instrument for each of its drums."""
    part = _add(parts, "score-part", id=key)
    name = track.name or ("Drums" if track.is_drum else "Music")
    _add(part, "part-name", name)
    drums = np.unique(notes.pitch).tolist() if track.is_drum else [None]
    for drum in drums:
        instrument = _add(part, "score-instrument", id=instrument_id(key, drum))
        _add(instrument, "instrument-name", name if drum is None else f"drum {drum}")
    channel = DRUM_CHANNEL if track.is_drum else PITCHED_CHANNELS[(number - 1) % 15]
    for drum in drums:
        midi = _add(part, "midi-instrument", id=instrument_id(key, drum))
        _add(midi, "midi-channel", channel)
        _add(midi, "midi-program", track.program + 1)
        if drum is not None:
            _add(midi, "midi-unpitched", drum + 1)


def instrument_id(key: str, drum: int | None) -> str:
    """Return the name of a part's instrument, or of a drum of it."""
    return f"{key}-I{1 if drum is None else drum}"


class PartWriter:
    """Writes a part bar by bar."""

    def __init__(
        self, track: Track, notes: Notes, key: Key, name: str, *, staves: int | None = None
    ) -> None:
        """Lay the notes on the staves of a part that there is, so many, or of a new one, as their pitches ask for."""
        self._track, self._key, self._name, self._is_new = track, key, name, staves is None
        high, low = notes.pitch.max(initial=MIDDLE_C), notes.pitch.min(initial=MIDDLE_C)
        on_two = low < MIDDLE_C - 5 and high > MIDDLE_C + 5 if staves is None else staves > 1
        parts = [notes]
        if track.is_drum:
            self._clefs = ["drums"]
        elif on_two:
            self._clefs = ["treble", "bass"]
            high = notes.pitch >= MIDDLE_C
            parts = [notes[high], notes[~high]]
        else:
            is_high = not len(notes) or np.median(notes.pitch) >= MIDDLE_C
            self._clefs = ["treble" if is_high else "bass"]
        self._voices = [
            (staff, voice)
            for staff, part in enumerate(parts, 1)
            for voice in voices_of(part, drums=track.is_drum)
        ]

    drums: Mapping[int, str] = {}  # their instruments, where these have names of their own
    first = 0  # the bar that says how it counts time
    transposed = 0  # semitones from what is written to what sounds
    symbols: Sequence[Symbol] = ()  # the chords that stand over it …
    tempos = Tempos.empty()  # … and the tempos, which do over the first part

    def tone(self, pitch_class: int) -> tuple[str, int]:
        """Return step and alteration of a chord's tone."""
        return spelled(pitch_class - self.transposed, self._key.centre)[:2]

    def measure(self, place: int, bar: Bar) -> ET.Element:
        """Return a bar."""
        measure = ET.Element("measure", number=str(place + 1))
        self._attributes(measure, place, bar)
        self._tempos(measure, bar)
        for number, (_, voice) in enumerate(self._voices):
            if number:
                _add(_add(measure, "backup"), "duration", bar.stop - bar.start)
            self._voice(measure, bar, voice, number)
        return measure

    def _attributes(self, measure: ET.Element, place: int, bar: Bar) -> None:
        """Write how time is counted, key, time and clefs of a bar, where they change."""
        if place != self.first and not bar.is_said:
            return
        attributes = _add(measure, "attributes")
        if place == self.first:
            _add(attributes, "divisions", DIVISIONS)
        is_opened = self._is_new and place == self.first
        if is_opened and not self._track.is_drum:
            _add(_add(attributes, "key"), "fifths", self._key.fifths)
        if bar.is_said:
            time = _add(attributes, "time")
            _add(time, "beats", bar.time[0])
            _add(time, "beat-type", bar.time[1])
        if not is_opened:
            return
        if len(self._clefs) > 1:
            _add(attributes, "staves", len(self._clefs))
        for number, name in enumerate(self._clefs, 1):
            sign, line = _CLEFS[name]
            clef = _add(attributes, "clef", number=str(number))
            _add(clef, "sign", sign)
            if line:
                _add(clef, "line", line)

    def _tempos(self, measure: ET.Element, bar: Bar) -> None:
        tempos = self.tempos
        inside = (tempos.onset_ticks >= bar.start) & (tempos.onset_ticks < bar.stop)
        for at, bpm in zip(*(c.tolist() for c in tempos[inside].columns), strict=True):
            direction = _add(measure, "direction", placement="above")
            metronome = _add(_add(direction, "direction-type"), "metronome")
            _add(metronome, "beat-unit", "quarter")
            _add(metronome, "per-minute", f"{bpm:.0f}")
            if at > bar.start:
                _add(direction, "offset", at - bar.start, sound="yes")
            _add(direction, "sound", tempo=f"{bpm:g}")

    def _voice(self, measure: ET.Element, bar: Bar, voice: Sequence[Chord], number: int) -> None:
        """Write a voice's part of a bar: chords cut at bar lines, rests between them."""
        at, end = bar.start, bar.stop
        # One after the other, so that starts and ends are both in order.
        first = bisect_right(voice, at, key=lambda chord: chord.end)
        last = bisect_left(voice, end, key=lambda chord: chord.start)
        for chord in voice[first:last]:
            start, stop = max(chord.start, at), min(chord.end, end)
            self._stretch(measure, bar, None, at, start, number)
            self._stretch(measure, bar, chord, start, stop, number)
            at = stop
        self._stretch(measure, bar, None, at, end, number)

    def _stretch(
        self, measure: ET.Element, bar: Bar, chord: Chord | None, at: int, stop: int, number: int
    ) -> None:
        """Write a chord or rests; where a staff has a voice before this one, time only moves on for rests."""
        staves = [staff for staff, _ in self._voices]
        if chord is None and staves[number] in staves[:number]:
            if at < stop:
                _add(_add(measure, "forward"), "duration", stop - at)
            return
        for value in values_of(stop - at, at - bar.start):
            self._symbols(measure, at, value.length, number)
            if chord is None:
                note = _add(measure, "note")
                _add(note, "rest")
                _add(note, "duration", value.length)
                self._value(note, value, number)
            else:
                self._chord(measure, chord, at, value, number)
            at += value.length

    def _symbols(self, measure: ET.Element, at: int, length: int, number: int) -> None:
        """Write the chords that begin within a value of the first voice, each at its place."""
        ends = (bisect_left(self.symbols, (tick, "")) for tick in (at, at + length))
        for tick, name in self.symbols[slice(*ends)] if number == 0 else ():
            if tick > at:
                _add(_add(measure, "forward"), "duration", tick - at)
            measure.append(harmony(name, self.tone))
            if tick > at:
                _add(_add(measure, "backup"), "duration", tick - at)

    def _chord(self, measure: ET.Element, chord: Chord, at: int, value: Value, number: int) -> None:
        """Write the notes of a chord for as long as a value lasts."""
        goes_on, comes_from = at + value.length < chord.end, at > chord.start
        for place, (pitch, velocity) in enumerate(chord.notes):
            note = _add(measure, "note", dynamics=f"{100 * velocity / FORTE:.2f}")
            if place:
                _add(note, "chord")
            self._pitch(note, pitch - self.transposed)
            _add(note, "duration", value.length)
            kinds = ["stop"] * comes_from + ["start"] * goes_on
            for kind in kinds:
                _add(note, "tie", type=kind)
            if self._track.is_drum:
                drum = self.drums.get(pitch, instrument_id(self._name, pitch))
                _add(note, "instrument", id=drum)
            self._value(note, value, number)
            if self._track.is_drum and pitch in CROSSED:
                _add(note, "notehead", "x")
            if kinds:
                notations = _add(note, "notations")
                for kind in kinds:
                    _add(notations, "tied", type=kind)

    def _pitch(self, note: ET.Element, pitch: int) -> None:
        if self._track.is_drum:
            unpitched = _add(note, "unpitched")
            step, octave = DRUM_PLACES.get(pitch, ("E", 5))
            _add(unpitched, "display-step", step)
            _add(unpitched, "display-octave", octave)
            return
        element = _add(note, "pitch")
        step, alter, octave = spelled(pitch, self._key.centre)
        _add(element, "step", step)
        if alter:
            _add(element, "alter", alter)
        _add(element, "octave", octave)

    def _value(self, note: ET.Element, value: Value, number: int) -> None:
        """Write how long a note or rest looks, and where it stands."""
        _add(note, "voice", number + 1)
        _add(note, "type", value.type)
        for _ in range(value.dots):
            _add(note, "dot")
        if value.is_triplet:
            ratio = _add(note, "time-modification")
            _add(ratio, "actual-notes", 3)
            _add(ratio, "normal-notes", 2)
        if len(self._clefs) > 1:
            _add(note, "staff", self._voices[number][0])
