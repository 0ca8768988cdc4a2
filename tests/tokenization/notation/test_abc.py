"""ABC is read as it is played."""

import pytest

from tests.tokenization.notation.scores import heard, meters
from tokenization.limits import GENEROUS, MusicFileError
from tokenization.midi.reading import read_midi
from tokenization.midi.writing import write_midi
from tokenization.notation.abc import read_abc
from tokenization.score import Score


def read(music: str, head: str = "M:4/4\nL:1/4\nK:C", **options: int) -> Score:
    return read_abc(f"X:1\nT:tune\n{head}\n{music}".encode(), GENEROUS, "tune", **options)


def pitches(found: Score) -> list[int]:
    return [pitch for *_, pitch in heard(found)]


@pytest.mark.parametrize(
    ("music", "notes"),
    [
        ("C, D/ E/4 z/4 c'2|", [(0, 1, 48), (1, 0.5, 62), (1.5, 0.25, 64), (2, 2, 84)]),
        ("A3/2 B// z9/4|", [(0, 1.5, 69), (1.5, 0.25, 71)]),
        ("[CEG]2 [C2E]|", [(0, 2, 60), (0, 2, 64), (0, 2, 67), (2, 2, 60), (2, 1, 64)]),
        ("A>B c<d|", [(0, 1.5, 69), (1.5, 0.5, 71), (2, 0.5, 72), (2.5, 1.5, 74)]),
        ("(3ABc (A>B)|", [(0, 2 / 3, 69), (2 / 3, 2 / 3, 71), (4 / 3, 2 / 3, 72), (2, 1.5, 69), (3.5, 0.5, 71)]),
        ("^F F z2|F =F _E [K:G] F|", [(0, 1, 66), (1, 1, 66), (4, 1, 65), (5, 1, 65), (6, 1, 63), (7, 1, 66)]),
        ("[K:G] F [K:clef=bass] F [K:none] F z|", [(0, 1, 66), (1, 1, 66), (2, 1, 65)]),
        ("^F4-|F F z2|", [(0, 5, 66), (5, 1, 65)]),
        ("[C-E]2 [CE]2|", [(0, 4, 60), (0, 2, 64), (2, 2, 64)]),
        ("^F4-|F {F}G z2|", [(0, 5, 66), (4.75, 0.25, 65), (5, 1, 67)]),
        ("CDEF:|2 GABc|]", [(n, 1, p) for n, p in enumerate((60, 62, 64, 65) * 2 + (67, 69, 71, 72))]),
        ("[CE]-[CE] z2|", [(0, 2, 60), (0, 2, 64)]),
        ('z {B}c "Am"!trill!d ~e|', [(0.75, 0.25, 71), (1, 1, 72), (2, 1, 74), (3, 1, 76)]),
        # A second voice within a bar is left out.
        ("A2 B2 & C4|D4|", [(0, 2, 69), (2, 2, 71), (4, 4, 62)]),
        ("Z2|A4|", [(8, 4, 69)]),
        ("A4 % B4\nw: words\n|c4|", [(0, 4, 69), (4, 4, 72)]),
    ],
)  # fmt: skip
def test_music(music: str, notes: list[tuple[float, float, int]]):
    assert heard(read(music)) == [pytest.approx(note) for note in notes]


@pytest.mark.parametrize(
    ("key", "scale"),
    [
        ("G", [65 + 1, 72]), ("Dm", [65, 72]), ("D", [66, 73]), ("Bb", [65, 72]), ("Ador", [66, 72]),
        ("E mix", [66, 73]), ("HP", [66, 73]), ("C exp ^f", [66, 72]), ("none", [65, 72]),
        ("D exp _b", [65, 72]), ("C clef=treble-8", [53, 60]), ("C transpose=-2", [63, 70]), ("Cm bass", [65, 72]),
    ],
)  # fmt: skip
def test_keys(key: str, scale: list[int]):
    assert pitches(read("F c|", f"L:1/4\nK:{key}")) == scale


def test_metre_tempo_program_and_unit_note_length():
    found = read("GAB cde|f3", "M:6/8\nQ:3/8=60\n%%MIDI program 73\nK:C")
    assert meters(found) == [(0, 6, 8)]
    assert heard(found)[-1] == (3, 1.5, 77)
    assert found.tempos.beats_per_minute.tolist() == [90]
    assert found.tracks[0].program == 73
    assert heard(read("C|", "M:2/4\nK:C")) == [(1.75, 0.25, 60)]  # a 16th in short bars
    changed = read("C4|[M:3/4]C3|\nM:2/4\nC2|")
    assert meters(changed) == [(0, 4, 4), (4, 3, 4), (7, 2, 4)]
    # The default unit follows from the metre of the header (ABC 2.1, section 3.1.7).
    assert heard(read("C8|[M:2/4]D4|", "M:4/4\nK:C")) == [(0, 4, 60), (4, 2, 62)]


def test_a_pickup_and_its_complement_keep_the_bars():
    found = read("|:C|DEF|G2:|", "M:3/4\nL:1/4\nK:C")
    assert meters(found) == [(0, 3, 4)]
    assert [onset for onset, *_ in heard(found)] == [2, 3, 4, 5, 6, 8, 9, 10, 11, 12]


def test_voices_are_simultaneous():
    found = read("V:1 name=Flute\nV:2 clef=bass octave=-1\n[V:1] c4|d4|\n[V:2] C4|D4|")
    assert heard(found, 0) == [(0, 4, 72), (4, 4, 74)]
    assert heard(found, 1) == [(0, 4, 48), (4, 4, 50)]
    assert found.tracks[0].name == "Flute"


def test_a_tune_of_a_book_is_selected():
    book = b"M:4/4\nL:1/4\n\nX:1\nK:C\nC4|\n\nsome text C D E\n\nX:2\nK:C\nD4|\n"
    first = read_abc(book, GENEROUS, "book")
    assert pitches(first) == [60]
    assert "The file holds 2 tunes: the first was read." in first.remarks
    assert pitches(read_abc(book, GENEROUS, "book", tune=1)) == [62]
    with pytest.raises(MusicFileError, match="book holds 2 tunes: there is no number 3"):
        read_abc(book, GENEROUS, "book", tune=2)


def test_an_order_of_parts_is_remarked():
    found = read("P:A\nC4|\nP:B\nD4|", "P:ABA\nM:4/4\nL:1/4\nQ:120\nK:C")
    assert pitches(found) == [60, 62]
    assert found.remarks == ("The order of its parts is not followed.",)


def test_a_tempo_outside_the_range_of_midi_is_left_out():
    """Otherwise the tune could not be written as a MIDI file."""
    slow = read("CDEF|", head="M:4/4\nL:1/4\nQ:1/4=2\nK:C")
    assert slow.tempos.beats_per_minute.tolist() == [120]
    assert read_midi(write_midi(slow)).notes == slow.notes


@pytest.mark.parametrize(
    ("head", "words", "programs"),
    [
        ("", "w: la la", [52, 52]),
        ("", "", [0, 0]),
        ("%%MIDI program 19\n", "w: la la", [19, 19]),
    ],
)
def test_voices_with_words_are_a_choir_unless_a_program_is_named(head, words, programs):
    found = read(f"V:1\nC2D2|\n{words}\nV:2\nE4|".replace("\n\n", "\n"), f"L:1/4\n{head}K:C")
    assert [track.program for track in found.tracks] == programs


HYMN = "V:S1V1\nV:S1V2\nV:S2V1\nV:S2V2\n{}[V:S1V1]c4|\nw:la\n[V:S1V2]A4|\n[V:S2V1]F4|\n[V:S2V2]F,4|"
CHANNELS = "%%MIDI program 1 {0} % Name\n%%MIDI program 2 {0}\n%%MIDI program 3 {0}\n%%MIDI program 4 {0}\n"


def named(*fields: str) -> str:
    """Return a tune whose first voice has words."""
    music = "".join(
        f"[V:{one.split()[0]}]c4|\n{'w:la' * (n == 0)}\n" for n, one in enumerate(fields)
    )
    return "".join(f"V:{one}\n" for one in fields) + music.replace("\n\n", "\n")


@pytest.mark.parametrize(
    ("music", "programs"),
    [
        (HYMN.format(""), [52, 52, 52, 52]),
        (HYMN.format(CHANNELS.format(0)), [52, 52, 52, 52]),  # as hymnals have it for playback
        (HYMN.format(CHANNELS.format(19)), [19, 19, 19, 19]),
        (HYMN.format("%%MIDI program 2 40\n"), [52, 40, 52, 52]),
        (named("Soprano", "Alto", "Tenor", "Bass"), [52, 52, 52, 52]),
        (named("S1 name=Choir", "Piano_Treble3V2", "Piano_Bass4V1"), [52, 0, 0]),
        (named("1", '2 name="Lower part" snm="Vln. / Violins"'), [52, 40]),
        (named('1 name="English Horn"', '2 nm="Alto Sax"'), [69, 65]),
        (named("1", "2 name=Guitar").replace("[V:2]", "%%MIDI program 2 27\n[V:2]"), [52, 27]),
        (
            named("1", "2").replace("[V:2]", "%%MIDI program 5 27\n%%MIDI channel 5\n[V:2]"),
            [27, 52],
        ),
    ],
)
def test_a_voice_plays_the_instrument_that_it_names_or_that_of_its_channel(music, programs):
    tracks = read(music, "M:4/4\nL:1/4\nK:C").tracks
    assert [track.program for track in tracks] == programs


def test_a_program_can_be_set_for_one_voice():
    music = "V:1\n%%MIDI program 8\nC4|\nV:2\nD4|\nV:3\n%%MIDI program 33\nE4|\nV:4\nF4|"
    tracks = read(music, "M:4/4\nL:1/4\n%%MIDI program 73\nK:C").tracks
    assert [track.program for track in tracks] == [8, 73, 33, 73]


def test_chords_of_a_transposed_voice_are_transposed():
    found = read('"Am7"A2 "G/B"B2|"N.C."c4|', "M:4/4\nL:1/4\nK:C transpose=-2")
    assert pitches(found) == [67, 69, 70]
    assert [marker.text for marker in found.markers] == ["G_m7", "F_M", "N_N"]


def test_title_composer_key_and_words_are_read():
    tune = b"""X:1
T:Own Air
C:Me
M:4/4
L:1/4
K:Em
EFGA|B2 A2|E4|
w: Oh fair~and bon-ny | * day | _
K:G
G4|]
"""
    found = read_abc(tune, GENEROUS, "air.abc")
    assert (found.texts.title, found.texts.composer) == ("Own Air", "Me")
    assert found.key_signature == (1, True)
    assert [row.tolist() for row in found.key_changes.columns] == [[3 * 4 * 480], [1], [0]]
    sung = [(one.onset_ticks / 480, one.text, one.continues) for one in found.texts.lyrics]
    words = [(0, "Oh"), (1, "fair and"), (2, "bon"), (3, "ny"), (6, "day")]
    assert sung == [(at, text, text == "bon") for at, text in words]


def test_words_title_and_key_survive_midi():
    tune = b"X:1\nT:Air\nC:Me\nM:4/4\nL:1/4\nK:Em\nEFGA|\nw: Oh bon-ny day\n"
    found = read_abc(tune, GENEROUS, "air.abc")
    again = read_midi(write_midi(found))
    assert (again.texts, again.key_signature) == (found.texts, (1, True))
