"""Bars are played in the order of musicians, with the tempos and chords in force there; endless scores are refused."""

import pytest

from tests.tokenization.notation.scores import HARMONY, bars, heard, note
from tests.tokenization.notation.scores import score as score_of
from tokenization.formats import read_file
from tokenization.limits import GENEROUS, MusicFileError
from tokenization.notation.abc import read_abc
from tokenization.notation.written import TICKS_PER_BEAT as BEAT
from tokenization.notation.written import (
    SharedBar,
    TooLong,
    bar_ticks,
    place_bars,
    play_order,
    rounded,
)
from tokenization.score import Score

FINE, DACAPO, SEGNO, DALSEGNO = ({mark} for mark in ("fine", "dacapo", "segno", "dalsegno"))
TOCODA, CODA = {"tocoda"}, {"coda"}


def bars_of(*texts: str | set) -> list[SharedBar]:
    """Return bars that start a repeat (`|:`), end one (`:|`, `:3|`), belong to endings (1,2) or have marks."""
    found = []
    for text in texts:
        marks, text = (text, "") if isinstance(text, set) else (set(), text)
        endings, _, backward = text.replace("|:", "").rstrip("|").partition(":")
        times = int(backward or 2) if text.endswith("|") else 0
        numbers = frozenset(int(n) for n in endings.strip().split(",") if n) or None
        found.append(
            SharedBar(forward="|:" in text, backward=times, endings=numbers, marks=set(marks))
        )
    return found


@pytest.mark.parametrize(
    ("bars", "order"),
    [
        (["", "", ""], "012"),
        (["", "|:", ":|", ""], "012123"),
        (["", "|::3|", ""], "01112"),
        # The second part of a tune often marks only the end of its repeat.
        (["", ":|", "", ":|"], "01012323"),
        # Endings of several bars, which other readers handle wrongly from the second bar on.
        (["|:", "1", "1", "1:|", "2", ""], "0123045"),
        (["", "1,2:|", "3:|", ""], "0101023"),
        # Only the second ending is marked.
        (["", ":|", "2", ""], "010123"),
        (["", ":|", "1:|", "2"], "010123"),
        # A new repeat without a start sign, after the endings of the previous one.
        (["", "1:|", "2", "", ":|"], "01023434"),
        ([":|", FINE, DACAPO], "001201"),
        (["", SEGNO, FINE, DALSEGNO, ""], "012312"),
        (["", TOCODA, DACAPO, CODA, ""], "0120134"),
        # A coda is played for the first time after the jump, so its repeats are taken.
        ([":|", TOCODA, DACAPO, CODA, "|:", ":|"], "0012" + "01" + "34545"),
        ([":|", TOCODA, DACAPO, CODA, "1:|", "2", ""], "0012" + "01" + "34356"),
        # Not if it was already played before the jump.
        ([TOCODA, "", CODA, "|::|", DACAPO], "012334" + "0234"),
        # After a jump, repeats are not taken and the last ending is played.
        (["|:", "1:|", "2", DACAPO], "01023023"),
        # A jump or ending without a target does not stop the music.
        (["", DALSEGNO, ""], "01012"),
        (["", "2", ""], "02"),
    ],
)
def test_bars_are_played_in_order(bars: list, order: str):
    assert play_order(bars_of(*bars), 1000) == [int(number) for number in order]


@pytest.mark.parametrize("bars", [[f":{10**9}|"], [":9999|"] * 99, ["", *["9"] * 99, f":{10**9}|"]])
def test_endless_repeats_are_refused_at_once(bars: list[str]):
    with pytest.raises(TooLong, match="more than 1,000 bars with its repeats"):
        play_order(bars_of(*bars), 1000)


def test_the_search_for_codas_takes_linear_time():
    class Marks(set):
        lookups = 0

        def __contains__(self, mark: object) -> bool:
            Marks.lookups += 1
            return super().__contains__(mark)

    bars = [SharedBar(marks=Marks(TOCODA)) for _ in range(500)]
    bars[-1].marks = Marks(DACAPO)
    assert len(play_order(bars, 2000)) == 1000
    assert Marks.lookups < 20 * len(bars)


@pytest.mark.parametrize(
    ("beats", "times", "starts", "metres"),
    [
        # A pickup is the end of a full bar.
        ([1, 3, 3], [(3, 4)] * 3, [2, 3, 6], [(0, (3, 4))]),
        # In a repeat, the pickup completes the last bar.
        ([1, 3, 2, 1, 3, 2], [(3, 4)] * 6, [2, 3, 6, 8, 9, 12], [(0, (3, 4))]),
        # Two partial bars around a repeat sign are one bar.
        ([4, 3, 1, 4], [(4, 4)] * 4, [0, 4, 7, 8], [(0, (4, 4))]),
        # An irregular bar has its own metre, after which the time signature is restored.
        ([3, 2.5, 3], [(6, 8)] * 3, [0, 3, 5.5], [(0, (6, 8)), (3, (5, 8)), (5.5, (6, 8))]),
        # A bar of twice the length keeps the metre; a short last bar is completed by rests.
        ([4, 8, 4, 1], [(4, 4)] * 4, [0, 4, 12, 16], [(0, (4, 4))]),
        # A pickup at a change of time is an irregular bar of the new time.
        ([4, 1, 3], [(4, 4), (3, 4), (3, 4)], [0, 4, 5], [(0, (4, 4)), (4, (1, 4)), (5, (3, 4))]),
    ],
)
def test_bars_are_placed(beats, times, starts, metres):
    found = place_bars([int(length * BEAT) for length in beats], times)
    assert found == ([s * BEAT for s in starts], [(at * BEAT, metre) for at, metre in metres])


def test_rounding_errors_in_the_length_of_a_bar_are_ignored():
    full = bar_ticks((3, 4))
    assert rounded(0, (3, 4)) == rounded(full - 7, (3, 4)) == rounded(full + 7, (3, 4)) == full
    assert rounded(2 * BEAT, (3, 4)) == 2 * BEAT
    assert rounded(2 * BEAT + 1, (3, 4)) == 2 * BEAT + BEAT // 4


def read(music: str, tempo: str = "Q:1/4=100\n") -> Score:
    return read_abc(f"X:1\nM:4/4\nL:1/4\n{tempo}K:C\n{music}".encode(), GENEROUS, "tune")


@pytest.mark.parametrize(
    ("initial", "music", "tempos"),
    [
        ("Q:1/4=100\n", "A4|:B4|c2[Q:1/4=60]c2:|d4|", [(0, 100), (10, 60), (12, 100), (18, 60)]),
        ("", "A4|[Q:1/4=60]B4:|", [(0, 120), (4, 60), (8, 120), (12, 60)]),
        # Unchanged tempos are not repeated.
        ("Q:1/4=100\n", "A4|:B4|c4:|", [(0, 100)]),
        # A tempo in a first ending does not apply to the second.
        ("Q:1/4=100\n", "A4|:B4|1[Q:1/4=60]c4:|2d4||:e4|f4:|", [(0, 100), (8, 60), (12, 100)]),
        # The last of two tempos on a tick applies.
        ("Q:1/4=100\n", "[Q:1/4=140]C4|D4|", [(0, 140)]),
        ("", "|:C4|[Q:1/4=80][Q:1/4=60]D4:|", [(0, 120), (4, 60), (8, 120), (12, 60)]),
    ],
)
def test_tempos_are_restored_when_music_is_repeated(initial: str, music: str, tempos):
    found = read(music, initial)
    onset, bpm = (column.tolist() for column in found.tempos.columns)
    beats = [tick / found.ticks_per_beat for tick in onset]
    assert list(zip(beats, bpm, strict=True)) == tempos


@pytest.mark.parametrize(
    ("music", "chords"),
    [
        (
            '"Am"A4|:B4|"G7"B4:|"C"c4|',
            [(0, "A_m"), (8, "G_7"), (12, "A_m"), (16, "G_7"), (20, "C_M")],
        ),
        ('"G""C"C4|D4|', [(0, "G_M"), (0, "C_M")]),
    ],
)
def test_chords_are_restored_when_music_is_repeated(music: str, chords):
    found = read(music)
    assert [(m.onset_ticks / found.ticks_per_beat, m.text) for m in found.markers] == chords
    assert [at for at, *_ in heard(found)] == [4 * bar for bar in range(len(heard(found)))]


HEAD = "X:1\nL:1/4\n"
REPEAT = '<barline><repeat direction="backward" times="2000"/></barline>'


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (score_of(bars(note("C", 4, 1) + '<sound tempo="900"/>' * 200 + REPEAT)), "400,000 signs"),
        (score_of(bars(note("C", 4, 1) + HARMONY * 200 + REPEAT)), "400,000 signs"),
        ((HEAD + "L:1/4\n" * 1200 + "K:C\nC|\n").encode(), "1000 fields"),
        pytest.param(
            (HEAD + "K:C\n" + "".join(f"V:{n}\nCZ9999Z9999\n" for n in range(20))).encode(),
            "bars",
            marks=pytest.mark.long,
        ),
        pytest.param(
            score_of(*["<measure/>" * 6000] * 60, bars(note("C", 4, 1))),
            "300,001 bars",
            marks=pytest.mark.long,
        ),
    ],
)
def test_scores_that_are_too_long_when_played_are_refused(data: bytes, what: str):
    with pytest.raises(MusicFileError, match=what):
        read_file(data, name="a")
