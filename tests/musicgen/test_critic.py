"""The critic prefers what it has learned to take for real, and takes with a fault never win."""

import pickle
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

import musicgen
from evaluation.critic import learned
from musicgen.completion import accompaniment, infilling
from musicgen.continuation import Continuation
from musicgen.critic import Critic, NewBars, chosen, faults, likeness
from musicgen.generation.engine import Engine
from musicgen.generation.request import Job, Request
from tests.evaluation.scores import BASS, DRUMS, OTHER, trio
from tokenization.ensemble.tokens import BAR as BAR_TOKEN
from tokenization.score import Score

BAR = 48
PIECE = "app/examples/trio-jazz.mid"
NEW = NewBars(begun=4, stop=8)


def score(*news: tuple[int, int, int, int]) -> Score:
    """Return four bars of a melody over a bass, then notes from the fifth bar on."""
    tune = [(12 * beat, 12, 60 + beat % 5, OTHER) for beat in range(16)]
    bass = [(BAR * bar, BAR, 40, BASS) for bar in range(4)]
    return trio([*tune, *bass, *((4 * BAR + at, *rest) for at, *rest in news)])


TUNE = [(12 * beat, 12, 60 + beat % 5, OTHER) for beat in range(16)]
LOW = [(BAR * bar, BAR, 40, BASS) for bar in range(4)]


@pytest.mark.parametrize(
    ("news", "ends", "wrong"),
    [
        ([*TUNE, *LOW], False, 0),
        (TUNE, False, 1),  # the bass is silent
        ([*TUNE[:12], *LOW[:3]], False, 0),
        ([*TUNE[:12], *LOW[:3]], True, 1),  # it is to end, but is silent
        ([*TUNE, *LOW], True, 1),  # it plays on
        ([*TUNE[:13], *LOW], True, 0),
        ([*((at, 12, 60, OTHER) for at, *_ in TUNE), *LOW], False, 1),  # it hammers
        ([*((3 * n, 3, 60 + n % 5, OTHER) for n in range(64)), *LOW], False, 1),  # it is crowded
        ([TUNE[0], LOW[0]], False, 1),  # it fades
        ([], False, 3),
    ],
)
def test_faults(news, ends: bool, wrong: int):
    assert faults(score(*news), replace(NEW, ends=ends)) == wrong


FOUR = [(12 * beat, 12, 60 + beat % 5, OTHER) for beat in range(64)]
DEEP = [(BAR * bar, BAR, 40, BASS) for bar in range(16)]


@pytest.mark.parametrize(
    ("region", "left_out", "wrong"),
    [
        ({"begun": 4, "stop": 8, "bars": 16}, (), 0),
        ({"begun": 4, "stop": 8, "bars": 16}, (BASS,), 1),
        ({"begun": 4, "stop": 8, "bars": 16}, (OTHER,), 3),  # what is left is thin and hammers, too
        ({"begun": 0, "stop": 4, "bars": 16}, (), 0),
        ({"begun": 0, "stop": 4, "bars": 16}, (BASS,), 1),  # it plays in the bars after
        ({"begun": 4, "stop": 8, "bars": 16, "tracks": (BASS, DRUMS)}, (), 1),  # no drums
        ({"begun": 4, "stop": 8, "bars": 16, "tracks": (OTHER,)}, (BASS,), 0),
        ({"begun": 0, "stop": 16, "bars": 16, "tracks": (BASS,)}, (), 0),
        ({"begun": 0, "stop": 16, "bars": 16, "tracks": (BASS,)}, (BASS,), 1),
        ({"begun": 0, "stop": 16}, (), 0),  # from nothing
        ({"begun": 0, "stop": 16}, (BASS, OTHER), 1),
    ],
)
def test_faults_of_bars_and_parts_within_a_piece(region, left_out, wrong: int):
    new = NewBars(**region)
    start, stop = BAR * new.begun, BAR * new.stop
    notes = [
        note for note in (*FOUR, *DEEP) if not (start <= note[0] < stop and note[3] in left_out)
    ]
    assert faults(trio(notes), new) == wrong


def test_bars_that_equal_those_that_they_replace_are_a_fault():
    old, changed = (
        score(*TUNE, *LOW),
        score((0, 12, 72, OTHER), (12, 12, 74, OTHER), *TUNE[2:], *LOW),
    )
    new = replace(NEW, before=old)
    assert [faults(one, new) for one in (old, changed)] == [1, 0]
    assert faults(old, replace(new, tracks=(BASS,))) == 1
    assert faults(changed, replace(new, tracks=(BASS,))) == 1  # the other part is given
    assert not replace(new, before=score()).are_old(score())  # bars of rest


def test_the_best_of_each_group_is_chosen_and_differs_from_those_before():
    one, other = trio(TUNE), trio(LOW)
    ranks = [(0, 0.5), (1, -3.0), (0, 0.2), (0, 0.3)]
    assert chosen(ranks, [one] * 4, 2) == [0, 2]
    assert chosen(ranks, [one, one, one, other], 2) == [0, 3]
    assert chosen(ranks, [one] * 4, 4) == [2]
    # One with a fault does not win by being different.
    assert chosen([(0, 0.5), (0, 0.6), (1, -3.0), (0, 0.3)], [one, one, other, one], 2) == [0, 3]
    # A settled one stays, and the others differ from it, also those before.
    assert chosen(ranks, [one] * 4, 2, {0}) == [0, 2]
    assert chosen([(0, 0.1), (0, 0.2), (0, 0.9), (0, 0.3)], [one, other, one, one], 2, {1}) == [
        1,
        2,
    ]
    assert likeness(one, one) == 1


def critic_of(difference: float) -> Critic:
    """Return a critic that has learned that generated music has more notes."""
    random = np.random.default_rng(0)
    written = np.arange(2000) % 2 == 0
    values = np.stack(
        [random.normal(2, 1, 2000) + difference * written, random.normal(size=2000)], 1
    )
    values[::9, 1] = np.nan
    return Critic(learned(["rhythm: notes", "top: step"], values, written))


def test_a_critic_doubts_what_it_has_learned_to_doubt():
    critic = critic_of(4)
    calm, busy = score(*TUNE, *LOW), score(*((n, 1, 60 + n % 7, OTHER) for n in range(4 * BAR)))
    assert critic.doubt(calm, NEW) < 0 < critic.doubt(busy, NEW)
    assert critic.doubt(trio([]), NEW) == np.inf
    assert critic.doubt(calm, NEW) == round(critic.doubt(calm, NEW), 3)


def test_bars_after_a_gap_are_heard_with_it():
    critic, gap = critic_of(4), replace(NEW, bars=16)
    notes = [*FOUR, *DEEP]
    crowd = [(8 * BAR + n, 1, 60 + n % 7, OTHER) for n in range(4 * BAR)]
    assert critic.doubt(trio([*notes, *crowd]), NEW) == critic.doubt(trio(notes), NEW)
    assert critic.doubt(trio([*notes, *crowd]), gap) > critic.doubt(trio(notes), gap)


def test_of_several_takes_the_least_doubted_is_returned_and_can_be_drawn_again():
    critic = critic_of(4)
    model = replace(musicgen.load("untrained:tiny:ensemble"), read_critic=lambda: critic)
    prompt = model.read(PIECE).prompt(4)
    how: dict[str, Any] = {"bars": 4, "seed": 3}

    def drawn(**more: Any):
        return Continuation(model, prompt, Request(**how, **more)).finish().takes()

    every = drawn(variations=4)
    ranks = [critic.rank(one.score, NEW) for one in every]
    first, second = drawn(variations=2, draw=2)
    assert [first.number, second.number] == [0, 1]
    assert first.ids.tolist() == every[ranks.index(min(ranks[:2]))].ids.tolist()
    assert drawn(draw=2)[0].ids.tolist() == first.ids.tolist()
    assert (first.provenance["best_of"], "best_of" in every[0].provenance) == (2, False)
    row = first.provenance["variation"]
    assert every[row].ids.tolist() == first.ids.tolist()
    again = model.continue_(PIECE, prompt_bars=4, **how, draw=2)
    assert again[0].ids.tolist() == first.ids.tolist()


def test_rows_of_a_take_go_on_from_the_least_doubted_after_every_four_bars():
    critic = critic_of(4)
    model = replace(musicgen.load("untrained:tiny:ensemble"), read_critic=partial(critic_of, 4))
    prompt = model.read(PIECE).prompt(4)

    def begun(**more: Any):
        return Continuation(model, prompt, Request(bars=6, seed=3, **more)).finish()

    plain, work = begun(variations=2), begun(draw=2)
    firsts = [critic.rank(work.hear(ids), NEW) for ids in plain.sequences()]
    assert len({*firsts}) > 1
    best = plain.sequences()[firsts.index(min(firsts))]
    lines = np.flatnonzero(best == BAR_TOKEN)
    until = lines[4 + 4] + 1  # the token that begins the ninth bar
    for ids in work.sequences():
        assert ids[:until].tolist() == best[:until].tolist()
    assert len({tuple(ids.tolist()) for ids in work.sequences()}) > 1
    # Another process gets the same.
    sent = pickle.loads(pickle.dumps(work.order()))
    job = Job(sent)
    engine = Engine(model.network)
    engine.add(job)
    while engine.work():
        pass
    job.check()
    assert job.rows == work.job.rows


@pytest.mark.parametrize("write", ["bars", "bars of a part", "part"])
def test_rewritten_bars_and_written_parts_are_chosen_too(write: str):
    critic = critic_of(4)
    model = replace(musicgen.load("untrained:tiny:ensemble"), read_critic=partial(critic_of, 4))
    piece = model.read(PIECE)

    def begun(**more: Any):
        request = Request(seed=3, **more)
        if write == "part":
            return accompaniment(model, piece, ["bass"], request)
        return infilling(model, piece, (3, 4), request, None if write == "bars" else [0])

    work = begun(draw=3).finish()
    assert work.compared is not None
    every = [ids.tolist() for ids in work.sequences()]
    ranks = [critic.rank(work.hear(ids), work.compared) for ids in work.sequences()]
    assert len({*ranks}) > 1
    [take] = work.takes()
    assert take.ids.tolist() == every[ranks.index(min(ranks))]
    assert take.provenance["best_of"] == 3
    # Another process hears the same.
    sent = pickle.loads(pickle.dumps(work.order()))
    ids = work.sequences()[0]
    assert sent.choice.best.keywords["hear"](ids).notes == work.hear(ids).notes
    # What grows is the first one, and what was stopped stays what it was.
    [first] = work.takes(choosing=False)
    assert first.ids.tolist() == every[0]
    assert "best_of" not in first.provenance


def test_chords_alone_are_not_compared_nor_takes_of_a_model_without_a_critic():
    model = musicgen.load("untrained:tiny:ensemble")
    able = replace(model, read_critic=lambda: critic_of(4))
    work = accompaniment(able, able.read(PIECE), ["chords"], Request(draw=3))
    assert (work.compared, work.each) == (None, 1)
    prompt = model.read(PIECE).prompt(4)
    assert [Continuation(one, prompt, Request(draw=2)).each for one in (model, able)] == [1, 2]
    assert Continuation(able, prompt, Request(draw=2, tokens=9)).each == 1


def test_the_bundled_model_has_a_critic():
    assert musicgen.find("ensemble").critic is not None
    assert musicgen.find("untrained:tiny:ensemble").critic is None


@pytest.mark.parametrize("draw", [0, 1.5])
def test_a_wrong_number_is_refused(draw):
    with pytest.raises(ValueError, match="draw"):
        Request(draw=draw)
