"""Results as files."""

import os
from pathlib import Path

import pytest

from tokenization.whole_file import write_csv, write_json, write_whole


def test_csv_has_all_columns_flat(tmp_path: Path):
    path = tmp_path / "new" / "rows.csv"
    write_csv(path, [{"a": 1, "b": None}, {"a": "x, y", "c": {"n": 2, "mean": 0.5}, "d": [1, 2]}])
    assert path.read_text() == 'a,b,c_n,c_mean\n1,,,\n"x, y",,2,0.5\n'
    write_csv(path, [])
    assert path.read_text() == "\n"


def test_json_is_whole_or_not_at_all(tmp_path: Path):
    path = tmp_path / "results.json"
    write_json(path, {"mean": None, "name": "–"})
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(path, {"mean": float("nan")})
    assert path.read_text() == '{\n "mean": null,\n "name": "–"\n}\n'
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("has_links", [True, False])
def test_a_new_file_takes_no_others_place(has_links: bool, tmp_path: Path, monkeypatch):
    def no_links(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    if not has_links:  # as on a memory card
        monkeypatch.setattr(os, "link", no_links)
    path, link = tmp_path / "a", tmp_path / "link"
    write_whole(path, b"first", new=True)
    link.symlink_to(tmp_path / "elsewhere")
    for taken in (path, link):
        with pytest.raises(FileExistsError, match=str(taken)):
            write_whole(taken, b"second", new=True)
    assert path.read_bytes() == b"first"
    assert sorted(tmp_path.iterdir()) == [path, link]
