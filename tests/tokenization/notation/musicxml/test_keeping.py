"""Music is written into a MusicXML score, and the rest of its text is as it was."""

from __future__ import annotations

import io
import xml.etree.ElementTree as ET
import zipfile
from collections import Counter

import music21
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from musicgen.pieces import Piece, edit_of, read_piece
from tokenization.analysis.metres import bar_lines
from tokenization.edit import Edit
from tokenization.formats import file_of, read_file
from tokenization.language import language
from tokenization.notation.musicxml.keeping import KeptMusicXml
from tokenization.score import Marker, Notes, Score, Track

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


def note(step: str, octave: int, length: int, *more: str, staff: int = 0) -> str:
    on_staff = f"<staff>{staff}</staff>" if staff else ""
    return (f"<note><pitch><step>{step}</step><octave>{octave}</octave></pitch><duration>{length}</duration>"
            f"{''.join(m for m in more if m.startswith('<tie '))}<voice>{1 if staff < 2 else 5}</voice>{on_staff}"
            f"{''.join(m for m in more if not m.startswith('<tie '))}</note>")  # fmt: skip


def written(
    bars: int = 8, *, pickup: bool = False, repeat: bool = False, change: bool = False
) -> bytes:
    """Return a score with everything in it: a transposed part, two staves, lyrics, directions, chords, ties."""
    clarinet, piano = [], []
    for number in range(bars):
        short = pickup and not number
        beats = 1 if short else 3 if change and number >= 4 else 4
        first = number == 0
        attributes = ""
        time = f"<time><beats>{4 if beats == 1 else beats}</beats><beat-type>4</beat-type></time>"
        if first:
            attributes = (
                f"<attributes><divisions>2</divisions><key><fifths>2</fifths></key>{time}"
                "<clef><sign>G</sign><line>2</line></clef>"
                "<transpose><diatonic>-1</diatonic><chromatic>-2</chromatic></transpose></attributes>"
            )
        elif change and number == 4:
            attributes = f"<attributes>{time}</attributes>"
        lines = (
            '<barline location="left"><repeat direction="forward"/></barline>'
            if repeat and first
            else ""
        )
        end = (
            '<barline location="right"><repeat direction="backward"/></barline>'
            if repeat and number == bars - 1
            else ""
        )
        tie = '<tie type="start"/>', '<notations><tied type="start"/></notations>'
        notes = [
            note("CDEFGAB"[(number + beat) % 7], 5, 2, f"<lyric><text>la{number}</text></lyric>")
            for beat in range(beats - 1)
        ]
        notes.insert(
            1,
            f"<direction><direction-type><words>word {number}</words></direction-type></direction>",
        )
        notes.append(note("B", 5, 2, *(tie if number % 2 == 0 and number < bars - 1 else ())))
        if number % 2 == 1:
            notes[0] = note(
                "B", 5, 2, '<tie type="stop"/>', '<notations><tied type="stop"/></notations>'
            )
        name = number + (0 if pickup else 1)
        clarinet.append(
            f'<measure number="{name}">{lines}{attributes}{"".join(notes)}{end}</measure>'
        )
        if first:
            attributes = (
                f"<attributes><divisions>4</divisions><key><fifths>0</fifths></key>{time}<staves>2</staves>"
                '<clef number="1"><sign>G</sign><line>2</line></clef>'
                '<clef number="2"><sign>F</sign><line>4</line></clef></attributes>'
            )
        tempo = (
            "<direction><direction-type><metronome><beat-unit>quarter</beat-unit>"
            "<per-minute>121</per-minute></metronome>"
            '</direction-type><sound tempo="121"/></direction>'
            if first
            else ""
        )
        harmony = "<harmony><root><root-step>C</root-step></root><kind>major</kind></harmony>"
        right = "".join(note("E", 4, 4, staff=1) for _ in range(beats))
        piano.append(
            f'<measure number="{name}">{lines}{attributes}{tempo}{harmony}{right}'
            f"<backup><duration>{4 * beats}</duration></backup>"
            f"{note('C', 3, 4 * beats, staff=2)}{end}</measure>"
        )
    parts = (
        f'<part id="P1">{chr(10).join(clarinet)}</part>\n<part id="P2">{chr(10).join(piano)}</part>'
    )
    return f"{HEAD}{parts}\n</score-partwise>\n".encode()


def piece_in(data: bytes, name: str = "ensemble") -> Piece:
    return read_piece(language(name), data, name="song.musicxml")


def edited(piece: Piece, **where: object) -> Edit:
    found = edit_of(piece.original, piece.score, piece.language, **where)
    assert found is not None
    return found


def with_rows(score: Score, rows: list[tuple[int, int, int, int, int]]) -> Score:
    new = Notes(*np.array(rows).reshape(-1, 5).T)
    return score.replace(notes=Notes.concatenate([score.notes, new]).sorted())


def heard(data: bytes, per_beat: int = 24) -> Counter[tuple[int, ...]]:
    """Return the notes of a file: onset, length, pitch and program."""
    score = read_file(data).rescaled(per_beat)
    programs = np.array([track.program + 200 * track.is_drum for track in score.tracks])
    columns = (
        score.notes.onset_ticks,
        score.notes.duration_ticks,
        score.notes.pitch,
        programs[score.notes.track],
    )
    return Counter(zip(*(column.tolist() for column in columns), strict=True))


def opened(data: bytes) -> music21.stream.Score:
    found = music21.converter.parseData(data, format="musicxml")
    assert isinstance(found, music21.stream.Score)
    return found


NEW = [(24 * n, 12 + n, 60 + n, 40 + n) for n in range(8)]


@settings(max_examples=20)
@given(
    bars=st.integers(1, 8), pickup=st.booleans(), change=st.booleans(), name=st.just("ensemble"),
    rows=st.lists(
        st.tuples(st.integers(0, 31), st.integers(1, 8), st.integers(40, 90)), max_size=8, unique_by=lambda row: row[2]
    ),
)  # fmt: skip
def test_bars_before_the_seam_keep_their_text_and_new_ones_follow(bars, pickup, change, name, rows):
    together = (sum(on <= at < on + length for on, length, _ in rows) for at, *_ in rows)
    assume(max(together, default=0) <= 4)  # a fifth voice would shorten another
    data = written(pickup=pickup, change=change)
    piece = piece_in(data, name)
    bars = min(bars, piece.bars)
    prompt = piece.prompt(bars)
    edit = edit_of(data, prompt.score, piece.language, start=prompt.ticks)
    step = prompt.score.ticks_per_beat // 4
    new = [(prompt.ticks + on * step, length * step, pitch, 80, 0) for on, length, pitch in rows]
    kept = KeptMusicXml(edit)  # type: ignore[arg-type]
    text = kept.continued(with_rows(prompt.score, new))
    before = data.decode().split("<measure ")
    for measure in (
        before[1:bars] + before[9 : 8 + bars]
    ):  # each part's, but its last one, whose ties end
        assert measure.strip().removesuffix('</part>\n<part id="P2">') in text.decode()
    assert text.startswith(HEAD.encode())
    seam = int(kept.tick_of(edit.start)) * 24 // 10080  # type: ignore[union-attr]
    found = heard(text)
    expected = Counter((seam + 6 * on, 6 * length, pitch) for on, length, pitch in rows)
    late = Counter({n: c for n, c in found.items() if n[0] >= seam})
    assert Counter(n[:3] for n in late.elements()) == expected
    assert sum(c for n, c in found.items() if n[0] < seam) == sum(
        c for n, c in heard(data).items() if n[0] < seam
    )
    ET.fromstring(text)


def test_a_continuation_is_one_score_to_another_program():
    data = written()
    piece = piece_in(data)
    edit = edited(piece, start=piece.prompt().ticks)
    rows = [
        (edit.start + on, length, pitch, v, n % 2) for n, (on, length, pitch, v) in enumerate(NEW)
    ]
    text, said = file_of(
        ".musicxml", with_rows(piece.score, rows), "t", {"seed": 7, "a": "--x"}, edit
    )
    assert not said
    score = opened(text)
    assert [len(part.getElementsByClass("Measure")) for part in score.parts] == [10, 10, 10]
    assert [part.partName for part in score.parts] == [
        "Clarinet in B♭",
        "Piano",
        "Piano",
    ]  # two staves
    lyrics = [one.lyric for one in score.recurse().notes if one.lyric]
    assert {"la3", "la7"} <= {*lyrics}
    sounding = score.toSoundingPitch()
    assert sounding is not None
    late = [(round(float(n.getOffsetInHierarchy(sounding)) * 24), n.pitch.midi) for n in sounding.recurse().notes
            if isinstance(n, music21.note.Note) and n.getOffsetInHierarchy(sounding) >= 32
            and (n.tie is None or n.tie.type == "start")]  # fmt: skip
    assert sorted(late) == sorted((768 + on, pitch) for on, _, pitch, _ in NEW)


def test_bars_of_a_part_are_rewritten_and_all_else_keeps_its_place():
    data = written()
    piece = piece_in(data)
    first, stop = bar_lines(piece.score, piece.bars)[[2, 4]].tolist()
    kept = piece.score.notes[
        (piece.score.notes.onset_ticks < first) | (piece.score.notes.onset_ticks >= stop)
    ]
    rows = [(first + 6, 30, 77, 99, 0), (first + 48, 24, 40, 98, 1)]
    text = KeptMusicXml(edited(piece, start=first, stop=stop)).rewritten(
        with_rows(piece.score.replace(notes=kept), rows)
    )
    old, new = heard(data), heard(text)
    assert Counter({n: c for n, c in old.items() if not 192 <= n[0] < 384}) - new == Counter()
    inside = sorted(n[:3] for n in new if 192 <= n[0] < 384)
    assert inside == sorted((on, length, pitch) for on, length, pitch, *_ in rows)
    for one in ("word 2", "word 3", "<root-step>"):
        assert text.count(one.encode()) == data.count(one.encode())
    score = opened(text)
    words = [
        one.getOffsetInHierarchy(score)
        for one in score.recurse().getElementsByClass("TextExpression")
    ]
    assert words == [4.0 * n + 1 for n in range(8)]


def test_a_part_is_added_and_the_others_keep_their_text():
    data = written(pickup=True)
    piece = piece_in(data)
    score = piece.score.replace(tracks=(*piece.score.tracks, Track("Drums", 0, is_drum=True)))
    rows = [(96 + 24 * n, 6, 36, 90, 2) for n in range(8)]
    text = KeptMusicXml(edited(piece, tracks=(2,))).accompanied(with_rows(score, rows))
    assert heard(data) - heard(text) == Counter()
    assert sorted(n[0] for n in heard(text) - heard(data)) == [96 + 24 * n for n in range(8)]
    for part in data.split(b"<part id")[1:]:
        assert part.split(b"</part>")[0] in text
    assert [part.partName for part in opened(text).parts][-1] == "Drums"


def test_repeats_are_kept_where_all_of_the_piece_goes_on_and_written_out_elsewhere():
    data = written(4, repeat=True)
    piece = piece_in(data)
    assert piece.bars == 8
    edit = edited(piece, start=piece.prompt().ticks)
    new = with_rows(piece.score, [(edit.start + 24, 24, 60, 90, 1)])
    text, said = file_of(".musicxml", new, edit=edit)
    assert not said
    assert text.count(b"<repeat") == data.count(b"<repeat")
    assert heard(text) - heard(data) == Counter({(8 * 96 + 24, 24, 60, 0): 1})
    prompt = piece.prompt(6)
    part = edit_of(data, prompt.score, piece.language, start=prompt.ticks)
    text, said = file_of(".musicxml", new, edit=part)
    assert (
        said == "Written from the notes alone, not into your file: "
        "its repeats are written out where only a part of it goes on."
    )
    assert b"<repeat" not in text


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1"])
def test_other_encodings_and_archives(encoding: str):
    plain = written().decode().replace("B♭", "B").replace("UTF-8", encoding)
    data = plain.encode(encoding)
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("score.xml", data)
    for source in (data, archive.getvalue()):
        piece = piece_in(source)
        edit = edited(piece, start=piece.prompt().ticks)
        text = KeptMusicXml(edit).continued(with_rows(piece.score, [(edit.start, 24, 60, 90, 1)]))
        assert heard(text) - heard(data) == Counter({(768, 24, 60, 0): 1})
        assert "Café" in ET.fromstring(text).findtext("work/work-title", "")


def chords_of(data: bytes) -> list[tuple[float, str]]:
    """Return the chords of a score as it is written: the bar of each, and its name."""
    found = read_file(data)
    return [(m.onset_ticks / found.ticks_per_beat / 4, m.text) for m in found.markers]


def test_new_bars_of_a_score_with_chords_have_theirs():
    piece = piece_in(written(4))
    end = int(bar_lines(piece.score, 4)[-1])
    rows = [(end, 24, 60, 90, 1)]
    new = with_rows(piece.score, rows)
    new = new.replace(markers=(*new.markers, Marker(end, "A_m7"), Marker(end + 48, "D_7")))
    text = KeptMusicXml(edited(piece, start=end)).continued(new)
    assert chords_of(text)[-2:] == [(4.0, "A_m7"), (4.5, "D_7")]


def test_other_chords_of_rewritten_bars_take_the_place_of_those_that_stood_there():
    piece = piece_in(written(6))
    first, stop = bar_lines(piece.score, 6)[[2, 4]].tolist()
    markers = [
        one if one.onset_ticks != first else Marker(first, "E_m")
        for one in piece.score.markers
        if not first < one.onset_ticks < stop
    ]
    text = KeptMusicXml(edited(piece, start=first, stop=stop)).rewritten(
        with_rows(piece.score.replace(markers=tuple(markers)), [(first, 24, 60, 90, 1)])
    )
    bars = [(0, "C_M"), (1, "C_M"), (2, "E_m"), (4, "C_M"), (5, "C_M")]
    assert chords_of(text) == bars
