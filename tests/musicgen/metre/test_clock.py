"""The time that tokens say is read alike by the model's clock and by their languages, whole or cut anywhere."""

import numpy as np
import pytest
import torch

from musicgen.metre.heads import Clock, Timekeeper
from tests.tokenization.groove.cases import walk as groove_walk
from tests.tokenization.remi.cases import walk as remi_walk
from tokenization.groove.language import Groove
from tokenization.groove.spelling import Reading
from tokenization.records import from_plain
from tokenization.remi.language import Remi
from tokenization.remi.spelling import BAR, SUBBEAT_IDS


def keeper(language: Groove | Remi) -> Timekeeper:
    clock = from_plain(Clock, language.clock(), "the clock")
    return Timekeeper(clock, len(language.vocabulary))


def groove_times(ids: np.ndarray) -> np.ndarray:
    """Return the times that the language itself reads."""
    return Reading(ids.astype(np.int64)).time_ticks


def remi_times(ids: np.ndarray) -> np.ndarray:
    """Return bars begun, of 16 sub-beats each, and the place in the last, one token after the other."""
    bar, place, times = 0, 0, []
    for token in ids.tolist():
        if token == BAR:
            bar, place = bar + 1, 0
        elif token in SUBBEAT_IDS:
            place = int(np.flatnonzero(token == SUBBEAT_IDS)[0])
        times.append(bar * 16 + place)
    return np.array(times)


TIMES = {"groove": (Groove(), groove_walk, groove_times), "remi": (Remi(), remi_walk, remi_times)}


@pytest.mark.parametrize("name", TIMES)
@pytest.mark.parametrize("seed", range(2))
def test_a_clock_reads_the_times_of_its_language(name: str, seed: int):
    spoken, walk, times = TIMES[name]
    ids = walk(seed, 200)
    tokens = torch.from_numpy(ids.astype(np.int64))
    wanted = torch.from_numpy(times(ids))
    assert wanted.max() > spoken.clock()["bar_ticks"]
    time, zero = keeper(spoken), torch.zeros(1, dtype=torch.long)
    assert torch.equal(time.after(tokens[None], zero)[0], wanted)
    for cut in (1, 50, len(ids) - 1):
        at = time.after(tokens[None, :cut], zero)[:, -1]
        assert torch.equal(time.after(tokens[None, cut:], at)[0], wanted[cut:])
    at = zero
    for token, one in zip(tokens, wanted, strict=True):
        at = time.after(token[None, None], at)[0]
        assert at == one


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"bar_ticks": 0}, "a bar has 0 ticks and a step 12"),
        (
            {"moves": [[3, 0, 12]]},
            r"\[3, 0, 12\] is not a move: a token, steps, and a tick below 12",
        ),
        ({"moves": [[3, 0]]}, r"\[3, 0\] is not a move"),
    ],
)
def test_a_wrong_clock_is_refused(changes: dict, says: str):
    with pytest.raises(ValueError, match=says):
        from_plain(Clock, {**Groove().clock(), **changes}, "the clock")
