"""`musicgen evaluate continuation` with an untrained model on a folder of four pieces."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from app.cli import main
from evaluation.continuation import experiment
from tests.evaluation.continuation.toys import write_pieces

MODEL = "untrained:tiny:groove"
SMALL = ("--tokens", "110", "--samples", "2", "--workers", "1", "--device", "cpu")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_pieces(tmp_path / "midi")
    (tmp_path / "midi" / "rubbish.mid").write_bytes(b"no music")
    return tmp_path


def told(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> tuple[str, str]:
    """Run the command; return what it printed and what it said beside."""
    assert main(["evaluate", "continuation", *arguments]) == code
    return capsys.readouterr()


def test_tables_files_and_going_on(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    out, err = told(capsys, MODEL, "untrained:tiny", "--prompts", "midi", *SMALL)
    assert out.startswith("4 prompts in 2 styles, 2 continuations a prompt at temperature 0.6")
    for title in ("onset–drum similarity to the prompt", "similarity to the whole piece", "diversity",
                  "pitch-class entropy (bits)", "prompt looped", "another style"):  # fmt: skip
        assert title in out
    assert "nan" not in out.lower()
    lines = err.splitlines()
    assert lines[0].startswith("untrained:tiny speaks remi, but untrained:tiny:groove groove")
    assert lines[1].startswith("rubbish.mid is not a MIDI file")
    assert lines[2] == f"{Path('continuation') / 'continuation.png'} shows the quarters."

    written = folder / "continuation"
    assert {path.name for path in written.iterdir()} == {
        "continuation.png", "results.json", "samples", "similarity.csv", "similarities.csv",
        "variety.csv", "statistics.csv", "passages.csv", "diversities.csv", ".asked.json",
    }  # fmt: skip
    results = json.loads((written / "results.json").read_text())
    assert results["models"][0]["name"] == MODEL
    assert [sentence.split()[0] for sentence in results["left_out"]] == [
        "untrained:tiny", "rubbish.mid",
    ]  # fmt: skip
    with (written / "similarities.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["prompt"] for row in rows if row["output"] == MODEL} == {
        "one.march.mid", "two.march.mid", "one.waltz-like.mid", "deep/two.waltz-like.MIDI",
    }  # fmt: skip

    monkeypatch.setattr(experiment, "_continued", None)  # whoever calls it fails
    again = json.loads(told(capsys, MODEL, "--prompts", "midi", *SMALL, "--json").out)
    assert again["similarity"] == results["similarity"]
    assert json.loads((written / "results.json").read_text()) == results  # it has its own folder
    assert json.loads((folder / "continuation-2" / "results.json").read_text()) == again


def test_a_limit(folder: Path, capsys: pytest.CaptureFixture[str]):
    out, _ = told(capsys, MODEL, "--prompts", "midi", *SMALL, "--limit", "1", "-o", "out", "--json")
    results = json.loads(out)
    assert (results["prompts"], results["styles"]) == (1, 1)
    looped = [row for row in results["similarity"] if row["output"] == "prompt looped"]
    assert all(row["low"] is None and row["n"] + row["missing"] == 1 for row in looped)
    assert not any(row["output"] == "another style" for row in results["similarity"])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((MODEL, "--prompts", "none"), "there is no folder none"),
        ((MODEL, "--prompts", "midi", "--limit", "0"), "--limit is 0; it must be 1 or more"),
        ((MODEL, "--prompts", "midi", "--tokens", "20"), "none of the 5 files in midi gives a"),
        ((MODEL, "--prompts", "midi", "--temperature", "-1"), "temperature is -1.0"),
        (("no-model", "--prompts", "midi"), "there is no model 'no-model'"),
        ((MODEL,), "the following arguments are required: --prompts"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], sentence: str
):
    out, err = told(capsys, *arguments, code=2)
    assert out == ""
    assert err.splitlines()[-1].startswith(f"musicgen: {sentence}")
