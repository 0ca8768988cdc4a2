"""Music is written into a MIDI file, and everything else in the file is unchanged."""

import io
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import mido
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musicgen.pieces import Piece, edit_of, read_piece
from tests.tokenization.midi import files as make
from tokenization.analysis.metres import bar_lines, bars_of
from tokenization.edit import Edit, NotKept
from tokenization.formats import file_of
from tokenization.language import language
from tokenization.midi.keeping import KeptMidi
from tokenization.midi.reading import read_midi
from tokenization.score import Meters, Notes, Score, Track

Row = tuple[int, int, int, int]  # onset and length in steps of the language, pitch, velocity
LANGUAGES = ("remi", "groove", "ensemble")


Timed = tuple[int, Any]  # a tick, and a channel or meta message


def saved(kind: int, division: int, *tracks: Sequence[Timed]) -> bytes:
    """Encode tracks of messages at ticks; messages on one tick keep their order."""
    file = mido.MidiFile(type=kind, ticks_per_beat=division)
    if kind == 0:
        tracks = ([row for track in tracks for row in track],)
    for rows in tracks:
        track, now = mido.MidiTrack(), 0
        for tick, one in sorted(rows, key=lambda row: row[0]):
            track.append(one.copy(time=tick - now))
            now = tick
        track.append(mido.MetaMessage("end_of_track", time=division))
        file.tracks.append(track)
    data = io.BytesIO()
    file.save(file=data)
    return data.getvalue()


def notes_at(rows: Sequence[Row], channel: int, start: int = 0) -> list[Timed]:
    found = []
    for tick, length, pitch, velocity in rows:
        on = mido.Message("note_on", channel=channel, note=pitch, velocity=velocity)
        off = mido.Message("note_off", channel=channel, note=pitch, velocity=17)
        found += [(start + tick, on), (start + tick + length, off)]
    return found


def band(kind: int = 1, division: int = 480, bars: int = 8, pickup: bool = False) -> bytes:
    """Return a file with all kinds of events and five instruments, of which two share a channel."""
    beat, bar = division, 4 * division
    meta, message = mido.MetaMessage, mido.Message
    start = beat * pickup

    def every(step: int, count: int, make: Callable[[int], Any], first: int = 0) -> list[Timed]:
        return [(start + first + step * n, make(n)) for n in range(count)]

    def pedal(value: int) -> Callable[[int], Any]:
        return lambda _: message("control_change", control=64, value=value)

    def line(step: int, length: int, *pitches: int, first: int = 0) -> list[Row]:
        """Return a note every `step` ticks, cycling through the pitches."""
        numbers = range(bars * bar // step)
        return [(first + step * n, length, pitches[n % len(pitches)], 40 + n % 80) for n in numbers]

    melody, low = line(beat, beat - 1, 70, 73, 76, 79, 75), line(bar, 3 * beat, 40, 41, 42, 43, 44)
    chords = [note for p in (55, 59, 62) for note in line(beat, beat // 2, p, first=beat // 2)]
    kit = line(beat, max(1, beat // 8), 36, 42, 38, 42)
    overlaps = line(bar, 2 * beat, 62) + line(bar, 2 * beat, 62, first=beat)
    conductor = [
        (0, meta("sequence_number", number=3)),
        (0, meta("track_name", name="Sonata é")),
        (0, meta("copyright", text="me")),
        (0, meta("key_signature", key="Bbm")),
        (0, meta("set_tempo", tempo=500_000)),
        *([(0, meta("time_signature", numerator=1, denominator=4))] if pickup else []),
        (start, meta("time_signature", numerator=4, denominator=4)),
        *every(beat, 8, lambda n: meta("set_tempo", tempo=500_000 + 10_007 * n), 4 * bar),
        (start + bar, meta("marker", text="Verse")),
        (start + 5 * bar, meta("cue_marker", text="later")),
        (start + 2 * bar, meta("smpte_offset", hours=1)),
        (start + 2 * bar, meta("sequencer_specific", data=(1, 2, 3))),
        (start, message("sysex", data=(67, 16, 76, 0, 0, 126, 0))),
    ]
    flute = [
        (0, meta("track_name", name="Flute")),
        (0, message("program_change", channel=2, program=73)),
        *notes_at(melody, 2, start),
        *every(bar, bars, lambda n: meta("lyrics", text=f"la{n}")),
        *every(beat, 4 * bars, lambda n: message("pitchwheel", channel=2, pitch=300 * (n % 5))),
    ]
    piano = [
        (0, meta("track_name", name="Piano")),
        (0, message("program_change", program=0)),
        (0, message("control_change", control=7, value=101)),
        *notes_at([*chords, *low], 0, start),
        *every(bar, bars, pedal(127), beat),
        *every(bar, bars, pedal(0), bar + beat // 2),
    ]
    bass = [
        (0, meta("track_name", name="Bass")),
        (0, message("program_change", channel=1, program=33)),
        *notes_at([(tick, beat, pitch - 5, 80) for tick, _, pitch, _ in low], 1, start),
    ]
    drums = [(0, meta("track_name", name="Kit")), *notes_at(kit, 9, start)]
    shared = [
        (0, meta("instrument_name", name="second on channel 3")),
        *notes_at(overlaps, 2 if kind else 5, start),
        (start + 3, message("aftertouch", channel=2, value=5)),
        (start + 4, message("polytouch", channel=2, note=62, value=5)),
    ]
    return saved(kind, division, conductor, flute, piano, bass, drums, shared)


@lru_cache(4)
def events(data: bytes) -> list[list[tuple[int, tuple[int, ...]]]]:
    """Return the events of each track except its end, as ticks and bytes read by mido."""
    found = []
    for track in mido.MidiFile(file=io.BytesIO(data)).tracks:
        tick, rows = 0, []
        for one in track:
            tick += one.time
            if one.type != "end_of_track":
                rows.append((tick, tuple(one.bytes())))
        found.append(rows)
    return found


def is_provenance(event: tuple[int, tuple[int, ...]]) -> bool:
    """Return whether an event is the text with the provenance of the file."""
    return bytes(event[1]).startswith(b"\xff\x01") and b"musicgen {" in bytes(event[1])


def sounding(data: bytes) -> Counter[tuple[int, ...]]:
    """Return the notes of a file as (track, channel, onset, end, pitch, velocity), paired first-in first-out."""
    found: Counter[tuple[int, ...]] = Counter()
    for number, rows in enumerate(events(data)):
        begun: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for tick, (status, *values) in rows:
            key = status & 15, values[0] if values else 0
            if 0x90 <= status < 0xA0 and values[1]:
                begun.setdefault(key, []).append((tick, values[1]))
            elif 0x80 <= status < 0xA0 and begun.get(key):
                on, velocity = begun[key].pop(0)
                found[number, key[0], on, tick, key[1], velocity] += 1
        assert not any(begun.values()), "a note never ends"
    return found


def piece_in(name: str, data: bytes, **choices: object) -> Piece:
    return read_piece(language(name), data, name="song.mid", **choices)  # type: ignore[arg-type]


def continued(piece: Piece, bars: int, rows: Sequence[Row], track: int = 0) -> tuple[Edit, Score]:
    """Continue the first bars of a piece with notes whose onsets count from the seam."""
    prompt = piece.prompt(bars)
    edit = edit_of(piece.original, prompt.score, piece.language, start=prompt.ticks)
    assert edit is not None, "the piece was read from a file"
    return edit, with_rows(prompt.score, prompt.ticks, rows, track, piece.language.onset_steps)


def with_rows(score: Score, start: int, rows: Sequence[Row], track: int, steps: int) -> Score:
    step = score.ticks_per_beat // steps
    new = [(start + on * step, n * step, pitch, v, track) for on, n, pitch, v in rows]
    columns = np.array(new).reshape(-1, 5).T
    return score.replace(notes=Notes.concatenate([score.notes, Notes(*columns)]).sorted())


def expected(division: int, seam: int, steps: int, rows: Sequence[Row]) -> Counter:
    """Return the (onset, end, pitch, velocity) of rows in a file, rounded to ticks."""

    def tick(step: int) -> int:
        return seam + (2 * step * division + steps) // (2 * steps)

    return Counter((tick(on), max(tick(on + n), tick(on) + 1), p, v) for on, n, p, v in rows)


RISING: list[Row] = [(4 * n, 2, 60 + n, 80) for n in range(8)]


@pytest.mark.parametrize(("name", "track", "target"), [
    ("remi", 0, (2, 0)), ("groove", 0, (3, 1)), ("groove", 1, (4, 9)), ("ensemble", 0, (1, 2)),
])  # fmt: skip
def test_new_notes_use_the_track_and_channel_of_their_part(name, track, target):
    data = band()
    piece = piece_in(name, data, **({"tracks": ["Piano"]} if name == "remi" else {}))
    edit, score = continued(piece, 4, RISING, track)
    new = sounding(KeptMidi(edit).edited(score))
    assert {note[:2] for note in new if note[2] >= 16 * 480} == {target}


def with_silent_track(first: int | None = None) -> bytes:
    """Return four bars of piano, and a flute that is silent, or begins in some bar."""
    name, program = partial(mido.MetaMessage, "track_name"), partial(mido.Message, "program_change")
    flute = [(0, name(name="Flute")), (0, program(channel=5, program=73))]
    if first is not None:
        flute += notes_at([(480 * n, 240, 80, 90) for n in range(4)], 5, 1920 * first)
    tune = notes_at([(480 * n, 480, 60 + n % 5, 80) for n in range(16)], 3)
    return saved(1, 480, flute, [(0, name(name="Piano")), *tune])


@pytest.mark.parametrize("first", [None, 3])
def test_a_track_that_is_silent_enters_on_its_own_channel(first: int | None):
    data = with_silent_track(first)
    piece = piece_in("ensemble", data)
    assert [(track.name, track.program) for track in piece.score.tracks] == [
        ("Flute", 73),
        ("Piano", 0),
    ]
    edit, score = continued(piece, 2, [(24 * n, 12, 84, 90) for n in range(4)], 0)
    new = KeptMidi(edit).edited(score)
    assert [track.name for track in mido.MidiFile(file=io.BytesIO(new)).tracks] == [
        "Flute",
        "Piano",
    ]
    assert {note[:2] for note in sounding(new) if note[4] == 84} == {(0, 5)}
    assert read_midi(new).tracks == read_midi(data).tracks


def test_a_new_part_gets_no_channel_of_a_silent_track():
    new = accompanied(
        with_silent_track(), Track("Violin", 40), [(24 * n, 6, 80, 90) for n in range(8)]
    )
    tracks = read_midi(new).tracks
    assert [track.program for track in tracks] == [73, 0, 40]
    assert {note[:2] for note in sounding(new) if note[4] == 80} == {(2, 0)}


def test_each_note_of_a_kit_on_several_tracks_continues_the_nearest():
    kick, hat = (notes_at([(480 * n, 60, pitch, 80) for n in range(16)], 9) for pitch in (36, 42))
    piece = piece_in("ensemble", saved(1, 480, kick, hat))
    hits = [(24 * n, 6, pitch, 80) for n, pitch in enumerate((36, 42, 38))]
    edit, score = continued(piece, 4, hits)
    new = sounding(KeptMidi(edit).edited(score))
    assert {(n[0], n[4]) for n in new if n[2] >= 16 * 480} == {(0, 36), (1, 42), (0, 38)}


def check_kept(data: bytes, new: bytes, seam: int) -> None:
    """Check that events before the seam are unchanged and that all later events of the file are gone."""
    for before, after in zip(events(data), events(new), strict=True):
        early = [event for event in after if event[0] < seam and not is_provenance(event)]
        assert early == [event for event in before if event[0] < seam and not is_provenance(event)]
    file, given = mido.MidiFile(file=io.BytesIO(new)), mido.MidiFile(file=io.BytesIO(data))
    assert (file.type, file.ticks_per_beat) == (given.type, given.ticks_per_beat)
    # Given notes last as long as before, unless their key is struck again.
    given, now = ({note for note in sounding(one) if note[2] < seam} for one in (data, new))
    struck = {(*note[:3], note[4]) for note in sounding(new) if note[2] >= seam}
    for track, channel, onset, end, *key in given - now:
        ends = [one[3] for one in now if one[:3] == (track, channel, onset) and [*one[4:]] == key]
        assert len(ends) == 1
        assert seam <= ends[0] < end
        assert (track, channel, ends[0], key[0]) in struck
    late = [bytes(event[1]) for rows in events(new) for event in rows if event[0] >= seam]
    assert not any(b"later" in one or one[:2] in (b"\xff\x51", b"\xff\x05") for one in late)
    state: dict[tuple[int, int], tuple[int, ...]] = {}
    for rows in events(new):
        for _, (status, *values) in rows:
            if status >> 4 == 0xE or (status >> 4 == 0xB and values[0] == 64):
                state[status, values[0] if status < 0xC0 else 0] = tuple(values)
    # Pitch bends are reset and pedals released.
    assert all(v == (0, 64) if key[0] >= 0xE0 else v[1] < 64 for key, v in state.items())


@settings(max_examples=60)
@given(
    kind=st.integers(0, 1), division=st.sampled_from([37, 96, 480, 1024]), bars=st.integers(1, 8),
    pickup=st.booleans(), name=st.sampled_from(LANGUAGES),
    rows=st.lists(
        st.tuples(st.integers(0, 31), st.integers(1, 8), st.integers(30, 90), st.integers(1, 127)),
        max_size=12, unique_by=lambda row: row[2],
    ),
)  # fmt: skip
def test_a_continuation_of_any_file(kind, division, bars, pickup, name, rows):
    data = band(kind, division, pickup=pickup)
    piece = piece_in(name, data)
    edit, score = continued(piece, min(bars, piece.bars), rows)
    kept = KeptMidi(edit)
    new, seam = kept.edited(score, ['musicgen {"a": 1}']), int(edit.tick_of(edit.start))
    if not pickup:
        assert seam == 4 * division * min(bars, piece.bars)
    elif name == "ensemble":
        assert (seam - read_midi(data).meters.onset_ticks[-1]) % (4 * division) == 0
    check_kept(data, new, seam)
    found = {n[4]: n[2:] for n in sounding(new) if n[2] >= seam}
    wanted = {n[2]: n for n in expected(division, seam, piece.language.onset_steps, rows)}
    assert found.keys() == wanted.keys()
    pedals = read_midi(new).pedals
    for key, (start, end, _, velocity) in found.items():
        assert (start, velocity) == (wanted[key][0], wanted[key][3])
        # A key is only released early where the pedal is down.
        down = (pedals.onset_ticks <= end) & (pedals.onset_ticks + pedals.duration_ticks > end)
        assert end == wanted[key][1] or (end < wanted[key][1] and down.any())


@settings(max_examples=25)
@given(
    kind=st.integers(0, 1), division=st.sampled_from([37, 96, 480]), first=st.integers(1, 8), pickup=st.booleans(),
    name=st.sampled_from(LANGUAGES),
    rows=st.lists(
        st.tuples(st.integers(0, 12), st.integers(1, 3), st.integers(94, 108), st.integers(1, 127)),
        max_size=8, unique_by=lambda row: row[2],
    ),
)  # fmt: skip
def test_rewritten_bars_lose_only_notes_that_were_read(kind, division, first, pickup, name, rows):
    data = band(kind, division, pickup=pickup)
    piece = piece_in(name, data)
    start, stop = bar_lines(piece.score, first)[[first - 1, first]].tolist()
    steps = piece.language.onset_steps
    edit = Edit(kind="midi", original=data, heard=piece.score, onset_steps=steps, start=start, stop=stop)  # fmt: skip
    inside = (piece.score.notes.onset_ticks >= start) & (piece.score.notes.onset_ticks < stop)
    emptied = piece.score.replace(notes=piece.score.notes[~inside])
    scaled = [(on * steps // 4, length * steps // 4, pitch, v) for on, length, pitch, v in rows]
    kept = KeptMidi(edit)
    low, high = max(0, int(edit.tick_of(start))), int(edit.tick_of(stop))
    new = kept.edited(with_rows(emptied, start, scaled, 0, steps))
    heard = {source for track in piece.score.tracks for source in track.sources}
    gone = {kept.keys[source][:2] for source in heard}
    # The new notes have pitches of their own.
    stay = [n for n in sounding(data).elements() if not (low <= n[2] < high and n[:2] in gone)]
    assert Counter(n for n in sounding(new).elements() if n[4] < 94) == Counter(stay)
    for before, after in zip(events(data), events(new), strict=False):
        others = Counter(e for e in after if not 0x80 <= e[1][0] < 0xA0)
        assert not Counter(e for e in before if not 0x80 <= e[1][0] < 0xA0) - others
    found = Counter({n[2:]: c for n, c in sounding(new).items() if n[4] >= 94})
    assert found == expected(division, low, steps, scaled)


def test_the_first_bar_loses_a_note_before_it_that_is_heard_in_it():
    """A bar of rest is left out, and a note just before its end counts as a note after it."""
    rows = [
        (1920 - 50, 400, 78, 114),
        *((1920 + 480 * n, 480, 60 + n % 3, 80) for n in range(1, 16)),
    ]
    data = saved(1, 480, notes_at(rows, 0))
    score = piece_in("ensemble", data).score
    stop = int(bar_lines(score, 1)[1])
    edit = Edit(kind="midi", original=data, heard=score, onset_steps=24, start=0, stop=stop)
    later = score.replace(notes=score.notes[score.notes.onset_ticks >= stop])
    new = KeptMidi(edit).edited(later)
    assert {note[2] for note in sounding(new)} == {1920 + 480 * n for n in range(4, 16)}


def accompanied(data: bytes, part: Track, rows: Sequence[Row]) -> bytes:
    """Add an accompanying part to a file."""
    heard = piece_in("ensemble", data).score
    at = len(heard.tracks)
    edit = Edit(original=data, kind="midi", heard=heard, onset_steps=24, tracks=(at,))
    score = heard.replace(tracks=(*heard.tracks, part))
    return KeptMidi(edit).edited(with_rows(score, 0, rows, at, 24))


def test_an_accompaniment_adds_a_track_and_leaves_the_others_unchanged():
    tune = notes_at([(480 * n, 480, 60 + n % 5, 80) for n in range(32)], 3)
    data = saved(1, 480, [(0, mido.MetaMessage("track_name", name="x"))], tune)
    rows = [(24 * n, 6, 36, 90) for n in range(32)]
    new = accompanied(data, Track("Drums", 0, is_drum=True), rows)
    assert events(new)[:2] == events(data)
    wanted = Counter((9, 480 * n, 480 * n + 120, 36, 90) for n in range(32))
    assert Counter(n[1:] for n in sounding(new) if n[0] == 2) == wanted
    assert mido.MidiFile(file=io.BytesIO(new)).tracks[2].name == "Drums"


def test_a_type_0_file_keeps_its_type_and_a_new_part_gets_a_free_channel():
    data = band(0)
    new = accompanied(data, Track("Violin", 40), [(24 * n, 6, 80, 90) for n in range(32)])
    assert mido.MidiFile(file=io.BytesIO(new)).type == 0
    assert sounding(data) - sounding(new) == Counter()
    assert {note[1] for note in sounding(new) - sounding(data)} == {3}
    assert (0, (0xC3, 40)) in events(new)[0]


def test_a_type_2_file_with_one_track_becomes_type_1_with_a_new_part():
    data = saved(2, 480, notes_at([(480 * n, 480, 60 + n % 7, 80) for n in range(32)], 0))
    new = accompanied(
        data, Track("Drums", 0, is_drum=True), [(24 * n, 6, 36, 90) for n in range(32)]
    )
    assert mido.MidiFile(file=io.BytesIO(data)).type == 2
    assert mido.MidiFile(file=io.BytesIO(new)).type == 1
    assert len(read_midi(new).tracks) == 2


@pytest.mark.parametrize(("metres", "written", "added"), [
    ([(0, 3, 4)], [(0, 3, 4)], []),
    ([(0, 4, 4), (8, 3, 4)], [(0, 4, 4), (8, 3, 4)], []),
    ([(0, 4, 4)], [(0, 4, 4), (16, 3, 4)], [(16, 3, 4)]),
    ([(0, 5, 8)], [(0, 5, 8)], []),  # split into bars of 3/8 and 1/4
])  # fmt: skip
def test_new_bars_keep_the_metre_of_the_file_or_state_their_own(metres, written, added):
    beat, metre = 480, partial(mido.MetaMessage, "time_signature")
    meters = [(beat * at, metre(numerator=n, denominator=d)) for at, n, d in metres]
    tune = notes_at([(beat * n, beat, 60 + n % 7, 80) for n in range(16)], 0)
    piece = piece_in("ensemble", saved(1, beat, meters, tune))
    beats = piece.score.ticks_per_beat
    lines = bar_lines(piece.score, piece.bars).tolist()
    edit, score = continued(piece, sum(line <= 16 * beats for line in lines) - 1, RISING)
    at, top, low = np.array(written).T
    bars_on = bars_of(Meters(at * beats, top, low), beats, 200)
    score = score.replace(meters=bars_on.meters(beats // 4))
    found = read_midi(KeptMidi(edit).edited(score)).meters
    rows = zip(*(c.tolist() for c in found.columns), strict=True)
    assert [*rows] == [(beat * at, n, d) for at, n, d in [*metres, *added]]


def test_a_performance_is_continued_at_its_own_tempo():
    """If the music was played off the beats of the file, new notes follow the estimated beats."""
    random = np.random.default_rng(3)
    beat = 317.0  # in ticks of 480 per beat: 181.7 beats per minute in a file that states 120
    ticks = np.sort(np.concatenate([beat * np.arange(64), beat * (np.arange(0, 64, 4) + 0.5)]))
    ticks += random.normal(0, 4, 80)
    rows = [(int(t) + 40, 150, 60 + n % 7, 80) for n, t in enumerate(ticks.clip(0))]
    data = saved(1, 480, notes_at(rows, 0))
    piece = piece_in("remi", data)
    assert any("estimated" in remark for remark in piece.remarks)
    edit, score = continued(piece, 8, [(4 * n, 2, 90, 80) for n in range(8)])
    kept = KeptMidi(edit)
    new, seam = kept.edited(score), int(edit.tick_of(edit.start))
    ratio = np.diff(sorted(note[2] for note in sounding(new) if note[4] == 90)) / beat
    assert np.allclose(ratio, ratio.mean(), atol=0.02)
    assert min(abs(ratio.mean() - r) for r in (0.5, 1, 2)) < 0.02
    before = [e for e in events(data)[0] if e[0] < seam - beat]
    assert [e for e in events(new)[0] if e[0] < seam - beat] == before


@pytest.mark.parametrize("damage", [
    lambda data: data[:-20],  # truncated
    lambda data: data.replace(b"MTrk\x00", b"MTrk\x01", 1),  # a wrong length
])  # fmt: skip
def test_a_damaged_file_is_replaced_by_its_notes_and_the_user_is_told(damage):
    notes = (make.on(0, 60 + n % 5) + make.off(480, 60 + n % 5) for n in range(32))
    edit, score = continued(piece_in("remi", damage(make.midi(make.track(*notes)))), 2, RISING)
    with pytest.raises(NotKept):
        KeptMidi(edit)
    found, reason = file_of(".mid", score, edit=edit)
    assert reason.startswith("Written from the notes alone, not into your file: ")
    assert len(read_midi(found).notes) == len(score.notes)
