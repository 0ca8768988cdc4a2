"""A trio on the groove grid: rounding there, and what the tokens leave unsaid."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tokenization.analysis.beats import DEFAULT_BEATS_PER_MINUTE, tempo_map
from tokenization.analysis.grid import FOUR_FOUR
from tokenization.groove.events import earlier_equals, notes_of_keys
from tokenization.groove.tokens import DRUMS, KEYS, MOST_UNISONS, PITCHES, TICKS_PER_BEAT, TRACKS
from tokenization.score import Notes, Score, Tempos, Track, steps_of

MOST_BEATS = 1 << 18  # a rest costs a token every two beats; longer than any music we know of


@dataclass(frozen=True, kw_only=True)
class Band:
    """What goes beside the tokens: instruments and loudness of the tracks, and the tempo."""

    programs: tuple[int, int, int] = (33, 0, 0)  # finger bass, standard kit, grand piano
    velocities: tuple[int, int, int] = (90, 90, 75)
    beats_per_minute: float = DEFAULT_BEATS_PER_MINUTE

    def __post_init__(self) -> None:
        playable = all(0 <= program <= 127 for program in self.programs)
        audible = all(1 <= velocity <= 127 for velocity in self.velocities)
        if not (playable and audible and 0 < self.beats_per_minute < np.inf):
            raise ValueError(
                "a band has programs of 0 to 127, velocities of 1 to 127 and a tempo above 0, "
                f"but got {self}"
            )

    def score(self, notes: Notes) -> Score:
        """Return the trio that plays these notes, whatever velocity they name."""
        return Score(
            ticks_per_beat=TICKS_PER_BEAT,
            notes=notes.replace(velocity=np.array(self.velocities)[notes.track]),
            tracks=tuple(
                Track(name, program, index == DRUMS)
                for index, (name, program) in enumerate(zip(TRACKS, self.programs, strict=True))
            ),
            tempos=Tempos(np.array([0]), np.array([self.beats_per_minute])),
            meters=FOUR_FOUR,
        )


DEFAULT_BAND = Band()


def band_of(score: Score) -> Band:
    """Return the programs and mean velocities of a trio's tracks, and its mean tempo."""
    notes, tracks = score.notes, score.tracks
    count = np.bincount(notes.track, minlength=len(TRACKS))
    total = np.bincount(notes.track, weights=notes.velocity, minlength=len(TRACKS))
    mean = np.rint(total / np.maximum(count, 1)).astype(np.int64).clip(1, 127)
    bass, drums, other = np.where(count > 0, mean, DEFAULT_BAND.velocities).tolist()
    return Band(
        programs=(tracks[0].program, tracks[1].program, tracks[2].program),
        velocities=(bass, drums, other),
        beats_per_minute=_mean_tempo(score),
    )


def _mean_tempo(score: Score) -> float:
    """Return the one tempo at which the piece takes as long as at its own."""
    beats = max(score.end_ticks, 1) / score.ticks_per_beat
    seconds = float(tempo_map(score).to_seconds(np.array(beats)))
    return round(60 * beats / seconds, 6)  # 120 shall stay 120


def grid(score: Score) -> tuple[Notes, dict[str, int]]:
    """Round a trio's notes; also count the notes that are dropped or changed beyond that.

    No note gets shorter than a tick. Of the notes that sound on one key the first one ends first.
    """
    _check(score)
    onset, end = (
        steps_of(ticks, score.ticks_per_beat, TICKS_PER_BEAT)
        for ticks in (score.notes.onset_ticks, score.notes.end_ticks)
    )
    end = np.maximum(end, onset + 1)
    key = score.notes.track * PITCHES + score.notes.pitch

    longest_first = np.argsort(-end, kind="stable")
    kept = longest_first[earlier_equals((onset * KEYS + key)[longest_first]) < MOST_UNISONS]
    order = kept[np.lexsort((end[kept], onset[kept], key[kept]))]
    onset, end, key = onset[order], end[order], key[order]
    in_order = end[np.lexsort((end, key))]
    room = _end_of_room(onset, key)

    losses = {
        "struck more than 8 times at once": len(score.notes) - len(kept),
        "cut where the 8th note after it is struck": int((in_order > room).sum()),
        "overlapping on one pitch, closed first-in first-out": int((in_order != end).sum()),
    }
    notes = notes_of_keys(onset, np.minimum(in_order, room), key)
    return notes, {reason: count for reason, count in losses.items() if count}


def _end_of_room(onset: np.ndarray, key: np.ndarray) -> np.ndarray:
    """Return when each note must end, lest too many of its key sound; notes are sorted by key."""
    room = np.full_like(onset, np.iinfo(np.int64).max)
    same_key = key[:-MOST_UNISONS] == key[MOST_UNISONS:]
    room[:-MOST_UNISONS][same_key] = onset[MOST_UNISONS:][same_key]
    return room


def _check(score: Score) -> None:
    notes = score.notes
    if len(score.tracks) != len(TRACKS):
        raise ValueError(
            f"the groove language needs the three tracks {', '.join(TRACKS)}, "
            f"but the score has {len(score.tracks)}; arrange it first"
        )
    if not len(notes):
        raise ValueError("there is nothing to spell: the score has no notes")
    if notes.pitch.min() < 0 or notes.pitch.max() >= PITCHES:
        raise ValueError(
            f"pitches go from 0 to {PITCHES - 1}, "
            f"but the score's go from {notes.pitch.min()} to {notes.pitch.max()}"
        )
    if notes.onset_ticks.min() < 0:
        raise ValueError(
            f"the first note lies {-notes.onset_ticks.min()} ticks before the first bar; "
            "move the score to start at tick 0 or later"
        )
    beats = score.end_ticks // score.ticks_per_beat
    if beats > MOST_BEATS:
        raise ValueError(f"the score lasts {beats} beats; at most {MOST_BEATS} can be spelled")
