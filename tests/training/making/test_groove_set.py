"""The groove set, made by a stand-in for MMA that writes what it is told: MMA itself need not be installed."""

import json
from pathlib import Path

import pytest

from app.cli import main
from tests.training.makers import contents
from tests.training.making.stand_in import install
from tokenization.analysis.chords import CHORDS
from tokenization.midi.reading import read_midi
from training import groove_set


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    install(tmp_path, monkeypatch)
    return tmp_path


def made(folder: Path, seed: int, most: int | None = None):
    return groove_set.make_groove_set(
        folder, None, seed=seed, most=most, workers=0, progress=lambda done, total: None
    )


def full(*_: object, **__: object) -> None:
    raise OSError(28, "No space left on device")


def test_styles_are_lasting_grooves_in_4_4(stand_in: Path):
    found = [style.name for style in groove_set.styles(groove_set.installed()[1], 6)]
    assert found == ["casio-pop_pop1", "casio-pop_lonely", "bossa_bossa", "bossa_bossasus"]


def test_same_seed_gives_the_same_bytes_and_fewer_styles_are_a_subset(tmp_path: Path, monkeypatch):
    install(tmp_path, monkeypatch)
    first = made(tmp_path / "a", 7)
    assert first.left_out == 1  # the duo
    assert sum(first.files.values()) == 3 * groove_set.FILES
    assert first.checksum in (tmp_path / "a" / "README.md").read_text()
    assert made(tmp_path / "b", 8).checksum != first.checksum
    made(tmp_path / "few", 7, most=2)
    few, whole = contents(tmp_path / "few"), contents(tmp_path / "a")
    pieces = [name for name in few if name.endswith(".mid")]
    assert pieces
    assert all(few[name] == whole[name] for name in pieces)
    # Styles may lie in a folder of any name.
    odd = "Stücke & 'mehr'"
    (tmp_path / odd).mkdir()
    install(tmp_path / odd, monkeypatch, library=odd)
    assert made(tmp_path / "c", 7) == first
    assert contents(tmp_path / "c") == whole


def test_generated_files_can_be_prepared_as_grooves(stand_in: Path, capsys: pytest.CaptureFixture):
    made(stand_in / "set", 3)
    pieces = sorted((stand_in / "set").rglob("*.mid"))
    splits: dict[str, set[str]] = {}
    for file in pieces:
        score = read_midi(file)
        assert [track.name for track in score.tracks] == ["Bass", "Drums", "Chord"]
        assert score.end_ticks <= groove_set.BARS * 4 * score.ticks_per_beat
        library = file.name.split(".")[1].split("_")[0]
        splits.setdefault(library, set()).add(file.parent.name)
    assert all(len(found) == 1 for found in splits.values())  # a library file's styles
    words = ["data", "groove", str(stand_in / "set"), str(stand_in / "data"), "--workers", "0"]
    assert main([*words, "--json"]) == 0
    counts = json.loads(capsys.readouterr().out)["counts"]
    assert sum(split["pieces"] for split in counts.values()) == len(pieces)


def test_missing_program_or_full_disk_is_reported_and_leaves_no_files(
    tmp_path, monkeypatch, capsys
):
    folder = tmp_path / "set"
    with monkeypatch.context() as patch:
        patch.setenv("PATH", str(tmp_path))
        assert main(["data", "make-groove", str(folder)]) == 2
    assert "MMA, which is not installed: `apt-get install mma`" in capsys.readouterr().err
    install(tmp_path, monkeypatch)
    monkeypatch.setattr("training.groove_set.write_text", full)  # after all pieces
    assert main(["data", "make-groove", str(folder)]) == 2
    assert capsys.readouterr().err.startswith(f"musicgen: the disk of {folder} is full")
    assert not [*folder.rglob("*")]


def test_folder_that_is_not_empty_is_left_alone(stand_in: Path):
    with pytest.raises(ValueError, match="is not empty; choose a folder that does not exist"):
        made(stand_in, 1)
    folder = stand_in / "set"

    def write() -> None:
        with groove_set._atomically(folder) as part:
            (part / "README.md").write_text("ours")
            (folder / "README.md").write_text("theirs")  # by another command, meanwhile

    with pytest.raises(ValueError, match="set is no longer empty"):
        write()
    assert contents(folder) == {"README.md": b"theirs"}


def test_billboard_bars_are_divided_among_their_chords(tmp_path: Path):
    head = "# title: A song\n# metre: 4/4\n# tonic: C\n\n0.0\tsilence\n"
    first = "0.1\tA, intro, | N | C:maj | A:min7 D:7 | . | x4\n"
    rest = "9.0\tB, | G:7 F:maj/3 E:min C:maj | C:maj | x2\n20\tend"
    for number in ("0003", "0004"):
        (tmp_path / number).mkdir()
        (tmp_path / number / "salami_chords.txt").write_text(head + first + rest)
    charts, about = groove_set.charts_of(tmp_path, 0)
    assert "CC0" in about
    chart = charts[0]
    assert chart.name == "bb0003"
    assert chart.beats[:12] == (*["C_M"] * 4, "A_m7", "A_m7", *["D_7"] * 6)
    assert len(chart.beats) == groove_set.BEATS * (4 * 4 + 2 * 2 - 1)
    assert chart.beats[60:64] == ("G_7", "F_M", "E_m", "C_M")


def test_generated_progressions_follow_the_seed_and_the_vocabulary():
    charts, _ = groove_set.charts_of(None, 5)
    assert charts == [groove_set.generated_chart(number, 5) for number in range(len(charts))]
    assert charts != groove_set.charts_of(None, 6)[0]
    for chart in charts:
        assert set(chart.beats) <= set(CHORDS)
        assert len(chart.beats) == 32 * groove_set.BEATS
        assert len(set(chart.beats)) >= groove_set.FEWEST_CHORDS - 1
    assert len({chart.beats for chart in charts}) > 190
