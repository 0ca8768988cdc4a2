"""Written MusicXML reads back as the same notes; an edited score keeps its other elements."""

import io
import warnings
import xml.etree.ElementTree as ET
import zipfile
from collections import Counter
from itertools import pairwise

import music21
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from musicgen.pieces import Piece, edit_of, read_piece
from tests.tokenization.notation.scores import HARMONY, bars, score
from tokenization.analysis.chords import CHORDS, named
from tokenization.analysis.metres import bar_lines
from tokenization.analysis.spelling import key_of, spelled
from tokenization.edit import Edit
from tokenization.formats import file_of, read_file
from tokenization.language import language
from tokenization.notation.musicxml.keeping import KeptMusicXml
from tokenization.notation.musicxml.voices import MOST_VOICES, voices_of
from tokenization.notation.musicxml.writing import write_musicxml
from tokenization.score import Marker, Meters, Notes, Score, Tempos, Track

PIANO = (Track("Piano"),)
HITS = [(0, 1, 36), (0, 1, 42), (12, 1, 42), (20, 1, 38), (96, 1, 49)]


def piece(rows: list, *, tracks: tuple = PIANO, meters: tuple = ((0, 4, 4),)) -> Score:
    """Return a score of (onset, duration, pitch) in 24ths of a beat, assigned to the tracks in turn."""
    onset, duration, pitch = np.array(rows).T
    track = np.arange(len(onset)) % len(tracks)
    notes = Notes(onset, duration, pitch, 0 * onset + 81, track).sorted()
    tempos, metres = Tempos([0, 96], [90.0, 70.0]), Meters(*np.array(meters).T)
    return Score(ticks_per_beat=24, notes=notes, tracks=tracks, tempos=tempos, meters=metres)


def rows(score: Score) -> Counter:
    found = score.rescaled(24).notes
    return Counter(zip(*(column.tolist() for column in found.columns), strict=True))


SCALE = [(24 * n, 24, 60 + n) for n in range(12)]
POLYPHONY = [(0, 300, 40), (6, 6, 70), (13, 50, 71), (24, 8, 72), (32, 8, 74), (40, 8, 76)]


@pytest.mark.parametrize(
    "score",
    [
        piece(SCALE),
        piece(POLYPHONY),
        piece(SCALE, meters=((0, 3, 4), (72, 6, 8), (144, 2, 4))),
        piece(SCALE, meters=((0, 4, 4), (60, 3, 4))),  # the change is inside a bar
        piece(SCALE, tracks=(Track("Bass", 33), Track("Other", 25))),
    ],
)
def test_notes_metres_and_tempos_read_back(score: Score):
    found = read_file(write_musicxml(score, exact=True))
    assert rows(found) == rows(score)
    assert found.tempos == score.tempos.replace(onset_ticks=score.tempos.onset_ticks * 20)
    assert [t.program for t in found.tracks] == [t.program for t in score.tracks]
    if score.meters.onset_ticks.tolist() != [0, 60]:
        assert found.meters == score.meters.replace(onset_ticks=score.meters.onset_ticks * 20)


@pytest.mark.parametrize(("parts", "height"), [(6, None), (7, "6.0"), (12, "4.5")])
def test_staves_are_smaller_where_there_are_many(parts: int, height: str | None):
    tracks = tuple(Track(f"Violin {n}", 40) for n in range(parts))
    root = ET.fromstring(write_musicxml(piece(SCALE, tracks=tracks)))
    assert root.findtext("defaults/scaling/millimeters") == height


def test_tempos_that_do_not_last_are_played_but_not_printed():
    score = piece(SCALE)
    tempos = Tempos([0, 24, 48, 72], [90.0, 86.0, 80.0, 90.0])
    data = write_musicxml(score.replace(tempos=tempos))
    assert read_file(data).tempos.beats_per_minute.tolist() == tempos.beats_per_minute.tolist()
    directions = ET.fromstring(data).findall(".//direction[sound]")
    assert [one.findtext("direction-type/words") for one in directions] == [None, " ", " ", " "]
    assert not ET.fromstring(data).findall(".//measure/sound")


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(st.integers(0, 400), st.integers(1, 200), st.integers(21, 108)),
        min_size=1,
        max_size=40,
        unique_by=lambda row: (row[0], row[2]),
    )
)
def test_every_onset_reads_back_and_no_staff_has_a_fifth_voice(notes: list[tuple[int, int, int]]):
    score = piece(notes)
    both = (rows(one).elements() for one in (read_file(write_musicxml(score, exact=True)), score))
    found, wanted = (Counter(row[0::2] for row in one) for one in both)
    assert found == wanted
    # Only ends change, of notes that a fifth voice would need.
    voices = voices_of(score.notes)
    assert len(voices) <= MOST_VOICES
    assert all(a.end <= b.start for voice in voices for a, b in pairwise(voice))


def test_drums_keep_their_onsets_and_instruments():
    score = piece(HITS, tracks=(Track("Drums", 0, True),))
    found = read_file(write_musicxml(score, exact=True))
    assert {row[0::2][:2] for row in rows(found)} == {row[0::2][:2] for row in rows(score)}
    assert found.tracks[0].is_drum


def test_dynamics_are_written_where_the_music_becomes_louder_and_stays_so():
    score = piece([(24 * n, 24, 60 + n % 12) for n in range(64)])
    velocity = np.repeat([50, 50, 50, 90, 50, 50, 50, 50, 92, 92, 92, 92, 92, 92, 66, 66], 4)
    velocity += np.arange(64) % 3  # as a player's
    score = score.replace(notes=score.notes.replace(velocity=velocity))
    marks = [
        (int(measure.get("number", "")), mark.tag)
        for measure in ET.fromstring(write_musicxml(score)).iter("measure")
        for mark in measure.findall("direction/direction-type/dynamics/*")
    ]
    assert marks == [(1, "p"), (9, "f"), (15, "mp")]
    assert rows(read_file(write_musicxml(score), name="a.xml")) == rows(score)
    assert b"<dynamics>" not in write_musicxml(piece(SCALE))


def test_another_library_reads_the_same():
    chords = ((0, "A#_m7"), (36, "C_M/E"), (132, "B_/o7"), (150, "N_N"))
    score = piece([*POLYPHONY, (96, 24, 60)], meters=((0, 3, 4), (72, 6, 8)))
    score = score.replace(markers=tuple(Marker(at, text) for at, text in chords))
    data = write_musicxml(score, title="A <title> & more", made='{"seed": 1}', exact=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parsed = music21.converter.parseData(data.decode(), format="musicxml")
    found = Counter(
        (round(24 * float(chord.getOffsetInHierarchy(parsed))), one.pitch.midi)
        for chord in parsed.recurse().notes
        if not isinstance(chord, music21.harmony.Harmony)
        for one in (chord.notes if isinstance(chord, music21.chord.Chord) else [chord])
        if one.tie is None or one.tie.type == "start"
    )
    assert found == Counter((row[0], row[2]) for row in rows(score).elements())
    times = parsed.parts[0].recurse().getElementsByClass(music21.meter.TimeSignature)
    assert [time.ratioString for time in times] == ["3/4", "6/8"]
    assert ET.fromstring(data).findtext("work/work-title") == "A <title> & more"
    named = [
        (24 * float(chord.getOffsetInHierarchy(parsed)), chord.figure.replace("-", "b"))
        for chord in parsed.parts[0].recurse().getElementsByClass(music21.harmony.Harmony)
    ]
    assert named == [(0, "A#m7"), (36, "C/E"), (132, "Bø7"), (150, "N.C.")]
    # MuseScore 3 would write the root even if its text is empty.
    roots = {one.findtext("kind"): one.find("root") for one in ET.fromstring(data).iter("harmony")}
    assert roots["none"] is None is not roots["minor-seventh"]


@pytest.mark.parametrize(
    ("centre", "names"),
    [
        (-1, "C Db D Eb E F Gb G Ab A Bb B"),  # B♭ major
        (2, "C C# D Eb E F F# G G# A Bb B"),  # C major
        (6, "B# C# D D# E E# F# G G# A A# B"),  # C♯ minor
    ],
)
def test_note_names_fit_the_key(centre: int, names: str):
    signs = {-1: "b", 0: "", 1: "#"}
    found = [spelled(60 + n, centre) for n in range(12)]
    assert [f"{step}{signs[alter]}" for step, alter, _ in found] == names.split()
    steps = {"C": 0, "D": 2, "E": 4, "F": 5, "G": 7, "A": 9, "B": 11}
    sounding = [12 * (octave + 1) + steps[step] + alter for step, alter, octave in found]
    assert sounding == [*range(60, 72)]


@pytest.mark.parametrize(
    ("pitches", "fifths", "leading", "name"),
    [
        ((7, 9, 10, 0, 2, 3, 6, 7, 2, 7), -2, 6, ("F", 1, 4)),  # G minor
        ((0, 2, 3, 5, 7, 8, 11, 0, 7, 0), -3, 11, ("B", 0, 4)),  # C minor
        ((9, 11, 12, 14, 16, 17, 20, 21, 16, 21), 0, 8, ("G", 1, 4)),  # A minor
    ],
)
def test_the_leading_note_of_a_minor_key_is_raised(pitches, fifths, leading, name):
    key = key_of(piece([(24 * n, 24, 60 + pitch) for n, pitch in enumerate(pitches)]))
    assert key.fifths == fifths
    assert spelled(60 + leading, key.centre) == name


def test_scores_with_more_bars_than_can_be_read_are_not_written():
    notes = Notes(*[[120_000] * 64, [24] * 64, [60] * 64, [80] * 64, range(64)])
    short = Meters([0], [1], [32])
    spread = Score(ticks_per_beat=24, notes=notes, tracks=(Track(),) * 64, meters=short)
    with pytest.raises(ValueError, match=r"2,560,512 bars in all its parts, .* at most 300,000"):
        write_musicxml(spread)


def marked(*chords: tuple[int, str], guesses: int = 0) -> Score:
    """Return a piece with chords, the first `guesses` of which are guesses."""
    markers = [Marker(at, text, index < guesses) for index, (at, text) in enumerate(chords)]
    score = piece(POLYPHONY, tracks=(Track("Drums", 0, True), *PIANO))
    return score.replace(markers=tuple(markers))


@pytest.mark.parametrize("chord", CHORDS[:-1])
def test_every_chord_reads_back(chord: str):
    found = read_file(write_musicxml(marked((0, chord))))
    assert [(m.onset_ticks, m.text) for m in named(found)] == [(0, chord)]


def test_chord_changes_are_written_at_their_beats_with_their_basses():
    score = marked((0, "Verse"), (0, "Bb:min7"), (24, "G/B"), (96, "G/B"), (108, "Am7b5/E"))
    found = read_file(write_musicxml(score, exact=True)).rescaled(24)
    chords = [(m.onset_ticks, m.text) for m in found.markers]
    assert chords == [(0, "Bb_m7"), (24, "G_M/B"), (108, "A_m7b5/E")]


def test_guessed_chords_before_the_first_known_one_are_not_written():
    assert b"<harmony" not in write_musicxml(marked((0, "C_M"), (96, "G_M"), guesses=2))
    found = read_file(
        write_musicxml(marked((0, "C_M"), (96, "G_M"), guesses=1), exact=True)
    ).rescaled(24)
    assert [(m.onset_ticks, m.text) for m in found.markers] == [(96, "G_M")]


HEAD = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE score-partwise PUBLIC "-//Recordare//DTD MusicXML 4.0 Partwise//EN"
  "http://www.musicxml.org/dtds/partwise.dtd">
<score-partwise version="4.0"><!-- a comment -->
  <work><work-title>Café &amp; more</work-title></work>
  <identification><creator type="composer">Me</creator></identification>
  <part-list>
    <score-part id="P1"><part-name>Clarinet in B♭</part-name>
      <score-instrument id="P1-I1"><instrument-name>Clarinet</instrument-name></score-instrument>
      <midi-instrument id="P1-I1"><midi-channel>1</midi-channel><midi-program>72</midi-program></midi-instrument>
    </score-part>
    <score-part id="P2"><part-name>Piano</part-name></score-part>
  </part-list>
"""


def note(step: str, octave: int, length: int, *more: str, tie: str = "", staff: int = 0) -> str:
    on_staff = f"<staff>{staff}</staff>" if staff else ""
    tied = f'<tie type="{tie}"/>' if tie else ""
    notated = f'<notations><tied type="{tie}"/></notations>' if tie else ""
    return (f"<note><pitch><step>{step}</step><octave>{octave}</octave></pitch><duration>{length}</duration>"
            f"{tied}<voice>{1 if staff < 2 else 5}</voice>{on_staff}{notated}{''.join(more)}</note>")  # fmt: skip


def attributes(divisions: int, fifths: int, time: str, more: str) -> str:
    content = f"<divisions>{divisions}</divisions><key><fifths>{fifths}</fifths></key>{time}{more}"
    return f"<attributes>{content}</attributes>"


def clef(sign: str, line: int, number: str = "") -> str:
    return f"<clef{number}><sign>{sign}</sign><line>{line}</line></clef>"


TRANSPOSED = "<transpose><diatonic>-1</diatonic><chromatic>-2</chromatic></transpose>"
TEMPO = (
    "<direction><direction-type><metronome><beat-unit>quarter</beat-unit><per-minute>121</per-minute>"
    '</metronome></direction-type><sound tempo="121"/></direction>'
)
REPEAT = '<barline location="{}"><repeat direction="{}"/></barline>'


def melody(number: int, bars: int, beats: int) -> str:
    """Return the notes of a bar, with lyrics, a text direction, and ties across every second bar line."""
    lyric = f"<lyric><text>la{number}</text></lyric>"
    notes = [note("CDEFGAB"[(number + beat) % 7], 5, 2, lyric) for beat in range(beats - 1)]
    words = f"<direction><direction-type><words>word {number}</words></direction-type></direction>"
    notes.insert(1, words)
    notes.append(note("B", 5, 2, tie="start" if number % 2 == 0 and number < bars - 1 else ""))
    if number % 2:
        notes[0] = note("B", 5, 2, tie="stop")
    return "".join(notes)


def written(bars: int = 8, *, pickup=False, repeat=False, change=False) -> bytes:
    """Return a score with a transposed part, two staves, lyrics, directions, chords and ties."""
    clarinet, piano = [], []
    for number in range(bars):
        beats = 1 if pickup and not number else 3 if change and number >= 4 else 4
        time = f"<time><beats>{max(beats, 4) if beats == 1 else beats}</beats><beat-type>4</beat-type></time>"
        start, end = "", REPEAT.format("right", "backward") if repeat and number == bars - 1 else ""
        high = low = f"<attributes>{time}</attributes>" if change and number == 4 else ""
        if number == 0:
            start = REPEAT.format("left", "forward") if repeat else ""
            high = attributes(2, 2, time, clef("G", 2) + TRANSPOSED)
            clefs = clef("G", 2, ' number="1"') + clef("F", 4, ' number="2"')
            low = attributes(4, 0, time, f"<staves>2</staves>{clefs}") + TEMPO
        name = number + (not pickup)
        high += melody(number, bars, beats)
        clarinet.append(f'<measure number="{name}">{start}{high}{end}</measure>')
        back = f"<backup><duration>{4 * beats}</duration></backup>"
        hands = note("E", 4, 4, staff=1) * beats + back + note("C", 3, 4 * beats, staff=2)
        piano.append(f'<measure number="{name}">{start}{low}{HARMONY}{hands}{end}</measure>')
    both = ((1, clarinet), (2, piano))
    parts = "".join(f'<part id="P{n}">{chr(10).join(part)}</part>\n' for n, part in both)
    return f"{HEAD}{parts}</score-partwise>\n".encode()


def piece_in(data: bytes, name: str = "ensemble") -> Piece:
    return read_piece(language(name), data, name="song.musicxml")


def edited(piece: Piece, **where: object) -> Edit:
    return edit_of(piece.original, piece.score, piece.language, **where)


def with_rows(score: Score, rows: list[tuple[int, int, int, int, int]]) -> Score:
    new = Notes(*np.array(rows).reshape(-1, 5).T)
    return score.replace(notes=Notes.concatenate([score.notes, new]).sorted())


def heard(data: bytes, per_beat: int = 24) -> Counter[tuple[int, ...]]:
    """Return the notes of a file as (onset, length, pitch, program)."""
    score = read_file(data).rescaled(per_beat)
    programs = np.array([track.program + 200 * track.is_drum for track in score.tracks])
    columns = (*score.notes.columns[:3], programs[score.notes.track])
    return Counter(zip(*(column.tolist() for column in columns), strict=True))


def opened(data: bytes) -> music21.stream.Score:
    return music21.converter.parseData(data, format="musicxml")


def parts_in(data: bytes) -> list[list[str]]:
    """Return the bars of each part as XML without spaces around elements."""
    parts = ET.fromstring(data).iterfind("part")
    return [[ET.canonicalize(ET.tostring(bar), strip_text=True) for bar in part] for part in parts]


def chords_of(data: bytes) -> list[tuple[float, str]]:
    """Return the chords of a score in 4/4 as (bar, name)."""
    found = read_file(data)
    return [(m.onset_ticks / found.ticks_per_beat / 4, m.text) for m in found.markers]


NEW = [(24 * n, 12 + n, 60 + n, 40 + n) for n in range(8)]


@settings(max_examples=20)
@given(
    bars=st.integers(1, 8), pickup=st.booleans(), change=st.booleans(),
    rows=st.lists(
        st.tuples(st.integers(0, 31), st.integers(1, 8), st.integers(40, 90)), max_size=8, unique_by=lambda row: row[2]
    ),
)  # fmt: skip
def test_bars_before_the_seam_are_kept_and_new_bars_follow(bars, pickup, change, rows):
    together = (sum(on <= at < on + length for on, length, _ in rows) for at, *_ in rows)
    assume(max(together, default=0) <= 4)  # a fifth voice would shorten another
    data = written(pickup=pickup, change=change)
    piece = piece_in(data)
    bars = min(bars, piece.bars)
    prompt = piece.prompt(bars)
    edit = edit_of(data, prompt.score, piece.language, start=prompt.ticks)
    step = prompt.score.ticks_per_beat // 4
    new = [(prompt.ticks + on * step, length * step, pitch, 80, 0) for on, length, pitch in rows]
    kept = KeptMusicXml(edit, exact=True)  # type: ignore[arg-type]
    text = kept.edited(with_rows(prompt.score, new))
    old, found = (parts_in(one) for one in (data, text))
    for part, kept_part in zip(old, found, strict=True):
        assert kept_part[: bars - 1] == part[: bars - 1]  # the ties of the last bar are removed
    for kept_text in (
        "<!-- a comment -->",
        "Café &amp; more",
        '<creator type="composer">Me</creator>',
    ):
        assert kept_text in text.decode()
    seam = int(edit.tick_of(edit.start)) * 24 // 10080  # type: ignore[union-attr]
    found, given_ = ([*heard(one).elements()] for one in (text, data))
    late = Counter(n[:3] for n in found if n[0] >= seam)
    assert late == Counter((seam + 6 * on, 6 * length, pitch) for on, length, pitch in rows)
    early = [sum(n[0] < seam for n in one) for one in (found, given_)]
    assert early[0] == early[1]
    ET.fromstring(text)


def test_another_library_reads_a_continuation():
    data = written()
    piece = piece_in(data)
    edit = edited(piece, start=piece.prompt().ticks)
    rows = [(edit.start + on, *more, n % 2) for n, (on, *more) in enumerate(NEW)]
    made = {"seed": 7, "a": "--x"}
    new = with_rows(piece.score, rows)
    end = bar_lines(piece.score, 8)[-1]
    chords = (Marker(end, "A_m7"), Marker(end + 48, "D_7"))
    new = new.replace(markers=(*new.markers, *chords))
    text, reason = file_of(".musicxml", new, "t", made, edit)
    assert not reason
    assert chords_of(text)[-2:] == [(8.0, "A_m7"), (8.5, "D_7")]
    score = opened(text)
    assert [len(part.getElementsByClass("Measure")) for part in score.parts] == [10, 10, 10]
    names = [part.partName for part in score.parts]
    assert names == ["Clarinet in B♭", "Piano", "Piano"]  # two staves
    lyrics = [one.lyric for one in score.recurse().notes if one.lyric]
    assert {"la3", "la7"} <= {*lyrics}
    sounding = score.toSoundingPitch()
    late = [(round(float(n.getOffsetInHierarchy(sounding)) * 24), n.pitch.midi) for n in sounding.recurse().notes
            if isinstance(n, music21.note.Note) and n.getOffsetInHierarchy(sounding) >= 32
            and (n.tie is None or n.tie.type == "start")]  # fmt: skip
    assert sorted(late) == sorted((768 + on, pitch) for on, _, pitch, _ in NEW)


@pytest.mark.parametrize("prompt_bars", [8, 3])
def test_the_final_bar_line_moves_to_the_new_end(prompt_bars: int):
    """What else the line holds stays where it is."""
    final = "<bar-style>light-heavy</bar-style>"
    clarinet, piano = (f"<barline>{final}{one}</barline></measure>" for one in ("", "<fermata/>"))
    parts = zip(written().decode().split('<part id="P2">'), (clarinet, piano), strict=True)
    data = '<part id="P2">'.join(line.join(part.rsplit("</measure>", 1)) for part, line in parts)
    piece = piece_in(data.encode())
    prompt = piece.prompt(prompt_bars)
    edit = edit_of(data.encode(), prompt.score, piece.language, start=prompt.ticks)
    new = with_rows(prompt.score, [(prompt.ticks, 192, 60, 90, 0)])
    text, reason = file_of(".musicxml", new, edit=edit)
    assert not reason
    for part in parts_in(text):
        assert [final in bar for bar in part] == [False] * (prompt_bars + 1) + [True]
    marked = [n for part in parts_in(text) for n, bar in enumerate(part) if "<fermata" in bar]
    assert marked == ([7] if prompt_bars == 8 else [])


def test_rewritten_bars_keep_everything_except_notes_in_place():
    data = written().replace(b'number="3">', b'number="3"><print new-page="yes"/>')
    piece = piece_in(data)
    first, stop = bar_lines(piece.score, piece.bars)[[2, 4]].tolist()
    onset = piece.score.notes.onset_ticks
    kept = piece.score.notes[(onset < first) | (onset >= stop)]
    rows = [(first + 6, 30, 77, 99, 0), (first + 48, 24, 40, 98, 1)]
    score = with_rows(piece.score.replace(notes=kept), rows)
    markers = [  # one of its two chords is replaced, and one is removed
        one if one.onset_ticks != first else Marker(first, "E_m")
        for one in piece.score.markers
        if not first < one.onset_ticks < stop
    ]
    score = score.replace(markers=tuple(markers))
    text = KeptMusicXml(edited(piece, start=first, stop=stop), exact=True).edited(score)
    assert chords_of(text)[:4] == [(0, "C_M"), (1, "C_M"), (2, "E_m"), (4, "C_M")]
    old, new = heard(data), heard(text)
    assert Counter({n: c for n, c in old.items() if not 192 <= n[0] < 384}) - new == Counter()
    assert sorted(n[:3] for n in new if 192 <= n[0] < 384) == sorted(row[:3] for row in rows)
    for one in ("word 2", "word 3", '<print new-page="yes"'):
        assert text.count(one.encode()) == data.count(one.encode())
    score = opened(text)
    words = score.recurse().getElementsByClass("TextExpression")
    assert [one.getOffsetInHierarchy(score) for one in words] == [4.0 * n + 1 for n in range(8)]


def test_a_bar_line_stays_behind_the_only_note_of_a_rewritten_bar():
    line = '<barline location="right"><bar-style>light-light</bar-style></barline>'
    piece = piece_in(score(bars(*[note("C", 5, 8) + line] * 6)))
    first, stop = bar_lines(piece.score, piece.bars)[[2, 3]].tolist()
    others = piece.score.notes[piece.score.notes.onset_ticks != first]
    new = with_rows(piece.score.replace(notes=others), [(first, 24, 65, 90, 0)])
    text = KeptMusicXml(edited(piece, start=first, stop=stop), exact=True).edited(new)
    bar = ET.fromstring(text).findall("part/measure")[2]
    assert [one.tag for one in bar][-2:] == ["attributes", "barline"]


def test_adding_a_part_keeps_the_others():
    data = written(pickup=True)
    piece = piece_in(data)
    score = piece.score.replace(tracks=(*piece.score.tracks, Track("Drums", 0, is_drum=True)))
    rows = [(96 + 24 * n, 6, 36, 90, 2) for n in range(8)]
    text = KeptMusicXml(edited(piece, tracks=(2,)), exact=True).edited(with_rows(score, rows))
    assert heard(data) - heard(text) == Counter()
    assert sorted(n[0] for n in heard(text) - heard(data)) == [96 + 24 * n for n in range(8)]
    assert parts_in(text)[:2] == parts_in(data)
    assert [part.partName for part in opened(text).parts][-1] == "Drums"


def test_repeats_are_kept_if_all_of_the_piece_is_continued_and_else_written_out():
    data = written(4, repeat=True)
    piece = piece_in(data)
    assert piece.bars == 8
    edit = edited(piece, start=piece.prompt().ticks)
    new = with_rows(piece.score, [(edit.start + 24, 24, 60, 90, 1)])
    text, reason = file_of(".musicxml", new, edit=edit)
    assert not reason
    assert text.count(b"<repeat") == data.count(b"<repeat")
    assert heard(text) - heard(data) == Counter({(8 * 96 + 24, 24, 60, 0): 1})
    prompt = piece.prompt(6)
    part = edit_of(data, prompt.score, piece.language, start=prompt.ticks)
    new = with_rows(prompt.score, [(prompt.ticks + 24, 24, 60, 90, 1)])
    text, reason = file_of(".musicxml", new, edit=part)
    assert not reason
    assert b"<repeat" not in text
    first, second = parts_in(data)[0], parts_in(text)[0]
    assert len(second) == 7
    assert [bar.count("<lyric") for bar in second[:6]] == [
        bar.count("<lyric") for bar in [*first, *first][:6]
    ]
    early = Counter({n: count for n, count in heard(text).items() if n[0] < 6 * 96})
    assert early == Counter({n: count for n, count in heard(data).items() if n[0] < 6 * 96})
    assert [bar.get("number") for bar in ET.fromstring(text).find("part")] == [*"1234567"]


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1"])
def test_scores_in_other_encodings_and_archives_are_edited(encoding: str):
    plain = written().decode().replace("B♭", "B").replace("UTF-8", encoding)
    data = plain.encode(encoding)
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("score.xml", data)
    for source in (data, archive.getvalue()):
        piece = piece_in(source)
        edit = edited(piece, start=piece.prompt().ticks)
        text = KeptMusicXml(edit, exact=True).edited(
            with_rows(piece.score, [(edit.start, 24, 60, 90, 1)])
        )
        assert heard(text) - heard(data) == Counter({(768, 24, 60, 0): 1})
        assert "Café" in ET.fromstring(text).findtext("work/work-title", "")
