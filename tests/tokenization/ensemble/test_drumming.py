"""New drums prefer a backbeat, the feel of the given parts, and fills where phrases end."""

import numpy as np
import pytest

from tokenization.analysis.metres import NAMES
from tokenization.ensemble.arranging import phrases_of
from tokenization.ensemble.drumming import (
    BACKBEATS,
    COMPOUND,
    STRAIGHT,
    SWUNG,
    UNKNOWN,
    Groove,
    feel_of,
)
from tokenization.ensemble.language import Ensemble
from tokenization.ensemble.spelling import Sheet

LANGUAGE = Ensemble()
ID = LANGUAGE.vocabulary.id
FOUR, WALTZ, TWELVE = (NAMES.index(name) for name in ("4/4", "3/4", "12/8"))


def piano(*steps: int, bars: int = 4, silent: tuple[int, ...] = (), metre: str = "") -> Sheet:
    """Return bars with notes at these steps; in the `silent` ones, only at the first."""
    words = ["begin piano"]
    for bar in range(bars):
        named = f"metre_{metre}" if metre and not bar else ""
        now = steps[:1] if bar in silent else steps
        notes = " ".join(f"at_{step} length_6 loudness_8 pitch_60" for step in now)
        words.append(f"bar {named} piano {notes}")
    return LANGUAGE.sheet(np.array([ID(name) for name in " ".join([*words, "end"]).split()]))


def groove(sheet: Sheet, returns: bool = False) -> Groove:
    """Return the groove; `returns`: the second half of the bars returns to the first one."""
    bars = len(sheet.bars)
    back = np.where(np.arange(bars) >= bars // 2, bars // 2, 0) if returns else np.zeros(bars, int)
    return Groove.of(sheet, phrases_of(back))


def test_the_feel_is_that_of_the_onsets_between_the_beats():
    assert feel_of(piano(0, 12, 24, 36)) == STRAIGHT
    assert feel_of(piano(0, 16, 24, 40)) == SWUNG
    assert feel_of(piano(0, 8, 16, 24, 32, 40)) == SWUNG
    assert feel_of(piano(0, 24, 48, 72)) == UNKNOWN
    assert feel_of(piano(0, 12, 24, 40)) == UNKNOWN
    assert feel_of(piano(0, 12, 24, 36, metre="12/8")) == UNKNOWN  # the metre says it


def test_backbeats_are_on_every_second_beat_of_two_or_four():
    assert BACKBEATS[FOUR] == [24, 72]
    assert BACKBEATS[TWELVE] == [36, 108]
    assert BACKBEATS[WALTZ] == []
    assert [name for name, compound in zip(NAMES, COMPOUND, strict=True) if compound] == [
        "6/8", "9/8", "12/8", "3/8",
    ]  # fmt: skip


def test_a_snare_is_preferred_on_the_backbeat_and_nothing_skips_it():
    found = groove(piano(0, 12)).bias(0, FOUR, 0, placing=True, struck=False)
    assert found[ID("at_24")] == found[ID("at_12")] == 0 > found[ID("at_36")]
    assert found[ID("bar")] < 0 > found[ID("piano")]
    here = groove(piano(0, 12)).bias(0, FOUR, 24, placing=True, struck=False)
    assert here[ID("drum_38")] > 0 > here[ID("at_48")]
    assert here[ID("drum_36")] == 0 > here[ID("drum_56")]  # a cowbell
    assert found[ID("drum_36")] > 0
    assert found[ID("drum_42")] > 0 > found[ID("drum_46")]  # closed, not open hats
    done = groove(piano(0, 12)).bias(0, FOUR, 72, placing=True, struck=True)
    assert done[ID("at_84")] == done[ID("bar")] == done[ID("drum_38")] == 0
    waltz = groove(piano(0, 12, metre="3/4")).bias(0, WALTZ, 24, placing=True, struck=False)
    assert not waltz[ID("drum_38")]
    swung = groove(piano(0, 16, 24, 40)).bias(0, FOUR, 24, placing=False, struck=False)
    assert swung[ID("drum_44")] > here[ID("drum_44")]


@pytest.mark.parametrize(
    ("steps", "metre", "kept", "avoided"),
    [((0, 12), FOUR, (6, 12), 16), ((0, 16), FOUR, (8, 16), 12), ((0, 24), FOUR, (12, 16), None)],
)
def test_onsets_follow_the_feel(steps, metre, kept, avoided):
    found = groove(piano(*steps, bars=8)).bias(0, metre, 0, placing=True, struck=False)
    assert all(found[ID(f"at_{step}")] == 0 for step in kept)
    assert avoided is None or found[ID(f"at_{avoided}")] < 0


def test_drums_need_no_third_hand():
    free, busy = (
        groove(piano(0, 48, bars=8)).bias(7, FOUR, 60, placing=False, struck=True, hands=hands)
        for hands in (1, 2)
    )
    assert free[ID("drum_47")] > 0 > busy[ID("drum_47")]
    assert busy[ID("drum_36")] == free[ID("drum_36")]
    assert busy[ID("drum_44")] == free[ID("drum_44")]


def test_fills_end_phrases_sections_and_bars_in_which_the_given_parts_rest():
    assert np.flatnonzero(groove(piano(0, 48, bars=16)).fills).tolist() == [7, 15]
    assert np.flatnonzero(groove(piano(0, 48, bars=12), returns=True).fills).tolist() == [5, 11]
    rests = groove(piano(0, 48, bars=8, silent=(3, 5))).fills
    assert np.flatnonzero(rests).tolist() == [3, 7]


def test_a_fill_has_toms_in_its_last_half_and_a_crash_after_it():
    band = groove(piano(0, 48, bars=16))
    late, early, before = (
        band.bias(bar, FOUR, at, placing=False, struck=True)[ID("drum_47")]
        for bar, at in ((7, 60), (7, 12), (6, 60))
    )
    assert late > 0 > early == before
    assert band.bias(8, FOUR, 0, placing=False, struck=False)[ID("drum_49")] > 0
    assert not band.bias(8, FOUR, 12, placing=False, struck=False)[ID("drum_49")]
    assert not band.bias(0, FOUR, 0, placing=False, struck=False)[ID("drum_49")]
    assert not band.bias(99, FOUR, 0, placing=False, struck=False).any()  # after the given parts
