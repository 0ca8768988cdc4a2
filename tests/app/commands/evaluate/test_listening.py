"""`musicgen evaluate listening` on files as the page writes them."""

import json
from pathlib import Path

import pytest
from scipy.stats import binomtest

from evaluation.listening import FORMAT


def choice(number: int, a: str, b: str, chosen: str) -> dict:
    return {"id": f"{number}", "A": {"source": a}, "B": {"source": b}, "chosen": chosen}


def written(path: Path, *choices: object, **more: object) -> Path:
    path.write_text(json.dumps({"format": FORMAT, "choices": [*choices], **more}))
    return path


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Return two files, which have a choice in common."""
    one = [choice(n, "ensemble", "real", "A") for n in range(4)]
    two = [choice(n, "real", "ensemble", "A") for n in range(4, 10)]
    others = [
        choice(10, "ensemble", "real", "none"),
        choice(11, "ensemble", "ensemble", "B"),
        choice(12, "zebra", "ensemble", "A"),
    ]
    return [
        written(tmp_path / "anna.json", *one, two[0]),
        written(tmp_path / "ben.json", *two, *others),
    ]


def test_choices_are_counted_by_pairs_wherever_a_side_was_heard(command, files: list[Path]):
    rows = json.loads(command("evaluate", "listening", *files, "--json").out)
    names = ("heard", "first", "second", "equal")
    assert {tuple(row["pair"]): [row[name] for name in names] for row in rows} == {
        ("ensemble", "ensemble"): [1, 0, 1, 0],
        ("ensemble", "real"): [11, 4, 6, 1],
        ("ensemble", "zebra"): [1, 0, 1, 0],
    }
    (share,) = (row["share"] for row in rows if row["pair"] == ["ensemble", "real"])
    wilson = binomtest(4, 10).proportion_ci(0.95, method="wilson")
    assert (share["n"], share["mean"]) == (10, 0.4)
    assert (share["low"], share["high"]) == pytest.approx((wilson.low, wilson.high))


def test_the_table_fits_a_terminal(command, files: list[Path], tmp_path: Path):
    many = [choice(90 + n, "a-model-with-a-long-name", "b" * 99, "A") for n in range(3)]
    long = written(tmp_path / "long.json", *many)
    lines = command("evaluate", "listening", *files, long).out.splitlines()
    assert max(map(len, lines)) <= 80
    assert "ensemble / real 11 4 6 1 0.400 [0.168, 0.687]" in [" ".join(line.split()) for line in lines]  # fmt: skip
    assert any(line.startswith("ensemble, A and B") for line in lines)


def test_a_file_that_is_none_is_said_in_a_sentence(refused, tmp_path: Path):
    text = tmp_path / "song.txt"
    text.write_text("no choices")
    assert "song.txt" in refused("evaluate", "listening", text)
    other = tmp_path / "other.json"
    other.write_text('{"seed": 3}')
    assert "other.json has no choices of blind comparisons" in refused("evaluate", "listening", other)  # fmt: skip
    for odd in ({}, choice(1, "a", "b", "C"), {**choice(1, "a", "b", "A"), "A": "a"}, 7):
        assert "is damaged" in refused("evaluate", "listening", written(tmp_path / "odd.json", odd))
    none = written(tmp_path / "none.json")
    assert "no choices in these files yet" in refused("evaluate", "listening", none)
    assert "gone.json" in refused("evaluate", "listening", tmp_path / "gone.json")
