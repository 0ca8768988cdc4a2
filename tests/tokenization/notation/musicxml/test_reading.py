"""MusicXML reads as it is played."""

import warnings

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
    time,
)
from tokenization.midi.limits import GENEROUS
from tokenization.notation.musicxml.reading import read_musicxml
from tokenization.notation.written import DYNAMICS, VELOCITY
from tokenization.score import Score

START, STOP = '<tie type="start"/>', '<tie type="stop"/>'
BACK = "<backup><duration>8</duration></backup>"
BACKWARD = '<barline location="right"><repeat direction="backward"/></barline>'
FORWARD = '<barline location="left"><repeat direction="forward"/></barline>'
P, FF = DYNAMICS["p"], DYNAMICS["ff"]


def read(data: bytes) -> Score:
    return read_musicxml(data, GENEROUS, "song")


def test_a_score_compressed_or_not_and_timewise_is_one():
    plain = score(bars(note("C", 4, 8), note("E", 4, 8)), bars(rest(8), note("C", 3, 8)))
    timewise = (
        b"<score-timewise><part-list><score-part id='P1'><part-name>part 1</part-name></score-part>"
        b"<score-part id='P2'><part-name>part 2</part-name></score-part></part-list>"
        + b"".join(
            f'<measure number="{n}"><part id="P1">{a}</part><part id="P2">{b}</part></measure>'.encode()
            for n, a, b in (
                (1, "<attributes><divisions>2</divisions></attributes>" + note("C", 4, 8),
                 "<attributes><divisions>2</divisions></attributes>" + rest(8)),
                (2, note("E", 4, 8), note("C", 3, 8)),
            )
        )
        + b"</score-timewise>"
    )  # fmt: skip
    found = read(plain)
    assert heard(found) == [(0, 4, 60), (4, 4, 64), (4, 4, 48)]
    assert [track.name for track in found.tracks] == ["part 1", "part 2"]
    assert heard(read(compressed(plain))) == heard(read(timewise)) == heard(found)


def test_voices_chords_and_a_last_voice_that_ends_early_move_nothing():
    first = (
        note("C", 5, 4) + note("E", 5, 4, before="<chord/>") + note("G", 4, 4)
        + BACK + "<forward><duration>2</duration></forward>"
        + note("C", 4, 2)
    )  # fmt: skip
    found = read(score(bars(first, note("A", 4, 8))))
    assert heard(found) == [(0, 2, 72), (0, 2, 76), (1, 1, 60), (2, 2, 67), (4, 4, 69)]


def test_ties_join_across_bars_and_end_where_they_end():
    first = rest(6) + note("C", 4, 2, START)
    third = note("C", 4, 2, STOP) + note("C", 4, 6)
    # A tie that begins nowhere, as in a second ending, is a note.
    found = read(score(bars(first, note("C", 4, 8, STOP + START), third, note("D", 4, 8, STOP))))
    assert heard(found) == [(3, 6, 60), (9, 3, 60), (12, 4, 62)]


def test_another_voice_on_a_tied_pitch_is_its_own_note():
    first = note("C", 4, 8, START) + BACK + rest(6) + note("C", 4, 2)
    found = read(score(bars(first, note("C", 4, 4, STOP) + rest(4))))
    assert heard(found) == [(0, 6, 60), (3, 1, 60)]


def test_grace_notes_and_chords_of_them_sound_before_their_note_and_move_nothing():
    found = read(
        score(
            bars(
                note("C", 4, 4) + grace("B", 3) + note("C", 4, 4),
                grace("A", 3) + grace("C", 4, "<chord/>") + note("D", 4, 8) + grace("E", 4),
                note("C", 4, 8),
            )
        )
    )
    assert heard(found) == [
        (0, 2, 60), (1.75, 0.25, 59), (2, 2, 60), (3.75, 0.125, 57), (3.875, 0.125, 60), (4, 4, 62),
        (7.75, 0.25, 64), (8, 4, 60),
    ]  # fmt: skip


def test_a_pickup_ends_a_bar_also_where_it_is_repeated():
    found = read(score(bars(note("G", 4, 2), note("C", 5, 6), note("C", 5, 4) + BACKWARD, beats=3)))
    assert heard(found) == [
        (2, 1, 67), (3, 3, 72), (6, 2, 72), (8, 1, 67), (9, 3, 72), (12, 2, 72),
    ]  # fmt: skip
    assert meters(found) == [(0, 3, 4)]


def test_metres_change_at_their_bars_and_odd_bars_are_as_they_are():
    change = f"<attributes>{time(6, 8)}</attributes>"
    found = read(
        score(bars(note("C", 4, 8), note("C", 4, 4), note("C", 4, 8), change + note("C", 4, 6), note("C", 4, 6)))
    )  # fmt: skip
    assert meters(found) == [(0, 4, 4), (4, 2, 4), (6, 4, 4), (10, 6, 8)]
    assert [onset for onset, *_ in heard(found)] == [0, 4, 6, 10, 13]


def test_a_rest_that_is_longer_than_its_bar_moves_nothing():
    upper, lower = note("C", 5, 8), rest(8) + rest(8)
    found = read(score(bars(upper, upper), bars(lower, note("C", 4, 8))))
    assert heard(found) == [(0, 4, 72), (4, 4, 72), (4, 4, 60)]
    assert meters(found) == [(0, 4, 4)]
    alone = read(score(bars(note("C", 5, 8) + rest(4), upper)))  # whom nobody contradicts
    assert [onset for onset, *_ in heard(alone)] == [0, 6]


SUM = "<time>" + 2 * "<beats>{}</beats><beat-type>{}</beat-type>" + "</time>"


@pytest.mark.parametrize(
    ("written", "metre"),
    [
        (time("3+2", 8), (5, 8)),
        (SUM.format(2, 4, 3, 8), (7, 8)),
        ("<time><senza-misura/></time>", (4, 4)),
    ],
)
def test_times(written: str, metre: tuple[int, int]):
    attributes = f"<attributes><divisions>2</divisions>{written}</attributes>"
    content = note("C", 4, metre[0] * 8 // metre[1])
    found = read(score(f"<measure>{attributes}{content}</measure>"))
    assert meters(found) == [(0, *metre)]


def test_transposing_instruments_sound_where_they_sound():
    transpose = (
        "<attributes><transpose><chromatic>-2</chromatic><octave-change>-1</octave-change>"
        "</transpose></attributes>"
    )
    found = read(score(bars(transpose + note("C", 5, 8)), bars(note("C", 5, 8))))
    assert heard(found) == [(0, 4, 58), (0, 4, 72)]


@pytest.mark.parametrize(("double", "octave"), [("<double/>", -12), ('<double above="yes"/>', 12)])
def test_a_doubled_part_sounds_as_written_and_an_octave_away(double: str, octave: int):
    transpose = f"<attributes><transpose><chromatic>0</chromatic>{double}</transpose></attributes>"
    music = bars(transpose + grace("D", 4) + note("C", 4, 8, START), note("C", 4, 8, STOP))
    assert sorted(heard(read(score(music)))) == sorted(
        (at, lasts, pitch + doubled)
        for at, lasts, pitch in heard(
            read(score(bars(grace("D", 4) + note("C", 4, 8, START), note("C", 4, 8, STOP))))
        )
        for doubled in (0, octave)
    )


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


def test_drums_are_those_that_the_kit_names_or_the_staff_shows():
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


def test_tuplets_that_no_division_holds_stay_together():
    third, fifth = note("C", 4, 85), note("C", 4, 51)
    music = bars(
        third * 2 + note("C", 4, 86) + fifth * 4 + note("C", 4, 52) + rest(512), divisions=256
    )
    found = read(score(music + "<measure>" + note("C", 4, 1024) + "</measure>"))
    assert found.beats_known
    assert heard(found)[-1][:2] == (4, 4)
    assert [onset for onset, *_ in heard(found)][:3] == pytest.approx([0, 1 / 3, 2 / 3], abs=0.01)


def test_a_tie_within_a_tuplet_that_no_division_holds_joins():
    music = bars(
        note("C", 4, 341) + note("D", 4, 341, START) + note("D", 4, 342, STOP) + rest(3072),
        divisions=1024,
    )
    assert [pitch for *_, pitch in heard(read(score(music)))] == [60, 62]


def test_equal_to_music21(tmp_path):
    """A score with all of it is what another library reads, repeats unfolded and ties joined."""
    import music21

    change = f"<attributes>{time(2, 4)}</attributes>"
    chord = note("C", 5, 2) + note("E", 5, 2, before="<chord/>") + note("G", 4, 4, START)
    second = note("G", 4, 2, STOP) + note("A", 4, 4) + BACKWARD
    upper = bars(FORWARD + chord, second, change + note("B", 4, 4), beats=3)
    lower = bars(
        FORWARD + rest(2) + note("C", 3, 4),
        note("D", 3, 6) + BACKWARD,
        change + note("E", 3, 4),
        beats=3,
    )
    path = tmp_path / "song.musicxml"
    path.write_bytes(score(upper, lower))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parsed = music21.converter.parse(str(path), forceSource=True).expandRepeats().stripTies()
        theirs = sorted(
            (float(n.offset), float(n.quarterLength), pitch.midi)
            for part in parsed.parts
            for n in part.flatten().notes
            for pitch in n.pitches
        )
    assert sorted(heard(read(path.read_bytes()))) == theirs


def test_the_staves_of_a_part_are_tracks_where_that_is_asked_for():
    hands = bars(
        note("C", 5, 8, "<staff>1</staff>") + BACK + note("C", 3, 8, "<staff>2</staff>"),
        note("E", 3, 4, "<tie type='start'/><staff>2</staff>")
        + note("E", 3, 4, "<tie type='stop'/><staff>1</staff>"),  # where it began, it is played
    )
    data = score(bars(note("G", 4, 8), rest(8)), hands)
    together, apart = read(data), read_musicxml(data, GENEROUS, "song", staves=True)
    assert [track.name for track in together.tracks] == ["part 1", "part 2"]
    assert [track.name for track in apart.tracks] == ["part 1", "part 2", "part 2 (staff 2)"]
    assert sorted(heard(apart)) == sorted(heard(together))
    assert heard(apart, 1) == [(0, 4, 72)]
    assert heard(apart, 2) == [(0, 4, 48), (4, 4, 52)]


def ending(number: int) -> str:
    return f'<barline><ending number="{number}" type="start"/></barline>'


def test_a_last_ending_that_nothing_closes_ends_with_the_next_repeat():
    endings = [ending(1) + note("D", 4, 8) + BACKWARD, ending(2) + note("E", 4, 8)]
    after = [FORWARD + note("F", 4, 8) + BACKWARD, note("G", 4, 8)]
    found = read(score(bars(note("C", 4, 8), *endings, *after)))
    assert [pitch for *_, pitch in heard(found)] == [60, 62, 60, 64, 65, 65, 67]


# Chords over the notes sound with them.


def chord(step: str, kind: str = "major", offset: int = 0) -> str:
    root = f"<root><root-step>{step}</root-step></root>"
    place = f"<offset>{offset}</offset>" if offset else ""
    return f"<harmony>{root}<kind>{kind}</kind>{place}</harmony>"


CLARINET = "<attributes><transpose><chromatic>-2</chromatic></transpose></attributes>"


@pytest.mark.parametrize(
    ("contents", "chords"),
    [
        (
            [CLARINET + chord("D") + note("D", 5, 4) + chord("B", "minor") + note("A", 4, 4)],
            [(0, "C_M"), (2, "A_m")],
        ),
        ([chord("A", "none") + note("A", 4, 8)], [(0, "N")]),
        # A chord stands as far from its place as it says.
        (
            [rest(8), chord("C") + chord("G", offset=4) + note("C", 4, 8)],
            [(4, "C_M"), (6, "G_M")],
        ),
        ([rest(2) + chord("C", offset=-9) + note("C", 4, 6)], [(0, "C_M")]),
    ],
)
def test_chords_stand_where_they_sound(contents: list[str], chords: list[tuple[float, str]]):
    found = read(score(bars(*contents)))
    assert [(m.onset_ticks / found.ticks_per_beat, m.text) for m in found.markers] == chords


# Notes are as loud as the marks before them say, in the order of time and not of the file.


def mark(name: str) -> str:
    return f"<direction><direction-type><dynamics><{name}/></dynamics></direction-type></direction>"


LOUD = note("E", 5, 4).replace("<note>", '<note dynamics="50">')
DOUBLE = "<attributes><transpose><chromatic>0</chromatic><double/></transpose></attributes>"


@pytest.mark.parametrize(
    ("contents", "velocities"),
    [
        ([note("C", 5, 8)], [(0, 72, VELOCITY)]),
        # A mark late in a bar says nothing of the start of the other staff.
        (
            [
                mark("p") + note("C", 5, 6) + mark("ff") + note("C", 5, 2)
                + BACK + note("C", 3, 4) + note("C", 3, 2) * 2,
                note("D", 5, 8) + BACK + note("D", 3, 8),
            ],
            [(0, 48, P), (0, 72, P), (2, 48, P), (3, 48, FF), (3, 72, FF), (4, 50, FF), (4, 74, FF)],
        ),
        # A bar begins as the one before ended, also where its last mark is read first.
        (
            [
                note("C", 5, 4) + mark("ff") + note("C", 5, 4) + BACK + mark("p") + note("C", 3, 8),
                note("D", 5, 4) + mark("p") + note("D", 5, 4) + BACK + note("D", 3, 8),
            ],
            [(0, 48, P), (0, 72, P), (2, 72, FF), (4, 50, FF), (4, 74, FF), (6, 74, P)],
        ),
        # Grace notes are as loud as their note, and notes that say how loud are that loud.
        (
            [note("C", 5, 4) + mark("p") + grace("D", 5) + LOUD + BACK + note("C", 3, 8)],
            [(0, 48, VELOCITY), (0, 72, VELOCITY), (1.75, 74, P), (2, 76, 45)],
        ),
        # The octave of a doubled part is as loud as its note.
        ([DOUBLE + mark("ff") + note("C", 5, 8)], [(0, 60, FF), (0, 72, FF)]),
    ],
)  # fmt: skip
def test_notes_are_as_loud_as_the_marks_before_them(contents: list[str], velocities):
    found = read(score(bars(*contents)))
    rows = [(at, pitch) for at, _, pitch in heard(found)]
    assert [
        (*row, v) for row, v in zip(rows, found.notes.velocity.tolist(), strict=True)
    ] == velocities
