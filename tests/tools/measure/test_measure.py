"""Tools that measure: what they print of toy sets."""

from pathlib import Path

from tests.tools.measure.rolls import draw
from tests.training.makers import prepared_set
from tokenization.prepared import Prepared


def test_pieces_are_drawn_before_and_after_the_language(tmp_path: Path):
    data = prepared_set(tmp_path / "bands", "ensemble", train=2, held_out=1)
    assert " pieces, 0 of " in draw(Prepared.open(data), tmp_path)
    assert (tmp_path / "bands.png").is_file()
