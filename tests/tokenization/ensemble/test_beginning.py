"""A piece from nothing begins as it is asked to, or one sentence says what cannot be."""

from typing import Any

import numpy as np
import pytest

from musicgen.continuation import Continuation
from musicgen.generation.request import Request
from musicgen.pieces import no_prompt
from tests.evaluation.toys import toy_playable
from tests.tokenization.ensemble.cases import LANGUAGE
from tokenization.ensemble.layouts import plain, plan_of


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({}, "begin"),
        ({"key": "Eb", "tempo": 91}, "begin key_D#_major tempo_95"),
        ({"style": "drums"}, "begin style_drums drums\nbar return_new players_1"),
        (
            {"parts": ["flute", "Steel Guitar"]},
            "begin chords flute steel_guitar\nbar return_new players_2",
        ),
        (
            {"style": "song", "key": "g minor", "metre": "3/4"},
            "begin style_song key_G_minor chords voice piano piano voice_2\nbar return_new players_3 metre_3/4",
        ),
    ],
)
def test_what_is_asked_for_is_said(asked: dict[str, Any], said: str):
    ids, _ = LANGUAGE.beginning(asked)
    assert LANGUAGE.text(ids) == said
    assert LANGUAGE.validate(ids) is None


def test_music_is_in_the_tempo_metre_and_parts_that_are_asked_for():
    prompt = no_prompt(
        LANGUAGE, {"tempo": 91, "metre": "3/4", "parts": ["flute", "cello"], "key": "A minor"}
    )
    work = Continuation(toy_playable(LANGUAGE), prompt, Request(bars=3, ends=True))
    [take] = work.finish().takes()
    assert take.score.tempos.beats_per_minute.tolist() == [91]
    assert [track.name for track in take.score.tracks] == ["Flute", "Cello"]
    assert (take.score.meters.numerator[0], take.score.meters.denominator[0]) == (3, 4)
    assert "left_1 chords at_0 chord_A_m" in LANGUAGE.text(take.ids)
    assert np.count_nonzero(take.ids == LANGUAGE.bar) == 3


@pytest.mark.parametrize("more", [{}, {"chords": [["C_M", "G_7"]]}, {"plan": {"players": 4}}])
def test_all_parts_that_are_asked_for_play(more: dict[str, Any]):
    """In the first bar, and in each that says as many players as there are parts."""
    prompt = no_prompt(LANGUAGE, {"parts": ["piano", "drums", "piano", "flute"], "metre": "3/4"})
    request = Request(bars=4, variations=4, **more)
    for take in Continuation(toy_playable(LANGUAGE), prompt, request).finish().takes():
        players = plan_of(LANGUAGE.sheet(LANGUAGE.close(plain(take.ids), 4)))["players"] + 1
        assert (players[0] if "plan" not in more else players.min()) == 4
        first = LANGUAGE.text(take.ids).split("\n")[1]
        chords = " chords at_0 chord_C_M at_36 chord_G_7" if "chords" in more else ""
        assert first.startswith(f"bar return_new players_4 metre_3/4{chords}")


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"mood": "sad"}, "a piece from nothing has no 'mood'"),
        ({"key": "H major"}, "there is no key 'H major'; a key is written as 'G minor'"),
        ({"metre": "7/8"}, "there is no metre '7/8'"),
        ({"parts": ["piano"] * 9}, "piano stands among the parts more than 8 times"),
    ],
)
def test_what_cannot_be_is_said(asked: dict[str, Any], reason: str):
    with pytest.raises(ValueError, match=reason):
        LANGUAGE.beginning(asked)


def test_the_first_bar_is_as_a_plan_asks():
    asked, plan = {"parts": ["flute", "harp"]}, {"players": [1, 2], "density": 4, "form": "A A"}
    prompt = no_prompt(LANGUAGE, asked, plan)
    assert LANGUAGE.text(prompt.ids).endswith("return_new density_4 players_1")
    request = Request(bars=2, plan=plan)
    [take] = Continuation(toy_playable(LANGUAGE), prompt, request).finish().takes()
    first, second = LANGUAGE.text(take.ids).split("\n")[1:]
    assert first.startswith("bar return_new density_4 players_1")
    assert second.startswith("bar return_1 density_4 players_2")
    free = LANGUAGE.beginning(asked, {"players": [None, 2]})[0]
    assert LANGUAGE.text(free).endswith("bar return_new")
