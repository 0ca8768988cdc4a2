"""Small scores that are very much when they are played, or cost the square of their length: refused, or soon read."""

import pytest

import tokenization.notation.played
from tokenization.any_file import read_file
from tokenization.midi.limits import MidiError
from tokenization.notation.played import play_order, section_order
from tokenization.notation.written import Line

NOTE = "<note><pitch><step>C</step><octave>4</octave></pitch><duration>1</duration></note>"
TEMPO = '<direction><sound tempo="900"/></direction>'
HEAD = "X:1\nL:1/4\n"


def score(*parts: str) -> bytes:
    """Return a MusicXML score of parts, each given by what is in it."""
    named = "".join(f'<part id="P{n}">{part}</part>' for n, part in enumerate(parts))
    return f'<?xml version="1.0"?><score-partwise>{named}</score-partwise>'.encode()


def repeated(content: str) -> bytes:
    """Return a score of one bar that is played 2,000 times."""
    repeat = '<barline><repeat direction="backward" times="2000"/></barline>'
    return score(f"<measure>{NOTE}{content}{repeat}</measure>")


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (repeated(TEMPO * 200), "400,000 signs"),
        (
            repeated(
                "<harmony><root><root-step>C</root-step></root><kind>major</kind></harmony>" * 200
            ),
            "400,000 signs",
        ),
        (f"{HEAD}P:{'A' * 1000}\nK:C\nP:A\n{'[Q:900]' * 1000}C|\n".encode(), "1,000,000 signs"),
        ((HEAD + "L:1/4\n" * 1200 + "K:C\nC|\n").encode(), "1000 fields"),
        ((HEAD + "K:C\n" + "".join(f"V:{n}\nCZ9999Z9999\n" for n in range(20))).encode(), "bars"),
        (score(*["<measure/>" * 6000] * 60, f"<measure>{NOTE}</measure>"), "300,001 bars"),
    ],
)  # fmt: skip
def test_what_is_far_too_much_when_it_is_played_is_refused(data: bytes, what: str):
    with pytest.raises(MidiError, match=what):
        read_file(data, name="a")


@pytest.mark.parametrize("encoding", ["utf-7", "cp65001", "idna", "shift_jis", "euc-kr", "nobody"])
def test_a_score_in_letters_that_are_not_known_is_told_with_its_name(encoding: str):
    data = f'<?xml version="1.0" encoding="{encoding}"?><score-partwise/>'.encode()
    with pytest.raises(MidiError, match=r"^song\.xml "):
        read_file(data, name="song.xml")


def test_a_section_of_which_nothing_is_played_is_looked_through_once(monkeypatch):
    looked = []

    def counted(lines, most_bars):
        looked.append(len(lines))
        return play_order(lines, most_bars)

    monkeypatch.setattr(tokenization.notation.played, "play_order", counted)
    lines = [Line(section="A"), Line(section="B"), *(Line(endings=frozenset({2})) for _ in "abc")]
    assert section_order(lines, "BAAB" * 100, 1000) == [1, 0, 0, 1] * 100
    assert sum(looked) == len(lines)


def test_where_to_go_on_is_known_without_looking_through_all_bars():
    class Marks(set):
        asked = 0

        def __contains__(self, mark: object) -> bool:
            Marks.asked += 1
            return super().__contains__(mark)

    lines = [Line(marks=Marks({"tocoda"})) for _ in range(500)]
    lines[-1].marks = Marks({"dacapo"})
    assert len(play_order(lines, 2000)) == 1000
    assert Marks.asked < 20 * len(lines)


def test_an_ending_of_three_numbers_is_one():
    assert len(read_file(f"{HEAD}K:C\nC|[1-2-3 D:|\n".encode(), name="a").notes) > 1
