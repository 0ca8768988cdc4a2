"""Music as it is streamed to the page: also where it rests, it is said how far it has come."""

from dataclasses import replace

import pytest

import musicgen
from app.web.composing.requests import MusicRequest, SamplingValues, options_from, streamed_takes
from app.web.composing.streamed_takes import StreamedTakes
from app.web.offered_models import example
from musicgen.pieces import read_piece
from tokenization.score import Meters

SAMPLING = SamplingValues(temperature=1, top_p=1, top_k=0, min_p=0, seed=1)


def streamed(language: str, kind: str, *, ends: bool = False, **more) -> StreamedTakes:
    """Return what is asked of an example, without a note so far."""
    name, trio = f"untrained:tiny:{language}", language.startswith("groove")
    model = musicgen.load(name)
    options = options_from(bars=9, variations=1, sampling=SAMPLING, ends=ends)
    request = MusicRequest(kind=kind, model=name, options=options, **more)
    data = example("trio-jazz" if trio else "piano-c-major")
    return streamed_takes(model, read_piece(model.language, data, name="A piece"), request)


def test_a_part_that_rests_comes_on_all_the_same():
    resting = streamed("groove-2", "accompany", parts=("drums",))
    lines = resting.begun()["takes"][0]["piece"]["lines"]
    assert resting.more(0) is None
    view = resting.more(6)  # without a note
    assert view is not None
    assert view["takes"][0]["notes"]["add"] == []
    assert view["takes"][0]["now"] == lines[6]
    assert resting.more(6) is None


@pytest.mark.parametrize(
    ("language", "kind", "more", "first", "begun"),
    [
        ("groove-2", "accompany", {"parts": ("bass",)}, 0, 1),
        ("groove-2", "infill", {"first": 5, "last": 9}, 4, 1),
        ("remi-2", "infill", {"first": 5, "last": 9}, 4, 1),
        ("groove-2", "continue", {"prompt_bars": 4}, 4, 1),
        ("remi-2", "continue", {"prompt_bars": 4, "ends": True}, 4, 1),
        ("groove", "continue", {"prompt_bars": 4}, 4, 0),  # it has no token that begins a bar
    ],
)
def test_all_whole_bars_have_come(language: str, kind: str, more: dict, first: int, begun: int):
    resting = streamed(language, kind, **more)
    lines = resting.begun()["takes"][0]["piece"]["lines"]
    for bars in (2, 3):  # have begun since, and all but the last of them are whole
        view = resting.more(bars)
        assert view is not None
        assert view["takes"][0]["now"] == lines[first + begun + bars - 1]


# A metre is written before the first note that it holds for, which may come with a later view.
@pytest.mark.parametrize("begun", [0, 3])
def test_bars_are_those_of_the_metre_that_is_written(begun: int):
    takes = streamed("remi-2", "continue", prompt_bars=4)
    lines = takes.begun()["takes"][0]["piece"]["lines"]
    (take,) = takes.work.takes()
    meters, bar = take.score.meters, lines[1]
    waltz = Meters(
        *([*column, new] for column, new in zip(meters.columns, (5 * bar, 3, 4), strict=True))
    )
    takes.work.takes = lambda: [replace(take, score=take.score.replace(meters=waltz))]
    view = takes.more(begun)
    assert view is not None
    (grown,) = view["takes"]
    assert grown["meters"] == {"keep": 1, "add": [[5 * bar, 3, 4]]}
    kept, added = grown["lines"]["keep"], grown["lines"]["add"]
    assert (kept, added[0], len(lines)) == (6, 5 * bar + bar * 3 // 4, kept + len(added))
    assert grown["now"] in [*lines[:kept], *added]


@pytest.mark.parametrize(
    ("kind", "more", "bars"),
    [
        ("continue", {"prompt_bars": 4}, 4),
        ("infill", {"first": 5, "last": 9}, 16),
        ("accompany", {"parts": ("bass",)}, 16),
    ],
)
def test_after_a_stop_what_was_given_stays_and_what_goes_on_ends(kind: str, more: dict, bars: int):
    takes = streamed("groove-2", kind, **more)
    takes.begun()
    (take,) = takes.finished("stopped", 1.0)["takes"]
    assert len(take["piece"]["lines"]) == bars + 1
