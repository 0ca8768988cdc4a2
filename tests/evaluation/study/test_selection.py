"""What the model's critic chooses among several takes."""

import numpy as np

from evaluation import figures
from evaluation.study.selection import Ranked, best_and_worst
from tokenization.score import Notes, Score, Track


def take(pitch: int) -> Score:
    """A given note and a new one."""
    columns = [[0, 96], [96, 96], [60, pitch], [80, 80], [0, 0]]
    notes = Notes(*(np.array(column) for column in columns))
    return Score(ticks_per_beat=24, notes=notes, tracks=(Track(name="Piano"),))


def ranked() -> Ranked:
    found = Ranked("a piece")
    for number, rank in enumerate([(0, 0.5), (0, -1.0), (1, -2.0), (0, 0.1)]):
        found.ranks.append(rank)
        found.scores.append(take(61 + number))
        found.new.append(np.array([False, True]))
    return found


def test_a_take_with_a_fault_is_shown_as_the_worst():
    [pair] = best_and_worst({7: ranked(), 8: Ranked("without takes")})
    assert (pair["piece"], pair["of"]) == ("a piece", 4)
    assert [pair[side]["pitch"] for side in ("chosen", "left")] == [[60, 62], [60, 63]]
    assert [pair[side]["faults"] for side in ("chosen", "left")] == [0, 1]
    drawn = figures.choices({"choices": [pair]})
    titles = [axes.get_title(loc="left") for axes in drawn.axes]
    assert titles[1] == "a piece, left of 4: doubt -2.00, 1 fault"
