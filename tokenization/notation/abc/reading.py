"""Read a tune with all its voices from an ABC file."""

from __future__ import annotations

import re
from dataclasses import replace

from tokenization.midi.limits import Limits, MidiError
from tokenization.notation.abc.voice import VoiceReader
from tokenization.notation.played import played
from tokenization.notation.written import WrittenScore
from tokenization.score import Score, Track

_TUNE = re.compile(r"^X:", re.MULTILINE)
_FIELD = re.compile(r"([A-Za-z+]):(?![|:])\s*(.*)")
_PROGRAM = re.compile(r"%%MIDI\s+program(?:\s+\d+)?\s+(\d{1,3})\s*$")
_DRUMS = re.compile(r"%%MIDI\s+channel\s+10\s*$")
_NAME = re.compile(r'\b(?:name|nm)="?([^"\s]{1,60})')
_VOICE_FIELDS = "MLQK"  # header fields that apply to all voices
_LONGEST_LINE = 20_000
_MOST_FIELDS = 1000  # in a header, since each voice reads all of them


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
    """Read a tune of a file, counted from 0, by default the first; raises MidiError."""
    head, tunes = tunes_of(data)
    wanted = tune or 0
    if not 0 <= wanted < len(tunes):
        raise MidiError(f"{name} holds {len(tunes)} tunes: there is no number {wanted + 1}")
    reader = _TuneReader(limits, name)
    for line in f"{head}\n{tunes[wanted]}".split("\n"):
        if len(line) > _LONGEST_LINE:
            raise MidiError(f"{name} has a line of {len(line):,} characters, unlike any tune")
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
        self.track = Track()  # the default for voices
        self._voice: VoiceReader | None = None
        self._has_order = False  # whether the header has a `P:` field

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
        for voice in self._voices.values():
            voice.close()
        if self._has_order:
            written.remarks.append("The order of its parts is not followed.")
        return written

    def _directive(self, line: str) -> None:
        target = self if self._voice is None else self._voice
        if program := _PROGRAM.match(line):
            target.track = replace(target.track, program=min(127, int(program[1])))
        if _DRUMS.match(line):
            target.track = replace(target.track, is_drum=True)

    def _field(self, name: str, text: str) -> None:
        if name == "V":
            self._open_voice(text)
        elif name == "P" and self._in_header:
            self._has_order = True
        elif name not in _VOICE_FIELDS:
            return
        elif self._in_header and len(self._header) >= _MOST_FIELDS:
            raise MidiError(f"{self._written.name} has a header of more than {_MOST_FIELDS} fields")
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
            found = _NAME.search(text)
            voice.track = replace(self.track, name=found[1] if found else "")
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
