"""Read MusicXML in parts (MusicXML 4.0, W3C 2021)."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import replace

from tokenization.analysis.chords import LETTERS
from tokenization.limits import FASTEST_BEATS_PER_MINUTE, Limits, MusicFileError
from tokenization.notation.musicxml import DRUM_CHANNEL, DRUM_PLACES, FORTE
from tokenization.notation.musicxml.document import Unreadable, tree_of, xml_of
from tokenization.notation.musicxml.harmony import chord_in
from tokenization.notation.written import (
    DYNAMICS,
    TICKS_PER_BEAT,
    VELOCITY,
    Part,
    PartBar,
    SharedBar,
    Syllable,
    WrittenNote,
    WrittenScore,
    place_graces,
    played,
)
from tokenization.score import Score, Track

# One part, bar by bar: notes, tempos and chords.

Instruments = dict[str, tuple[int, int | None]]  # id → index of its track, pitch of its drum
LONGEST_SYLLABLE = 80  # characters
_UNSET = 0  # velocity of notes without one, until all dynamics of the bar are known
_NUMBER = re.compile(r"\s*[-+]?\d{1,9}(?:\.\d{0,9})?\s*", re.ASCII)
_UNITS = {"whole": 4, "half": 2, "quarter": 1, "eighth": 0.5, "16th": 0.25, "32nd": 0.125}
_ELEMENTS = {"attributes", "note", "backup", "forward", "direction", "sound", "harmony"}
# Display position → drum, for parts without instruments.
_DRUMS = {place: drum for drum, place in reversed(DRUM_PLACES.items())}


def number_in(element: ET.Element | None, path: str) -> float | None:
    """Return the number at a path, or None if the path is missing; raises ValueError if it is not a number."""
    text = None if element is None else element.findtext(path)
    return None if text is None else number(text, path)


def number(text: str, what: str) -> float:
    """Parse a number in MusicXML; raises ValueError with the last part of the path `what`."""
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"{what.rpartition('/')[2]} is {text[:20]!r}, not a number")
    return float(text)


class PartReader:
    """Reads the bars of a part in order."""

    def __init__(self, tracks: list[Track], instruments: Instruments, staves: bool) -> None:
        self.part = Part(tracks)
        self._staff_tracks: dict[tuple[int, int], int] | None = {} if staves else None
        self._instruments = instruments
        self._drum_track = next((i for i, track in enumerate(tracks) if track.is_drum), None)
        self._divisions, self._transpose, self._velocity = 1.0, 0, VELOCITY
        self._offset = 0.0  # of the current direction, in divisions

    def take(self, measure: ET.Element, shared: SharedBar) -> None:
        """Read a bar."""
        self._bar, self._shared = PartBar(), shared
        # The position: the tick where the divisions last changed, and the divisions since then.
        self._anchor, self._units = 0, 0.0
        self._chord_start = self._anchor, self._units
        self._graces: list[WrittenNote | None] = []
        self._dynamics: list[tuple[int, int]] = []  # (tick, velocity)
        self._unset: list[tuple[int, WrittenNote]] = []  # (tick, note) without a velocity
        for element in measure:
            if element.tag in _ELEMENTS:  # so that a file cannot call any other method
                getattr(self, f"_read_{element.tag}")(element)
            self._bar.length = max(self._bar.length, self._tick())
        self._place_graces(self._tick())
        self._apply_dynamics()
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
        self._shared.time = _time(element.find("time")) or self._shared.time
        sharps = number_in(element, "key/fifths")
        if sharps is not None and abs(sharps) <= 7 and self._transpose % 12 == 0:
            says_minor = (element.findtext("key/mode") or "").strip() == "minor"
            self._shared.key_signature = round(sharps), says_minor

    def _read_note(self, element: ET.Element) -> None:
        duration = number_in(element, "duration") or 0.0
        grace = element.find("grace") is not None
        if element.find("chord") is None and not grace:
            self._chord_start = self._anchor, self._units
            self._place_graces(self._tick())
            self._units += max(0.0, duration)
        is_rest = element.find("rest") is not None
        if is_rest or element.find("cue") is not None:
            self._graces += [None] * (is_rest and grace)
            return
        note = self._sounding_note(element)
        if note is None:
            return
        if grace:
            self._graces.append(note)
            return
        anchor, units = self._chord_start
        note.ticks = self._at(anchor, units)
        # The end is rounded like the start of the next note, so that they coincide.
        note.length = max(1, self._at(anchor, units + duration) - note.ticks)
        self._read_lyric(element, note)
        ties = {tie.get("type") for tie in element.findall("tie")}
        note.tied_from, note.tied_on = "stop" in ties, "start" in ties
        self._put([note], note.ticks)

    def _read_lyric(self, element: ET.Element, note: WrittenNote) -> None:
        """Add the syllable of the first verse."""
        lyric = element.find("lyric")
        if lyric is None:
            return
        text = " ".join((lyric.findtext("text") or "").split())[:LONGEST_SYLLABLE]
        continues = (lyric.findtext("syllabic") or "") in ("begin", "middle")
        if text:
            syllable = Syllable(note.ticks, text, note.instrument, continues)
            self._bar.syllables.append(syllable)

    def _put(self, notes: list[WrittenNote], tick: int) -> None:
        """Add notes at a tick to the bar; the tick selects their dynamics."""
        self._bar.notes += notes
        self._unset += [(tick, note) for note in notes if note.velocity == _UNSET]

    def _apply_dynamics(self) -> None:
        """Give each note the last dynamics before it in time; in the file, one staff follows the other."""
        dynamics = sorted(self._dynamics, key=lambda mark: mark[0])
        ticks, velocities = [at for at, _ in dynamics], [self._velocity, *(v for _, v in dynamics)]
        for tick, note in self._unset:
            note.velocity = velocities[bisect_right(ticks, tick)]
        self._velocity = velocities[-1]

    def _sounding_note(self, element: ET.Element) -> WrittenNote | None:
        """Return a note of any kind without its time; None if its pitch is out of range."""
        instrument = element.find("instrument")
        key = instrument.get("id", "") if instrument is not None else ""
        default = next(iter(self._instruments.values()), (0, None))
        track, drum = self._instruments.get(key, default)
        unpitched = element.find("unpitched")
        if unpitched is not None:
            if self._drum_track is not None and instrument is None:
                track, drum = self._drum_track, None
            step = unpitched.findtext("display-step")
            octave = number_in(unpitched, "display-octave")
            pitch = drum if drum is not None else _DRUMS.get((step, octave), 38)  # type: ignore[arg-type]
        elif element.find("pitch") is None:
            raise ValueError("a note has no pitch")
        else:
            pitch = self._pitch(element)
        if not 0 <= pitch <= 127:
            return None
        velocity = _UNSET if element.get("dynamics") is None else _velocity(element)
        return WrittenNote(0, 0, pitch, velocity, self._staff_track(element, track))

    def _staff_track(self, element: ET.Element, track: int) -> int:
        """Return the track of a note's staff; the first staff uses the track of the instrument."""
        first = self.part.tracks[track]
        if self._staff_tracks is None or first.is_drum:
            return track
        staff = round(number_in(element, "staff") or 1)
        if staff <= 1:
            return track
        if (track, staff) not in self._staff_tracks:
            self._staff_tracks[track, staff] = len(self.part.tracks)
            self.part.tracks.append(replace(first, name=f"{first.name} (staff {staff})"))
        return self._staff_tracks[track, staff]

    def _pitch(self, element: ET.Element) -> int:
        step = (element.findtext("pitch/step") or "").strip()
        octave = number_in(element, "pitch/octave")
        if step not in LETTERS or octave is None:
            raise ValueError("a note's pitch has no step or no octave")
        alter = number_in(element, "pitch/alter") or 0  # quarter tones are rounded
        return round(12 * (octave + 1) + LETTERS[step] + alter) + self._transpose

    def _place_graces(self, tick: int) -> None:
        """Place pending grace notes before a tick, that of the next note or the end of the voice."""
        self._put(place_graces(self._graces, tick), tick)
        self._graces = []

    def _read_backup(self, element: ET.Element) -> None:
        self._place_graces(self._tick())
        back = max(0.0, number_in(element, "duration") or 0.0)
        if self._units < back:  # past a change of divisions or the start of the bar
            tick = max(0, self._tick() - round(back * TICKS_PER_BEAT / self._divisions))
            self._anchor, self._units = tick, 0.0
        else:
            self._units -= back

    def _read_forward(self, element: ET.Element) -> None:
        self._units += max(0.0, number_in(element, "duration") or 0.0)

    def _read_direction(self, element: ET.Element) -> None:
        for marking in element.findall("direction-type/dynamics/*"):
            if marking.tag in DYNAMICS:
                self._dynamics.append((self._tick(), DYNAMICS[marking.tag]))
        self._offset = number_in(element, "offset") or 0.0
        before = len(self._shared.tempos)
        for sound in element.findall("sound"):
            self._read_sound(sound)
        metronome = element.find("direction-type/metronome")
        if metronome is not None and len(self._shared.tempos) == before:
            self._metronome(metronome)
        self._offset = 0.0

    def _read_sound(self, element: ET.Element) -> None:
        if element.get("dynamics") is not None:
            self._dynamics.append((self._tick(), _velocity(element)))
        if element.get("tempo") is not None:
            self._tempo(number(element.get("tempo", ""), "tempo"))

    def _metronome(self, element: ET.Element) -> None:
        """Read a mark such as ♩. = 60; marks without a number, or that equate two note values, are ignored."""
        per_minute = re.search(r"\d{1,4}(?:\.\d{1,4})?", element.findtext("per-minute") or "")
        unit = _UNITS.get((element.findtext("beat-unit") or "").strip())
        if per_minute and unit:
            dots = len(element.findall("beat-unit-dot"))
            self._tempo(float(per_minute[0]) * unit * (2 - 0.5 ** min(dots, 4)))

    def _tempo(self, beats_per_minute: float) -> None:
        if 0 < beats_per_minute <= FASTEST_BEATS_PER_MINUTE:
            at = self._tick() + self._offset_ticks(self._offset)
            self._shared.tempos.append((at, beats_per_minute))

    def _offset_ticks(self, divisions: float) -> int:
        return round(divisions * TICKS_PER_BEAT / self._divisions)

    def _read_harmony(self, element: ET.Element) -> None:
        at = max(0, self._tick() + self._offset_ticks(number_in(element, "offset") or 0.0))
        if chord := chord_in(element, self._transpose):
            self._shared.chords.append((at, chord))


def _velocity(element: ET.Element) -> int:
    percent = number(element.get("dynamics", ""), "dynamics")
    return min(127, max(1, round(percent * FORTE / 100)))


def _time(element: ET.Element | None) -> tuple[int, int] | None:
    """Return a time signature as one fraction: 3+2/8 is 5/8, and 2/4 + 3/8 is 7/8; None if it is missing or invalid."""
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


_JUMPS = ("dacapo", "dalsegno", "tocoda", "fine", "segno", "coda")


def read_repeats(measure: ET.Element, bar: SharedBar) -> None:
    """Add the repeats, jumps and endings in a part's measure to the shared bar; an ending only to its first bar."""
    for repeat in measure.findall("barline/repeat"):
        if repeat.get("direction") == "forward":
            bar.forward = True
        elif repeat.get("direction") == "backward":
            times = repeat.get("times")
            bar.backward = 2 if times is None else max(1, round(number(times, "times")))
    for ending in measure.findall("barline/ending"):
        if ending.get("type") == "start":
            numbers = {int(n) for n in re.findall(r"\d{1,2}", ending.get("number", ""))}
            bar.endings = frozenset(numbers - {0}) or frozenset({1})
        else:
            bar.closes_ending = True
    for mark in ("segno", "coda"):
        if measure.find(f"barline/{mark}") is not None:
            bar.marks.add(mark)
    for sound in (*measure.findall("sound"), *measure.findall("direction/sound")):
        bar.marks.update(jump for jump in _JUMPS if sound.get(jump) is not None)
    for kind in measure.findall("direction/direction-type/*"):
        if kind.tag in ("segno", "coda") and not bar.marks & {"tocoda", "dalsegno"}:
            bar.marks.add(kind.tag)


def spread_endings(bars: Sequence[SharedBar]) -> None:
    """Extend each ending from its first bar to all of its bars."""
    current: frozenset[int] | None = None
    for bar in bars:
        # A last ending without a stated end lasts until the next repeat.
        current = bar.endings or (None if bar.forward else current)
        bar.endings = current
        if bar.closes_ending:
            current = None


def read_musicxml(data: bytes, limits: Limits, name: str, *, staves: bool = False) -> Score:
    """Read MusicXML to a score with its repeats unfolded; raises MusicFileError.

    With `staves`, each staff of a part becomes a track, such as the two hands of a piano.
    """
    try:
        root = tree_of(xml_of(data, limits), limits.elements)
        written = written_of(root, limits, name, staves=staves)
    except Unreadable as error:
        raise MusicFileError(f"{name} {error}") from None
    return played(written)


def written_of(
    root: ET.Element,
    limits: Limits,
    name: str,
    *,
    staves: bool = False,
    reader: Callable[[list[Track], Instruments, bool], PartReader] = PartReader,
) -> WrittenScore:
    """Return a score as written, with its repeats not yet unfolded; raises MusicFileError or Unreadable."""
    if root.tag != "score-partwise":
        raise Unreadable(
            f"is an XML document, but not a score in parts: it holds <{root.tag[:40]}>"
        )
    title = _text(root, "work/work-title") or _text(root, "movement-title")
    creators = root.iterfind("identification/creator")
    composer = next((one.text or "" for one in creators if one.get("type") == "composer"), "")
    written = WrittenScore(limits, name, title=title, composer=" ".join(composer.split())[:80])
    readers: dict[str, PartReader] = {}

    def add(key: str, tracks: list[Track], instruments: Instruments) -> None:
        """Add a part unless its id is taken."""
        written.count("tracks", len(tracks))
        if key not in readers:
            readers[key] = reader(tracks, instruments, staves)
            written.parts.append(readers[key].part)

    for entry in root.iterfind("part-list/score-part"):
        add(entry.get("id", ""), *_instruments(entry))
    for part in root.iterfind("part"):
        key = part.get("id", "")
        if key not in readers:  # missing from the list of parts
            add(key, [Track()], {})
        for measure in part.iterfind("measure"):
            _read_measure(readers[key], measure, written)
    if not written.bars:
        raise MusicFileError(f"{name} contains no MusicXML score: choose a file with music in it")
    spread_endings(written.bars)
    return written


def _read_measure(reader: PartReader, measure: ET.Element, written: WrittenScore) -> None:
    bars = reader.part.bars
    shared = written.enter_bar(len(bars))
    before = len(shared.tempos) + len(shared.chords)
    try:
        reader.take(measure, shared)
        # Repeats apply to all parts, and some programs write them into only one.
        read_repeats(measure, shared)
    except ValueError as error:
        shown = (measure.get("number") or str(len(bars) + 1))[:8]
        raise Unreadable(f"is damaged in bar {shown}: {error}") from None
    written.count("notes", len(bars[-1].notes))
    written.count("signs", len(shared.tempos) + len(shared.chords) - before)


def _instruments(part: ET.Element) -> tuple[list[Track], Instruments]:
    """Return the tracks of a part, and its instruments by id."""
    name = _text(part, "part-name")
    by_id = {one.get("id", ""): one for one in part.findall("midi-instrument")}
    tracks: dict[Track, int] = {}  # with their indices
    kit: Track | None = None
    instruments: Instruments = {}
    for instrument in part.findall("score-instrument") or [ET.Element("score-instrument")]:
        key = instrument.get("id", "")
        default = ET.Element("midi-instrument")
        midi = by_id.get(key, default if key else next(iter(by_id.values()), default))
        drum = _number(midi, "midi-unpitched")
        is_drum = _number(midi, "midi-channel") == DRUM_CHANNEL or drum is not None
        program = min(max(_number(midi, "midi-program") or 1, 1), 128) - 1
        track = Track(name or _text(instrument, "instrument-name"), program, is_drum)
        if is_drum:  # a kit has one instrument per drum, all in one track
            track = kit = kit or track
        index = tracks.setdefault(track, len(tracks))
        instruments[key] = (index, None if drum is None else drum - 1)
    return [*tracks], instruments


def _text(element: ET.Element, path: str) -> str:
    return " ".join((element.findtext(path) or "").split())[:80]


def _number(element: ET.Element, path: str) -> int | None:
    text = (element.findtext(path) or "").strip()
    return int(text) if re.fullmatch(r"\d{1,4}", text) else None
