"""Models are trained on the first split and chosen on the second, and results are reported on the third."""

import argparse
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from app.cli import build_parser
from tests.test_readme_commands import quoted
from tests.training.makers import RecordingListener, prepared_set, toy_config, toy_run
from tokenization.prepared import SPLITS, Prepared

RESULTS = (Path(__file__).parent.parent / "docs" / "results.md").read_text(encoding="utf-8")
CHOICES = "Chosen on validation pieces"  # the heading of numbers from that split


def commands(text: str) -> list[str]:
    """Return the commands of a page that measure on a prepared set."""
    return [words for words in quoted(text) if re.match(r"(musicgen|python) .* --data ", words)]


def split_of(command: str) -> str:
    """Return the split that a command uses."""
    program, *words = shlex.split(command)
    if program == "python":
        return words[words.index("--split") + 1]
    parsed: argparse.Namespace = build_parser(words[0], words[1]).parse_args(words)
    return parsed.split


def test_results_are_reported_on_the_test_split():
    reported, _, chosen = RESULTS.partition(f"\n## {CHOICES}\n")
    assert len(commands(reported)) >= 8
    assert [line for line in commands(reported) if split_of(line) != "test"] == []
    assert {split_of(line) for line in commands(chosen)} == {"validation"}


def test_training_reads_no_test_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    data = prepared_set(tmp_path / "data", "remi", train=4, tested=4)
    read: set[str] = set()
    ids = Prepared.ids

    def noted(prepared: Prepared, row: int) -> np.ndarray:
        read.add(SPLITS[prepared.pieces.split[row]])
        return ids(prepared, row)

    monkeypatch.setattr(Prepared, "ids", noted)
    toy_run(toy_config(tmp_path, data)).fit(RecordingListener())
    assert read == {"train", "validation"}
