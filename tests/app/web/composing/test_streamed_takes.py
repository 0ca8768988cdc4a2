"""What the page draws and plays is what the score says, also as it is streamed."""

from dataclasses import replace

import numpy as np
import pytest

import musicgen
from app.web.composing.requests import MusicRequest, streamed_takes
from app.web.composing.streamed_takes import StreamedTakes, files_of, picture
from app.web.offered_models import example
from musicgen.pieces import read_piece
from tokenization.language import language
from tokenization.midi.reading import read_midi
from tokenization.score import Marker, Meters, Score


def streamed(spoken: str, kind: str, *, ends: bool = False, **more) -> StreamedTakes:
    """Return what is asked of an example, without a note so far."""
    name, trio = f"untrained:tiny:{spoken}", spoken.startswith("groove")
    model = musicgen.load(name)
    request = MusicRequest(kind=kind, model=name, bars=9, seed=1, ends=ends, **more)
    data = example("trio-jazz" if trio else "piano-c-major")
    return streamed_takes(model, read_piece(model.language, data, name="A piece"), request)


def test_a_part_that_rests_comes_on_all_the_same():
    resting = streamed("ensemble", "accompany", parts=("drums",))
    lines = resting.begun()["takes"][0]["piece"]["lines"]
    assert resting.more(0) is None
    view = resting.more(6)  # without a note
    assert view is not None
    assert view["takes"][0]["notes"]["add"] == []
    assert view["takes"][0]["now"] == lines[6]
    assert resting.more(6) is None


@pytest.mark.parametrize(
    ("spoken", "kind", "more", "first", "begun"),
    [
        ("ensemble", "accompany", {"parts": ("bass",)}, 0, 1),
        ("ensemble", "infill", {"first": 5, "last": 9}, 4, 1),
        ("ensemble", "continue", {"prompt_bars": 4, "ends": True}, 4, 1),
        ("groove", "continue", {"prompt_bars": 4}, 4, 0),  # it has no token that begins a bar
    ],
)
def test_all_whole_bars_have_come(spoken: str, kind: str, more: dict, first: int, begun: int):
    resting = streamed(spoken, kind, **more)
    lines = resting.begun()["takes"][0]["piece"]["lines"]
    for bars in (2, 3):  # have begun since, and all but the last of them are whole
        view = resting.more(bars)
        assert view is not None
        assert view["takes"][0]["now"] == lines[first + begun + bars - 1]


# A metre is written before the first note that it holds for, which may come with a later view.
@pytest.mark.parametrize("begun", [0, 3])
def test_bars_are_those_of_the_metre_that_is_written(begun: int):
    takes = streamed("ensemble", "continue", prompt_bars=4)
    lines = takes.begun()["takes"][0]["piece"]["lines"]
    (take,) = takes.work.takes()
    meters, bar = take.score.meters, lines[1]
    new = (5 * bar, 3, 4)
    waltz = Meters(*(np.append(*both) for both in zip(meters.columns, new, strict=True)))
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
    [("continue", {"prompt_bars": 4}, 4), ("infill", {"first": 5, "last": 9}, 16)],
)
def test_after_a_stop_what_was_given_stays_and_what_goes_on_ends(kind: str, more: dict, bars: int):
    takes = streamed("ensemble", kind, **more)
    takes.begun()
    (take,) = takes.finished("stopped", 1.0, files_of)["takes"]
    assert len(take["piece"]["lines"]) == bars + 1


def test_a_picture_has_every_note_in_order():
    score = language("groove").arrange(read_midi(example("trio-jazz")))
    drawn = picture(score, 20)
    rows = np.array(drawn["notes"]).reshape(-1, 5)
    assert np.array_equal(rows, np.stack(score.notes.columns, axis=-1))
    assert drawn["lines"] == [4 * score.ticks_per_beat * bar for bar in range(21)]
    assert [track["drum"] for track in drawn["tracks"]] == [False, True, False]
    assert drawn["tempos"] == [[0, 120.0]]
    assert drawn["meters"] == [[0, 4, 4]]
    empty = picture(Score(ticks_per_beat=8, markers=(Marker(0, "N_N"),)))
    assert (empty["notes"], empty["lines"], empty["chords"]) == ([], [0, 32], [[0, "N_N"]])
    song = language("remi").arrange(read_midi(example("piano-g-minor")))
    assert picture(song)["centre"] in range(-1, 3)  # five places below it is no D♯, six above F♯
