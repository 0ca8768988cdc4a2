"""A plan says which earlier bar a bar returns to, and the cache follows that bar through small changes."""

from __future__ import annotations

import numpy as np

from musicgen.generation.recall.memory import Memory
from musicgen.generation.recall.recalling import OTHER, Recall, Recalling, Returns

NEW, ONE, FAR_BACK, THIN, FULL, BAR = range(20, 26)  # tokens
BACK = {NEW: 0, ONE: 1, FAR_BACK: OTHER}


def sources(plans: list[tuple[int, ...]], given: dict[int, int] | None = None) -> list[int | None]:
    """Return the bar that each bar returns to."""
    returns, found = Returns(BACK, given or {}), []
    for plan in plans:
        returns.begin_bar()
        for token in plan:
            returns.take(token)
        found.append(returns.source())
    return found


def test_a_named_distance_is_counted_back_and_never_before_the_first_bar():
    assert sources([(ONE, THIN), (ONE, THIN), (NEW, THIN), ()]) == [None, 0, None, None]


def test_another_bar_is_the_one_whose_plan_is_the_same():
    assert sources([(NEW, THIN), (NEW, FULL), (NEW, THIN), (FAR_BACK, FULL)])[-1] == 1


def test_another_bar_is_the_next_one_of_the_phrase_that_is_followed():
    plans = [(NEW, FULL), (NEW, FULL), (NEW, FULL), (NEW, THIN), (NEW, THIN), (FAR_BACK, FULL)]
    first = sources(plans)[-1]
    assert first is not None
    assert sources([*plans, (FAR_BACK, FULL)])[-1] == first + 1


def test_what_a_user_asks_for_is_what_is_followed():
    assert sources([(NEW,), (NEW,), (NEW,), (FAR_BACK,)], {3: 0})[-1] == 0


def test_a_source_is_told_once():
    returns = Returns(BACK, {})
    for _ in range(2):
        returns.begin_bar()
    returns.take(ONE)
    assert (returns.source(), returns.source()) == (0, None)


def test_a_return_is_followed_through_changes():
    kinds = np.array([0] * 5 + [1] * 5)
    for drawn, expected in (
        ([1, 6, 2], 7),  # as it was
        ([1, 9, 2], 7),  # another token of the kind
        ([1, 2], 7),  # one left out
        ([1, 4, 6, 2], 7),  # one more
    ):
        memory = Memory([1, 6, 2, 7, 3, 8], kinds)
        memory.go_back(0, 20)
        for token in drawn:
            memory.take(token)
        guess = memory.guess()
        assert guess is not None
        assert max(guess.chances, key=guess.chances.__getitem__) == expected


def recalled(asked: int, allowed: list[int]) -> np.ndarray:
    """Return the chances of what follows two bars and the plan of a third one."""
    recall = Recall(
        weights=(30.0, 0.0, 0.0, 0.0), plan=frozenset(range(NEW, BAR)), passing=frozenset(range(NEW, BAR)),
        returns=BACK, kinds=np.zeros(BAR + 1, np.int64),
    )  # fmt: skip
    row = Recalling(recall)
    for token in (BAR, NEW, 1, 2, BAR, NEW, 3, 4, BAR, asked, THIN):
        row.take(token, token == BAR)
    chances, may = np.full(BAR + 1, 1 / (BAR + 1)), np.zeros(BAR + 1, bool)
    may[allowed] = True
    row.mix(chances, may)
    return chances


def test_a_planned_return_brings_the_bar_back_and_a_new_bar_recalls_nothing():
    notes = list(range(10))
    assert recalled(ONE, notes)[3] > 0.9
    assert np.ptp(recalled(NEW, notes)) == 0


def test_nothing_is_recalled_where_a_plan_may_be_said():
    assert np.ptp(recalled(ONE, [3, FULL])) == 0
