"""On the page too, what is written to a file is written into it."""

import base64

import pytest

from app.web.actions import PageActions
from app.web.composing.opened_files import made_here
from app.web.composing.requests import request_from
from app.web.offered_models import OfferedModels
from app.web.server.sessions import Asker
from tests.tokenization.midi.test_keeping import band, events, is_made
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


def test_a_take_is_the_file_with_new_bars_and_music_goes_on_from_it(actions: PageActions):
    data = band(1, 96)
    take = take_of(actions, data, "a.mid")
    made = base64.b64decode(take["midi"])
    assert not {"kept", "notKept"} & {*take}
    for before, after in zip(events(data), events(made), strict=False):
        assert [e for e in after if e[0] < 1536 and not is_made(e)] == [
            e for e in before if e[0] < 1536
        ]
    assert made_here(made) == take["provenance"]
    again = take_of(actions, made, "a.mid", promptBars=6)
    twice = base64.b64decode(again["midi"])
    seam = (
        take["piece"]["lines"][6] * 96 // take["piece"]["ticksPerBeat"]
    )  # whatever metre was written
    for before, after in zip(events(made), events(twice), strict=False):
        assert [e for e in before if e[0] < seam and not is_made(e)] == [
            e for e in after if e[0] < seam and not is_made(e)
        ]


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
