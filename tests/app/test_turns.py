"""Everybody gets a turn, in the order of coming, and nobody keeps a place by failing."""

import threading
import time

import pytest

import app.turns
from app.turns import Turns


def test_work_is_done_in_turns_and_in_order(monkeypatch):
    monkeypatch.setattr(app.turns, "TURN_SECONDS", 0.005)
    turns, order = Turns(1), []

    def steps(name: str):
        for _ in range(30):
            time.sleep(0.001)
            order.append(name)
            yield

    def work(name: str) -> None:
        for _ in turns.taken(steps(name)):
            pass

    threads = [threading.Thread(target=work, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sorted(order) == sorted("abc" * 30)
    # Each has begun before any has ended.
    assert max(order.index(name) for name in "abc") < min(
        90 - order[::-1].index(name) for name in "abc"
    )
    assert turns.waiting == 0


def test_a_failure_gives_the_place_back():
    turns = Turns(1)

    def fails():
        yield
        raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        list(turns.taken(fails()))
    with turns.turn():
        assert turns.waiting == 0


def test_places_are_as_many_as_there_are():
    turns = Turns(2)
    with turns.turn(), turns.turn():
        third = threading.Thread(target=lambda: turns.turn().__enter__())
        third.start()
        while not turns.waiting:
            time.sleep(0.001)
    third.join(10)
    assert not third.is_alive()
