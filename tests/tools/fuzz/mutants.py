"""Damaged files of every format; each is a pure function of a seed and its number."""

import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from random import Random

from tests.tokenization.midi import files as midi_files
from tests.tokenization.notation.scores import compressed
from tokenization.formats import musicxml
from tokenization.midi.reading import read_midi
from tokenization.score import excerpt

SEEDS = Path(__file__).parents[2] / "seeds"
FORMATS = (".mid", ".musicxml", ".mxl", ".abc")
TELLING_BYTES = (0x00, 0x01, 0x2F, 0x51, 0x7F, 0x80, 0x90, 0xB0, 0xC0, 0xF0, 0xF7, 0xFF)
TRACK = b"MTrk"
MOST_CHANGES = 4
SHORT_BYTES = 400  # MIDI files up to here are also seeds as MusicXML
BEATS = 2  # of these

Find = Callable[[bytes | bytearray, Random], tuple[int, int]]  # start and end of a piece
Mutation = Callable[[bytearray, Random, Find, list[bytes]], None]


def seed_files() -> dict[str, list[bytes]]:
    """Return the seeds by format: beginnings of real files, and files that are unusual but valid.

    They are short, so that most changes hit what occurs once, and little is looked at in vain. Scores come from our
    writer, and some use every element that is read. Compressed scores are stored as text.
    """
    made = (midi_files.sixteen_channels(), midi_files.karaoke(), midi_files.drums_by_name())
    midi = [path.read_bytes() for path in sorted(SEEDS.glob("*_short.mid"))] + list(made)
    scores = [_first_beats(file) for file in midi if len(file) < SHORT_BYTES]
    scores += [path.read_bytes() for path in sorted(SEEDS.glob("*.musicxml"))]
    tunes = [path.read_bytes() for path in sorted(SEEDS.glob("*.abc"))]
    return dict(zip(FORMATS, (midi, scores, scores, tunes), strict=True))


def _first_beats(file: bytes) -> bytes:
    """Return the first bars with notes of a MIDI file as MusicXML, without the spaces between its elements."""
    score = read_midi(file)
    first = int(score.notes.onset_ticks.min())
    written = musicxml(excerpt(score, first, first + BEATS * score.ticks_per_beat))
    return re.sub(rb">\s+<", b"><", written)


def format_of(number: int) -> str:
    """Return the format of a mutant; the formats take turns."""
    return FORMATS[number % len(FORMATS)]


def mutant(files: dict[str, list[bytes]], seed: int, number: int) -> bytes:
    """Return a damaged file; the same arguments give the same bytes on any machine.

    Seeds are drawn with weights inverse to their length. Most compressed scores are damaged before compression.
    """
    random, kind = Random(f"{seed} {number}"), format_of(number)
    seeds = files[kind]
    data = bytearray(random.choices(seeds, [1 / len(file) for file in seeds])[0])
    is_packed = kind == ".mxl" and not random.randrange(4)
    if is_packed:
        data = bytearray(compressed(bytes(data)))
    if kind == ".mid":
        mutations, finds = BYTES + MIDI + PIECES, (_some_bytes, _chunk)
    elif is_packed or not random.randrange(3):
        mutations, finds = BYTES + PIECES, (_some_bytes,)
    else:  # most byte changes break the XML
        mutations, finds = (_extreme_number, *PIECES), (_sign,)
    for _ in range(random.randint(1, MOST_CHANGES)):
        random.choice(mutations)(data, random, random.choice(finds), seeds)
    if kind == ".mid" and random.randrange(2):
        _mend(data)
    return compressed(bytes(data)) if kind == ".mxl" and not is_packed else bytes(data)


# Pieces: some bytes, a chunk, or of text a token, a line or an element with its contents.

_ELEMENT = re.compile(rb"<([\w-]+)[^>]*?(?:/>|>.*?</\1>)", re.DOTALL)
_SIGN = re.compile(rb"[^\n]*\n|\[[^\]\n]*\]|\{[^}\n]*\}|\"[^\"\n]*\"|[A-Za-z][,'/\d]*|[|:]+|\S")
_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?")
EXTREMES = (*b"0 -1 1 2 99 9999 999999999 0.000000001 1e9".split(), b"9" * 400, b"")
MOST_COPIES, MOST_REPEATED = 300, 1000  # copies; bytes of a piece with many copies


def _place(data: bytes | bytearray, random: Random) -> int:
    return random.randrange(len(data) + 1)


def _some_bytes(data: bytes | bytearray, random: Random) -> tuple[int, int]:
    place = _place(data, random)
    return place, min(len(data), place + random.randint(1, 40))


def _chunk(data: bytes | bytearray, random: Random) -> tuple[int, int]:
    """Return the start of a chunk and a later offset; the end of the data if no chunk follows."""
    start = data.find(TRACK, _place(data, random))
    return (start, random.randint(start, len(data))) if start >= 0 else (len(data), len(data))


def _sign(data: bytes | bytearray, random: Random) -> tuple[int, int]:
    place = _place(data, random)
    if (found := _ELEMENT.search(data, place)) or (found := _SIGN.search(data, place)):
        return found.span()
    return len(data), len(data)


def _repeat(data: bytearray, random: Random, find: Find, _: list[bytes]) -> None:
    start, stop = find(data, random)
    copies = random.choice((1, 1, 2, 9, MOST_COPIES)) if stop - start < MOST_REPEATED else 1
    data[start:start] = data[start:stop] * copies


def _delete(data: bytearray, random: Random, find: Find, _: list[bytes]) -> None:
    start, stop = find(data, random)
    del data[start:stop]


def _move(data: bytearray, random: Random, find: Find, _: list[bytes]) -> None:
    start, stop = find(data, random)
    piece = data[start:stop]
    del data[start:stop]
    place = find(data, random)[0]
    data[place:place] = piece


def _splice(data: bytearray, random: Random, find: Find, files: list[bytes]) -> None:
    """Insert a piece of another file."""
    other, place = random.choice(files), find(data, random)[0]
    start, stop = find(other, random)
    data[place:place] = other[start:stop]


def _change_byte(data: bytearray, random: Random, *_: object) -> None:
    if data:
        place = random.randrange(len(data))
        flipped = data[place] ^ 1 << random.randrange(8)
        data[place] = random.choice((flipped, random.randrange(256), random.choice(TELLING_BYTES)))


def _insert(data: bytearray, random: Random, *_: object) -> None:
    place = _place(data, random)
    data[place:place] = bytes(random.choices(TELLING_BYTES, k=random.randint(1, 4)))


def _truncate(data: bytearray, random: Random, *_: object) -> None:
    del data[_place(data, random) :]


def _change_length(data: bytearray, random: Random, *_: object) -> None:
    """Falsify the length of a chunk."""
    place = data.find(TRACK, _place(data, random))
    if place >= 0:
        length = random.choice((random.randrange(256), random.randrange(1 << 32)))
        data[place + 4 : place + 8] = length.to_bytes(4, "big")


def _change_header(data: bytearray, random: Random, *_: object) -> None:
    """Falsify type, number of tracks or time division."""
    if len(data) >= 14:
        place = random.choice((8, 10, 12))
        value = random.choice((random.randrange(4), random.randrange(1 << 16)))
        data[place : place + 2] = value.to_bytes(2, "big")


def _mend(data: bytearray) -> None:
    """Correct the number of the tracks and their lengths, without which no file is written back."""
    starts = [found.start() for found in re.finditer(TRACK, data)]
    for start, stop in pairwise([*starts, len(data)]):
        data[start + 4 : start + 8] = max(0, stop - start - 8).to_bytes(4, "big")
    if len(data) >= 14:
        data[10:12] = (len(starts) % (1 << 16)).to_bytes(2, "big")


def _extreme_number(data: bytearray, random: Random, *_: object) -> None:
    if found := _NUMBER.search(data, _place(data, random)):
        data[found.start() : found.end()] = random.choice(EXTREMES)


PIECES: tuple[Mutation, ...] = (_repeat, _delete, _move, _splice)
BYTES: tuple[Mutation, ...] = (_change_byte, _insert, _truncate)
MIDI: tuple[Mutation, ...] = (_change_length, _change_header)
