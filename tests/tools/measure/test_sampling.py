"""The measure of sampling: its parts, and one small table."""

from pathlib import Path

import pytest

from tests.evaluation.scores import OTHER, trio
from tests.tools.measure.sampling import NAMES, described, held_out, line, main
from tests.training.makers import prepared_set
from tokenization.language import language
from tokenization.prepared import Prepared

GROOVE = language("groove")


@pytest.fixture(scope="module")
def grooves(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepared_set(tmp_path_factory.mktemp("set") / "grooves", "groove", held_out=3)


def test_bars_in_which_no_note_begins_are_empty():
    found = described(trio([(0, 96, 60, OTHER), (150, 12, 64, OTHER)]), 0, 5)
    assert found["empty_bar_share"] == pytest.approx(3 / 5)  # of 0 and 3 have some
    assert found["notes_a_bar"] == pytest.approx(2 / 4)
    assert list(found) == list(NAMES)


def test_held_out_pieces_come_once_a_file_and_are_long_enough(grooves: Path):
    data = Prepared.open(grooves)
    found = list(held_out(data, GROOVE, 1))
    assert sorted(piece.name for piece in found) == ["piece10", "piece8", "piece9"]
    longest = max(piece.bars for piece in found)
    assert not list(held_out(data, GROOVE, longest + 1))


def test_real_pieces_are_no_distance_from_themselves(grooves: Path):
    found = list(held_out(Prepared.open(grooves), GROOVE, 3))
    real = [described(piece.score, 1, 2) for piece in found]
    title, *means, apart = line("real", real, real)
    assert title == "real"
    assert len(means) == len(NAMES)
    assert apart == "0.00"
    assert line("one", real[:1], real)[-1] != "0.00"


def test_a_table_has_a_line_a_setting(grooves: Path, capsys: pytest.CaptureFixture[str]):
    main(["untrained:tiny:groove", str(grooves), "--prompts", "1", "--prompt-bars", "1",
          "--bars", "1", "--temperatures", "0.5", "1", "--top-p", "0.9", "--min-p", "0.1"])  # fmt: skip
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "untrained:tiny:groove: 1 bars after each of 1 prompts"
    assert [text.split("  ")[0] for text in lines[2:]] == [
        "real pieces (n = 3)",
        "temperature 0.5, top-p 0.9, min-p 0.1, recall 0",
        "temperature 1, top-p 0.9, min-p 0.1, recall 0",
    ]
    with pytest.raises(SystemExit):
        main(["untrained:tiny", str(grooves)])
    assert "is in groove, but untrained:tiny speaks another" in capsys.readouterr().err
