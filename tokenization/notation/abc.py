"""Read a tune from ABC, the text notation of folk tunes (ABC standard 2.1): its fields, and its voices bar by bar."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

from tokenization.analysis.chords import LETTERS, parse, transposed
from tokenization.limits import Limits, MusicFileError
from tokenization.midi.instruments import program_named
from tokenization.notation.abc_text import (
    ALTERS,
    NOTE,
    TOKEN,
    key_of,
    length_of,
    metre_of,
    shift_of,
    signature_of,
    syllables_of,
    tempo_of,
    times_of,
    unit_of,
    usual_unit,
)
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

Place = tuple[str, str]  # a position on the staff: letter, octave marks
_ONCE = Fraction(1)
_IN_TIME_OF = {2: 3, 3: 2, 4: 3, 6: 2, 8: 3}  # tuplets of 5, 7 and 9 depend on the metre
_SIGNS = {name: name for name in ("dacapo", "dalsegno", "segno", "fine")}
_SIGNS |= {"D.C.": "dacapo", "D.S.": "dalsegno"}


class VoiceReader:
    """Reads the music and fields of a voice in turn."""

    def __init__(self, written: WrittenScore) -> None:
        self.part, self.track = Part([]), Track()
        # By MIDI directives, which count channels from 1; and the instrument in its names, if any.
        self.program: int | None = None
        self.channel: int | None = None
        self.named: int | None = None
        self._written = written
        self.metre: tuple[int, int] | None = None
        self.unit: Fraction | None = None
        self._key: dict[str, int] = {}
        self._shift, self._velocity = 0, VELOCITY
        self._shared = SharedBar()  # of the current bar, or the next one
        self._endings = frozenset[int]()  # of the current bar and those that follow
        self._ties: dict[Place, int] = {}  # pitches tied to the next notes
        self._line: list[
            tuple[PartBar, int]
        ] = []  # the notes of the last line of music, with their ticks
        self._begin_bar()

    def _begin_bar(self) -> None:
        self._bar, self._tick = PartBar(), 0
        self._is_overlaid = False  # an overlay, which is left out, lasts to the bar line
        self._altered: dict[str, int] = {}  # by an accidental in this bar, in all octaves
        self._graces: list[WrittenNote] = []
        self._last: tuple[list[WrittenNote], int, int] = ([], 0, 0)  # notes, tick and length
        # The factor for the next note from broken rhythm; the remaining notes and ratio of a tuplet.
        self._next, self._tuplet = _ONCE, (0, _ONCE)

    def field(self, name: str, text: str) -> None:
        """Read a field, which applies from here on."""
        if name == "K" and (key := key_of(text)) is not None:
            self._key, self._altered = key, {}
        if name in "KV":
            shift = shift_of(text)
            self._shift = self._shift if shift is None else shift
            if name == "K" and self._shift % 12 == 0:
                self._shared.key_signature = signature_of(text)
        elif name == "M":
            self.metre = self._shared.time = metre_of(text)
        elif name == "L":
            self.unit = unit_of(text) or self.unit
        elif name == "Q" and (tempo := tempo_of(text, self.unit or usual_unit(self.metre))):
            self._shared.tempos.append((self._tick, tempo))

    def music(self, text: str) -> None:
        """Read a line of music."""
        self._line = []
        for found in TOKEN.finditer(text):
            if found["bar"] is not None:
                self._bar_line(found["bar"], found["times"])
            elif not self._is_overlaid:  # the name of the group selects the method
                getattr(self, f"_take_{found.lastgroup}")(found[0])

    def words(self, text: str) -> None:
        """Put a line of words under the notes of the last line of music; further lines are other verses."""
        line, self._line = deque(self._line), []
        bar = line[0][0] if line else None
        for syllable, continues in syllables_of(text):
            if not line:
                return
            if syllable == "|":
                while line and line[0][0] is bar:
                    line.popleft()
                bar = line[0][0] if line else None
                continue
            bar, tick = line.popleft()
            if syllable not in ("_", "*"):
                bar.syllables.append(Syllable(tick, syllable, 0, continues))

    def close(self) -> None:
        """Close the last bar and complete the part."""
        self._close_bar()
        self.part.tracks.append(self.track)

    def _ticks(self, length: Fraction) -> int:
        # Fix the default unit now, so that a later metre does not change it.
        unit = self.unit = self.unit or usual_unit(self.metre)
        left, ratio = self._tuplet
        if left:
            self._tuplet = (left - 1, ratio)
            length *= ratio
        length, self._next = length * self._next, _ONCE
        return round(4 * TICKS_PER_BEAT * unit * length)

    def _advance(self, notes: list[WrittenNote], ticks: int) -> None:
        """Add notes at the current position, after pending grace notes, and advance."""
        self._bar.notes += place_graces(self._graces, self._tick) + notes
        self._graces = []
        self._written.count("notes", len(notes) or 1)  # a rest costs as much time as a note
        self._last = (notes, self._tick, ticks)
        self._tick += ticks
        self._bar.length = max(self._bar.length, self._tick)

    def _take_ending(self, text: str) -> None:
        self._endings = times_of(text[1:])

    def _take_note(self, text: str) -> None:
        self._sound([text], _ONCE)

    def _take_rest(self, text: str) -> None:
        self._advance([], self._ticks(length_of(text[1:])))

    def _take_chord(self, text: str) -> None:
        inside, _, after = text[1:].partition("]")
        inside = re.sub(r'"[^"]*"|![^!]*!', "", inside)
        notes = [*NOTE.finditer(inside)]
        if notes:
            self._sound([found[0] for found in notes], length_of(after))
            self._tie_on({(n[2], n[3]) for n in notes if inside.startswith("-", n.end())})

    def _sound(self, texts: list[str], times: Fraction) -> None:
        """Add simultaneous notes; the length of the first determines the advance."""
        lengths = [length_of(text.lstrip("^_=")[1:].lstrip(",'")) for text in texts]
        first = self._ticks(lengths[0] * times)
        notes: list[WrittenNote] = []
        tied, self._ties = self._ties, {}
        places: dict[Place, int] = {}
        for text, length in zip(texts, lengths, strict=True):
            place, pitch, tied_from = self._pitch(text, tied)
            places[place] = pitch
            if 0 <= pitch <= 127:
                ticks = round(first * length / lengths[0]) if lengths[0] else first
                notes.append(WrittenNote(self._tick, ticks, pitch, self._velocity, 0, tied_from))
        self._places = places
        self._line.append((self._bar, self._tick))
        self._advance(notes, first)

    def _pitch(self, text: str, tied: Mapping[Place, int]) -> tuple[Place, int, bool]:
        """Return a note's position on the staff, its pitch, and whether it continues a tied note."""
        found = NOTE.match(text)
        assert found is not None, "the text was matched by this expression"
        sign, letter, octaves = found[1], found[2].upper(), found[3]
        place = (found[2], octaves)
        if sign is None and place in tied:  # a tie carries the accidental over the bar line
            return place, tied[place], True
        if sign is not None:
            self._altered[letter] = ALTERS[sign]
        octave = found[2].islower() + octaves.count("'") - octaves.count(",")
        alter = self._altered.get(letter, self._key.get(letter, 0))
        pitch = 60 + 12 * octave + LETTERS[letter] + alter + self._shift
        return place, pitch, tied.get(place) == pitch

    def _take_tie(self, _: str) -> None:
        if self._last[0]:
            self._tie_on({*self._places})

    def _tie_on(self, places: set[Place]) -> None:
        """Tie the last notes at some positions to the next ones."""
        self._ties |= {place: self._places[place] for place in places}
        tied = {*self._ties.values()}
        for note in self._last[0]:
            note.tied_on = note.pitch in tied

    def _take_broken(self, text: str) -> None:
        """Lengthen the previous note and shorten the next, or the other way round."""
        if self._next is not _ONCE:  # repeated signs would let lengths grow without bound
            return
        short = Fraction(1, 2 ** len(text))
        this, self._next = (2 - short, short) if text[0] == ">" else (short, 2 - short)
        notes, tick, ticks = self._last
        for note in notes:
            note.length = round(note.length * this)
        if tick + ticks == self._tick:
            self._tick = tick + round(ticks * this)
            self._bar.length = self._tick
        self._last = (notes, tick, round(ticks * this))

    def _take_tuplet(self, text: str) -> None:
        p, q, r = (*(int(n) if n else 0 for n in text[1:].split(":")), 0, 0)[:3]
        if p:
            compound = self.metre is not None and self.metre[1] == 8 and self.metre[0] % 3 == 0
            q = q or _IN_TIME_OF.get(p, 3 if compound else 2)
            self._tuplet = (r or p, Fraction(q, p))

    def _take_grace(self, text: str) -> None:
        for found in NOTE.finditer(text):
            pitch = self._pitch(found[0], {})[1]
            if 0 <= pitch <= 127:
                self._graces.append(WrittenNote(0, 0, pitch, self._velocity, 0))
                self._written.count("notes", 1)

    def _take_text(self, text: str) -> None:
        if text[1:2] not in tuple("^_<>@"):
            chord = parse(text.strip('"'))
            if chord:
                self._shared.chords.append((self._tick, transposed(chord, self._shift)))

    def _take_sign(self, text: str) -> None:
        word = text[1:-1]
        self._velocity = DYNAMICS.get(word, self._velocity)
        if word in _SIGNS:
            self._shared.marks.add(_SIGNS[word])

    def _take_bars(self, text: str) -> None:
        bar = Fraction(*(self.metre or (4, 4)))
        for index in range(int(text[1:] or 1)):
            if index:
                self._close_bar()
            self._advance([], round(4 * TICKS_PER_BEAT * bar))

    def _take_overlay(self, _: str) -> None:
        self._is_overlaid = True
        self._written.remarks.append("Second voices within a bar (&) are left out.")

    def _take_field(self, text: str) -> None:
        self.field(text[1], text[3:-1].strip())

    def _bar_line(self, text: str, times: str | None) -> None:
        self._close_bar()
        before, _, after = text.partition("|") if "|" in text else (":", "", ":")
        if ":" in before and self.part.bars:
            self._written.bars[len(self.part.bars) - 1].backward = before.count(":") + 1
        if ":" in before or ":" in after or any(end in text for end in ("||", "|]", "[|")):
            self._endings = frozenset()
        self._shared.forward |= ":" in after
        if times:
            self._endings = times_of(times)

    def _close_bar(self) -> None:
        """End a bar, unless nothing precedes its bar line."""
        self._bar.notes += place_graces(self._graces, self._tick)
        if not self._bar.notes and not self._bar.length:
            self._begin_bar()
            return
        shared = self._written.enter_bar(len(self.part.bars))
        self.part.bars.append(self._bar)
        own, self._shared = self._shared, SharedBar()
        shared.time = own.time or shared.time
        shared.key_signature = own.key_signature or shared.key_signature
        shared.tempos += own.tempos
        shared.chords += own.chords
        shared.marks |= own.marks
        shared.forward |= own.forward
        shared.endings = self._endings or shared.endings
        self._begin_bar()


_TUNE = re.compile(r"^X:", re.MULTILINE)
_FIELD = re.compile(r"([A-Za-z+]):(?![|:])\s*(.*)")
_MIDI = re.compile(r"%%MIDI\s+(program|channel)(?:\s+(\d{1,3}))?\s+(\d{1,3})\s*(?:%.*)?$")
DRUM_CHANNEL = 10
CHOIR = 52  # the program of voices of a tune with words, if it names none
PIANOS = (0, 1)  # hymnals name them for all channels, since they are what plays
_NAME, _NICKNAME = (
    re.compile(rf'\b(?:{names})=(?:"([^"]{{1,60}})"|"?([^"\s]{{1,60}}))')
    for names in ("name|nm", "subname|sname|snm")
)
_VOICE_FIELDS = "MLQK"  # header fields that apply to all voices
_LONGEST_LINE = 20_000
LONGEST_TITLE = 80
_MOST_FIELDS = 1000  # in a header, since each voice reads all of them


def _text_of(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return (found[1] or found[2]) if found else ""


def tunes_of(data: bytes) -> tuple[str, list[str]]:
    """Split a file into the fields before the first tune, which apply to all tunes, and the tunes."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    starts = [found.start() for found in _TUNE.finditer(text)]
    if len(starts) < 2:
        return "", [text]
    head = "\n".join(line for line in text[: starts[0]].split("\n") if _FIELD.match(line))
    return head, [text[a:b] for a, b in zip(starts, [*starts[1:], len(text)], strict=True)]


def read_abc(data: bytes, limits: Limits, name: str, tune: int | None = None) -> Score:
    """Read a tune of a file, counted from 0, by default the first; raises MusicFileError."""
    head, tunes = tunes_of(data)
    wanted = tune or 0
    if not 0 <= wanted < len(tunes):
        raise MusicFileError(f"{name} holds {len(tunes)} tunes: there is no number {wanted + 1}")
    reader = _TuneReader(limits, name)
    for line in f"{head}\n{tunes[wanted]}".split("\n"):
        if len(line) > _LONGEST_LINE:
            raise MusicFileError(f"{name} has a line of {len(line):,} characters, unlike any tune")
        reader.take(line.strip())
    written = reader.close()
    if len(tunes) > 1 and tune is None:
        written.remarks.append(f"The file holds {len(tunes)} tunes: the first was read.")
    return played(written)


class _TuneReader:
    """Reads a tune line by line."""

    def __init__(self, limits: Limits, name: str) -> None:
        self._written = WrittenScore(limits, name)
        self._voices: dict[str, VoiceReader] = {}
        self._header: list[tuple[str, str]] = []
        self._in_header, self._has_ended = True, False
        self.program: int | None = None  # the default for voices
        self._programs: dict[int, int] = {}  # by channel
        self._voice: VoiceReader | None = None
        self._has_order = False  # whether the header has a `P:` field
        self._has_words = self._has_program = False

    def take(self, line: str) -> None:
        """Read a line."""
        if line.startswith("%%"):
            self._directive(line)
        if not line:  # the text after an empty line is not music
            self._has_ended = self._has_ended or not self._in_header
        line = re.sub(r"(?<!\\)%.*", "", line).rstrip("\\ ")
        field = _FIELD.match(line)
        if self._has_ended or not line:
            return
        if field:
            self._field(field[1], field[2].strip())
        elif not self._in_header:
            self._music(line)

    def close(self) -> WrittenScore:
        """Finish the voices and return the tune."""
        written = self._written
        programs = [
            self._program(number, voice) for number, voice in enumerate(self._voices.values())
        ]
        is_choir = len(programs) > 1 and self._has_words and not self._has_program
        for voice, program in zip(self._voices.values(), programs, strict=True):
            plays = (CHOIR if is_choir else 0) if program is None else program
            voice.track = replace(voice.track, program=plays)
            voice.close()
        if is_choir and None in programs:
            all_sing = {*programs} == {None}
            those = "they" if all_sing else "those without an instrument"
            written.remarks.append(f"Its voices have words: {those} are read as a choir.")
        if self._has_order:
            written.remarks.append("The order of its parts is not followed.")
        return written

    def _program(self, number: int, voice: VoiceReader) -> int | None:
        """Return the program of a voice by directives or its names; None without any.

        Voices have channels in turn, except that of the drums.
        """
        if voice.program is not None:
            return voice.program
        stated = self._programs.get(voice.channel or number + 1 + (number + 1 >= DRUM_CHANNEL))
        if voice.named is None:
            return None if stated in PIANOS else stated
        is_like = stated is not None and stated // 8 == voice.named // 8
        return stated if is_like else voice.named

    def _directive(self, line: str) -> None:
        found = _MIDI.match(line)
        if not found:
            return
        value = min(127, int(found[3]))
        if found[1] == "channel":
            if self._voice:
                self._voice.channel = value
        elif found[2]:
            self._programs[int(found[2])] = value
        else:
            self._has_program = True
            (self._voice or self).program = value

    def _field(self, name: str, text: str) -> None:
        if name == "V":
            self._open_voice(text)
        elif name == "P" and self._in_header:
            self._has_order = True
        elif name == "T":
            self._written.title = self._written.title or text[:LONGEST_TITLE]
        elif name == "C":
            self._written.composer = self._written.composer or text[:LONGEST_TITLE]
        elif name == "w" and not self._in_header:
            self._has_words = True
            self._current().words(text)
        elif name not in _VOICE_FIELDS:
            return
        elif self._in_header and len(self._header) >= _MOST_FIELDS:
            raise MusicFileError(
                f"{self._written.name} has a header of more than {_MOST_FIELDS} fields"
            )
        elif self._in_header:
            self._header.append((name, text))
            for voice in self._voices.values():  # declared above this field
                voice.field(name, text)
            self._in_header = name != "K"
        else:
            self._current().field(name, text)

    def _open_voice(self, text: str) -> None:
        key = (text.split() or [""])[0]
        if key not in self._voices:
            self._written.count("tracks", 1)
            voice = VoiceReader(self._written)
            self._written.parts.append(voice.part)
            name, nickname = (_text_of(one, text) for one in (_NAME, _NICKNAME))
            voice.track, voice.program = Track(name), self.program
            named = map(program_named, (name, nickname, key))
            voice.named = next((program for program in named if program is not None), None)
            for field in self._header:
                if field[0] != "Q" or not self._voices:  # only the first voice adds the tempo
                    voice.field(*field)
            self._voices[key] = voice
        self._voice = self._voices[key]
        self._voice.field("V", text)

    def _music(self, line: str) -> None:
        """Read a line of music, which can switch between voices."""
        if line.startswith(":") and line[1:2] not in (":", "|"):  # its bar line ends the line above
            line = f"|{line}"
        pieces = re.split(r"\[V:\s*([^\]]{1,60})\]", line)
        for index, piece in enumerate(pieces):
            if index % 2:
                self._open_voice(piece)
            elif piece:
                self._current().music(piece)

    def _current(self) -> VoiceReader:
        if self._voice is None:
            self._open_voice("")
        assert self._voice is not None
        return self._voice
