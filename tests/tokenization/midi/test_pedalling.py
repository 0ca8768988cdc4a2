"""The pedal of a continuation goes on as before."""

import numpy as np

from tokenization.midi.pedalling import continued, released

BEAT = 480
BAR = 4 * BEAT
LINES = BAR * np.arange(13)
GIVEN = 4  # bars
NO_CHANGES = np.zeros(0, np.int64)


def spans(*rows):
    return tuple(np.array(column, np.int64) for column in zip(*rows, strict=True))


def test_each_new_bar_has_the_presses_of_the_given_bar_at_its_place():
    given = spans((0, 900), (BAR + 100, BAR + 1800), (3 * BAR, 4 * BAR))
    found = continued(given, LINES, GIVEN, NO_CHANGES, BEAT)
    for start in (4 * BAR, 8 * BAR):
        assert start + 100 + BAR in found[0]
        assert start + 3 * BAR in found[0]
    assert len(found[0]) == 6
    assert (found[0] < found[1]).all()
    assert (found[1][:-1] <= found[0][1:]).all()


def test_a_pedal_that_follows_chords_is_released_where_they_change():
    given = spans(*((bar * BAR + 40, (bar + 1) * BAR) for bar in range(GIVEN)))
    changes = np.array([*(bar * BAR for bar in range(GIVEN)), 5 * BAR + 2 * BEAT])
    down, up = continued(given, LINES, GIVEN, changes, BEAT)
    assert changes[-1] in up
    assert not ((down < changes[-1]) & (up > changes[-1])).any()


def test_a_pedal_held_over_changes_is_held_on():
    given = spans((0, 4 * BAR))
    changes = BAR * np.arange(12)
    down, up = continued(given, LINES, GIVEN, changes, BEAT)
    assert len(down) == len(up) == 2


def test_keys_under_the_pedal_are_released_as_early_as_given_ones():
    onset, end = np.array([0, BAR]), np.array([BAR, 2 * BAR])
    given = np.array([BEAT // 2, BEAT]), np.array([BAR, BEAT])
    found = released(onset, end, spans((100, BAR)), given)
    assert found.tolist() == [BEAT // 2, 2 * BAR]
