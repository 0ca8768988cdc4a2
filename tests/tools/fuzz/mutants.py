"""Damaged files of every format without end: each a pure function of a seed and its number."""

import re
from collections.abc import Callable
from pathlib import Path
from random import Random

from tests.tokenization.midi import files as midi_files
from tests.tokenization.notation.scores import compressed
from tokenization.formats import musicxml
from tokenization.midi.reading import read_midi

TESTS = Path(__file__).parents[2]
SEEDS, NOTATION = TESTS / "seeds", TESTS / "tokenization" / "notation"
FORMATS = (".mid", ".musicxml", ".mxl", ".abc")
TELLING_BYTES = (0x00, 0x01, 0x2F, 0x51, 0x7F, 0x80, 0x90, 0xB0, 0xC0, 0xF0, 0xF7, 0xFF)
TRACK = b"MTrk"
MOST_CHANGES = 4
SHORT_BYTES = 400  # of MIDI files that are seeds as scores, too, which are sixty times as long

Mutation = Callable[[bytearray, Random, list[bytes]], None]


def seed_files() -> dict[str, list[bytes]]:
    """Return the files that are damaged, by format: real ones, their beginnings, and some with what is odd and legal.

    Scores are those of our writer, and some with every sign that is read; a compressed one lies here as its text.
    """
    made = (midi_files.sixteen_channels(), midi_files.karaoke(), midi_files.drums_by_name())
    midi = [path.read_bytes() for path in sorted(SEEDS.glob("*.mid"))] + list(made)
    written = [musicxml(read_midi(file)) for file in midi if len(file) < SHORT_BYTES]
    scores = [*written, *(path.read_bytes() for path in sorted(SEEDS.glob("*.musicxml")))]
    tunes = [path.read_bytes() for path in sorted(SEEDS.glob("*.abc"))]
    return dict(zip(FORMATS, (midi, scores, scores, tunes), strict=True))


def format_of(number: int) -> str:
    """Return the format of a mutant: each comes in turn."""
    return FORMATS[number % len(FORMATS)]


def mutant(files: dict[str, list[bytes]], seed: int, number: int) -> bytes:
    """Return one damaged file; the same arguments give the same bytes on any machine.

    The shorter a file, the more often it is taken: of each, as many bytes are looked at. Of compressed scores, most are
    damaged before they are compressed.
    """
    random, kind = Random(f"{seed} {number}"), format_of(number)
    seeds = files[kind]
    data = bytearray(random.choices(seeds, [1 / len(file) for file in seeds])[0])
    is_packed = kind == ".mxl" and not random.randrange(4)
    if is_packed:
        data = bytearray(compressed(bytes(data)))
    if kind == ".mid":
        mutations = BYTES + CHUNKS
    else:  # most changes of a byte leave no XML
        mutations = BYTES if is_packed else random.choice((BYTES + SIGNS, SIGNS))
    for _ in range(random.randint(1, MOST_CHANGES)):
        random.choice(mutations)(data, random, seeds)
    return compressed(bytes(data)) if kind == ".mxl" and not is_packed else bytes(data)


def _place(data: bytearray, random: Random) -> int:
    return random.randrange(len(data) + 1)


def _flip_bit(data: bytearray, random: Random, _: list[bytes]) -> None:
    if data:
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)


def _set_byte(data: bytearray, random: Random, _: list[bytes]) -> None:
    if data:
        value = random.choice((random.randrange(256), random.choice(TELLING_BYTES)))
        data[random.randrange(len(data))] = value


def _insert(data: bytearray, random: Random, _: list[bytes]) -> None:
    place = _place(data, random)
    data[place:place] = bytes(random.choices(TELLING_BYTES, k=random.randint(1, 4)))


def _delete(data: bytearray, random: Random, _: list[bytes]) -> None:
    place = _place(data, random)
    del data[place : place + random.randint(1, 8)]


def _truncate(data: bytearray, random: Random, _: list[bytes]) -> None:
    del data[_place(data, random) :]


def _repeat(data: bytearray, random: Random, _: list[bytes]) -> None:
    """Double a piece, as long as an event or some."""
    place = _place(data, random)
    data[place:place] = data[place : place + random.randint(2, 40)] * random.randint(1, 20)


def _move(data: bytearray, random: Random, _: list[bytes]) -> None:
    place = _place(data, random)
    piece = data[place : place + random.randint(2, 40)]
    del data[place : place + len(piece)]
    place = _place(data, random)
    data[place:place] = piece


def _change_length(data: bytearray, random: Random, _: list[bytes]) -> None:
    """Falsify the length of a chunk."""
    place = data.find(TRACK, _place(data, random))
    if place >= 0:
        length = random.choice((random.randrange(256), random.randrange(1 << 32)))
        data[place + 4 : place + 8] = length.to_bytes(4, "big")


def _change_header(data: bytearray, random: Random, _: list[bytes]) -> None:
    """Falsify type, number of tracks or time division."""
    if len(data) >= 14:
        place = random.choice((8, 10, 12))
        value = random.choice((random.randrange(4), random.randrange(1 << 16)))
        data[place : place + 2] = value.to_bytes(2, "big")


def _splice(data: bytearray, random: Random, files: list[bytes]) -> None:
    """Put a chunk of another file before one of this, or after all."""
    other = random.choice(files)
    start = other.find(TRACK, random.randrange(len(other)))
    if start >= 0:
        place = data.find(TRACK, _place(data, random))
        place = place if place >= 0 else len(data)
        data[place:place] = other[start : start + 8 + random.randrange(len(other))]


# Of texts: what is changed is a sign, a line, or an element with all that is in it.

_ELEMENT = re.compile(rb"<([\w-]+)[^>]*?(?:/>|>.*?</\1>)", re.DOTALL)
_SIGN = re.compile(rb"[^\n]*\n|\[[^\]\n]*\]|\{[^}\n]*\}|\"[^\"\n]*\"|[A-Za-z][,'/\d]*|[|:]+|\S")
_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?")
EXTREMES = (*b"0 -1 1 2 99 9999 999999999 0.000000001 1e9".split(), b"9" * 400, b"")
MOST_COPIES = 300


def _span(data: bytes | bytearray, random: Random) -> tuple[int, int]:
    """Return where a sign, a line or an element begins and ends; where there is none any more, at the end."""
    place = random.randrange(len(data) + 1)
    if (found := _ELEMENT.search(data, place)) or (found := _SIGN.search(data, place)):
        return found.span()
    return len(data), len(data)


def _extreme_number(data: bytearray, random: Random, _: list[bytes]) -> None:
    if found := _NUMBER.search(data, random.randrange(len(data) + 1)):
        data[found.start() : found.end()] = random.choice(EXTREMES)


def _repeat_span(data: bytearray, random: Random, _: list[bytes]) -> None:
    start, stop = _span(data, random)
    data[start:start] = data[start:stop] * random.choice((1, 1, 2, 9, MOST_COPIES))


def _delete_span(data: bytearray, random: Random, _: list[bytes]) -> None:
    start, stop = _span(data, random)
    del data[start:stop]


def _swap_spans(data: bytearray, random: Random, _: list[bytes]) -> None:
    (start, stop), (after, end) = sorted(_span(data, random) for _ in range(2))
    if stop <= after:
        data[start:end] = data[after:end] + data[stop:after] + data[start:stop]


def _splice_span(data: bytearray, random: Random, files: list[bytes]) -> None:
    """Put a piece of another file here."""
    other, place = random.choice(files), _span(data, random)[0]
    start, stop = _span(other, random)
    data[place:place] = other[start:stop]


BYTES: tuple[Mutation, ...] = (_flip_bit, _set_byte, _insert, _delete, _truncate, _repeat, _move)
CHUNKS: tuple[Mutation, ...] = (_change_length, _change_header, _splice)
SIGNS: tuple[Mutation, ...] = (
    _extreme_number,
    _repeat_span,
    _delete_span,
    _swap_spans,
    _splice_span,
)
