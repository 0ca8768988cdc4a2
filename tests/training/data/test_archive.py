import io
import os
import tarfile
import zipfile
from pathlib import Path

import pytest

import training.data.archive
from training.data.archive import unpacked

FILES = {"set/a.mid": b"one", "set/deep/b.mid": b"two"}


def tar(path: Path, mode: str, members: dict[str, bytes]) -> Path:
    with tarfile.open(path, mode) as archive:
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return path


def zipped(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def contents(folder: Path) -> dict[str, bytes]:
    return {
        p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()
    }


def test_a_tar_archive_that_ends_with_a_zip_file_is_a_tar_archive(tmp_path: Path):
    inner = zipped(tmp_path / "inner.mxl", {"score.xml": b"score"}).read_bytes()
    source = tar(tmp_path / "set.tar", "w", {"set/a.mxl": inner, "set/b.mxl": inner})
    assert zipfile.is_zipfile(source)
    with unpacked(source) as (folder, _):
        assert contents(folder) == {"set/a.mxl": inner, "set/b.mxl": inner}


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz", "w:bz2", "zip"])
def test_an_archive_is_unpacked_for_as_long_as_it_is_read(tmp_path: Path, mode: str):
    source = tmp_path / "set.archive"
    zipped(source, FILES) if mode == "zip" else tar(source, mode, FILES)
    with unpacked(source) as (folder, _):
        assert contents(folder) == FILES
    assert not folder.exists()


def test_a_folder_is_read_where_it_is(tmp_path: Path):
    with unpacked(tmp_path) as (folder, _):
        assert folder == tmp_path


@pytest.mark.parametrize(
    "name", ["../out.mid", "/out.mid", "a/../../out.mid", "..\\out.mid", "C:\\out.mid"]
)
@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_nothing_is_written_outside(tmp_path: Path, name: str, kind: str):
    source = tmp_path / "evil"
    zipped(source, {name: b"x"}) if kind == "zip" else tar(source, "w", {name: b"x"})
    with unpacked(source) as (folder, left_out):
        assert contents(folder) == {}
        assert "outside" in left_out[0].reason
    assert [p.name for p in tmp_path.iterdir()] == ["evil"]


def test_a_colon_in_a_name_is_a_colon(tmp_path: Path):
    with unpacked(tar(tmp_path / "set.tar", "w", {"Suite: Air.mid": b"x"})) as (folder, _):
        assert contents(folder) == {"Suite: Air.mid": b"x"}


def test_links_and_devices_are_left_out(tmp_path: Path):
    source = tmp_path / "links.tar"
    with tarfile.open(source, "w") as archive:
        for name, kind in (
            ("link.mid", tarfile.SYMTYPE),
            ("hard.mid", tarfile.LNKTYPE),
            ("null", tarfile.CHRTYPE),
        ):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, "/etc/passwd"
            archive.addfile(member)
    with unpacked(source) as (folder, _):
        assert os.listdir(folder) == []


def test_a_file_that_is_no_archive_is_named(tmp_path: Path):
    source = tmp_path / "song.mid"
    source.write_bytes(b"MThd")
    with (
        pytest.raises(ValueError, match=r"song\.mid is neither a folder nor a tar or zip archive"),
        unpacked(source),
    ):
        pass


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz", "zip"])
def test_a_damaged_archive_is_named(tmp_path: Path, mode: str):
    source = tmp_path / "set.archive"
    members = {"a.mid": os.urandom(50_000)}
    zipped(source, members) if mode == "zip" else tar(source, mode, members)
    data = bytearray(source.read_bytes())
    middle = len(data) // 2
    damaged = data[:middle] + bytes(64) + data[middle + 64 :] if mode == "zip" else data[:middle]
    source.write_bytes(damaged)
    with (
        pytest.raises(ValueError, match=r"the archive .*set\.archive cannot be unpacked"),
        unpacked(source),
    ):
        pass


def test_an_archive_of_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(training.data.archive, "MOST_BYTES", 1 << 20)
    source = tar(tmp_path / "bomb.tar.xz", "w:xz", {"zeros": bytes(1 << 21)})
    with pytest.raises(ValueError, match="unpacks to more than"), unpacked(source):
        pass


ODD = [
    "x" * 300 + ".mid",
    "a/" * 3000 + "b.mid",
    "set/a.mid/under",
    "../../up.mid",
    "set",
    "\udcff" * 200,
    "",
]


@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_odd_names_are_left_out_and_the_rest_is_read(tmp_path: Path, kind: str):
    source = tmp_path / "set.archive"
    members = {
        **FILES,
        **dict.fromkeys(ODD if kind == "tar" else ODD[:-2], b"odd"),
        "set/z.mid": b"z",
    }
    zipped(source, members) if kind == "zip" else tar(source, "w", members)
    with unpacked(source) as (folder, left_out):
        assert {**FILES, "set/z.mid": b"z"}.items() <= contents(folder).items()
        assert len(left_out) >= 4
        said = " ".join(f"{one.name} {one.reason}" for one in left_out)
        assert str(folder) not in said
        assert len(said) < 2000


def test_what_is_packed_to_nothing_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(training.data.archive, "FREE_BYTES", 1 << 20)
    many = {f"{number}.mid": bytes(1 << 20) for number in range(40)}
    source = tmp_path / "bomb.zip"
    with zipfile.ZipFile(source, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in many.items():
            archive.writestr(name, data)
    with pytest.raises(ValueError, match="unpacks to more than"), unpacked(source):
        pass
    monkeypatch.setattr(training.data.archive, "MOST_MEMBER_BYTES", 1 << 19)
    with unpacked(source) as (folder, left_out):
        assert contents(folder) == {}
        assert len(left_out) == 40
