"""On the page too, what is written to a file is written into it."""

import base64

import pytest

from app.web.actions import PageActions
from app.web.composing.requests import request_from
from app.web.offered_models import OfferedModels
from app.web.server.sessions import Asker
from tests.tokenization.midi.test_keeping import band
from tests.tokenization.notation.musicxml.test_keeping import heard, written

MODEL = "untrained:tiny:remi"
SAMPLING = {"temperature": 1, "top_p": 0.95, "top_k": 0, "min_p": 0.02, "seed": 3}


@pytest.fixture(scope="module")
def actions():
    made = PageActions(OfferedModels(MODEL))
    yield made
    made.composer.close()


def take_of(actions: PageActions, data: bytes, name: str, **more: object) -> dict:
    plain = {
        "model": MODEL,
        "bars": 2,
        "variations": 1,
        "sampling": SAMPLING,
        "promptBars": 4,
        **more,
    }
    *_, last = actions.write(Asker(client=""), request_from(plain), data, name, "job")
    return last["takes"][0]


def test_a_score_is_kept_as_a_score(actions: PageActions):
    take = take_of(actions, written(), "a.musicxml", promptBars=8)
    assert base64.b64decode(take["midi"]).startswith(b"MThd")
    assert (take["kept"]["ending"], take["kept"]["same"]) == (".musicxml", True)
    text = base64.b64decode(take["kept"]["data"])
    assert not heard(written()) - heard(text)


def test_what_is_damaged_is_told(actions: PageActions):
    take = take_of(actions, band()[:-30], "a.mid")
    assert take["notKept"].startswith(
        "Written from the notes alone, not into your file: the file is damaged"
    )
