"""How a given piece is played, for notes that are written to it: velocities and durations finer than a language's.

A language rounds velocities to a few levels and durations to note values. A new note of a part takes the exact velocity
of a given note of that part with the same level, and the exact duration, if shorter, of one with the same note value.
Which one depends on the note and the seed alone, so that a note stays the same while others are written.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tokenization.score import Score, cut_at_next_strike

_MIX = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9], np.uint64)  # odd


@dataclass(frozen=True, kw_only=True, eq=False)
class Playing:
    """The given notes as heard and as played, in ticks of the heard score: (N,) each."""

    onset: np.ndarray
    track: np.ndarray
    heard: tuple[np.ndarray, np.ndarray]  # velocities and durations
    exact: tuple[np.ndarray, np.ndarray]

    def before(self, ticks: int) -> Playing:
        """Return the playing of the notes before a tick."""
        own = self.onset < ticks
        heard, exact = ((both[0][own], both[1][own]) for both in (self.heard, self.exact))
        return Playing(onset=self.onset[own], track=self.track[own], heard=heard, exact=exact)

    def apply(self, score: Score, is_new: np.ndarray, seed: int) -> Score:
        """Return a score whose new notes, (N,) bool, are played like the given ones."""
        notes = score.notes
        velocity, duration = notes.velocity.copy(), notes.duration_ticks.copy()
        with np.errstate(over="ignore"):
            place = np.stack([notes.onset_ticks, notes.pitch, notes.track]).astype(
                np.uint64
            ) + np.uint64(1)
            mixed = (place * _MIX[:, None]).sum(0, dtype=np.uint64) + np.uint64(seed)
        for track in np.unique(self.track).tolist():
            new = np.flatnonzero(is_new & (notes.track == track))
            own = self.track == track
            for side, (column, turn) in enumerate(((velocity, 1), (duration, 2))):
                heard, exact = self.heard[side][own], self.exact[side][own]
                order = np.lexsort((exact, heard))
                first, last = (
                    np.searchsorted(heard[order], column[new], side=where)
                    for where in ("left", "right")
                )
                known = last > first
                chosen = _scattered(mixed[new], turn) % np.maximum(last - first, 1)
                column[new[known]] = exact[order][(first + chosen)[known]]
        duration = np.where(score.on_drums, notes.duration_ticks, duration)
        shorter = np.minimum(duration, notes.duration_ticks)
        return score.replace(notes=notes.replace(velocity=velocity, duration_ticks=shorter))


def _scattered(mixed: np.ndarray, turn: int) -> np.ndarray:
    """Return numbers without visible order, another for each turn: (N,)."""
    with np.errstate(over="ignore"):
        for _ in range(turn + 1):
            mixed = (mixed ^ (mixed >> np.uint64(31))) * _MIX[0]
    return (mixed >> np.uint64(40)).astype(np.int64)


def playing_of(played: Score, heard: Score, steps_per_beat: int) -> Playing:
    """Return how the notes of a score were played, where they are found in the score as heard.

    `steps_per_beat` are those to which the onsets were rounded.
    """
    exact, notes = cut_at_next_strike(played).notes, heard.notes
    step = heard.ticks_per_beat // steps_per_beat
    scale = heard.ticks_per_beat / played.ticks_per_beat
    onset = np.floor(exact.onset_ticks * scale / step + 0.5).astype(np.int64) * step
    width = 128 * (1 + int(notes.track.max(initial=0)))

    def places(onset: np.ndarray, track: np.ndarray, pitch: np.ndarray) -> np.ndarray:
        return (onset * width + track * 128) + pitch

    _, at, found = np.intersect1d(
        places(onset, exact.track, exact.pitch), places(notes.onset_ticks, notes.track, notes.pitch),
        return_indices=True,
    )  # fmt: skip
    duration = np.maximum(np.floor(exact.duration_ticks[at] * scale + 0.5), 1).astype(np.int64)
    return Playing(
        onset=notes.onset_ticks[found],
        track=notes.track[found],
        heard=(notes.velocity[found], notes.duration_ticks[found]),
        exact=(exact.velocity[at], duration),
    )
