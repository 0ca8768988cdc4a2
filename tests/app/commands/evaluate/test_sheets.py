"""`musicgen evaluate accompaniment --sheets` writes bands for lead sheets and measures them beside other systems'."""

import json
import tarfile
from pathlib import Path

import pytest

from tests.evaluation.metrics.test_arrangement import sheet
from tokenization.formats import read_file
from tokenization.midi.writing import write_midi

MODEL = "untrained:tiny:ensemble"


@pytest.fixture(scope="module")
def collection(tmp_path_factory) -> Path:
    """Return a folder of three lead sheets with one arrangement, which is the sheet itself."""
    folder = tmp_path_factory.mktemp("sheets")
    for place in ("sheets", "phrases", "other"):
        (folder / place).mkdir()
    data = write_midi(sheet())
    for name in ("1", "2", "3"):
        (folder / "sheets" / f"{name}.mid").write_bytes(data)
        (folder / "phrases" / f"{name}.txt").write_text("A2A2B2B2\nmore\n")
    (folder / "other" / "2.mid").write_bytes(data)
    (folder / "README.md").write_text("about")
    return folder


def test_bands_are_written_and_measured(command, collection: Path, tmp_path: Path):
    how = ("--sheets", collection, "--skip", 1, "--pieces", 1, "-o", tmp_path / "out")
    out, _ = command("evaluate", "accompaniment", MODEL, *how)
    found = json.loads((tmp_path / "out" / "accompaniment.json").read_text())
    assert found["sheets"] == ["2"]
    assert [row["system"] for row in found["systems"]] == [MODEL, "other"]
    ours, other = found["systems"]
    assert (other["chords"]["mean"], other["semitone"]["mean"]) == (1, 0)
    assert ours["at_once"]["n"] == 1
    assert "pitches at once" in out
    written = tmp_path / "out" / MODEL.replace(":", "-") / "2.mid"
    score = read_file(written.read_bytes(), name="2.mid", suffix=".mid")
    assert sorted(track.is_drum for track in score.tracks) == [False] * 5 + [True]


def test_an_archive_is_read_like_its_folder(collection: Path, tmp_path: Path):
    from evaluation.lead_sheets import read_collection

    path = tmp_path / "sheets.tar.xz"
    with tarfile.open(path, "w:xz") as archive:
        archive.add(collection, "any name")
    assert read_collection(path) == read_collection(collection)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda folder: (folder / "phrases" / "1.txt").write_text("A4 B"), "begins with 'A4 B'"),
        (lambda folder: (folder / "phrases" / "1.txt").unlink(), "has no lead sheets"),
    ],
)
def test_what_is_no_collection_is_refused(change, says, tmp_path: Path, refused):
    for place in ("sheets", "phrases"):
        (tmp_path / place).mkdir()
    (tmp_path / "sheets" / "1.mid").write_bytes(write_midi(sheet()))
    (tmp_path / "phrases" / "1.txt").write_text("A4A4\n")
    change(tmp_path)
    assert says in refused("evaluate", "accompaniment", MODEL, "--sheets", tmp_path)


def test_another_file_is_refused(tmp_path: Path, refused):
    (tmp_path / "a.tar").write_text("no archive")
    assert "neither a folder nor a tar" in refused(
        "evaluate", "accompaniment", "--sheets", tmp_path / "a.tar"
    )
    assert "one of the arguments --data --sheets is required" in refused(
        "evaluate", "accompaniment"
    )
