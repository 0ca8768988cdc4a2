"""Sequences to learn from in the second groove language: crops, and examples of each goal."""

from pathlib import Path

import numpy as np
import pytest

from tests.tokenization.grammar_cases import ids_of
from tests.tokenization.groove_2.cases import given_in
from tests.training.makers import prepared_set
from tokenization.groove.spelling import BEGIN, END
from tokenization.groove_2 import goals
from tokenization.groove_2.language import Groove2
from tokenization.groove_2.spelling import (
    AFTER,
    BAR,
    BEFORE,
    GIVEN,
    GOAL_START,
    LEFT_1,
    SEAM_1,
    VOCABULARY,
    bars_of,
    plain,
)
from tokenization.prepared import Prepared
from tokenization.score import Notes
from training.config import DataConfig
from training.data.examples import cut_groove

GROOVE = Groove2()
MANY = range(80)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepared_set(tmp_path_factory.mktemp("groove-2") / "set", "groove-2")


def nothing(random: np.random.Generator) -> np.ndarray:
    raise AssertionError("another piece was asked for")


def cuts(folder: Path, another=nothing, **changes) -> list[np.ndarray]:
    data = Prepared.open(folder)
    ids, bars = np.asarray(data.ids(0)), data.bars(0)
    config = DataConfig(**{"folder": "", "length": 120, "transpose": 0, **changes})
    return [cut_groove(GROOVE, ids, bars, config, np.random.default_rng(s), another) for s in MANY]


def whole(folder: Path) -> np.ndarray:
    return np.asarray(Prepared.open(folder).ids(0))


def test_a_crop_begins_at_a_bar_and_is_music_as_it_stands_there(folder):
    notes = GROOVE.notes(whole(folder))
    starts = set()
    for crop in cuts(folder, length=60):
        assert len(crop) == 61
        assert GROOVE.validate(crop) is None
        for start in range(bars_of(notes)):
            later = notes[notes.onset_ticks >= 48 * start]
            moved = GROOVE.spell(later.replace(onset_ticks=later.onset_ticks - 48 * start))
            if moved[:61].tolist() == crop.tolist():
                starts.add(start)
                break
        else:
            raise AssertionError("the crop starts nowhere in the piece")
    assert len(starts) > 1


def test_an_ending_is_the_end_of_the_piece_and_counts_down_to_it(folder):
    lengths = set()
    for crop in cuts(folder, endings=1.0):
        assert crop[-1] == END
        counted = crop[(crop >= LEFT_1) & (crop < SEAM_1)] - LEFT_1 + 1
        assert counted.tolist() == list(range(len(counted), 0, -1))
        assert (np.diff(np.flatnonzero(crop == BAR)[-len(counted) :]) > 1).all()
        assert plain(crop).tolist()[-20:] == whole(folder).tolist()[-20:]
        lengths.add(len(counted))
    assert len(lengths) > 2


def test_a_gap_has_what_stands_after_it_first_and_counts_to_the_seam(folder):
    lengths = set()
    for crop in cuts(folder, gaps=1.0, length=240):
        assert len(crop) <= 241
        assert crop[1] == AFTER
        assert (crop == BEFORE).sum() == 1
        seams = crop[(crop >= SEAM_1) & (crop < SEAM_1 + 16)] - SEAM_1 + 1
        assert seams.tolist() == list(range(len(seams), 0, -1))
        assert crop[-1] == END
        lengths.add(len(seams))
    assert len(lengths) > 1


def test_accompaniment_has_some_parts_given_before_each_block(folder):
    seen = set()
    for crop in cuts(folder, accompaniments=1.0, length=5000):
        who = tuple(sorted({int(t) for t in crop[GIVEN.holds(crop)] - GIVEN.start}))
        written = GROOVE.notes(plain(crop))
        # Every part is either given, be it silent, or there to be written: nothing is left to guess.
        assert {*who, *np.unique(written.track).tolist()} == {0, 1, 2}
        runs = [token for token in given_in(crop) if token < GOAL_START]
        given = GROOVE.notes(np.array([BEGIN, *runs, END]))
        assert len(given)
        notes = Notes.concatenate([given, written]).sorted()
        assert crop.tolist() == goals.accompaniment(notes, who).tolist()
        seen.add(who)
    assert len(seen) == 6  # every subset but none and all


def test_kinds_come_in_their_shares(folder):
    crops = cuts(folder, endings=0.2, gaps=0.3, accompaniments=0.5, length=5000)
    kinds = ["gap" if c[1] == AFTER else "part" if GIVEN.holds(c[1:2])[0] else "end" for c in crops]
    counts = {kind: kinds.count(kind) / len(kinds) for kind in ("end", "gap", "part")}
    assert counts == pytest.approx({"end": 0.2, "gap": 0.3, "part": 0.5}, abs=0.15)


def test_tracks_are_dropped_drums_exchanged_and_pitches_moved(folder):
    other = ids_of(GROOVE, "begin bar note_on_1_99 at_3 note_off_1_99 end")
    crops = cuts(folder, lambda random: other, mix_drums=1.0, skip_bars=False, transpose=5)
    for crop in crops:
        drums = [VOCABULARY.names[int(t)] for t in crop if "_1_" in VOCABULARY.names[int(t)]]
        assert drums[:2] == ["note_on_1_99", "note_off_1_99"]
    assert len({crop.tobytes() for crop in crops}) == 11
    silent = {tuple(np.unique(GROOVE.notes(c).track)) for c in cuts(folder, drop_track=0.5)}
    assert len(silent) > 3


@pytest.mark.parametrize(
    "shares", [{"endings": -0.1}, {"gaps": 1.5}, {"endings": 0.5, "accompaniments": 0.6}]
)
def test_shares_that_cannot_be_are_refused(shares):
    with pytest.raises(ValueError, match="they are shares, of 1 together at most"):
        DataConfig(folder="", **shares)
