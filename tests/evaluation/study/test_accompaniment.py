"""What stands beside a part that was written is as much music, or none."""

from pathlib import Path

import pytest

from evaluation.study.accompaniment import accompanied
from musicgen.model.config import ModelConfig
from musicgen.model.performer import Performer
from musicgen.storage import checkpoint
from musicgen.storage.checkpoint import Card
from tests.training.makers import prepared_set
from tokenization.groove_2.language import Groove2

BARS = 4  # of each piece, with 4 notes of the bass a bar


@pytest.fixture
def folders(tmp_path: Path) -> dict[str, str]:
    language = Groove2()
    config = ModelConfig.preset(
        "tiny",
        vocabulary_size=len(language.vocabulary),
        layers=1,
        width=16,
        heads=2,
        feedforward=16,
    )
    card = Card(name="toy", language=language.spec(), trained_length=32)
    checkpoint.save(tmp_path / "model", Performer(config, seed=0), card)
    data = prepared_set(tmp_path / "data", language.name, train=2, held_out=2)
    return {"model": str(tmp_path / "model"), "data": str(data)}


@pytest.mark.parametrize(
    ("bars", "after"), [(BARS // 2, True), (BARS - 1, False), (BARS, False), (BARS + 2, False)]
)
def test_music_that_a_piece_does_not_have_is_none_and_no_silence(
    folders: dict[str, str], bars: int, after: bool
):
    measuring = accompanied(
        **folders, device="cpu", row=0, same=2, other=None, hide=["bass"], bars=bars, seed=1
    )
    for work in next(measuring):
        work.finish()
    with pytest.raises(StopIteration) as done:
        next(measuring)
    rows = {row["metric"]: row for row in done.value.value}
    notes = rows["notes_a_bar"]
    assert (notes["real"], notes["same"], notes["other"]) == (4, 4, None)
    assert notes["next"] == (4 if after else None)
    assert (rows["time_pitch"]["next"] is not None) == after
