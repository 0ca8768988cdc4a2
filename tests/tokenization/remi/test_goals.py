"""An untrained model keeps every promise of a goal: bars, seam, given notes, chords."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tokenization.grammar_cases import ids_of
from tests.tokenization.remi.cases import EVERY_METRE, REMI, walk
from tokenization.continuing import continuing
from tokenization.grammar import Grammar
from tokenization.language import given_until
from tokenization.remi.goals import bar_offsets, ending, from_bar, gap, plain
from tokenization.score import Score

SEEDS = st.integers(0, 2**32 - 1)
NAMES = EVERY_METRE.vocabulary.names


def written(grammar: Grammar, prompt: np.ndarray, seed: int, most: int = 4000, thrift: float = 0.0):
    """Return a prompt and what a model of no knowledge writes after it: any allowed token.

    `thrift` is the share of steps that take a bar or the end where they are allowed, so that bars are short.
    """
    random = np.random.default_rng(seed)
    ids = [int(token) for token in prompt]
    for token in prompt:
        assert grammar.allowed()[0, token], NAMES[token]
        grammar.advance(np.array([token]))
    closing = [EVERY_METRE.bar, EVERY_METRE.end]
    while len(ids) < most and ids[-1] != EVERY_METRE.end:
        possible = np.flatnonzero(grammar.allowed()[0])
        assert len(possible), "there is a way on"
        closes = np.intersect1d(possible, closing)
        chosen = random.choice(closes if len(closes) and random.random() < thrift else possible)
        token = grammar.instead(np.array([chosen]))
        assert grammar.allowed()[0, token[0]]
        grammar.advance(token)
        ids.append(int(token[0]))
    return np.array(ids)


def rows(score: Score, line: int = 0, seam: int | None = None, *, inside: bool = True) -> set:
    """Return the notes that begin between two ticks, or all others."""
    found = zip(*(column.tolist() for column in score.notes.columns), strict=True)
    stop = np.inf if seam is None else seam
    return {row for row in found if (line <= row[0] < stop) == inside}


@settings(deadline=None, max_examples=60)
@given(SEEDS, st.integers(60, 300), st.data())
def test_a_gap_is_filled_in_its_bars_and_every_note_outside_stays(seed, length, data):
    ids = walk(seed, length, EVERY_METRE)
    piece, bars = EVERY_METRE.decode(ids), len(EVERY_METRE.bars(ids))
    start = data.draw(st.integers(0, bars - 1))
    stop = data.draw(st.integers(start + 1, min(bars, start + 16)))
    goal = EVERY_METRE.infilling(ids, start, stop)
    sequence = written(goal.grammar, goal.prompt, seed, thrift=0.2)
    assert sequence[-1] == EVERY_METRE.end
    seams = [NAMES[token] for token in sequence if NAMES[token].startswith("seam")]
    assert seams == [f"seam_{count}" for count in range(stop - start, 0, -1)]
    assert len(EVERY_METRE.bars(plain(sequence))) == stop
    lines = bar_lines_of(ids)
    whole = EVERY_METRE.decode(goal.whole(sequence))
    broken_off = sequence[: (len(goal.prompt) + len(sequence)) // 2]
    for other in (whole, EVERY_METRE.decode(goal.whole(broken_off))):
        outside = rows(piece, lines[start], lines[stop], inside=False)
        assert rows(other, lines[start], lines[stop], inside=False) == outside
    new = EVERY_METRE.decode(plain(sequence)[:-1])
    assert rows(whole, lines[start], lines[stop]) == rows(new, lines[start], lines[stop])
    if stop < bars:
        assert whole.meters == piece.meters
        assert bar_lines_of(goal.whole(sequence)).tolist() == lines.tolist()
    begins = np.append(EVERY_METRE.bars(ids), len(ids) - (ids[-1] == EVERY_METRE.end))
    assert goal.replaced.tolist() == ids[begins[start] + 1 : begins[stop]].tolist()
    far = given_until(stop, stop)
    assert (goal.elsewhere == EVERY_METRE.bar).sum() == max(bars - far, 0)
    later = piece.notes[piece.notes.onset_ticks >= lines[min(far, bars)]]
    assert bool(len(goal.elsewhere)) == bool(len(later)), "what the prompt leaves out is known"
    if len(later):
        known = EVERY_METRE.decode(np.concatenate([ids[:1], goal.elsewhere, [EVERY_METRE.end]]))
        assert known.notes.pitch.tolist() == later.pitch.tolist()


def bar_lines_of(ids: np.ndarray) -> np.ndarray:
    """Return the tick of each bar line of a piece, in its tokens' own words."""
    lengths, metre = [], "4/4"
    for name in [NAMES[token] for token in ids]:
        if name == "bar":
            lengths.append(metre)
        elif name.startswith("metre"):
            lengths[-1] = metre = name.removeprefix("metre_")
    ticks = [32 * int(n) // int(d) for n, d in (metre.split("/") for metre in lengths)]
    return np.append(0, np.cumsum(ticks))


def test_what_sounds_into_a_gap_keeps_its_key_and_what_follows_it_is_not_reached():
    text = (
        "begin bar subbeat_8 pitch_60 volume_9 duration_16 bar subbeat_0 pitch_62 volume_9 duration_1 "
        "bar subbeat_0 pitch_64 volume_9 duration_4 end"
    )
    goal = EVERY_METRE.infilling(ids_of(EVERY_METRE, text), 1, 2)
    for token in [*goal.prompt, *ids_of(EVERY_METRE, "subbeat_7")]:
        assert goal.grammar.allowed()[0, token]
        goal.grammar.advance(np.array([token]))
    allowed = {NAMES[i] for i in np.flatnonzero(goal.grammar.allowed()[0])}
    assert {"pitch_60", "pitch_61", "pitch_64"} & allowed == {"pitch_61", "pitch_64"}
    for token in ids_of(EVERY_METRE, "pitch_64 volume_9"):
        goal.grammar.advance(np.array([token]))
    lengths = {NAMES[i] for i in np.flatnonzero(goal.grammar.allowed()[0])}
    assert lengths == {f"duration_{ticks / 2:g}" for ticks in range(1, 19)}


@pytest.mark.parametrize(
    ("start", "stop", "says"),
    [
        (0, 3, "bars 1 to 3 cannot be filled in a piece that has 2 bars"),
        (1, 1, "bars 2 to 1 cannot be filled"),
        (-1, 1, "bars 0 to 1 cannot be filled"),
    ],
)
def test_a_gap_outside_the_piece_is_refused(start, stop, says):
    ids = ids_of(EVERY_METRE, "begin bar bar subbeat_0 pitch_60 volume_9 duration_1 end")
    with pytest.raises(ValueError, match=says):
        EVERY_METRE.infilling(ids, start, stop)
    long = ids_of(EVERY_METRE, f"begin {'bar ' * 30} subbeat_0 pitch_60 volume_9 duration_1 end")
    with pytest.raises(ValueError, match="bars 3 to 19 are 17; 16 at most"):
        EVERY_METRE.infilling(long, 2, 19)


def test_the_first_version_fills_no_gap_and_has_no_end_to_ask_for():
    ids = walk(1, 80)
    with pytest.raises(ValueError, match="speaks remi, in which no gap can be filled"):
        REMI.infilling(ids, 0, 1)
    with pytest.raises(ValueError, match="speaks remi, in which an end cannot be asked for"):
        continuing(REMI, ids[:1], end_in=2)


@settings(deadline=None, max_examples=40)
@given(SEEDS, st.integers(1, 20), st.integers(0, 80))
def test_music_ends_with_the_bar_that_is_asked_for(seed, bars, prompt_length):
    piece = walk(seed, prompt_length, EVERY_METRE)
    starts = EVERY_METRE.bars(piece)
    prompt = np.append(piece[: starts[-1]], EVERY_METRE.bar)
    grammar = continuing(EVERY_METRE, prompt, prompt_bars=len(starts) - 1, end_in=bars)
    sequence = written(grammar, prompt, seed, thrift=0.2)
    assert sequence[-1] == EVERY_METRE.end
    spelled = plain(sequence)
    assert EVERY_METRE.validate(spelled) is None
    assert len(EVERY_METRE.bars(spelled)) == len(starts) - 1 + bars
    counts = [int(NAMES[token][5:]) for token in sequence if NAMES[token].startswith("left_")]
    assert counts == list(range(min(bars, 16), 0, -1))


@settings(deadline=None, max_examples=40)
@given(SEEDS, st.integers(30, 200), st.data())
def test_a_layout_for_training_is_what_a_model_is_given_and_may_write(seed, length, data):
    ids = walk(seed, length, EVERY_METRE).astype(np.int64)
    bars = len(EVERY_METRE.bars(ids))
    start = data.draw(st.integers(0, bars - 1))
    stop = data.draw(st.integers(start + 1, min(bars, start + 16)))
    laid_out = gap(ids, 0, start, stop)
    goal = EVERY_METRE.infilling(ids, start, stop)
    assert laid_out[: len(goal.prompt)].tolist() == goal.prompt.tolist()
    for token in laid_out:
        allowed = goal.grammar.allowed()[0]
        reaches = NAMES[token].startswith(
            "duration"
        )  # a note of the gap may have sounded beyond it
        assert allowed[token] or reaches, NAMES[token]
        if not allowed[token]:
            return
        goal.grammar.advance(np.array([token]))
    assert goal.whole(laid_out).tolist() == ids.tolist()
    counted = ending(ids, 5)
    assert plain(counted).tolist() == ids.tolist()
    assert [NAMES[t] for t in counted if "left" in NAMES[t]] == [
        f"left_{count}" for count in range(min(bars, 5), 0, -1)
    ]


def test_a_part_of_a_piece_says_its_metre():
    text = "begin bar metre_3/4 bar bar metre_4/4 subbeat_0 pitch_60 volume_9 duration_1 end"
    ids = ids_of(EVERY_METRE, text)
    offsets = bar_offsets(ids)
    assert offsets.tolist() == [1, 3, 4, 10]
    assert EVERY_METRE.text(from_bar(ids, int(offsets[1]))).split()[:3] == [
        "bar",
        "metre_3/4",
        "bar",
    ]
    assert EVERY_METRE.text(from_bar(ids, int(offsets[2]))).split()[:2] == ["bar", "subbeat_0"]
