"""Chords over the notes of a MusicXML score sound with them."""

from tests.tokenization.notation.scores import bars, note, rest, score
from tokenization.midi.limits import GENEROUS
from tokenization.notation.musicxml.reading import read_musicxml


def chord(step: str, kind: str = "major", offset: str = "") -> str:
    return (
        f"<harmony><root><root-step>{step}</root-step></root><kind>{kind}</kind>{offset}</harmony>"
    )


def chords(*content: str) -> list[tuple[float, str]]:
    found = read_musicxml(score(bars(*content)), GENEROUS, "song")
    return [(marker.onset_ticks / found.ticks_per_beat, marker.text) for marker in found.markers]


def test_chords_of_a_transposing_instrument_are_moved_with_its_notes():
    clarinet = "<attributes><transpose><chromatic>-2</chromatic></transpose></attributes>"
    music = (
        chord("D") + note("D", 5, 4) + chord("B", "minor") + chord("A", "none") + note("A", 4, 4)
    )
    assert chords(clarinet + music) == [(0, "C_M"), (2, "A_m"), (2, "N")]


def test_a_chord_stands_as_far_from_its_place_as_it_says():
    later, before = "<offset>4</offset>", "<offset>-9</offset>"
    assert chords(rest(8), chord("C") + chord("G", offset=later) + note("C", 4, 8)) == [
        *((4, "C_M"), (6, "G_M"))
    ]
    assert chords(rest(2) + chord("C", offset=before) + note("C", 4, 6)) == [(0, "C_M")]
