"""A change of a MIDI file changes what it names and nothing else, in random files with every kind of event."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import mido
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from musicgen.pieces import piece_of
from tests.tokenization.midi.all_events import Event, all_events
from tests.tokenization.midi.files import NOTE, midi
from tests.tokenization.midi.test_keeping import Timed, band, notes_at, saved
from tokenization.analysis.chords import parse
from tokenization.changes import Reading, changes_from, plain_of
from tokenization.edit import NotKept
from tokenization.formats import changed, read_file
from tokenization.language import language

BEAT, BARS = 96, 4
BAR = 4 * BEAT
END = BARS * BAR
DRUMS = 9
meta, message = mido.MetaMessage, mido.Message


def tried(*strategies: st.SearchStrategy[Any]) -> Callable[[Callable[..., None]], Any]:
    """Test a property with random values."""
    return lambda test: settings(max_examples=40)(given(*strategies)(test))


def made(data: bytes, *plain: dict[str, Any], **more: Any) -> bytes:
    return changed(data, changes_from([*plain]), **more)


# Random files: type 0 or 1, every kind of event, one channel and program a track.

TICKS = st.integers(0, END - 1)
SIGNS = st.one_of(
    st.builds(lambda n: meta("set_tempo", tempo=n), st.integers(200_000, 900_000)),
    st.builds(lambda n: meta("time_signature", numerator=n, denominator=4), st.integers(2, 5)),
    st.sampled_from([meta("key_signature", key=key) for key in ("Eb", "F#m", "C", "Bbm")]),
    st.sampled_from([meta("marker", text=text) for text in ("Verse", "Bb7/D", "F#m", "N.C.", "go?")]),
    st.sampled_from([
        meta("lyrics", text="la"), meta("cue_marker", text="cue"), meta("copyright", text="me"),
        meta("sequencer_specific", data=(1, 2)), meta("smpte_offset", hours=2), meta("device_name", name="x"),
        message("sysex", data=(67, 16, 76)),
    ]),
)  # fmt: skip
BYTE = st.integers(0, 127)


def of_channel(channel: int) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.builds(lambda c, v: message("control_change", channel=channel, control=c, value=v),
                  st.sampled_from((1, 7, 10, 11, 64, 91)), BYTE),
        st.builds(lambda v: message("pitchwheel", channel=channel, pitch=64 * (v - 64)), BYTE),
        st.builds(lambda v: message("aftertouch", channel=channel, value=v), BYTE),
        st.builds(lambda p, v: message("polytouch", channel=channel, note=p, value=v), BYTE, BYTE),
    )  # fmt: skip


@st.composite
def files(draw: st.DrawFn) -> bytes:
    """Draw a file whose notes do not overlap others of their key."""
    channels = draw(st.lists(st.integers(0, 15), min_size=1, max_size=3, unique=True))
    tracks: list[list[Timed]] = [
        [
            (0, meta("track_name", name="all")),
            (END - 1, meta("lyrics", text="end")),
            *draw(st.lists(st.tuples(TICKS, SIGNS), max_size=8)),
        ]
    ]
    for number, channel in enumerate(sorted(channels)):
        rows = draw(st.lists(st.tuples(TICKS, st.integers(1, BEAT), st.integers(40, 60), st.integers(1, 127)),
                             min_size=1, max_size=10, unique_by=lambda row: (row[0] // BEAT, row[2])))  # fmt: skip
        notes: list[Timed] = []
        for at, length, pitch, velocity in sorted(rows, key=lambda row: row[0]):
            stop = min(
                [at + length, *(on for on, _, other, _ in rows if other == pitch and on > at)]
            )
            notes.append((at, message("note_on", channel=channel, note=pitch, velocity=velocity)))
            notes.append((stop, message("note_off", channel=channel, note=pitch, velocity=7)))
        notes.sort(key=lambda one: (one[0], one[1].type == "note_on"))
        head = [
            (0, meta("track_name", name=f"part {number}")),
            (0, message("program_change", channel=channel, program=10 * number)),
        ]
        more = draw(st.lists(st.tuples(TICKS, st.one_of(of_channel(channel), SIGNS)), max_size=8))
        tracks.append([*head, *more, *notes])
    return saved(draw(st.sampled_from((0, 1))), BEAT, *tracks)


def plain(event: Event) -> dict[str, Any]:
    """Return the fields of a message."""
    return dict(eval(event.what))


def told(event: Event, **values: Any) -> Event:
    """Return an event with other values in its message."""
    return event._replace(what=str(sorted((plain(event) | values).items(), key=str)))


def gone_and_new(data: bytes, out: bytes) -> tuple[Counter[Event], Counter[Event]]:
    before, after = all_events(data), all_events(out)
    return before - after, after - before


def mapped(data: bytes, change: Callable[[Event], Event | None]) -> Counter[Event]:
    """Return the events of a file after a change of each one; None removes it."""
    found: Counter[Event] = Counter()
    for event in all_events(data).elements():
        if (now := change(event)) is not None:
            found[now] += 1
    return found


def channels_of(data: bytes) -> list[int]:
    """Return the channel of each track of the file's score."""
    return sorted({event.channel for event in all_events(data) if event.kind == "note"})


def rows_of(data: bytes) -> list[list[int]]:
    return [
        [int(value) for value in row] for row in zip(*read_file(data).notes.columns, strict=True)
    ]


# Notes.


@tried(files(), st.data())
def test_a_deleted_note_is_all_that_goes(data, draw):
    rows = rows_of(data)
    assume(len(rows) > 1)
    row = draw.draw(st.sampled_from(rows))
    gone, new = gone_and_new(data, made(data, {"change": "notes", "rows": [[row, None]]}))
    assert gone.total() == 1
    assert not new
    (note,) = gone
    assert (note.tick, note.kind, *note.what) == (row[0], "note", row[2], row[3], row[0] + row[1])


@tried(files(), st.integers(0, END), st.integers(1, BAR), st.integers(61, 90), st.data())
def test_an_inserted_note_is_all_that_comes(data, at, length, pitch, draw):
    track = draw.draw(st.sampled_from(range(len(channels_of(data)))))
    out = made(data, {"change": "notes", "rows": [[None, [at, length, pitch, 99, track]]]})
    gone, new = gone_and_new(data, out)
    assert not gone
    (note,) = new.elements()
    assert (note.tick, note.what) == (at, (pitch, 99, at + length))
    assert note.channel == channels_of(data)[track]


@tried(
    files(),
    st.integers(-BAR, BAR),
    st.integers(-BEAT, BEAT),
    st.integers(30, 60),
    st.integers(-9, 9),
    st.data(),
)
def test_a_changed_note_is_all_that_changes(data, by, longer, up, louder, draw):
    """Notes that would overlap others of their key give way."""
    rows = rows_of(data)
    row = draw.draw(st.sampled_from(rows))
    now = [
        max(0, row[0] + by), max(1, row[1] + longer), row[2] + up, min(127, max(1, row[3] + louder)), row[4],
    ]  # fmt: skip
    gone, new = gone_and_new(data, made(data, {"change": "notes", "rows": [[row, now]]}))
    assert [(e.tick, *e.what) for e in gone.elements()] == [
        (row[0], row[2], row[3], row[0] + row[1])
    ]
    assert [(e.tick, *e.what) for e in new.elements()] == [
        (now[0], now[2], now[3], now[0] + now[1])
    ]


@tried(
    files(),
    st.lists(st.tuples(TICKS, st.integers(1, BAR), st.integers(40, 60)), min_size=1, max_size=8),
)
def test_notes_on_top_of_others_leave_these_as_they_are(data, rows):
    inserted = [[None, [at, length, pitch, 99, 0]] for at, length, pitch in rows]
    gone, new = gone_and_new(data, made(data, {"change": "notes", "rows": inserted}))
    assert not gone
    assert sorted((event.tick, event.what[0]) for event in new.elements()) == sorted(
        (at, pitch) for at, _, pitch in rows
    )


@tried(files(), st.integers(0, BARS - 1), st.integers(1, BARS), st.integers(-11, 11))
def test_transposing_bars_moves_their_pitched_notes_and_chords(data, first, bars, up):
    start, stop = first * BAR, (first + bars) * BAR
    out = made(data, {"change": "transpose", "semitones": up, "start": start, "stop": stop})

    def change(event: Event) -> Event:
        if event.kind == "note" and start <= event.tick < stop and event.channel != DRUMS:
            pitch, *more = event.what
            return event._replace(what=(pitch + up, *more))
        return event

    old, new = mapped(data, change), all_events(out)
    assert {e.kind for e in (old - new) | (new - old)} <= {"marker"}
    chords = [e for e in old if e.kind == "marker" and plain(e)["text"] in ("Bb7/D", "F#m")]
    moved = sum(old[e] for e in chords if start <= e.tick < stop) if up else 0
    assert (old - new).total() == moved


@pytest.mark.parametrize(
    ("key", "up", "chords", "fifths"),
    [("Eb", 2, {"C7/E", "Abm"}, -1), ("C", 2, {"C7/E", "G#m"}, 2), ("C", -1, {"A7/C#", "Fm"}, 5)],
)
def test_transposing_a_piece_moves_its_chords_and_key(key, up, chords, fifths):
    signs = [(0, meta("key_signature", key=key))]
    signs += [(0, meta("marker", text=text)) for text in ("Bb7/D", "F#m", "Verse")]
    notes = [(0, message("note_on", note=60, velocity=9)), (9, message("note_off", note=60))]
    out = made(saved(1, BEAT, signs, notes), {"change": "transpose", "semitones": up})
    texts = {plain(event)["text"] for event in all_events(out) if event.kind == "marker"}
    assert texts == {"Verse", *chords}
    assert read_file(out).key_signature == (fifths, False)


@tried(files(), st.floats(0.5, 2), st.integers(-20, 20))
def test_velocities_are_all_that_changes(data, times, plus):
    out = made(data, {"change": "velocity", "times": times, "plus": plus})

    def change(event: Event) -> Event:
        if event.kind != "note":
            return event
        pitch, velocity, end = event.what
        return event._replace(what=(pitch, min(127, max(1, round(velocity * times) + plus)), end))

    assert all_events(out) == mapped(data, change)


@tried(files(), st.integers(0, BARS - 1), st.data())
def test_deleting_bars_of_a_track_leaves_the_rest(data, first, draw):
    track = draw.draw(st.sampled_from(range(len(channels_of(data)))))
    channel, start = channels_of(data)[track], first * BAR

    def change(event: Event) -> Event | None:
        inside = event.kind == "note" and start <= event.tick < start + BAR
        return None if inside and event.channel == channel else event

    assume(any(event.kind == "note" for event in mapped(data, change)))
    asked = {"change": "delete", "tracks": [track], "start": start, "stop": start + BAR}
    assert all_events(made(data, asked)) == mapped(data, change)


# Signs.


@tried(files(), TICKS, st.one_of(st.none(), st.integers(1, END)), st.integers(20, 300))
def test_a_tempo_is_all_that_changes(data, start, length, bpm):
    stop = None if length is None else start + length
    out = made(data, {"change": "tempo", "bpm": bpm, "start": start, "stop": stop})
    gone, new = gone_and_new(data, out)
    assert {event.kind for event in gone | new} <= {"set_tempo"}
    assert all(start <= event.tick < (stop or 1 << 28) for event in gone)
    tempos = read_file(out).tempos
    at = [int(tick) for tick in tempos.onset_ticks]
    assert start in at
    assert round(float(tempos.beats_per_minute[at.index(start)]), 2) == pytest.approx(bpm, abs=0.02)
    if stop is not None:
        before, after = (tempo_at(one, stop) for one in (data, out))
        assert before == after


def tempo_at(data: bytes, tick: int) -> int:
    tempos = [(e.tick, plain(e)["tempo"]) for e in all_events(data) if e.kind == "set_tempo"]
    known = [one for one in tempos if one[0] <= tick]
    last = max((at for at, _ in known), default=0)
    return min([tempo for at, tempo in known if at == last], default=500_000)


@tried(files(), TICKS, st.integers(-7, 7), st.booleans())
def test_a_key_is_all_that_changes(data, start, fifths, minor):
    gone, new = gone_and_new(
        data, made(data, {"change": "key", "fifths": fifths, "minor": minor, "start": start})
    )
    assert {event.kind for event in gone | new} <= {"key_signature"}
    assert all(event.tick >= start for event in gone)
    assert (new.total() == 1 and {e.tick for e in new} == {start}) or not gone


@tried(files(), st.integers(0, BARS - 1))
def test_a_metre_is_all_that_changes(data, first):
    asked = {
        "change": "metre",
        "beats": 7,
        "unit": 8,
        "start": first * BAR,
        "stop": first * BAR + BAR,
    }
    out = made(data, asked)
    gone, new = gone_and_new(data, out)
    assert {event.kind for event in gone | new} <= {"time_signature"}
    assert all(asked["start"] <= event.tick < asked["stop"] for event in gone)
    signs = {
        event.tick: plain(event) for event in all_events(out) if event.kind == "time_signature"
    }
    assert (signs[first * BAR]["numerator"], signs[first * BAR]["denominator"]) == (7, 8)
    assert asked["stop"] in signs  # the old metre returns


# Tracks.


@tried(files(), st.data())
def test_a_program_is_all_that_changes(data, draw):
    track = draw.draw(st.sampled_from(range(len(channels_of(data)))))
    channel = channels_of(data)[track]
    out = made(data, {"change": "program", "track": track, "program": 99})

    def change(event: Event) -> Event:
        is_set = event.kind == "program_change" and event.channel == channel
        return told(event, program=99) if is_set else event

    assert all_events(out) == mapped(data, change)


@tried(files(), st.data())
def test_a_dropped_track_takes_nothing_of_the_others_along(data, draw):
    channels = channels_of(data)
    assume(len(channels) > 1)
    track = draw.draw(st.sampled_from(range(len(channels))))
    out = made(data, {"change": "drop", "tracks": [track]})
    whole = {"set_tempo", "time_signature", "key_signature", "marker", "cue_marker"}

    def left(event: Event) -> Event | None:
        own = event.channel == channels[track] or event.track == f"part {track}"
        return None if own and event.kind not in whole else event._replace(chunk=0, track="")

    def placeless(event: Event) -> Event:
        return event._replace(chunk=0, track="")

    assert mapped(out, placeless) == mapped(data, left)


@tried(files(), st.randoms())
def test_the_order_is_all_that_changes(data, random):
    order = [*range(len(channels_of(data)))]
    random.shuffle(order)
    out = made(data, {"change": "order", "tracks": order})

    def placeless(event: Event) -> Event:
        return event._replace(chunk=0, track="")

    assert mapped(out, placeless) == mapped(data, placeless)
    chunks = {event.channel: event.chunk for event in all_events(out) if event.kind == "note"}
    channels = channels_of(data)
    assert sorted(chunks, key=lambda channel: chunks[channel]) == [channels[n] for n in order]


@tried(files(), st.data())
def test_a_name_is_all_that_changes(data, draw):
    track = draw.draw(st.sampled_from(range(len(channels_of(data)))))
    channel = channels_of(data)[track]
    out = made(data, {"change": "name", "track": track, "name": "Viola d’amore"})

    def placeless(event: Event) -> Event | None:
        return None if event.kind == "track_name" else event._replace(chunk=0, track="")

    assert mapped(out, placeless) == mapped(data, placeless)
    assert read_file(out).tracks[track].name == "Viola d’amore"
    assert {event.channel for event in all_events(out) if event.kind == "note"} >= {channel}


@tried(files(), st.integers(0, 127), st.data())
def test_a_volume_is_all_that_changes(data, volume, draw):
    track = draw.draw(st.sampled_from(range(len(channels_of(data)))))
    channel = channels_of(data)[track]
    gone, new = gone_and_new(
        data, made(data, {"change": "volume", "track": track, "volume": volume})
    )
    for event in gone | new:
        assert event.kind == "control_change"
        assert (plain(event)["control"], event.channel) == (7, channel)
    assert new.total() - gone.total() in (0, 1)


@tried(files(), st.integers(0, END - 1), st.sampled_from((1, 64, 128)), BYTE, st.data())
def test_a_controller_is_all_that_is_new(data, tick, controller, value, draw):
    track = draw.draw(st.sampled_from(range(len(channels_of(data)))))
    change = {"change": "controllers", "track": track, "events": [[tick, controller, value]]}
    gone, new = gone_and_new(data, made(data, change))
    assert not gone
    (event,) = new.elements()
    assert (event.tick, event.channel) == (tick, channels_of(data)[track])
    named = {"pitch": value} if controller == 128 else {"control": controller, "value": value}
    assert named.items() <= plain(event).items()


# Time.


@tried(files(), st.integers(0, BARS - 1), st.integers(1, BARS))
def test_cutting_bars_moves_the_rest_forward(data, first, bars):
    start, stop = first * BAR, min(first + bars, BARS) * BAR
    by = stop - start

    def change(event: Event) -> Event | None:
        if event.kind == "note":
            pitch, velocity, end = event.what
            if event.tick >= stop:
                return event._replace(tick=event.tick - by, what=(pitch, velocity, end - by))
            return (
                event._replace(what=(pitch, velocity, min(end, start)))
                if event.tick < start
                else None
            )
        if event.tick >= stop:
            return event._replace(tick=event.tick - by)
        return event if event.tick < start else None

    left = mapped(data, change)
    assume(any(event.kind == "note" for event in left))
    out = all_events(made(data, {"change": "cut", "start": start, "stop": stop}))
    assert not left - out  # nothing outside is lost
    held = out - left  # states that were set in these bars, and what sets up the file
    assert {event.tick for event in held} <= {start}
    inside = Counter(
        (event.kind, event.what)
        for event in all_events(data).elements()
        if start <= event.tick < stop
    )
    assert not Counter((event.kind, event.what) for event in held.elements()) - inside
    assert "note" not in {event.kind for event in held}


def test_the_end_can_be_cut_with_pedal_and_bend_released():
    data = band()
    out = all_events(made(data, {"change": "cut", "start": 3 * 1920}))
    assert max(event.tick for event in out) == 3 * 1920
    kept = Counter(
        {e: n for e, n in all_events(data).items() if e.tick < 3 * 1920 and e.kind != "note"}
    )
    assert not kept - out
    released = {
        (event.kind, plain(event).get("value", 0)) for event in out - kept if event.kind != "note"
    }
    assert released == {("control_change", 0), ("pitchwheel", 0)}


# Readings of a language, sequences of changes, and wrong ones.


@tried(st.sampled_from(("remi", "ensemble")), st.integers(0, 1), st.booleans(), st.data())
def test_changes_of_a_piece_as_a_language_reads_it(name, kind, pickup, draw):
    """The note of the file moves as much as the note of the piece, and keeps its deviations from the grid."""
    data = band(kind, pickup=pickup)
    piece = piece_of(language(name), read_file(data), "")
    reading = Reading.of(piece.score, piece.language.onset_steps)
    rows = [[int(value) for value in row] for row in zip(*piece.score.notes.columns, strict=True)]
    row = draw.draw(st.sampled_from(rows))
    beat = piece.score.ticks_per_beat
    later = [row[0] + beat, *row[1:]]
    out = made(data, {"change": "notes", "rows": [[row, later]]}, reading=reading)
    gone, new = gone_and_new(data, out)
    assert {event.kind for event in gone | new} == {"note"}
    assert {event.what[0] for event in gone | new} == {row[2]}
    assert {e.tick + 480 for e in gone} == {e.tick for e in new}
    assert 1 <= gone.total() <= 2  # notes that were heard as one


def test_a_note_that_starts_just_before_the_trimmed_piece_is_the_first_of_the_piece():
    """A bar of rest is left out, and the note before its end counts as a note after it."""
    early = notes_at([(1920 - 50, 400, 78, 114)], 0)
    rows = [(1920 + 480 * n, 480, 60 + n % 3, 80) for n in range(1, 16)]
    data = saved(
        1, 480, [*early, *notes_at(rows, 0), (0, message("control_change", control=64, value=127))]
    )
    piece = piece_of(language("ensemble"), read_file(data), "")
    reading = Reading.of(piece.score, piece.language.onset_steps)
    row = [int(column[0]) for column in piece.score.notes.columns]
    assert row[0] == 0
    assert float(reading.heard(1920 - 50)) < -2
    out = made(data, {"change": "notes", "rows": [[row, None]]}, reading=reading)
    gone, new = gone_and_new(data, out)
    assert ([one.tick for one in gone], [*new]) == ([1870], [])
    later = [piece.score.ticks_per_beat, *row[1:]]
    out = made(data, {"change": "notes", "rows": [[row, later]]}, reading=reading)
    assert [one.tick for one in gone_and_new(data, out)[1]] == [1920 + 480]


def test_a_piece_that_begins_before_its_file_stays_in_place_unless_a_note_starts_there():
    rows = [(480 * n, 240, 60 + n % 3, 80) for n in range(16)]
    data = saved(1, 480, notes_at(rows, 0))
    reading = Reading(ticks_per_beat=480, sources=((0,),), file_ticks=(-480.0, 0.0))
    row = [480, 240, 60, 80, 0]
    for after, total in ((None, 0), ([480, 480, *row[2:]], 1), ([0, *row[1:]], 15)):
        out = made(data, {"change": "notes", "rows": [[row, after]]}, reading=reading)
        assert gone_and_new(data, out)[1].total() == total


@tried(files(), st.lists(st.integers(0, 20), min_size=1, max_size=6))
def test_later_changes_refer_to_the_result_of_earlier_ones(data, numbers):
    """A list of changes does what its changes do one after the other, each read from the file before it."""
    plain_changes: list[dict[str, Any]] = []
    step = data
    for number in numbers:
        rows = rows_of(step)
        row = rows[number % len(rows)]
        one: dict[str, Any] = (
            {
                "change": "notes",
                "rows": [[row, [row[0] + BEAT, row[1], row[2] + 30, row[3], row[4]]]],
            }
            if number % 3 and row[2] < 90
            else {"change": "transpose", "semitones": 1}
            if number % 3
            else {"change": "notes", "rows": [[None, [number * 9, 9, 100, 50, row[4]]]]}
        )
        plain_changes.append(one)
        step = made(step, one)
    assert all_events(made(data, *plain_changes)) == all_events(step)


def test_cut_bars_shift_the_times_of_later_changes():
    data = band()
    rows = rows_of(made(data, {"change": "cut", "start": 1920, "stop": 3840}))
    row = next(row for row in rows if row[0] >= 3840)
    out = made(
        data,
        {"change": "cut", "start": 1920, "stop": 3840},
        {"change": "notes", "rows": [[row, None]]},
    )
    assert len(rows_of(out)) == len(rows) - 1


def test_a_track_that_shares_its_channel_gets_its_own_to_change_its_instrument():
    data = band()  # the flute shares its channel with the last track
    out = made(data, {"change": "program", "track": 0, "program": 40})
    gone, new = gone_and_new(data, out)
    assert {event.track for event in gone | new} == {"Flute"}
    assert [one.program for one in read_file(out).tracks if one.name == "Flute"] == [40]
    assert {e.channel for e in new} == {3}


def test_notes_keep_the_program_of_their_track_where_another_is_in_force():
    strings = message("program_change", channel=0, program=48)
    given = [(0, message("program_change", channel=0, program=3)), (BAR, strings)]
    data = saved(1, BEAT, given + notes_at([(0, 20, 60, 70), (BAR, 20, 62, 70)], 0))
    piano, string = rows_of(data)
    new = [[0, 20, 70, 70, 1], [0, 20, 72, 70, 1]]
    moved = [string, [BEAT, *string[1:]]]
    out = made(data, {"change": "notes", "rows": [*([None, row] for row in new), moved]})
    assert rows_of(out) == sorted([piano, *new, moved[1]], key=lambda row: (row[0], row[2]))


def test_a_missing_end_leaves_the_other_notes_theirs():
    """A note is deleted with the end that it was read with."""
    hits = [hit for at in (24, 72, 120, 168) for hit in notes_at([(at, 0, 60, 70)], 0)]
    data = saved(1, BEAT, [hits[0], *hits[2:]])
    rows = rows_of(data)
    for row in rows[1:]:
        out = made(data, {"change": "notes", "rows": [[row, None]]})
        assert rows_of(out)[1:] == [other for other in rows[1:] if other != row]


def test_notes_without_ends_keep_their_lengths():
    """One ends where it is struck again, and still does without that note; an end without a start ends no new note."""
    note_on, *_ = strikes = [
        (at, message("note_on", note=60, velocity=70)) for at in (0, 24, 24, 72)
    ]
    end, stray = (96, message("note_off", note=60)), (120, message("note_off", note=62))
    data = saved(1, BEAT, [*strikes, end, (100, note_on[1]), stray])
    rows = rows_of(data)
    assert [row[:2] for row in rows] == [[0, 24], [24, 1], [24, 48], [72, 24], [100, 4 * BEAT]]
    new = [110, 40, 62, 70, 0]
    for row in rows:
        out = made(data, {"change": "notes", "rows": [[row, None], [None, new]]})
        assert rows_of(out) == sorted([*(one for one in rows if one != row), new])


def test_plain_data_and_back():
    plain_changes = [
        {"change": "notes", "rows": [[[0, 1, 2, 3, 4], None]]}, {"change": "cut", "start": 3, "stop": 4},
        {"change": "tempo", "bpm": 96}, {"change": "order", "tracks": [1, 0]},
    ]  # fmt: skip
    assert changes_from(plain_of(changes_from(plain_changes))) == changes_from(plain_changes)


@pytest.mark.parametrize(("wrong", "said"), [
    ({"change": "sing"}, 'must have as its "change" one of notes'),
    ({"change": "transpose"}, "incomplete"),
    ({"change": "transpose", "semitones": 90}, "would have the pitch"),
    ({"change": "delete", "tracks": [9]}, "there is no track 9; the piece has 5"),
    ({"change": "tempo", "bpm": 96, "start": 1 << 20}, "after the end of the piece"),
    ({"change": "cut", "start": 100, "stop": 100}, "must be later"),
    ({"change": "notes", "rows": [[None, [0, 1, 200, 3, 0]]]}, "cannot be in a file"),
    ({"change": "notes", "rows": [[None, [0, 1, 60.5, 3, 0]]]}, "cannot be in a file"),
    ({"change": "notes", "rows": [[None, ["0", 1, 60, 3, 0]]]}, "cannot be in a file"),
    ({"change": "notes", "rows": [[None, [0, float("inf"), 60, 3, 0]]]}, "cannot be in a file"),
    ({"change": "notes", "rows": [[None, None]]}, "pairs of a note before and after"),
    ({"change": "order", "tracks": [0, 0, 1, 2, 3]}, "must name each"),
    ({"change": "drop", "tracks": [0, 1, 2, 3, 4]}, "no notes would be left"),
    ({"change": "metre", "beats": 3, "unit": 3}, "unit is 3"),
])  # fmt: skip
def test_wrong_changes_are_refused_in_a_sentence(wrong, said):
    with pytest.raises(ValueError, match=said):
        made(band(), wrong)


def test_a_note_moves_by_less_than_a_tick_of_the_piece():
    """A language counts in coarser ticks than a file."""
    data = band()
    reading = Reading.of(read_file(data).rescaled(12))
    row = [[0, 12, 36, 100, 3], [1.5, 11.25, 36, 100, 3]]
    _, new = gone_and_new(data, made(data, {"change": "notes", "rows": [row]}, reading=reading))
    assert [one.tick for one in new] == [60]


def test_a_change_of_a_note_that_the_file_lacks_is_not_kept():
    with pytest.raises(NotKept, match="lacks a note"):
        made(midi(NOTE), {"change": "notes", "rows": [[[5, 5, 5, 5, 0], None]]})
    with pytest.raises(NotKept, match="damaged"):
        made(midi(NOTE)[:-6], {"change": "transpose", "semitones": 1})


def test_the_provenance_is_replaced():
    out = made(
        made(band(), {"change": "delete", "tracks": [1]}, provenance={"a": 1}), provenance={"b": 2}
    )
    assert out.count(b"musicgen {") == 1
    assert b'{"b": 2}' in out


CHORDS = st.lists(st.sampled_from(("C", "F♯m", "B♭13/D", "Csus2", "none")), min_size=1, max_size=3)


@tried(files(), st.integers(0, BARS - 2), CHORDS, st.booleans())
def test_chords_are_all_that_changes(data, first, symbols, is_guess):
    """They are read back as they were written; other markers and cue points stay."""
    start, stop = first * BAR, first * BAR + BAR
    ticks = [start + BEAT * n for n in range(len(symbols))]
    asked = {"change": "chords", "start": start, "stop": stop, "ticks": ticks, "symbols": symbols}
    out = made(data, {**asked, "guesses": [int(is_guess)] * len(symbols)})
    gone, new = gone_and_new(data, out)
    assert {event.kind for event in gone | new} <= {"marker", "cue_marker"}
    assert all(start <= event.tick < stop for event in gone)
    assert all(start <= event.tick <= stop for event in new)
    score = read_file(out, name="it")
    scale = score.ticks_per_beat / BEAT
    inside = [one for one in score.markers if start * scale <= one.onset_ticks < stop * scale]
    chords = [(one.text.replace("maj", ""), one.is_guess) for one in inside if parse(one.text)]
    assert chords == [(symbol, is_guess) for symbol in symbols]


def marked(*texts: tuple[int, str]) -> bytes:
    """Return a file with a note in each bar, and with markers at some bars."""
    marks = [(bar * BAR, meta("marker", text=text)) for bar, text in texts]
    strikes = [(bar * BAR, message("note_on", note=60)) for bar in range(BARS)]
    ends = [(bar * BAR + BEAT, message("note_off", note=60)) for bar in range(BARS)]
    marks.append((END - 1, meta("lyrics", text="end")))
    return saved(1, BEAT, marks, sorted([*strikes, *ends], key=lambda one: one[0]))


def texts_of(data: bytes) -> list[tuple[int, str]]:
    events = [one for one in all_events(data) if one.kind in ("marker", "cue_marker")]
    return sorted((event.tick // BAR, plain(event)["text"]) for event in events)


def test_no_chord_and_a_guess_of_earlier_versions_are_chord_symbols_everywhere():
    data = marked((0, "F"), (1, "N.C."), (2, "C?"), (3, "go?"))
    chords = {"change": "chords", "ticks": [BAR], "symbols": ["Am"], "guesses": [0]}
    over = made(data, {**chords, "start": BAR, "stop": 3 * BAR})
    assert texts_of(over) == [(0, "F"), (1, "Am"), (3, "C?"), (3, "go?")]
    up = made(data, {"change": "transpose", "semitones": 2})
    assert texts_of(up) == [(0, "G"), (1, "N.C."), (2, "D?"), (3, "go?")]
    left = made(data, {"change": "cut", "start": BAR, "stop": 2 * BAR})
    assert texts_of(left) == [(0, "F"), (1, "C?"), (2, "go?")]
    left = made(marked((0, "F"), (1, "N.C.")), {"change": "cut", "start": BAR, "stop": 2 * BAR})
    assert texts_of(left) == [(0, "F"), (1, "N.C.")]


def test_names_of_sections_are_no_chord_symbols():
    data = marked((0, "A"), (1, "B"), (2, "A"))
    assert texts_of(made(data, {"change": "transpose", "semitones": 2})) == texts_of(data)
    chords = {"change": "chords", "ticks": [0], "symbols": ["Am"], "guesses": [0]}
    assert texts_of(made(data, chords)) == [(0, "A"), (0, "Am"), (1, "B"), (2, "A")]
    assert texts_of(made(data, {"change": "cut", "start": 0, "stop": BAR})) == [(0, "B"), (1, "A")]


def test_a_key_of_some_bars_ends_with_them_in_a_file_without_one():
    out = made(marked(), {"change": "key", "fifths": 3, "start": BAR, "stop": 2 * BAR})
    keys = [(one.tick, plain(one)["key"]) for one in all_events(out) if one.kind == "key_signature"]
    assert keys == [(BAR, "A"), (2 * BAR, "C")]
