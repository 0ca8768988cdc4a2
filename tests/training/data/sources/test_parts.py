"""Sources give parts to the ensemble language, and to the others what they always gave."""

from pathlib import Path

import numpy as np

from tests.tokenization.notation.scores import bars, compressed, note, score
from tests.training.data.sources import on_disk as disk
from tokenization.ensemble.tokens import FLAT, STYLES
from tokenization.language import language
from tokenization.score import Score, Track
from training.data.sources import SOURCES
from training.data.sources.pop909 import in_three_ways
from training.data.sources.source import joined, list_files

ENSEMBLE = language("ensemble")


def parts(found: list[Score]) -> list[list[str]]:
    return [[track.name for track in one.tracks] for one in found]


def test_styles_are_those_that_the_language_can_say():
    named = {name: source.style for name, source in SOURCES.items()}
    assert {*named.values()} <= {*STYLES, None}
    assert named["midi"] is None


def test_song_comes_in_as_many_ways_as_it_has_parts_with_the_same_notes():
    tracks = (Track("MELODY"), Track("BRIDGE"), Track("PIANO"))
    band = disk.band(names=("Piano", "Guitar", "Strings")).replace(tracks=tracks)
    found = in_three_ways(ENSEMBLE.arrange(band))
    assert parts(found) == [["MELODY", "BRIDGE", "PIANO"], ["MELODY", "PIANO"], ["Piano"]]
    for one in found:
        assert np.array_equal(np.sort(one.notes.pitch), np.sort(band.notes.pitch))
        assert one.markers == ENSEMBLE.arrange(band).markers
    duo = disk.band(names=("Piano", "Guitar"))
    assert parts(in_three_ways(duo.replace(tracks=tracks[::2]))) == [["MELODY", "PIANO"], ["Piano"]]
    assert joined(duo, [[0], [], [1]]) == []  # each track is alone


def test_lied_has_a_voice_and_two_hands(tmp_path: Path):
    high = note("C", 5, 8, "<staff>1</staff>") + "<backup><duration>8</duration></backup>"
    hands = bars(*(high + note(step, 3, 8, "<staff>2</staff>") for step in "CDEF"))
    listed = "".join(
        f'<score-part id="P{n}"><part-name>{name}</part-name><score-instrument id="I{n}"/><midi-instrument id="I{n}">'
        f"<midi-program>{program}</midi-program></midi-instrument></score-part>"
        for n, (name, program) in enumerate((("Singstimme", 69), ("Piano", 1)), 1)
    )
    voice = bars(*(note(step, 4, 8) for step in "GABC"))
    (tmp_path / "lc1.mxl").write_bytes(compressed(score(voice, hands, listed=listed)))
    lieder = SOURCES["lieder"]
    found = lieder.scores(lieder.find(list_files(tmp_path), 0.05).pieces[0], ENSEMBLE)
    whole = ["Singstimme", "Piano", "Piano (staff 2)"]
    assert parts(found) == [whole, ["Singstimme", "Piano"], ["Piano"]]
    assert [track.program for track in found[0].tracks] == [52, 0, 0]
    assert all(FLAT in ENSEMBLE.encode(one).ids for one in found)  # it says nothing of loudness
