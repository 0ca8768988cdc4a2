"""MusicXML is read as it is played."""

import pytest

from tests.tokenization.notation.scores import (
    bars,
    compressed,
    grace,
    heard,
    meters,
    note,
    rest,
    score,
)
from tokenization.limits import GENEROUS
from tokenization.notation.musicxml.reading import read_musicxml
from tokenization.notation.written import DYNAMICS, VELOCITY
from tokenization.score import Score

START, STOP = '<tie type="start"/>', '<tie type="stop"/>'
BACK = "<backup><duration>8</duration></backup>"
BACKWARD = '<barline location="right"><repeat direction="backward"/></barline>'
FORWARD = '<barline location="left"><repeat direction="forward"/></barline>'
P, FF = DYNAMICS["p"], DYNAMICS["ff"]
UPPER = note("C", 5, 8)


def read(data: bytes) -> Score:
    return read_musicxml(data, GENEROUS, "song")


def attributes(content: str) -> str:
    return f"<attributes>{content}</attributes>"


def transposed(content: str) -> str:
    return attributes(f"<transpose>{content}</transpose>")


def ending(number: int) -> str:
    return f'<barline><ending number="{number}" type="start"/></barline>'


def test_compressed_scores_read_the_same():
    plain = score(bars(note("C", 4, 8), note("E", 4, 8)), bars(rest(8), note("C", 3, 8)))
    found = read(plain)
    assert heard(found) == [(0, 4, 60), (4, 4, 64), (4, 4, 48)]
    assert [track.name for track in found.tracks] == ["part 1", "part 2"]
    assert heard(read(compressed(plain))) == heard(found)


@pytest.mark.parametrize(
    ("contents", "notes"),
    [
        # Voices, chords, and a last voice that ends early.
        (
            [
                note("C", 5, 4) + note("E", 5, 4, before="<chord/>") + note("G", 4, 4)
                + BACK + "<forward><duration>2</duration></forward>" + note("C", 4, 2),
                note("A", 4, 8),
            ],
            [(0, 2, 72), (0, 2, 76), (1, 1, 60), (2, 2, 67), (4, 4, 69)],
        ),
        # Ties join notes across bars; the end of a tie without a start, as in a second ending, is a note.
        (
            [
                rest(6) + note("C", 4, 2, START),
                note("C", 4, 8, STOP + START),
                note("C", 4, 2, STOP) + note("C", 4, 6),
                note("D", 4, 8, STOP),
            ],
            [(3, 6, 60), (9, 3, 60), (12, 4, 62)],
        ),
        # A note of another voice on a tied pitch is separate.
        (
            [note("C", 4, 8, START) + BACK + rest(6) + note("C", 4, 2), note("C", 4, 4, STOP) + rest(4)],
            [(0, 6, 60), (3, 1, 60)],
        ),
        # Grace notes and their chords precede the main note and take no time.
        (
            [
                note("C", 4, 4) + grace("B", 3) + note("C", 4, 4),
                grace("A", 3) + grace("C", 4, "<chord/>") + note("D", 4, 8) + grace("E", 4),
                note("C", 4, 8),
            ],
            [
                (0, 2, 60), (1.75, 0.25, 59), (2, 2, 60), (3.75, 0.125, 57), (3.875, 0.125, 60),
                (4, 4, 62), (7.75, 0.25, 64), (8, 4, 60),
            ],
        ),
        # A rest longer than its bar counts if no other part contradicts it.
        ([UPPER + rest(4), UPPER], [(0, 4, 72), (6, 4, 72)]),
        # A last ending without a stated end lasts until the next repeat.
        (
            [
                note("C", 4, 8),
                ending(1) + note("D", 4, 8) + BACKWARD,
                ending(2) + note("E", 4, 8),
                FORWARD + note("F", 4, 8) + BACKWARD,
                note("G", 4, 8),
            ],
            [(4 * n, 4, pitch) for n, pitch in enumerate([60, 62, 60, 64, 65, 65, 67])],
        ),
        # Transposing instruments are read at sounding pitch.
        ([transposed("<chromatic>-2</chromatic><octave-change>-1</octave-change>") + UPPER], [(0, 4, 58)]),
    ],
)  # fmt: skip
def test_music(contents: list[str], notes: list[tuple[float, float, int]]):
    assert heard(read(score(bars(*contents)))) == notes


def test_a_rest_too_long_in_one_part_is_ignored():
    found = read(score(bars(UPPER, UPPER), bars(rest(8) + rest(8), note("C", 4, 8))))
    assert heard(found) == [(0, 4, 72), (4, 4, 72), (4, 4, 60)]
    assert meters(found) == [(0, 4, 4)]


def test_a_part_that_rests_is_a_silent_track():
    found = read(score(bars(rest(8), rest(8)), bars(UPPER, UPPER), bars(rest(8), rest(8))))
    assert [track.sources for track in found.tracks] == [(0,), (1,), (2,)]
    assert {*found.notes.track.tolist()} == {1}


def test_tempos_dynamics_programs_and_chords():
    direction = (
        "<direction><direction-type><metronome><beat-unit>quarter</beat-unit><beat-unit-dot/>"
        "<per-minute>ca. 60</per-minute></metronome></direction-type></direction>"
        "<direction><direction-type><dynamics><p/></dynamics></direction-type></direction>"
        "<harmony><root><root-step>B</root-step><root-alter>-1</root-alter></root>"
        "<kind>minor-seventh</kind></harmony>"
    )
    later = '<sound tempo="100"/><direction><sound dynamics="110"/></direction>'
    listed = (
        '<score-part id="P1"><part-name>Oboe</part-name><score-instrument id="I1"><instrument-name>'
        'x</instrument-name></score-instrument><midi-instrument id="I1"><midi-channel>1</midi-channel>'
        "<midi-program>69</midi-program></midi-instrument></score-part>"
    )
    found = read(score(bars(direction + note("C", 4, 8), later + note("C", 4, 8)), listed=listed))
    assert found.tempos.beats_per_minute.tolist() == [90, 100]
    assert found.tempos.onset_ticks.tolist() == [0, 4 * found.ticks_per_beat]
    assert found.notes.velocity.tolist() == [50, 99]
    assert (found.tracks[0].name, found.tracks[0].program) == ("Oboe", 68)
    assert [marker.text for marker in found.markers] == ["Bb_m7"]


def test_drums_are_read_from_the_instrument_or_the_staff_position():
    listed = (
        '<score-part id="P1"><part-name>Kit</part-name>'
        '<score-instrument id="a"/><score-instrument id="b"/>'
        '<midi-instrument id="a"><midi-channel>10</midi-channel><midi-unpitched>37</midi-unpitched></midi-instrument>'
        '<midi-instrument id="b"><midi-channel>10</midi-channel><midi-unpitched>43</midi-unpitched></midi-instrument>'
        "</score-part>"
    )  # fmt: skip

    def hit(step: str, octave: int, named: str = "") -> str:
        return (
            f"<note><unpitched><display-step>{step}</display-step><display-octave>{octave}"
            f"</display-octave></unpitched><duration>2</duration>{named}</note>"
        )

    music = bars(
        hit("A", 3, '<instrument id="a"/>') + hit("A", 3, '<instrument id="b"/>') + hit("C", 5) + rest(2)
    )  # fmt: skip
    found = read(score(music, listed=listed))
    assert heard(found) == [(0, 1, 36), (1, 1, 42), (2, 1, 38)]
    assert [track.is_drum for track in found.tracks] == [True]


def test_tuplets_with_rounded_durations_stay_aligned():
    third, fifth = note("C", 4, 85), note("C", 4, 51)
    music = third * 2 + note("C", 4, 86) + fifth * 4 + note("C", 4, 52) + rest(512)
    found = read(score(bars(music, note("C", 4, 1024), divisions=256)))
    assert found.beats_known
    assert heard(found)[-1][:2] == (4, 4)
    assert [onset for onset, *_ in heard(found)][:3] == pytest.approx([0, 1 / 3, 2 / 3], abs=0.01)


def test_a_tie_in_a_tuplet_with_rounded_durations_joins():
    music = note("C", 4, 341) + note("D", 4, 341, START) + note("D", 4, 342, STOP) + rest(3072)
    found = heard(read(score(bars(music, divisions=1024))))
    assert [pitch for *_, pitch in found] == [60, 62]


def test_the_staves_of_a_part_become_tracks_on_request():
    hands = bars(
        note("C", 5, 8, "<staff>1</staff>") + BACK + note("C", 3, 8, "<staff>2</staff>"),
        note("E", 3, 4, "<tie type='start'/><staff>2</staff>")
        + note("E", 3, 4, "<tie type='stop'/><staff>1</staff>"),  # played in the track of its start
    )
    data = score(bars(note("G", 4, 8), rest(8)), hands)
    together, apart = read(data), read_musicxml(data, GENEROUS, "song", staves=True)
    assert [track.name for track in together.tracks] == ["part 1", "part 2"]
    assert [track.name for track in apart.tracks] == ["part 1", "part 2", "part 2 (staff 2)"]
    assert sorted(heard(apart)) == sorted(heard(together))
    assert heard(apart, 1) == [(0, 4, 72)]
    assert heard(apart, 2) == [(0, 4, 48), (4, 4, 52)]


def chord(step: str, kind: str = "major", offset: int = 0) -> str:
    root = f"<root><root-step>{step}</root-step></root>"
    place = f"<offset>{offset}</offset>" if offset else ""
    return f"<harmony>{root}<kind>{kind}</kind>{place}</harmony>"


@pytest.mark.parametrize(
    ("contents", "chords"),
    [
        (
            [
                transposed("<chromatic>-2</chromatic>")
                + chord("D")
                + note("D", 5, 4)
                + chord("B", "minor")
                + note("A", 4, 4)
            ],
            [(0, "C_M"), (2, "A_m")],
        ),
        ([chord("A", "none") + note("A", 4, 8)], [(0, "N")]),
        # Offsets of chords.
        ([rest(8), chord("C") + chord("G", offset=4) + note("C", 4, 8)], [(4, "C_M"), (6, "G_M")]),
        ([rest(2) + chord("C", offset=-9) + note("C", 4, 6)], [(0, "C_M")]),
    ],
)
def test_chords_are_transposed_and_placed(contents: list[str], chords: list[tuple[float, str]]):
    found = read(score(bars(*contents)))
    assert [(m.onset_ticks / found.ticks_per_beat, m.text) for m in found.markers] == chords


def mark(name: str) -> str:
    return f"<direction><direction-type><dynamics><{name}/></dynamics></direction-type></direction>"


LOUD = note("E", 5, 4).replace("<note>", '<note dynamics="50">')


@pytest.mark.parametrize(
    ("contents", "velocities"),
    [
        ([note("C", 5, 8)], [(0, 72, VELOCITY)]),
        # A mark late in a bar does not apply to the start of the other staff.
        (
            [
                mark("p") + note("C", 5, 6) + mark("ff") + note("C", 5, 2)
                + BACK + note("C", 3, 4) + note("C", 3, 2) * 2,
                note("D", 5, 8) + BACK + note("D", 3, 8),
            ],
            [(0, 48, P), (0, 72, P), (2, 48, P), (3, 48, FF), (3, 72, FF), (4, 50, FF), (4, 74, FF)],
        ),
        # A bar starts with the last dynamics in time, even if they are not the last in the file.
        (
            [
                note("C", 5, 4) + mark("ff") + note("C", 5, 4) + BACK + mark("p") + note("C", 3, 8),
                note("D", 5, 4) + mark("p") + note("D", 5, 4) + BACK + note("D", 3, 8),
            ],
            [(0, 48, P), (0, 72, P), (2, 72, FF), (4, 50, FF), (4, 74, FF), (6, 74, P)],
        ),
        # Grace notes have the dynamics of their main note; a note's own `dynamics` override the marks.
        (
            [note("C", 5, 4) + mark("p") + grace("D", 5) + LOUD + BACK + note("C", 3, 8)],
            [(0, 48, VELOCITY), (0, 72, VELOCITY), (1.75, 74, P), (2, 76, 45)],
        ),
    ],
)  # fmt: skip
def test_notes_follow_the_dynamics_before_them(contents: list[str], velocities):
    found = read(score(bars(*contents)))
    loud = zip(heard(found), found.notes.velocity.tolist(), strict=True)
    assert [(at, pitch, v) for (at, _, pitch), v in loud] == velocities
