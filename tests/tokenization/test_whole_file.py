"""Results as files."""

from pathlib import Path

import pytest

from tokenization.whole_file import write_csv, write_json


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
