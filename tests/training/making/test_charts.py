from pathlib import Path

import pytest

from tokenization.analysis.chords import CHORDS
from training.groove_set import BEATS, FEWEST_CHORDS, charts_of, own_chart


def pop909_song(folder: Path, chords: list[tuple[float, str]], beats: int = 80) -> None:
    folder.mkdir(parents=True)
    lines = [f"{0.5 * beat} {float(beat % 2 == 0)} {float(beat % 4 == 0)}" for beat in range(beats)]
    (folder / "beat_midi.txt").write_text("\n".join(lines))
    ends = [*(start for start, _ in chords[1:]), 0.5 * beats]
    rows = [f"{start} {end} {chord}" for (start, chord), end in zip(chords, ends, strict=True)]
    (folder / "chord_midi.txt").write_text("\n".join(rows))


def billboard_song(folder: Path, text: str) -> None:
    folder.mkdir(parents=True)
    (folder / "salami_chords.txt").write_text(text)


def test_song_of_pop909_begins_with_its_first_chord_and_goes_by_its_beats(tmp_path: Path):
    changes = [(0.0, "N"), (2.0, "C:maj"), (4.0, "A:min7"), (5.0, "F:maj"), (6.0, "G:sus4(b7)")]
    for name in ("007", "008"):
        pop909_song(tmp_path / name, changes)
    charts, about = charts_of(tmp_path, 0)
    assert "POP909" in about
    assert [chart.name for chart in charts] == ["pop007", "pop008"]
    bars = charts[0].bars(40)
    assert bars[:3] == [("C_M",) * 4, ("A_m7", "A_m7", "F_M", "F_M"), ("G_sus4",) * 4]
    assert bars[19] == bars[0]  # 19 bars of its own, and then from the beginning
    assert len(bars) == 40


def test_billboard_annotations_share_a_bar_among_its_chords(tmp_path: Path):
    head = "# title: A song\n# metre: 4/4\n# tonic: C\n\n0.0\tsilence\n"
    first = "0.1\tA, intro, | N | C:maj | A:min7 D:7 | . | x4\n"
    rest = "9.0\tB, | G:7 F:maj/3 E:min C:maj | C:maj | x2\n20\tend"
    for number in ("0003", "0004"):
        billboard_song(tmp_path / number, head + first + rest)
    charts, about = charts_of(tmp_path, 0)
    assert "CC0" in about
    chart = charts[0]
    assert chart.name == "bb0003"
    assert chart.bars(3) == [("C_M",) * 4, ("A_m7", "A_m7", "D_7", "D_7"), ("D_7",) * 4]
    assert len(chart.beats) == BEATS * (4 * 4 + 2 * 2 - 1)
    assert chart.bars(16)[15] == ("G_7", "F_M", "E_m", "C_M")


def test_line_that_is_repeated_without_end_counts_once(tmp_path: Path):
    for number, times in (("0001", 999_999_999), ("0002", 999)):
        bars = f"| C:maj | F:maj | G:maj | A:min | x4\n9.0\tB, | C:maj | x{times}"
        billboard_song(tmp_path / number, f"# metre: 4/4\n0.1\tA, {bars}\n")
    once, often = charts_of(tmp_path, 0)[0]
    assert len(once.beats) == BEATS * 17
    assert len(often.beats) == BEATS * (16 + 999)


def test_folder_without_two_songs_in_four_is_refused(tmp_path: Path):
    with pytest.raises(ValueError, match=r"neither chord_midi.txt files .*leave --chords out"):
        charts_of(tmp_path, 0)
    for number, metre in (("0001", "3/4"), ("0002", "4/4")):
        bars = "| C:maj | F:maj | G:maj | A:min | x8"
        billboard_song(tmp_path / number, f"# metre: {metre}\n0.1\tA, {bars}\n")
    with pytest.raises(ValueError, match="has 1 charts in 4/4 of 16 bars; two are needed"):
        charts_of(tmp_path, 0)


def test_progressions_of_our_own_are_of_the_vocabulary_and_of_the_seed():
    charts, _ = charts_of(None, 5)
    assert charts == [own_chart(number, 5) for number in range(len(charts))]
    assert charts != charts_of(None, 6)[0]
    for chart in charts:
        assert set(chart.beats) <= set(CHORDS)
        assert len(chart.beats) == 32 * BEATS
        assert len(set(chart.beats)) >= FEWEST_CHORDS - 1
    assert len({chart.beats for chart in charts}) > 190
