"""Critics separate what differs and nothing else, and halves of one kind not at all."""

from dataclasses import replace

import numpy as np
import pytest

from evaluation.study import critics, realism
from evaluation.study.critics import Windows
from evaluation.tables import table_of
from tests.evaluation.scores import BASS, DRUMS, OTHER, trio
from tokenization.analysis.statistics import Measured

NAMES = ["rhythm: notes", "loudness: mean", "change: loudness mean", "top: step"]


def windows(seed: int, pieces: int, difference: float = 0.0) -> Windows:
    """Return two windows of each piece and of a take of it, whose first statistic differs."""
    random = np.random.default_rng(seed)
    piece, take, bar = (column.ravel() for column in np.mgrid[:pieces, -1:1, 8:24:8])
    values = random.normal(size=(len(piece), len(NAMES))).astype(np.float32)
    values[:, 0] += difference * (take >= 0)
    values[::7, 1] = np.nan
    rolls = np.zeros((len(piece), 5, critics.HEIGHT, critics.WIDTH), np.uint8)
    rolls[np.arange(len(piece)), 0, random.integers(40, 60, len(piece)), ::4] = 100
    rolls[take >= 0, 3] = np.uint8(100 * bool(difference))
    return Windows(values=values, rolls=rolls, piece=piece + 1000 * seed, take=take, bar=bar)


def test_the_auc_counts_pairs():
    kind = np.array([False, False, True, True])
    assert realism.auc(np.array([1, 2, 3, 4]), kind) == 1
    assert realism.auc(np.array([4, 3, 2, 1]), kind) == 0
    assert realism.auc(np.array([1, 1, 1, 1]), kind) == 0.5
    assert realism.auc(np.array([1, 3, 2, 3]), kind) == (1 + 0 + 1 + 0.5) / 4
    assert realism.auc(np.array([1, 2]), np.array([True, True])) is None


def test_only_what_differs_is_told_apart(monkeypatch):
    monkeypatch.setattr(critics, "EPOCHS", 4)
    table = realism.judged_table(windows(1, 40, 4), windows(2, 20, 4), NAMES)
    found = {row["measure"]: row for row in table}
    for critic in (
        "statistics, boosting",
        "rolls, network",
        "statistics, linear",
        "only rhythm",
        "without loudness",
    ):
        assert found[critic]["auc"] > 0.95, critic
        assert found[critic]["piece_auc"] > 0.99, critic
        assert found[critic]["low"] <= found[critic]["auc"] <= found[critic]["high"]
    for critic in (
        "only loudness",
        "only change",
        "only top",
        "control: real halves",
        "control, linear: real halves",
    ):
        assert 0.25 < found[critic]["auc"] < 0.75, critic
    assert [found["rhythm: notes"][side] for side in ("written", "real")] == pytest.approx(
        [4, 0], abs=0.5
    )
    assert table[-len(NAMES)]["measure"] == "rhythm: notes"
    assert (found["statistics, boosting"]["pieces"], found["statistics, boosting"]["windows"]) == (
        20,
        80,
    )


def test_a_critic_with_too_few_lessons_has_no_number(monkeypatch):
    monkeypatch.setattr(critics, "EPOCHS", 1)
    table = realism.judged_table(windows(1, 4, 4), windows(2, 3, 4), NAMES)
    found = {row["measure"]: row for row in table}
    boosted = ("statistics, boosting", "without loudness", "only rhythm", "control: real halves")
    assert {found[name]["auc"] for name in boosted} == {None}
    assert found["statistics, linear"]["auc"] > 0.9
    assert found["statistics, linear"]["low"] is None  # of three pieces
    shown = table_of("realism", {"models": [{"model": "toy", "table": table}]})
    assert shown.rows[0][2:4] == ["–", "–"]
    assert "the critic learned nothing from so few lessons" in " ".join(shown.caption.split())


def test_equal_music_is_not_told_apart_and_judgements_repeat(monkeypatch):
    monkeypatch.setattr(critics, "EPOCHS", 1)
    learned, judged = windows(1, 60), windows(2, 40)
    table = realism.judged_table(learned, judged, NAMES)
    assert table[0]["auc"] == pytest.approx(0.5, abs=0.12)
    assert table == realism.judged_table(learned, judged, NAMES)


def test_what_is_shown_is_judged_apart_from_takes_without_a_choice(monkeypatch):
    monkeypatch.setattr(critics, "EPOCHS", 1)
    learned, judged = windows(1, 30, 4), windows(2, 20, 4)
    number = 2 * realism.SHOWN
    real = windows(2, 20)
    shown = replace(real[real.written], take=np.full(40, number))
    both = Windows(
        **{
            name: np.concatenate([column, vars(shown)[name]])
            for name, column in vars(judged).items()
        }
    )
    table = {row["measure"]: row for row in realism.judged_table(learned, both, NAMES)}
    plain = {row["measure"]: row for row in realism.judged_table(learned, judged, NAMES)}
    assert {name: table[name] for name in plain} == plain
    assert (
        table["best of 2: statistics, boosting"]["auc"] < 0.7 < plain["statistics, boosting"]["auc"]
    )


def test_a_roll_orders_parts_by_pitch():
    score = trio([(0, 12, 40, BASS), (0, 12, 80, OTHER), (12, 3, 36, DRUMS)])
    low, tall = critics.LOWEST, critics.roll(Measured(score, 1).excerpt(0, 1))
    assert tall[0, 80 - low].nonzero()[0].tolist() == [0, 1, 2, 3]
    assert tall[1, 40 - low].nonzero()[0].tolist() == [0, 1, 2, 3]
    assert tall[3, :, 0].nonzero()[0].tolist() == [40 - low, 80 - low]
    assert tall[4].nonzero()[1].tolist() == [4]
    assert not tall[2].any()


@pytest.mark.parametrize(("control", "said"), [(0.55, False), (0.38, True)])
def test_a_table_says_if_its_control_is_far_from_chance(control: float, said: bool):
    row = dict.fromkeys(("low", "high", "piece_auc", "piece_low", "piece_high", "written", "real"))
    rows = [
        {**row, "measure": name, "auc": value, "pieces": 4, "windows": 8}
        for name, value in (("statistics, boosting", 0.9), ("control: real halves", control))
    ]
    found = table_of("realism", {"models": [{"model": "toy", "table": rows}]})
    assert ("say little" in found.caption) == said
