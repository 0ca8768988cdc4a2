"""The groove set, made by a stand-in for MMA that writes what it is told: MMA itself need not be installed."""

import json
from pathlib import Path

import pytest

from app.cli import main
from tests.training.making.stand_in import install
from tokenization.midi.reading import read_midi
from training.groove_set import (
    BARS,
    FILES,
    _whole,
    accompaniment,
    installed,
    make_groove_set,
    styles,
)


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    install(tmp_path, monkeypatch)
    return tmp_path


def made(folder: Path, seed: int, most: int | None = None):
    return make_groove_set(
        folder, None, seed=seed, most=most, workers=1, progress=lambda done, total: None
    )


def contents(folder: Path) -> dict[str, bytes]:
    files = (file for file in folder.rglob("*") if file.is_file())
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in files}


def test_styles_are_grooves_in_four_that_go_on(stand_in: Path):
    found = [style.name for style in styles(installed()[1], 6)]
    assert found == ["casio-pop_pop1", "casio-pop_lonely", "bossa_bossa", "bossa_bossasus"]


def test_the_same_seed_makes_the_same_bytes_and_another_makes_others(stand_in: Path):
    first, again, other = (
        made(stand_in / name, seed) for name, seed in (("a", 7), ("b", 7), ("c", 8))
    )
    assert contents(stand_in / "a") == contents(stand_in / "b")
    assert first == again
    assert first.checksum != other.checksum
    assert first.left_out == 1  # the duo
    assert sum(first.files.values()) == 3 * FILES
    assert first.checksum in (stand_in / "a" / "README.md").read_text()


def test_styles_may_lie_in_a_folder_of_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    found = []
    for name in ("lib", "Stücke & 'mehr'"):
        (tmp_path / name).mkdir()
        install(tmp_path / name, monkeypatch, library=name)
        found.append(made(tmp_path / f"set of {name}", 7).checksum)
    assert found[0] == found[1]


def test_of_styles_whose_files_would_have_one_name_the_first_is_kept(stand_in: Path):
    library = stand_in / "lib" / "stdlib" / "bossa.mma"
    library.write_text("Time 4\nDefGroove Bossa.Sus  A beat.\nDefGroove BossaSus  Another.\n")
    found = made(stand_in / "set", 7)
    files = [*(stand_in / "set").rglob("*.mid")]
    table = (stand_in / "set" / "styles.tsv").read_text().splitlines()
    assert len(files) == sum(found.files.values()) == len(table) - 1 == 2 * FILES
    assert found.left_out == 2  # one of them, and the duo
    grooves = [line.split("\t")[2] for line in table if "bossa_bossasus" in line]
    assert len(set(grooves)) == 1


def test_files_are_grooves_that_the_source_reads(stand_in: Path, capsys: pytest.CaptureFixture):
    made(stand_in / "set", 3)
    pieces = sorted((stand_in / "set").rglob("*.mid"))
    for file in pieces:
        score = read_midi(file)
        assert [track.name for track in score.tracks] == ["Bass", "Drums", "Chord"]
        assert score.end_ticks <= BARS * 4 * score.ticks_per_beat
    splits = {file.name.split(".")[1].split("_")[0]: file.parent.name for file in pieces}
    for file in pieces:  # a library file's styles lie in one split
        assert splits[file.name.split(".")[1].split("_")[0]] == file.parent.name
    assert (
        main(
            [
                "data",
                "groove",
                str(stand_in / "set"),
                str(stand_in / "data"),
                "--workers",
                "1",
                "--json",
            ]
        )
        == 0
    )
    counts = json.loads(capsys.readouterr().out)["counts"]
    assert sum(split["pieces"] for split in counts.values()) == len(pieces)


def test_fewer_styles_are_some_of_more(stand_in: Path):
    made(stand_in / "all", 7)
    made(stand_in / "few", 7, most=2)
    few, whole = contents(stand_in / "few"), contents(stand_in / "all")
    pieces = [name for name in few if name.endswith(".mid")]
    assert pieces
    assert all(few[name] == whole[name] for name in pieces)


def test_without_mma_the_command_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["data", "make-groove", str(tmp_path / "set")]) == 2
    assert "MMA, which is not installed here: `apt-get install mma`" in capsys.readouterr().err


def full(*_: object, **__: object) -> None:
    raise OSError(28, "No space left on device")


def test_on_a_full_disk_no_half_of_a_set_is_left(stand_in: Path, capsys, monkeypatch):
    monkeypatch.setattr("training.groove_set.write_text", full)  # after all pieces
    folder = stand_in / "set"
    assert main(["data", "make-groove", str(folder)]) == 2
    assert capsys.readouterr().err.startswith(f"musicgen: the disk of {folder} is full")
    assert not [*folder.rglob("*")]
    monkeypatch.undo()


@pytest.mark.parametrize("where", ["in the program", "before it"])
def test_a_style_is_not_left_out_for_want_of_room(where: str, stand_in: Path, monkeypatch):
    program = stand_in / "bin" / "mma"
    program.write_text("#!/bin/sh\nexit 1\n")
    assert made_of(stand_in) is None
    name = "write_bytes" if where == "in the program" else "write_text"
    monkeypatch.setattr(Path, name, full)
    with pytest.raises(OSError, match="is full; free some space, or point TMPDIR to another disk"):
        made_of(stand_in)


def made_of(stand_in: Path):
    program, library = installed()
    return accompaniment(program, styles(library, 1)[0], [["C_M"] * 4], 1)


def test_a_folder_that_holds_something_is_left_alone(stand_in: Path):
    with pytest.raises(ValueError, match="is not empty; name a folder that does not exist"):
        made(stand_in, 1)


def test_a_set_that_another_command_wrote_meanwhile_stays(tmp_path: Path):
    folder = tmp_path / "set"

    def write() -> None:
        with _whole(folder) as part:
            (part / "README.md").write_text("ours")
            (folder / "README.md").write_text("theirs")

    with pytest.raises(ValueError, match="set is not empty any more"):
        write()
    assert contents(folder) == {"README.md": b"theirs"}
