"""Damaged MIDI files without end: each a pure function of a seed and its number."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

from tests.tokenization.midi import files as midi_files

SEEDS = Path(__file__).parents[2] / "seeds"
TELLING_BYTES = (0x00, 0x01, 0x2F, 0x51, 0x7F, 0x80, 0x90, 0xB0, 0xC0, 0xF0, 0xF7, 0xFF)
TRACK = b"MTrk"
MOST_CHANGES = 4

Mutation = Callable[[bytearray, Random, list[bytes]], None]


def seed_files() -> list[bytes]:
    """Return the files that are damaged: real ones, their beginnings, and some with every oddity that is legal."""
    made = (midi_files.sixteen_channels(), midi_files.karaoke(), midi_files.drums_by_name())
    return [path.read_bytes() for path in sorted(SEEDS.glob("*.mid"))] + list(made)


def mutant(files: list[bytes], seed: int, number: int) -> bytes:
    """Return one damaged file; the same arguments give the same bytes on any machine.

    The shorter a file, the more often it is taken: of each, as many bytes are looked at.
    """
    random = Random(f"{seed} {number}")
    data = bytearray(random.choices(files, [1 / len(file) for file in files])[0])
    for _ in range(random.randint(1, MOST_CHANGES)):
        random.choice(MUTATIONS)(data, random, files)
    return bytes(data)


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


MUTATIONS: tuple[Mutation, ...] = (
    _flip_bit,
    _set_byte,
    _insert,
    _delete,
    _truncate,
    _repeat,
    _move,
    _change_length,
    _change_header,
    _splice,
)
