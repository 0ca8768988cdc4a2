"""Sources give parts to the ensemble language, and to the others what they always gave."""

from pathlib import Path

import numpy as np
import pytest

from tests.tokenization.notation.scores import bars, compressed, note, score
from tests.training.data.sources import on_disk as disk
from tokenization.ensemble.tokens import FLAT, STYLES
from tokenization.language import language
from tokenization.score import Score, Track
from training.data.sources import SOURCES
from training.data.sources.openscore import sung
from training.data.sources.pop909 import in_three_ways
from training.data.sources.source import joined, list_files

ENSEMBLE = language("ensemble")


def rows(name: str, folder: Path, spoken: str = "ensemble") -> list[Score]:
    """Return the rows of the first piece."""
    source = SOURCES[name]
    piece = source.find(list_files(folder), 0.05).pieces[0]
    return source.scores(piece, language(spoken))


def parts(found: list[Score]) -> list[list[str]]:
    return [[track.name for track in one.tracks] for one in found]


def test_styles_are_those_that_the_language_can_say():
    named = {name: source.style for name, source in SOURCES.items()}
    assert {*named.values()} <= {*STYLES, None}
    assert named["midi"] is None


def test_a_song_comes_in_three_ways_with_the_same_notes():
    song = disk.band(names=("Piano", "Guitar", "Strings"))
    tracks = (Track("MELODY"), Track("BRIDGE"), Track("PIANO"))
    song = ENSEMBLE.arrange(song.replace(tracks=tracks))
    found = in_three_ways(song)
    assert parts(found) == [["MELODY", "BRIDGE", "PIANO"], ["MELODY", "PIANO"], ["Piano"]]
    for one in found:
        assert np.array_equal(np.sort(one.notes.pitch), np.sort(song.notes.pitch))
        assert one.markers == song.markers


def test_a_song_with_one_melody_comes_in_two_ways():
    song = disk.band(names=("Piano", "Guitar")).replace(tracks=(Track("MELODY"), Track("PIANO")))
    assert parts(in_three_ways(song)) == [["MELODY", "PIANO"], ["Piano"]]


def test_nothing_is_joined_where_each_track_is_alone():
    assert joined(disk.band(names=("Piano", "Guitar")), [[0], [], [1]]) == []


def test_a_lied_has_a_voice_and_two_hands(tmp_path: Path):
    hands = bars(
        *(
            note("C", 5, 8, "<staff>1</staff>")
            + "<backup><duration>8</duration></backup>"
            + note(step, 3, 8, "<staff>2</staff>")
            for step in "CDEF"
        )
    )
    listed = "".join(
        f'<score-part id="P{n}"><part-name>{name}</part-name><score-instrument id="I{n}"/><midi-instrument id="I{n}">'
        f"<midi-program>{program}</midi-program></midi-instrument></score-part>"
        for n, (name, program) in enumerate((("Singstimme", 69), ("Piano", 1)), 1)
    )
    voice = bars(*(note(step, 4, 8) for step in "GABC"))
    (tmp_path / "lc1.mxl").write_bytes(compressed(score(voice, hands, listed=listed)))
    found = rows("lieder", tmp_path)
    assert parts(found) == [
        ["Singstimme", "Piano", "Piano (staff 2)"],
        ["Singstimme", "Piano"],
        ["Piano"],
    ]
    assert [track.program for track in found[0].tracks] == [52, 0, 0]
    assert all(FLAT in ENSEMBLE.encode(one).ids for one in found)  # it says nothing of loudness
    assert len(rows("lieder", tmp_path, "remi-2")) == 1


@pytest.mark.parametrize(
    ("name", "program", "heard"),
    [
        ("Singstimme Voice", 68, 52),
        ("Bass", 70, 52),
        ("Tenor", 0, 52),
        ("Mignon", 68, 52),
        ("Piano (staff 2)", 0, 0),
        ("Harmonium", 20, 20),
        ("Klavier", 0, 0),
        ("Viola", 41, 41),
        ("Clarinet in B", 71, 71),
        ("Violoncello solo", 42, 42),
        ("Bassoon", 70, 70),
    ],
)
def test_what_is_sung_is_a_voice(name: str, program: int, heard: int):
    tracks = (Track("Voice", 68), Track(name, program))
    assert sung(disk.band(names=("Piano", "Guitar")).replace(tracks=tracks)).tracks == (
        *(Track("Voice", 52), Track(name, heard)),
    )


def test_where_nobody_is_called_a_singer_the_first_part_sings():
    names = [("Piano", 0), ("Oboe", 68), ("Flute", 73)]
    tracks = tuple(Track(*one) for one in names)
    score = disk.band(names=("Piano", "Guitar", "Strings")).replace(tracks=tracks)
    assert [track.program for track in sung(score).tracks] == [0, 52, 73]
    assert sung(disk.piano()).tracks == (Track("piano", 0),)


def test_all_tracks_of_a_groove_are_parts(tmp_path: Path):
    found = rows("groove", disk.groove(tmp_path))
    assert parts(found) == [["Bass", "Drums", "Piano", "Guitar"]]
    assert len(rows("groove", tmp_path, "groove")) == 2


def test_editions_of_a_work_have_one_name(tmp_path: Path):
    source = SOURCES["polish-keyboard"]
    pieces = source.find(list_files(disk.polish_keyboard(tmp_path)), 0.05).pieces
    works = [piece.work for piece in pieces]
    assert works[0] == works[2]
    assert len({*works}) == 3


def test_movements_of_a_quartet_are_one_work(tmp_path: Path):
    head = "<work><work-title>String Quartet, Op. 1</work-title></work>"
    head += '<identification><creator type="composer">E. Mayer &amp; Co</creator></identification>'
    for number in range(2):
        data = score(bars(*(note(step, 4 + number, 8) for step in "CDEF")))
        data = data.replace(b"<part-list>", head.encode() + b"<part-list>")
        (tmp_path / f"sq{number}.mxl").write_bytes(compressed(data))
    source = SOURCES["quartets"]
    keys = [
        source.works(piece, source.scores(piece, ENSEMBLE)[0])
        for piece in source.find(list_files(tmp_path), 0.05).pieces
    ]
    assert keys == [["title co e mayer: string quartet op 1"]] * 2
