"""The measurements run, and begin where they should."""

from pathlib import Path

import numpy as np
import pytest

from tests.tools.measure.grid import expected, read_back
from tests.tools.measure.rolls import draw
from tests.tools.measure.sampling import main
from tests.training.data.sources.on_disk import band
from tests.training.makers import prepared_set
from tokenization.language import language
from tokenization.prepared import Prepared


def test_off_the_grid_notes_come_back_as_reckoned():
    score = band(3)
    random, count = np.random.default_rng(1), len(score.notes)
    notes = score.notes.replace(
        onset_ticks=score.notes.onset_ticks + random.integers(0, 60, count),
        duration_ticks=random.integers(1, 4000, count),
        velocity=random.integers(1, 128, count),
        pitch=score.notes.pitch // 4 * 4,  # keys are struck again while they sound
    )
    score = language("ensemble").arrange(score.replace(notes=notes.sorted(), beats_known=True))
    assert expected(score) == read_back(score)


@pytest.mark.long
def test_a_table_of_sampling_has_a_line_a_setting(tmp_path: Path, capsys):
    data = str(prepared_set(tmp_path / "grooves", "groove", held_out=3))
    main(["untrained:tiny:groove", data, "--prompts", "1", "--prompt-bars", "1",
          "--bars", "1", "--temperatures", "0.5", "1", "--top-p", "0.9", "--min-p", "0.1"])  # fmt: skip
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "untrained:tiny:groove: 1 bars after each of 1 prompts"
    assert [text.split("  ")[0] for text in lines[2:]] == [
        "real pieces (n = 3)",
        "temperature 0.5, top-p 0.9, min-p 0.1, recall 0",
        "temperature 1, top-p 0.9, min-p 0.1, recall 0",
    ]


def test_pieces_are_drawn_before_and_after_the_language(tmp_path: Path):
    data = prepared_set(tmp_path / "bands", "ensemble", train=2, held_out=1)
    assert " pieces, 0 of " in draw(Prepared.open(data), tmp_path)
    assert (tmp_path / "bands.png").is_file()
