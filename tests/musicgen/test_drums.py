"""Tokens that break the pattern of the drums, for bars made by hand."""

import numpy as np
import pytest

from musicgen.generation import rules
from musicgen.generation.rules import FILL_PENALTY, PENALTY, breaking, keep_the_drums
from tests.musicgen.test_recall import RECALL, SIZE, ids
from tokenization.ensemble.tokens import VOCABULARY

BEAT = "drums at_0 loudness_8 drum_36 loudness_{} drum_42 at_48 drum_38 "
FILL = "drums at_24 loudness_8 drum_45 "


def broken(text: str) -> set[str]:
    """Return which of a few tokens would break the pattern after a text."""
    sequence = RECALL.begin()
    sequence.take(ids(text))
    found = breaking(sequence)
    asked = [
        "at_0",
        "at_24",
        "at_48",
        "drum_36",
        "drum_38",
        "drum_42",
        "loudness_3",
        "drums",
        "bar",
    ]
    return set() if found is None else {name for name in asked if found[VOCABULARY.id(name)]}


@pytest.mark.parametrize(
    ("fills", "count", "starts"),
    [
        ((7,), 15, "at_24"),
        ((7, 15), 23, "at_24"),
        ((7, 15), 22, "at_0"),
        ((15,), 23, "at_24"),
        ((11,), 23, "at_0"),
    ],
)
def test_a_fill_recurs_after_eight_bars(fills: tuple[int, ...], count: int, starts: str) -> None:
    drums = (FILL if n in fills else BEAT.format(n % 16) for n in range(count))
    text = "".join(f"bar piano at_0 pitch_{40 + n} {x}" for n, x in enumerate(drums))
    places = {"at_0", "at_24", "at_48"}
    assert places - broken(f"begin piano drums {text} bar drums") == {starts}


def bars(count: int, every: int = 1) -> str:
    """Return bars of piano and drums, each with its own loudness; every `every`-th has a fill."""
    drums = (FILL if every > 1 and n % every == 0 else BEAT.format(n) for n in range(count))
    return "begin piano drums " + "".join(
        f"bar piano at_0 pitch_{40 + n} {x}" for n, x in enumerate(drums)
    )


@pytest.mark.parametrize(
    ("then", "breaks"),
    [
        ("bar", ""),  # no drums yet
        ("bar piano at_0", ""),
        ("bar drums", "at_24 at_48"),
        ("bar drums at_0", "drum_38"),
        ("bar drums at_0 loudness_3", "drum_38"),
        ("bar drums at_0 drum_42", "at_0 at_24 at_48 drum_38 drum_42 drums bar"),
        ("bar drums at_0 drum_36 drum_42", "at_0 at_24 drum_36 drum_38 drum_42 loudness_3 drums bar"),
        ("bar drums at_0 drum_36 drum_42 at_48 drum_38",
         "at_0 at_24 at_48 drum_36 drum_38 drum_42 loudness_3"),
        ("bar drums at_24 drum_36", "at_0 at_24 drums bar"),  # an added hit
        ("bar drums at_0 drum_36 drum_42 piano", ""),
    ],
)  # fmt: skip
def test_tokens_that_break_the_pattern(then: str, breaks: str) -> None:
    assert broken(bars(8) + then) == set(breaks.split())


@pytest.mark.parametrize(
    ("count", "every", "starts"),
    [(2, 1, "at_0"), (1, 1, ""), (4, 3, ""), (12, 4, "at_24"), (13, 4, "at_0")],
)
def test_the_pattern_has_the_period_of_equal_bars(count: int, every: int, starts: str) -> None:
    found = broken(bars(count, every) + "bar drums")
    places = {"at_0", "at_24", "at_48"}
    assert places - found == ({starts} if starts else places)


@pytest.mark.parametrize(
    ("new", "starts"), [(3, "at_24"), (4, "at_0"), (11, "at_24"), (19, "at_0")]
)
def test_the_pattern_of_given_bars_lasts_where_new_ones_have_left_it(new: int, starts: str) -> None:
    sequence = RECALL.begin()
    given = [FILL if n % 4 == 3 else BEAT.format(n % 16) for n in range(8)]
    whole = [
        f"bar piano at_0 pitch_{40 + n} {x}" for n, x in enumerate(given + new * [BEAT.format(3)])
    ]
    sequence.take(ids("begin piano drums " + "".join(whole[:8]) + "bar"))
    rules.add_to(np.zeros(SIZE, np.float32), sequence)
    sequence.take(ids("".join(whole[8:]).removeprefix("bar ") + "bar drums"))
    found = breaking(sequence)
    assert found is not None
    places = {name for name in ("at_0", "at_24", "at_48") if not found[VOCABULARY.id(name)]}
    assert places == {starts}


def test_a_source_is_not_followed_out_of_the_pattern() -> None:
    sequence = RECALL.begin()
    sequence.take(ids(f"{bars(12, 4)} bar return_1 drums"))
    assert not list(rules.follow_the_source(sequence))


@pytest.mark.parametrize(("count", "every", "nats"), [(8, 1, PENALTY), (12, 4, FILL_PENALTY)])
def test_a_fill_is_kept_more_strongly_than_a_beat(count: int, every: int, nats: float) -> None:
    sequence = RECALL.begin()
    sequence.take(ids(bars(count, every) + "bar drums"))
    assert [given for _, given in keep_the_drums(sequence)] == [-nats]


def test_bars_given_ahead_make_no_pattern() -> None:
    sequence = RECALL.begin(elsewhere=ids(bars(8)))
    assert breaking(sequence) is None
    sequence.take(ids("begin drums bar drums"))
    assert breaking(sequence) is None
    assert breaking(sequence.copy()) is None
