"""The sustain pedal: notes made as long as they sound."""

from __future__ import annotations

import numpy as np

from tokenization.score import Pedals, Score


def sustained(score: Score) -> Score:
    """Lengthen notes whose key is let go while their track's pedal is down.

    They last until the pedal comes up, or until the same key of the track is struck again. Drums
    stay as they are. The pedals are spent: the result has none.
    """
    notes = score.notes
    if not len(score.pedals) or not len(notes):
        return score.replace(pedals=Pedals.empty())
    reach_ticks = 1 + int(
        max(notes.end_ticks.max(), (score.pedals.onset_ticks + score.pedals.duration_ticks).max())
    )
    # One time line for all tracks, one after the other: a note is sought in the spans of all.
    offset = notes.track * reach_ticks
    pressed = score.pedals.onset_ticks + score.pedals.track * reach_ticks
    down, up = united(pressed, pressed + score.pedals.duration_ticks)
    end = notes.end_ticks + offset
    span = np.searchsorted(down, end, side="left") - 1  # the last pressed before the key's release
    held = (span >= 0) & (up[span] > end)
    held &= ~score.on_drums
    sounding = np.minimum(up[span] - offset, _next_strike(score))
    end_ticks = np.where(held, np.maximum(sounding, notes.end_ticks), notes.end_ticks)
    return score.replace(
        notes=notes.replace(duration_ticks=end_ticks - notes.onset_ticks), pedals=Pedals.empty()
    )


def united(start: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return where the spans of a pedal start and end, in order, overlapping ones as one.

    A pedal lifted and pressed again on one tick has been up.
    """
    order = np.argsort(start, kind="stable")
    start, end = start[order], np.maximum.accumulate(end[order])
    first = np.append(True, start[1:] >= end[:-1])[: len(start)]
    return start[first], end[np.append(first[1:], True)[: len(start)]]


def _next_strike(score: Score) -> np.ndarray:
    """Return for each note when its key is next struck on its track, or a time after the end."""
    notes = score.notes
    order = np.lexsort((notes.onset_ticks, notes.pitch, notes.track))
    onset, pitch, track = notes.onset_ticks[order], notes.pitch[order], notes.track[order]
    # Equal onsets of a key are one strike; the next one is where the following group starts.
    key_changes = (np.diff(pitch) != 0) | (np.diff(track) != 0)
    group = np.append(0, np.cumsum(key_changes | (np.diff(onset) != 0)))
    first = np.append(0, np.flatnonzero(np.diff(group)) + 1)
    after = np.append(first[1:], -1)[group]  # the first note of the next group, of any key
    same_key = (after >= 0) & (pitch[after] == pitch) & (track[after] == track)
    result = np.empty_like(onset)
    result[order] = np.where(same_key, onset[after], np.iinfo(np.int64).max)
    return result
