"""Hostile files, which could take minutes or gigabytes, are read or refused within the bounds of SECURITY.md."""

from pathlib import Path

import pytest

from tests.tokenization.midi import files as make
from tests.tokenization.notation.scores import HARMONY, bars, compressed, score
from tokenization.formats import musicxml, read_file
from tokenization.limits import UPLOAD, MusicFileError
from tokenization.workers import Bounds, Failed, in_order

SECONDS, MEMORY_BYTES = 2, 1 << 30  # SECURITY.md, first table
TRIES = 3  # a busy machine can double the processor time
FOLDER = Path(__file__).parent / "attacks"
TUNE = "X:1\nL:1/8\nK:C\n"


def lines(unit: str, size: int = UPLOAD.bytes - 1000) -> str:
    """Return a megabyte of repeated text, in lines that are short enough to be read."""
    line = unit * (19_000 // len(unit)) + "\n"
    return line * (size // len(line))


# MIDI tracks: the first bytes, the bytes repeated after them, and the number of repetitions.
ENDLESS = {
    "notes that never end": (b"\x00\x90\x3c\x40", b"\x00\x3c\x40", 170_000),
    "odd text": (b"\x00\x90\x3c\x40\x01\x3c\x00", b"\x00\xff\x06\x01\x83", 100_000),
    "a number without end": (b"", b"\xff", 500_000),
    "messages that do not end": (b"", b"\xf0\x81\x81\x01", 130_000),
    "programs": (b"\x00\xc0\x05", b"\x00\x05", 260_000),
    "silences": (
        b"".join(make.on(0, pitch, 64, channel) for channel in range(15) for pitch in range(128))
        + make.event(0, 0xBF, 123, 0),
        b"\x00\x7b\x00",
        160_000,
    ),
    "notes on one key": (b"\x00\x90\x3c\x40", b"\x00\x3c\x00\x00\x3c\x40", 170_000),
}
# Attacks that are too large to store as files.
GENERATED = {
    "harmonies.mxl": compressed(score(bars(*[HARMONY * 4900] * 40))),
    "rests.mxl": compressed(score(bars(*["<note><rest/></note>" * 9900] * 40))),
    **{
        f"{name}.abc": text.encode()
        for name, text in {
            "brackets": TUNE + lines("["),
            "braces": TUNE + lines("{"),
            "graces": TUNE + f"{{{'C' * 190}}}C|\n" * 5000,
            "overlays": f"{TUNE}C{lines('z&', 500_000)}|{lines('z&', 500_000)}",
            "rhythms": f"{TUNE}C{lines('>>>')}",
            "ties": TUNE + "[C-D-E-F-G-A-B-c-d-e-f-g-a-b-c'-d'-e'-]|\n" * 19_700,
            "tunes": "M:4/4\n" * 80_000 + "X:1\n" * 130_000 + "K:C\nC",
        }.items()
    },
    **{
        f"{name}.mid": make.midi(make.chunk(b"MTrk", head + repeated * times))
        for name, (head, repeated, times) in ENDLESS.items()
    },
}
ATTACKS = {path.name: path.read_bytes() for path in sorted(FOLDER.iterdir())} | GENERATED
REFUSED = {
    "attlist_full.mxl": "declares XML of its own",
    "instruments.mxl": "30,000 tracks",
    "long_bar.abc": "3,959,605 beats",
    "tiny_divisions.musicxml": "beats, but at most 20,000",
    "tree.mxl": "more than 450,000 elements",
    "harmonies.mxl": "more than 450,000 elements",
    "graces.abc": "notes, but at most 50,000",
    "odd text.mid": "signs, but at most 50,000",
}


def outcome(attack: tuple[str, bytes]) -> str:
    """Read a file and write it as MusicXML; describe the result."""
    name, data = attack
    try:
        score = read_file(data, limits=UPLOAD, name=name)
    except MusicFileError as error:
        return f"refused: {error}"
    return f"read; written in {len(musicxml(score)) >> 20} MB"


def test_each_is_read_or_refused_within_two_seconds_and_a_gigabyte():
    bounds = Bounds(seconds=SECONDS, memory_bytes=MEMORY_BYTES)
    results: dict[str, str | Failed] = {}
    for _ in range(TRIES):
        left = {name: ATTACKS[name] for name in ATTACKS if not isinstance(results.get(name), str)}
        found = in_order(outcome, left.items(), workers=1, bounds=bounds)
        results |= dict(zip(left, found, strict=True))
    assert {name: found for name, found in results.items() if not isinstance(found, str)} == {}
    wrong = {name: results[name] for name, why in REFUSED.items() if why not in str(results[name])}
    assert wrong == {}


def test_a_broken_rhythm_applies_once():
    """Repeated signs on one note could otherwise produce ever larger integers."""
    tunes = (f"{TUNE}C{signs}D|".encode() for signs in (">>>", ">>> " * 9))
    once, often = (read_file(data, name="a") for data in tunes)
    assert often.notes == once.notes


@pytest.mark.parametrize("offset", [-999999999, 999999999])
def test_a_chord_with_a_huge_offset_is_no_error(offset: int):
    far = HARMONY.replace("</kind>", f"</kind><offset>{offset}</offset>")
    note = "<note><pitch><step>C</step><octave>4</octave></pitch><duration>0.000000001</duration></note>"
    found = read_file(score(bars(note + far, divisions="0.000000001")), name="a")  # type: ignore[arg-type]
    assert len(found.notes) == 1
