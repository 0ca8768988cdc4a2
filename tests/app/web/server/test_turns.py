"""Everybody gets a turn at the one thread, in the order of coming, and nobody stops it by failing."""

import threading
import time
import weakref

import pytest

import app.web.server.turns
from app.web.server.turns import Turns


def test_work_is_done_in_turns_and_in_order(monkeypatch):
    monkeypatch.setattr(app.web.server.turns, "TURN_SECONDS", 0.005)
    turns, order = Turns(), []

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
    assert turns.ahead() == 0


def test_after_a_failure_the_next_is_served():
    turns = Turns()

    def fails():
        yield
        raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        list(turns.taken(fails()))
    assert len(list(turns.taken(iter(range(3))))) == 0  # less than a turn: the next one is served


def test_one_thread_works_for_all():
    turns, workers = Turns(), set()

    def steps():
        workers.add(threading.get_ident())
        yield

    def ask() -> None:
        for _ in turns.taken(steps()):
            pass

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(workers) == 1
    assert threading.get_ident() not in workers


def test_what_is_done_is_let_go():
    """The thread that waits for the next work holds nothing of the last."""
    turns = Turns()

    class Music:
        pass

    music = Music()
    gone = weakref.ref(music)

    def steps(held: object):
        yield held

    for _ in turns.taken(steps(music)):
        pass
    del music
    late = time.monotonic() + 10
    while gone() is not None and time.monotonic() < late:
        time.sleep(0.001)
    assert gone() is None


def test_after_the_end_nobody_works():
    turns, begun = Turns(), threading.Event()

    def endless():
        while True:
            begun.set()
            yield

    def ask() -> None:
        for _ in turns.taken(endless()):
            pass

    threading.Thread(target=ask, daemon=True).start()
    assert begun.wait(10)
    turns.close()
    begun.clear()
    assert not begun.wait(0.3)


def test_who_asks_for_much_waits_the_longer(monkeypatch):
    monkeypatch.setattr(app.web.server.turns, "TURN_SECONDS", 0.002)
    turns, done = Turns(), []

    def steps(name: str):
        for _ in range(40):
            time.sleep(0.001)
            yield
        done.append(name)

    def work(name: str, client: str) -> None:
        list(turns.taken(steps(name), client))

    greedy = [threading.Thread(target=work, args=(f"g{i}", "greedy")) for i in range(12)]
    modest = threading.Thread(target=work, args=("modest", "modest"))
    for thread in [*greedy, modest]:
        thread.start()
    for thread in [*greedy, modest]:
        thread.join(20)
    assert done.index("modest") <= 1, done  # one of thirteen, it had half of the turns
