"""`musicgen evaluate originality` prints how much stands in the training pieces, and the closest cases."""

import json
from pathlib import Path

from tests.training.makers import prepared_set

MODEL = "untrained:tiny:remi"


def test_the_command_prints_a_table_and_the_closest_cases(tmp_path: Path, command, monkeypatch):
    monkeypatch.setattr("evaluation.study.originality.LEAST_NOTES", 1)
    data = prepared_set(tmp_path / "data", "remi", train=2)
    words = ("evaluate", "originality", MODEL, "--data", data, "--split", "train")
    words = (*words, "--prompt-bars", 1, "--bars", 4, "--workers", 1, "-o", tmp_path / "out")
    found = json.loads(command(*words, "--json").out)
    [model] = found["models"]
    same = next(row for row in model["table"] if row["measure"] == "the same")
    assert same["real"]["mean"] == 1  # these pieces are the training pieces
    assert same["written"]["mean"] < 1
    assert json.loads((tmp_path / "out" / "originality.json").read_text()) == found
    out, _ = command(*words)
    assert out.startswith("Each two bars")
    assert f"closest passages of {MODEL}" in out
    cases = out.splitlines()[out.splitlines().index(f"closest passages of {MODEL}") + 1 :]
    assert cases[0].split()[:2] == ["alike", "piece"]
    assert [line.split()[0] for line in cases[1:]] == sorted(
        (line.split()[0] for line in cases[1:]), reverse=True
    )


def test_what_cannot_be_looked_for_is_said_in_a_line(shared_set, refused):
    data = shared_set("remi")
    words = ("evaluate", "originality", MODEL, "--data", data)
    assert "--bars is 1; passages of 2 bars" in refused(*words, "--bars", "1")
