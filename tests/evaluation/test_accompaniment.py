"""Accompaniment: hidden parts are generated again, and compared with the true ones and with references."""

import numpy as np
import pytest

from evaluation.study.accompaniment import compared, hidden_parts, part_of, with_chords_of_others
from evaluation.study.piece_jobs import estimates
from tests.evaluation.scores import trio
from tokenization.groove.spelling import BASS, DRUMS, OTHER
from tokenization.language import language
from tokenization.score import Score

BEATS = [(12 * n, 2, 36, DRUMS) for n in range(8)]
LINE = [(24 * n, 12, 40 + n, BASS) for n in range(4)]


def music(*notes: tuple[int, int, int, int]) -> Score:
    return trio(notes)


PIECE, DRUMMED = music(*BEATS, *LINE), music(*BEATS)


def test_the_busiest_part_of_each_role_is_hidden_if_another_part_plays():
    assert hidden_parts(DRUMMED) == {}  # no other part plays
    assert hidden_parts(PIECE) == {"bass": BASS, "drums": DRUMS}
    two_basses = PIECE.replace(tracks=tuple(PIECE.tracks[track] for track in (BASS, DRUMS, BASS)))
    more = music(*BEATS, *LINE, *((12 * n, 6, 45, OTHER) for n in range(6)))
    assert hidden_parts(more.replace(tracks=two_basses.tracks))["bass"] == OTHER


def compare(piece: Score, track: int, others: dict[str, Score | None]) -> dict[str, dict]:
    """Return the comparison with the same track of other scores in two bars, by measure."""
    parts = {name: part_of(score, track) for name, score in others.items()}
    return {row.pop("measure"): row for row in compared(piece, track, 2, parts)}


def test_likeness_compares_only_the_hidden_part():
    off = music(*((12 * n + 6, 2, 36, DRUMS) for n in range(8)))
    rows = compare(PIECE, DRUMS, {"a": DRUMMED, "b": off, "c": None})
    assert [*rows] == ["onset_drum", "notes_a_bar", "sounding"]
    assert rows["onset_drum"] == {"real": None, "a": pytest.approx(1), "b": 0, "c": None}
    others = {"a": PIECE, "written": DRUMMED, "same": DRUMMED}  # a silent generated part has 0
    rows = compare(PIECE, BASS, others)
    for metric in ("onset_duration", "time_pitch"):
        assert rows[metric].items() >= {"written": 0, "same": None}.items()
        assert rows[metric]["a"] == pytest.approx(1)
    held = music(*BEATS, (0, 96, 40, BASS))  # longer than any bin of the profile
    rows = compare(held, BASS, {"written": PIECE})
    assert [rows[metric]["written"] for metric in ("onset_duration", "time_pitch")] == [None, None]


def test_each_style_counts_once_and_is_compared_with_another_piece():
    def row(style: int, written: float, same: float | None) -> dict:
        shared = {"piece": "", "measure": "drums: onset–drum", "style": style}
        return {**shared, "written": written, "next": 1.0, "same": same, "other": None}

    [found] = estimates([row(1, 0.2, 0.4), row(1, 0.6, 0.3), row(2, 0.8, 0.9), row(3, 0.5, None)])
    assert (found["pieces"], found["written"]["n"]) == (4, 3)
    assert found["written"]["mean"] == pytest.approx((0.4 + 0.8 + 0.5) / 3)
    assert (found["above_same"], found["of"]) == (1, 2)
    assert (found["other"]["mean"], found["other"]["missing"]) == (None, 3)


def test_chords_can_be_recognised_without_the_hidden_part():
    ensemble = language("ensemble")
    fifths = [(at, 48, pitch, OTHER) for at in (0, 48) for pitch in (60, 67)]
    thirds = [(0, 48, 40, BASS), (48, 48, 39, BASS)]  # C major, C minor
    piece = ensemble.arrange(music(*fifths, *thirds))
    assert {"C_M", "C_m"} <= {marker.text for marker in piece.markers}
    bass = next(n for n, track in enumerate(piece.tracks) if track.program in range(32, 40))
    heard = with_chords_of_others(piece, bass)
    assert len({marker.text for marker in heard.markers}) == 1  # the other parts repeat themselves
    assert heard.notes == piece.notes
    alone = with_chords_of_others(ensemble.arrange(music(*BEATS, *LINE)), 0)
    assert len(alone.markers) == 1


def test_harmony_is_the_fraction_of_chord_tones():
    chord_of = {0: (60, 64, 67), 48: (62, 65, 69), 96: (59, 62, 67), 144: (60, 64, 67)}  # C Dm G C
    chords = [(at, 48, pitch, OTHER) for at, pitches in chord_of.items() for pitch in pitches]
    roots = [(at, 48, pitch, BASS) for at, pitch in zip(chord_of, (36, 38, 31, 36), strict=True)]
    piece = music(*chords, *roots)
    pedal = music(*((at, 48, 36, BASS) for at in chord_of))
    rows = compare(piece, BASS, {"written": pedal, "same": piece, "other": None})
    assert rows["in_harmony"] == {"real": 1, "written": 0.5, "same": 1, "other": None}
    rows = compare(DRUMMED, OTHER, {"written": piece})  # no pitched notes
    assert rows["in_harmony"] == {"real": None, "written": None}


def test_density_counts_notes_per_bar_and_sounding_notes():
    drone = music(*BEATS, (0, 96, 40, BASS), (0, 96, 47, BASS))
    rows = compare(PIECE, BASS, {"written": drone, "next": None, "same": DRUMMED})
    rest = {"next": None, "same": 0}
    assert rows["notes_a_bar"] == {"real": 4 / 2, "written": 1, **rest}
    assert rows["sounding"] == {"real": 4 * 12 / 96, "written": 2, **rest}


def test_the_measures_of_streammuse():
    """The expected values were computed by hand from the definitions of StreamMUSE's evaluator."""
    melody = [(0, 24, 72, OTHER), (24, 24, 74, OTHER), (48, 48, 76, OTHER)]
    piece = music(*melody, (0, 24, 48, BASS), (24, 72, 40, BASS))
    written = music((0, 24, 48, BASS), (48, 12, 49, BASS))  # a quarter of the time has no bass
    rows = compare(piece, BASS, {"written": written, "same": None, "other": DRUMMED})
    half_alike = 2 * 0.25 * np.log(2)  # one of two notes is the same
    for metric in ("pitch_divergence", "onset_divergence"):
        assert rows[metric]["written"] == pytest.approx(half_alike)
        assert rows[metric]["same"] is None
        assert rows[metric]["other"] == pytest.approx(np.log(2))
    consonant, unsupported = rows["consonant"], rows["unsupported"]
    assert (consonant["real"], unsupported["real"]) == (0.75, 0)  # D over E is a seventh
    assert (consonant["written"], unsupported["written"]) == (0.75, 0.25)
