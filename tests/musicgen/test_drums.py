"""What breaks the pattern of drums: known bars, by hand."""

import numpy as np
import pytest

from musicgen.drums import breaking
from musicgen.recall import Recall, RecallConfig
from tokenization.ensemble.language import Ensemble
from tokenization.ensemble.tokens import VOCABULARY
from tokenization.records import from_plain

LANGUAGE = Ensemble()
RECALL = Recall(from_plain(RecallConfig, LANGUAGE.recalled(), "recalled"), len(VOCABULARY), 8)
BEAT = "drums at_0 loudness_8 drum_36 loudness_{} drum_42 at_48 drum_38 "
FILL = "drums at_24 loudness_8 drum_45 "


def broken(text: str) -> set[str]:
    """Return which of some tokens would break the pattern after some tokens."""
    sequence = RECALL.begin()
    sequence.take(np.array([VOCABULARY.id(name) for name in text.split()]))
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


def bars(count: int, every: int = 1) -> str:
    """Return so many bars of drums after a piano, no two as loud, each `every`-th another one."""
    said = (FILL if every > 1 and n % every == 0 else BEAT.format(n) for n in range(count))
    return "begin piano drums " + "".join(
        f"bar piano at_0 pitch_{40 + n} {x}" for n, x in enumerate(said)
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
        ("bar drums at_24 drum_36", "at_0 at_24 drums bar"),  # a hit more
        ("bar drums at_0 drum_36 drum_42 piano", ""),
    ],
)  # fmt: skip
def test_what_breaks_a_pattern(then: str, breaks: str) -> None:
    assert broken(bars(8) + then) == set(breaks.split())


@pytest.mark.parametrize(
    ("count", "every", "starts"),
    [(2, 1, "at_0"), (1, 1, ""), (4, 3, ""), (12, 4, "at_24"), (13, 4, "at_0")],
)
def test_a_pattern_is_held_where_bars_agree(count: int, every: int, starts: str) -> None:
    found = broken(bars(count, every) + "bar drums")
    places = {"at_0", "at_24", "at_48"}
    assert places - found == ({starts} if starts else places)


def test_what_was_given_ahead_is_no_pattern() -> None:
    sequence = RECALL.begin(elsewhere=[VOCABULARY.id(name) for name in bars(8).split()])
    assert breaking(sequence) is None
    sequence.take(np.array([VOCABULARY.id(name) for name in ["begin", "drums", "bar", "drums"]]))
    assert breaking(sequence) is None
    assert breaking(sequence.copy()) is None
