"""Many requests at once: each gets the same as alone, whichever others arrive, end, fail or wait."""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from weakref import WeakSet

import numpy as np
import pytest

from musicgen.eager import EagerNetwork, network_of
from musicgen.generation import engine as engine_module
from musicgen.generation.batch import Batch, Network, noise_of
from musicgen.generation.engine import Engine, ReadPrompt
from musicgen.generation.request import Choice, Job, Order, Request
from musicgen.generation.sampling import Kinds, Sampling
from musicgen.kernel.network import KernelNetwork, State
from tests.musicgen.generation.reference import draw, probabilities
from tests.musicgen.toys import (
    METRE,
    RECALL,
    VOCABULARY,
    Alternating,
    Anything,
    kernel_logits,
    stirred,
    toy_model,
)

# With variations that end at different steps, and with all kinds of state that a row has of its own.
KINDS = np.arange(VOCABULARY) % 4
DARING = Sampling(temperature=0.9, by_kind=True, recall=0.7)
RECALLING = Request(variations=6, seed=3, tokens=100, sampling=DARING)
RECALLED = {"end": Alternating.END, "kinds": Kinds(KINDS), "sources": {3: 0}}


class Endless(Alternating):
    END = -1


REQUESTS = [
    ([0, 3, 0, 5, 0, 3, 0, 5], RECALLING, Alternating, {**RECALLED, "elsewhere": (0, 1, 3, 6, 7)}),
    ([4, 3, 2, 1], Request(variations=2, seed=1, tokens=23), None),
    ([4, 3, 2, 1, 0, 7], Request(variations=9, seed=1, tokens=9), None),
    ([0, 1, 0, 3], Request(variations=3, seed=5, tokens=40), Alternating, {"before_bar": 4}),
    ([2, 7], Request(seed=2, tokens=31, sampling=Sampling(temperature=0.5)), Alternating),
    (np.arange(50) % 11, Request(variations=2, seed=9, tokens=60), None, {"end": 5}),
    ([4], Request(variations=4, seed=1, sampling=Sampling(top_k=3), tokens=17), None),
    ([0, 4, 8], Request(variations=3, seed=8, tokens=30), None, {"guiding": (4, 7), "end": 6}),
]


def highest(rows: Any, _: int) -> int:
    """Return the number of the row whose tokens are the highest."""
    return rows.index(max(rows))


HIGHEST = Choice(each=4, together=3, every=2, best=highest)
CHOSEN = (
    [0, 1, 0, 3],
    Request(variations=8, seed=5, tokens=300, sampling=Sampling(temperature=3)),
    Endless,
    {"choice": HIGHEST, "before_bar": 12},
)
REQUESTS.append(
    (
        CHOSEN[0],
        replace(CHOSEN[1], variations=3, tokens=60),
        Endless,
        {**CHOSEN[3], "before_bar": 6},
    )
)
MUSICAL = {"name": "sine_spe", "time": "music"}
# These have all kinds of state that a row has of its own; rows of other encodings have no further kind.
WHOLE = {"metre": METRE, "goals": (7, 9), "recall": RECALL}
PLAYED_BY_THE_KERNEL = [
    {"position": MUSICAL, **WHOLE},
    *({"position": one} for one in ("sine_spe", "conv_spe", "none", {**MUSICAL, "name": "rope"})),
]
PLAYED_BY_TORCH = [
    {"position": "permuteformer", **WHOLE},
    {"position": "flt"},
    {"attention": "softmax"},
]
MODELS = [
    *((KernelNetwork, parts) for parts in PLAYED_BY_THE_KERNEL),
    *((EagerNetwork, parts) for parts in PLAYED_BY_TORCH),
]


def shortened(given: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a request for fewer and shorter variations."""
    prompt, request, *more = given
    few, short = min(3, request.variations), min(30, request.tokens)
    return prompt, replace(request, variations=few, tokens=short), *more


def asked(prompt: Any, request: Request, grammar=None, ordered=None, **named) -> Job:
    """Return a request as a job; `ordered` are further fields of the order."""
    grammar = grammar or Anything()
    wanted = Order(request=request, ids=np.array(prompt), grammar=grammar, **(ordered or {}))
    return Job(wanted.after_prompt(), **named)


def job(prompt: Any, request: Request, ruled=None, ordered=None, **more) -> Job:
    return asked(prompt, request, ruled() if ruled else None, ordered, **more)


def added(engine: Engine, *jobs: Job) -> None:
    for one in jobs:
        engine.add(one)


def finish(engine: Engine, *jobs: Job) -> None:
    """Add jobs and run all of them to the end."""
    added(engine, *jobs)
    while engine.work():
        pass


def alone(network: Network, *given: Any) -> list[list[int]]:
    """Return the tokens of a request that is run by itself."""
    wanted = job(*given)
    finish(Engine(network), wanted)
    wanted.check()
    return wanted.rows


@pytest.mark.parametrize(("kind", "parts"), MODELS, ids=str)
def test_a_request_gets_the_same_among_others(kind: type, parts: Any, monkeypatch: Any):
    """Requests arrive at random steps, in any order, and there is not always room for all."""
    for limit, number in (("STEP_ROWS", 16), ("TURN_STEPS", 3), ("MOST_ROWS", 20)):
        monkeypatch.setattr(engine_module, limit, number)
    network = network_of(stirred(toy_model(layers=2, **parts)))
    assert isinstance(network, kind)
    # Torch is slow, and its rows fill the batch nevertheless.
    requests = [*map(shortened, REQUESTS)] if kind is EagerNetwork else REQUESTS
    wanted = [alone(network, *one) for one in requests]
    random = np.random.default_rng(0)
    for listeners in (False, True):
        engine, jobs = Engine(network, listeners=listeners), {}
        coming = [*random.permutation(len(requests))]
        while coming or not engine.idle:
            if coming and random.random() < 0.3:
                number = int(coming.pop())
                jobs[number] = job(*requests[number], owner=str(number % 2))
                engine.add(jobs[number])
            engine.work()
        for number, rows in enumerate(wanted):
            jobs[number].check()
            assert jobs[number].rows == rows, (number, listeners)


PROMPT = np.array([4, 3, 2])


def test_guidance_extrapolates_from_the_logits_without_the_guiding_tokens(network: Network):
    sampling, guiding = Sampling(guidance=2.5), (3, 9)
    request = Request(variations=2, seed=4, tokens=20, sampling=sampling)
    guided = alone(network, PROMPT, request, False, {"guiding": guiding})
    assert guided != alone(network, PROMPT, request)
    for variation, row in enumerate(guided):
        random = np.random.default_rng([4, variation, 0])
        for place, token in enumerate(row):
            unseen = [one for one in row[:place] if one not in guiding]
            own, without = (after(network, [*PROMPT, *more]) for more in (row[:place], unseen))
            scores = own if not place else own + np.float32(1.5) * (own - without)
            assert token == draw(probabilities(scores, sampling), random.random())


def after(network: Any, ids: list[int]) -> np.ndarray:
    """Return the logits after a sequence that began with PROMPT, (V,)."""
    state = network.begin(noise_of(PROMPT))
    return kernel_logits(network, state, np.array(ids))[-1]


@pytest.fixture(scope="module")
def network() -> Network:
    return network_of(toy_model(position="sine_spe", layers=2))


@pytest.fixture
def states(monkeypatch: pytest.MonkeyPatch) -> WeakSet[State]:
    """Return the states of sequences in the kernel that have not been freed."""
    alive: WeakSet[State] = WeakSet()
    begin = State.__init__
    monkeypatch.setattr(
        State, "__init__", lambda one, *given: (begin(one, *given), alive.add(one))[0]
    )
    return alive


def endless(**more: Any) -> Job:
    return job([4, 3, 2, 1], Request(variations=2, seed=1), **more)


class Faulty(Endless):
    """Fails after some tokens, in the given method."""

    def __init__(self, where: str = "advance") -> None:
        super().__init__()
        self.where, self.left = where, 12

    def _fail(self, where: str) -> None:
        self.left -= where == self.where
        if self.left < 0:
            raise KeyError("no such bar")

    def allowed(self) -> np.ndarray:
        self._fail("allowed")
        return super().allowed()

    def advance(self, tokens: np.ndarray) -> None:
        self._fail("advance")
        super().advance(tokens)

    @property
    def shared(self) -> int:
        return id(self)  # with no other grammar


@pytest.mark.parametrize(
    ("rules", "variations"),
    [(Faulty(where="allowed"), 2), (Faulty(where="allowed"), 12), (Faulty(), 2), (None, 2)],
)
def test_one_failure_does_not_affect_others(
    network: Network, states: Any, rules: Faulty | None, variations: int
):
    engine = Engine(network)
    faulty = asked([4, 3], Request(variations=variations), rules)
    if rules is None:
        faulty.cancelled = lambda: {}["no such bar"]  # fails even when it is polled
    fine = job(*REQUESTS[0])
    finish(engine, faulty, fine)
    assert fine.rows == alone(network, *REQUESTS[0])
    assert fine.error is None
    with pytest.raises(KeyError, match="no such bar"):
        faulty.check()
    assert faulty.ended.is_set()
    assert faulty.steps < 12
    assert rules is None or faulty.steps > 0
    assert len(states) == len(engine._prompts)


def test_a_request_past_the_length_of_the_encoding_fails_and_others_continue():
    network = network_of(toy_model(position={"name": "learned", "max_length": 20}))
    long, short = endless(), job([4, 3], Request(tokens=18))
    finish(Engine(network), long, short)
    with pytest.raises(ValueError, match=r"reaches 21 tokens, .* maximum length of 20; shorten"):
        long.check()
    assert long.steps == 17
    assert short.error is None
    assert short.steps == 18


@pytest.mark.parametrize("attention", ["linear", "softmax"])
def test_a_prompt_past_the_length_of_the_encoding_fails(attention: str):
    position = {"name": "learned", "max_length": 20}
    network = network_of(toy_model(position=position, attention=attention))
    for length, more in ((20, 1), (21, 0)):
        wanted = job(np.arange(length) % 11, Request(tokens=9))
        finish(Engine(network), wanted)
        with pytest.raises(
            ValueError, match=r"reaches 21 tokens, .* maximum length of 20; shorten"
        ):
            wanted.check()
        assert wanted.steps == more


def test_a_cancelled_request_ends_within_a_step_and_frees_its_rows(network: Network, states: Any):
    gone: set[int] = set()
    engine = Engine(network)
    jobs = [endless(cancelled=lambda number=number: number in gone) for number in range(3)]
    added(engine, *jobs)
    run_until(engine, lambda: all(one.steps > 5 for one in jobs))
    assert len(states) == 6 + 1  # and the prompt that they share
    gone.add(1)
    before = jobs[1].steps
    engine.work()
    assert jobs[1].ended.is_set()
    assert jobs[1].steps == before
    assert len(states) == 4 + 1
    gone.update((0, 2))
    engine.work()
    assert engine.idle
    assert len(states) == 1  # kept, for another take


WINDOWS = -(-3000 // engine_module.WINDOW)  # of the prompts below


def test_a_prompt_is_read_between_the_steps_of_others(network: Network, monkeypatch: Any):
    monkeypatch.setattr(engine_module, "READ_SECONDS", 0)
    engine, playing = Engine(network), endless()
    engine.add(playing)
    run_until(engine, lambda: playing.steps >= 2)
    late = job(np.arange(3000) % 11, Request(tokens=1))
    engine.add(late)
    before = playing.steps
    while not late.ended.is_set():
        had = playing.steps
        engine.work()
        assert playing.steps == had + 1
    assert playing.steps - before >= WINDOWS
    assert late.rows == alone(network, np.arange(3000) % 11, late.request)


def test_a_prompt_is_read_once_for_all_requests_that_share_it(network: Network, monkeypatch: Any):
    engine, prompt, read = Engine(network), np.arange(3000) % 11, []
    go_on = ReadPrompt.go_on
    monkeypatch.setattr(ReadPrompt, "go_on", lambda one: (read.append(one), go_on(one)))
    takes = [job(prompt, Request(seed=seed, tokens=3)) for seed in range(2)]
    finish(engine, *takes)
    finish(engine, other := job(prompt, Request(seed=2, tokens=3)))
    assert len(read) == WINDOWS
    assert other.rows == alone(network, prompt, other.request)
    gone = job(prompt[1:], Request(tokens=3), cancelled=lambda: len(read) == 2)
    read.clear()
    finish(engine, gone)
    assert not gone.steps
    finish(engine, late := job(prompt[1:], gone.request))
    assert len(read) == WINDOWS
    assert late.rows == alone(network, prompt[1:], gone.request)


def test_a_few_prompts_are_kept_but_not_those_of_failed_requests(
    network: Network, monkeypatch: Any
):
    engine = Engine(network)
    for start in range(7):
        finish(engine, job([start, 1], Request(tokens=3)))
        assert len(engine._prompts) == min(start + 1, engine_module.KEPT_PROMPTS)
    failed = asked([6, 1], Request(), Faulty())
    finish(engine, failed)
    assert failed.prompt_key not in engine._prompts
    monkeypatch.setattr(engine_module, "KEPT_BYTES", 8)
    finish(engine, job([9, 1], Request(tokens=3)))
    assert not engine._prompts


def test_a_failure_of_the_batch_ends_all_requests(network: Network):
    engine, jobs = Engine(network), [endless(), endless()]
    added(engine, *jobs)
    for _ in range(5):
        engine.work()
    engine.fail(RuntimeError("no memory"))
    assert engine.idle
    for one in jobs:
        assert one.ended.is_set()
        with pytest.raises(RuntimeError, match="no memory"):
            one.check()


def run_until(engine: Engine, done: Callable[[], bool], most: int = 2000) -> None:
    for _ in range(most):
        if done():
            return
        engine.work()
    raise AssertionError(f"not reached within {most} steps")


def test_first_notes_have_priority_unless_their_owner_has_had_much_more_time(
    network: Network, monkeypatch: Any
):
    monkeypatch.setattr(engine_module, "AHEAD_SECONDS", np.inf)
    engine = Engine(network, listeners=True)
    playing = asked([0, 1], Request(seed=1), Endless())
    engine.add(playing)
    run_until(engine, lambda: playing.steps > engine_module.FIRST_STEPS)
    had = playing.steps
    new = job([0, 1], Request(seed=2, tokens=40), owner="new")
    engine.add(new)
    run_until(engine, lambda: new.steps == engine_module.FIRST_STEPS)
    assert playing.steps <= had + 1
    run_until(engine, lambda: new.ended.is_set())
    assert playing.steps > had + 20
    engine._seconds["greedy"] = engine._seconds[""] + 2 * engine_module.FIRST_SECONDS
    greedy = job([0, 1], Request(seed=3, tokens=40), owner="greedy")
    engine.add(greedy)
    had = playing.steps
    run_until(engine, lambda: greedy.ended.is_set())
    assert playing.steps >= had + 39


def test_short_prompts_are_read_first(network: Network):
    engine = Engine(network, listeners=True)
    long, short = (job(np.arange(n) % 11, Request(tokens=1)) for n in (3000, 5))
    added(engine, long, short)
    run_until(engine, lambda: short.ended.is_set())
    assert not long.ended.is_set()


def test_an_owner_of_many_requests_waits_longer(network: Network, monkeypatch: Any):
    for name, number in (("STEP_ROWS", 8), ("TURN_STEPS", 1), ("MOST_ROWS", 8)):
        monkeypatch.setattr(engine_module, name, number)
    engine, order = Engine(network, listeners=True), []
    requests = [Request(variations=4, seed=seed, tokens=40) for seed in range(13)]
    jobs = [job([4, 3], one, owner="greedy") for one in requests[:12]]
    modest = job([4, 3], requests[12], owner="modest")
    added(engine, *jobs)
    for _ in range(10):
        engine.work()
    engine.add(modest)
    while engine.work():
        order += [one for one in (*jobs, modest) if one.ended.is_set() and one not in order]
    assert order.index(modest) <= 3
    assert [one.steps for one in order] == [40] * 13


@pytest.mark.parametrize(("room", "tokens"), [(256, 100), (256, 800), (16, 800)])
def test_somebody_who_asks_for_much_doubles_the_time_of_others_at_most(
    room: int, tokens: int, network: Network, monkeypatch: Any
):
    """And hardly adds to it where they ask for little.

    By a clock that counts the tokens that are read and written, also where there is room for few rows.
    """
    monkeypatch.setattr(engine_module, "MOST_ROWS", room)
    a_token, now = 0.005, [0.0]
    monkeypatch.setattr(engine_module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    for name in ("append", "read"):
        work = getattr(Batch, name)

        def counted(batch: Batch, prefixes: Any, tokens: np.ndarray, work: Any = work) -> None:
            now[0] += a_token * len(tokens)
            work(batch, prefixes, tokens)

        monkeypatch.setattr(Batch, name, counted)

    def seconds(*before: Job) -> float:
        engine, modest = Engine(network, listeners=True), job([4, 3], modestly, owner="modest")
        added(engine, *before)
        for _ in range(50 if before else 0):
            engine.work()
        begun = now[0]
        engine.add(modest)
        run_until(engine, modest.ended.is_set, most=5000)
        return now[0] - begun

    modestly = Request(variations=2, seed=1, tokens=tokens)
    much = Request(variations=8, seed=2, tokens=100_000)
    greedy = [job(np.arange(n) % 11, much, owner="greedy") for n in (5, 6, 3000, 3001, 3002)]
    a_turn = engine_module.TURN_STEPS * engine_module.STEP_ROWS * a_token
    more = engine_module.AHEAD_SECONDS + engine_module.WINDOW * a_token
    alone, late = seconds(), seconds(*greedy)
    if alone <= engine_module.CREDIT_SECONDS:
        assert late <= alone + more
    else:
        assert late <= 2 * alone - engine_module.CREDIT_SECONDS + more + a_turn


def test_newcomers_precede_those_at_work_but_not_more_the_more_they_are(network: Network):
    engine, credit = Engine(network, listeners=True), engine_module.CREDIT_SECONDS
    engine.add(endless(owner="at work"))
    engine.work()
    engine._seconds["at work"] = 100.0
    for name in "abc":
        engine.add(endless(owner=name))
        engine.work()
        assert 100 - credit <= engine._seconds[name] < 101 - credit


def test_rows_that_wait_for_room_hardly_cost_others_a_step(network: Network, monkeypatch: Any):
    monkeypatch.setattr(engine_module, "MOST_ROWS", 8)
    engine, asked_for = Engine(network, listeners=True), list[int]()
    greedy = [job([4, 3], Request(variations=64, seed=seed), Endless) for seed in range(2)]
    added(engine, *greedy)
    run_until(engine, lambda: greedy[0].steps > engine_module.FIRST_STEPS)
    group = Job.group
    monkeypatch.setattr(Job, "group", lambda one, row: (asked_for.append(1), group(one, row))[1])
    for _ in range(4 * engine_module.TURN_STEPS):
        engine.work()
    # Without a limit, these are the rows times the steps.
    assert len(asked_for) < 4 * engine_module.TURN_STEPS


def test_new_requests_are_taken_while_a_long_prompt_is_read(network: Network, monkeypatch: Any):
    monkeypatch.setattr(engine_module, "READ_SECONDS", 0.0)
    long = job(np.arange(3 * engine_module.WINDOW) % 11, Request(tokens=1))
    engine, short = Engine(network, listeners=True), job([4, 3], Request(tokens=1))
    engine.add(long)
    engine.work()
    assert long.steps == 0
    engine.add(short)
    run_until(engine, lambda: short.ended.is_set())
    assert not long.ended.is_set()
    run_until(engine, lambda: long.ended.is_set())


def test_states_stay_within_the_memory_limit(network: Network):
    for most_bytes, most_rows in ((1, 1), (1 << 30, 4)):
        engine, seen = Engine(network, most_bytes=most_bytes), 0
        jobs = [job([4, 3, 2], Request(seed=n, tokens=9)) for n in range(4)]
        added(engine, *jobs)
        while engine.work():
            seen = max(seen, sum(one.steps > 0 and not one.ended.is_set() for one in jobs))
        assert seen == most_rows
        assert [len(one.rows[0]) for one in jobs] == [9] * len(jobs)


def test_rows_go_on_from_the_best_of_their_group_at_each_choice(network: Network):
    prompt, request, ruled, ordered = CHOSEN
    plain = alone(network, prompt, request, ruled, {**ordered, "choice": None})
    seen: list[tuple[int, list[list[int]]]] = []

    def best(rows: list[list[int]], bars: int) -> int:
        seen.append((bars, [[*row] for row in rows]))
        return highest(rows, bars)

    one = replace(request, variations=4)
    rows = alone(network, prompt, one, ruled, {**ordered, "choice": replace(HIGHEST, best=best)})
    *group, other = rows
    assert [bars for bars, _ in seen] == [*range(2, 2 * len(seen) + 1, 2)]
    assert len(seen) > 1
    assert [row[: len(first)] for row, first in zip(plain, seen[0][1], strict=False)] == seen[0][1]
    for (_, now), then in zip(seen, [*(rows for _, rows in seen[1:]), group], strict=True):
        assert [row[: len(max(now))] for row in then] == [max(now)] * 3
        assert len({*map(tuple, then)}) > 1  # each with its own randomness
    assert other == plain[3]  # alone in its group
    assert alone(network, *CHOSEN)[:4] == rows
    settled = job(*CHOSEN)
    settled.settled.add(0)
    finish(Engine(network), settled)
    assert (settled.rows[0], settled.rows[4:]) == (plain[0], alone(network, *CHOSEN)[4:])
    assert rows[0] != plain[0]


def test_rows_that_wait_for_each_other_are_admitted_together(network: Network):
    for most_bytes in (1, 1 << 30):
        engine = Engine(network, most_bytes=most_bytes)
        jobs = [job(*CHOSEN) for _ in range(2)]
        finish(engine, *jobs)
        assert [one.rows for one in jobs] == [alone(network, *CHOSEN)] * 2


def test_news_of_rows_that_went_on_from_others_give_the_same_rows(network: Network):
    wanted, engine = job(*CHOSEN), Engine(network)
    engine.add(wanted)
    told: list[list[int]] = [[] for _ in wanted.rows]
    turned = False
    while engine.work():
        for row, (stay, new) in zip(told, wanted.fresh(), strict=True):
            turned = turned or stay < len(row)
            row[stay:] = new
        assert told == wanted.rows
    assert turned
