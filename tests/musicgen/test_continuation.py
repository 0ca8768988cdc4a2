"""What is continued, without a page or a command around it."""

from pathlib import Path

import numpy as np
import pytest

from musicgen.continuation import Continuation
from musicgen.loading import load
from musicgen.options import Options
from musicgen.pieces import read_piece
from musicgen.playable import Playable
from musicgen.storage.checkpoint import Card, save
from tokenization.language import language

GROOVE_FILE = Path(__file__).parent.parent / "seeds" / "groove.mid"
LONGEST = [7, 1, 30]
PROMPT_BARS = 2


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Playable:
    """Return a model that knows how long notes last in the data that it learned from."""
    folder = tmp_path_factory.mktemp("model")
    card = Card(
        name="mine",
        language=language("groove").spec(),
        trained_length=512,
        training={"longest_ticks": LONGEST},
    )
    save(folder, load("untrained:tiny:groove").performer, card)
    return load(str(folder))


@pytest.mark.parametrize("seed", range(3))
def test_a_groove_keeps_to_its_prompt_and_to_notes_as_long_as_its_model_knows(model, seed: int):
    prompt = read_piece(model.language, GROOVE_FILE, name="groove.mid").prompt(PROMPT_BARS)
    heard = np.maximum(model.language.longest([prompt.ids]), prompt.score.ticks_per_beat)
    assert (heard < LONGEST).any()
    work = Continuation(model, prompt, Options(bars=6, variations=2, seed=seed))
    assert list(work)
    for take in work.takes():
        notes = take.continuation.notes
        assert len(notes) > 9
        assert (notes.duration_ticks <= np.minimum(LONGEST, heard)[notes.track]).all()
        before = take.score.notes[take.score.notes.onset_ticks < prompt.ticks]
        for name in ("onset_ticks", "pitch", "track"):
            found, written = (getattr(x.sorted(), name) for x in (before, prompt.score.notes))
            np.testing.assert_array_equal(found, written)
