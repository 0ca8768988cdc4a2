"""Music as it is streamed to the page: also where it rests, it is said how far it has come."""

import musicgen
from app.web.composing.requests import MusicRequest, SamplingValues, options_from
from app.web.composing.work import streamed_takes
from app.web.examples import example
from musicgen.pieces import read_piece

MODEL = "untrained:tiny:groove-2"


def test_a_part_that_rests_comes_on_all_the_same():
    model = musicgen.load(MODEL)
    sampling = SamplingValues(temperature=1, top_p=1, top_k=0, min_p=0, seed=1)
    options = options_from(bars=1, variations=1, sampling=sampling)
    request = MusicRequest(kind="accompany", model=MODEL, options=options, parts=("drums",))
    piece = read_piece(model.language, example("trio-jazz"), name="Jazz trio")
    streamed = streamed_takes(model, piece, request)
    lines = streamed.begun()["takes"][0]["piece"]["lines"]
    assert streamed.more(0) is None
    view = streamed.more(6)  # without a note
    assert view is not None
    assert view["takes"][0]["notes"]["add"] == []
    assert view["takes"][0]["now"] == lines[5]
    assert streamed.more(6) is None
