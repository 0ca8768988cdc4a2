"""Notes are as loud as the marks before them say, in the order of time and not of the file."""

from tests.tokenization.notation.scores import bars, grace, note, score
from tokenization.midi.limits import GENEROUS
from tokenization.notation.musicxml.reading import read_musicxml
from tokenization.notation.written import DYNAMICS, VELOCITY

BACK = "<backup><duration>8</duration></backup>"
P, FF = DYNAMICS["p"], DYNAMICS["ff"]


def mark(name: str) -> str:
    return f"<direction><direction-type><dynamics><{name}/></dynamics></direction-type></direction>"


def velocities(*contents: str) -> list[tuple[float, int, int]]:
    """Return beat, pitch and velocity of the notes of bars."""
    found = read_musicxml(score(bars(*contents)), GENEROUS, "song")
    notes = found.notes
    rows = zip(notes.onset_ticks / found.ticks_per_beat, notes.pitch, notes.velocity, strict=True)
    return [(float(beat), int(pitch), int(velocity)) for beat, pitch, velocity in rows]


def test_a_mark_late_in_a_bar_says_nothing_of_the_start_of_the_other_staff():
    upper = mark("p") + note("C", 5, 6) + mark("ff") + note("C", 5, 2)
    lower = note("C", 3, 4) + note("C", 3, 2) * 2
    assert velocities(upper + BACK + lower, note("D", 5, 8) + BACK + note("D", 3, 8)) == [
        *((0, 48, P), (0, 72, P), (2, 48, P), (3, 48, FF), (3, 72, FF)),
        *((4, 50, FF), (4, 74, FF)),
    ]


def test_a_bar_begins_as_the_one_before_ended_also_where_its_last_mark_is_read_first():
    first = note("C", 5, 4) + mark("ff") + note("C", 5, 4) + BACK + mark("p") + note("C", 3, 8)
    assert velocities(first, note("D", 5, 4) + mark("p") + note("D", 5, 4) + BACK + note("D", 3, 8)) == [
        *((0, 48, P), (0, 72, P), (2, 72, FF)),
        *((4, 50, FF), (4, 74, FF), (6, 74, P)),
    ]  # fmt: skip
    assert velocities(note("C", 5, 8)) == [(0, 72, VELOCITY)]


def test_grace_notes_are_as_loud_as_their_note_and_notes_that_say_how_loud_are_that_loud():
    loud = note("E", 5, 4).replace("<note>", '<note dynamics="50">')
    assert velocities(note("C", 5, 4) + mark("p") + grace("D", 5) + loud + BACK + note("C", 3, 8)) == [
        *((0, 48, VELOCITY), (0, 72, VELOCITY), (1.75, 74, P), (2, 76, 45)),
    ]  # fmt: skip


def test_the_octave_of_a_doubled_part_is_as_loud_as_its_note():
    double = "<attributes><transpose><chromatic>0</chromatic><double/></transpose></attributes>"
    assert velocities(double + mark("ff") + note("C", 5, 8)) == [(0, 60, FF), (0, 72, FF)]
