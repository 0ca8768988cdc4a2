"""Grammars of batches, of continuations, and of scripts."""

from collections.abc import Callable

import numpy as np
import pytest

from musicgen.continuation import continuation_grammar
from tests.evaluation.scores import OTHER, trio
from tests.tokenization.grammar_cases import take, written
from tokenization.grammar import Grammar
from tokenization.language import COUNTED, LEFT, SEAM, Language, Vocabulary, language

PIECE = trio([(12 * n, 12, 60 + n % 5, OTHER) for n in range(16)])  # 4 bars
PROMPT_BARS = 2
NAMES = ("remi", "groove", "ensemble")
EVERY = pytest.mark.parametrize("name", NAMES)


def prompt_of(speaker: Language) -> np.ndarray:
    """Return the first bars, and the next bar token if the language has one."""
    ids = speaker.encode(speaker.arrange(PIECE)).ids
    return ids[: speaker.bars(ids)[PROMPT_BARS] + (speaker.bar is not None)]


def after(name: str, tokens: int, **wanted) -> Grammar:
    """Return a grammar that has taken some tokens of a prompt."""
    speaker = language(name)
    prompt = prompt_of(speaker)
    # The countdown to an end starts at the last bar of the whole prompt.
    start = prompt if "ends" in wanted else prompt[:tokens]
    grammar = continuation_grammar(speaker, start, prompt_bars=PROMPT_BARS, **wanted)
    take(grammar, prompt[:tokens])
    return grammar


def goal(name: str, **wanted) -> Callable[[int], Grammar]:
    """Return a maker of grammars for a goal."""

    def make(tokens: int) -> Grammar:
        speaker = language(name)
        ids = speaker.encode(speaker.arrange(PIECE)).ids
        made = speaker.infilling(ids, 1, 3) if not wanted else speaker.accompanying(ids, **wanted)
        take(made.grammar, made.prompt[:tokens])
        return made.grammar

    return make


GRAMMARS = {
    **{name: lambda tokens, name=name: after(name, tokens) for name in NAMES},
    "counted": lambda tokens: after("ensemble", tokens, ends=True, bars=3),
    "chords": lambda tokens: after("ensemble", tokens, bars=2, chords=[["C_M"], ["A_m", "F_M"]]),
    "gap": goal("ensemble"),
    "parts": goal("ensemble", write=["bass"]),
}


@pytest.mark.parametrize("make", GRAMMARS.values(), ids=GRAMMARS)
def test_rows_of_a_batch_are_independent(make: Callable[[int], Grammar]):
    random = np.random.default_rng(0)
    alone = [make(tokens) for tokens in (8, 14, 20)]
    if len({grammar.shared for grammar in alone}) == 1:
        joined = alone[0].joined(alone[1:])
    else:  # grammars with different scripts cannot be joined
        joined = alone[0].select(np.zeros(3, dtype=np.int64))
        alone = [alone[0].select(np.array([0])) for _ in range(3)]
    step = 0
    for step in range(150):
        allowed = joined.allowed()
        np.testing.assert_array_equal(allowed, np.concatenate([g.allowed() for g in alone]))
        if not allowed.any(axis=1).all():
            break  # the goal is reached
        drawn = np.array([random.choice(np.flatnonzero(row)) for row in allowed])
        taken = joined.instead(drawn)
        before = joined.select(np.array([1]))
        joined.advance(taken)
        np.testing.assert_array_equal(before.allowed()[0], allowed[1])  # a copy is unchanged
        for grammar, token, expected in zip(alone, drawn, taken, strict=True):
            assert grammar.instead(np.array([token])) == expected
            grammar.advance(np.array([expected]))
        assert joined.bars.tolist() == [grammar.bars[0] for grammar in alone]
        if step % 50 == 25:  # a row leaves and returns
            rest, row = joined.select(np.array([0, 2])), joined.select(np.array([1]))
            joined, alone = rest.joined([row]), [alone[0], alone[2], alone[1]]
    assert step > 20


@EVERY
def test_bars_are_added_and_the_prompt_stays(name: str):
    speaker = language(name)
    prompt = prompt_of(speaker)
    grammar = continuation_grammar(speaker, prompt, prompt_bars=PROMPT_BARS)
    ids = written(grammar, prompt, 1, speaker.end, most=1500)
    assert speaker.end not in ids
    closed = speaker.close(ids, PROMPT_BARS + 2)
    assert speaker.validate(closed) is None
    score = speaker.decode(closed)
    line = PROMPT_BARS * 4 * score.ticks_per_beat
    assert (score.notes.onset_ticks < line).sum() == 8
    assert (score.notes.onset_ticks >= line).sum() > 0
    assert len(speaker.bars(closed)) <= PROMPT_BARS + 2
    assert speaker.every_metre or score.notes.onset_ticks.max() < 2 * line


@EVERY
def test_continuations_differ_only_in_the_end_token(name: str):
    speaker = language(name)
    ids = speaker.encode(speaker.arrange(PIECE)).ids
    plain = speaker.grammar(ids[:-1], prompt_bars=4)
    endless = continuation_grammar(speaker, ids[:-1], prompt_bars=4)
    for token in ids[:-1]:
        plain.advance(np.array([token]))
        endless.advance(np.array([token]))
        expected = plain.allowed().copy()
        expected[:, speaker.end] = False
        np.testing.assert_array_equal(endless.allowed(), expected)
        assert endless.bars.tolist() == plain.bars.tolist()
    assert plain.allowed()[0, speaker.end]


def test_abilities_that_a_language_lacks_raise_an_error():
    ids = np.array([0])
    remi, groove = language("remi"), language("groove")
    for speaker in (remi, groove):
        unable = f"uses the language {speaker.name}, in which"
        with pytest.raises(ValueError, match=f"{unable} no gap can be"):
            speaker.infilling(ids, 0, 1)
        with pytest.raises(ValueError, match=f"{unable} no part can be"):
            speaker.accompanying(ids, ["drums"])
        with pytest.raises(ValueError, match="which cannot write endings"):
            continuation_grammar(speaker, ids, ends=True, bars=2)
        with pytest.raises(ValueError, match=f"{speaker.name}, which cannot follow given chords"):
            continuation_grammar(speaker, ids, chords=[["C_M"]])
    later = language("ensemble")
    with pytest.raises(ValueError, match="bars 0 to 1 cannot be filled in a piece that has 4"):
        later.infilling(later.encode(later.arrange(PIECE)).ids, -1, 1)


def test_blocks_are_consecutive_and_names_map_to_ids():
    small = Vocabulary([("letter", ["a", "b"]), ("digit", ["0", "1", "2"])])
    assert [(block.start, block.stop) for block in small.blocks.values()] == [(0, 2), (2, 5)]
    assert small["digit"].holds(np.array([1, 2, 4, 5])).tolist() == [False, True, True, False]
    assert [small.id(name) for name in small.names] == list(range(5)) == list(range(len(small)))
    with pytest.raises(ValueError, match=r"'z' is not a token.*letter, digit"):
        small.id("z")
    with pytest.raises(ValueError, match="blocks and tokens of a vocabulary must be unique"):
        Vocabulary([("x", ["a"]), ("y", ["a"])])
    digits = {"name": "digit", "start": 2, "stop": 5, "tokens": ["0", "1", "2"]}
    assert small.to_json()[1] == digits
    later = language("ensemble").vocabulary
    assert later.names[later[LEFT].start] == "left_1"
    assert later.names[later[SEAM].stop - 1] == f"seam_{COUNTED}"
