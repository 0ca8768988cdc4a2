"""What the page's piano roll draws, as plain data: notes, tracks, tempo, chords and the lines across it."""

from __future__ import annotations

from typing import Any

import numpy as np

from tokenization.language import Language
from tokenization.metres import usual_bar_ticks
from tokenization.score import Score


def picture(
    score: Score, *, prompt_bars: int = 0, bars: int = 0, trained_bars: float | None = None
) -> dict[str, Any]:
    """Return a score as the roll draws it, `bars` wide at least.

    Notes are one string of onset, duration, pitch, velocity and track: as music is added at its
    end, only what is new goes to the browser.
    """
    bar_ticks = usual_bar_ticks(score)
    return {
        "notes": notes_text(score),
        "count": len(score.notes),
        "tracks": [
            {"name": track.name or ("Drums" if track.is_drum else "Track"), "drum": track.is_drum}
            for track in score.tracks
        ],
        "tempos": [
            [int(tick), round(float(tempo), 3)]
            for tick, tempo in zip(*score.tempos.columns, strict=True)
        ],
        "chords": [[marker.onset_ticks, chord_sign(marker.text)] for marker in score.markers],
        "ticksPerBeat": score.ticks_per_beat,
        "barTicks": bar_ticks,
        "endTicks": score.end_ticks,
        "bars": max(bars, -(-score.end_ticks // bar_ticks), 1),
        "promptBars": prompt_bars,
        "trainedBars": trained_bars,
    }


def notes_text(score: Score) -> str:
    """Return the notes in the order of their onsets: `onset,duration,pitch,velocity,track;` each."""
    rows = np.stack(score.notes.columns, axis=-1).tolist() if len(score.notes) else []
    return "".join(f"{onset},{length},{pitch},{velocity},{track};"
                   for onset, length, pitch, velocity, track in rows)  # fmt: skip


def chord_sign(name: str) -> str:
    """Return a chord as musicians write it: `A#_m7` as A♯m7, nothing for no chord."""
    root, _, quality = name.partition("_")
    if not quality or quality == "N":
        return "" if root == "N" else name
    signs = {"M": "", "o": "°", "o7": "°7", "/o7": "ø7", "M7": "maj7"}
    return root.replace("#", "♯") + signs.get(quality, quality)


def trained_bars(language: Language, ids: np.ndarray, trained_length: int) -> float | None:
    """Return after how many bars these tokens pass the length of the training's sequences."""
    if not 0 < trained_length < len(ids):
        return None
    starts = np.append(language.bars(ids), len(ids))
    bar = int(np.searchsorted(starts, trained_length, side="right")) - 1
    if bar < 0:
        return 0.0
    return bar + float((trained_length - starts[bar]) / max(1, starts[bar + 1] - starts[bar]))
