"""The grammar of generated music, over both languages."""

import numpy as np
import pytest

from tests.evaluation.scores import OTHER, trio
from tokenization.continuing import continuing
from tokenization.grammar import Grammar
from tokenization.language import Language, language

PIECE = trio([(12 * n, 12, 60 + n % 5, OTHER) for n in range(16)])  # 4 bars
PROMPT_BARS = 2


def prompt_of(speaker: Language) -> np.ndarray:
    """Return the first bars; a token that begins a bar is said already."""
    ids = speaker.encode(speaker.arrange(PIECE)).ids
    return ids[: speaker.bars(ids)[PROMPT_BARS] + (speaker.bar is not None)]


def walk(grammar: Grammar, prompt: np.ndarray, before_bar: int, seed: int) -> list[int]:
    """Return random tokens after a prompt up to the token that begins a bar too many, or to the end."""
    random, tokens = np.random.default_rng(seed), []
    for token in prompt:
        assert grammar.allowed()[0, token]
        grammar.advance(np.array([token]))
    while grammar.bars[0] <= before_bar and len(tokens) < 3000:
        allowed = np.flatnonzero(grammar.allowed()[0])
        if not len(allowed):
            return tokens
        token = grammar.instead(random.choice(allowed, 1))
        tokens.append(int(token[0]))
        grammar.advance(token)
    return tokens[:-1]


@pytest.mark.parametrize("name", ["remi", "groove", "groove-2"])
def test_so_many_bars_are_written_and_the_prompt_stays(name: str):
    speaker = language(name)
    prompt = prompt_of(speaker)
    grammar = continuing(speaker, prompt, prompt_bars=PROMPT_BARS, longest_ticks=[24, 4, 48])
    tokens = walk(grammar, prompt, PROMPT_BARS + 2, seed=1)
    assert speaker.end not in tokens
    closed = speaker.close(np.concatenate([prompt, tokens]), PROMPT_BARS + 2)
    assert speaker.validate(closed) is None
    score = speaker.decode(closed)
    line = PROMPT_BARS * 4 * score.ticks_per_beat
    assert (score.notes.onset_ticks < line).sum() == 8
    assert (score.notes.onset_ticks >= line).sum() > 0
    assert score.notes.onset_ticks.max() < 2 * line


@pytest.mark.parametrize("name", ["remi", "groove", "groove-2"])
def test_the_music_may_end_where_it_is_asked_to(name: str):
    speaker = language(name)
    ids = speaker.encode(speaker.arrange(PIECE)).ids
    for may_end in (False, True):
        grammar = continuing(speaker, ids[:-1], prompt_bars=4, may_end=may_end)
        for token in ids[:-1]:
            grammar.advance(np.array([token]))
        assert grammar.allowed()[0, speaker.end] == may_end


def test_rows_of_it_go_their_own_ways():
    speaker = language("groove")
    prompt = prompt_of(speaker)  # its last note begins a beat before the line
    grammar = continuing(speaker, prompt, prompt_bars=PROMPT_BARS, longest_ticks=[60, 1, 12])
    for token in prompt:
        grammar.advance(np.array([token]))
    rows = grammar.select(np.zeros(2, dtype=np.int64))

    def take(*names: str) -> list[str]:
        drawn = np.array([speaker.vocabulary.id(name) for name in names])
        assert rows.allowed()[[0, 1], drawn].all()
        taken = rows.instead(drawn)
        rows.advance(taken)
        return [speaker.vocabulary.names[int(token)] for token in taken]

    assert take("time_shift_1_2", "time_shift_0_6") == ["time_shift_1_0", "time_shift_0_6"]
    assert take("note_off_2_62", "note_off_2_62") == ["note_off_2_62"] * 2
    assert not rows.allowed()[
        1, speaker.vocabulary.id("time_shift_0_8")
    ]  # nothing can happen there
    take("time_shift_1_11", "time_shift_2_0")
    take("note_on_0_40", "time_shift_2_0")
    assert take("time_shift_2_0", "time_shift_2_0") == ["time_shift_2_0"] * 2
    assert rows.bars.tolist() == [3, 4]
