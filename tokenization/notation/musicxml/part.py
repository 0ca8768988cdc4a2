"""One part of a MusicXML score, bar by bar: its notes, and the tempos and chords at them."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from bisect import bisect_right
from dataclasses import replace

from tokenization.analysis.chords import LETTERS
from tokenization.midi.conventions import FASTEST_BEATS_PER_MINUTE
from tokenization.notation.musicxml import DRUM_PLACES, FORTE
from tokenization.notation.musicxml.harmony import chord_in
from tokenization.notation.written import (
    DYNAMICS,
    TICKS_PER_BEAT,
    VELOCITY,
    Line,
    Part,
    PartBar,
    WrittenNote,
    place_graces,
)
from tokenization.score import Track

Instruments = dict[str, tuple[int, int | None]]  # by their names, tracks and which drum each is
_UNSAID = 0  # the velocity of a note that says none, until the marks of its whole bar are known
_NUMBER = re.compile(r"\s*[-+]?\d{1,9}(?:\.\d{0,9})?\s*", re.ASCII)
_UNITS = {"whole": 4, "half": 2, "quarter": 1, "eighth": 0.5, "16th": 0.25, "32nd": 0.125}
_READ = {"attributes", "note", "backup", "forward", "direction", "sound", "harmony"}  # elements
# For parts that do not say which drum is meant.
_DRUMS = {place: drum for drum, place in reversed(DRUM_PLACES.items())}


def number_in(element: ET.Element | None, path: str) -> float | None:
    """Return the number at a path; None where there is none, ValueError where it is not a number."""
    text = None if element is None else element.findtext(path)
    return None if text is None else number(text, path)


def number(text: str, what: str) -> float:
    """Return a number as MusicXML writes it."""
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"{what.rpartition('/')[2]} is {text[:20]!r}, not a number")
    return float(text)


class PartReader:
    """Reads the bars of a part one after the other."""

    def __init__(self, tracks: list[Track], instruments: Instruments, staves: bool) -> None:
        self.part = Part(tracks)
        self._staves: dict[tuple[int, int], int] | None = {} if staves else None  # their tracks
        self._instruments = instruments
        self._drum_track = next((i for i, track in enumerate(tracks) if track.is_drum), None)
        self._divisions, self._transpose, self._velocity = 1.0, 0, VELOCITY
        self._doubled = 0  # semitones to a second note that sounds with each
        self._offset = 0.0  # of a direction from where it stands

    def take(self, measure: ET.Element, line: Line) -> None:
        """Read a bar."""
        self._bar, self._line = PartBar(), line
        self._anchor, self._units = 0, 0.0  # ticks where the divisions changed, and those since
        self._begun = self._anchor, self._units  # of the last note that is no other's chord
        self._graces: list[WrittenNote] = []
        self._marks: list[tuple[int, int]] = []  # (ticks, velocity)
        self._unsaid: list[tuple[int, WrittenNote]] = []  # notes that follow the marks, by ticks
        for element in measure:
            if element.tag in _READ:  # a name of the file reaches no other method
                getattr(self, f"_read_{element.tag}")(element)
            self._bar.length = max(self._bar.length, self._tick())
        self._place_graces(self._tick())
        self._follow_marks()
        self.part.bars.append(self._bar)

    def _tick(self) -> int:
        return self._at(self._anchor, self._units)

    def _at(self, anchor: int, units: float) -> int:
        return anchor + round(units * TICKS_PER_BEAT / self._divisions)

    def _read_attributes(self, element: ET.Element) -> None:
        divisions = number_in(element, "divisions")
        if divisions is not None:
            if divisions <= 0:
                raise ValueError(f"divisions is {divisions:g}, but a beat has at least one")
            self._anchor, self._units, self._divisions = self._tick(), 0.0, divisions
        transpose = element.find("transpose")
        if transpose is not None:
            octaves = number_in(transpose, "octave-change") or 0
            self._transpose = round((number_in(transpose, "chromatic") or 0) + 12 * octaves)
            double = transpose.find("double")  # in octaves, as by cello and bass, or by piccolo
            above = double is not None and double.get("above") == "yes"
            self._doubled = 0 if double is None else 12 if above else -12
        self._line.time = _time(element.find("time")) or self._line.time

    def _read_note(self, element: ET.Element) -> None:
        duration = number_in(element, "duration") or 0.0
        grace = element.find("grace") is not None
        if element.find("chord") is None and not grace:
            self._begun = self._anchor, self._units
            if self._graces:
                self._place_graces(self._tick())
            self._units += max(0.0, duration)
        if element.find("rest") is not None or element.find("cue") is not None:
            return
        note = self._pitched(element)
        if note is None:
            return
        if grace:
            self._graces.append(note)
            return
        anchor, units = self._begun
        note.ticks = self._at(anchor, units)
        # To where what follows begins, rounding and all.
        note.length = max(1, self._at(anchor, units + duration) - note.ticks)
        ties = {tie.get("type") for tie in element.findall("tie")}
        note.tied_from, note.tied_on = "stop" in ties, "start" in ties
        self._put([note], note.ticks)

    def _put(self, notes: list[WrittenNote], tick: int) -> None:
        """Put notes that stand at a tick into the bar, with their octaves where a part is doubled."""
        octaves = [
            replace(note, pitch=note.pitch + self._doubled)
            for note in (notes if self._doubled else ())
            if 0 <= note.pitch + self._doubled <= 127
            and not self.part.tracks[note.instrument].is_drum
        ]
        self._bar.notes += notes + octaves
        self._unsaid += [(tick, note) for note in notes + octaves if note.velocity == _UNSAID]

    def _follow_marks(self) -> None:
        """Play each note as the last mark before it says: by time, since staves are written in turn."""
        marks = sorted(self._marks, key=lambda mark: mark[0])
        ticks, velocities = [at for at, _ in marks], [self._velocity, *(v for _, v in marks)]
        for tick, note in self._unsaid:
            note.velocity = velocities[bisect_right(ticks, tick)]
        self._velocity = velocities[-1]

    def _pitched(self, element: ET.Element) -> WrittenNote | None:
        named = element.find("instrument")
        known = next(iter(self._instruments.values()), (0, None))
        track, drum = self._instruments.get(named.get("id", "") if named is not None else "", known)
        unpitched = element.find("unpitched")
        if unpitched is not None:
            if self._drum_track is not None and named is None:
                track, drum = self._drum_track, None
            step, octave = (
                unpitched.findtext("display-step"),
                number_in(unpitched, "display-octave"),
            )
            pitch = drum if drum is not None else _DRUMS.get((step, octave), 38)  # type: ignore[arg-type]
        elif element.find("pitch") is None:
            raise ValueError("a note has no pitch")
        else:
            pitch = self._pitch(element)
        if not 0 <= pitch <= 127:
            return None
        velocity = _UNSAID
        if element.get("dynamics") is not None:
            velocity = _velocity(element)
        return WrittenNote(0, 0, pitch, velocity, self._on_staff(element, track))

    def _on_staff(self, element: ET.Element, track: int) -> int:
        """Return the track of a note's staff: that of its instrument for the first one."""
        staff, first = round(number_in(element, "staff") or 1), self.part.tracks[track]
        if staff <= 1 or self._staves is None or first.is_drum:
            return track
        if (track, staff) not in self._staves:
            self._staves[track, staff] = len(self.part.tracks)
            self.part.tracks.append(replace(first, name=f"{first.name} (staff {staff})"))
        return self._staves[track, staff]

    def _pitch(self, element: ET.Element) -> int:
        step = (element.findtext("pitch/step") or "").strip()
        octave = number_in(element, "pitch/octave")
        if step not in LETTERS or octave is None:
            raise ValueError("a note's pitch has no step or no octave")
        alter = number_in(element, "pitch/alter") or 0  # quarter tones go to the nearest key
        return round(12 * (octave + 1) + LETTERS[step] + alter) + self._transpose

    def _place_graces(self, tick: int) -> None:
        """Play the grace notes that wait before the note they lead to, or at the end of the last."""
        self._put(place_graces(self._graces, tick), tick)
        self._graces = []

    def _read_backup(self, element: ET.Element) -> None:
        self._place_graces(self._tick())
        back = number_in(element, "duration") or 0.0
        if self._units < back:  # over a change of divisions, or to before the bar
            tick = max(0, self._tick() - round(back * TICKS_PER_BEAT / self._divisions))
            self._anchor, self._units = tick, 0.0
        else:
            self._units -= back

    def _read_forward(self, element: ET.Element) -> None:
        self._units += max(0.0, number_in(element, "duration") or 0.0)

    def _read_direction(self, element: ET.Element) -> None:
        for marking in element.findall("direction-type/dynamics/*"):
            if marking.tag in DYNAMICS:
                self._marks.append((self._tick(), DYNAMICS[marking.tag]))
        self._offset = number_in(element, "offset") or 0.0
        before = len(self._line.tempos)
        for sound in element.findall("sound"):
            self._read_sound(sound)
        metronome = element.find("direction-type/metronome")
        if metronome is not None and len(self._line.tempos) == before:
            self._metronome(metronome)
        self._offset = 0.0

    def _read_sound(self, element: ET.Element) -> None:
        if element.get("dynamics") is not None:
            self._marks.append((self._tick(), _velocity(element)))
        if element.get("tempo") is not None:
            self._tempo(number(element.get("tempo", ""), "tempo"))

    def _metronome(self, element: ET.Element) -> None:
        """Take a mark such as ♩. = 60; one that says no number, or relates two notes, says no tempo."""
        per_minute = re.search(r"\d{1,4}(?:\.\d{1,4})?", element.findtext("per-minute") or "")
        unit = _UNITS.get((element.findtext("beat-unit") or "").strip())
        if per_minute and unit:
            dots = len(element.findall("beat-unit-dot"))
            self._tempo(float(per_minute[0]) * unit * (2 - 0.5 ** min(dots, 4)))

    def _tempo(self, beats_per_minute: float) -> None:
        if 0 < beats_per_minute <= FASTEST_BEATS_PER_MINUTE:
            at = self._tick() + self._later(self._offset)
            self._line.tempos.append((at, beats_per_minute))

    def _later(self, offset: float) -> int:
        return round(offset * TICKS_PER_BEAT / self._divisions)

    def _read_harmony(self, element: ET.Element) -> None:
        at = max(0, self._tick() + self._later(number_in(element, "offset") or 0.0))
        if chord := chord_in(element, self._transpose):
            self._line.chords.append((at, chord))


def _velocity(element: ET.Element) -> int:
    percent = number(element.get("dynamics", ""), "dynamics")
    return min(127, max(1, round(percent * FORTE / 100)))


def _time(element: ET.Element | None) -> tuple[int, int] | None:
    """Return a time as one fraction: 3+2/8 is 5/8, and of 2/4 + 3/8 the sum."""
    if element is None or element.find("senza-misura") is not None:
        return None
    wholes = 0.0  # whole notes
    pairs = list(zip(element.findall("beats"), element.findall("beat-type"), strict=False))
    finest = 1
    for beats, beat_type in pairs[:4]:
        parts = re.findall(r"\d{1,3}", beats.text or "")[:16]
        unit = round(number(beat_type.text or "", "beat-type"))
        if unit not in (1, 2, 4, 8, 16, 32, 64) or not parts:
            return None
        wholes += sum(map(int, parts)) / unit
        finest = max(finest, unit)
    numerator = round(wholes * finest)
    return (numerator, finest) if 0 < numerator < 256 else None
