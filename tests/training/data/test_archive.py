import io
import os
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.training.makers import contents
from training.data import archive
from training.data.archive import unpacked

FILES = {"set/a.mid": b"one", "set/deep/b.mid": b"two", "Suite: Air.mid": b"three"}


def packed(path: Path, kind: str, members: dict[str, bytes]) -> Path:
    """Write a zip or tar archive, compressed according to its kind."""
    if kind == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
            for name, data in members.items():
                file.writestr(name, data)
        return path
    with tarfile.open(path, f"w:{kind.partition('.')[2]}") as file:
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            file.addfile(member, io.BytesIO(data))
    return path


@pytest.mark.parametrize("kind", ["tar", "tar.gz", "tar.xz", "tar.bz2", "zip"])
def test_archive_is_unpacked_temporarily(tmp_path: Path, kind: str):
    members = {name: data for name, data in FILES.items() if kind != "zip" or ":" not in name}
    with unpacked(packed(tmp_path / "set.archive", kind, members)) as (folder, _):
        assert contents(folder) == members
    assert not folder.exists()
    with unpacked(tmp_path) as (folder, _):  # a folder is used directly
        assert folder == tmp_path


@pytest.mark.parametrize("kind", ["tar", "zip"])
@pytest.mark.parametrize(
    "name", ["../out.mid", "/out.mid", "a/../../out.mid", "..\\out.mid", "C:\\out.mid"]
)
def test_no_member_is_written_outside_the_folder(tmp_path: Path, name: str, kind: str):
    with unpacked(packed(tmp_path / "evil", kind, {name: b"x"})) as (folder, left_out):
        assert contents(folder) == {}
        assert "outside" in left_out[0].reason
    assert [path.name for path in tmp_path.iterdir()] == ["evil"]


def test_links_and_devices_are_left_out(tmp_path: Path):
    with tarfile.open(tmp_path / "links.tar", "w") as file:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE):
            member = tarfile.TarInfo(f"link{kind.decode()}.mid")
            member.type, member.linkname = kind, "/etc/passwd"
            file.addfile(member)
    with unpacked(tmp_path / "links.tar") as (folder, _):
        assert os.listdir(folder) == []


@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_invalid_names_are_left_out_and_the_rest_is_read(tmp_path: Path, kind: str):
    odd = ["x" * 300 + ".mid", "a/" * 3000 + "b.mid", "set/a.mid/under", "../../up.mid", "set"]
    if kind == "tar":
        odd += ["\udcff" * 200, ""]
    members = {"set/a.mid": b"one", **dict.fromkeys(odd, b"odd"), "set/z.mid": b"z"}
    with unpacked(packed(tmp_path / "set.archive", kind, members)) as (folder, left_out):
        assert {"set/a.mid": b"one", "set/z.mid": b"z"}.items() <= contents(folder).items()
        assert len(left_out) >= 4
        report = " ".join(f"{one.name} {one.reason}" for one in left_out)
        assert str(folder) not in report
        assert len(report) < 2000


@pytest.mark.parametrize("kind", ["tar", "tar.gz", "tar.xz", "zip", "none"])
def test_damaged_archive_is_named(tmp_path: Path, kind: str):
    source = tmp_path / "set.archive"
    message = r"set\.archive cannot be unpacked"
    if kind == "none":
        source.write_bytes(b"MThd")
        message = r"set\.archive is neither a folder nor a tar or zip archive"
    else:
        data = packed(source, kind, {"a.mid": os.urandom(50_000)}).read_bytes()
        middle = len(data) // 2
        end = bytes(64) + data[middle + 64 :] if kind == "zip" else b""
        source.write_bytes(data[:middle] + end)
    with pytest.raises(ValueError, match=message), unpacked(source):
        pass


@pytest.mark.parametrize(("limit", "size"), [("MOST_BYTES", 39 << 20), ("FREE_BYTES", 1 << 20)])
def test_zip_bomb_is_refused(tmp_path: Path, limit: str, size: int, monkeypatch):
    monkeypatch.setattr(archive, limit, size)
    many = {f"{number}.mid": bytes(1 << 20) for number in range(40)}
    source = packed(tmp_path / "bomb.zip", "zip", many)
    with pytest.raises(ValueError, match="unpacks to more than"), unpacked(source):
        pass
    monkeypatch.setattr(archive, "MOST_MEMBER_BYTES", 1 << 19)
    with unpacked(source) as (folder, left_out):
        assert contents(folder) == {}
        assert len(left_out) == 40
