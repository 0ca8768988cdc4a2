"""Write a score as MusicXML for notation programs: bars, voices, ties, staves, keys and note names that fit the key."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import NamedTuple

import numpy as np

from tokenization.analysis.chords import LETTERS
from tokenization.edit import Bar
from tokenization.limits import GENEROUS
from tokenization.notation.musicxml import DRUM_CHANNEL, DRUM_PLACES, FORTE
from tokenization.notation.musicxml.harmony import Symbol, harmony, symbols_of
from tokenization.notation.written import own_metre
from tokenization.score import Notes, Score, Tempos, Track

# Note values: plain, dotted and triplet, tied together for other lengths.

DIVISIONS = 24  # per beat: a sixteenth is 6, a triplet eighth 8


@dataclass(frozen=True)
class Value:
    """A note value; its length is in divisions."""

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
    """Split a length that starts at a position in a bar into note values.

    A length that starts between beats and is no single value is split at the next beat, for legibility.
    """
    values: list[Value] = []
    while length:
        offset = at % DIVISIONS
        most = length if not offset or length in _BY_LENGTH else min(length, DIVISIONS - offset)
        value = _BY_LENGTH[next(candidate for candidate in _LENGTHS if candidate <= most)]
        values.append(value)
        length, at = length - value.length, at + value.length
    return values


# Voices: sequences of chords that do not overlap.

MOST_VOICES = 4  # per staff; notation programs do not read more


@dataclass
class Chord:
    """Notes that start and end together."""

    start: int
    end: int
    notes: list[tuple[int, int]] = field(default_factory=list)  # pitch and velocity


def voices_of(notes: Notes, *, drums: bool = False) -> list[list[Chord]]:
    """Split the notes of a staff into voices, at least one.

    Drums have one voice, in which each hit lasts until the next one or the next beat, since the
    durations of drum notes have no meaning.
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
        for chord, following in zip_longest(ordered, ordered[1:]):
            chord.end = chord.start + DIVISIONS - chord.start % DIVISIONS
            if following is not None:
                chord.end = min(chord.end, following.start)
    voices: list[list[Chord]] = [[]]
    for chord in ordered:
        _place(voices, chord)
    return voices


def _place(voices: list[list[Chord]], chord: Chord) -> None:
    """Add a chord to the first free voice, or a new voice, or else cut short the chord that has sounded longest."""
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
    # All voices have a chord that starts here: merge with the one of the most similar length.
    same = min((voice[-1] for voice in voices), key=lambda other: abs(other.end - chord.end))
    same.notes += [note for note in chord.notes if all(note[0] != p for p, _ in same.notes)]


# Note names that fit the key.

_FIFTHS = "FCGDAEB"  # the line of fifths from F = −1; C = 0
_SCALE = np.arange(-1, 6)  # C major on the line of fifths: F C G D A E B
CROSSED = {37, 42, 44, 46, 49, 51, 52, 53, 55, 57, 59}  # cymbals and sticks have × noteheads


class Key(NamedTuple):
    """The key of a piece, for choosing its signature and note names."""

    fifths: int  # sharps of its signature, or flats if negative
    centre: int  # the median of its notes in the scale on the line of fifths, weighted by duration


def key_of(score: Score) -> Key:
    """Return the key, from −5 to 6 sharps, whose scale contains most of the pitched notes by duration."""
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
    """Return the step, alteration and octave of a pitch in a key with this centre.

    The twelve pitch classes are named by twelve neighbours on the line of fifths, from five below the centre to six
    above it. G minor, for example, gets B♭ and E♭, never A♯, but F♯ as its leading note although its signature is that
    of B♭ major.
    """
    first = centre - 5
    fifth = first + (pitch * 7 - first) % 12
    step, alter = _FIFTHS[(fifth + 1) % 7], (fifth + 1) // 7
    return step, alter, (pitch - alter - LETTERS[step]) // 12 - 1


_DOCTYPE = (
    b'<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE score-partwise PUBLIC '
    b'"-//Recordare//DTD MusicXML 4.0 Partwise//EN" "http://www.musicxml.org/dtds/partwise.dtd">\n'
)
MIDDLE_C = 60
_CLEFS = {"treble": ("G", "2"), "bass": ("F", "4"), "drums": ("percussion", None)}
SIXTEENTH, SHORTEST = DIVISIONS // 4, DIVISIONS // 8  # bars last whole numbers of 32nds
PITCHED_CHANNELS = (*range(1, 10), *range(11, 17))


def write_musicxml(score: Score, *, title: str = "", made: str = "") -> bytes:
    """Encode a score as MusicXML, with times rounded to 24ths of a beat and `made` as its encoding description.

    Known chords are written above the first pitched part. Each staff has at most four voices, the limit of notation
    programs: a fifth simultaneous note cuts short the one that has sounded longest.
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
            f"the music has {count:,} bars in all its parts, but a score can have at most {GENEROUS.bars:,}: "
            f"use an excerpt"
        )
    pitched = [index for index in used if not score.tracks[index].is_drum]
    for number, index in enumerate(used, 1):
        track, notes = score.tracks[index], score.notes[score.notes.track == index]
        write_entry(part_list, f"P{number}", track, notes, number)
        writer = PartWriter(track, notes, key, f"P{number}")
        writer.tempos = score.tempos if number == 1 else Tempos.empty()
        writer.symbols = symbols_of(score) if index in pitched[:1] else ()
        part = _add(root, "part", id=f"P{number}")
        for index, bar in enumerate(bars):
            part.append(writer.measure(index, bar))
    ET.indent(root)
    return _DOCTYPE + ET.tostring(root, encoding="unicode").encode() + b"\n"


def _add(parent: ET.Element, tag: str, text: object = None, **attributes: str) -> ET.Element:
    element = ET.SubElement(parent, tag, attributes)
    if text is not None:
        # Drop characters that XML does not allow.
        element.text = "".join(c for c in str(text) if c.isprintable() or c in "\n\t")
    return element


def _bars(score: Score) -> list[Bar]:
    """Return the bars of a score up to its last note, by its time signatures."""
    changes = {  # rounded to sixteenths, since a rounding error must not become a bar
        SIXTEENTH * round(at / SIXTEENTH): (n, d)
        for at, n, d in zip(*(c.tolist() for c in score.meters.columns), strict=True)
    }
    ticks = sorted(changes)
    bars: list[Bar] = []
    at, time = 0, (4, 4)
    while at < score.end_ticks or not bars:
        passed = bisect_right(ticks, at)
        new = changes[ticks[passed - 1]] if passed else time
        full = 4 * DIVISIONS * new[0] / new[1]
        length = SHORTEST * max(1, round(full / SHORTEST))
        if (
            length != full
        ):  # the time signature must match the length, or all later bars would shift
            new = own_metre(length, (4, 4), DIVISIONS)
        if passed < len(ticks) and ticks[passed] - at < length:  # a change cuts the bar short
            length = ticks[passed] - at
            new = own_metre(length, new, DIVISIONS)
        bars.append(Bar(at, at + length, new, not bars or new != time))
        at, time = at + length, new
    return bars


def write_entry(part_list: ET.Element, key: str, track: Track, notes: Notes, number: int) -> None:
    """Add a part with its instruments to the list of parts; a kit has one instrument per drum."""
    part = _add(part_list, "score-part", id=key)
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
    """Return the id of a part's instrument, or of one of its drums."""
    return f"{key}-I{1 if drum is None else drum}"


class PartWriter:
    """Writes a part bar by bar."""

    def __init__(
        self, track: Track, notes: Notes, key: Key, name: str, *, staves: int | None = None
    ) -> None:
        """Divide the notes among staves: those of an existing part, or by their pitches in a new one (None)."""
        self._track, self._key, self._name, self._is_new = track, key, name, staves is None
        highest, lowest = notes.pitch.max(initial=MIDDLE_C), notes.pitch.min(initial=MIDDLE_C)
        on_two = lowest < MIDDLE_C - 5 and highest > MIDDLE_C + 5 if staves is None else staves > 1
        by_staff = [notes]
        if track.is_drum:
            self._clefs = ["drums"]
        elif on_two:
            self._clefs = ["treble", "bass"]
            is_high = notes.pitch >= MIDDLE_C
            by_staff = [notes[is_high], notes[~is_high]]
        else:
            is_high = not len(notes) or np.median(notes.pitch) >= MIDDLE_C
            self._clefs = ["treble" if is_high else "bass"]
        self._voices = [
            (staff, voice)
            for staff, part in enumerate(by_staff, 1)
            for voice in voices_of(part, drums=track.is_drum)
        ]

    drums: Mapping[int, str] = {}  # pitch → instrument id, for drums of an existing part
    first = 0  # the bar in which the divisions are written
    transposed = 0  # semitones from written to sounding pitch
    symbols: Sequence[Symbol] = ()  # chords above the part
    tempos = Tempos.empty()  # tempos above the part

    def tone(self, pitch_class: int) -> tuple[str, int]:
        """Return the step and alteration of a sounding pitch class as written in this part."""
        return spelled(pitch_class - self.transposed, self._key.centre)[:2]

    def measure(self, index: int, bar: Bar) -> ET.Element:
        """Return a bar as an element."""
        measure = ET.Element("measure", number=str(index + 1))
        self._attributes(measure, index, bar)
        self._tempos(measure, bar)
        for number, (_, voice) in enumerate(self._voices):
            if number:
                _add(_add(measure, "backup"), "duration", bar.stop - bar.start)
            self._voice(measure, bar, voice, number)
        return measure

    def _attributes(self, measure: ET.Element, index: int, bar: Bar) -> None:
        """Write divisions, key, time signature and clefs where they change."""
        if index != self.first and not bar.shows_time:
            return
        attributes = _add(measure, "attributes")
        if index == self.first:
            _add(attributes, "divisions", DIVISIONS)
        is_start = self._is_new and index == self.first
        if is_start and not self._track.is_drum:
            _add(_add(attributes, "key"), "fifths", self._key.fifths)
        if bar.shows_time:
            time = _add(attributes, "time")
            _add(time, "beats", bar.time[0])
            _add(time, "beat-type", bar.time[1])
        if not is_start:
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
        """Write a voice within a bar: chords, cut at the bar lines, and rests between them."""
        at, end = bar.start, bar.stop
        # The chords of a voice do not overlap, so both starts and ends are sorted.
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
        """Write a chord, or rests if it is None; only the first voice of a staff shows its rests."""
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
        """Write the chord symbols within a note value of the first voice."""
        ends = (bisect_left(self.symbols, (tick, "")) for tick in (at, at + length))
        for tick, name in self.symbols[slice(*ends)] if number == 0 else ():
            if tick > at:
                _add(_add(measure, "forward"), "duration", tick - at)
            measure.append(harmony(name, self.tone))
            if tick > at:
                _add(_add(measure, "backup"), "duration", tick - at)

    def _chord(self, measure: ET.Element, chord: Chord, at: int, value: Value, number: int) -> None:
        """Write the notes of a chord for one note value, with ties to its other values."""
        tied_on, tied_from = at + value.length < chord.end, at > chord.start
        for index, (pitch, velocity) in enumerate(chord.notes):
            note = _add(measure, "note", dynamics=f"{100 * velocity / FORTE:.2f}")
            if index:
                _add(note, "chord")
            self._pitch(note, pitch - self.transposed)
            _add(note, "duration", value.length)
            kinds = ["stop"] * tied_from + ["start"] * tied_on
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
        """Write the voice, note value and staff of a note or rest."""
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
