"""Music keeps to a line of chords, whatever a model draws."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tokenization.grammar_cases import ids_of
from tests.tokenization.remi.cases import VERSIONS, walk
from tests.tokenization.remi.test_goals import written
from tokenization.continuing import continuing
from tokenization.language import language
from tokenization.remi.goals import ChordLine, read_chords, simplified

SEEDS = st.integers(0, 2**32 - 1)
CHORDS = st.sampled_from(["C_M", "G_M", "A_m", "F_M7", "N_N"])
BOTH = pytest.mark.parametrize("speaker", VERSIONS.values(), ids=VERSIONS)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("C | G/B | Am F | C", [["C_M"], ["G_M"], ["A_m", "F_M"], ["C_M"]]),
        ("| Bbmaj7 | |", [["A#_M7"], []]),
        ("C | G ||", [["C_M"], ["G_M"]]),
        ("|| C || G | | F |||", [["C_M"], ["G_M"], [], ["F_M"]]),
        ("N", [["N_N"]]),
    ],
)
def test_a_line_is_read(text, line):
    assert read_chords(text) == line


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("C | H7 | F", "'H7' in bar 2 of the chords is no chord; C, Am7"),
        ("", "the line of chords names none"),
        (" | | ", "the line of chords names none"),
        ("C D E F G", "bar 1 of the chords has 5; a bar takes 4 at most"),
    ],
)
def test_what_is_no_line_is_named(text, says):
    with pytest.raises(ValueError, match=says):
        read_chords(text)


def test_what_of_a_chord_is_not_kept_to_is_said():
    assert simplified("C | Dm7b5 E/o7 | N") == []
    assert simplified("C | G/B | C/E G/B | F:maj/3") == [
        "Basses and extensions of chords are left out: G/B as G_M, C/E as C_M, F:maj/3 as F_M."
    ]
    assert simplified("C9 Dm7b5 | C6/9") == [
        "Basses and extensions of chords are left out: C9 as C_7, C6/9 as C_M."
    ]


def chords_of(speaker, ids: np.ndarray) -> dict[int, dict[int, str]]:
    """Return the chords named in each bar, by sub-beat."""
    found: dict[int, dict[int, str]] = {}
    bar, place = -1, 0
    for name in (speaker.vocabulary.names[token] for token in ids):
        family, _, value = name.partition("_")
        if family == "bar":
            bar += 1
        elif family == "subbeat":
            place = int(value)
        elif family == "chord":
            found.setdefault(bar, {})[place] = value
    return found


@BOTH
@settings(deadline=None, max_examples=40)
@given(
    SEEDS,
    st.integers(0, 100),
    st.lists(st.lists(CHORDS, max_size=4), min_size=1, max_size=4).filter(any),
)
def test_a_model_of_no_knowledge_keeps_to_the_line(speaker, seed, prompt_length, line):
    piece = walk(seed, prompt_length, speaker)
    starts = speaker.bars(piece)
    prompt = np.append(piece[: starts[-1]], speaker.bar)
    before = len(starts) - 1
    grammar = continuing(speaker, prompt, prompt_bars=before, chords=line)
    sequence = written(grammar, prompt, seed, most=len(prompt) + 400, thrift=0.3)
    assert speaker.validate(sequence) is None
    named = [
        chord
        for bar in sorted(chords_of(speaker, prompt))
        for chord in list(chords_of(speaker, prompt)[bar].values())
    ]
    sounding = named[-1] if named else None
    found = chords_of(speaker, sequence)
    for bar in range(before, len(speaker.bars(sequence)) - 1):  # the last may be broken off
        wanted = []
        for chord in line[(bar - before) % len(line)]:
            if chord != sounding:
                wanted.append(chord)
            sounding = chord
        assert list(found.get(bar, {}).values()) == wanted


def test_chords_stand_on_their_shares_of_the_bar():
    remi = language("remi-2")
    for metre, line, places in (
        ("", "C F", [0, 8]),
        ("", "C F G", [0, 4, 12]),
        ("metre_3/4 ", "C F G", [0, 4, 8]),
        ("metre_6/8 ", "C F", [0, 6]),
        ("metre_2/4 ", "C F G C", [0, 2, 4, 6]),
    ):
        grammar = remi.on_chords(read_chords(line), 0)
        prompt = ids_of(remi, f"begin bar {metre}")
        sequence = written(grammar, prompt, 3, most=300, thrift=1.0)
        assert sorted(chords_of(remi, sequence)[0]) == places


def test_rows_of_a_batch_keep_to_it_as_one_does():
    remi = language("remi")
    line = read_chords("C | Am F")
    walks = []
    for seed in range(4):
        grammar = continuing(remi, np.array([remi.begin]), chords=line)
        walks.append(written(grammar, np.array([remi.begin]), seed, most=80))
    together = remi.on_chords(line, 0).select(np.zeros(4, dtype=np.int64))
    alone = [remi.on_chords(line, 0) for _ in walks]
    for column in np.stack(walks, axis=1):
        assert np.array_equal(together.allowed(), np.concatenate([g.allowed() for g in alone]))
        anything = np.full(4, remi.bar)
        assert together.instead(anything).tolist() == [
            int(g.instead(anything[:1])[0]) for g in alone
        ]
        together.advance(column)
        for grammar, token in zip(alone, column, strict=True):
            grammar.advance(np.array([token]))


def test_a_groove_names_no_chords():
    with pytest.raises(ValueError, match="speaks groove, which names no chords"):
        continuing(language("groove"), np.array([0]), chords=[["C_M"]])
    assert isinstance(
        continuing(language("remi"), np.array([1]), chords=[["C_M"]], may_end=True), ChordLine
    )
