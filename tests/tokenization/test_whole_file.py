"""Results are written completely or not at all, and scores in the format of the suffix."""

import csv
import json
import os
from pathlib import Path

import pytest

from tests.training.data.sources.on_disk import piano
from tokenization.formats import FORMATS, read_file, write_score
from tokenization.whole_file import make_folder, write_bytes, write_csv, write_json, write_whole


def test_csv_has_a_column_per_name(tmp_path: Path):
    path = tmp_path / "new" / "rows.csv"
    write_csv(path, [{"a": 1, "b": None}, {"a": "x, y", "b": 0.5}])
    assert path.read_text() == 'a,b\n1,\n"x, y",0.5\n'


def test_a_folder_that_cannot_be_made_is_an_error_in_one_sentence(tmp_path: Path):
    make_folder(tmp_path / "a" / "b", "name another one")
    make_folder(tmp_path / "a" / "b", "name another one")  # it exists now
    (tmp_path / "file").touch()
    there = tmp_path / "file" / "x"
    with pytest.raises(OSError, match=f"the folder {there} cannot be made .*; -o names another$"):
        make_folder(there, "-o names another")
    with pytest.raises(OSError, match=f"the folder {tmp_path / 'x'} cannot be made"):
        make_folder(there, "-o names another", for_=tmp_path / "x")
    with pytest.raises(OSError, match=f"the folder {there} cannot be made .*; name another one$"):
        write_bytes(there / "results.json", b"")


def test_json_that_is_not_finite_leaves_the_file_unchanged(tmp_path: Path):
    path = tmp_path / "results.json"
    write_json(path, {"mean": None, "name": "–"})
    with pytest.raises(ValueError, match=r"results\.json would hold a number that is not finite"):
        write_json(path, {"mean": float("nan")})
    assert path.read_text() == '{\n "mean": null,\n "name": "–"\n}\n'
    assert list(tmp_path.iterdir()) == [path]


def test_an_undecodable_name_is_written_as_escapes(tmp_path: Path):
    write_json(tmp_path / "a.json", {"name": "a\udcff"})
    write_csv(tmp_path / "a.csv", [{"name": "a\udcff"}])
    assert json.loads((tmp_path / "a.json").read_text()) == {"name": "a\udcff"}
    assert (tmp_path / "a.csv").read_text() == "name\na\\udcff\n"


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1"])
def test_spreadsheets_do_not_evaluate_names(name: str, tmp_path: Path):
    write_csv(tmp_path / "a.csv", [{"name": name, "mean": -1.5}])
    with (tmp_path / "a.csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert row == {"name": f"'{name}", "mean": "-1.5"}
    write_csv(tmp_path / "a.csv", [{"name": f"a\r{name}"}])
    assert (tmp_path / "a.csv").read_bytes() == f"name\na {name}\n".encode()


def test_folders_devices_and_pipes_are_not_replaced(tmp_path: Path):
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    for path in (pipe, link, tmp_path):
        with pytest.raises(OSError, match=f"^{path} is a folder or a device"):
            write_whole(path, b"1")
    assert pipe.is_fifo()
    assert sorted(tmp_path.iterdir()) == [link, pipe]


@pytest.mark.parametrize("has_links", [True, False])
def test_a_new_file_does_not_replace_another(has_links: bool, tmp_path: Path, monkeypatch):
    def no_links(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    if not has_links:  # as on many memory cards
        monkeypatch.setattr(os, "link", no_links)
    path, link = tmp_path / "a", tmp_path / "link"
    write_whole(path, b"first", new=True)
    link.symlink_to(tmp_path / "elsewhere")
    for taken in (path, link):
        with pytest.raises(FileExistsError, match=str(taken)):
            write_whole(taken, b"second", new=True)
    assert path.read_bytes() == b"first"
    assert sorted(tmp_path.iterdir()) == [path, link]


def test_a_failed_write_keeps_the_old_file_and_a_link_stays_a_link(tmp_path: Path, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", "a temporary name")

    path, link = tmp_path / "out.mid", tmp_path / "link.mid"
    link.symlink_to("out.mid")
    write_whole(path, b"new")
    write_whole(link, b"old")
    assert link.is_symlink()
    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match=r"No space left on device: .*out\.mid"):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert {*tmp_path.iterdir()} == {path, link}


@pytest.mark.parametrize("ending", [*FORMATS, ".MID"])
def test_each_format_reads_back_and_contains_its_provenance(ending: str, tmp_path: Path):
    path, score, made = tmp_path / f"a title{ending}", piano(), {"model": "größe", "seed": 3}
    write_score(path, score, made)
    assert read_file(path).notes.pitch.tolist() == score.notes.pitch.tolist()
    ascii_only = ending.lower().startswith(".mid")
    data = path.read_bytes().replace(b"&quot;", b'"')
    assert json.dumps(made, ensure_ascii=ascii_only).encode() in data
    assert ascii_only or b"<work-title>a title</work-title>" in data
