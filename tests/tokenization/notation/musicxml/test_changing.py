"""A change of a MusicXML score changes the elements that it names and no others."""

import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tokenization.notation.scores import HARMONY, bars, grace, note, rest, score
from tests.tools.page.own_files import lead_sheet
from tokenization.changes import changes_from
from tokenization.edit import NotKept
from tokenization.formats import changed, read_file

TIE, TIED = '<tie type="start"/>', '<tie type="stop"/>'
LYRIC, DOT = (
    "<lyric><text>la</text></lyric>",
    "<notations><articulations><staccato/></articulations></notations>",
)
LOUD = '<direction><direction-type><dynamics><f/></dynamics></direction-type><sound dynamics="102"/></direction>'
FAST = '<direction><direction-type><words>Allegro</words></direction-type><sound tempo="132"/></direction>'
BAR, GRACE = 1920, 71


def duet() -> bytes:
    """Return a voice with words, ties, a tuplet and grace notes, and a clarinet in B♭ with chords on two voices."""
    third = "<time-modification><actual-notes>3</actual-notes><normal-notes>2</normal-notes></time-modification>"
    chord = note("G", 4, 12, before="<chord/>")
    voice = bars(
        FAST + HARMONY + note("C", 5, 12, LYRIC) + note("D", 5, 12, DOT) + note("E", 5, 24, TIE),
        note("E", 5, 12, TIED) + rest(12) + LOUD + "".join(note(step, 5, 4, third) for step in "CDE") + rest(12),
        rest(48),
        grace("B", 4) + note("C", 5, 24, LYRIC) + rest(24),
        divisions=12,
    )  # fmt: skip
    back = "<backup><duration>48</duration></backup>"
    transposed = "<transpose><diatonic>-1</diatonic><chromatic>-2</chromatic></transpose>"
    key = f"<attributes><key><fifths>2</fifths></key>{transposed}</attributes>"
    low = note("D", 4, 48, "<voice>2</voice>")
    clarinet = bars(
        key + note("E", 4, 12) + chord + note("F", 4, 36) + back + low,
        note("E", 4, 24) + chord.replace("12", "24") + rest(24),
        note("C", 4, 48), rest(48), divisions=12,
    )  # fmt: skip
    listed = (
        '<score-part id="P1"><part-name>Voice</part-name></score-part>'
        '<score-part id="P2"><part-name>Clarinet</part-name>'
        '<score-instrument id="I2"><instrument-name>Clarinet</instrument-name></score-instrument>'
        '<midi-instrument id="I2"><midi-program>72</midi-program></midi-instrument></score-part>'
    )  # fmt: skip
    text = score(voice, listed=listed).decode()
    return text.replace(
        "</score-partwise>", f'<part id="P2">{clarinet}</part></score-partwise>'
    ).encode()


SCORES = {"duet": duet(), "lead sheet": lead_sheet()}
named = st.sampled_from([*SCORES])


def tried(*strategies: st.SearchStrategy[Any]) -> Callable[[Callable[..., None]], Any]:
    return lambda test: settings(max_examples=30)(given(*strategies)(test))


def made(data: bytes, *plain: dict[str, Any]) -> bytes:
    return changed(data, changes_from([*plain]))


def rows_of(data: bytes) -> list[tuple[int, ...]]:
    music = read_file(data)
    onset, duration, *more = music.notes.columns
    scaled = [np.rint(column * 480 / music.ticks_per_beat) for column in (onset, duration)]
    return [tuple(int(value) for value in row) for row in zip(*scaled, *more, strict=True)]


def elements(data: bytes) -> Counter[tuple[str, int, str, str]]:
    """Return the elements of all bars: part, bar, tag and text."""
    found: Counter[tuple[str, int, str, str]] = Counter()
    for part in ET.fromstring(data).findall("part"):
        for number, measure in enumerate(part.findall("measure")):
            for one in measure:
                text = ET.tostring(one).decode().strip()
                found[part.get("id", ""), number, one.tag, text] += 1
    return found


def differences(data: bytes, out: bytes) -> tuple[Counter[str], Counter[str]]:
    """Return the tags of the elements that are gone, and of those that are new."""
    old, new = elements(data), elements(out)
    gone, come = (Counter(one[2] for one in some.elements()) for some in (old - new, new - old))
    return gone, come


def lengths(data: bytes) -> list[int]:
    music = read_file(data)
    return [int(at * 480 / music.ticks_per_beat) for at in music.meters.onset_ticks]


@tried(named, st.data())
def test_a_deleted_note_becomes_a_rest_or_leaves_its_chord(name, draw):
    data = SCORES[name]
    rows = rows_of(data)
    row = draw.draw(st.sampled_from(rows))
    out = made(data, {"change": "notes", "rows": [[row, None]]})
    assert Counter(rows) - Counter(rows_of(out)) == Counter([row])
    assert not Counter(rows_of(out)) - Counter(rows)
    gone, come = differences(data, out)
    assert {*gone, *come} <= {"note"}
    assert gone.total() <= 2
    assert lengths(out) == lengths(data)


def test_a_chord_whose_notes_say_so_twice_stays_where_it_is():
    data = score(bars(note("C", 5, 4) + note("E", 5, 4, before="<chord/><chord/>") + rest(4)))
    lower, upper = sorted(rows_of(data))
    assert rows_of(made(data, {"change": "notes", "rows": [[lower, None]]})) == [upper]


@pytest.mark.parametrize("deleted", [[0], [1], [2], [0, 1], [1, 2], [0, 1, 2]])
def test_grace_notes_keep_their_place_and_length_without_one_of_them(deleted: list[int]):
    some = grace("D", 5) + grace("D", 5) + grace("F", 5, "<chord/>")
    data = score(bars(note("C", 5, 4) + some + note("E", 5, 4)))
    first, *graces, last = sorted(rows_of(data))
    out = made(data, {"change": "notes", "rows": [[graces[n], None] for n in deleted]})
    left = [row for n, row in enumerate(graces) if n not in deleted]
    assert sorted(rows_of(out)) == [first, *left, last]


@tried(named, st.integers(0, 4 * 96 - 1), st.integers(1, 100), st.integers(65, 90), st.data())
def test_an_inserted_note_leaves_all_others_in_place(name, at, length, pitch, draw):
    data = SCORES[name]
    track = draw.draw(st.sampled_from(range(len(read_file(data).tracks))))
    length = min(length, 4 * 96 - at)
    row = (at * 20, length * 20, pitch, 70, track)
    out = made(data, {"change": "notes", "rows": [[None, row]]})
    assert Counter(rows_of(out)) - Counter(rows_of(data)) == Counter([row])
    assert not Counter(rows_of(data)) - Counter(rows_of(out))
    gone, _ = differences(data, out)
    assert {*gone} <= {"note"}  # the rest that made room
    assert "<rest" in "".join(one[3] for one in elements(data) - elements(out)) or not gone


@tried(
    named,
    st.integers(-24, 24),
    st.integers(-24, 24),
    st.integers(-3, 3),
    st.integers(-9, 9),
    st.data(),
)
def test_a_changed_note_is_all_that_changes(name, by, longer, up, louder, draw):
    data = SCORES[name]
    rows = [row for row in rows_of(data) if row[0] % 20 == 0]
    row = draw.draw(st.sampled_from(rows))
    end = BAR * 4
    start = min(max(0, row[0] + 20 * by), end - 20)
    now = (
        start,
        max(20, min(row[1] + 20 * longer, end - start)),
        row[2] + up,
        row[3] + louder,
        row[4],
    )
    out = made(data, {"change": "notes", "rows": [[row, now]]})
    before, after = Counter(rows), Counter(row for row in rows_of(out) if row[0] % 20 == 0)
    assert before - after == Counter([row]) - Counter([now])
    assert after - before == Counter([now]) - Counter([row])
    gone, _ = differences(data, out)
    assert {*gone} <= {"note"}


@tried(named, st.integers(-11, 11), st.booleans())
def test_transposing_moves_pitches_chords_and_key(name, up, whole):
    data = SCORES[name]
    asked: dict[str, Any] = {} if whole else {"start": BAR, "stop": 2 * BAR}
    out = made(data, {"change": "transpose", "semitones": up, **asked})
    inside = [whole or BAR <= row[0] < 2 * BAR for row in rows_of(data)]
    moved = [
        (*row[:2], row[2] + up * into, *row[3:]) for row, into in zip(rows_of(data), inside, strict=True)
    ]  # fmt: skip
    assert sorted(moved) == sorted(rows_of(out))
    gone, come = differences(data, out)
    assert gone == come
    assert {*gone} <= {"note", "harmony", *(["attributes"] if whole else [])}
    chords = [[one.text for one in read_file(one).markers] for one in (data, out)]
    assert (chords[0] == chords[1]) == (up == 0 or (name == "duet" and not whole))
    back = made(out, {"change": "transpose", "semitones": -up, **asked})
    assert rows_of(back) == rows_of(data)


@pytest.mark.parametrize(("change", "tags"), [
    ({"change": "velocity", "plus": 9, "tracks": [1]}, {"note"}),
    ({"change": "delete", "tracks": [0], "start": BAR, "stop": 2 * BAR}, {"note"}),
    ({"change": "tempo", "bpm": 96}, {"direction"}),
    ({"change": "tempo", "bpm": 96, "start": BAR, "stop": 2 * BAR}, {"direction"}),
    ({"change": "tempo", "times": 0.5, "start": 2 * BAR}, {"direction"}),
    ({"change": "key", "fifths": -3, "start": BAR, "stop": 2 * BAR}, {"attributes"}),
    ({"change": "metre", "beats": 2, "unit": 2, "start": BAR, "stop": 2 * BAR}, {"attributes"}),
    ({"change": "program", "track": 1, "program": 66}, set()),
    ({"change": "volume", "track": 1, "volume": 64}, set()),
    ({"change": "name", "track": 0, "name": "Solo"}, set()),
    ({"change": "order", "tracks": [1, 0]}, set()),
])  # fmt: skip
def test_other_elements_stay(change, tags):
    gone, come = differences(duet(), made(duet(), change))
    assert {*gone, *come} == tags


def test_signs_are_set_and_return():
    music = read_file(made(duet(), {"change": "tempo", "bpm": 96, "start": BAR, "stop": 2 * BAR}))
    assert [round(float(one)) for one in music.tempos.beats_per_minute] == [132, 96, 132]
    assert (
        read_file(made(duet(), {"change": "tempo", "times": 0.5})).tempos.beats_per_minute[0] == 66
    )
    out = ET.fromstring(
        made(duet(), {"change": "key", "fifths": -3, "start": BAR, "stop": 2 * BAR})
    )
    keys = [
        [one.text for one in part.iterfind("measure/attributes/key/fifths")]
        for part in out.iterfind("part")
    ]
    assert keys == [["-3", "0"], ["2", "-1", "2"]]  # the clarinet is written a tone higher
    out = made(duet(), {"change": "metre", "beats": 2, "unit": 2, "start": BAR, "stop": 2 * BAR})
    meters = [
        [int(value) for value in row]
        for row in zip(*read_file(out).meters.columns[1:], strict=True)
    ]
    assert meters == [[4, 4], [2, 2], [4, 4]]
    with pytest.raises(NotKept, match="bars of a score are written out"):
        made(duet(), {"change": "metre", "beats": 3, "unit": 4})


def test_chords_are_written_over_bars():
    asked = {
        "change": "chords",
        "ticks": [BAR, BAR + 960],
        "symbols": ["Bb7", "F♯m/A"],
        "guesses": [0, 0],
    }
    for data in SCORES.values():
        out = made(data, {**asked, "start": BAR, "stop": 2 * BAR})
        found = [(one.onset_ticks, one.text) for one in read_file(out).markers]
        old = [(one.onset_ticks, one.text) for one in read_file(data).markers]
        assert found[1:3] == [(BAR, "Bb_7"), (BAR + 960, "F#_m/A")]
        assert [one for one in found if not BAR <= one[0] <= 2 * BAR] == [
            one for one in old if not BAR <= one[0] <= 2 * BAR
        ]
        assert found[3] == next(((at, text) for at, text in old if at == 2 * BAR), (2 * BAR, "C_M"))
        gone, come = differences(data, out)
        assert {*gone, *come} <= {"harmony", "forward", "backup"}


def test_tracks_change():
    assert (
        read_file(made(duet(), {"change": "program", "track": 1, "program": 66})).tracks[1].program
        == 66
    )
    assert (
        read_file(made(duet(), {"change": "name", "track": 0, "name": "Solo"})).tracks[0].name
        == "Solo"
    )
    out = made(
        duet(),
        {"change": "order", "tracks": [1, 0]},
        {"change": "name", "track": 0, "name": "first"},
    )
    assert [track.name for track in read_file(out).tracks] == ["first", "Voice"]
    out = made(duet(), {"change": "drop", "tracks": [0]})
    assert [track.name for track in read_file(out).tracks] == ["Clarinet"]
    assert [one.text for one in read_file(out).markers] == ["C_M"]  # the chords of the piece
    assert read_file(out).tempos.beats_per_minute[0] == 132


def test_a_bar_line_among_notes_moves_nothing():
    line = '<barline location="right"><bar-style>light-heavy</bar-style></barline>'
    data = score(bars(note("C", 5, 4) + line + note("D", 5, 12) + line, divisions=4))
    out = made(data, {"change": "notes", "rows": [[None, (0, 960, 60, 99, 0)]]})
    assert sorted(rows_of(out)) == sorted([*rows_of(data), (0, 960, 60, 99, 0)])


def test_chord_symbols_of_a_dropped_part_keep_their_places():
    closed = '<barline location="right"><bar-style>light-heavy</bar-style></barline>'
    sung = bars(
        note("C", 5, 4) + HARMONY + note("D", 5, 12), HARMONY + note("E", 5, 16), divisions=4
    )
    played = bars(note("C", 3, 16), note("G", 3, 16) + closed, divisions=4)
    out = read_file(made(score(sung, played), {"change": "drop", "tracks": [0]}))
    assert [one.onset_ticks / out.ticks_per_beat for one in out.markers] == [1, 4]


@tried(st.integers(0, 3), st.integers(1, 4))
def test_cutting_bars_moves_the_rest_forward(first, count):
    stop = min(first + count, 4)
    if first == 0 and stop == 4:
        return
    data = duet()
    out = made(
        data, {"change": "cut", "start": first * BAR, "stop": stop * BAR if stop < 4 else None}
    )
    by = (stop - first) * BAR
    left = [
        (at - by * (at >= stop * BAR), min(length, first * BAR - at) if at < first * BAR else length, *more)
        for at, length, *more in rows_of(data)
        if not first * BAR <= at < stop * BAR
    ]  # fmt: skip
    found = {row[:3] for row in rows_of(out) if row[2] != GRACE}  # which belongs to the next bar
    known = {row[:3] for row in left if row[2] != GRACE}
    assert known <= found
    assert all(row[0] == first * BAR for row in found - known)  # the end of a tie
    old, new = elements(data), elements(out)
    kept = Counter(
        (part, bar if bar < first else bar - (stop - first), tag, text)
        for part, bar, tag, text in old.elements()
        if not first <= bar < stop and "tie type" not in text and tag != "attributes"
    )
    assert not kept - new
    assert read_file(out).tempos.beats_per_minute[0] == 132


def test_what_a_score_with_repeats_cannot_hold_is_said():
    repeat = '<barline location="right"><repeat direction="backward"/></barline>'
    data = score(bars(note("C", 5, 8), note("D", 5, 8) + repeat))
    row = rows_of(data)[0]
    with pytest.raises(NotKept, match="repeats"):
        made(data, {"change": "notes", "rows": [[row, None]]})
    with pytest.raises(NotKept, match="repeats"):
        made(data, {"change": "cut", "start": BAR})
    out = made(data, {"change": "transpose", "semitones": 3})
    assert [row[2] for row in rows_of(out)] == [75, 77, 75, 77]


def test_a_note_joins_the_instrument_of_its_track():
    """A player of two instruments reads both in one part."""
    instruments = "".join(
        f'<score-instrument id="I{n}"><instrument-name>{n}</instrument-name></score-instrument>'
        f'<midi-instrument id="I{n}"><midi-program>{72 + n}</midi-program></midi-instrument>'
        for n in (1, 2)
    )
    listed = f'<score-part id="P1"><part-name>Flutes</part-name>{instruments}</score-part>'
    second = '<instrument id="I2"/>'
    data = score(bars(note("C", 5, 4) + note("D", 5, 4, second), note("E", 5, 8)), listed=listed)
    inserted = [[BAR, BAR, 84, 70, 1], [0, BAR // 2, 83, 70, 1]]  # one joins a chord, one does not
    out = made(data, *({"change": "notes", "rows": [[None, row]]} for row in inserted))
    assert [row[2] for row in rows_of(out) if row[4] == 1] == [83, 74, 84]


def test_a_bar_longer_than_its_metre_keeps_its_length():
    """It lasts as long as its notes, not its rests, so that without them all parts would move."""
    long = bars(rest(10) + note("C", 5, 2), note("D", 5, 8))
    data = score(long, bars(note("E", 5, 8), note("F", 5, 8)))
    with pytest.raises(NotKept, match="longer than its metre"):
        made(data, {"change": "notes", "rows": [[rows_of(data)[1], None]]})
    with pytest.raises(NotKept, match="longer than its metre"):
        made(data, {"change": "delete", "stop": rows_of(data)[2][0]})


def test_a_row_stands_for_the_note_of_its_length():
    back = "<backup><duration>8</duration></backup>"
    data = score(bars(note("C", 5, 8) + back + note("C", 5, 2, "<voice>2</voice>")))
    for row in rows_of(data):
        (left,) = rows_of(made(data, {"change": "notes", "rows": [[row, None]]}))
        assert left[1] != row[1]


def test_the_shortest_note_is_written():
    data = score(bars(note("C", 5, 8)))
    new = made(data, {"change": "notes", "rows": [[None, [0, 0.01, 80, 70, 0]]]})
    assert [row[2] for row in rows_of(new)] == [72, 80]


@pytest.mark.parametrize(("wrong", "said"), [
    ({"change": "notes", "rows": [[None, [BAR * 4, 20, 60, 70, 0]]]}, "outside its bars"),
    ({"change": "tempo", "bpm": 90, "start": 9 * BAR}, "after the end of the piece"),
    ({"change": "cut"}, "no notes would be left"), ({"change": "drop", "tracks": [0, 1]}, "no notes would be left"),
    ({"change": "notes", "rows": [[[1, 2, 3, 4, 0], None]]}, "lacks a note"),
    ({"change": "tempo", "bpm": 90, "start": 100}, "bar lines differ"),
])  # fmt: skip
def test_wrong_changes_are_refused_in_a_sentence(wrong, said):
    with pytest.raises(ValueError, match=said):
        made(duet(), wrong)


def test_chords_of_bars_change_and_keep_their_symbols():
    """The chord in force returns after them; guesses are not written."""
    data = SCORES["lead sheet"]
    before = {(one.onset_ticks, one.text) for one in read_file(data).markers}
    bar = read_file(data).ticks_per_beat * 4
    asked = {"change": "chords", "start": BAR, "stop": 3 * BAR, "guesses": [0, 0, 0, 1]}
    ticks = [BAR, BAR + BAR // 2, 2 * BAR, 2 * BAR + BAR // 2]
    out = made(data, {**asked, "ticks": ticks, "symbols": ["F7♯9", "none", "C/E", "G"]})
    after = [(one.onset_ticks, one.text) for one in read_file(out).markers]
    inside = [(at / bar, text) for at, text in after if bar <= at < 3 * bar]
    assert inside == [(1, "F7#9"), (1.5, "N"), (2, "C_M/E")]
    assert {one for one in after if one[0] < bar or one[0] > 3 * bar} == {
        one for one in before if one[0] < bar or one[0] > 3 * bar
    }
    assert rows_of(out) == rows_of(data)


@pytest.mark.parametrize("measure", [
    # Divisions that change within a bar, and a step back by less than nothing.
    note("C", 4, 2) + "<attributes><divisions>24</divisions></attributes>" + note("D", 4, 72),
    note("C", 4, 4) + "<backup><duration>-1</duration></backup>" + note("D", 4, 2) + rest(2),
])  # fmt: skip
def test_a_note_is_inserted_where_it_belongs_in_an_unusual_bar(measure):
    data = score(bars(measure, rest(8), divisions=2))
    for new in ((0, 240, 84, 99, 0), (960, 480, 84, 99, 0)):
        out = made(data, {"change": "notes", "rows": [[None, list(new)]]})
        assert sorted(rows_of(out)) == sorted([*rows_of(data), new])


@pytest.mark.parametrize("length", [2, 4, 6])
@pytest.mark.parametrize("between", ["", "<direction/>"])
def test_a_chord_loses_its_first_note_and_nothing_moves(length, between):
    chord = between.join(
        [
            note("C", 4, 4),
            note("E", 4, length, before="<chord/>"),
            note("G", 4, 4, before="<chord/>"),
        ]
    )
    data = score(bars(chord + note("D", 4, 4), rest(8)))
    first, *rows = sorted(rows_of(data), key=lambda row: row[2])
    new = (0, BAR // 8, 84, 80, 0)
    for added in ([], [new]):
        changed = [[list(first), None], *([None, list(one)] for one in added)]
        out = made(data, {"change": "notes", "rows": changed})
        assert sorted(rows_of(out), key=lambda row: row[2]) == [*rows, *added]


def test_no_note_is_inserted_where_a_chord_lacks_its_first_note():
    back = "<backup><duration>8</duration></backup>"
    stray = note("E", 5, 2, before="<chord/>")
    data = score(bars(rest(8) + back + stray + note("A", 3, 4) + rest(4), rest(8)))
    row = [BAR // 2, BAR // 4, 90, 80, 0]
    with pytest.raises(NotKept, match="belongs to a chord"):
        made(data, {"change": "notes", "rows": [[None, row]]})


def test_no_note_is_inserted_before_a_pickup():
    data = score(bars(note("C", 4, 2), note("D", 4, 8)))
    assert rows_of(data)[0][0] == 1440
    with pytest.raises(NotKept, match="outside its bars"):
        made(data, {"change": "notes", "rows": [[None, [0, 480, 84, 99, 0]]]})
