"""An untrained model keeps every promise of a goal: bars, seam, given notes, chords."""

import pickle
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tokenization.grammar_cases import ids_of, uniform
from tests.tokenization.grammar_cases import written as written_by
from tests.tokenization.remi.cases import EVERY_METRE, REMI, VERSIONS, walk
from tokenization.continuing import continuing
from tokenization.grammar import Grammar, LogitBias
from tokenization.language import given_until, language
from tokenization.remi.goals import (
    LEFT_1,
    bar_offsets,
    ending,
    from_bar,
    gap,
    plain,
    read_chords,
    simplified,
)
from tokenization.remi.spelling import CHORD, VOCABULARY
from tokenization.score import Score

SEEDS = st.integers(0, 2**32 - 1)
NAMES = EVERY_METRE.vocabulary.names
END = EVERY_METRE.end


def thrifty(share: float) -> Callable[[np.random.Generator, np.ndarray], int]:
    """Choose any token, but so often a bar or the end where they may come: bars are short."""

    def choose(random: np.random.Generator, allowed: np.ndarray) -> int:
        closes = np.intersect1d(allowed, [EVERY_METRE.bar, END])
        return uniform(random, closes if len(closes) and random.random() < share else allowed)

    return choose


def written(grammar: Grammar, prompt: np.ndarray, seed: int, most: int = 4000, thrift: float = 0.2):
    return written_by(grammar, prompt, seed, END, thrifty(thrift), most)


def rows(score: Score, line: int = 0, seam: float = np.inf, *, inside: bool = True) -> set:
    """Return the notes that begin between two ticks, or all others."""
    found = zip(*(column.tolist() for column in score.notes.columns), strict=True)
    return {row for row in found if (line <= row[0] < seam) == inside}


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


@st.composite
def pieces(draw) -> tuple[int, np.ndarray, int, int]:
    """Return a seed, a piece and a gap in it."""
    seed = draw(SEEDS)
    ids = walk(seed, draw(st.integers(60, 250)), EVERY_METRE)
    bars = len(EVERY_METRE.bars(ids))
    start = draw(st.integers(0, bars - 1))
    return seed, ids, start, draw(st.integers(start + 1, min(bars, start + 16)))


@settings(max_examples=40)
@given(pieces())
def test_a_gap_is_filled_in_its_bars_and_every_note_outside_stays(drawn):
    seed, ids, start, stop = drawn
    piece, bars, lines = EVERY_METRE.decode(ids), len(EVERY_METRE.bars(ids)), bar_lines_of(ids)
    goal = EVERY_METRE.infilling(ids, start, stop)
    sequence = written(goal.grammar, goal.prompt, seed)
    assert sequence[-1] == END
    seams = [NAMES[token] for token in sequence if NAMES[token].startswith("seam")]
    assert seams == [f"seam_{count}" for count in range(stop - start, 0, -1)]
    assert len(EVERY_METRE.bars(plain(sequence))) == stop
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
    begins = np.append(EVERY_METRE.bars(ids), len(ids) - 1)
    assert goal.replaced.tolist() == ids[begins[start] + 1 : begins[stop]].tolist()
    far = given_until(stop, stop)
    assert (goal.elsewhere == EVERY_METRE.bar).sum() == max(bars - far, 0)
    later = piece.notes[piece.notes.onset_ticks >= lines[min(far, bars)]]
    assert bool(len(goal.elsewhere)) == bool(len(later)), "what the prompt leaves out is known"
    if len(later):
        known = EVERY_METRE.decode(np.concatenate([ids[:1], goal.elsewhere, [END]]))
        assert known.notes.pitch.tolist() == later.pitch.tolist()


@settings(max_examples=25)
@given(SEEDS, st.integers(1, 20), st.integers(0, 80))
def test_music_ends_with_the_bar_that_is_asked_for(seed, bars, prompt_length):
    piece = walk(seed, prompt_length, EVERY_METRE)
    starts = EVERY_METRE.bars(piece)
    prompt = np.append(piece[: starts[-1]], EVERY_METRE.bar)
    grammar = continuing(EVERY_METRE, prompt, prompt_bars=len(starts) - 1, end_in=bars)
    sequence = written(grammar, prompt, seed)
    assert sequence[-1] == END
    spelled = plain(sequence)
    assert EVERY_METRE.validate(spelled) is None
    assert len(EVERY_METRE.bars(spelled)) == len(starts) - 1 + bars
    counts = [int(NAMES[token][5:]) for token in sequence if NAMES[token].startswith("left_")]
    assert counts == list(range(min(bars, 16), 0, -1))


@settings(max_examples=30)
@given(pieces())
def test_a_layout_for_training_is_what_a_model_is_given_and_may_write(drawn):
    _, ids, start, stop = drawn
    laid_out = gap(ids.astype(np.int64), 0, start, stop)
    goal = EVERY_METRE.infilling(ids, start, stop)
    assert laid_out[: len(goal.prompt)].tolist() == goal.prompt.tolist()
    for token in laid_out:
        if not goal.grammar.allowed()[0, token]:  # a note of the gap may have sounded beyond it
            assert NAMES[token].startswith("duration")
            break
        goal.grammar.advance(np.array([token]))
    else:
        assert goal.whole(laid_out).tolist() == ids.tolist()
    counted = ending(ids.astype(np.int64), 5)
    assert plain(counted).tolist() == ids.tolist()
    said = [NAMES[token] for token in counted if NAMES[token].startswith("left")]
    assert said == [f"left_{n}" for n in range(min(len(EVERY_METRE.bars(ids)), 5), 0, -1)]


def test_a_part_of_a_piece_says_its_metre():
    text = "begin bar metre_3/4 bar bar metre_4/4 subbeat_0 pitch_60 volume_9 duration_1 end"
    ids = ids_of(EVERY_METRE, text)
    offsets = bar_offsets(ids)
    assert offsets.tolist() == [1, 3, 4, 10]
    second, third = (EVERY_METRE.text(from_bar(ids, int(place))) for place in offsets[1:3])
    assert second.splitlines()[0] == "bar metre_3/4"
    assert third.startswith("bar subbeat_0")


# A line of chords.


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("C | G/B | Am F | C", [["C_M"], ["G_M"], ["A_m", "F_M"], ["C_M"]]),
        ("| Bbmaj7 | |", [["A#_M7"], []]),
        ("|| C || G | | F |||", [["C_M"], ["G_M"], [], ["F_M"]]),
        ("N", [["N_N"]]),
    ],
)
def test_a_line_of_chords_is_read(text, line):
    assert read_chords(text) == line


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("C | H7 | F", "'H7' in bar 2 of the chords is no chord; C, Am7"),
        (" | | ", "the line of chords names none"),
        ("C D E F G", "bar 1 of the chords has 5; a bar takes 4 at most"),
    ],
)
def test_what_is_no_line_is_named(text, says):
    with pytest.raises(ValueError, match=says):
        read_chords(text)


def test_what_of_a_chord_is_not_kept_to_is_said():
    assert simplified("C | Dm7b5 E/o7 | N") == []
    assert simplified("C | G/B | C/E G/B | F:maj/3 C9") == [
        "Basses and extensions of chords are left out: G/B as G_M, C/E as C_M, F:maj/3 as F_M, "
        "C9 as C_7."
    ]


def chords_of(ids: np.ndarray) -> list[dict[int, str]]:
    """Return the chords named in each bar, by sub-beat."""
    found, place = [], 0
    for name in (NAMES[token] for token in ids):
        family, _, value = name.partition("_")
        if family == "bar":
            found.append({})
        elif family == "subbeat":
            place = int(value)
        elif family == "chord":
            found[-1][place] = value
    return found


LINES = st.lists(
    st.lists(st.sampled_from(["C_M", "G_M", "A_m", "F_M7", "N_N"]), max_size=4),
    min_size=1,
    max_size=4,
)


@pytest.mark.parametrize("speaker", VERSIONS.values(), ids=VERSIONS)
@settings(max_examples=12)
@given(SEEDS, st.integers(0, 100), LINES.filter(any))
def test_a_model_of_no_knowledge_keeps_to_the_line(speaker, seed, prompt_length, line):
    piece = walk(seed, prompt_length, speaker)
    starts = speaker.bars(piece)
    prompt, before = np.append(piece[: starts[-1]], speaker.bar), len(starts) - 1
    grammar = continuing(speaker, prompt, prompt_bars=before, chords=line)
    sequence = written(grammar, prompt, seed, most=len(prompt) + 250, thrift=0.3)
    assert speaker.validate(sequence) is None
    found = [[*bar.values()] for bar in chords_of(sequence)]
    sounding = [chord for bar in found[:before] for chord in bar][-1:]
    wanted = []
    for bar in range(len(found) - 1 - before):  # the last may be broken off
        asked = [*sounding, *line[bar % len(line)]]
        wanted.append([chord for last, chord in pairwise([None, *asked]) if chord != last])
        wanted[-1] = wanted[-1][len(sounding) :]
        sounding = asked[-1:]
    assert found[before:-1] == wanted


@pytest.mark.parametrize(
    ("metre", "line", "places"),
    [
        ("", "C F G", [0, 4, 12]),
        ("metre_3/4", "C F G", [0, 4, 8]),
        ("metre_6/8", "C F", [0, 6]),
        ("metre_2/4", "C F G C", [0, 2, 4, 6]),
    ],
)
def test_chords_stand_on_their_shares_of_the_bar(metre, line, places):
    grammar = EVERY_METRE.on_chords(read_chords(line), 0)
    prompt = ids_of(EVERY_METRE, f"begin bar {metre}")
    sequence = written(grammar, prompt, 3, most=300, thrift=1.0)
    assert sorted(chords_of(sequence)[0]) == places


# Asked to end, the last bar leans towards the tonic of what was heard.


def scale(higher: int) -> np.ndarray:
    """Return a bar of a major scale from its tonic, on which it dwells."""
    notes = " ".join(
        f"subbeat_{2 * n} pitch_{60 + higher + step} volume_12 duration_{4 if step % 12 == 0 else 1}"
        for n, step in enumerate((0, 2, 4, 5, 7, 9, 11, 12))
    )
    return ids_of(EVERY_METRE, f"begin bar {notes}")


def leant_to(bias: LogitBias) -> set[str]:
    """Return the chords that a bias makes likelier."""
    weights = bias.weights[1, bias.kind]
    assert weights[weights > 0].min() > 1
    return {VOCABULARY.names[token] for token in np.flatnonzero(weights)}


@pytest.mark.parametrize(("higher", "root"), [(0, "C"), (5, "F"), (11, "B")])
def test_in_the_last_bar_chords_on_the_tonic_are_likelier(higher: int, root: str):
    bias = EVERY_METRE.toward_end(scale(higher))
    assert bias is not None
    qualities = {name for name in CHORD.names if name.startswith(f"chord_{root}_")}
    assert {f"chord_{root}_M", f"chord_{root}_m", "chord_N_N"} <= leant_to(bias)
    assert leant_to(bias) <= {*qualities, "chord_N_N"}
    assert np.flatnonzero(bias.goal).tolist() == [LEFT_1]
    assert np.flatnonzero(bias.kind).tolist() == [*range(CHORD.start, CHORD.stop)]
    # The key is that of all that is heard when the last bar begins.
    far = np.concatenate([scale(0), *[scale(7)[1:]] * 8, [EVERY_METRE.bar, LEFT_1]])
    assert "chord_G_M" in leant_to(pickle.loads(pickle.dumps(bias)).after(far))


def test_where_nothing_was_heard_or_no_end_can_be_asked_for_nothing_leans():
    for speaker in (EVERY_METRE, REMI, language("groove-2")):
        assert speaker.toward_end(ids_of(speaker, "begin bar")) is None
