"""A page cannot be written without its parts, and each error says which."""

import hashlib
import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from app.commands import page

WHEEL = b"PK\5\6" + bytes(18)  # an empty zip file


@pytest.fixture
def downloads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a small stand-in for Pyodide, and without a network."""
    folder = tmp_path / "downloads"
    folder.mkdir()
    packed = io.BytesIO()
    lock = b'{"packages": {"numpy": {"file_name": "numpy.whl", "sha256": "%s"}}}'
    lock %= hashlib.sha256(WHEEL).hexdigest().encode()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name in page.PARTS:
            data = lock if "lock" in name else WHEEL if "zip" in name else b"p"
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    (folder / f"pyodide-{page.PYODIDE}.tgz").write_bytes(packed.getvalue())
    monkeypatch.setattr(page, "PYODIDE_SHA512", hashlib.sha512(packed.getvalue()).hexdigest())
    monkeypatch.setattr(page, "PACKAGES", "http://127.0.0.1:1/")
    monkeypatch.setattr(page.shutil, "which", lambda name: None)  # no npm, and no node
    return folder


def test_a_page_is_written_from_what_was_loaded(command: Callable, downloads: Path, tmp_path: Path):
    (downloads / "numpy.whl").write_bytes(WHEEL)
    _, said = command("page", tmp_path / "page", "--downloads", downloads, "--no-soundfont")
    assert "has the page with ensemble: " in said
    assert "Without node, Python is not compiled here" in said
    assert (tmp_path / "page/index.html").is_file()


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (("--model", "nobody"), "there is no model 'nobody'"),
        (("--model", "untrained:tiny"), "untrained:tiny has no files"),
        (("--soundfont", "none.sf2"), "there is no soundfont none.sf2"),
        (("--numpy", "none.whl"), "there is no wheel none.whl"),
    ],
)
def test_what_is_missing_is_named(
    refused: Callable, downloads: Path, tmp_path: Path, more, sentence: str
):
    (downloads / "numpy.whl").write_bytes(WHEEL)
    assert sentence in refused("page", tmp_path / "page", "--downloads", downloads, *more)
    assert not (tmp_path / "page").exists()


def test_downloads_that_are_missing_or_damaged_are_named(
    refused: Callable, downloads: Path, tmp_path: Path
):
    given = ("page", tmp_path / "page", "--downloads", downloads)
    assert "http://127.0.0.1:1/numpy.whl cannot be loaded" in refused(*given)
    (downloads / "numpy.whl").write_bytes(b"whee")
    assert "numpy.whl is damaged; delete it to load it again" in refused(*given)
    (downloads / f"pyodide-{page.PYODIDE}.tgz").write_bytes(b"p")
    assert f"is not Pyodide {page.PYODIDE}, or damaged" in refused(*given)
