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
from tokenization.analysis.grid import has_beats, on_four_four
from tokenization.midi.limits import GENEROUS
from tokenization.notation.musicxml.reading import read_musicxml
from tokenization.score import Score


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
        + "<backup><duration>8</duration></backup><forward><duration>2</duration></forward>"
        + note("C", 4, 2)
    )  # fmt: skip
    found = read(score(bars(first, note("A", 4, 8))))
    assert heard(found) == [(0, 2, 72), (0, 2, 76), (1, 1, 60), (2, 2, 67), (4, 4, 69)]


def test_ties_join_across_bars_and_end_where_they_end():
    start, stop = '<tie type="start"/>', '<tie type="stop"/>'
    found = read(
        score(
            bars(
                rest(6) + note("C", 4, 2, start),
                note("C", 4, 8, stop + start),
                note("C", 4, 2, stop) + note("C", 4, 6),
                # A tie that begins nowhere, as in a second ending, is a note.
                note("D", 4, 8, stop),
            )
        )
    )
    assert heard(found) == [(3, 6, 60), (9, 3, 60), (12, 4, 62)]


def test_another_voice_on_a_tied_pitch_is_its_own_note():
    tied = note("C", 4, 8, '<tie type="start"/>')
    first = tied + "<backup><duration>8</duration></backup>" + rest(6) + note("C", 4, 2)
    second = note("C", 4, 4, '<tie type="stop"/>')
    found = read(score(bars(first, second + rest(4))))
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
    back = '<barline><repeat direction="backward"/></barline>'
    found = read(score(bars(note("G", 4, 2), note("C", 5, 6), note("C", 5, 4) + back, beats=3)))
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
        (time(12, 8), (12, 8)),
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
    start, stop = '<tie type="start"/>', '<tie type="stop"/>'
    music = bars(transpose + grace("D", 4) + note("C", 4, 8, start), note("C", 4, 8, stop))
    assert sorted(heard(read(score(music)))) == sorted(
        (at, lasts, pitch + doubled)
        for at, lasts, pitch in heard(
            read(score(bars(grace("D", 4) + note("C", 4, 8, start), note("C", 4, 8, stop))))
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
    assert heard(found)[-1][:2] == (4, 4)
    assert [onset for onset, *_ in heard(found)][:3] == pytest.approx([0, 1 / 3, 2 / 3], abs=0.01)


def test_a_tie_within_a_tuplet_that_no_division_holds_joins():
    start, stop = '<tie type="start"/>', '<tie type="stop"/>'
    music = bars(
        note("C", 4, 341) + note("D", 4, 341, start) + note("D", 4, 342, stop) + rest(3072),
        divisions=1024,
    )
    assert [pitch for *_, pitch in heard(read(score(music)))] == [60, 62]


def test_written_beats_are_right_however_few_notes_lie_on_them():
    # Septuplets and quintuplets, which look like playing that follows no beat.
    sevenths, fifths = note("C", 4, 20) * 7, note("D", 4, 28) * 5
    found = read(score(bars(*[sevenths + fifths + sevenths + fifths] * 8, divisions=140)))
    assert found.beats_known
    assert not has_beats(found)
    laid = on_four_four(found)
    assert laid.notes == found.notes
    assert not any("estimated" in remark for remark in laid.remarks)


def test_equal_to_music21(tmp_path):
    """A score with all of it is what another library reads, repeats unfolded and ties joined."""
    import music21

    back = '<barline location="right"><repeat direction="backward"/></barline>'
    forward = '<barline location="left"><repeat direction="forward"/></barline>'
    start, stop = '<tie type="start"/>', '<tie type="stop"/>'
    upper = bars(
        forward + note("C", 5, 2) + note("E", 5, 2, before="<chord/>") + note("G", 4, 4, start),
        note("G", 4, 2, stop) + note("A", 4, 4) + back,
        f"<attributes>{time(2, 4)}</attributes>" + note("B", 4, 4),
        beats=3,
    )
    lower = bars(
        forward + rest(2) + note("C", 3, 4),
        note("D", 3, 6) + back,
        f"<attributes>{time(2, 4)}</attributes>" + note("E", 3, 4),
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
        note("C", 5, 8, "<staff>1</staff>")
        + "<backup><duration>8</duration></backup>"
        + note("C", 3, 8, "<staff>2</staff>"),
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
