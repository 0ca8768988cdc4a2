"""Examples in which a part's own bars stand at wrong pitches: what is moved, and that it is seen and not learned."""

import numpy as np
import pytest
import torch

from tests.tokenization.groove.cases import trio_of
from tests.training.data.test_groove_examples import cuts
from tests.training.makers import prepared_set
from tokenization.groove.tokens import BAR_TICKS, BASS, DRUMS, NOTE_ON, OTHER, PITCHES
from tokenization.groove_2 import layouts
from tokenization.groove_2.language import Groove2
from tokenization.groove_2.spelling import plain
from tokenization.groove_2.tokens import GIVEN
from tokenization.score import Notes
from training.config import DataConfig
from training.data.misled import misled_accompaniment
from training.loss import learned, seen

GROOVE = Groove2()
BARS = 16


def music(*more: tuple[int, int, int, int, int]) -> Notes:
    """Return a bass of four notes a bar, a chord a bar, a drum, and more (onset, duration, pitch, velocity, track)."""
    notes = [(n * BAR_TICKS, 4, 36, 0, DRUMS) for n in range(BARS)]
    notes += [(12 * n, 11, 36 + n % 4, 0, BASS) for n in range(4 * BARS)]
    notes += [(n * BAR_TICKS, 40, p, 0, OTHER) for n in range(BARS) for p in (60, 64, 67)]
    return trio_of([*notes, *more]).notes.sorted()


def example(notes: Notes, given: list[int], seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return an example as a model sees it, and which of its tokens are not learned."""
    tokens = misled_accompaniment(notes, given, np.random.default_rng(seed))
    row = torch.from_numpy(tokens.astype(np.int64))
    return seen(row).numpy(), learned(row).numpy() < 0


@pytest.mark.parametrize("given", [[DRUMS, OTHER], [OTHER], [DRUMS, BASS], [BASS]])
def test_whole_bars_of_written_pitched_parts_are_moved_and_all_else_stands(given: list[int]):
    notes, moved_bars = music(), 0
    for seed in range(10):
        ids, _ = example(notes, given, seed)
        found, true = GROOVE.notes(plain(ids)), notes[~np.isin(notes.track, given)]
        assert (found.onset_ticks == true.onset_ticks).all()
        assert (found.track == true.track).all()
        for bar in range(BARS):
            inside = true.onset_ticks // BAR_TICKS == bar
            pitched = inside & (true.track != DRUMS)
            [by] = {*(found.pitch - true.pitch)[pitched].tolist()}
            assert abs(by) <= 6
            moved_bars += by != 0
            assert (found.pitch == true.pitch)[inside & (true.track == DRUMS)].all()
    assert 0.3 < moved_bars / (10 * BARS) < 0.7
    wanted = layouts.accompaniment(notes, given)
    others = ~NOTE_ON.holds(wanted) & (wanted < NOTE_ON.start)
    assert (ids[others] == wanted[others]).all()


def test_notes_of_moved_bars_are_not_learned_and_all_other_tokens_are():
    notes = music()
    ids, shown = example(notes, [DRUMS, OTHER])
    right = layouts.accompaniment(notes, [DRUMS, OTHER])
    bass = NOTE_ON.holds(ids) & ((ids - NOTE_ON.start) // PITCHES == BASS)
    assert shown.any()
    assert (shown <= bass).all()
    assert (ids[bass] != right[bass]).tolist() == shown[bass].tolist()


def test_where_nothing_given_tells_what_is_right_all_is_as_it_was():
    for given in ([DRUMS], [BASS, OTHER]):
        ids, shown = example(music(), given)
        assert not shown.any()
        assert ids.tolist() == layouts.accompaniment(music(), given).tolist()


def test_a_bar_is_not_moved_onto_a_key_that_sounds():
    held = [(0, BARS * BAR_TICKS, pitch, 0, BASS) for pitch in (30, 44)]
    notes = music(*held)
    bass, moved = notes[notes.track == BASS], False
    for seed in range(20):
        ids, _ = example(notes, [DRUMS, OTHER], seed)
        found = GROOVE.notes(plain(ids))
        for heard in ("onset_ticks", "duration_ticks"):
            assert sorted(getattr(found, heard)) == sorted(getattr(bass, heard))
        moved |= sorted(found.pitch) != sorted(bass.pitch)
    assert moved


def test_accompaniments_are_misled_by_their_share(tmp_path):
    folder = prepared_set(tmp_path / "set", "groove-2")
    never, at_times = (
        [(crop < 0).any() for crop in cuts(folder, accompaniments=1.0, length=5000, misled=share)]
        for share in (0.0, 1.0)
    )
    assert not any(never)
    assert (
        0.2 < np.mean(at_times) < 0.9
    )  # two of six ways to give parts have no pitched one on either side
    for crop in cuts(folder, accompaniments=1.0, length=5000, misled=1.0):
        assert GIVEN.holds(np.asarray(crop)[1:2])[0]
    with pytest.raises(ValueError, match="misled is"):
        DataConfig(folder="", misled=1.5)
