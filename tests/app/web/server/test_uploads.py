"""Files that visitors sent do not fill the disk, and halves of them do not stay."""

from pathlib import Path

import pytest

from app.web.server import uploads
from app.web.server.names import Refused


def test_uploads_have_a_bound_and_leave_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(uploads, "FILES_BYTES", 1000)
    folder = tmp_path / "gradio"
    folder.mkdir()
    (folder / "a").write_bytes(b"0" * 800)
    with pytest.raises(Refused, match="too many files"):
        uploads.make_room(folder, 201)
    uploads.make_room(folder, 200)
    monkeypatch.setattr(uploads, "MOST_FILES", 1)
    with pytest.raises(Refused, match="too many files"):
        uploads.make_room(folder, 1)
    monkeypatch.setattr(uploads, "SPARED_SECONDS", 0)
    uploads.make_room(folder, 201)
    assert not [*folder.iterdir()]
    (folder / "tmpabc").write_bytes(b"half")
    (folder / "whole").write_bytes(b"whole")
    uploads.delete_broken_off(folder)
    assert len([*folder.iterdir()]) == 2
    monkeypatch.setattr(uploads, "HALF_SECONDS", 0)
    uploads.delete_broken_off(folder)
    assert [path.name for path in folder.iterdir()] == ["whole"]


def test_names_of_deleted_files_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(uploads, "MOST_FILES", 2)
    there, few = tmp_path / "there", {str(tmp_path / "gone")}
    there.write_bytes(b"0")
    many = {str(there), *(str(tmp_path / f"gone-{number}") for number in range(4))}
    uploads.forget_deleted([many, few])
    assert many == {str(there)}
    assert len(few) == 1  # nobody looks at the disk for a few


def test_who_sends_too_much_leaves_room_to_others(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(uploads, "FILES_BYTES", 8 * 1000)
    now = iter([0, 1, 2, 3, 4, 100])
    monkeypatch.setattr(uploads.time, "monotonic", lambda: float(next(now)))
    arrivals = uploads.Arrivals()
    arrivals.count("a", 600)
    arrivals.count("a", 400)
    with pytest.raises(Refused, match="in the last minute") as refused:
        arrivals.count("a", 1)
    assert refused.value.status == 429
    arrivals.count("b", 1000)
    with pytest.raises(Refused):
        arrivals.count("b", 1)
    arrivals.count("a", 1000)  # later
