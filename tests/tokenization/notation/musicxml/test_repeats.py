"""Endings of a MusicXML score end, whether they say so or not."""

from tests.tokenization.notation.scores import bars, heard, note, score
from tokenization.midi.limits import GENEROUS
from tokenization.notation.musicxml.reading import read_musicxml

BACK = '<barline location="right"><repeat direction="backward"/></barline>'
FORWARD = '<barline location="left"><repeat direction="forward"/></barline>'


def ending(number: int, kind: str = "start") -> str:
    return f'<barline><ending number="{number}" type="{kind}"/></barline>'


def test_a_last_ending_that_nothing_closes_ends_with_the_next_repeat():
    music = [
        note("C", 4, 8),
        ending(1) + note("D", 4, 8) + BACK,
        ending(2) + note("E", 4, 8),
        FORWARD + note("F", 4, 8) + BACK,
        note("G", 4, 8),
    ]
    found = read_musicxml(score(bars(*music)), GENEROUS, "song")
    assert [pitch for *_, pitch in heard(found)] == [60, 62, 60, 64, 65, 65, 67]
