"""The format of a file is detected from its content; hostile files are refused quickly and in a sentence."""

import io
import zipfile
from pathlib import Path

import pytest

from tests.tokenization.midi import files as make
from tests.tokenization.notation.scores import bars, compressed, note, rest, score
from tokenization.formats import kind_of, read_file
from tokenization.limits import UPLOAD, MusicFileError

TUNE = b"X:1\nT:tune\nM:4/4\nL:1/4\nK:C\nCDEF|G4|\n"
SONG = score(bars(note("C", 4, 8), note("E", 4, 4) + rest(4)))
ENTITIES = '<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>'
EXTERNAL = '<!DOCTYPE x [<!ENTITY secret SYSTEM "file:///etc/hostname">]>'
PARAMETER = '<!DOCTYPE x [<!ENTITY % more SYSTEM "http://127.0.0.1:9/more.dtd"> %more;]>'
STANDARD = (
    '<!DOCTYPE score-partwise PUBLIC "-//Recordare//DTD MusicXML 4.0 Partwise//EN" '
    '"http://www.musicxml.org/dtds/partwise.dtd">'
)


@pytest.mark.parametrize(
    ("data", "name", "notes"),
    [
        (make.midi(make.NOTE), "song.mid", 1),
        (SONG, "song.musicxml", 2),
        (SONG, "a title", 2),
        (SONG.decode().replace("?>", ' encoding="UTF-16"?>').encode("utf-16"), "song.xml", 2),
        (score(bars(note("C", 4, 8)), head=STANDARD), "song.xml", 1),
        (compressed(SONG), "a title", 2),
        (compressed(SONG, zipfile.ZIP_STORED), "SONG.MXL", 2),
        (TUNE, "a title", 5),
        (b"T:without a number\nK:C\nCDEF|", "a title", 4),
        ("X:1\nT:Für\nK:C\nCDEF|".encode("latin-1"), "tune.abc", 4),
    ],
)
def test_a_file_is_read_whatever_its_name(data: bytes, name: str, notes: int, tmp_path: Path):
    assert len(read_file(data, limits=UPLOAD, name=name).notes) == notes
    (tmp_path / name).write_bytes(data)
    assert len(read_file(tmp_path / name).notes) == notes
    assert (kind_of(data) == "midi") == data.startswith(b"MThd")


def test_a_suffix_decides_if_the_bytes_are_ambiguous():
    ambiguous = b"X:1\nT:no key\nCDEF|"
    with pytest.raises(MusicFileError, match=r"^“tune” ") as as_midi:
        read_file(ambiguous, name="“tune”")
    with pytest.raises(MusicFileError, match=r"^“tune” ") as as_abc:
        read_file(ambiguous, name="“tune”", suffix=".ABC")
    assert "MIDI" in str(as_midi.value)
    assert "MIDI" not in str(as_abc.value)


def packed(files: int) -> bytes:
    """Return a zip archive of empty files."""
    with zipfile.ZipFile(archive := io.BytesIO(), "w") as written:
        for number in range(files):
            written.writestr(zipfile.ZipInfo(str(number)), b"")  # with a constant date
    return archive.getvalue()


REPEAT = '<barline><repeat direction="backward" times="{}"/></barline>'
BOMB = compressed(b"<score-partwise>" + bytes(100 << 20))
ELEMENTS = compressed(b"<score-partwise><part><measure>" + b"<a/>" * 500_000)
EMPTY_BARS = b"<score-partwise><part>" + b"<measure/>" * 60_000 + b"</part></score-partwise>"


@pytest.mark.parametrize(
    ("data", "name", "sentence"),
    [
        (score(bars("&b;"), head=ENTITIES), "a.xml", "a.xml declares XML of its own"),
        (score(bars("&secret;"), head=EXTERNAL), "a.xml", "declares XML of its own"),
        (score(bars(""), head=PARAMETER), "a.xml", "declares XML of its own"),
        (b"<?xml version='1.0'?>" + b"<a>" * 100_000, "a.xml", "elements nested more than 64 deep"),
        (SONG[:200], "a.xml", "a.xml is damaged at line 1"),
        (b"<?xml version='1.0'?><html/>", "a.xml", "not a score in parts"),
        (score(bars(rest(8))), "a.xml", "contains no notes"),
        (score(bars(note("C", 4, 8) + REPEAT.format(10**8))), "a.xml", "more than 20,000 bars"),
        (score(bars(note("C", 4, 8) * 9 + REPEAT.format(9999))), "a.xml", "50,000 can be read"),
        (score(bars(note("C", 4, 10**8))), "a.xml", "beats, but at most 20,000"),
        (score(bars("<note><duration>many</duration></note>")), "a.xml", "damaged in bar 1: dur"),
        (score(bars(note("C", 4, 8), divisions=0)), "a.xml", "divisions is 0"),
        (EMPTY_BARS, "a.xml", "20,001 beats, but at most 20,000"),
        (BOMB, "a.mxl", "unpacks to more than the 16,777,216 bytes"),
        (ELEMENTS, "a.mxl", "more than 450,000 elements"),
        (compressed(SONG)[:-30], "a.mxl", "a.mxl is a damaged zip archive"),
        (packed(1), "a.mxl", "a zip archive without a score in it"),
        (packed(2000), "a.mxl", "an archive of 2,000 files"),
        (compressed(SONG, zipfile.ZIP_LZMA), "a.mxl", "of an unknown kind"),
        (b"ID3\x04" + bytes(100), "a.mxl", "damaged"),
        (b"", "a.abc", "is empty"),
        (b"words", "a.abc", "contains no notes"),
        (b"K:C\n" + b"c" * 30_000, "a.abc", "a line of 30,000 characters"),
        (b"K:C\n" + b"Z9999|" * 4, "a.abc", "beats, but at most 20,000"),
        (b"K:C\n" + b"".join(b"[V:%d]c|" % n for n in range(99)), "a.abc", "65 tracks"),
        (bytes(2 << 20), "a.abc", "is larger than the 1,048,576 bytes"),
    ],
)
def test_bad_files_are_refused(data: bytes, name: str, sentence: str):
    with pytest.raises(MusicFileError, match=sentence) as caught:
        read_file(data, limits=UPLOAD, name=name)
    assert "\n" not in str(caught.value)
